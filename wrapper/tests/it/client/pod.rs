// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cheatsheet`, `history` and `report`: what they say of a pod is true, and what they must not say is not there.
use std::path::Path;
use std::process::Command;

use doubles::etcd::Script;
use rstest::rstest;

use super::{client, command, said, start_leading};
use crate::namespace::with_mounts;
use crate::scene::{LONG, Scene, Sides};

/// The lines that call etcdctl, as arguments.
fn etcdctl_lines(sheet: &str) -> Vec<Vec<String>> {
    let line = |line: &str| {
        let (_, arguments) = line.split_once("etcdctl ")?;
        let bare = arguments.split(" #").next().unwrap_or(arguments);
        Some(bare.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect())
    };
    sheet.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

fn etcdctl(arguments: &[String]) -> std::process::Output {
    let program = std::env::var_os("E2E_ETCDCTL_35").expect("E2E_ETCDCTL_35 is set by `cargo xtask test`");
    Command::new(program).args(arguments).output().unwrap()
}

#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(Sides::ALL)]
fn h9_the_commands_of_a_cheatsheet_can_be_pasted_as_they_are(#[case] sides: Sides) {
    let scene = Scene::real("3.5").with_tls(sides);
    // As in a pod, where a line of /etc/hosts makes the name local; here the certificate has to know the address.
    let scene = with_address_in_certificate(scene, sides);
    let mut wrapper = start_leading(&scene);
    let sheet = client(&scene, &["cheatsheet"]).ended(0).out;
    let lines = etcdctl_lines(&sheet);
    for verb in ["endpoint", "member", "alarm", "defrag", "auth"] {
        let harmless = |line: &&Vec<String>| {
            line.iter().any(|word| word == verb)
                && !line.iter().any(|word| word == "update" || word == "disarm")
        };
        let found: Vec<_> = lines.iter().filter(harmless).collect();
        assert!(!found.is_empty(), "{verb}: {sheet}");
        for line in found {
            let output = etcdctl(line);
            assert!(output.status.success(), "{line:?}: {output:?}");
        }
    }
    let id = wrapper.status()["member"]["id"].as_str().unwrap().to_owned();
    assert!(sheet.contains(&format!("member update {id} --peer-urls=")), "{sheet}");
    assert!(sheet.contains(&format!("/proc/{}/root", wrapper.pid())), "{sheet}");
    for path in [scene.data_dir(), scene.home().join("etcd.conf.yaml"), scene.state_dir().join("exit_code")] {
        assert!(sheet.contains(&path.display().to_string()), "{sheet}");
    }
    let address = scene.sidecar().addr();
    assert!(sheet.contains(&format!("://{address}/snapshot/full")), "{sheet}");

    // An ephemeral container sees the same files through the process.
    let sheet = client(&scene, &["cheatsheet", "--ephemeral"]).ended(0).out;
    for line in etcdctl_lines(&sheet).iter().filter(|line| line.iter().any(|word| word == "health")) {
        assert!(sides == Sides::NONE || line.iter().any(|word| word.contains("/root/")), "{line:?}");
        let output = etcdctl(line);
        assert!(output.status.success(), "{line:?}: {output:?}");
    }

    // While all is down there is as much of it as anybody can know.
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let state = format!("--state-dir={}", scene.state_dir().display());
    let sheet = client(&scene, &["cheatsheet", &state]).ended(0).out;
    assert!(sheet.contains("The wrapper was not asked"), "{sheet}");
    assert!(
        sheet.contains(&scene.data_dir().display().to_string()) && sheet.contains("member list"),
        "{sheet}"
    );
}

fn with_address_in_certificate(scene: Scene, sides: Sides) -> Scene {
    if !sides.client {
        return scene;
    }
    let pki = scene.pki();
    let name = format!("{}-local", scene.member());
    let leaf = doubles::pki::Leaf::server(&[&name, "127.0.0.1"]);
    let pair = pki.client_ca.sign(&leaf);
    std::fs::write(&pki.server.cert, &pair.cert_pem).unwrap();
    std::fs::write(&pki.server.key, &pair.key_pem).unwrap();
    scene
}

#[test]
fn h9_an_ephemeral_containers_client_finds_the_files_through_the_process() {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "only root can look into another mount namespace: run as root");
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let wrapper = scene.start_ready();
    // Of the wrapper's container nothing is there: as after `kubectl debug --target`, which shares processes alone.
    let hide = "mount -t tmpfs none \"$1\"\nmount -t tmpfs none \"$2\"\nmount -t tmpfs none \"$3\"";
    let hidden = [scene.home(), scene.state_dir(), scene.path().join("pki")];
    let hidden = hidden.each_ref().map(|path| path as &Path);
    let apart = |args: &[&str]| said(with_mounts(&command(&scene, args), hide, &hidden));
    // Over TLS, trusting a CA that only the wrapper's root has.
    assert!(apart(&["status"]).ended(0).out.contains("READY"));
    let sheet = apart(&["cheatsheet"]).ended(0).out;
    let below = |path: &Path| format!("/proc/{}/root{}", wrapper.pid(), path.display());
    for path in [&scene.data_dir(), &scene.home().join("etcd.conf.yaml"), &scene.pki().client_ca_file] {
        assert!(sheet.contains(&below(path)), "{sheet}");
    }
    let report = apart(&["report"]).ended(0).out;
    assert!(report.contains("/name: etcd-main-0") && report.contains("CN="), "{report}");
}

#[test]
fn the_last_ends_are_listed_for_people_and_for_machines() {
    let scene = Scene::scripted(Script::default());
    let state = format!("--state-dir={}", scene.state_dir().display());
    assert!(client(&scene, &["history", &state]).ended(0).out.contains("no process has ended"));
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let table = client(&scene, &["history", &state]).ended(0).out;
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[1..4], ["0", "stopped", "running"], "{table}");
    let line = client(&scene, &["history", &state, "-o=json"]).ended(0).json();
    assert_eq!(line, scene.history()[0]);
    client(&scene, &["history", "--state-dir=/no/such/folder"]).ended(1);
}

#[test]
fn j2_a_report_has_every_section_and_no_secret() {
    let scene = Scene::real("3.5").with_tls(Sides::ALL);
    let config = scene
        .config()
        .with("initial-cluster-token", "HUNTER2")
        .with("discovery-proxy", "http://me:HUNTER2@proxy/?sig=HUNTER2");
    let scene = with_address_in_certificate(scene.with_config(config), Sides::ALL);
    let wrapper = scene.start_ready();
    let report = client(&scene, &["report"]).ended(0).out;
    let etcd = wrapper.etcd_pid();
    for part in [
        "=== Status",
        "\"phase\": \"running\"",
        "=== Members",
        "this member",
        "=== Last ends",
        "=== Flags",
        "start-etcd",
        "/initial-cluster-token: (left out)",
        "=== Certificates",
        "issuer",
        "Max open files",
        &format!("\"pid\": {etcd}"),
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
    assert!(!report.contains("HUNTER2") && !report.contains("PRIVATE KEY"), "{report}");
    assert!(!report.contains("not to be had"), "{report}");
    drop(wrapper);

    // Each section stands for itself: with nobody left, the files still tell.
    let report = client(&scene, &["report"]).ended(0).out;
    assert!(report.contains("not to be had") && report.contains("/name: etcd-main-0"), "{report}");
    let mut bare = command(&scene, &["report"]);
    bare.env_clear().current_dir(Path::new("/"));
    said(bare).ended(0);
}
