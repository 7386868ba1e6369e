// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A registry on this machine, with TLS by an authority of its own and with login.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::sh::{self, Step};
use crate::tools::Tool;

const USER: &str = "rehearsal";
const PASSWORD: &str = "rehearsal";
/// bcrypt of the password: the registry reads no other form, and it guards nothing.
const HASHED: &str = "$2a$05$W81axHuBB2kzghR2Yg.U3.d/L9zE53lbcICqtOvYazwBFhonDGDee";
const LIMIT: Duration = Duration::from_secs(60);

/// The process, ended when dropped.
#[derive(Debug)]
pub(super) struct Registry {
    child: Child,
    pub(super) port: u16,
    /// The authority's certificate.
    pub(super) ca: PathBuf,
    folder: PathBuf,
}

impl Registry {
    /// Starts one whose files lie in `folder`.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = Tool::Registry.ensure()?;
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let path = |name: &str| folder.join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(path(name), text).with_context(|| format!("write {}", path(name).display()))
        };
        let (ca, certificate, key) = certificates()?;
        write("ca.pem", &ca)?;
        write("tls.pem", &certificate)?;
        write("tls.key", &key)?;
        write("htpasswd", &format!("{USER}:{HASHED}\n"))?;
        let config = serde_json::json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": path("data")}},
            "auth": {"htpasswd": {"realm": "rehearsal", "path": path("htpasswd")}},
            "http": {
                "addr": "127.0.0.1:0",
                "secret": "rehearsal",
                "tls": {"certificate": path("tls.pem"), "key": path("tls.key")},
            },
        });
        // YAML takes JSON as it is.
        write("config.yaml", &serde_json::to_string_pretty(&config)?)?;
        let log = File::create(path("log")).context("create the registry's log")?;
        let also = log.try_clone().context("share the registry's log")?;
        let child =
            Step::new(program).arg("serve").arg(path("config.yaml")).start(log.into(), also.into())?;
        let mut registry = Self { child, port: 0, ca: path("ca.pem"), folder: folder.to_owned() };
        registry.port = registry.listening()?;
        Ok(registry)
    }

    /// The port, once it listens; the system chose it.
    fn listening(&mut self) -> Result<u16> {
        let since = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            // The line is whole only when something follows the number.
            let port = log.split("listening on 127.0.0.1:").nth(1).and_then(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                rest[..end].parse().ok()
            });
            if let Some(port) = port {
                return Ok(port);
            }
            if let Some(status) = self.child.try_wait().context("look at the registry")? {
                bail!("the registry ended: {}; it said:\n{log}", sh::ended(status));
            }
            if since.elapsed() > LIMIT {
                bail!("the registry did not listen within {LIMIT:?}; it said:\n{log}");
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// A folder for `DOCKER_CONFIG` that is logged in at `host`.
    pub(super) fn login(&self, host: &str) -> Result<PathBuf> {
        let folder = self.folder.join("login");
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let auth = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let config = serde_json::json!({"auths": {host: {"auth": auth}}});
        let path = folder.join("config.json");
        std::fs::write(&path, config.to_string()).with_context(|| format!("write {}", path.display()))?;
        Ok(folder)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It keeps nothing that has to be saved.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Certificate of an authority, and a certificate for this machine with its key; all PEM.
fn certificates() -> Result<(String, String, String)> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    let own = own.signed_by(&key, &authority)?;
    Ok((authority.pem(), own.pem(), key.serialize_pem()))
}
