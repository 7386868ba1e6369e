// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Layouts to and from registries, by the pinned `oras`: it sends no blob that the registry has, and names the image last,
//! so that whoever asks for the tag finds all of it or nothing new. Logins are those of Docker's configuration.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::{Digest, Layout};
use crate::sh::Step;
use crate::tools::Tool;

/// An image in a registry: `REGISTRY/REPO`, with a tag or a digest or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// `REGISTRY/REPO`.
    pub(crate) repository: String,
    /// What follows: `:TAG`, `@sha256:…` or nothing.
    suffix: String,
}

/// How to reach a registry.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Access {
    /// Certificates that the registry's is checked against, in the place of the machine's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Speak HTTP without TLS to the registry
    #[arg(long)]
    plain_http: bool,
    /// A configuration of Docker's with logins, in the place of ~/.docker/config.json
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
}

impl Access {
    /// The flags of oras, which has a set of them for each `side`: `from-`, `to-` or none.
    fn flags(&self, side: &str) -> Result<Vec<String>> {
        let mut flags = Vec::new();
        for (name, file) in [("ca-file", &self.ca_file), ("registry-config", &self.registry_config)] {
            if let Some(file) = file {
                std::fs::metadata(file).with_context(|| format!("--{name} {}", file.display()))?;
                flags.extend([format!("--{side}{name}"), std::path::absolute(file)?.display().to_string()]);
            }
        }
        if self.plain_http {
            flags.push(format!("--{side}plain-http"));
        }
        Ok(flags)
    }
}

/// Sends the layout with all that is attached to it, and gives it the tag last. The name it has then.
pub(crate) fn push(layout: &Layout, to: &Reference, access: &Access) -> Result<String> {
    let name = to.tagged(layout.tag.as_deref())?;
    let oras = Tool::Oras.ensure()?;
    Step::new(&oras)
        .args(["cp", "--no-tty", "--recursive", "--from-oci-layout"])
        .args(access.flags("to-")?)
        .arg(format!("{}@{}", layout.path.display(), layout.digest))
        .arg(&name)
        .watch(&format!("pushing {name}"))
        .with_context(|| {
            format!(
                "push to {name}; the tag is as it was. A login is made by: docker login {host}. Once the reason is mended, run the same command again: what has arrived is not sent twice",
                host = to.host()
            )
        })?;
    // What the registry has under the name is what was built, or somebody else was quicker.
    let held = resolve(&oras, &name, access)?;
    if held != layout.digest {
        bail!("{name} is {held} in the registry, and {} was pushed: somebody else pushed too", layout.digest);
    }
    Ok(name)
}

/// Fetches an image with all that is attached to it into the folder `into`, which must be empty.
pub(crate) fn pull(from: &Reference, access: &Access, into: &Path) -> Result<Layout> {
    let oras = Tool::Oras.ensure()?;
    let name = from.named();
    let digest = resolve(&oras, &name, access)?;
    Step::new(&oras)
        .args(["cp", "--no-tty", "--recursive", "--to-oci-layout"])
        .args(access.flags("from-")?)
        .arg(format!("{}@{digest}", from.repository))
        .arg(format!("{}:pulled", into.display()))
        .watch(&format!("pulling {name}"))
        .with_context(|| format!("pull {name}"))?;
    let layout = Layout::open(into)?;
    if layout.digest != digest {
        bail!("{name} is {digest}, and what was pulled is {}", layout.digest);
    }
    Ok(layout)
}

fn resolve(oras: &Path, name: &str, access: &Access) -> Result<Digest> {
    let said = Step::new(oras)
        .arg("resolve")
        .args(access.flags("")?)
        .arg(name)
        .read()
        .with_context(|| format!("ask the registry for {name}"))?;
    Digest::parse(said.trim())
}

impl Reference {
    /// Registry and port.
    fn host(&self) -> &str {
        self.repository.split('/').next().unwrap_or_default()
    }

    /// With the tag that it has, else with `tag`.
    fn tagged(&self, tag: Option<&str>) -> Result<String> {
        match (self.suffix.as_bytes().first(), tag) {
            (Some(b'@'), _) => bail!("{}{}: a push names a tag, not a digest", self.repository, self.suffix),
            (Some(_), _) => Ok(self.named()),
            (None, Some(tag)) => Ok(format!("{}:{tag}", self.repository)),
            (None, None) => bail!("{}: the layout has no tag of its own, name one", self.repository),
        }
    }

    fn named(&self) -> String {
        format!("{}{}", self.repository, self.suffix)
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.named())
    }
}

impl FromStr for Reference {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let end = text.find('@').or_else(|| {
            let colon = text.rfind(':')?;
            // Before a slash it is a port.
            (!text[colon..].contains('/')).then_some(colon)
        });
        let (repository, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (host, path) = repository.split_once('/').unwrap_or_default();
        let named = host == "localhost" || host.contains(['.', ':']);
        if !named || path.is_empty() || suffix.len() == 1 || text.contains(char::is_whitespace) {
            bail!(
                "{text:?} is not REGISTRY/REPO[:TAG], such as registry.example.org/team/etcd-wrapper:1.0.0"
            );
        }
        Ok(Self { repository: repository.to_owned(), suffix: suffix.to_owned() })
    }
}

#[cfg(test)]
mod live;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_registry_and_the_port_is_no_tag() {
        let parse = |text: &str| text.parse::<Reference>();
        let one = parse("127.0.0.1:5000/team/x").unwrap();
        assert_eq!(one.host(), "127.0.0.1:5000");
        assert_eq!(one.tagged(Some("1.0")).unwrap(), "127.0.0.1:5000/team/x:1.0");
        one.tagged(None).unwrap_err();
        assert_eq!(parse("r.example.org/x:2").unwrap().tagged(Some("1.0")).unwrap(), "r.example.org/x:2");
        let digest = format!("r.example.org/x@{}", Digest::of(b""));
        assert_eq!(parse(&digest).unwrap().named(), digest);
        parse(&digest).unwrap().tagged(Some("1.0")).unwrap_err();
        for wrong in ["", "x", "team/x", "r.example.org", "r.example.org/", "r.example.org/x:", "r.io/a b"] {
            parse(wrong).expect_err(wrong);
        }
    }
}
