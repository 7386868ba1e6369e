// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Modes and owners of the data directory before and after every start, as root and as the pod's user, with what an
//! fsGroup mount does to them.
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use doubles::etcd::Script;
use rstest::rstest;

use crate::scene::user::{below, chmod, mode};
use crate::scene::{LONG, SECOND, Scene};

#[derive(Clone, Copy, Debug)]
enum Who {
    Ourselves,
    ThePodsUser,
}
use Who::{Ourselves, ThePodsUser};

fn scene(who: Who, scene: Scene) -> Scene {
    match who {
        Ourselves => scene,
        ThePodsUser => scene.for_pod_user(),
    }
}

/// Every file 0600 and every folder 0700, all of them `uid`'s; how many files there are.
#[track_caller]
fn assert_private(data_dir: &Path, uid: u32) -> usize {
    let files = std::cell::Cell::new(0);
    below(data_dir, &|path| {
        let found = path.symlink_metadata().unwrap();
        let wanted = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), wanted, "{}", path.display());
        assert_eq!(found.uid(), uid, "{}", path.display());
        files.set(files.get() + usize::from(found.is_file()));
    });
    files.get()
}

/// What a volume's fsGroup does at a mount.
fn mount_with_fs_group(state_dir: &Path) {
    below(state_dir, &|path| {
        let folder = path.symlink_metadata().unwrap().is_dir();
        chmod(path, if folder { 0o2770 } else { 0o660 });
    });
}

#[rstest]
#[case::ourselves(Ourselves)]
#[case::pod_user(ThePodsUser)]
fn h1_h2_modes_are_private_after_the_first_start_and_after_every_other(#[case] who: Who) {
    let scene = scene(who, Scene::real("3.5"));
    assert!(!scene.data_dir().exists(), "a first boot");
    for round in 0..3 {
        let mut wrapper = scene.start_ready();
        let files = assert_private(&scene.data_dir(), scene.uid());
        assert!(files >= 2, "round {round}: database and WAL are there: {files}");
        assert_eq!(mode(&scene.home().join("etcd.conf.yaml")), 0o600);
        wrapper.terminate();
        assert_eq!(wrapper.wait_exit(LONG), 0);
        mount_with_fs_group(&scene.state_dir());
    }
    assert_eq!(scene.sidecar().modes(), ["full", "sanity", "sanity"], "the marker is read whatever its mode");
}

#[rstest]
fn h3_a_data_dir_with_other_modes_is_made_private(
    #[values(Ourselves, ThePodsUser)] who: Who,
    #[values(0o755, 0o2770, 0o777, 0o500)] before: u32,
) {
    let scene = scene(who, Scene::scripted(Script::default()));
    std::fs::create_dir_all(scene.data_dir().join("member/wal")).unwrap();
    std::fs::write(scene.data_dir().join("member/wal/0.wal"), "x").unwrap();
    chmod(&scene.data_dir().join("member/wal/0.wal"), 0o644);
    scene.hand_over();
    chmod(&scene.data_dir(), before);
    let _wrapper = scene.start_ready();
    assert_private(&scene.data_dir(), scene.uid());
}

#[test]
fn etcds_umask_lets_nobody_else_in() {
    let scene = Scene::scripted(Script::default());
    let _wrapper = scene.start_ready();
    let (_, facts) = scene.stage().wait_for_start(1, SECOND);
    assert_eq!(facts.umask, 0o077);
    assert_eq!(facts.config.unwrap().mode, 0o600);
}

#[test]
fn links_in_the_data_dir_are_not_followed() {
    let scene = Scene::scripted(Script::default());
    let outside = scene.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "x").unwrap();
    chmod(&outside.join("file"), 0o644);
    chmod(&outside, 0o755);
    std::fs::create_dir_all(scene.data_dir().join("member")).unwrap();
    symlink(outside.join("file"), scene.data_dir().join("member/file")).unwrap();
    symlink(&outside, scene.data_dir().join("member/folder")).unwrap();
    symlink("/nowhere", scene.data_dir().join("dangling")).unwrap();
    let _wrapper = scene.start_ready();
    assert_eq!((mode(&outside), mode(&outside.join("file"))), (0o755, 0o644));
    assert_eq!(mode(&scene.data_dir()), 0o700, "what is not a link was set");
}

