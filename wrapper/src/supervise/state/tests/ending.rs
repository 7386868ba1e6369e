// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The way down: signals, `/stop`, crashes, restarts; markers and exit codes.
use super::*;
use crate::supervise::command::StopRequest;
use crate::supervise::view::OperationPhase;

fn up() -> Bench {
    let mut bench = Bench::new(settings(), found(true));
    bench.running();
    bench
}

fn starting() -> Bench {
    let mut bench = Bench::new(settings(), found(true));
    bench.until(|state| state.phase == Phase::Starting);
    bench
}

#[test]
fn e13_a_clean_end_on_a_signal_is_0_with_a_marker() {
    for (event, word) in [
        (TERM, Shutdown::Terminate),
        (Event::Shutdown(Shutdown::Interrupt), Shutdown::Interrupt),
        (STOP_CALL, Shutdown::StopCall),
    ] {
        let mut bench = up();
        bench.tell(event);
        assert!(bench.wants(&Effect::Signal(Sig::Term)));
        bench.ended(BY_TERM);
        assert!(bench.wants(&Effect::Disk(Job::WriteMarker(word))), "{word:?}");
        assert_eq!(bench.exit_code(), Some(0));
    }
}

#[test]
fn b4_the_marker_of_a_stop_call_can_be_switched_off() {
    let mut bench = Bench::new(Settings { marker_on_stop: false, ..settings() }, found(true));
    bench.running().tell(STOP_CALL).ended(BY_TERM);
    assert_eq!(bench.exit_code(), Some(0));
    assert!(!bench.wrote_marker());
}

#[test]
fn b2_term_before_ready_leaves_no_marker() {
    let mut bench = starting();
    bench.tell(TERM).ended(BY_TERM);
    assert_eq!(bench.exit_code(), Some(0));
    assert!(!bench.wrote_marker());
}

#[test]
fn b2_a_ready_that_comes_after_the_signal_is_too_late() {
    let mut bench = starting();
    bench.tell(TERM).tell(Event::Ready).ended(BY_TERM);
    assert!(!bench.wrote_marker());
}

#[test]
fn b10_after_a_verb_no_shutdown_writes_a_marker() {
    let mut stopping = up();
    stopping.say(Line::Stop).expect("a stop");
    stopping.tell(TERM).ended(BY_TERM);
    assert_eq!(stopping.exit_code(), Some(0));
    let mut stopped = up();
    stopped.say(Line::Stop).expect("a stop");
    stopped.ended(BY_TERM).tell(TERM);
    assert_eq!(stopped.exit_code(), Some(0));
    assert!(!stopping.wrote_marker() && !stopped.wrote_marker());
}

#[test]
fn b8_neither_a_posted_config_nor_one_without_fsync_leaves_a_marker() {
    let mut posted = Bench::new(Settings { hold: true, ..settings() }, found(true));
    posted.disk();
    posted.say(Line::StartElsewhere).expect("a start");
    posted.running().tell(TERM).ended(BY_TERM);
    let mut loose = Bench::new(settings(), found(true));
    loose.until(|state| matches!(state.call, Some(Call::Config { .. })));
    loose
        .reply(Reply::Config(explore::plan(ConfigSource::Sidecar, false)))
        .running()
        .tell(TERM)
        .ended(BY_TERM);
    for mut bench in [posted, loose] {
        assert_eq!(bench.exit_code(), Some(0));
        assert!(!bench.wrote_marker());
    }
}

#[test]
fn e2_five_stop_calls_are_one_stop() {
    let mut bench = up();
    for _ in 0..5 {
        bench.tell(STOP_CALL);
    }
    bench.ended(BY_TERM).disk();
    assert_eq!(bench.all.iter().filter(|effect| matches!(effect, Effect::Signal(_))).count(), 1);
    assert_eq!(bench.all.iter().filter(|effect| matches!(effect, Effect::Exit(_))).count(), 1);
    assert_eq!(bench.exit_code(), Some(0));
}

