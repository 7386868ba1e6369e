// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every verb against every phase, and what a verb in flight does to the next one.
use super::*;
use crate::supervise::command::{Guard, RestartRequest, Seat, StartRequest, StopRequest, Validation};
use crate::supervise::view::Phase as Name;

/// A machine that rests in this phase.
fn at(phase: Name) -> Bench {
    let hold = phase == Name::Held;
    let settings = Settings { hold, restart_on_exit: phase == Name::Backoff, ..settings() };
    let mut bench = Bench::new(settings, found(false));
    match phase {
        Name::Held | Name::Initializing => {}
        Name::Configuring | Name::Starting => {
            bench.until(|state| state.phase.name() == phase);
        }
        Name::Running => {
            bench.running();
        }
        Name::Stopping | Name::Stopped => {
            bench.running();
            bench.say(Line::Stop).expect("a stop");
        }
        Name::Backoff => {
            bench.running().ended(ExitStatus::Exited(2));
        }
        Name::Exiting => {
            bench.running().tell(TERM);
        }
    }
    match phase {
        Name::Held => {
            bench.disk();
        }
        Name::Stopped => {
            bench.ended(BY_TERM);
        }
        _ => {}
    }
    assert_eq!(bench.state.phase.name(), phase);
    bench
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Operation,
    Unchanged,
    Changed,
    Refused(Code),
}

fn outcome(answer: &Answer) -> Expected {
    match answer {
        Ok(accepted) if accepted.operation.is_some() => Expected::Operation,
        Ok(accepted) if accepted.changed => Expected::Changed,
        Ok(_) => Expected::Unchanged,
        Err(refusal) => Expected::Refused(refusal.code),
    }
}

#[test]
fn every_verb_meets_every_phase() {
    use Code::{ConfigDiffers, NotRunning, OperationInProgress as Busy, ShuttingDown};
    use Expected::{Changed, Operation, Refused, Unchanged};
    let op = Operation;
    let no = Refused(NotRunning);
    let busy = Refused(Busy);
    let bye = Refused(ShuttingDown);
    let alone = Refused(Code::NoCandidate);
    // held, initializing, configuring, starting, running, stopping, stopped, backoff, exiting
    let table = [
        (Line::Start(None).command(true), [op, op, op, op, Unchanged, busy, op, op, bye]),
        (Line::StartPosted.command(true), [op, op, op, busy, Refused(ConfigDiffers), busy, op, op, bye]),
        (Line::Stop.command(true), [Unchanged, op, op, op, op, op, Unchanged, op, bye]),
        (Line::StopHold('a').command(true), [Changed, op, op, op, op, op, Changed, op, bye]),
        (Line::Restart.command(true), [no, no, no, busy, op, busy, no, no, bye]),
        (Command::TransferLeadership(Seat::Leads), [no, no, no, no, op, busy, no, no, bye]),
        (Command::TransferLeadership(Seat::Unknown), [no, no, no, no, op, busy, no, no, bye]),
        (Command::TransferLeadership(Seat::Follows), [no, no, no, no, Unchanged, busy, no, no, bye]),
        (Command::TransferLeadership(Seat::LeadsAlone), [no, no, no, no, alone, busy, no, no, bye]),
        (
            Line::Unready('a').command(true),
            [Changed, Changed, Changed, Changed, Changed, Changed, Changed, Changed, bye],
        ),
    ];
    for (command, row) in table {
        for (phase, expected) in Name::ALL.into_iter().zip(row) {
            let answer = at(phase).ask(command.clone());
            assert_eq!(outcome(&answer), expected, "{command:?} in {phase:?}: {answer:?}");
        }
    }
}

#[test]
fn two_equal_starts_join_and_others_conflict() {
    let mut bench = at(Name::Held);
    let first = bench.say(Line::Start(None)).expect("a start").operation;
    assert_eq!(bench.say(Line::Start(None)).expect("the same").operation, first);
    for other in [Line::StartPosted, Line::StartHold('a'), Line::StartUnchecked] {
        assert_eq!(bench.say(other).expect_err("another").code, Code::OperationInProgress);
    }
}

