// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Nothing secret in any log line, at the most talkative level: a canary lies in every place a secret can come from.
use doubles::etcd::Script;
use doubles::pki::{Flaw, swap};
use doubles::sidecar::{Reply, Route};
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, Sides};

const CANARY: &str = "c4n4ry-hunter2";

/// No canary, no PEM, and no line of any PEM file below `pki/`.
#[track_caller]
fn assert_clean(scene: &Scene, log: &str) {
    assert!(log.contains("TRACE"), "the level is in force");
    let line = |text: &str| log.lines().find(|line| line.contains(text)).map(str::to_owned);
    for text in [CANARY, "-----BEGIN", "PRIVATE KEY"] {
        assert_eq!(line(text), None, "{text}");
    }
    crate::scene::user::below(&scene.path().join("pki"), &|path| {
        if path.is_file() {
            let content = std::fs::read_to_string(path).unwrap();
            for secret in content.lines().filter(|line| line.len() > 32 && !line.starts_with('-')) {
                assert_eq!(line(secret), None, "{} of {}", secret, path.display());
            }
        }
    });
}

#[test]
fn j2_no_log_line_holds_a_secret_at_trace() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let config = scene
        .config()
        .with("snapstore-password", CANARY)
        .with("auth-token", format!("jwt,priv-key={CANARY}"))
        .with("initial-cluster-token", CANARY);
    let scene = scene.with_config(config).flag("--log-level=trace");
    let sidecar = scene.sidecar();
    // Bodies that cannot be parsed, and errors that tell of a URL.
    let noise = format!("snapstore-password: [{CANARY}\n");
    let twice = format!("snapstore-password: {CANARY}\nname: a\nsnapstore-password: {CANARY}\n");
    let blob = format!("GET https://store.example/blob?sv=1&sig={CANARY}: 403");
    sidecar.push_reply(Route::Status, Reply::code(500).body(&blob));
    sidecar.push_reply(Route::Config, Reply::code(500).body(&blob));
    sidecar.push_reply(Route::Config, Reply::text(&noise));
    sidecar.push_reply(Route::Config, Reply::text(&twice));
    let mut wrapper = scene.start();
    wrapper.wait_ready_within(LONG);

    let bearer = format!("Bearer {CANARY}");
    let headers = [("authorization", bearer.as_str()), ("cookie", CANARY), ("x-token", CANARY)];
    let tls = wrapper.caller().showing(
        &std::fs::read_to_string(&scene.pki().client.cert).unwrap(),
        &std::fs::read_to_string(&scene.pki().client.key).unwrap(),
    );
    for caller in [wrapper.caller(), tls.clone()] {
        for path in ["/readyz", "/v1/status", "/v1/leader", "/nowhere", "/stop"] {
            caller.call("GET", &format!("{path}?token={CANARY}&access_token={CANARY}"), &headers, "");
        }
        let start = format!("/v1/etcd/start?reason={CANARY}&token={CANARY}");
        caller.call("POST", &start, &headers, &format!("password: {CANARY}\n"));
        let _ = caller.try_call("BREW", &format!("/{CANARY}"), &headers, CANARY);
    }
    // A reload that goes wrong, and one that goes well.
    let key = &scene.pki().server.key;
    let good = std::fs::read_to_string(key).unwrap();
    for bad in [good.replace("-----END PRIVATE KEY-----", ""), Flaw::LegacyEncryptedKey.text(), CANARY.into()]
    {
        swap(key, &bad).unwrap();
        wrapper.signal(Signal::HUP);
        wrapper.wait_log(5 * SECOND, "cannot be used");
    }
    swap(key, &good).unwrap();
    assert_eq!(tls.get("/readyz").status, 200);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_clean(&scene, &wrapper.log());
}

#[test]
fn j2_a_start_that_fails_over_its_files_shows_none_of_them() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL).flag("--log-level=trace");
    let key = scene.pki().client.key.clone();
    let content = std::fs::read_to_string(&key).unwrap();
    std::fs::write(&key, content.replace("-----END PRIVATE KEY-----", "-----END")).unwrap();
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    assert_clean(&scene, &format!("TRACE {}", wrapper.log()));
}
