// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Both schemes on one port, and what each serves (api.md §5). The table itself is tested beside auth.rs; here it is
//! the way from the first byte and a real certificate to its rows.
use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use rustls::sign::SingleCertAndKey;
use tokio::io::AsyncWriteExt;

use super::rig::{Client, Rig, exchange, limits, policy, read_all, request, within};
use crate::api::auth::Policy;
use crate::api::listener::ServerTls;
use crate::tls::authority::{Authority, write};
use crate::tls::files::Pair;
use crate::tls::server::{self, ClientTrust, SelfSigned};
use crate::tls::trust::Bundle;

const PROBES: [&str; 3] = ["/readyz", "/livez", "/startupz"];

async fn over_tls(rig: &Rig, client: Client, method: &str, target: &str, extra: &str) -> (u16, String) {
    let mut stream = rig.connect_tls(client).await;
    let reply = exchange(&mut stream, &request(method, target, extra)).await;
    let code = if target.starts_with("/readyz") { "-".into() } else { reply.code() };
    (reply.status, code)
}

#[tokio::test]
async fn d13_probes_are_answered_truly_by_both_schemes_in_every_state() {
    let rig = Rig::ready();
    for loaded in [false, true] {
        rig.server_tls.send_replace(rig.certificates.server_tls(loaded, true));
        for probe in PROBES {
            assert_eq!(rig.get(probe).await.status, 200, "{probe} {loaded}");
            assert_eq!(over_tls(&rig, Client::Nobody, "GET", probe, "").await.0, 200, "{probe} {loaded}");
        }
    }
    rig.core.send_modify(|core| core.draining = true);
    assert_eq!(rig.get("/readyz").await.status, 503);
    assert_eq!(over_tls(&rig, Client::Nobody, "GET", "/readyz", "").await.0, 503);
}

#[tokio::test]
async fn with_etcds_certificate_plain_http_serves_the_probes_alone() {
    let rig = Rig::ready();
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    for target in ["/metrics", "/v1/status", "/v1/version", "/nowhere"] {
        assert_eq!(rig.get(target).await.code(), "tls_required", "{target}");
        let (status, _) = over_tls(&rig, Client::Nobody, "GET", target, "").await;
        assert_eq!(status, if target == "/nowhere" { 404 } else { 200 }, "{target}");
    }
    assert_eq!(rig.call("POST", "/stop", "").await.code(), "tls_required");
    assert_eq!(rig.call("GET", "/stop", "").await.code(), "tls_required");
}

#[tokio::test]
async fn without_a_certificate_tls_serves_the_probes_alone() {
    let mut rig = Rig::ready();
    for target in ["/metrics", "/v1/status", "/v1/version", "/nowhere"] {
        let (status, code) = over_tls(&rig, Client::Nobody, "GET", target, "").await;
        assert_eq!((status, code.as_str()), (403, "no_server_certificate"), "{target}");
    }
    let (_, code) = over_tls(&rig, Client::Nobody, "POST", "/stop", "").await;
    assert_eq!(code, "no_server_certificate");
    assert_eq!(rig.get("/v1/status").await.status, 200);
    assert!(rig.commands.try_recv().is_err(), "a refused caller causes nothing");
}

#[tokio::test]
async fn d12_a_stranger_needs_a_certificate_and_the_pod_itself_none() {
    let host_network = Policy { control_loopback: false, ..policy() };
    let mut rig = Rig::with(host_network, limits());
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    for (client, read, control) in [
        (Client::Nobody, "certificate_required", "certificate_required"),
        (Client::Stranger, "certificate_required", "certificate_required"),
        (Client::Monitor, "-", "forbidden"),
        (Client::Agent, "-", "-"),
    ] {
        let (_, code) = over_tls(&rig, client, "GET", "/v1/leader", "").await;
        assert_eq!(code, read, "{client:?}");
        let (_, code) = over_tls(&rig, client, "POST", "/stop", "").await;
        assert_eq!(code, control, "{client:?}");
        assert_eq!(over_tls(&rig, client, "GET", "/readyz", "").await.0, 503, "{client:?}");
    }
    rig.command().await;
    rig.server_tls.send_replace(rig.certificates.server_tls(true, false));
    let (status, code) = over_tls(&rig, Client::Agent, "GET", "/v1/leader", "").await;
    assert_eq!((status, code.as_str()), (503, "trust_not_loaded"));

    let mut rig = Rig::ready();
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    assert_eq!(over_tls(&rig, Client::Nobody, "POST", "/stop", "").await.0, 200);
    rig.command().await;
}

