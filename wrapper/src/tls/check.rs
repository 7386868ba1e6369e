// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Looks, before etcd is started or stopped, at the files that it and we will need (api.md §7, "what is wrong"). Keeps
//! nothing: what is in use is reload.rs's.
use super::files::{CertificateFile, Pair, TlsFileError, load_key};
use super::reload::TlsFlags;
use super::trust::Bundle;
use crate::config::{EtcdConfig, TlsSection};

/// The files of our own flags.
///
/// # Errors
/// The first one that is missing, unreadable, empty or does not fit (exit 12 at the process's start).
pub fn flags(flags: &TlsFlags) -> Result<(), TlsFileError> {
    if let Some((cert, key)) = &flags.client {
        Pair::load(cert, key)?;
    }
    if let Some(ca) = &flags.sidecar_ca {
        Bundle::load(ca)?;
    }
    Ok(())
}

/// The files that a config names.
///
/// # Errors
/// The first one that is missing, unreadable, empty or does not fit (exit 12, `file_unreadable`, or 422).
pub fn config(config: &EtcdConfig) -> Result<(), TlsFileError> {
    // The server's pair is served by our own port too, so we must be able to use it.
    if let (Some(cert), Some(key)) = (&config.client_tls.cert_file, &config.client_tls.key_file) {
        Pair::load(cert, key)?;
    }
    section(&config.client_tls)?;
    section(&config.peer_tls)
}

/// Each file by itself: which kinds of keys etcd takes is its own business.
fn section(section: &TlsSection) -> Result<(), TlsFileError> {
    if let Some(cert) = &section.cert_file {
        CertificateFile::load(cert)?;
    }
    if let Some(ca) = &section.trusted_ca_file {
        Bundle::load(ca)?;
    }
    if let Some(key) = &section.key_file {
        load_key(key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tls::authority::{Authority, etcd_config};

    #[test]
    fn d15_every_file_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let pair = authority.write_server(dir.path(), "tls", &["localhost"]);
        let ca = authority.write_ca(&dir.path().join("ca.crt"));
        let section = TlsSection {
            cert_file: Some(pair.cert.clone()),
            key_file: Some(pair.key.clone()),
            trusted_ca_file: Some(ca.clone()),
            ..TlsSection::default()
        };
        let mut config = etcd_config(dir.path(), "https://127.0.0.1:2379");
        config.client_tls = section.clone();
        config.peer_tls = section;
        super::config(&config).unwrap();

        let fails_without = |path: &Path| {
            let away = dir.path().join("away");
            std::fs::rename(path, &away).unwrap();
            let error = super::config(&config).unwrap_err().to_string();
            std::fs::rename(&away, path).unwrap();
            assert!(error.contains(&path.display().to_string()), "{error}");
        };
        for path in [&pair.cert, &pair.key, &ca] {
            fails_without(path);
        }

        let mut config = config.clone();
        config.peer_tls.trusted_ca_file = Some(dir.path().join("peer-ca.crt"));
        assert!(super::config(&config).unwrap_err().to_string().contains("peer-ca.crt"));
    }

    #[test]
    fn g9_a_sidecar_ca_without_a_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.crt");
        std::fs::write(&path, "").unwrap();
        let error = super::flags(&TlsFlags { client: None, sidecar_ca: Some(path) }).unwrap_err().to_string();
        assert!(error.contains("bundle.crt holds no certificate"), "{error}");
    }
}
