// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A scene whose parts speak TLS, as in a druid pod: certificates, config map sections, flags. Starts nothing.
use std::path::Path;

use doubles::pki::PodPki;
use doubles::sidecar::{ConfigMap, Setup};
use serde_json::{Value, json};

use super::{MEMBER, Scene};

/// Who speaks TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    pub(crate) client: bool,
    pub(crate) peer: bool,
    pub(crate) sidecar: bool,
}

impl Sides {
    pub(crate) const ALL: Self = Self { client: true, peer: true, sidecar: true };
    pub(crate) const CLIENT: Self = Self { client: true, peer: false, sidecar: false };
    pub(crate) const SIDECAR: Self = Self { client: false, peer: false, sidecar: true };
    pub(crate) const NONE: Self = Self { client: false, peer: false, sidecar: false };
}

#[derive(Debug)]
pub(super) struct Tls {
    pub(super) sides: Sides,
    pub(super) pki: PodPki,
}

impl Scene {
    /// TLS on these sides, with certificates below `pki/`. Puts a new faithful sidecar in the old one's place.
    #[must_use]
    pub(crate) fn with_tls(mut self, sides: Sides) -> Self {
        let names = [&format!("{MEMBER}-local"), MEMBER];
        let pki = PodPki::write(&self.path().join("pki"), &names.map(|name| name as &str)).unwrap();
        self.tls = Some(Tls { sides, pki });
        self.with_sidecar(|setup| setup)
    }

    pub(crate) fn pki(&self) -> &PodPki {
        &self.tls.as_ref().expect("this scene has TLS").pki
    }
}

impl Tls {
    pub(super) fn arrange(&self, setup: Setup) -> Setup {
        if !self.sides.sidecar {
            return setup;
        }
        setup.tls_files(&self.pki.sidecar.cert, &self.pki.sidecar.key)
    }

    /// The sections and URLs of druid's config map.
    pub(super) fn complete(&self, mut config: ConfigMap, client: u16, peer: u16) -> ConfigMap {
        let Self { sides, pki } = self;
        if sides.client {
            let url = format!("https://127.0.0.1:{client}");
            let section = section(&pki.server.cert, &pki.server.key, &pki.client_ca_file);
            config = config
                .with("listen-client-urls", url.as_str())
                .with("advertise-client-urls", json!({MEMBER: [url]}))
                .with("client-transport-security", section);
        }
        if sides.peer {
            let url = format!("https://127.0.0.1:{peer}");
            config = config
                .with("listen-peer-urls", url.as_str())
                .with("initial-advertise-peer-urls", json!({MEMBER: [url]}))
                .with("initial-cluster", format!("{MEMBER}={url}"))
                .with("peer-transport-security", section(&pki.peer.cert, &pki.peer.key, &pki.peer_ca_file));
        }
        config
    }

    /// druid's TLS flags of the wrapper.
    pub(super) fn flags(&self) -> Vec<String> {
        let Self { sides, pki } = self;
        let mut flags = vec![format!("--backup-restore-tls-enabled={}", sides.sidecar)];
        if sides.sidecar {
            flags.push(format!("--backup-restore-ca-cert-bundle-path={}", pki.sidecar_ca_file.display()));
        }
        if sides.client {
            flags.push(format!("--etcd-client-cert-path={}", pki.client.cert.display()));
            flags.push(format!("--etcd-client-key-path={}", pki.client.key.display()));
        }
        flags
    }

    pub(super) fn etcdctl_flags(&self) -> Vec<String> {
        if !self.sides.client {
            return Vec::new();
        }
        let files = [
            ("cacert", &self.pki.client_ca_file),
            ("cert", &self.pki.client.cert),
            ("key", &self.pki.client.key),
        ];
        files.iter().map(|(flag, path)| format!("--{flag}={}", path.display())).collect()
    }
}

fn section(cert: &Path, key: &Path, ca: &Path) -> Value {
    json!({
        "auto-tls": false,
        "cert-file": cert,
        "client-cert-auth": true,
        "key-file": key,
        "trusted-ca-file": ca,
    })
}
