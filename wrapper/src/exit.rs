// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The exit codes, a documented interface (api.md §7), and the last record. Chooses no code: the state machine does,
//! and main leaves with it.
pub mod client;
pub mod history;
pub mod record;

/// Why the process ends. Two causes share code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// Requested stop, clean end.
    Stopped,
    /// A second signal forced the end.
    Forced,
    /// Any failure that has no code of its own.
    Failed,
    /// 2: the command line cannot be meant.
    Usage,
    /// 3: the port could not be bound.
    BindFailed,
    /// etcd ended though nobody had asked, or was asked and ended in another unclean way.
    EtcdEnded,
    /// 11: too many ends within ten minutes.
    CrashBudget,
    /// Bootstrap or config failed for good.
    BootstrapFailed,
    /// Requested stop, but etcd had to be killed.
    EtcdKilled,
    /// Not ready within `--etcd-ready-timeout`.
    NotReady,
    /// etcd had been ready and ended with 0 unasked.
    MemberRemoved,
}

impl ExitCode {
    /// Every cause, in the order of the codes.
    pub const ALL: [Self; 11] = [
        Self::Stopped,
        Self::Forced,
        Self::Failed,
        Self::Usage,
        Self::BindFailed,
        Self::EtcdEnded,
        Self::CrashBudget,
        Self::BootstrapFailed,
        Self::EtcdKilled,
        Self::NotReady,
        Self::MemberRemoved,
    ];

    /// The machine's verdict as a code of the interface.
    pub fn of(exit: &crate::supervise::state::Exit) -> Self {
        let forced = exit.cause == "forced";
        let known = Self::ALL
            .into_iter()
            .find(|code| code.number() == exit.code && (*code != Self::Forced || forced));
        known.unwrap_or(Self::Failed)
    }

    /// The number the process exits with.
    pub fn number(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Forced | Self::Failed => 1,
            Self::Usage => 2,
            Self::BindFailed => 3,
            Self::EtcdEnded => 10,
            Self::CrashBudget => 11,
            Self::BootstrapFailed => 12,
            Self::EtcdKilled => 13,
            Self::NotReady => 14,
            Self::MemberRemoved => 20,
        }
    }

    /// The record's `cause`: stable snake case.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Forced => "forced",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::BindFailed => "bind_failed",
            Self::EtcdEnded => "etcd_ended",
            Self::CrashBudget => "crash_budget",
            Self::BootstrapFailed => "bootstrap_failed",
            Self::EtcdKilled => "etcd_killed",
            Self::NotReady => "not_ready",
            Self::MemberRemoved => "member_removed",
        }
    }

    /// What a person may do next, where no better hint is known.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Stopped => "stopped on request; etcd ended cleanly or was not running",
            Self::Forced => "a second signal came before etcd had ended; the next start validates fully",
            Self::Failed => "see the last error above",
            Self::Usage => "see etcd-wrapper start-etcd --help",
            Self::BindFailed => "another process listens on this port, or the address is not ours",
            Self::EtcdEnded => "etcd ended by itself; its own lines above say why",
            Self::CrashBudget => {
                "etcd ended by itself too often in a short time; its own lines above say why"
            }
            Self::BootstrapFailed => "mend the file or the flag that is named; a restart alone will not help",
            Self::EtcdKilled => "etcd did not end within the grace period; the next start validates fully",
            Self::NotReady => "etcd was not ready in time: without a quorum of members it cannot be",
            Self::MemberRemoved => {
                "this member was removed from its cluster; its data was left untouched, and it must be added anew"
            }
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_codes_are_all_there_and_every_cause_has_its_own_word() {
        let mut numbers: Vec<u8> = ExitCode::ALL.iter().map(|code| code.number()).collect();
        assert!(numbers.is_sorted());
        numbers.dedup();
        assert_eq!(numbers, [0, 1, 2, 3, 10, 11, 12, 13, 14, 20]);
        let words: std::collections::HashSet<_> = ExitCode::ALL.iter().map(|code| code.cause()).collect();
        assert_eq!(words.len(), ExitCode::ALL.len());
    }
}
