// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Certificate and key files, and the names in a client's certificate. A line `=` divides certificate, key and bundle;
//! a part that begins as DER is put into PEM first, so that mutations reach what lies below its armour.
use rustls::pki_types::UnixTime;

use super::{Folder, Target, assert_short, shape};
use crate::config::{EtcdConfig, TlsSection};
use crate::tls::check;
use crate::tls::client::{ServerTrust, client_config};
use crate::tls::files::{CertificateFile, Pair};
use crate::tls::reload::TlsFlags;
use crate::tls::server::{ClientIdentity, ClientTrust, ServerTls, identity};
use crate::tls::trust::Bundle;

/// Certificates and keys.
pub const TARGET: Target = Target {
    words: &[
        "-----BEGIN CERTIFICATE-----\n",
        "-----END CERTIFICATE-----\n",
        "-----BEGIN EC PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN X509 CRL-----\n",
        "\n=\n",
        "MIIB",
        "\x02\x01",
        "\x55\x1d\x11",
        "\x55\x1d\x25",
        "20991231235959Z",
    ],
    longest: 8 * 1024,
    cases: 300,
    ..Target::new("tls", run)
};

/// Loads the files as the wrapper does for its own port, its clients, and before a start.
pub fn run(input: &[u8]) -> u64 {
    let folder = Folder::new();
    let [cert, key, ca] = divided(input);
    let write = |name: &str, label: &str, part: &[u8]| {
        let path = folder.0.join(name);
        std::fs::write(&path, armoured(label, part)).expect("a file can be written");
        path
    };
    let (cert_path, key_path) = (write("tls.crt", "CERTIFICATE", cert), write("tls.key", "PRIVATE KEY", key));
    let ca_path = write("ca.crt", "CERTIFICATE", ca);

    let mut seen = 0;
    let mut say = |text: String| {
        assert_short(&text, 2048);
        assert_silent(&text, input);
        seen ^= shape(&text);
    };
    if cert.first() == Some(&0x30)
        && let ClientIdentity::Verified { cn, sans } = identity(&cert.to_vec().into())
    {
        say(format!("names {} {}", cn.is_some(), sans.len()));
    }
    let bundle = Bundle::load(&ca_path);
    match &bundle {
        Ok(bundle) => say(format!("bundle {}", bundle.file.certificates.len())),
        Err(error) => say(error.to_string()),
    }
    match Pair::load(&cert_path, &key_path) {
        Ok(pair) => {
            let trust = bundle.as_ref().map_or(ClientTrust::Absent, ClientTrust::by_bundle);
            let server = ServerTls::new(&pair, trust);
            let judged = server.classify(Some(&pair.certificate.certificates), UnixTime::now());
            say(format!("pair {} {judged:?}", pair.may_be_client()));
        }
        Err(error) => say(error.to_string()),
    }
    let mut config = plain_config();
    config.client_tls = TlsSection {
        cert_file: Some(cert_path.clone()),
        key_file: Some(key_path.clone()),
        trusted_ca_file: Some(ca_path.clone()),
        ..TlsSection::default()
    };
    config.peer_tls = config.client_tls.clone();
    match check::config(&config) {
        // What was found good can be used: the listener and the client are made of it.
        Ok(()) => {
            assert!(Pair::load(&cert_path, &key_path).is_ok() && bundle.is_ok());
            assert!(matches!(ServerTrust::of(&config), Some(ServerTrust::Bundle(_))));
            assert!(client_config(&config, None).is_ok_and(|config| config.is_some()));
            say("good".to_owned());
        }
        Err(error) => say(error.to_string()),
    }
    config.client_tls.trusted_ca_file = None;
    match client_config(&config, None) {
        Ok(config) => assert!(config.is_some() && CertificateFile::load(&cert_path).is_ok()),
        Err(error) => say(error.to_string()),
    }
    let flags = TlsFlags { client: Some((cert_path, key_path)), sidecar_ca: Some(ca_path) };
    if let Err(error) = check::flags(&flags) {
        say(error.to_string());
    }
    seen
}

fn divided(input: &[u8]) -> [&[u8]; 3] {
    let (cert, rest) = cut(input);
    let (key, bundle) = cut(rest);
    [cert, key, bundle]
}

fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.windows(3).position(|window| window == b"\n=\n") {
        Some(end) => (&bytes[..end], &bytes[end + 3..]),
        None => (bytes, b""),
    }
}

fn armoured(label: &str, part: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if part.first() != Some(&0x30) {
        return part.to_vec();
    }
    let mut text = format!("-----BEGIN {label}-----\n").into_bytes();
    for three in part.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        for n in 0..4 {
            text.push(if n <= three.len() { ALPHABET[bits >> (18 - 6 * n) & 63] } else { b'=' });
        }
    }
    text.extend(format!("\n-----END {label}-----\n").bytes());
    text
}

/// Nothing of a file is ever repeated: it may be a key.
fn assert_silent(text: &str, input: &[u8]) {
    for line in
        input.split(|byte| byte.is_ascii_whitespace() || *byte == b'-').filter(|line| line.len() >= 16)
    {
        let shown = std::str::from_utf8(&line[..16]).is_ok_and(|line| text.contains(line));
        assert!(!shown, "the file is repeated: {text}");
    }
}

fn plain_config() -> EtcdConfig {
    let text = "name: a\ndata-dir: /d\ninitial-cluster: a=https://a:2380\nlisten-client-urls: https://127.0.0.1:2379\n";
    EtcdConfig::parse(text.into()).expect("it has all that is required")
}
