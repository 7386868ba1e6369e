// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is wrong at the first start, and what follows (api.md §7): certificates, keys, configs, binaries. Each is named
//! in the last record, and etcd was never started.
use std::path::{Path, PathBuf};
use std::time::Duration;

use doubles::etcd::Script;
use doubles::pki::{Flaw, PodPki};
use doubles::sidecar::{Reply, Route};
use rstest::rstest;

use crate::scene::user::chmod;
use crate::scene::{LONG, SECOND, Scene, Sides};

/// "within 2 s" on a machine that does other things too.
const SOON: Duration = Duration::from_secs(4);

fn scene() -> Scene {
    Scene::scripted(Script::default()).with_tls(Sides::ALL)
}

/// Starts a wrapper that must end with 12 by itself, naming `path` and `text`, before any etcd was started.
#[track_caller]
fn ends_with_12(scene: &Scene, path: &Path, text: &str) {
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(SOON), 12);
    let record = wrapper.record();
    let cause = record.to_string();
    assert_eq!(record["code"], 12);
    assert!(cause.contains(&path.display().to_string()), "{cause} names no {}", path.display());
    assert!(cause.contains(text), "{cause} does not say {text:?}");
    assert_eq!(scene.stage().starts(), [], "etcd was never started");
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Missing,
    Empty,
    Garbage,
    Broken,
    /// A good file of another owner.
    Foreign,
    Folder,
}
use Damage::{Broken, Empty, Folder, Foreign, Garbage, Missing};

fn damage(path: &Path, damage: Damage, other: &Path) {
    match damage {
        Missing => std::fs::remove_file(path).unwrap(),
        Empty => drop(Flaw::Empty.write(path).unwrap()),
        Garbage => drop(Flaw::Garbage.write(path).unwrap()),
        Broken => drop(Flaw::BrokenPem.write(path).unwrap()),
        Foreign => drop(std::fs::copy(other, path).unwrap()),
        Folder => {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum File {
    SidecarCa,
    ClientCert,
    ClientKey,
    ServerCert,
    ServerKey,
    ClientCa,
    PeerCert,
    PeerKey,
    PeerCa,
}
use File::{ClientCa, ClientCert, ClientKey, PeerCa, PeerCert, PeerKey, ServerCert, ServerKey, SidecarCa};

impl File {
    fn path(self, pki: &PodPki) -> PathBuf {
        match self {
            SidecarCa => &pki.sidecar_ca_file,
            ClientCert => &pki.client.cert,
            ClientKey => &pki.client.key,
            ServerCert => &pki.server.cert,
            ServerKey => &pki.server.key,
            ClientCa => &pki.client_ca_file,
            PeerCert => &pki.peer.cert,
            PeerKey => &pki.peer.key,
            PeerCa => &pki.peer_ca_file,
        }
        .clone()
    }
}

#[rstest]
fn d15_g9_a_file_of_our_flags_that_is_no_good_ends_the_start(
    #[values(SidecarCa, ClientCert, ClientKey)] file: File,
    #[values(Missing, Empty, Garbage, Broken, Folder)] how: Damage,
) {
    let scene = scene();
    let path = file.path(scene.pki());
    damage(&path, how, &path);
    ends_with_12(&scene, &path, "our uid");
    assert_eq!(scene.sidecar().log(), [], "the sidecar was not bothered");
}

#[test]
fn d15_a_client_key_of_another_certificate_ends_the_start() {
    let scene = scene();
    let path = scene.pki().client.key.clone();
    damage(&path, Foreign, &scene.pki().server.key);
    ends_with_12(&scene, &path, "does not belong to certificate");
}

#[rstest]
fn d15_a_file_that_the_config_names_and_is_no_good_ends_the_start(
    #[values(ServerCert, ServerKey, ClientCa, PeerCert, PeerKey, PeerCa)] file: File,
    #[values(Missing, Empty)] how: Damage,
) {
    let scene = scene();
    let path = file.path(scene.pki());
    damage(&path, how, &path);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    assert!(record.contains(&path.display().to_string()) && record.contains("our uid"), "{record}");
    assert_eq!(scene.stage().starts(), [], "etcd was never started");
}

#[test]
fn d15_a_server_key_of_another_certificate_ends_the_start() {
    let scene = scene();
    let path = scene.pki().server.key.clone();
    damage(&path, Foreign, &scene.pki().peer.key);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    assert!(record.contains("does not belong to certificate"), "{record}");
    assert_eq!(scene.stage().starts(), []);
}

/// The way they were: readable by root alone, and the pod's user is not root.
#[rstest]
fn h8_d15_an_unreadable_file_is_named_with_mode_owner_and_our_uid(
    #[values(SidecarCa, ClientKey, ServerKey, ClientCa, PeerKey)] file: File,
) {
    let scene = scene().for_pod_user();
    let path = file.path(scene.pki());
    chmod(&path, 0o000);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    }
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    let owner = if rustix::process::geteuid().is_root() { 0 } else { scene.uid() };
    let wanted =
        [format!("{} (mode 0000, owner {owner}:", path.display()), format!("our uid {}", scene.uid())];
    for text in wanted {
        assert!(record.contains(&text), "{record} does not say {text:?}");
    }
    assert_eq!(scene.stage().starts(), []);
}

#[test]
fn d15_the_end_comes_within_2_s_of_the_start() {
    let scene = scene().for_pod_user();
    let path = scene.pki().client.key.clone();
    chmod(&path, 0o000);
    ends_with_12(&scene, &path, &format!("our uid {}", scene.uid()));
}

#[rstest]
#[case::nothing("")]
#[case::a_list("- name\n- data-dir\n")]
#[case::a_word("no such config")]
#[case::no_yaml("name: [etcd\n")]
#[case::without_a_name(
    "data-dir: /d\ninitial-cluster: a=http://a:1\nlisten-client-urls: http://127.0.0.1:1\n"
)]
fn a_served_config_that_is_no_good_is_asked_for_again(#[case] body: &str) {
    let scene = Scene::scripted(Script::default());
    scene.sidecar().push_reply(Route::Config, Reply::text(body).times(2));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Config, 2, LONG);
    assert!(!scene.home().join("etcd.conf.yaml").exists(), "never written");
    assert_eq!(scene.stage().starts(), [], "never given to etcd");
    wrapper.wait_ready();
    let config = scene.sidecar().calls(Route::Config);
    assert_eq!(config.len(), 3);
    assert_eq!(scene.sidecar().modes(), ["full"]);
    drop(wrapper);
}

