// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! docs/runbooks.md, run exactly as printed: on a member, or on three, brought into the trouble that the runbook is about.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use doubles::sidecar::{Reply, Route};
use rustix::process::Signal;

use crate::cluster::{Cluster, leader};
use crate::printed::{as_kubelet, exec_into, run};
use crate::scene::{LONG, MEMBER, Scene, Sides, Wrapper, signal};

const PAGE: &str = "../docs/runbooks.md";

/// `etcdctl` in a member's container.
fn etcdctl_in(scene: &Scene) -> String {
    format!("{} etcdctl", exec_into(scene))
}

fn state(scene: &Scene) -> String {
    scene.state_dir().display().to_string()
}

/// What the wrapper gave to etcd.
fn config_of(scene: &Scene) -> PathBuf {
    scene.home().join("etcd.conf.yaml")
}

#[test]
fn the_runbook_of_an_unready_member_works_as_printed() {
    let scene = Scene::real("3.5");
    let mut wrapper = crate::client::start_leading(&scene);
    let values = [("MEMBER", exec_into(&scene))];
    run(&scene, PAGE, "Why is it not ready", &values, || as_kubelet(&scene, &mut wrapper));
}

#[test]
fn i11_the_runbook_of_a_member_that_ends_again_and_again_works_as_printed() {
    let scene = Scene::real("3.5");
    let mut wrapper = scene.start_ready();
    signal(wrapper.etcd_pid(), Signal::KILL);
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let mut wrapper = scene.start_ready();
    let hold = scene.state_dir().join("hold");
    let mut killed = false;
    let values = [("MEMBER", exec_into(&scene)), ("STATE", state(&scene))];
    run(&scene, PAGE, "It ends again and again", &values, || {
        // It crashes once more while somebody looks at it.
        if hold.exists() && !killed {
            signal(wrapper.pid(), Signal::KILL);
            wrapper.wait_exit(LONG);
            killed = true;
        }
        as_kubelet(&scene, &mut wrapper);
    });
    assert!(killed);
}

#[test]
fn the_runbook_of_a_start_without_the_sidecar_works_as_printed() {
    let mut scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    let config = scene.path().join("served.yaml");
    std::fs::copy(config_of(&scene), &config).unwrap();
    drop(wrapper);
    let failing: Reply =
        serde_json::from_value(serde_json::json!({"code": 500, "body": "no credentials"})).unwrap();
    scene = scene.with_sidecar(|setup| setup.always(Route::Status, failing));
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "initializing");
    let values = [("MEMBER", exec_into(&scene)), ("CONFIG", config.display().to_string())];
    let mut mended = false;
    run(&scene, PAGE, "Start without the sidecar", &values, || {
        as_kubelet(&scene, &mut wrapper);
        // Somebody brings new credentials once etcd runs.
        if !mended && wrapper.status()["etcd"]["configSource"] == "posted" {
            scene.sidecar().set_default(Route::Status, None);
            mended = true;
        }
    });
    assert!(mended);
}

#[test]
fn the_runbook_of_a_full_database_works_as_printed() {
    let mut scene = Scene::real("3.5");
    let config = scene.config().with("quota-backend-bytes", 1_000_000);
    scene = scene.with_config(config);
    let mut wrapper = scene.start_ready();
    let blob = "x".repeat(100_000);
    let full = (0..40).any(|_| !scene.try_etcdctl(&["put", "blob", &blob]).status.success());
    assert!(full, "4 MB went into a database of 1 MB");
    wrapper.wait_status(LONG, "the alarm", |status| status["health"]["diagnosis"] == "alarm_nospace");
    let values = [("MEMBER", exec_into(&scene)), ("ETCDCTL", etcdctl_in(&scene))];
    run(&scene, PAGE, "No space", &values, || as_kubelet(&scene, &mut wrapper));
}

#[test]
fn the_runbook_of_a_lost_quorum_works_as_printed() {
    let cluster = Cluster::plain("3.5");
    let mut wrappers = cluster.start_ready();
    cluster.members[0].etcdctl(&["put", "key", "value"]);
    for mut gone in wrappers.drain(1..) {
        signal(gone.pid(), Signal::KILL);
        gone.wait_exit(LONG);
    }
    let mut wrapper = wrappers.remove(0);
    let scene = &cluster.members[0];
    let values = [
        ("MEMBER", exec_into(scene)),
        ("ETCDCTL", etcdctl_in(scene)),
        ("STATE", state(scene)),
        ("CONFIG", config_of(scene).display().to_string()),
    ];
    run(scene, PAGE, "Lost quorum", &values, || as_kubelet(scene, &mut wrapper));
}

#[test]
fn i8_the_runbook_of_a_member_replacement_works_as_printed_with_three_members() {
    let cluster = Cluster::plain("3.5");
    let mut wrappers: Vec<Wrapper<'_>> = cluster.start_ready();
    leader(&wrappers);
    cluster.members[0].etcdctl(&["put", "key", "value"]);
    let [healthy, _, lost] = cluster.members.as_slice() else { panic!("three members") };
    let values = [
        ("MEMBER", exec_into(lost)),
        ("ETCDCTL", etcdctl_in(healthy)),
        ("NAME", lost.member().to_owned()),
        ("STATE", state(lost)),
        ("CONFIG", config_of(lost).display().to_string()),
    ];
    run(lost, PAGE, "Member replacement", &values, || {
        for (scene, wrapper) in cluster.members.iter().zip(&mut wrappers) {
            as_kubelet(scene, wrapper);
        }
    });
    assert!(lost.etcdctl(&["get", "key"]).contains("value"));
}

#[test]
fn g1_the_runbook_of_expired_certificates_works_as_printed() {
    let scene = Scene::real("3.5").with_tls(Sides::CLIENT);
    let mut wrapper = scene.start_ready();
    let server = doubles::pki::Leaf::server(&["localhost", "127.0.0.1", &format!("{MEMBER}-local")]);
    let new = scene.pki().client_ca.sign(&server);
    let (new_cert, new_key) = (scene.path().join("new.crt"), scene.path().join("new.key"));
    std::fs::write(&new_cert, &new.cert_pem).unwrap();
    std::fs::write(&new_key, &new.key_pem).unwrap();
    let path = |path: &Path| path.display().to_string();
    let files = &scene.pki().server;
    let values = [
        ("MEMBER", exec_into(&scene)),
        ("WRAPPER", format!("https://{}", scene.api_addr())),
        ("CERT", path(&files.cert)),
        ("KEY", path(&files.key)),
        ("NEW_CERT", path(&new_cert)),
        ("NEW_KEY", path(&new_key)),
    ];
    run(&scene, PAGE, "Expired certificates", &values, || as_kubelet(&scene, &mut wrapper));
}

/// A runbook whose commands nobody runs would rot.
#[test]
fn every_runbook_with_commands_is_run_by_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(folder.join(PAGE)).unwrap();
    let sections = page.split("\n## ").skip(1);
    let with_commands: BTreeSet<&str> = sections
        .filter(|section| section.contains("```sh\n"))
        .filter_map(|section| section.lines().next())
        .collect();
    let here = std::fs::read_to_string(folder.join("tests/it/runbooks.rs")).unwrap();
    let run: BTreeSet<&str> =
        here.split(", PAGE, \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(with_commands, run);
}