#[test]
fn a_stop_supersedes_start_and_restart() {
    let mut bench = at(Name::Held);
    bench.say(Line::Start(None)).expect("a start");
    bench.say(Line::Stop).expect("a stop");
    assert!(
        bench.ever(|effect| matches!(effect, Effect::Finished { id: 1, outcome: Outcome::Superseded, .. }))
    );

    let mut bench = at(Name::Running);
    bench.say(Line::Restart).expect("a restart");
    bench.until(|state| state.phase == Phase::Stopping);
    bench.say(Line::Stop).expect("a stop");
    bench.ended(BY_TERM);
    assert_eq!(bench.state.phase, Phase::Stopped);
    assert_eq!(bench.outcome(), Some(&Outcome::Succeeded { changed: true }));
}

#[test]
fn a_restart_during_anything_conflicts() {
    let mut bench = at(Name::Running);
    bench.say(Line::Restart).expect("a restart");
    assert_eq!(bench.say(Line::Restart).expect_err("another").code, Code::OperationInProgress);
}

#[test]
fn only_a_posted_configuration_is_started_again_as_it_was() {
    let same = || RestartRequest { config_from_sidecar: Some(false), ..explore::restart() };
    let mut bench = at(Name::Running);
    let refused = bench.ask(Command::Restart(same())).expect_err("a served configuration is fetched anew");
    assert_eq!(refused.code, Code::InvalidValue);

    let mut bench = at(Name::Held);
    bench.say(Line::StartPosted).expect("a start");
    bench.running();
    bench.ask(Command::Restart(same())).expect("the posted one again");
    bench.until(|state| state.phase == Phase::Stopping).ended(BY_TERM).running();
    assert_eq!(bench.state.child.as_ref().map(|child| child.plan.is_posted()), Some(true));
    let served = RestartRequest { config_from_sidecar: Some(true), ..explore::restart() };
    bench.ask(Command::Restart(served)).expect("the sidecar's");
    bench.until(|state| state.phase == Phase::Stopping).ended(BY_TERM).running();
    assert_eq!(bench.state.child.as_ref().map(|child| child.plan.is_posted()), Some(false));
}

#[test]
fn another_generation_is_a_mismatch() {
    let wrong = Some(9);
    let commands = [
        Command::Start(StartRequest { if_generation: wrong, ..explore::start() }),
        Command::Stop(StopRequest { if_generation: wrong, ..explore::stop() }),
        Command::Restart(RestartRequest { if_generation: wrong, ..explore::restart() }),
    ];
    for command in commands {
        let refused = at(Name::Running).ask(command).expect_err("a mismatch");
        assert_eq!(refused.code, Code::GenerationMismatch);
    }
}

#[test]
fn a_posted_config_that_cuts_the_cluster_is_not_repeated() {
    let mut config = (*explore::config(true, true)).clone();
    config.force_new_cluster = true;
    let mut bench = at(Name::Held);
    let start = StartRequest { posted: Some(Arc::new(config)), ..explore::start() };
    bench.ask(Command::Start(start)).expect("a start");
    bench.running();
    assert_eq!(bench.say(Line::Restart).expect_err("again").code, Code::ConfigNotRepeatable);
}

#[test]
fn a_bad_posted_config_is_refused_before_anything_happens() {
    let mut bench = at(Name::Held);
    bench.tell(Event::Command(7, Line::StartPosted.command(true)));
    while !matches!(bench.state.disk, Some(Job::Inspect(_))) {
        assert!(bench.calm(), "nothing is inspected: {:?}", bench.state);
    }
    bench.tell(Event::Disk(Done::Inspected(Err(refusal(Code::FileUnreadable)))));
    assert_eq!(bench.answer().expect("an answer").expect_err("a refusal").code, Code::FileUnreadable);
    assert_eq!(bench.state.phase, Phase::Held);
}

