// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The client against the fake, and over TLS.
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::fake::{Fake, Mood, serve};
use super::proto::RangeRequest;
use super::{Alarm, CallError, Client, Connector, Expect, Tls, prefix_end};

fn fake() -> (Fake, Client) {
    let fake = Fake::new();
    let client = Client::new(fake.connector("the fake")).within(Duration::from_secs(20));
    (fake, client)
}

#[tokio::test]
async fn keys_are_written_read_and_deleted_with_their_revisions() {
    let (_fake, client) = fake();
    assert_eq!(client.get("a").await.unwrap().entry, None);
    let first = client.put("a", "1").await.unwrap();
    let second = client.put("a", "2").await.unwrap();
    assert!(second > first);
    let got = client.get("a").await.unwrap();
    let entry = got.entry.unwrap();
    assert_eq!((entry.text(), entry.mod_revision, got.store_revision), ("2".into(), second, second));
    assert_eq!(client.get_serializable("a").await.unwrap().entry.unwrap().value, b"2");
    let deleted = client.delete("a").await.unwrap();
    assert_eq!((deleted.entries[0].text(), deleted.store_revision), ("2".into(), second + 1));
    let nothing = client.delete("a").await.unwrap();
    assert_eq!((nothing.entries.len(), nothing.store_revision), (0, second + 1));
}

#[tokio::test]
async fn a_prefix_is_read_and_deleted_whole() {
    let (_fake, client) = fake();
    for key in ["p/a", "p/b", "q"] {
        client.put(key, key).await.unwrap();
    }
    let request =
        RangeRequest { key: b"p/".into(), range_end: prefix_end("p/"), count_only: true, ..<_>::default() };
    assert_eq!(client.range(request).await.unwrap().count, 2);
    assert_eq!(client.delete_prefix("p/").await.unwrap().entries.len(), 2);
    assert_eq!(client.get("q").await.unwrap().entry.unwrap().text(), "q");
}

#[tokio::test]
async fn a_swap_writes_only_what_was_expected() {
    let (_fake, client) = fake();
    let made = client.swap("a", Expect::Absent, "1").await.unwrap().written.unwrap();
    let refused = client.swap("a", Expect::Absent, "2").await.unwrap();
    assert_eq!((refused.written, refused.found.unwrap().text()), (None, "1".into()));
    let by_revision = client.swap("a", Expect::Revision(made), "3").await.unwrap();
    assert_eq!(by_revision.written, Some(made + 1));
    assert_eq!(client.swap("a", Expect::Value(b"3".into()), "4").await.unwrap().written, Some(made + 2));
    assert_eq!(client.delete_if("a", Expect::Revision(made)).await.unwrap().written, None);
    assert_eq!(client.delete_if("a", Expect::Revision(made + 2)).await.unwrap().written, Some(made + 3));
    let gone = client.swap("a", Expect::Value(b"4".into()), "5").await.unwrap();
    assert_eq!((gone.written, gone.found), (None, None));
}

#[tokio::test]
async fn members_and_leadership_are_read_and_changed() {
    let (_fake, client) = fake();
    assert_eq!(client.members().await.unwrap().len(), 3);
    let urls = ["https://a:2380".to_owned()];
    let (added, all) = client.member_add(&urls, true).await.unwrap();
    assert!(added.is_learner && all.len() == 4);
    assert!(!client.member_promote(9).await.unwrap()[3].is_learner);
    assert_eq!(client.member_update(9, &["b".to_owned()]).await.unwrap()[3].peer_urls, ["b"]);
    assert_eq!(client.member_remove(9).await.unwrap().len(), 3);
    assert!(matches!(client.member_remove(9).await, Err(CallError::Failed(_))));
    client.move_leader(2).await.unwrap();
    let standing = client.status().await.unwrap();
    assert_eq!((standing.leader_id, standing.member_id, standing.term), (Some(2), 1, 2));
    assert!(matches!(client.move_leader(3).await, Err(CallError::Failed(_))));
}

#[tokio::test]
async fn without_a_leader_only_what_is_known_is_told() {
    let (_fake, client) = fake();
    client.move_leader(0).await.unwrap();
    assert_eq!(client.status().await.unwrap().leader_id, None);
    assert!(matches!(client.members().await, Err(CallError::Unknown(_))));
    assert_eq!(client.members_known().await.unwrap().len(), 3);
}

