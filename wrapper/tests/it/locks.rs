// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! F6 and safety.md 8: one owner at a time. Strangers that hold the database or `etcd.lock` are told of, waited for
//! within the ready timeout, and never harmed.
use std::fs::{File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use doubles::etcd::{Event, Script};
use doubles::programs;
use rstest::rstest;
use rustix::fs::FlockOperation;
use rustix::process::Signal;

use crate::bootstrap::stays;
use crate::scene::{LONG, SECOND, Scene, Wrapper, lives, signal, wait_gone};

/// A process of somebody else's that holds a lock until it is dropped.
struct Stranger {
    child: Child,
}

impl Stranger {
    /// Takes the lock and hands it to a process that does nothing else.
    fn holding(path: &std::path::Path) -> Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file: File =
            OpenOptions::new().create(true).truncate(false).write(true).read(true).open(path).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let child = Command::new("sleep").arg("600").stdin(Stdio::from(file)).spawn().unwrap();
        Self { child }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A scene whose sidecar has nothing to do with the database, so that only the wrapper meets the stranger.
fn scene() -> Scene {
    let scene = Scene::scripted(Script::default());
    let plain = doubles::sidecar::Sidecar::faithful(scene.config(), crate::scene::MEMBER);
    scene.with_sidecar(|_| plain)
}

#[track_caller]
fn wait_told(wrapper: &Wrapper<'_>, holder: u32) -> serde_json::Value {
    let status = wrapper.wait_status(15 * SECOND, "lock_held", |status| {
        status["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "lock_held")
    });
    let warnings = status["warnings"].as_array().unwrap();
    let warning = warnings.iter().find(|warning| warning["code"] == "lock_held").unwrap();
    let detail = warning["detail"].as_str().unwrap();
    assert!(detail.contains(&holder.to_string()), "who holds it: {detail}");
    wrapper.wait_log(SECOND, &format!("pid {holder}"));
    status
}

fn db(scene: &Scene) -> std::path::PathBuf {
    scene.data_dir().join("member/snap/db")
}

#[test]
fn f6_a_database_held_by_a_stranger_is_told_once_and_waited_for() {
    let scene = scene();
    let stranger = Stranger::holding(&db(&scene));
    let wrapper = scene.start();
    let status = wait_told(&wrapper, stranger.pid());
    assert_eq!(status["wrapper"]["phase"], "configuring");
    stays(3 * SECOND, "a red /readyz and no etcd", || {
        assert_eq!(wrapper.readyz().unwrap().status, 503);
        assert!(scene.stage().starts().is_empty());
    });
    assert!(lives(stranger.pid()));
    let log = wrapper.log();
    let told = log.lines().filter(|line| line.contains("WARN") && line.contains("held by")).count();
    assert_eq!(told, 1, "once, and then once a minute:\n{log}");
    drop(stranger);
    wrapper.wait_ready();
    let warnings = wrapper.status()["warnings"].to_string();
    assert!(!warnings.contains("lock_held"), "{warnings}");
}

#[test]
fn f6_a_state_directory_held_by_a_stranger_is_told_before_the_sidecar_is_asked() {
    let scene = scene();
    let stranger = Stranger::holding(&scene.state_dir().join("etcd.lock"));
    let wrapper = scene.start();
    let status = wait_told(&wrapper, stranger.pid());
    assert_eq!(status["wrapper"]["phase"], "initializing");
    assert!(scene.sidecar().modes().is_empty(), "the directory is not ours to have validated");
    assert!(lives(stranger.pid()));
    drop(stranger);
    wrapper.wait_ready();
}

#[rstest]
#[case::database("new.etcd/member/snap/db")]
#[case::state_directory("etcd.lock")]
fn f6_the_ready_timeout_ends_the_wait_for_a_lock(#[case] path: &str) {
    let scene = scene().flag("--etcd-ready-timeout=2s");
    let stranger = Stranger::holding(&scene.state_dir().join(path));
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 14);
    let took = wrapper.began.elapsed();
    assert!(took >= 2 * SECOND && took < 7 * SECOND, "{took:?}");
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("lock"), "{hint}");
    assert!(lives(stranger.pid()));
    assert!(scene.stage().starts().is_empty());
}

#[test]
fn f6_sigterm_ends_the_wait_for_a_lock() {
    let scene = scene();
    let stranger = Stranger::holding(&db(&scene));
    let mut wrapper = scene.start();
    wait_told(&wrapper, stranger.pid());
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(3 * SECOND), 0);
    assert!(lives(stranger.pid()));
}

#[test]
fn f6_in_held_a_lock_of_somebody_else_is_told() {
    let scene = scene().flag("--hold");
    let stranger = Stranger::holding(&scene.state_dir().join("etcd.lock"));
    let wrapper = scene.start();
    assert_eq!(wait_told(&wrapper, stranger.pid())["wrapper"]["phase"], "held");
}

/// The program that the wrapper started is gone with it, but not what that program had started: an orphan that holds
/// both locks.
#[test]
fn f6_an_orphan_of_a_killed_wrapper_keeps_the_next_one_out() {
    let mut scene = Scene::scripted(Script::default());
    let program = scene.path().join("etcd-in-a-shell");
    let double = programs::etcd_double();
    let text = format!("#!/bin/sh\n\"{0}\" \"$@\" &\nwait\n", double.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    scene.etcd = program;
    let mut first = scene.start();
    let record =
        scene.stage().wait_for_record(LONG, "the database", |record| record.event == Event::LockTaken);
    let orphan = record.pid;
    first.signal(Signal::KILL);
    first.wait_exit(LONG);
    drop(first);
    assert!(lives(orphan), "the scene needs an orphan");

    scene.etcd = programs::etcd_double();
    let second = scene.start();
    let status = wait_told(&second, orphan);
    assert_eq!(status["wrapper"]["phase"], "initializing");
    assert_eq!(scene.sidecar().modes(), ["full"], "nothing is validated under a living etcd");
    assert!(lives(orphan), "nobody is killed");
    signal(orphan, Signal::KILL);
    wait_gone(orphan, LONG);
    second.wait_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}

#[test]
fn f5_f6_a_frozen_etcd_dies_with_its_wrapper_and_the_next_start_is_free() {
    let scene = Scene::real("3.5");
    let mut first = scene.start_ready();
    let etcd = first.etcd_pid();
    signal(etcd, Signal::STOP);
    first.signal(Signal::KILL);
    first.wait_exit(LONG);
    // At once: what is left of the old one is waited for, not run over.
    let _second = scene.start_ready();
    wait_gone(etcd, SECOND);
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}
