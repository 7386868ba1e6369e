// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Signatures and attestations by `cosign`: with a key from a file, or keyless in hosted CI, where the identity is the
//! workflow's. What was signed is verified by the same program, in the same run. Sees no private key.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sh::Step;

/// Who issues the identities of hosted CI.
pub(crate) const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// With what is signed.
#[derive(Debug, Clone)]
pub(crate) enum Means {
    /// A private key in a file, its password in `COSIGN_PASSWORD`; nothing goes to a transparency log.
    Key { private: PathBuf, public: PathBuf },
    /// A certificate for this identity, which is the URL of a workflow at a ref; recorded in the public log.
    Keyless { identity: String },
}

/// A statement that is signed about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The image, by digest.
    pub(crate) subject: String,
    /// As cosign calls it, such as `cyclonedx`.
    pub(crate) kind: &'static str,
    /// JSON.
    pub(crate) predicate: Vec<u8>,
}

/// The program with its means.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    cosign: PathBuf,
    means: Means,
    env: Vec<(String, OsString)>,
}

/// Names no service: nothing is sent to a log or a timestamp authority.
const NO_SERVICES: &str = r#"{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","caUrls":[],"oidcUrls":[],"rekorTlogUrls":[],"rekorTlogConfig":{},"tsaUrls":[],"tsaConfig":{}}"#;
/// Names no authority: what is verified is verified with a key.
const NO_ROOTS: &str = r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#;

impl Signer {
    pub(crate) fn new(cosign: PathBuf, means: Means, env: Vec<(String, OsString)>) -> Self {
        Self { cosign, means, env }
    }

    /// Makes the public key of a private one, beside which it is not looked for.
    pub(crate) fn public_key(
        cosign: &Path,
        private: &Path,
        public: &Path,
        env: &[(String, OsString)],
    ) -> Result<()> {
        let step = env.iter().fold(Step::new(cosign), |step, (name, value)| step.env(name, value));
        let said = step.args(["public-key", "--key"]).arg(private).read().with_context(|| {
            format!("read the key {}; its password is taken from COSIGN_PASSWORD", private.display())
        })?;
        std::fs::write(public, said).with_context(|| format!("write {}", public.display()))
    }

    fn cosign(&self) -> Step {
        self.env.iter().fold(Step::new(&self.cosign), |step, (name, value)| step.env(name, value))
    }

    /// Signs an image, named by digest, with all architectures under it.
    pub(crate) fn sign(&self, reference: &str) -> Result<()> {
        self.signing(&["sign", "--yes", "--recursive"], |step| step.arg(reference))
            .with_context(|| format!("sign {reference}"))
    }

    /// Signs a statement about an image.
    pub(crate) fn attest(&self, statement: &Statement) -> Result<()> {
        let Statement { subject, kind, predicate } = statement;
        let mut file = tempfile::NamedTempFile::new().context("make a file for a statement")?;
        std::io::Write::write_all(&mut file, predicate).context("write a statement")?;
        self.signing(&["attest", "--yes", "--type", kind], |step| {
            step.arg("--predicate").arg(file.path()).arg(subject)
        })
        .with_context(|| format!("attest the {kind} of {subject}"))
    }

    /// Signs a file; the signature goes to another.
    pub(crate) fn sign_file(&self, file: &Path, signature: &Path) -> Result<()> {
        let new = signature.with_extension("new");
        self.signing(&["sign-blob", "--yes"], |step| step.arg("--bundle").arg(&new).arg(file))
            .with_context(|| format!("sign {}", file.display()))?;
        std::fs::rename(&new, signature).with_context(|| format!("rename to {}", signature.display()))
    }

    /// Whether an image bears a good signature.
    pub(crate) fn verify(&self, reference: &str) -> Result<()> {
        self.verifying(&["verify"], |step| step.arg(reference)).with_context(|| format!("verify {reference}"))
    }

    /// Whether a statement of this kind about an image bears a good signature.
    pub(crate) fn verify_statement(&self, statement: &Statement) -> Result<()> {
        let Statement { subject, kind, .. } = statement;
        self.verifying(&["verify-attestation", "--type", kind], |step| step.arg(subject))
            .with_context(|| format!("verify the {kind} of {subject}"))
    }

    /// Whether a file is what was signed.
    pub(crate) fn verify_file(&self, file: &Path, signature: &Path) -> Result<()> {
        self.verifying(&["verify-blob"], |step| step.arg("--bundle").arg(signature).arg(file))
            .with_context(|| format!("verify {}", file.display()))
    }

    /// The words with which anybody verifies `what`, such as `verify IMAGE`.
    pub(crate) fn how(&self, verb: &str, what: &str) -> String {
        match &self.means {
            Means::Key { .. } => format!("cosign {verb} --key cosign.pub --insecure-ignore-tlog {what}"),
            Means::Keyless { identity } => format!(
                "cosign {verb} --certificate-identity {identity} --certificate-oidc-issuer {ISSUER} {what}"
            ),
        }
    }

    fn signing(&self, words: &[&str], rest: impl Fn(Step) -> Step) -> Result<()> {
        let step = self.cosign().args(words);
        let (_kept, step) = match &self.means {
            Means::Key { private, .. } => {
                let (folder, services, roots) = alone()?;
                let step = step.arg("--key").arg(private).arg("--signing-config").arg(services);
                (Some(folder), step.arg("--trusted-root").arg(roots))
            }
            Means::Keyless { .. } => (None, step),
        };
        rest(step).read().map(drop)
    }

    fn verifying(&self, words: &[&str], rest: impl Fn(Step) -> Step) -> Result<()> {
        let step = self.cosign().args(words);
        let (_kept, step) = match &self.means {
            Means::Key { public, .. } => {
                let (folder, _, roots) = alone()?;
                let step = step.arg("--key").arg(public).arg("--insecure-ignore-tlog");
                (Some(folder), step.arg("--trusted-root").arg(roots))
            }
            Means::Keyless { identity } => {
                let words = ["--certificate-identity", identity, "--certificate-oidc-issuer", ISSUER];
                (None, step.args(words))
            }
        };
        rest(step).read().map(drop)
    }
}

/// A folder with settings that name no service and no root, so that a key's signature needs no network: without them
/// cosign asks the public instance for its own. The folder is to be kept until the program has read them.
fn alone() -> Result<(tempfile::TempDir, PathBuf, PathBuf)> {
    let folder = tempfile::tempdir().context("make a folder for cosign's settings")?;
    let (services, roots) = (folder.path().join("services.json"), folder.path().join("roots.json"));
    for (path, text) in [(&services, NO_SERVICES), (&roots, NO_ROOTS)] {
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok((folder, services, roots))
}
