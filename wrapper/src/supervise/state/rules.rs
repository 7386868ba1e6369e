// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Names the safety rules that the exploration takes away one by one, to show that each is needed. Outside of tests
//! every rule is always on and this compiles to nothing.

/// A rule of safety.md (number in brackets) that can be taken away in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// (1) A `Successful` left over by somebody else does not count.
    OnlyOwnSuccessCounts,
    /// (2) Only the first `start` may say sanity.
    LaterStartsAreFull,
    /// (2) Sanity only while nothing but `New` was read.
    SanityOnlyAfterNew,
    /// (3) Sanity needs a clean marker found at process start.
    SanityNeedsMarker,
    /// (4) A `New` does not end a round whose `start` got no answer.
    LostStartIsNotEndedByNew,
    /// (5) The sidecar is asked before a spawn that no final status precedes.
    CheckBeforeSpawn,
    /// (6) A stop waits for a round of ours.
    StopWaitsForRound,
    /// (6) ... and for one that a process before us may have begun.
    UnheardRoundCounts,
    /// (8) `etcd.lock` before a `start` and a spawn.
    TakeLock,
    /// (9) The marker is consumed before the directory may be touched.
    ConsumeMarker,
    /// (9) ... and as soon as anything but `New` was heard of the sidecar.
    HearingConsumesMarker,
    /// (10) No marker once a hold was promised to an agent, be it while the process leaves.
    NoMarkerOncePromised,
    /// (10) A marker is written only after an end that a shutdown asked for.
    MarkerOnlyAfterShutdown,
    /// (10) ... of a member whose READY had come.
    MarkerOnlyAfterReady,
    /// (10) ... and that was clean.
    MarkerOnlyAfterCleanEnd,
    /// (10) ... with a config of the sidecar's or the file's, and fsync on.
    MarkerOnlyForOwnDirectory,
    /// (12) A restart skips validation only after a clean end on the same directory.
    RestartValidates,
    /// (12) ... and while no round that `force` stepped over may be at work.
    RestartHeedsRound,
    /// (13, 14) A hold is promised when it lies on disk.
    HoldIsWritten,
    /// (13) A command that is refused, or fails before it touches etcd, leaves no hold.
    RefusalReleases,
    /// (13) A hold file found at start holds.
    HoldFileHolds,
    /// (14) Only its owner ends a durable override.
    DurableHasOwner,
    /// (15) A start at rest names the owner of the file.
    StartNamesOwner,
    /// (15) The hold file goes only when marked, running and not overridden.
    HoldOutlivesStart,
}

/// Which rules are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rules {
    #[cfg(test)]
    missing: Option<Rule>,
}

impl Rules {
    /// All rules but one.
    #[cfg(test)]
    pub fn without(rule: Rule) -> Self {
        Self { missing: Some(rule) }
    }

    /// Whether this rule is kept; only the search turns one off.
    #[cfg(test)]
    pub fn on(&self, rule: Rule) -> bool {
        self.missing != Some(rule)
    }

    /// Every rule is kept.
    #[cfg(not(test))]
    pub fn on(&self, _rule: Rule) -> bool {
        true
    }
}
