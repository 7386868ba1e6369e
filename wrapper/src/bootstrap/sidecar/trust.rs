// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The CA bundle that the sidecar is verified against, read anew before every call, so that the first poll after a swap
//! succeeds. A bad new bundle keeps the old one.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::tls::client::with_verifier;
use crate::tls::files::{Digest, TlsFileError};
use crate::tls::trust::{Bundle, by_bundle};

#[derive(Debug)]
pub(crate) struct Trust {
    path: PathBuf,
    digest: Digest,
    config: Arc<ClientConfig>,
    problem: Option<String>,
}

impl Trust {
    pub(crate) fn load(path: &Path) -> Result<Self, TlsFileError> {
        let bundle = Bundle::load(path)?;
        Ok(Self { path: path.to_owned(), digest: bundle.file.digest, config: client(&bundle), problem: None })
    }

    /// Made anew only for new content: the sessions that save handshakes are tied to it, and must not outlive the CA.
    pub(crate) fn current(&mut self) -> Arc<ClientConfig> {
        match Bundle::load(&self.path) {
            Ok(bundle) => {
                self.problem = None;
                if bundle.file.digest != self.digest {
                    self.digest = bundle.file.digest;
                    self.config = client(&bundle);
                }
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
        self.config.clone()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Shows no certificate: the sidecar asks for none.
fn client(bundle: &Bundle) -> Arc<ClientConfig> {
    let mut config = with_verifier(by_bundle(bundle), None);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
