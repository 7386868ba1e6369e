// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The exit codes of the client verbs, a documented interface (api.md §10). Other numbers than the server's on purpose
//! mean other things: nobody runs a client as a container's main process.

/// How a client verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientCode {
    /// Done; for `status` and `ready` also: the member is ready, for `leader`: it leads.
    Done,
    /// Refused, or failed.
    Failed,
    /// The command line cannot be meant.
    Usage,
    /// No connection, no trust, or no whole answer in time.
    Nobody,
    /// Not ready (`status`, `ready`), or not leading (`leader`).
    Not,
    /// `--wait` ran out before the operation had ended.
    WaitRanOut,
}

impl ClientCode {
    /// The number the process exits with.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Nobody => 3,
            Self::Not => 4,
            Self::WaitRanOut => 5,
        }
    }
}

impl From<ClientCode> for std::process::ExitCode {
    fn from(code: ClientCode) -> Self {
        Self::from(code.number())
    }
}
