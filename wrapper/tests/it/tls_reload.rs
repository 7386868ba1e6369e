// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Certificates that change under a running member: its port shows the new ones, keeps the old ones when the new are
//! bad, tells of their end, and never closes. Most tests say so by SIGHUP; one waits for the wrapper's own look.
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use doubles::etcd::{Event, Script};
use doubles::pki::{Authority, Flaw, Leaf, Pair, swap};
use doubles::sidecar::Route;
use doubles::wait::{self, Poll};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::http::Caller;
use crate::scene::{LONG, MEMBER, SECOND, Scene, Sides, Wrapper};
use crate::verbs::codes;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn scene() -> Scene {
    Scene::scripted(Script::default()).with_tls(Sides::CLIENT)
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

fn new_server(scene: &Scene) -> Pair {
    scene.pki().client_ca.sign(&server_leaf())
}

fn server_leaf() -> Leaf {
    Leaf::server(&["localhost", "127.0.0.1", &format!("{MEMBER}-local")])
}

fn shown(caller: &Caller) -> Vec<u8> {
    caller.get("/readyz").certificate.unwrap()
}

#[track_caller]
fn wait_shown(wrapper: &Wrapper<'_>, limit: Duration, wanted: &[u8]) {
    let caller = wrapper.caller().tls();
    wait::until(limit, "the new certificate at the port", || {
        Poll::when(shown(&caller) == wanted, || "another one".into())
    });
}

/// One sample of `/metrics`; None: there is no such series.
fn metric(wrapper: &Wrapper<'_>, series: &str) -> Option<f64> {
    let page = wrapper.caller().tls().get("/metrics").body;
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[track_caller]
fn wait_metric(wrapper: &Wrapper<'_>, series: &str, wanted: f64) {
    wait::until(5 * SECOND, &format!("{series} {wanted}"), || {
        let now = metric(wrapper, series);
        Poll::when(now == Some(wanted), || format!("{now:?}"))
    });
}

fn has_warning(status: &serde_json::Value, code: &str, text: &str) -> bool {
    status["warnings"].as_array().unwrap().iter().any(|warning| {
        warning["code"] == code && warning["detail"].as_str().is_some_and(|detail| detail.contains(text))
    })
}

/// As the kubelet mounts a secret: `tls.crt -> ..data/tls.crt`, `..data -> ..1`.
fn mount_as_secret(folder: &Path, pair: &Pair) {
    std::fs::remove_dir_all(folder).unwrap();
    pair.write(&folder.join("..1")).unwrap();
    std::os::unix::fs::symlink("..1", folder.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), folder.join(name)).unwrap();
    }
}