#[tokio::test]
async fn an_open_connection_keeps_its_admission() {
    let rig = Rig::ready();
    let mut stream = rig.connect().await;
    within(stream.write_all(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")).await.unwrap();
    // Answered on another connection, so the first request has been read.
    rig.get("/livez").await;
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    assert_eq!(rig.get("/v1/version").await.code(), "tls_required");
    within(stream.write_all(request("GET", "/v1/version", "").as_bytes())).await.unwrap();
    let answers = read_all(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
}

#[tokio::test]
async fn browsers_foreign_hosts_and_proxied_requests_control_nothing() {
    let mut rig = Rig::ready();
    for extra in ["Origin: http://localhost\r\n", "X-Forwarded-For: 10.0.0.1\r\n", "Via: 1.1 proxy\r\n"] {
        assert_eq!(rig.call("POST", "/stop", extra).await.code(), "forbidden", "{extra}");
    }
    let foreign = "POST /stop HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(&mut rig.connect().await, foreign).await.code(), "forbidden");
    assert!(rig.commands.try_recv().is_err());
    // A host of the advertise URLs is ours.
    let host = "etcd-main-0.etcd-main-peer.ns.svc:9095";
    let own = format!("POST /stop HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert_eq!(exchange(&mut rig.connect().await, &own).await.status, 200);
    rig.command().await;
}

#[tokio::test]
async fn certificates_from_files_are_judged_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let bundle = Bundle::load(&authority.write_ca(&dir.path().join("ca.crt"))).unwrap();
    let files = authority.write_server(dir.path(), "server", &["localhost"]);
    let pair = Pair::load(&files.cert, &files.key).unwrap();
    let mut rig = Rig::with(Policy { control_loopback: false, ..policy() }, limits());
    let own = Arc::new(SelfSigned::new(vec!["localhost".into()]));

    rig.server_tls.send_replace(ServerTls::of(None, &own));
    assert_eq!(over_tls(&rig, Client::Nobody, "GET", "/livez", "").await.0, 200);
    assert_eq!(over_tls(&rig, Client::Nobody, "GET", "/metrics", "").await.1, "no_server_certificate");

    for (trust, name, read, control) in [
        (ClientTrust::by_bundle(&bundle), "agent", "-", "-"),
        (ClientTrust::by_bundle(&bundle), "monitor", "-", "forbidden"),
        (ClientTrust::NotLoaded, "agent", "trust_not_loaded", "trust_not_loaded"),
        (ClientTrust::Absent, "agent", "certificate_required", "certificate_required"),
    ] {
        let loaded = Arc::new(server::ServerTls::new(&pair, trust));
        rig.server_tls.send_replace(ServerTls::of(Some(loaded), &own));
        let files = write(dir.path(), name, &authority.issue(&[name], &[ClientAuth]));
        let shown = Pair::load(&files.cert, &files.key).unwrap();
        for (method, target, code) in [("GET", "/v1/leader", read), ("POST", "/stop", control)] {
            let mut config = rig.certificates.client_config(Client::Nobody);
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(&shown.certified)));
            let mut stream = rig.connect_with(config).await;
            let reply = exchange(&mut stream, &request(method, target, "")).await;
            assert_eq!(reply.code(), code, "{name} {target}");
        }
    }
    rig.command().await;
    assert!(rig.commands.try_recv().is_err(), "one caller of four had the right");
}