/// Needs root to make them.
#[test]
fn h4_foreign_files_are_warned_of_and_skipped() {
    assert!(rustix::process::geteuid().is_root(), "only root can make files of another owner: run as root");
    let scene = Scene::scripted(Script::default()).for_pod_user();
    let at = |path: &str| scene.data_dir().join(path);
    std::fs::create_dir_all(at("member")).unwrap();
    std::fs::create_dir_all(at("closed")).unwrap();
    for path in ["foreign", "ours", "member/ours", "closed/hidden"] {
        std::fs::write(at(path), "x").unwrap();
        chmod(&at(path), 0o664);
    }
    scene.hand_over();
    for path in ["foreign", "closed", "closed/hidden"] {
        std::os::unix::fs::chown(at(path), Some(0), Some(0)).unwrap();
    }
    chmod(&at("closed"), 0o700);
    let wrapper = scene.start_ready();
    assert_eq!((mode(&at("foreign")), mode(&at("closed/hidden"))), (0o664, 0o664));
    assert_eq!((mode(&at("ours")), mode(&at("member/ours"))), (0o600, 0o600), "it went on");
    let log = wrapper.log();
    for path in ["foreign", "closed"] {
        let line = log.lines().find(|line| line.contains(&at(path).display().to_string()));
        let line = line.unwrap_or_else(|| panic!("no warning names {path}"));
        assert!(line.contains("WARN") && line.contains("owner 0:0"), "{line}");
        assert!(line.contains(&format!("our uid {}", scene.uid())), "{line}");
    }
}

/// Somebody else's directory that we may write to: not ours to change, yet etcd can run.
#[test]
fn h3_h4_a_foreign_data_dir_is_warned_of() {
    assert!(rustix::process::geteuid().is_root(), "only root can make files of another owner: run as root");
    let scene = Scene::scripted(Script::default()).for_pod_user();
    std::fs::create_dir(scene.data_dir()).unwrap();
    chmod(&scene.data_dir(), 0o2777);
    let wrapper = scene.start_ready();
    assert_eq!(mode(&scene.data_dir()), 0o2777);
    let named = format!("{}: it belongs to another user", scene.data_dir().display());
    assert!(wrapper.log().contains(&named), "{}", wrapper.log());
}

#[rstest]
#[case::read_only(0o500, ThePodsUser)]
#[case::foreign(0o755, Ourselves)]
fn h4_a_data_dir_that_cannot_be_written_ends_with_path_mode_and_uid(#[case] bits: u32, #[case] owner: Who) {
    let scene = Scene::scripted(Script::default()).for_pod_user();
    // The place for it is closed: nothing that a walk could mend.
    std::fs::create_dir(scene.data_dir()).unwrap();
    if matches!(owner, ThePodsUser) {
        scene.hand_over();
        std::fs::remove_dir(scene.data_dir()).unwrap();
        let parent = scene.path().join("volume");
        std::fs::create_dir(&parent).unwrap();
        scene.hand_over();
        chmod(&parent, bits);
        let config = scene.config().with("data-dir", parent.join("etcd").to_str().unwrap());
        let scene = scene.with_config(config);
        return ends(&scene, &parent, bits);
    }
    assert!(rustix::process::geteuid().is_root(), "only root can make files of another owner: run as root");
    chmod(&scene.data_dir(), bits);
    ends(&scene, &scene.data_dir(), bits);
}

#[track_caller]
fn ends(scene: &Scene, path: &Path, bits: u32) {
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    for text in [format!("{} (mode {bits:04o}", path.display()), format!("our uid {}", scene.uid())] {
        assert!(record.contains(&text), "{record} does not say {text:?}");
    }
    assert_eq!(scene.stage().starts(), []);
}
