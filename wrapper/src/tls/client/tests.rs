// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Handshakes over memory against a server that asks for a client certificate, as etcd does.
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rcgen::{BasicConstraints, IsCa};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::tls::authority::{Authority, Written, etcd_config, write};
use crate::tls::server::{ClientTrust, ServerTls};

/// Ok: how many certificates the client has shown.
async fn handshake(client: ClientConfig, server: &Written, name: &str) -> Result<usize, String> {
    let pair = Pair::load(&server.cert, &server.key).unwrap();
    let server = ServerTls::new(&pair, ClientTrust::Absent);
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    let name = server_name(None, name).unwrap();
    let connect = TlsConnector::from(Arc::new(client)).connect(name, ours);
    let (accepted, connected) = tokio::join!(TlsAcceptor::from(server.config()).accept(theirs), connect);
    connected.map_err(|error| error.to_string())?;
    let accepted = accepted.map_err(|error| error.to_string())?;
    Ok(accepted.get_ref().1.peer_certificates().map_or(0, <[_]>::len))
}

struct Scene {
    dir: tempfile::TempDir,
    authority: Authority,
    server: Written,
    config: EtcdConfig,
}

impl Scene {
    fn new(with_ca: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let server = authority.write_server(dir.path(), "server", &["etcd-main-local", "::1"]);
        let mut config = etcd_config(dir.path(), "https://0.0.0.0:2379");
        config.client_tls.cert_file = Some(server.cert.clone());
        config.client_tls.key_file = Some(server.key.clone());
        config.client_tls.client_cert_auth = true;
        if with_ca {
            config.client_tls.trusted_ca_file = Some(authority.write_ca(&dir.path().join("ca.crt")));
        }
        Self { dir, authority, server, config }
    }

    fn client(&self, pair: Option<&Pair>) -> ClientConfig {
        client_config(&self.config, pair).unwrap().unwrap()
    }
}

#[tokio::test]
async fn with_a_trusted_ca_chain_and_name_are_verified() {
    let scene = Scene::new(true);
    assert_eq!(handshake(scene.client(None), &scene.server, "etcd-main-local").await, Ok(0));
    assert_eq!(handshake(scene.client(None), &scene.server, "::1").await, Ok(0));
    assert!(handshake(scene.client(None), &scene.server, "elsewhere").await.is_err());
    let stranger = Authority::new("ca").write_server(scene.dir.path(), "stranger", &["etcd-main-local"]);
    assert!(handshake(scene.client(None), &stranger, "etcd-main-local").await.is_err());
}

#[tokio::test]
async fn g7_without_a_trusted_ca_exactly_etcds_certificate_is_trusted() {
    let scene = Scene::new(false);
    let client = scene.client(None);
    assert_eq!(handshake(client.clone(), &scene.server, "whatever").await, Ok(0));
    let sibling = scene.authority.write_server(scene.dir.path(), "sibling", &["etcd-main-local"]);
    let error = handshake(client.clone(), &sibling, "etcd-main-local").await.unwrap_err();
    assert!(error.contains("server.crt"), "{error}");

    // etcd shows a renewed certificate at once; the client that was made before must not lag behind.
    let renewed = scene.authority.write_server(scene.dir.path(), "server", &["etcd-main-local"]);
    assert_eq!(handshake(client, &renewed, "etcd-main-local").await, Ok(0));
}

#[tokio::test]
async fn a_self_signed_authority_that_serves_is_trusted_when_it_is_listed_itself() {
    let mut scene = Scene::new(true);
    let issue = |name: &str| {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let server = write(scene.dir.path(), "own", &issue("etcd-main-local"));
    scene.config.client_tls.trusted_ca_file = Some(server.cert.clone());
    assert_eq!(handshake(scene.client(None), &server, "etcd-main-local").await, Ok(0));
    assert!(handshake(scene.client(None), &server, "elsewhere").await.is_err());
    let other = write(scene.dir.path(), "other", &issue("etcd-main-local"));
    assert!(handshake(scene.client(None), &other, "etcd-main-local").await.is_err());
}

#[tokio::test]
async fn d19_only_a_clients_certificate_is_shown() {
    let scene = Scene::new(true);
    let load = |files: Written| Pair::load(&files.cert, &files.key).unwrap();
    let client = load(scene.authority.write_client(scene.dir.path(), "client", "etcd-client"));
    let both = scene.authority.issue(&["both"], &[ServerAuth, ClientAuth]);
    let both = load(write(scene.dir.path(), "both", &both));
    let server = Pair::load(&scene.server.cert, &scene.server.key).unwrap();
    for (pair, shown) in [(Some(&client), 1), (Some(&both), 1), (Some(&server), 0), (None, 0)] {
        assert_eq!(handshake(scene.client(pair), &scene.server, "etcd-main-local").await, Ok(shown));
    }
}

#[test]
fn plain_listen_urls_mean_no_tls_whatever_files_are_named() {
    let mut scene = Scene::new(true);
    scene.config.listen_client_urls = vec!["http://127.0.0.1:2379".into()];
    assert!(client_config(&scene.config, None).unwrap().is_none());
    scene.config.listen_client_urls = vec!["unixs://sock:1".into()];
    assert!(client_config(&scene.config, None).unwrap().is_some());
}

#[test]
fn d15_a_missing_trusted_file_is_named() {
    let scene = Scene::new(true);
    std::fs::remove_file(scene.dir.path().join("ca.crt")).unwrap();
    let error = client_config(&scene.config, None).unwrap_err().to_string();
    assert!(error.contains("ca.crt"), "{error}");
}

#[test]
fn the_flag_outranks_the_address_and_an_empty_one_counts_as_none() {
    assert_eq!(
        server_name(Some("etcd-main-local"), "127.0.0.1").unwrap(),
        ServerName::try_from("etcd-main-local").unwrap()
    );
    assert_eq!(
        server_name(Some(""), "::1").unwrap(),
        ServerName::IpAddress("::1".parse::<IpAddr>().unwrap().into())
    );
    server_name(None, "not a name").unwrap_err();
}
