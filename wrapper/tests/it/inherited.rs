// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What etcd gets from us and what not: descriptors, limits, environment, signals, group. The process level of it, with
//! a wrapper whose own surroundings are as bad as they may be.
use std::collections::BTreeMap;
use std::process::Command;

use doubles::etcd::{Event, Script};
use doubles::wait::{self, Poll};
use rstest::rstest;

use crate::scene::{LONG, SECOND, Scene, replacing, wait_gone};

/// The same command in a shell that first does `preamble`.
fn after(preamble: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("{preamble}\nexec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

#[test]
fn c1_f9_f10_etcd_starts_in_a_clean_place_with_our_own_output() {
    let scene = Scene::scripted(Script::default())
        .env("ETCD_NAME", "wrong")
        .env("ETCD_DATA_DIR", "/nonexistent")
        .env("ETCD_WRAPPER_PORT", "tcp://10.0.0.1:9095")
        .env("NOTIFY_SOCKET", "/nonexistent/of-our-own-parent")
        .env("HARMLESS", "kept");
    // A low soft limit, a foreign descriptor left open, a blocked and an ignored signal.
    let bad = "ulimit -S -n 300; umask 0; exec 7</etc/passwd; trap '' USR1 TERM";
    let wrapper = scene.start_command(after(bad, &scene.command()));
    wrapper.wait_ready();
    let (pid, facts) = scene.stage().wait_for_start(1, LONG);
    assert_eq!(facts.ppid, wrapper.pid());
    assert_eq!(facts.pgid, pid, "a process group of its own");
    let etcds: Vec<_> = facts.environment.keys().filter(|name| name.starts_with("ETCD_")).collect();
    assert_eq!(etcds, Vec::<&String>::new());
    assert_eq!(facts.environment["HARMLESS"], "kept");
    assert_ne!(facts.environment["NOTIFY_SOCKET"], "/nonexistent/of-our-own-parent");
    let (soft, hard) = &facts.limits["Max open files"];
    assert_eq!(soft, hard);
    assert_ne!(soft, "300");
    assert_eq!(facts.umask, 0o077);
    // The double is a Rust program: its runtime ignores SIGPIPE before it can look.
    let sigpipe = 1 << 12;
    assert_eq!((facts.signals_blocked, facts.signals_ignored & !sigpipe), (0, 0));
    assert_eq!(facts.parent_death_signal, Some(9));
    assert_eq!(facts.cwd, std::env::current_dir().unwrap());

    // Its own script and record are open, and the folder that it lists; the rest is what it was given.
    let log = wrapper.log.display().to_string();
    let given = inherited(&facts.descriptors, &scene.state_dir().join("etcd.lock").display().to_string());
    let expected = [("0", "/dev/null"), ("1", &log), ("2", &log), ("lock", "etcd.lock")];
    assert_eq!(given, expected.map(|(name, target)| (name.to_owned(), target.to_owned())));

    soft_is_hard(pid);
}

/// The kernel's own word on the descriptor limit.
#[track_caller]
fn soft_is_hard(pid: u32) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = line.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    assert!(matches!(numbers[..], [soft, hard] if soft == hard && soft != "300"), "{line}");
}

/// Descriptors in a stable form; the listing of /proc itself is left out.
fn inherited(descriptors: &BTreeMap<u32, String>, lock: &str) -> Vec<(String, String)> {
    let mut given: Vec<_> = descriptors
        .iter()
        .filter(|(_, target)| !target.contains("/proc/"))
        .map(|(number, target)| match target.as_str() {
            target if target == lock => ("lock".to_owned(), "etcd.lock".to_owned()),
            target => (number.to_string(), target.to_owned()),
        })
        .collect();
    given.sort();
    given
}

#[rstest]
#[case("3.4")]
#[case("3.5")]
#[case("3.7")]
fn c1_f9_f10_real_etcd_writes_to_our_log_itself(#[case] line: &'static str) {
    let scene = Scene::real(line).env("ETCD_NAME", "wrong").env("ETCD_DATA_DIR", "/nonexistent");
    let wrapper = scene.start_command(after("ulimit -S -n 300; trap '' USR1 TERM", &scene.command()));
    wrapper.wait_ready();
    let etcd = wrapper.etcd_pid();
    for descriptor in [1, 2] {
        let target = std::fs::read_link(format!("/proc/{etcd}/fd/{descriptor}")).unwrap();
        assert_eq!(target, wrapper.log, "no pipe between etcd and the log");
    }
    let environment = std::fs::read(format!("/proc/{etcd}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.split('\0').all(|entry| !entry.starts_with("ETCD_")), "{environment}");
    soft_is_hard(etcd);
    let status = std::fs::read_to_string(format!("/proc/{etcd}/status")).unwrap();
    assert!(status.contains("SigIgn:\t0000000000000000"), "{status}");
    // What is blocked at the start, every thread inherits. Go blocks signals by itself in some of them, so look for one
    // where none is.
    let threads = std::fs::read_dir(format!("/proc/{etcd}/task")).unwrap();
    let open = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    assert!(open.into_iter().any(|status| status.contains("SigBlk:\t0000000000000000")));
}

#[test]
fn f9_etcd_holds_the_lock_beyond_our_end_until_its_own() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let lock = std::fs::File::open(scene.state_dir().join("etcd.lock")).unwrap();
    let taken = || rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err();
    assert!(taken(), "held while etcd lives");
    let etcd = wrapper.etcd_pid();
    drop(wrapper);
    wait_gone(etcd, SECOND);
    // Its last thread may close it a moment after the first has ended.
    wait::until(SECOND, "a free lock", || Poll::when(!taken(), || "it is held".into()));
}

#[test]
fn invariant_1_one_etcd_at_a_time_on_one_directory() {
    let scene = Scene::scripted(Script::default());
    let first = scene.start_ready();
    // A second wrapper on the same volume, as when the kubelet starts the new pod before the old one is gone.
    let second = Scene::scripted(Script::default());
    let state_dir = format!("--state-dir={}", scene.state_dir().display());
    let waits = second.start_command(replacing(&second.command(), &[&state_dir]));
    waits.wait_log(LONG, "etcd.lock");
    assert_eq!(second.sidecar().modes(), Vec::<String>::new(), "no validation beside a living etcd");
    assert_eq!(first.readyz().unwrap().status, 200);
    drop(first);
    // The old one is gone, and with it its etcd: the new one goes on by itself.
    second.stage().wait_for_record(LONG, "a start", |record| matches!(record.event, Event::Started(_)));
    assert_eq!(second.sidecar().modes(), ["full"]);
}
