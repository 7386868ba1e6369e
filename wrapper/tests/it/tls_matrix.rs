// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every combination of TLS between sidecar, clients and peers, and who hears a true answer from a probe in each.
use std::net::Ipv6Addr;

use doubles::etcd::Script;
use doubles::sidecar::Route;
use rstest::rstest;

use crate::http::Caller;
use crate::scene::{LONG, Scene, Sides, Wrapper};

const BOTH: Sides = Sides { client: true, peer: false, sidecar: true };

/// The kubelet's two ways to ask.
fn probes(wrapper: &Wrapper<'_>) -> [Caller; 2] {
    [wrapper.caller(), wrapper.caller().tls()]
}

/// The certificate in a PEM file, DER.
fn der(pem: &std::path::Path) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_file(pem).unwrap().to_vec()
}

#[rstest]
#[case::none(Sides::NONE)]
#[case::clients(Sides::CLIENT)]
#[case::sidecar(Sides::SIDECAR)]
#[case::both(BOTH)]
#[case::peers_too(Sides::ALL)]
fn a6_d13_every_combination_gets_ready_and_both_schemes_hear_the_truth(#[case] sides: Sides) {
    let scene = Scene::scripted(Script::default()).with_tls(sides);
    scene.sidecar().push_reply(Route::Status, doubles::sidecar::Reply::text("Progress\n").times(2));
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "initializing");
    for caller in probes(&wrapper) {
        let answer = caller.get("/readyz");
        assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("initializing")));
    }
    wrapper.wait_ready();
    for caller in probes(&wrapper) {
        assert_eq!(caller.get("/readyz").status, 200, "{sides:?}");
        assert_eq!(caller.get("/livez").status, 200, "{sides:?}");
        assert_eq!(caller.get("/startupz").status, 200, "{sides:?}");
    }
    let shown = wrapper.caller().tls().get("/readyz").certificate.unwrap();
    assert_eq!(shown == der(&scene.pki().server.cert), sides.client, "etcd's own certificate is shown");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(BOTH)]
fn d13_a_held_member_answers_both_schemes_and_starts_by_a_plain_call(#[case] sides: Sides) {
    let scene = Scene::scripted(Script::default()).with_tls(sides).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    for caller in probes(&wrapper) {
        let answer = caller.get("/readyz");
        assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("held")));
        assert_eq!(caller.get("/livez").status, 200);
    }
    let refused = wrapper.caller().tls().post("/v1/etcd/start");
    assert_eq!((refused.status, &refused.json()["code"]), (403, &"no_server_certificate".into()));
    let answer = wrapper.caller().post("/v1/etcd/start");
    assert_eq!(answer.status, 202, "{answer:?}");
    wrapper.wait_ready();
    assert_eq!(wrapper.caller().tls().get("/readyz").status, 200);
}

/// `client-cert-auth: true` and a server certificate for servers only, as druid makes them.
#[rstest]
#[case("3.4")]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d19_d12_a_real_etcd_that_demands_client_certificates_gets_ready_and_stops(#[case] line: &'static str) {
    let scene = Scene::real(line).with_tls(Sides::ALL);
    let mut wrapper = scene.start_ready();
    scene.etcdctl(&["put", "a", "1"]);
    // The kubelet and the sidecar have no certificate.
    assert_eq!(wrapper.caller().tls().get("/readyz").status, 200);
    assert_eq!(wrapper.caller().get("/readyz").status, 200);
    assert!(!wrapper.log().contains("rejected connection"));
    assert_eq!(wrapper.caller().tls().post("/stop").status, 200);
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[test]
fn d19_a_servers_certificate_named_as_the_clients_is_warned_of_and_does_no_harm() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT);
    let server = scene.pki().server.clone();
    let section = serde_json::json!({"cert-file": server.cert, "key-file": server.key});
    let config = scene.config().with("client-transport-security", section);
    let scene = scene
        .with_config(config)
        .flag(format!("--etcd-client-cert-path={}", server.cert.display()))
        .flag(format!("--etcd-client-key-path={}", server.key.display()));
    let wrapper = scene.start_ready();
    assert!(wrapper.log().contains("not for clients"), "the wrapper says so");
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
fn g7_without_a_client_ca_the_wrapper_polls_https_and_serves_https(#[case] line: &'static str) {
    let scene = Scene::real(line).with_tls(Sides::CLIENT);
    let server = scene.pki().server.clone();
    let section = serde_json::json!({"cert-file": server.cert, "key-file": server.key});
    let config = scene.config().with("client-transport-security", section);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let answer = wrapper.caller().tls().get("/v1/status");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.certificate.unwrap(), der(&scene.pki().server.cert));
    assert_eq!(answer.body.parse::<serde_json::Value>().unwrap()["etcd"]["effective"]["clientTls"], true);
    let plain = wrapper.caller().get("/v1/status");
    assert_eq!((plain.status, &plain.json()["code"]), (403, &"tls_required".into()));
}

#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(Sides::SIDECAR)]
fn a8_a_sidecar_at_an_ipv6_address_is_reached_and_verified(#[case] sides: Sides) {
    let listen = (Ipv6Addr::LOCALHOST, 0).into();
    let scene = Scene::scripted(Script::default()).with_tls(sides).with_sidecar(|setup| setup.listen(listen));
    assert!(scene.sidecar().addr().to_string().starts_with("[::1]:"));
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
}

/// A certificate for another name must not do: the address itself is verified.
#[test]
fn a8_an_ipv6_sidecar_with_a_certificate_for_another_name_is_not_believed() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::SIDECAR);
    let stranger = scene.pki().sidecar_ca.sign(&doubles::pki::Leaf::server(&["sidecar.example"]));
    doubles::pki::swap(&scene.pki().sidecar.cert, &stranger.cert_pem).unwrap();
    doubles::pki::swap(&scene.pki().sidecar.key, &stranger.key_pem).unwrap();
    let listen = (Ipv6Addr::LOCALHOST, 0).into();
    let scene = scene.with_sidecar(|setup| setup.listen(listen));
    let wrapper = scene.start();
    let status = wrapper
        .wait_status(LONG, "an error of the sidecar", |status| status["bootstrap"]["lastError"].is_string());
    let error = status["bootstrap"]["lastError"].as_str().unwrap();
    assert!(error.contains("::1") && error.contains("certificate"), "{error}");
    assert_eq!(scene.sidecar().log(), [], "no request is sent to somebody who is not believed");
}

#[test]
fn effective_says_what_the_running_etcd_was_started_with() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let wrapper = scene.start_ready();
    let caller = wrapper.caller().tls();
    let effective = caller.get("/v1/status").json()["etcd"]["effective"].clone();
    let url = format!("https://127.0.0.1:{}", scene.peer_port());
    let wanted = serde_json::json!({
        "name": crate::scene::MEMBER,
        "dataDir": scene.data_dir(),
        "listenPeerUrls": [url],
        "advertisePeerUrls": [url],
        "peerTls": true,
        "clientTls": true,
    });
    assert_eq!(effective, wanted);
    // A new map lies ready at the sidecar: that is not what runs.
    scene.sidecar().set_config(scene.config().with("initial-advertise-peer-urls", serde_json::json!({})));
    assert_eq!(caller.get("/v1/status").json()["etcd"]["effective"], wanted);
}
