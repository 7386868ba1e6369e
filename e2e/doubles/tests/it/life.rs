// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! From the start of a scripted etcd to its end.
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use doubles::etcd::script::{Ready, Sender, Then};
use doubles::etcd::{Ending, Event, How, OnSignal, Script, Stage, StartFacts, record};
use doubles::span::Span;
use doubles::wait::{self, Poll};
use rustix::process::Signal;

use crate::spawned::{LIMIT, Spawned, config};

fn ready_after(span: Duration) -> Ready {
    Ready { after: Span(span), ..Ready::default() }
}

#[test]
fn version_prints_etcds_lines() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), Script::default()).unwrap();
    let (variable, script) = stage.environment();
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-double"))
        .arg("--version")
        .env(variable, script)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().next(), Some("etcd Version: 3.5.35"));
    assert_eq!(text.lines().count(), 4);
    assert!(matches!(stage.records()[0].event, Event::VersionAsked { .. }));
}

#[test]
fn a_ready_double_ends_killed_by_the_signal_it_was_sent() {
    let mut etcd = Spawned::new(Script::default());
    etcd.wait_ready();
    let pid = etcd.child.id();
    etcd.wait_for("READY from the child itself", |event| *event == Event::ReadySent { sender: pid });
    etcd.signal(Signal::TERM);
    let status = etcd.wait_end();
    assert_eq!((status.code(), status.signal()), (None, Some(15)));
    assert_eq!(etcd.stage.signals(pid), [15]);
    assert_eq!(etcd.stage.records().last().map(|record| &record.event), Some(&Event::Raising { number: 15 }));
}

#[test]
fn a_start_records_what_the_process_was_given() {
    let etcd = Spawned::new(Script::default());
    let facts = etcd.facts();
    assert_eq!(facts.ppid, std::process::id());
    assert_eq!(facts.argv[1], "--config-file");
    assert_eq!(facts.cwd, etcd.folder.path().canonicalize().unwrap());
    let own = StartFacts::look(None).unwrap().descriptors;
    for (number, target) in facts.descriptors.range(3..) {
        assert_eq!(own.get(number), Some(target), "not inherited, so opened by the double before it looked");
    }
    assert_eq!(facts.descriptors[&2], etcd.folder.path().join("stderr").to_string_lossy());
    let config = facts.config.unwrap();
    let bytes = std::fs::read(&config.path).unwrap();
    assert_eq!(config.sha256, record::sha256(&bytes));
}

#[test]
fn a_stop_before_ready_kills_at_once() {
    let mut etcd = Spawned::new(Script { ready: ready_after(Duration::from_secs(600)), ..Script::default() });
    etcd.wait_for("the lock", |event| *event == Event::LockTaken);
    etcd.signal(Signal::TERM);
    assert_eq!(etcd.wait_end().signal(), Some(15));
    let noted = etcd.stage.signals(etcd.child.id());
    assert!(noted.is_empty(), "there was no handler to note it: {noted:?}");
}

#[test]
fn a_second_stop_is_swallowed_and_sigquit_dumps() {
    let script = Script { on_term: OnSignal::takes(Duration::from_secs(600)), ..Script::default() };
    let mut etcd = Spawned::new(script);
    etcd.wait_ready();
    for n in 1..=2 {
        etcd.signal(Signal::TERM);
        let pid = etcd.child.id();
        wait::until(LIMIT, "SIGTERM noted", || {
            let noted = etcd.stage.signals(pid);
            Poll::when(noted.len() == n, || format!("{noted:?}"))
        });
    }
    etcd.signal(Signal::QUIT);
    assert_eq!(etcd.wait_end().code(), Some(2));
    let stderr = std::fs::read_to_string(etcd.folder.path().join("stderr")).unwrap();
    assert!(stderr.contains("SIGQUIT: quit\n"), "{stderr}");
}

#[test]
fn an_ignored_stop_needs_sigkill_and_sighup_kills() {
    let ignoring = OnSignal::ignored();
    let mut etcd = Spawned::new(Script { on_term: ignoring, on_quit: ignoring, ..Script::default() });
    etcd.wait_ready();
    let pid = etcd.child.id();
    for (n, signal) in [Signal::TERM, Signal::TERM, Signal::QUIT].into_iter().enumerate() {
        etcd.signal(signal);
        wait::until(LIMIT, "the signal noted", || {
            let noted = etcd.stage.signals(pid);
            Poll::when(noted.len() == n + 1, || format!("{noted:?}"))
        });
    }
    assert_eq!(etcd.child.try_wait().unwrap(), None);
    etcd.signal(Signal::HUP);
    assert_eq!(etcd.wait_end().signal(), Some(1));
}

#[test]
fn a_stop_can_end_with_any_status() {
    for (then, code, signal) in [(Then::Exit(0), Some(0), None), (Then::Signal(9), None, Some(9))] {
        let mut etcd = Spawned::new(Script { on_term: OnSignal::then(then), ..Script::default() });
        etcd.wait_ready();
        etcd.signal(Signal::TERM);
        let status = etcd.wait_end();
        assert_eq!((status.code(), status.signal()), (code, signal));
    }
}

#[test]
fn ends_that_nobody_asked_for_come_as_scripted() {
    let at_once = Ending::after_start(Duration::ZERO, How::Exit(3));
    let mut etcd = Spawned::new(Script { end: Some(at_once), ..Script::default() });
    assert_eq!(etcd.wait_end().code(), Some(3));
    let later = Ending::after_ready(Duration::from_millis(20), How::Signal(9));
    let mut etcd = Spawned::new(Script { end: Some(later), ..Script::default() });
    etcd.wait_ready();
    assert_eq!(etcd.wait_end().signal(), Some(9));
}

#[test]
fn ready_can_come_from_another_process_and_more_than_once() {
    let ready = Ready { sender: Sender::OtherProcess, times: 2, ..Ready::default() };
    let etcd = Spawned::new(Script { ready, ..Script::default() });
    etcd.wait_ready();
    etcd.wait_ready();
    let pid = etcd.child.id();
    etcd.wait_for("a foreign sender", |event| matches!(event, Event::ReadySent { sender } if *sender != pid));
}

#[test]
fn what_etcd_refuses_ends_with_1() {
    let mut etcd = Spawned::with(Script::default(), |_, _| "name: [".into());
    assert_eq!(etcd.wait_end().code(), Some(1));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut etcd = Spawned::with(Script::default(), |_, _| config(port, "http", ""));
    assert_eq!(etcd.wait_end().code(), Some(1));
}

#[test]
fn a_second_double_on_a_directory_waits_for_the_first() {
    let mut first = Spawned::new(Script::default());
    first.wait_ready();
    let data = first.folder.path().join("data");
    let second = Spawned::with(Script::default(), |_, port| {
        config(port, "http", "").replace("data-dir: data", &format!("data-dir: {}", data.display()))
    });
    second.wait_for("it waits for the lock", |event| *event == Event::LockWaiting);
    first.signal(Signal::KILL);
    first.wait_end();
    second.wait_ready();
}

#[test]
fn a_double_without_its_script_does_not_stay() {
    let mut etcd = Spawned::new(Script::default());
    etcd.wait_ready();
    std::fs::remove_file(etcd.stage.environment().1).unwrap();
    assert_eq!(etcd.wait_end().code(), Some(1));
}
