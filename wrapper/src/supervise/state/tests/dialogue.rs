// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The conversation with the sidecar: which answers count, which mode is asked for, how long the pauses are.
use super::*;
use SidecarWord::{Failed, New, Progress, Successful};

fn boot(clean_marker: bool) -> Bench {
    Bench::new(settings(), found(clean_marker))
}

#[test]
fn b1_a_clean_marker_asks_for_sanity_and_no_marker_for_full() {
    assert_eq!(boot(true).next_mode(), Mode::Sanity);
    assert_eq!(boot(false).next_mode(), Mode::Full);
}

#[test]
fn b9_the_marker_is_gone_before_the_sidecar_starts() {
    let mut bench = boot(true);
    bench.word(New);
    assert!(bench.wants(&Effect::Disk(Job::ConsumeMarker)));
    assert!(bench.state.call.is_none());
}

#[test]
fn a1_a_cut_success_and_then_new_asks_again_in_full() {
    let mut bench = boot(true);
    assert_eq!(bench.next_mode(), Mode::Sanity);
    bench.reply(Reply::Started).pause_over().word(Progress).pause_over().reply(Reply::Lost).pause_over();
    assert_eq!(bench.next_mode(), Mode::Full);
    bench.reply(Reply::Started).pause_over().word(Successful);
    assert_eq!(bench.state.call, Some(Call::Config { quick: false }));
}

#[test]
fn a1_after_a_success_that_was_read_nobody_asks_again() {
    let mut bench = boot(true);
    bench.next_mode();
    bench.reply(Reply::Started).pause_over().word(Successful).running();
    let readings = bench.all.iter().filter(|effect| matches!(effect, Effect::Call(Call::Status))).count();
    assert_eq!(readings, 2);
}

#[test]
fn a3_i7_pauses_grow_from_a_second_to_thirty_and_it_never_gives_up() {
    let mut bench = boot(false);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.next_mode();
        bench.reply(Reply::Started).pause_over().word(Failed);
        pauses.extend(bench.paused_for().map(|pause| pause.as_secs()));
        bench.pause_over();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert!(bench.exit().is_none() && bench.state.generation == 0);
}

#[test]
fn a4_progress_for_ever_and_a_signal_ends_at_once_without_etcd() {
    let mut bench = boot(true);
    bench.next_mode();
    bench.reply(Reply::Started).pause_over().word(Progress).tell(TERM);
    assert_eq!(bench.exit_code(), Some(0));
    assert_eq!(bench.state.generation, 0);
}

#[test]
fn a5_one_start_however_long_the_progress() {
    let mut bench = boot(false);
    bench.next_mode();
    bench.reply(Reply::Started);
    for _ in 0..7200 {
        bench.pause_over().word(Progress);
        assert!(bench.paused_for().is_some_and(|pause| pause <= Duration::from_secs(1)));
    }
    let starts = bench.all.iter().filter(|effect| matches!(effect, Effect::Call(Call::Start(_)))).count();
    assert_eq!(starts, 1);
}

#[test]
fn a13_five_starts_over_one_sidecar_each_ask_for_their_own() {
    for clean in [true, false, true, false, true] {
        let mut bench = boot(clean);
        assert_eq!(bench.next_mode(), if clean { Mode::Sanity } else { Mode::Full });
        bench.reply(Reply::Started).pause_over().word(Successful).running();
    }
}

#[test]
fn a14_a_sidecar_that_refuses_connections_is_waited_for() {
    let mut bench = boot(true);
    for _ in 0..300 {
        bench.reply(Reply::Refused).pause_over();
    }
    assert_eq!(bench.state.generation, 0);
    assert_eq!(bench.next_mode(), Mode::Sanity, "a sidecar that was not up yet is no reading");
}

#[test]
fn a15_a_success_left_unread_is_consumed_and_not_taken() {
    for clean in [true, false] {
        let mut bench = boot(clean);
        bench.word(Successful).disk();
        assert_eq!(bench.state.call, Some(Call::Start(Mode::Full)));
    }
}

