// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a client finds scheme and authority, in each state that the port can be in.
use doubles::etcd::Script;
use doubles::pki::{Authority, Leaf};
use serde_json::json;

use super::client;
use crate::scene::{LONG, Scene, Sides};

#[test]
fn plain_http_while_no_certificate_is_loaded_and_tls_from_then_on() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    // No configuration yet.
    client(&scene, &["status"]).ended(4);
    assert!(client(&scene, &["start", "--wait=30s"]).ended(0).out.contains("succeeded"));
    wrapper.wait_ready();
    assert_eq!(wrapper.caller().get("/v1/status").status, 403, "plain HTTP is not served any more");
    client(&scene, &["status"]).ended(0);
    client(&scene, &["restart", "--wait=30s"]).ended(0);
    drop(wrapper);

    // Now there is a configuration with TLS, and a wrapper that has not loaded it.
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    client(&scene, &["status"]).ended(4);
}

#[test]
fn g7_without_a_ca_exactly_the_certificate_of_the_configuration_is_trusted() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT);
    let pki = scene.pki();
    let section =
        json!({"cert-file": pki.server.cert, "key-file": pki.server.key, "client-cert-auth": false});
    let config = scene.config().with("client-transport-security", section);
    let scene = scene.with_config(config);
    let _wrapper = scene.start_ready();
    client(&scene, &["status"]).ended(0);
}

#[test]
fn a_strangers_certificate_is_not_trusted_and_nothing_is_sent_to_it() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT);
    let _wrapper = scene.start_ready();
    let stranger = Authority::new("stranger").write(&scene.path().join("stranger.crt")).unwrap();
    let cacert = format!("--cacert={}", stranger.display());
    let said = client(&scene, &["stop", &cacert]).ended(3);
    assert!(said.err.contains("TLS handshake") && said.err.contains("UnknownIssuer"), "{said:?}");
    client(&scene, &["status"]).ended(0);
}

#[test]
fn from_elsewhere_a_certificate_shows_who_one_is() {
    let scene = Scene::scripted(Script::default())
        .with_tls(Sides::CLIENT)
        .flag("--control-loopback=false")
        .flag("--control-identities=agent");
    let _wrapper = scene.start_ready();
    let pki = scene.pki();
    let agent = pki.client_ca.sign(&Leaf::client("agent")).write(&scene.path().join("agent")).unwrap();
    let flag = |name: &str, path: &std::path::Path| format!("--{name}={}", path.display());
    let server = format!("--server=https://{}", scene.api_addr());
    let cacert = flag("cacert", &pki.client_ca_file);
    let name = format!("--server-name={}-local", scene.member());
    let to = [server.as_str(), &cacert, &name];

    let said = client(&scene, &[&["status"][..], &to].concat()).ended(1);
    assert!(said.err.contains("certificate_required"), "{said:?}");
    let reader = [flag("cert", &pki.client.cert), flag("key", &pki.client.key)];
    let reader = [&to[..], &[&reader[0], &reader[1]]].concat();
    client(&scene, &[&["status"][..], &reader].concat()).ended(0);
    let refused = client(&scene, &[&["restart", "-o=json"][..], &reader].concat()).ended(1);
    assert_eq!(refused.json()["code"], "forbidden", "for machines the refusal is a document, too");
    let agent = [flag("cert", &agent.cert), flag("key", &agent.key)];
    let agent = [&to[..], &[&agent[0], &agent[1]]].concat();
    client(&scene, &[&["restart", "--wait=30s"][..], &agent].concat()).ended(0);
}