#[test]
fn the_guard_decides_over_stop_and_restart() {
    let stop = Command::Stop(StopRequest { guard: Guard::Quorum, ..explore::stop() });
    let restart = Command::Restart(RestartRequest { guard: Guard::Quorum, ..explore::restart() });
    for command in [stop, restart] {
        let mut bench = at(Name::Running);
        bench.tell(Event::Command(7, command));
        assert!(bench.wants(&Effect::Guard { gate: true }));
        let verdict = Verdict::Refused(refusal(Code::WouldBreakQuorum));
        bench.tell(Event::Guard { gate: true, verdict });
        assert_eq!(bench.answer().expect("an answer").expect_err("a refusal").code, Code::WouldBreakQuorum);
        assert_eq!(bench.state.phase, Phase::Running);
        assert!(!bench.state.draining());
    }
}

#[test]
fn a_guard_that_says_no_at_the_last_moment_leaves_etcd_running() {
    let mut bench = at(Name::Running);
    bench.ask(Line::StopGently.command(true)).expect("a stop");
    assert!(bench.state.draining());
    bench.tell(Event::Transferred(Ok(true)));
    assert!(bench.wants(&Effect::Guard { gate: false }));
    bench.tell(Event::Guard { gate: false, verdict: Verdict::Refused(refusal(Code::WouldBreakQuorum)) });
    assert_eq!(bench.state.phase, Phase::Running);
    assert!(!bench.ever(|effect| matches!(effect, Effect::Signal(_))));
}

#[test]
fn e19_a_serial_stop_waits_for_its_turn() {
    let mut bench = at(Name::Running);
    bench.say(Line::StopSerialHold('a')).expect("a stop");
    assert!(bench.wants(&Effect::AwaitTurn) && !bench.state.draining());
    bench.tell(Event::Turn(Ok(())));
    assert!(bench.wants(&Effect::Signal(Sig::Term)));
}

#[test]
fn a_start_without_validation_asks_the_sidecar_last() {
    let mut bench = at(Name::Held);
    let start = StartRequest { validation: Validation::None, ..explore::start() };
    bench.ask(Command::Start(start)).expect("a start");
    bench.until(|state| state.call == Some(Call::Check));
    bench.word(SidecarWord::Progress);
    assert!(bench.state.child.is_none() && bench.state.pausing);
    bench.pause_over().word(SidecarWord::New);
    assert!(bench.state.child.is_some());
}

#[test]
fn a_launch_that_fails_goes_back_to_rest_or_out() {
    for (from_held, exit) in [(true, None), (false, Some(12))] {
        let mut bench = at(if from_held { Name::Held } else { Name::Initializing });
        if from_held {
            bench.say(Line::Start(None)).expect("a start");
        }
        bench.until(|state| matches!(state.disk, Some(Job::Prepare(_))));
        bench.tell(Event::Disk(Done::Prepared(Err(refusal(Code::DataDirRefused)))));
        assert_eq!(bench.exit_code(), exit);
        assert!(exit.is_some() || bench.state.phase == Phase::Stopped);
    }
}

#[test]
fn a_caller_at_the_gate_is_answered_when_the_process_leaves() {
    let mut bench = at(Name::Held);
    bench.tell(Event::Command(7, Line::StartPosted.command(true))).tell(TERM);
    assert_eq!(bench.answer().expect("an answer").expect_err("a refusal").code, Code::ShuttingDown);
    assert_eq!(bench.exit_code(), Some(0));
}

/// The runtime forgets a configuration that the machine does not speak of; a job that waits for it would never end, and
/// every command after it would wait for the job.
#[test]
fn a_configuration_is_spoken_of_until_the_job_that_rests_on_it_is_done() {
    let mut bench = at(Name::Stopped);
    bench.say(Line::StartPosted).expect("a start");
    bench.until(|state| matches!(state.disk, Some(Job::Prepare(_))));
    let Some(Job::Prepare(plan)) = bench.state.disk.clone() else { panic!("it was there") };
    bench.tell(Event::Command(8, Line::StopForced.command(true)));
    assert_eq!(bench.state.phase, Phase::Stopped);
    assert!(bench.state.speaks_of(&plan.digest));
    bench.disk();
    assert!(!bench.state.speaks_of(&plan.digest));
}