type Place = fn(&Scene) -> PathBuf;

fn stand_alone(scene: &Scene, file: &Path) -> std::process::Command {
    let mut command = scene.command();
    command.arg(format!("--etcd-config-file={}", file.display()));
    command
}

#[rstest]
#[case::missing(None, "No such file")]
#[case::no_yaml(Some("name: [etcd\n"), "etcd.yaml")]
#[case::keys_missing(Some("name: a\n"), "data-dir")]
fn a_bad_config_file_ends_the_start(#[case] content: Option<&str>, #[case] text: &str) {
    let mut scene = Scene::scripted(Script::default());
    scene.sidecar = None;
    let file = scene.path().join("etcd.yaml");
    if let Some(content) = content {
        std::fs::write(&file, content).unwrap();
    }
    let mut wrapper = scene.start_command(stand_alone(&scene, &file));
    assert_eq!(wrapper.wait_exit(SOON), 12);
    let record = wrapper.record().to_string();
    assert!(record.contains(&file.display().to_string()) && record.contains(text), "{record}");
    assert_eq!(scene.stage().starts(), []);
}

#[test]
fn a_config_that_only_etcd_refuses_ends_with_10_and_its_status() {
    let scene = Scene::real("3.5");
    let config = scene.config().with("heartbeat-interval", 5000).with("election-timeout", 100);
    let scene = scene.with_config(config);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let record = wrapper.record();
    assert_eq!((&record["code"], &record["etcd"]["exitCode"]), (&10.into(), &1.into()), "{record}");
    assert_eq!(scene.marker(), None);
}

#[rstest]
#[case::missing(false, "No such file")]
#[case::not_executable(true, "etcd")]
fn an_etcd_that_cannot_be_run_ends_the_start(#[case] exists: bool, #[case] text: &str) {
    let mut scene = Scene::scripted(Script::default());
    let path = scene.path().join("bin-etcd");
    if exists {
        std::fs::write(&path, "no program\n").unwrap();
        chmod(&path, 0o644);
    }
    scene.etcd = path.clone();
    ends_with_12(&scene, &path, text);
    assert_eq!(scene.sidecar().log(), []);
}

#[rstest]
#[case::state_dir((|scene| scene.state_dir()) as Place)]
#[case::home((|scene| scene.home()) as Place)]
#[case::above_both((|scene| scene.path().to_owned()) as Place)]
fn a_data_dir_that_holds_more_than_etcds_data_ends_the_start(#[case] pick: Place) {
    let scene = Scene::scripted(Script::default());
    let data_dir = pick(&scene);
    scene.leave("witness", "untouched");
    chmod(&scene.state_dir().join("witness"), 0o644);
    let config = scene.config().with("data-dir", data_dir.to_str().unwrap());
    let scene = scene.with_config(config);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    assert!(record.contains("data-dir") && record.contains("refused"), "{record}");
    assert_eq!(crate::scene::user::mode(&scene.state_dir().join("witness")), 0o644, "nothing was walked");
    assert_eq!(scene.stage().starts(), []);
}

#[test]
fn a_marker_that_cannot_be_removed_ends_the_start() {
    let scene = Scene::scripted(Script::default()).for_pod_user();
    // Ours to write in, but what lies in it is root's, and the sticky bit keeps it there.
    let marker = scene.state_dir().join("exit_code");
    if rustix::process::geteuid().is_root() {
        scene.leave("exit_code", "terminated");
        std::os::unix::fs::chown(scene.state_dir(), Some(0), Some(0)).unwrap();
        chmod(&scene.state_dir(), 0o1777);
    } else {
        std::fs::create_dir_all(marker.join("in/the/way")).unwrap();
    }
    ends_with_12(&scene, &marker, &format!("our uid {}", scene.uid()));
    assert_eq!(scene.sidecar().modes(), [""; 0], "nothing was asked of the sidecar");
}

#[test]
fn h4_a_state_dir_that_cannot_be_written_ends_the_start_within_1_s() {
    let scene = Scene::scripted(Script::default()).for_pod_user();
    chmod(&scene.state_dir(), 0o555);
    let mut wrapper = scene.start();
    // 1 s in the requirement; the rest is the machine's.
    assert_eq!(wrapper.wait_exit(3 * SECOND), 12);
    let record = wrapper.record().to_string();
    let wanted = format!("{} (mode 0555, owner {}:", scene.state_dir().display(), scene.uid());
    assert!(record.contains(&wanted) && record.contains(&format!("our uid {}", scene.uid())), "{record}");
}
