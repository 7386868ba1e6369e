// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The wrapper as PID 1 of a PID namespace, as in a container without a shared one: orphans become its children, and
//! the kernel drops signals that it has no handler for.
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use doubles::etcd::{Ending, Event, How, OnSignal, Script};
use doubles::programs;
use doubles::wait::{self, Poll};
use rstest::rstest;
use rustix::process::Signal;

use crate::namespace::{as_init, init_of};
use crate::scene::{LONG, SECOND, Scene, children, signal, wait_gone};

/// An etcd that has left `orphans` behind before it became itself: each lives on for a moment after its parent.
fn littering(folder: &Path, orphans: u32) -> std::path::PathBuf {
    let script = folder.join("littering-etcd");
    let etcd = programs::etcd_double();
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *version*) ;; *) i=0; while [ $i -lt {orphans} ]; do (sleep 0.2 &); i=$((i+1)); done;; esac\nexec {} \"$@\"\n",
        etcd.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[test]
fn f1_f13_no_zombie_of_500_orphans_is_left_and_etcds_status_is_not_lost() {
    let mut scene = Scene::scripted(Script::default());
    scene.etcd = littering(scene.path(), 500);
    let mut wrapper = scene.start_command(as_init(&scene.command()));
    wrapper.wait_ready();
    let init = init_of(&wrapper);
    wait::until(SECOND * 10, "etcd as the only child", || {
        let children = children(init);
        Poll::when(children.len() == 1, || {
            let zombies = children.iter().filter(|(_, state)| *state == 'Z').count();
            format!("{} children, {zombies} of them zombies", children.len())
        })
    });
    let end = Some(Ending::after_ready(std::time::Duration::ZERO, How::Exit(42)));
    scene.stage().write(Script { end, ..Script::default() }).unwrap();
    assert_eq!(wrapper.wait_exit(LONG), 10);
    assert_eq!(wrapper.record()["etcd"]["exitCode"], 42);
}

/// Orphans end all the while: the reaper and etcd's owner meet at every one of them.
#[test]
fn f1_f13_etcds_end_is_its_owners_in_a_flood_of_orphans() {
    let end = Some(Ending::after_start(SECOND / 5, How::Exit(42)));
    let mut scene = Scene::scripted(Script { end, ..Script::default() });
    scene.etcd = littering(scene.path(), 200);
    for _ in 0..3 {
        let mut wrapper = scene.start_command(as_init(&scene.command()));
        assert_eq!(wrapper.wait_exit(LONG), 10);
        assert_eq!(wrapper.record()["etcd"]["exitCode"], 42);
    }
}

#[rstest]
#[case("3.5")]
#[case("3.7")]
fn f13_e13_a_real_etcd_under_pid_1_ends_cleanly(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let mut wrapper = scene.start_command(as_init(&scene.command()));
    wrapper.wait_ready();
    let init = init_of(&wrapper);
    assert_eq!(wrapper.status()["wrapper"]["pid"], 1);
    signal(init, Signal::TERM);
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(wrapper.record()["etcd"]["signal"], "SIGTERM");
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[test]
fn f13_e14_two_signals_end_pid_1() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(LONG), ..Script::default() });
    let mut wrapper = scene.start_command(as_init(&scene.command()));
    wrapper.wait_ready();
    let init = init_of(&wrapper);
    signal(init, Signal::INT);
    scene
        .stage()
        .wait_for_record(LONG, "SIGTERM", |record| matches!(record.event, Event::Signal { number: 15 }));
    signal(init, Signal::INT);
    assert_eq!(wrapper.wait_exit(SECOND * 2), 1);
    assert_eq!(scene.marker(), None);
}

#[test]
fn f13_b3_a_killed_etcd_under_pid_1_is_noticed() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_command(as_init(&scene.command()));
    wrapper.wait_ready();
    let (etcd, _) = children(init_of(&wrapper))[0];
    signal(etcd, Signal::KILL);
    assert_eq!(wrapper.wait_exit(SECOND * 2), 10);
    assert_eq!(wrapper.record()["etcd"]["signal"], "SIGKILL");
    wait_gone(etcd, SECOND);
}

#[test]
fn f13_nobodys_children_are_left_alone_where_we_are_not_pid_1() {
    let mut scene = Scene::scripted(Script::default());
    scene.etcd = littering(scene.path(), 5);
    let mut wrapper = scene.start_ready();
    assert!(!wrapper.log().contains("reaped"), "{}", wrapper.log());
    assert_eq!(children(wrapper.pid()).len(), 1, "orphans went to somebody else");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
}
