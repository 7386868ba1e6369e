// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What lies in an image of the wrapper, file by file, and what each program was made from. The same for the image that
//! is shipped, the one with tools for people, and the one of the end-to-end suite.

use std::path::{Path, PathBuf};

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Entry, Image, Layer};
use crate::arch::Arch;
use crate::tools::{Line, Tool};

/// The user of the pods that etcd-druid makes.
pub(crate) const NONROOT: u32 = 65532;

/// etcd-druid sets no HOME: the engine takes it from here.
const PASSWD: &str =
    "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";

/// Where Go and Rust programs look for the certificates of public authorities.
pub(crate) const ROOTS: &str = "etc/ssl/certs/ca-certificates.crt";

/// A program of an image.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Its place, without a leading slash.
    pub(crate) path: &'static str,
    pub(crate) file: PathBuf,
    pub(crate) origin: Origin,
}

/// What a program was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This workspace, and crates.
    Crates,
    /// A module below `hack/tools`, which names the others.
    Modules(Tool),
    /// A package of Debian's.
    Debian(&'static str),
}

/// The programs of an image and what its other files are.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) programs: Vec<Program>,
    pub(crate) layers: Vec<Layer>,
}

/// The wrapper `binary` beside an etcd of `line`; with `ops` also a shell and etcdutl.
pub(crate) fn contents(arch: Arch, binary: &Path, line: Line, ops: bool) -> Result<Contents> {
    let go = |path, tool: Tool| {
        Ok::<_, anyhow::Error>(Program { path, file: tool.ensure_for(arch)?, origin: Origin::Modules(tool) })
    };
    let mut etcd = match line {
        Line::L34 => vec![Program {
            path: "usr/local/bin/etcd",
            file: Tool::Etcd(line).ensure_for(arch)?,
            origin: Origin::Debian("etcd-server"),
        }],
        _ => vec![go("usr/local/bin/etcd", Tool::Etcd(line))?],
    };
    etcd.push(go("usr/local/bin/etcdctl", Tool::etcdctl_for(line))?);
    let mut base = base();
    base.push(Entry::text(ROOTS, roots()));
    let mut last = Vec::new();
    if ops {
        etcd.push(go("usr/local/bin/etcdutl", Tool::Etcdutl(line))?);
        let shell = Tool::Busybox.ensure_for(arch)?;
        base.extend(SHELL.map(|name| Entry::symlink(format!("bin/{name}"), "busybox")));
        etcd.push(Program { path: "bin/busybox", file: shell, origin: Origin::Debian("busybox-static") });
        // So that `etcd-wrapper cheatsheet` is found in a shell.
        last.push(Entry::symlink("usr/local/bin/etcd-wrapper", "/etcd-wrapper"));
    }
    let wrapper = Program { path: "etcd-wrapper", file: binary.to_owned(), origin: Origin::Crates };
    let entry = |program: &Program| Entry::program(program.path, &program.file);
    last.insert(0, entry(&wrapper));
    // What changes least lies lowest, so that a node that has the image before fetches the wrapper alone.
    let layers = vec![base, etcd.iter().map(entry).collect(), last].into_iter().map(Layer::Entries).collect();
    etcd.push(wrapper);
    Ok(Contents { programs: etcd, layers })
}

impl Contents {
    /// An image of these, without labels.
    pub(crate) fn image(&self, arch: Arch) -> Image {
        Image {
            arch,
            env: vec!["PATH=/usr/local/bin:/bin".into()],
            entrypoint: vec!["/etcd-wrapper".into()],
            user: format!("{NONROOT}:{NONROOT}"),
            layers: self.layers.clone(),
            ..Image::default()
        }
    }
}

/// Users, their homes and a folder for temporary files.
pub(super) fn base() -> Vec<Entry> {
    vec![
        Entry::text("etc/passwd", PASSWD),
        Entry::text("etc/group", GROUP),
        Entry::folder("root", 0o700, 0),
        Entry::folder("home", 0o755, 0),
        Entry::folder("home/nonroot", 0o700, NONROOT),
        Entry::folder("tmp", 0o1777, 0),
    ]
}

/// Names under which busybox lies in the image with tools: a shell and what a look into a pod takes. They are named, since
/// the image is made for an architecture whose busybox may not run here.
const SHELL: [&str; 36] = [
    "sh", "ash", "cat", "chmod", "cp", "date", "df", "du", "env", "find", "free", "grep", "gunzip", "gzip",
    "head", "hexdump", "id", "kill", "less", "ls", "mkdir", "mv", "nc", "netstat", "nslookup", "ping", "ps",
    "rm", "sed", "sleep", "tail", "tar", "top", "vi", "wget", "xargs",
];

/// Mozilla's list of authorities, as the pinned crate has it, in PEM.
pub(super) fn roots() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate.as_ref());
        // 64 columns, as every reader of PEM takes it. All of it is ASCII, so any place is a border.
        for at in (0..encoded.len()).step_by(64) {
            text.push_str(&encoded[at..encoded.len().min(at + 64)]);
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn the_authorities_can_be_read_back_whole() {
        let text = roots();
        let read: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect();
        assert!(read.len() > 100, "{}", read.len());
        assert_eq!(read, webpki_root_certs::TLS_SERVER_ROOT_CERTS);
        assert!(text.lines().all(|line| line.len() <= 64));
    }

    #[test]
    fn the_users_are_those_of_the_pods() {
        assert!(PASSWD.contains(&format!("nonroot:x:{NONROOT}:{NONROOT}:nonroot:/home/nonroot:")));
        assert!(GROUP.contains(&format!("nonroot:x:{NONROOT}:")));
    }
}
