// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a certificate says of itself, for people: whose, by whom, for which names, until when. Judges nothing.
use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::tls::files::CertificateFile;

/// Certificates of one file that are told of; a bundle may have hundreds.
const MOST: usize = 20;

/// The alternative names of a certificate that a client may ask for: DNS names and addresses.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(address.to_string())
}

/// A paragraph about the file.
pub(super) fn describe(path: &Path) -> String {
    let file = match CertificateFile::load(path) {
        Ok(file) => file,
        Err(error) => return format!("{error}\n"),
    };
    let mut text = format!("{}\n", path.display());
    for certificate in file.certificates.iter().take(MOST) {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { continue };
        let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let end = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let over = if end < SystemTime::now() { " (over)" } else { "" };
        text.push_str(&format!("  subject   {}\n", parsed.subject()));
        text.push_str(&format!("  issuer    {}\n", parsed.issuer()));
        let names = names(certificate);
        if !names.is_empty() {
            text.push_str(&format!("  names     {}\n", names.join(", ")));
        }
        text.push_str(&format!("  not after {}{over}\n", humantime::format_rfc3339_seconds(end)));
    }
    if file.certificates.len() > MOST {
        text.push_str(&format!("  and {} more\n", file.certificates.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::Authority;

    #[test]
    fn a_certificate_is_described_by_its_names_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let pair =
            Authority::new("the ca").write_server(dir.path(), "tls", &["etcd-main-local", "127.0.0.1"]);
        let text = describe(&pair.cert);
        for part in ["tls.crt", "CN=etcd-main-local", "CN=the ca", "etcd-main-local, 127.0.0.1", "not after"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let text = describe(&pair.key);
        assert!(text.contains("holds no certificate") && !text.contains("BEGIN"), "{text}");
    }
}