#[tokio::test]
async fn alarms_are_raised_and_taken_back() {
    let (_fake, client) = fake();
    client.raise(2, Alarm::NoSpace).await.unwrap();
    assert_eq!(client.alarms().await.unwrap(), [(2, Alarm::NoSpace)]);
    client.disarm(2, Alarm::NoSpace).await.unwrap();
    assert_eq!(client.alarms().await.unwrap(), []);
    let (before, _) = client.hash_kv(None).await.unwrap();
    client.put("a", "1").await.unwrap();
    assert_ne!(client.hash_kv(None).await.unwrap().0, before);
    client.compact(2).await.unwrap();
    client.defragment().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_never_came_about_is_a_failure_that_names_why() {
    let (fake, client) = fake();
    fake.set(Mood::Unreachable, 1);
    let error = client.put("a", "1").await.unwrap_err();
    assert!(matches!(error, CallError::Failed(_)), "{error}");
    assert_eq!(error.to_string(), "Put at the fake: failed: no connection: nobody listens");
    fake.set(Mood::Sound, 1);
    client.put("a", "1").await.unwrap();
}

#[tokio::test]
async fn a_refused_call_is_a_failure_and_a_lost_reply_is_not() {
    let (fake, client) = fake();
    fake.set(Mood::Refuses, 1);
    assert!(matches!(client.put("a", "1").await, Err(CallError::Failed(_))));
    fake.set(Mood::LosesReplies, 1);
    let error = client.put("a", "2").await.unwrap_err();
    assert!(matches!(error, CallError::Unknown(_)), "{error}");
    assert!(error.to_string().ends_with("Unavailable: etcdserver: request timed out"), "{error}");
    fake.set(Mood::Sound, 1);
    assert_eq!(client.get("a").await.unwrap().entry.unwrap().text(), "2");
}

#[tokio::test]
async fn the_fake_lies_as_it_is_told() {
    let (fake, client) = fake();
    client.put("a", "1").await.unwrap();
    client.put("a", "2").await.unwrap();
    fake.set(Mood::ReadsStale, 1);
    assert_eq!(client.get("a").await.unwrap().entry.unwrap().text(), "1");
    fake.set(Mood::ForgetsWrites, 1);
    client.put("a", "3").await.unwrap();
    assert_eq!(client.get("a").await.unwrap().entry.unwrap().text(), "2");
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_next_one_dials_anew() {
    let (fake, client) = fake();
    client.put("a", "1").await.unwrap();
    fake.set(Mood::Hangs, 1);
    let begun = Instant::now();
    let error = client.within(Duration::from_millis(50)).put("a", "2").await.unwrap_err();
    assert!(matches!(error, CallError::Unknown(_)), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    fake.set(Mood::Sound, 1);
    let dials = fake.dials();
    client.get("a").await.unwrap();
    client.get("a").await.unwrap();
    assert_eq!(fake.dials(), dials + 1);
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_leaves_the_outcome_unknown() {
    // The other end takes the request and goes away.
    let connector = Connector::new("a mute", || async {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            use tokio::io::AsyncReadExt;
            let (mut far, mut buffer) = (far, [0; 24]);
            far.read_exact(&mut buffer).await
        });
        Ok(near)
    });
    let error = Client::new(connector).put("a", "1").await.unwrap_err();
    assert!(matches!(error, CallError::Unknown(_)), "{error}");
}

/// An authority, and what it signed: PEM of the authority, and certificate and key of a server called `etcd-local` and
/// of a client.
struct Pki {
    ca: String,
    server: (String, String),
    client: (String, String),
}

fn pki() -> Pki {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let sign = |usage| {
        let mut params = CertificateParams::new(["etcd-local".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let server = sign(ExtendedKeyUsagePurpose::ServerAuth);
    let client = sign(ExtendedKeyUsagePurpose::ClientAuth);
    Pki { ca, server, client }
}

/// The fake behind TLS that demands a client certificate.
fn tls_connector(fake: &Fake, pki: &Pki) -> Connector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let chain = vec![CertificateDer::from_pem_slice(pki.server.0.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pki.server.1.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (fake, acceptor) = (fake.clone(), TlsAcceptor::from(Arc::new(config)));
    Connector::new("the fake behind tls", move || {
        let (fake, acceptor) = (fake.clone(), acceptor.clone());
        async move {
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(far).await {
                    serve(fake, stream).await;
                }
            });
            Ok(near)
        }
    })
}

#[tokio::test]
async fn tls_shows_the_client_certificate_and_checks_the_name() {
    let (fake, pki) = (Fake::new(), pki());
    let pair = Some((pki.client.0.as_str(), pki.client.1.as_str()));
    let tls = Tls::new(&pki.ca, pair, "etcd-local").unwrap();
    Client::new(tls_connector(&fake, &pki).with_tls(tls)).put("a", "1").await.unwrap();

    let misnamed = Tls::new(&pki.ca, pair, "etcd-other").unwrap();
    let error = Client::new(tls_connector(&fake, &pki).with_tls(misnamed)).put("a", "2").await.unwrap_err();
    assert!(matches!(error, CallError::Failed(_)), "{error}");
    assert!(error.to_string().contains("tls handshake with the fake behind tls as etcd-other"), "{error}");

    // With TLS 1.3 the server refuses after the client's handshake is over, so the request may be out by then.
    let anonymous = Tls::new(&pki.ca, None, "etcd-local").unwrap();
    Client::new(tls_connector(&fake, &pki).with_tls(anonymous)).put("a", "3").await.unwrap_err();
    let client = Client::new(fake.connector("the fake"));
    assert_eq!(client.get("a").await.unwrap().entry.unwrap().text(), "1");
}

#[test]
fn tls_without_certificates_is_refused_and_debug_output_holds_no_key() {
    assert!(Tls::new("", None, "etcd").unwrap_err().to_string().contains("no certificate"));
    let pki = pki();
    assert!(Tls::new(&pki.ca, Some((&pki.client.0, &pki.server.1)), "etcd").is_err());
    assert_eq!(
        format!("{:?}", Tls::new(&pki.ca, None, "etcd").unwrap()),
        "Tls { server_name: DnsName(\"etcd\"), .. }"
    );
}
