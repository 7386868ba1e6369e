// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Handshakes over memory: what the listener's side learns of a caller.
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rstest::rstest;
use rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::tls::authority::{Authority, write};
use crate::tls::client::with_verifier;
use crate::tls::trust;

struct Scene {
    dir: tempfile::TempDir,
    authority: Authority,
    bundle: Bundle,
    pair: Pair,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let bundle = Bundle::load(&authority.write_ca(&dir.path().join("ca.crt"))).unwrap();
        let files = authority.write_server(dir.path(), "server", &["etcd-main-local"]);
        let pair = Pair::load(&files.cert, &files.key).unwrap();
        Self { dir, authority, bundle, pair }
    }

    fn issue(&self, authority: &Authority, usages: &[rcgen::ExtendedKeyUsagePurpose]) -> Pair {
        let files = write(self.dir.path(), "x", &authority.issue(&["backup-restore", "10.0.0.7"], usages));
        Pair::load(&files.cert, &files.key).unwrap()
    }
}

/// What the server sees of a client that shows `pair`, even one that our own client would not show.
async fn shown(
    scene: &Scene,
    server: Arc<ServerConfig>,
    pair: Option<&Pair>,
) -> Option<Vec<CertificateDer<'static>>> {
    let mut client = with_verifier(trust::by_bundle(&scene.bundle), None);
    if let Some(pair) = pair {
        client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair.certified.clone()));
    }
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from("etcd-main-local").unwrap();
    let connect = TlsConnector::from(Arc::new(client)).connect(name, ours);
    let (accepted, connected) = tokio::join!(TlsAcceptor::from(server).accept(theirs), connect);
    connected.unwrap();
    accepted.unwrap().get_ref().1.peer_certificates().map(<[_]>::to_vec)
}

async fn identity(scene: &Scene, trust: ClientTrust, pair: Option<&Pair>) -> ClientIdentity {
    let server = ServerTls::new(&scene.pair, trust);
    let shown = shown(scene, server.config(), pair).await;
    server.classify(shown.as_deref(), UnixTime::now())
}

#[tokio::test]
async fn d12_a_caller_without_a_certificate_gets_through() {
    let scene = Scene::new();
    let trust = ClientTrust::by_bundle(&scene.bundle);
    assert_eq!(identity(&scene, trust, None).await, ClientIdentity::None);
}

#[tokio::test]
async fn a_verified_certificate_gives_its_names() {
    let scene = Scene::new();
    let pair = scene.issue(&scene.authority, &[ClientAuth]);
    let expected = ClientIdentity::Verified {
        cn: Some("backup-restore".into()),
        sans: vec!["backup-restore".into(), "10.0.0.7".into()],
    };
    assert_eq!(identity(&scene, ClientTrust::by_bundle(&scene.bundle), Some(&pair)).await, expected);
}

#[rstest]
#[case::of_another_ca(true, &[ClientAuth])]
#[case::for_servers_only(false, &[ServerAuth])]
#[tokio::test]
async fn a_certificate_that_does_not_verify_survives_the_handshake(
    #[case] stranger: bool,
    #[case] usages: &[rcgen::ExtendedKeyUsagePurpose],
) {
    let scene = Scene::new();
    let other = Authority::new("ca");
    let pair = scene.issue(if stranger { &other } else { &scene.authority }, usages);
    let seen = identity(&scene, ClientTrust::by_bundle(&scene.bundle), Some(&pair)).await;
    assert_eq!(seen, ClientIdentity::Unverified);
}

#[tokio::test]
async fn an_expired_certificate_is_unverified_by_the_time_that_is_given() {
    let scene = Scene::new();
    let server = ServerTls::new(&scene.pair, ClientTrust::by_bundle(&scene.bundle));
    let pair = scene.authority.issue_with(&["x"], &[ClientAuth], |params| {
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    });
    let files = write(scene.dir.path(), "x", &pair);
    let chain = Pair::load(&files.cert, &files.key).unwrap().certificate.certificates;
    let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    assert!(matches!(server.classify(Some(&chain), at(1_790_000_000)), ClientIdentity::Verified { .. }));
    assert_eq!(server.classify(Some(&chain), at(1_800_000_000)), ClientIdentity::Unverified);
}

#[tokio::test]
async fn without_a_ca_nobody_is_verified() {
    let scene = Scene::new();
    let pair = scene.issue(&scene.authority, &[ClientAuth]);
    assert_eq!(identity(&scene, ClientTrust::Absent, Some(&pair)).await, ClientIdentity::Unverified);
    assert_eq!(identity(&scene, ClientTrust::NotLoaded, Some(&pair)).await, ClientIdentity::Unverified);
    assert!(ServerTls::new(&scene.pair, ClientTrust::NotLoaded).trust_not_loaded());
    assert!(!ServerTls::new(&scene.pair, ClientTrust::Absent).trust_not_loaded());
}

#[tokio::test]
async fn d13_the_self_signed_certificate_serves_a_caller_that_does_not_verify() {
    let own = SelfSigned::new(vec!["etcd-main-0".into(), "127.0.0.1".into(), "not a näme\u{0}".into()]);
    let config = own.config().unwrap();
    assert!(Arc::ptr_eq(&config, &own.config().unwrap()), "a second certificate was made");

    #[derive(Debug)]
    struct Anything(WebPkiSupportedAlgorithms);
    impl rustls::client::danger::ServerCertVerifier for Anything {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
        }
        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_schemes()
        }
    }
    let verifier = Anything(super::super::provider().signature_verification_algorithms);
    let client = Arc::new(with_verifier(Arc::new(verifier), None));
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connect = TlsConnector::from(client).connect(name, ours);
    let (accepted, connected) = tokio::join!(TlsAcceptor::from(config).accept(theirs), connect);
    connected.unwrap();
    accepted.unwrap();
}