#[test]
fn a_progress_of_a_process_before_us_may_end_in_our_success() {
    let mut bench = boot(false);
    bench.word(Progress).disk().pause_over().word(Successful);
    assert_eq!(bench.state.call, Some(Call::Config { quick: false }));
    assert!(!bench.ever(|effect| matches!(effect, Effect::Call(Call::Start(_)))));
}

#[test]
fn a16_a_posted_start_is_refused_while_the_sidecar_works() {
    // Seen, begun by us, or begun by a process before us and never seen.
    let mut seen = boot(false);
    seen.word(Progress).disk();
    let mut ours = boot(false);
    ours.next_mode();
    ours.reply(Reply::Started);
    for mut bench in [seen, ours, boot(false)] {
        bench.tell(Event::Command(7, Line::StartPosted.command(true))).disk();
        if bench.state.call == Some(Call::Status) {
            bench.word(Progress).disk();
        }
        assert_eq!(bench.state.call, Some(Call::Check));
        bench.word(Progress);
        let refused = bench.answer().expect("an answer").expect_err("a refusal");
        assert_eq!(refused.code, Code::InitializationInProgress);
        assert_eq!(bench.state.generation, 0);
    }
}

#[test]
fn a17_a_sidecar_that_dies_in_progress_is_asked_in_full() {
    let mut bench = boot(true);
    bench.word(Progress).disk().pause_over();
    assert_eq!(bench.next_mode(), Mode::Full);
    let mut refused = boot(true);
    refused.word(Progress).disk().pause_over().reply(Reply::Refused).pause_over();
    assert_eq!(refused.next_mode(), Mode::Full);
}

#[test]
fn every_later_start_is_full() {
    for answer in [Reply::Lost, Reply::Failed, Reply::Refused, Reply::Unreachable, Reply::Started] {
        let mut bench = boot(true);
        assert_eq!(bench.next_mode(), Mode::Sanity);
        bench.reply(answer.clone()).pause_over();
        assert_eq!(bench.next_mode(), Mode::Full, "after {answer:?}");
    }
}

#[test]
fn i7_a_round_that_is_gone_is_repeated_after_a_pause() {
    let mut bench = boot(true);
    bench.next_mode();
    bench.reply(Reply::Started).pause_over().word(New);
    assert_eq!(bench.paused_for(), Some(Duration::from_secs(1)));
}

#[test]
fn out_of_held_and_stopped_the_mode_is_full() {
    let mut held = Bench::new(Settings { hold: true, ..settings() }, found(true));
    held.disk();
    held.say(Line::Start(None)).expect("a start");
    assert_eq!(held.next_mode(), Mode::Full);
    let mut stopped = boot(true);
    stopped.running();
    stopped.say(Line::Stop).expect("a stop");
    stopped.ended(BY_TERM);
    stopped.say(Line::Start(None)).expect("a start");
    assert_eq!(stopped.next_mode(), Mode::Full);
}

#[test]
fn a_config_after_one_that_was_given_up_on_counts_when_it_comes_twice() {
    let mut bench = boot(false);
    bench.until(|state| matches!(state.call, Some(Call::Config { .. })));
    bench.reply(Reply::Lost).pause_over().reply(Reply::Config(served()));
    assert_eq!(bench.state.call, Some(Call::Config { quick: false }));
    bench.reply(Reply::Config(served()));
    assert!(bench.wants(&Effect::Disk(Job::Prepare(served()))));
}

#[test]
fn a11_a_bad_config_is_asked_for_again_for_ever() {
    let mut bench = boot(false);
    bench.until(|state| matches!(state.call, Some(Call::Config { .. })));
    for _ in 0..100 {
        bench.reply(Reply::BadConfig(refusal(Code::ConfigInvalid))).pause_over();
    }
    assert!(bench.exit().is_none() && bench.state.generation == 0);
    bench.running();
}
