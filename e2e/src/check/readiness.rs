// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A wrapper is never ready while its member cannot answer a linearizable read for longer than the wrapper may rest on
//! an old one. Probes and reads of our own are laid beside each other: reads are begun once a second, whether earlier
//! ones were answered or not, and each waits as long as the wrapper's own.
use super::{Finding, moment};

/// How old the success may be that a wrapper's readiness rests on, in milliseconds.
const MAX_AGE: u64 = 10_000;
/// For a read of the wrapper that took its whole limit, and for clocks that are read late.
const SLACK: u64 = 3_000;
/// Reads that begin within this time after a probe count too: what was mended shortly before it, the wrapper may have
/// noticed first.
const AFTER: u64 = 2_500;
/// Reads that must have failed before anything is said.
const ENOUGH: usize = 4;

/// One probe that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Name of the member that was asked.
    pub member: String,
    /// When it was asked, in milliseconds since 1970.
    pub at: u64,
    /// It answered 200.
    pub ready: bool,
}

/// One linearizable read of our own, with its beginning and end in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Name of the member that was asked.
    pub member: String,
    /// When it was sent, in milliseconds since 1970.
    pub begun: u64,
    /// When it was answered or given up, in milliseconds since 1970.
    pub ended: u64,
    /// It was answered without an error.
    pub answered: bool,
}

/// `dark`: a member was cut off for so long that probes must have met one that could not answer. `began`: the zero of
/// the times that are told.
pub fn readiness(looks: &[Look], reads: &[Read], dark: bool, began: u64) -> Finding {
    let mut trouble = Vec::new();
    let mut told: Option<&Look> = None;
    let mut unable = 0;
    for look in looks {
        let from = look.at.saturating_sub(MAX_AGE + SLACK);
        let own = reads.iter().filter(|read| read.member == look.member);
        let mut failed = 0;
        let mut answered = false;
        for read in own.filter(|read| read.ended >= from && read.begun <= look.at + AFTER) {
            answered |= read.answered;
            failed += usize::from(!read.answered && read.begun >= from && read.ended <= look.at);
        }
        // One lie lasts for many probes.
        let is_new = told.is_none_or(|last| last.member != look.member || look.at > last.at + MAX_AGE);
        let is_unable = !answered && failed >= ENOUGH;
        unable += usize::from(is_unable);
        if is_unable && look.ready && is_new {
            told = Some(look);
            trouble.push(format!(
                "{} said that it is ready at {}, and {failed} reads of the last {} s had failed with none answered",
                look.member,
                moment(look.at, began),
                (MAX_AGE + SLACK) / 1000
            ));
        }
    }
    let ready = looks.iter().filter(|look| look.ready).count();
    let unready = looks.len() - ready;
    let seen = ready.min(reads.len());
    Finding::new(
        "readiness",
        "never ready while unable to answer a linearizable read for longer than maxAge",
        if dark { seen.min(unable) } else { seen },
        format!(
            "{} probes, {unready} of them not ready and {unable} of members that could not answer, beside {} reads",
            looks.len(),
            reads.len()
        ),
        trouble,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at: u64, ready: bool) -> Look {
        Look { member: "a".into(), at, ready }
    }

    /// Reads once a second from 0 to 60 s; those that begin in `dark` get no answer within 5 s.
    fn reads(dark: std::ops::Range<u64>) -> Vec<Read> {
        let read = |begun: u64| {
            let answered = !dark.contains(&begun);
            let ended = begun + if answered { 20 } else { 5_000 };
            Read { member: "a".into(), begun, ended, answered }
        };
        (0..60_000).step_by(1_000).map(read).collect()
    }

    #[test]
    fn ready_without_a_quorum_is_found() {
        let reads = reads(20_000..60_000);
        let probes: Vec<Look> = (0..60_000).step_by(500).map(|at| look(at, true)).collect();
        let found = readiness(&probes, &reads, true, 0);
        assert!(found.trouble[0].contains("a said that it is ready at 3"), "{found:?}");
        assert!(found.trouble.len() < 5, "one lie is told a few times: {found:?}");
    }

    #[test]
    fn ready_for_as_long_as_a_read_may_be_old_is_no_lie() {
        let reads = reads(20_000..60_000);
        let probes: Vec<Look> = (0..60_000).step_by(500).map(|at| look(at, at < 30_000)).collect();
        assert!(readiness(&probes, &reads, true, 0).holds());
    }

    #[test]
    fn a_run_that_was_to_cut_off_a_member_and_did_not_shows_nothing() {
        let reads = reads(60_000..60_000);
        let probes: Vec<Look> = (0..60_000).step_by(500).map(|at| look(at, true)).collect();
        assert!(readiness(&probes, &reads, false, 0).holds());
        assert!(!readiness(&probes, &reads, true, 0).holds());
    }

    #[test]
    fn a_wrapper_that_notices_first_that_all_is_well_again_is_no_liar() {
        let reads = reads(20_000..50_000);
        assert!(readiness(&[look(49_400, true)], &reads, false, 0).holds());
        assert!(!readiness(&[look(46_000, true)], &reads, false, 0).holds());
    }

    #[test]
    fn another_members_reads_say_nothing_and_few_failures_neither() {
        let mut others = reads(0..60_000);
        others.iter_mut().for_each(|read| read.member = "b".into());
        assert!(readiness(&[look(50_000, true)], &others, false, 0).holds());
        assert!(readiness(&[look(50_000, true)], &reads(0..60_000)[46..48], false, 0).holds());
        assert!(!readiness(&[look(1, false)], &others, false, 0).holds(), "never ready: nothing seen");
    }
}
