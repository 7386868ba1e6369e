// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What must hold after a run of the container tier, judged from what was seen from outside. Pure: a check looks at
//! observations and says what in them cannot be; one that had nothing to look at has not passed. What clients were told
//! about keys is [`crate::history`]'s to judge.
mod agreement;
mod leaders;
mod leases;
mod marker;
mod operations;
mod processes;
mod readiness;
mod watches;

pub use self::agreement::{Hash, agreement};
pub use self::leaders::{Claim, leaders};
pub use self::leases::{Lease, Renewal, leases};
pub use self::marker::{Exit, marker};
pub use self::operations::{Operation, operations};
pub use self::processes::{Seen, leaks, one_etcd, zombies};
pub use self::readiness::{Look, Read, readiness};
pub use self::watches::{Watcher, watches};

/// Broken observations that are told; more of the same kind say nothing new.
const MOST: usize = 5;

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check, as the report names it.
    pub name: &'static str,
    /// What must hold, in a sentence.
    pub about: &'static str,
    /// What it rests on: `412 probes, 398 reads`.
    pub seen: String,
    /// What cannot be; empty: it holds.
    pub trouble: Vec<String>,
}

impl Finding {
    /// `observations`: how many there were; without any it has not passed.
    fn new(
        name: &'static str,
        about: &'static str,
        observations: usize,
        seen: String,
        mut trouble: Vec<String>,
    ) -> Self {
        if observations == 0 {
            trouble.push(format!("nothing was seen that could show it: {seen}"));
        }
        let more = trouble.len().saturating_sub(MOST);
        trouble.truncate(MOST);
        if more > 0 {
            trouble.push(format!("and {more} more"));
        }
        Self { name, about, seen, trouble }
    }

    /// Nothing was seen that cannot be.
    pub fn holds(&self) -> bool {
        self.trouble.is_empty()
    }
}

/// A time for people: seconds since the run began.
fn moment(at: u64, began: u64) -> String {
    let millis = at.saturating_sub(began);
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}