#[test]
fn e7_a_deaf_child_is_killed_after_the_grace_time_and_the_exit_says_so() {
    let mut bench = up();
    bench.tell(TERM);
    assert!(bench.wants(&Effect::Arm(Timer::Grace, Duration::from_secs(25))));
    bench.tell(Event::Timer(Timer::Grace));
    assert!(
        bench.wants(&Effect::Signal(Sig::Quit))
            && bench.wants(&Effect::Arm(Timer::Kill, Duration::from_secs(2)))
    );
    bench.tell(Event::Timer(Timer::Kill));
    assert!(bench.wants(&Effect::Signal(Sig::Kill)));
    bench.ended(ExitStatus::Signaled(9));
    assert_eq!(bench.exit_code(), Some(13));
    assert!(!bench.wrote_marker());
}

#[test]
fn e14_a_second_signal_kills_and_exits_with_1() {
    let mut bench = up();
    bench.tell(TERM).tell(TERM);
    assert!(bench.wants(&Effect::Signal(Sig::Kill)));
    bench.ended(ExitStatus::Signaled(9));
    assert_eq!(bench.exit_code(), Some(1));
    assert!(!bench.wrote_marker());
}

#[test]
fn e14_a_stop_call_is_not_the_first_of_two_signals() {
    let mut bench = up();
    bench.tell(STOP_CALL).tell(TERM);
    assert!(!bench.ever(|effect| *effect == Effect::Signal(Sig::Kill)));
}

#[test]
fn e14_a_second_signal_does_not_wait_for_the_marker_and_exits_with_1() {
    let mut bench = up();
    bench.tell(TERM).ended(BY_TERM);
    assert!(bench.exit().is_none());
    bench.tell(TERM);
    assert_eq!(bench.exit_code(), Some(1));
}

#[test]
fn exit_codes_tell_how_etcd_ended() {
    for (status, code) in
        [(ExitStatus::Exited(2), 10), (ExitStatus::Signaled(9), 10), (ExitStatus::Exited(0), 20)]
    {
        let mut bench = up();
        bench.ended(status);
        assert_eq!(bench.exit_code(), Some(code), "{status:?}");
        let mut asked = up();
        asked.tell(TERM).ended(status);
        let expected = if status == ExitStatus::Exited(0) { 0 } else { 10 };
        assert_eq!(asked.exit_code(), Some(expected), "asked, {status:?}");
    }
    let mut never_ready = starting();
    never_ready.ended(ExitStatus::Exited(0));
    assert_eq!(never_ready.exit_code(), Some(10));
}

#[test]
fn exit_11_when_the_crash_budget_is_used_up() {
    let mut bench = Bench::new(Settings { restart_on_exit: true, ..settings() }, found(true));
    for crashes in 1..=5 {
        bench.running().tell(Event::ChildExited { status: ExitStatus::Exited(2), recent_crashes: crashes });
        assert_eq!(bench.state.phase, Phase::Backoff);
        let pause = Duration::from_secs(1 << (crashes - 1));
        assert!(bench.wants(&Effect::Arm(Timer::Backoff, pause)));
        bench.tell(Event::Timer(Timer::Backoff));
        assert_eq!(bench.next_mode(), Mode::Full);
    }
    bench.running().tell(Event::ChildExited { status: ExitStatus::Exited(2), recent_crashes: 6 });
    assert_eq!(bench.exit_code(), Some(11));
}

#[test]
fn exit_12_when_the_marker_cannot_be_removed() {
    let mut bench = Bench::new(settings(), found(true));
    bench.word(SidecarWord::New).tell(Event::Disk(Done::MarkerConsumed(Err("0400".into()))));
    assert_eq!(bench.exit_code(), Some(12));
}

#[test]
fn e11_exit_14_when_etcd_is_not_ready_in_time() {
    let mut bench =
        Bench::new(Settings { ready_timeout: Some(Duration::from_secs(5)), ..settings() }, found(true));
    bench.until(|state| state.phase == Phase::Starting);
    bench.tell(Event::Timer(Timer::Ready));
    assert!(bench.wants(&Effect::Signal(Sig::Term)));
    bench.ended(BY_TERM);
    assert_eq!(bench.exit_code(), Some(14));
    assert!(!bench.wrote_marker());
}

#[test]
fn e12_without_a_ready_timeout_nothing_runs_out() {
    let bench = up();
    assert!(!bench.ever(|effect| matches!(effect, Effect::Arm(Timer::Ready, _))));
}

