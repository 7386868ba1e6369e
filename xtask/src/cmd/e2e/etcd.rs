// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The choice of an etcd on the command line. Builds none.
use crate::tools::Line;

/// What a wrapper that is under test has beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Etcd {
    #[value(name = "3.4")]
    V34,
    #[value(name = "3.5")]
    V35,
    #[value(name = "3.6")]
    V36,
    #[value(name = "3.7")]
    V37,
    Mixed,
}

impl Etcd {
    /// That every member begins with.
    pub(super) fn line(self) -> Line {
        match self {
            Self::V34 => Line::L34,
            Self::V35 | Self::Mixed => Line::L35,
            Self::V36 => Line::L36,
            Self::V37 => Line::L37,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            other => other.line().as_str(),
        }
    }
}
