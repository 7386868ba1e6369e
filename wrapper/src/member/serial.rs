// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Whose turn is it? The pure side of `guard=serial`: all members of a cluster are told to restart at the same moment,
//! and each finds its place by itself, without a word to the others. The caller looks (guard.rs) and brings the clock.
//!
//! Each waits until all other voters have been active without a break for 1 s and a spacing for each voter before it. A
//! member that goes down breaks the count of all that wait, however short it is away: etcd counts the connections that it
//! has lost. But it breaks them late: while it hands over leadership and etcd waits for clients that hold streams open, its
//! peers still hear it. Ranks are further apart than that takes, so no two counts end while one goes.
use std::time::Duration;

use super::guard::Sight;

/// How long a caller should wait between looks.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(500);

const STEADY: Duration = Duration::from_secs(1);
/// From the end of a count until others see it: leadership is handed over for 3 s at most; then etcd closes its clients'
/// listener and waits for open streams, 5 s and two election timeouts (embed `Close` and `ReqTimeout`, 3.4 to 3.7), before
/// its peers lose it. The sidecar's watch is such a stream. 2 s more are for the looks, and 2 s for calls that do not come
/// at quite the same moment. A peer that freezes instead is noticed within 5 s.
const GOING: Duration = Duration::from_secs(3 + 5 + 2 + 2);
const LIMIT: Duration = Duration::from_secs(60);
/// To go and to come back, for each voter, beside all counts.
const TURN: Duration = Duration::from_secs(20);
/// Looks further apart than this prove nothing about the time between them.
const BLIND: Duration = Duration::from_secs(3);

/// A member waiting for its turn.
#[derive(Clone, Debug)]
pub struct Serial {
    /// How long all others must have been active.
    needed: Duration,
    limit: Duration,
    exempt: bool,
    /// All have been active since, and the last look that saw it so.
    steady: Option<(Duration, Duration)>,
    /// Connections with the other voters that were lost until the last look that succeeded.
    breaks: u64,
    last_obstacle: String,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is our turn.
    Go,
    /// Look again; `left` is how long the others must stay as they are (not counting breaks to come).
    Wait {
        /// Until it may be our turn.
        left: Duration,
    },
    /// The limit ran out; why it never came to a turn.
    Failed(String),
}

impl Serial {
    /// From the sight at the moment the call came in; the rank is this member's place among the voters, by id, and does
    /// not change any more. `election_timeout` is the cluster's. A single voter, and a member that is no voter, need not
    /// wait.
    pub fn new(sight: &Sight, election_timeout: Duration) -> Self {
        let voters = sight.voters();
        let rank = voters.iter().take_while(|id| **id < sight.self_id).count();
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        let count = u32::try_from(voters.len()).unwrap_or(u32::MAX);
        let spacing = GOING.saturating_add(election_timeout.saturating_mul(2));
        // The counts of all ranks, one after the other.
        let counts = spacing.saturating_mul(count.saturating_mul(count.saturating_sub(1)) / 2);
        Self {
            needed: STEADY.saturating_add(spacing.saturating_mul(rank)),
            limit: LIMIT.saturating_add(TURN.saturating_mul(count)).saturating_add(counts),
            exempt: count <= 1 || !voters.contains(&sight.self_id),
            steady: None,
            breaks: sight.breaks(),
            last_obstacle: "the others were never seen".into(),
        }
    }

    /// Takes in a look that was made `elapsed` after the call came in.
    pub fn observe(&mut self, sight: &Result<Sight, String>, elapsed: Duration) -> Turn {
        if self.exempt {
            return Turn::Go;
        }
        let needed = self.needed;
        // A member that restarts in place is missing for some 90 ms: most looks would not see it.
        let breaks = sight.as_ref().map_or(self.breaks, Sight::breaks);
        let lost = std::mem::replace(&mut self.breaks, breaks) != breaks;
        let obstacle = match sight {
            Err(detail) => Some(detail.clone()),
            Ok(sight) => {
                let (others, active) = sight.others();
                let away: Vec<String> = others.difference(&active).map(|id| format!("{id:x}")).collect();
                (!away.is_empty()).then(|| format!("not active: {}", away.join(", ")))
            }
        };
        self.steady = match (&obstacle, self.steady) {
            (Some(_), _) => None,
            (None, Some((since, last))) if !lost && elapsed.saturating_sub(last) <= BLIND => {
                Some((since, elapsed))
            }
            (None, _) => Some((elapsed, elapsed)),
        };
        if let Some(obstacle) = obstacle {
            self.last_obstacle = obstacle;
        }
        let steady_for = self.steady.map_or(Duration::ZERO, |(since, last)| last - since);
        if steady_for >= needed {
            return Turn::Go;
        }
        if elapsed >= self.limit {
            return Turn::Failed(format!(
                "no turn within {:?}: the other voters were not active for {needed:?} without a break; last obstacle: {}",
                self.limit, self.last_obstacle,
            ));
        }
        Turn::Wait { left: needed - steady_for }
    }
}

#[cfg(test)]
mod tests;
