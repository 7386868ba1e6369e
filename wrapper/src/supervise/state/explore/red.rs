// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Each rule is needed: without it the search finds a way to break a property. A stage may set the scene; the way
//! itself is found.
use super::cast::Line;
use super::world::{Dir, Sidecar, Stage};
use super::{Rules, Search};
use crate::supervise::state::Rule;
use crate::supervise::view::Mode;

/// All rules hold on this stage; without the one, `property` breaks.
fn needed(rule: Rule, property: &str, stage: Stage) {
    let story = Search::new(stage, Rules::without(rule)).run().expect_err("a rule that nothing needs");
    assert!(story.starts_with(property), "{rule:?} was to break {property}:\n{story}");
    if let Err(story) = Search::new(stage, Rules::default()).run() {
        panic!("broken with all rules in force: {story}");
    }
}

#[test]
fn a15_a_success_of_somebody_else_does_not_count() {
    let stage = Stage {
        marker: false,
        dir: Dir::Dirty,
        sidecar: Sidecar::Successful,
        commands: 0,
        faults: 0,
        ..Stage::PLAIN
    };
    needed(Rule::OnlyOwnSuccessCounts, "P2", stage);
}

#[test]
fn a_second_start_is_full() {
    needed(Rule::LaterStartsAreFull, "P2", Stage { commands: 0, faults: 2, ..Stage::PLAIN });
}

#[test]
fn a17_sanity_is_asked_only_after_new() {
    let sidecar = Sidecar::Progress(Mode::Full);
    needed(Rule::SanityOnlyAfterNew, "P2", Stage { sidecar, commands: 0, faults: 2, ..Stage::PLAIN });
}

#[test]
fn sanity_needs_a_marker() {
    needed(Rule::SanityNeedsMarker, "P2", Stage { commands: 0, faults: 1, ..Stage::PLAIN });
}

#[test]
fn a_start_without_an_answer_is_not_ended_by_new() {
    let stage = Stage { commands: 1, faults: 1, lines: &[Line::StartPosted, Line::Stop], ..Stage::PLAIN };
    needed(Rule::LostStartIsNotEndedByNew, "P1", stage);
}

#[test]
fn a16_the_sidecar_is_asked_before_a_posted_start() {
    let stage = Stage { commands: 1, faults: 1, lines: &[Line::StartPosted], ..Stage::PLAIN };
    needed(Rule::CheckBeforeSpawn, "P1", stage);
}

#[test]
fn a_stop_waits_for_the_round() {
    needed(
        Rule::StopWaitsForRound,
        "P1",
        Stage { commands: 1, faults: 0, lines: &[Line::Stop], ..Stage::PLAIN },
    );
}

#[test]
fn an_orphan_keeps_the_lock() {
    needed(Rule::TakeLock, "P1", Stage { commands: 0, faults: 1, ..Stage::PLAIN });
}

#[test]
fn b9_the_marker_is_consumed() {
    needed(Rule::ConsumeMarker, "P4", Stage { commands: 0, faults: 1, ..Stage::PLAIN });
}

#[test]
fn b10_no_marker_after_a_verb() {
    let stage = Stage { commands: 2, faults: 0, lines: &[Line::StopHold('a'), Line::Term], ..Stage::PLAIN };
    needed(Rule::MarkerOnlyAfterShutdown, "P4", stage);
}

#[test]
fn b2_no_marker_before_ready() {
    let stage = Stage { commands: 1, faults: 0, lines: &[Line::Term], ..Stage::PLAIN };
    needed(Rule::MarkerOnlyAfterReady, "P4", stage);
}

#[test]
fn b3_no_marker_after_a_kill() {
    let stage = Stage { commands: 1, faults: 0, lines: &[Line::Term], ..Stage::PLAIN };
    needed(Rule::MarkerOnlyAfterCleanEnd, "P4", stage);
}

#[test]
fn b8_no_marker_for_another_directory() {
    let lines = &[Line::StartElsewhere, Line::Term];
    let stage = Stage { marker: false, dir: Dir::Dirty, commands: 2, faults: 0, lines, ..Stage::PLAIN };
    needed(Rule::MarkerOnlyForOwnDirectory, "P4", stage);
}

#[test]
fn b8_no_marker_without_fsync() {
    let stage = Stage { commands: 1, faults: 1, fsync: false, lines: &[Line::Term], ..Stage::PLAIN };
    needed(Rule::MarkerOnlyForOwnDirectory, "P4", stage);
}

#[test]
fn a_restart_after_an_unclean_end_validates() {
    let stage = Stage { commands: 1, faults: 0, lines: &[Line::Restart], ..Stage::PLAIN };
    needed(Rule::RestartValidates, "P2", stage);
}

#[test]
fn i11_a_hold_file_holds() {
    let stage = Stage { file: Some(None), commands: 0, faults: 0, ..Stage::PLAIN };
    needed(Rule::HoldFileHolds, "P7", stage);
}

#[test]
fn a_durable_override_has_an_owner() {
    let lines = &[Line::StartHold('a'), Line::Release('b')];
    needed(Rule::DurableHasOwner, "P7", Stage { commands: 2, faults: 0, lines, ..Stage::PLAIN });
}

#[test]
fn e20_a_hold_outlives_a_start_that_fails() {
    let lines = &[Line::Start(Some('a'))];
    let stage = Stage { file: Some(Some('a')), commands: 1, faults: 0, lines, ..Stage::PLAIN };
    needed(Rule::HoldOutlivesStart, "P7", stage);
}

#[test]
fn a_stop_waits_for_what_a_process_before_us_began() {
    needed(
        Rule::UnheardRoundCounts,
        "P1",
        Stage { commands: 1, faults: 1, lines: &[Line::Stop], ..Stage::PLAIN },
    );
}

#[test]
fn a17_what_was_heard_outlives_the_process() {
    let sidecar = Sidecar::Progress(Mode::Full);
    needed(Rule::HearingConsumesMarker, "P2", Stage { sidecar, commands: 0, faults: 2, ..Stage::PLAIN });
}

#[test]
fn no_marker_after_a_hold_was_promised() {
    let lines = &[Line::StopSerialHold('a'), Line::Term];
    needed(Rule::NoMarkerOncePromised, "P4", Stage { commands: 2, faults: 0, lines, ..Stage::PLAIN });
}

#[test]
fn a_restart_heeds_a_round_that_was_forced_aside() {
    let lines = &[Line::StartUncheckedForced, Line::Restart];
    let sidecar = Sidecar::Progress(Mode::Full);
    let stage = Stage { hold: true, marker: false, sidecar, commands: 2, faults: 0, lines, ..Stage::PLAIN };
    needed(Rule::RestartHeedsRound, "P1", stage);
}

#[test]
fn a_hold_is_promised_when_it_is_on_disk() {
    let stage = Stage { commands: 1, faults: 0, lines: &[Line::StopHold('a')], ..Stage::PLAIN };
    needed(Rule::HoldIsWritten, "P7", stage);
}

#[test]
fn a_refused_command_leaves_no_hold() {
    let stage = Stage { commands: 1, faults: 1, lines: &[Line::StopSerialHold('a')], ..Stage::PLAIN };
    needed(Rule::RefusalReleases, "P7", stage);
}

#[test]
fn a_start_at_rest_names_the_owner() {
    let stage =
        Stage { file: Some(Some('a')), commands: 1, faults: 0, lines: &[Line::Start(None)], ..Stage::PLAIN };
    needed(Rule::StartNamesOwner, "P7", stage);
}