#[test]
fn a_panic_stops_etcd_within_the_grace_time_and_exits_with_1() {
    let mut bench = up();
    bench.tell(Event::Panicked);
    assert!(bench.wants(&Effect::Signal(Sig::Term)));
    bench.ended(BY_TERM);
    assert_eq!(bench.exit_code(), Some(1));
}

#[test]
fn a_signal_cuts_the_grace_of_a_verb_to_our_own() {
    let mut bench = up();
    let stop = StopRequest { grace: Some(Duration::from_secs(3600)), ..explore::stop() };
    bench.ask(Command::Stop(stop)).expect("a stop");
    bench.tell(TERM);
    assert!(bench.wants(&Effect::ArmAtMost(Timer::Grace, Duration::from_secs(25))));
}

#[test]
fn a_forced_stop_kills_at_once() {
    let mut bench = up();
    bench.say(Line::StopForced).expect("a stop");
    assert!(bench.wants(&Effect::Signal(Sig::Kill)));
    assert!(!bench.ever(|effect| *effect == Effect::Signal(Sig::Term)));
}

#[test]
fn a_child_that_hangs_after_the_kill_fails_the_stop_and_stays_down_later() {
    let mut bench = Bench::new(Settings { restart_on_exit: true, ..settings() }, found(true));
    bench.running();
    bench.say(Line::StopForced).expect("a stop");
    bench.tell(Event::Timer(Timer::Kill));
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(_))));
    bench.say(Line::Stop).expect("another stop");
    assert!(bench.wants(&Effect::Arm(Timer::Kill, Duration::from_secs(5))), "it must end too");
    bench.tell(Event::Timer(Timer::Kill)).ended(ExitStatus::Signaled(9));
    assert_eq!(bench.state.phase, Phase::Stopped);
}

#[test]
fn a_child_that_hangs_does_not_keep_the_process() {
    let mut bench = up();
    bench.tell(TERM);
    for timer in [Timer::Grace, Timer::Kill, Timer::Kill] {
        bench.tell(Event::Timer(timer));
    }
    assert_eq!(bench.exit_code(), Some(13));
}

/// A restart up to the moment that its etcd has ended.
fn restarted(line: Line, status: ExitStatus) -> Bench {
    let mut bench = up();
    bench.say(line).expect("a restart");
    bench.until(|state| state.phase == Phase::Stopping).ended(status);
    bench
}

#[test]
fn a_restart_skips_validation_after_a_clean_end_only() {
    let mut clean = restarted(Line::Restart, BY_TERM);
    assert!(matches!(clean.state.phase, Phase::Configuring(_)));
    clean.running();
    assert_eq!(clean.state.generation, 2);
    let mut unclean = restarted(Line::Restart, ExitStatus::Exited(2));
    assert_eq!(unclean.next_mode(), Mode::Full);
}

#[test]
fn a_restart_from_another_source_or_without_fsync_validates() {
    let mut bench = up();
    bench.say(Line::Restart).expect("a restart");
    bench.reply(Reply::Config(explore::plan(ConfigSource::Sidecar, false)));
    bench.until(|state| state.phase == Phase::Stopping).ended(BY_TERM);
    assert_eq!(bench.next_mode(), Mode::Full);
}

#[test]
fn a_restart_whose_fetch_fails_leaves_etcd_alone() {
    for (reply, code) in [
        (Reply::Failed, Code::SidecarUnavailable),
        (Reply::BadConfig(refusal(Code::ConfigInvalid)), Code::ConfigInvalid),
    ] {
        let mut bench = up();
        bench.say(Line::Restart).expect("a restart");
        assert_eq!(bench.state.op.as_ref().map(|op| op.phase), Some(OperationPhase::Fetching));
        bench.reply(reply);
        assert_eq!(bench.outcome(), Some(&Outcome::Failed(refused(&bench, code))));
        assert_eq!(bench.state.phase, Phase::Running);
        assert!(!bench.ever(|effect| matches!(effect, Effect::Signal(_))));
    }
}

/// The refusal that was given, after a look at its code.
fn refused(bench: &Bench, code: Code) -> Refusal {
    match bench.outcome() {
        Some(Outcome::Failed(refusal)) if refusal.code == code => refusal.clone(),
        other => panic!("expected {code:?}, not {other:?}"),
    }
}