fn swap_secret(folder: &Path, pair: &Pair) {
    pair.write(&folder.join("..2")).unwrap();
    std::os::unix::fs::symlink("..2", folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    std::fs::remove_dir_all(folder.join("..1")).unwrap();
}

#[test]
fn g1_g5_replaced_files_are_shown_and_the_port_never_closes() {
    let scene = scene();
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let new = new_server(&scene);
    let (over, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let caller = wrapper.caller().tls().within(5 * SECOND);
        let (over, calls) = (&over, &calls);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // A refused or broken connection panics here, and so fails the test.
                assert_eq!(caller.get("/readyz").status, 200);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        std::fs::write(&scene.pki().server.cert, &new.cert_pem).unwrap();
        std::fs::write(&scene.pki().server.key, &new.key_pem).unwrap();
        wrapper.signal(Signal::HUP);
        wait_shown(&wrapper, 5 * SECOND, &der(&new.cert_pem));
        over.store(true, Ordering::Relaxed);
    });
    assert!(calls.into_inner() > 0);
    wait_metric(&wrapper, r#"etcd_wrapper_tls_reloads_total{result="ok"}"#, 1.0);
    assert_eq!(wrapper.etcd_pid(), etcd, "etcd re-reads by itself");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn g1_a_secret_swapped_by_its_link_is_shown_without_a_signal() {
    let scene = scene();
    let folder = scene.pki().server.cert.parent().unwrap().to_owned();
    mount_as_secret(&folder, &new_server(&scene));
    let wrapper = scene.start_ready();
    let new = new_server(&scene);
    swap_secret(&folder, &new);
    wait_shown(&wrapper, 20 * SECOND, &der(&new.cert_pem));
}

#[test]
fn g5_a_bad_new_pair_keeps_the_old_one_warns_and_counts() {
    let scene = scene();
    let wrapper = scene.start_ready();
    let old = shown(&wrapper.caller().tls());
    let (cert, key) = (scene.pki().server.cert.clone(), scene.pki().server.key.clone());
    let good = std::fs::read_to_string(&key).unwrap();
    let failed = r#"etcd_wrapper_tls_reloads_total{result="failed"}"#;

    swap(&key, &new_server(&scene).key_pem).unwrap();
    wrapper.signal(Signal::HUP);
    wrapper.wait_status(5 * SECOND, "the warning", |status| {
        has_warning(status, "tls_reload_failed", &key.display().to_string())
    });
    wait_metric(&wrapper, failed, 1.0);
    assert_eq!(shown(&wrapper.caller().tls()), old);
    // Looked at again without anything new: no second failure.
    wrapper.signal(Signal::HUP);
    wait::until(5 * SECOND, "both looks", || {
        let looks = wrapper.log().matches("looking at the certificates").count();
        Poll::when(looks == 2, || format!("{looks} looks"))
    });
    wait_metric(&wrapper, failed, 1.0);

    Flaw::Empty.write(&cert).unwrap();
    wrapper.signal(Signal::HUP);
    wait_metric(&wrapper, failed, 2.0);
    assert_eq!(shown(&wrapper.caller().tls()), old);

    let new = new_server(&scene);
    swap(&key, &new.key_pem).unwrap();
    swap(&cert, &new.cert_pem).unwrap();
    wrapper.signal(Signal::HUP);
    wait_shown(&wrapper, 5 * SECOND, &der(&new.cert_pem));
    wrapper.wait_status(5 * SECOND, "no warning", |status| !has_warning(status, "tls_reload_failed", ""));
    assert_ne!(good, new.key_pem);
}

#[test]
fn g2_a_changed_client_ca_is_a_warning_and_no_restart() {
    let scene = scene();
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    assert_eq!(metric(&wrapper, r#"etcd_wrapper_warning_active{code="restart_needed"}"#), None);
    let both = format!("{}{}", scene.pki().client_ca.cert_pem(), Authority::new("next").cert_pem());
    swap(&scene.pki().client_ca_file, &both).unwrap();
    wrapper.signal(Signal::HUP);
    wrapper.wait_status(5 * SECOND, "the warning", |status| {
        has_warning(status, "restart_needed", "ssl/ca/bundle.crt")
    });
    wait_metric(&wrapper, r#"etcd_wrapper_warning_active{code="restart_needed"}"#, 1.0);
    assert_eq!(wrapper.etcd_pid(), etcd);
    assert_eq!(scene.stage().starts().len(), 1);
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn g2_a_changed_peer_ca_is_a_warning_too() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let wrapper = scene.start_ready();
    swap(&scene.pki().peer_ca_file, Authority::new("next").cert_pem()).unwrap();
    wrapper.signal(Signal::HUP);
    wrapper.wait_status(5 * SECOND, "the warning", |status| {
        has_warning(status, "restart_needed", "ssl/peer/ca/bundle.crt")
    });
}

#[test]
fn g3_every_certificate_in_use_has_its_end_in_the_metrics() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let soon = scene.pki().client_ca.sign(&server_leaf().expires_in(13 * DAY));
    soon.write(scene.pki().server.cert.parent().unwrap()).unwrap();
    let wrapper = scene.start_ready();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let days = |cert: &str| {
        let series = format!("etcd_wrapper_certificate_not_after_timestamp_seconds{{cert=\"{cert}\"}}");
        let end = metric(&wrapper, &series).unwrap_or_else(|| panic!("no {series}"));
        ((end - now) / DAY.as_secs_f64()).round() as i64
    };
    let wanted = [
        ("server", 13),
        ("client_ca", 365),
        ("client", 30),
        ("peer", 30),
        ("peer_ca", 365),
        ("sidecar_ca", 365),
    ];
    for (cert, end) in wanted {
        assert_eq!(days(cert), end, "{cert}");
    }
    let status = wrapper.status();
    assert!(has_warning(&status, "certificate_expires", "ssl/server/tls.crt"), "{status}");
    assert_eq!(codes(&status).len(), 1, "the others have time: {status}");
    wait_metric(&wrapper, r#"etcd_wrapper_warning_active{code="certificate_expires"}"#, 1.0);
}

/// The new CA lies in our bundle first, as an operator rotates, then the sidecar shows the new certificate; and once
/// more with both at the same moment.
#[test]
fn g4_sidecar_certificate_and_ca_swapped_in_the_middle_of_polling() {
    let scene = Scene::scripted(Script::default())
        .with_tls(Sides::SIDECAR)
        .with_sidecar(|setup| setup.validation_time(4 * SECOND));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    let polls = scene.sidecar().calls(Route::Status).len();
    let next = Authority::new("next sidecar ca");
    let pair = next.sign(&server_leaf());
    swap(&scene.pki().sidecar_ca_file, next.cert_pem()).unwrap();
    swap(&scene.pki().sidecar.key, &pair.key_pem).unwrap();
    swap(&scene.pki().sidecar.cert, &pair.cert_pem).unwrap();
    // A poll that fell between the two swaps may have failed; those after it do not.
    scene.sidecar().wait_for_end(Route::Status, polls + 2, 10 * SECOND);
    wrapper.wait_ready();
    assert_eq!(scene.sidecar().modes(), ["full"], "one validation, whatever happened to the polls");
}

/// Connections that etcd's double has seen, and handshakes that failed.
fn connections(scene: &Scene) -> (usize, usize) {
    let records = scene.stage().records();
    let count = |wanted: fn(&Event) -> bool| records.iter().filter(|record| wanted(&record.event)).count();
    (
        count(|event| matches!(event, Event::Connected { .. })),
        count(|event| matches!(event, Event::Rejected { .. })),
    )
}

#[test]
fn g1_a_new_client_pair_is_shown_to_etcd_without_a_restart() {
    let scene = scene();
    let wrapper = scene.start_ready();
    let (before, _) = connections(&scene);
    let new = scene.pki().client_ca.sign(&Leaf::client("etcd-client"));
    swap(&scene.pki().client.key, &new.key_pem).unwrap();
    swap(&scene.pki().client.cert, &new.cert_pem).unwrap();
    wrapper.signal(Signal::HUP);
    wait::until(5 * SECOND, "a connection with the new pair", || {
        let now = connections(&scene);
        Poll::when(now.0 > before, || format!("{now:?}"))
    });
    assert_eq!(connections(&scene).1, 0, "none was rejected");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

/// Without a CA the wrapper trusts exactly the certificate in `cert-file`, also when that is another one now.
#[test]
fn g1_g7_a_new_server_pair_without_a_ca_is_trusted_at_once() {
    let scene = scene();
    let server = scene.pki().server.clone();
    let section = serde_json::json!({"cert-file": server.cert, "key-file": server.key});
    let config = scene.config().with("client-transport-security", section);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let (before, _) = connections(&scene);
    // Of nobody we ever trusted.
    let new = Authority::new("another").sign(&server_leaf());
    swap(&server.key, &new.key_pem).unwrap();
    swap(&server.cert, &new.cert_pem).unwrap();
    wrapper.signal(Signal::HUP);
    wait::until(5 * SECOND, "a connection that trusts the new pair", || {
        let now = connections(&scene);
        Poll::when(now.0 > before, || format!("{now:?}"))
    });
    assert_eq!(connections(&scene).1, 0, "none was rejected");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    wait_shown(&wrapper, 5 * SECOND, &der(&new.cert_pem));
}

#[test]
fn g3_an_expired_server_certificate_is_named_by_status_and_readiness() {
    let scene = scene();
    let ended = scene.pki().client_ca.sign(&server_leaf().expired());
    ended.write(scene.pki().server.cert.parent().unwrap()).unwrap();
    let wrapper = scene.start();
    let status = wrapper
        .wait_status(LONG, "the warning", |status| has_warning(status, "certificate_expires", "has ended"));
    assert!(has_warning(&status, "certificate_expires", "ssl/server/tls.crt"), "{status}");
    let answer = wrapper.caller().tls().get("/readyz?verbose");
    assert_eq!(answer.status, 503, "etcd cannot be asked: {answer:?}");
    wrapper.wait_status(5 * SECOND, "why etcd cannot be asked", |status| {
        status["readiness"]["checks"].to_string().to_lowercase().contains("expired")
    });
}
