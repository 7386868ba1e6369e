// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Holds and overrides (safety.md 13–16).
use super::*;
use crate::supervise::command::{OverrideRequest, StartRequest};
use crate::supervise::view::OverrideMode;

fn held(owner: &str) -> Bench {
    let mut bench = Bench::new(settings(), held_by(owner));
    bench.disk();
    assert_eq!(bench.state.phase, Phase::Held);
    bench
}

fn unready(bench: &Bench) -> bool {
    bench.state.override_.as_ref().is_some_and(|standing| standing.mode == OverrideMode::Unready)
}

#[test]
fn i11_a_hold_file_starts_nothing() {
    let mut bench = held("a");
    for _ in 0..5 {
        bench.until(|state| state.pausing && state.call.is_none() && state.disk.is_none()).pause_over();
    }
    assert!(!bench.ever(|effect| matches!(effect, Effect::Call(Call::Start(_)) | Effect::Spawn(_))));
}

#[test]
fn i11_a_hold_without_an_owner_is_ended_by_any_start_that_runs() {
    let hold = HoldFile { owner: None, reason: Arc::from("repair") };
    let mut bench = Bench::new(settings(), Found { clean_marker: true, hold: Some(hold) });
    bench.disk();
    bench.say(Line::Start(None)).expect("a start");
    bench.running();
    assert!(bench.wants(&Effect::Disk(Job::RemoveHold)));
    bench.disk();
    assert_eq!(bench.state.hold.file, None);
}

#[test]
fn a_start_in_held_names_the_owner_or_forces() {
    for (line, accepted) in
        [(Line::Start(None), false), (Line::Start(Some('b')), false), (Line::Start(Some('a')), true)]
    {
        assert_eq!(held("a").say(line).is_ok(), accepted, "{line:?}");
    }
    let forced = StartRequest { force: true, ..explore::start() };
    assert!(held("a").ask(Command::Start(forced)).is_ok());
}

#[test]
fn e20_ready_hold_is_on_disk_before_the_spawn_and_stays_unready() {
    let mut bench = Bench::new(settings(), found(false));
    bench.say(Line::StartHold('a')).expect("a start");
    assert!(bench.ever(|effect| matches!(effect, Effect::Disk(Job::WriteHold(_)))));
    assert_eq!(bench.state.generation, 0);
    bench.running().disk();
    assert!(unready(&bench));
    assert!(bench.state.hold.file.is_some(), "the next process must come up held");
}

#[test]
fn the_end_of_a_durable_override_removes_the_file() {
    let mut bench = Bench::new(settings(), found(false));
    bench.say(Line::StartHold('a')).expect("a start");
    bench.running();
    assert_eq!(bench.say(Line::Release('b')).expect_err("a stranger").code, Code::OverrideHeld);
    bench.say(Line::Unready('a')).expect("another reason");
    assert!(bench.state.override_.as_ref().is_some_and(|standing| standing.durable));
    bench.say(Line::Release('a')).expect("its owner");
    assert!(!unready(&bench));
    bench.disk();
    assert_eq!(bench.state.hold.file, None);
}

#[test]
fn a_plain_start_never_ends_a_living_override() {
    let mut bench = Bench::new(settings(), found(false));
    bench.say(Line::StartHold('a')).expect("a start");
    bench.running();
    assert!(!bench.say(Line::Start(Some('a'))).expect("it runs").changed);
    bench.say(Line::Stop).expect("a stop");
    bench.ended(BY_TERM);
    bench.say(Line::Start(Some('a'))).expect("a start");
    bench.running().disk();
    assert!(unready(&bench) && bench.state.hold.file.is_some());
}

#[test]
fn a_hold_that_cannot_be_written_refuses_the_verb() {
    for line in [Line::StopHold('a'), Line::StartHold('a')] {
        let mut bench = Bench::new(settings(), found(false));
        bench.running().tell(Event::Command(7, line.command(true)));
        bench.tell(Event::Disk(Done::HoldWritten(Err("full".into()))));
        assert!(bench.answer().expect("an answer").is_err());
        assert!(bench.state.hold.file.is_none() && !unready(&bench) && !bench.state.draining());
    }
}

#[test]
fn a_stop_with_hold_writes_before_it_signals() {
    let mut bench = Bench::new(settings(), found(false));
    bench.running().tell(Event::Command(7, Line::StopHold('a').command(true)));
    assert!(matches!(bench.state.disk, Some(Job::WriteHold(_))) && !bench.state.draining());
    bench.disk();
    assert!(bench.state.draining());
}

#[test]
fn a_released_start_that_dies_before_running_leaves_the_file() {
    let mut bench = held("a");
    bench.say(Line::Start(Some('a'))).expect("a start");
    bench.until(|state| state.phase == Phase::Starting).ended(ExitStatus::Exited(1));
    assert_eq!(bench.exit_code(), Some(10));
    assert!(!bench.ever(|effect| matches!(effect, Effect::Disk(Job::RemoveHold))));
}

#[test]
fn a_restart_does_not_release() {
    let mut bench = Bench::new(settings(), found(false));
    bench.say(Line::StartHold('a')).expect("a start");
    bench.running();
    bench.say(Line::Restart).expect("a restart");
    bench.until(|state| state.phase == Phase::Stopping).ended(BY_TERM).running().disk();
    assert!(unready(&bench) && bench.state.hold.file.is_some());
}

#[test]
fn an_override_ends_with_its_ttl_and_a_durable_one_does_not() {
    let mut bench = Bench::new(settings(), found(false));
    bench.running();
    bench.say(Line::Unready('a')).expect("an override");
    assert!(bench.wants(&Effect::Arm(Timer::Override, Duration::from_secs(60))));
    bench.say(Line::StartHold('a')).expect("a hold");
    assert!(bench.ever(|effect| *effect == Effect::Disarm(Timer::Override)));
    let mut bench = Bench::new(settings(), found(false));
    bench.running();
    bench.say(Line::Unready('a')).expect("an override");
    bench.tell(Event::Timer(Timer::Override));
    assert!(!unready(&bench));
}

#[test]
fn force_takes_an_override_from_its_owner() {
    let mut bench = Bench::new(settings(), found(false));
    bench.say(Line::StartHold('a')).expect("a start");
    bench.running();
    let force = OverrideRequest { mode: None, ttl: None, owner: None, reason: String::new(), force: true };
    bench.ask(Command::SetOverride(force)).expect("force");
    bench.disk();
    assert!(!unready(&bench) && bench.state.hold.file.is_none());
}

#[test]
fn a_hold_that_was_released_in_a_start_can_be_promised_anew() {
    let mut bench = Bench::new(settings(), found(false));
    let first = bench.say(Line::StartHold('a')).expect("a start").operation;
    bench.say(Line::Release('a')).expect("its owner");
    assert_eq!(bench.say(Line::StartHold('a')).expect("the same").operation, first);
    bench.running().disk();
    assert!(unready(&bench) && bench.state.hold.file.is_some());
}
