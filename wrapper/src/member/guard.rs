// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! May this member go down without breaking quorum? [`look`] asks the local etcd, [`quorum`] judges; both are told
//! apart so that the judgement is pure. Whoever stops etcd decides what to do with a verdict.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::client::Client;
use super::gauges::Gauges;
use super::scraper::Scraper;
use super::view::Peer;

/// For each of the two questions of a look. Whoever cannot answer them is not counted on.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The cluster as the local member sees it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Ours.
    pub self_id: u64,
    /// All, as the local member lists them.
    pub members: Vec<Peer>,
    /// Members with which it has a living peer connection. A frozen peer counts for up to 5 s.
    pub active: BTreeSet<u64>,
    /// How often it has lost its connections with each since it began: what was too quick to be missing from `active`.
    pub disconnects: BTreeMap<u64, u64>,
}

/// What a stop of this member would mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go.
    Ok,
    /// 409 `would_break_quorum`.
    WouldBreak(String),
    /// 409 `guard_unknown`.
    Unknown(String),
}

impl Sight {
    /// Ids of the voting members, in order.
    pub fn voters(&self) -> BTreeSet<u64> {
        self.members.iter().filter(|peer| !peer.is_learner).map(|peer| peer.id).collect()
    }

    /// The other voters, and those of them that are active.
    pub fn others(&self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let others: BTreeSet<u64> = self.voters().into_iter().filter(|id| *id != self.self_id).collect();
        let active = others.intersection(&self.active).copied().collect();
        (others, active)
    }

    /// How often the connections with the other voters were lost, taken together.
    pub fn breaks(&self) -> u64 {
        let (others, _) = self.others();
        let lost = self.disconnects.iter().filter(|(id, _)| others.contains(id)).map(|(_, count)| *count);
        lost.fold(0, u64::saturating_add)
    }
}

/// Asks the local etcd for members and peer connections. The error says which of the two could not be had. Keep the
/// scraper (`Client::scraper`) between looks: it keeps its connection.
pub async fn look(client: &Client, scraper: &mut Scraper) -> Result<Sight, String> {
    let members = async {
        client.members(LOOK_LIMIT).await.map_err(|error| format!("the members cannot be read: {error}"))
    };
    let gauges = async {
        scraper
            .gauges(LOOK_LIMIT)
            .await
            .map_err(|error| format!("the peer connections cannot be read: {error}"))
    };
    let (members, gauges) = tokio::try_join!(members, gauges)?;
    let Gauges { active_peers: active, disconnects, .. } = gauges;
    Ok(Sight { self_id: members.self_id, members: members.peers, active, disconnects })
}

/// Judges whether the voters that stay and are healthy are a quorum. A cluster with one voter is exempt, and so is a
/// member that is no voter.
pub fn quorum(sight: &Result<Sight, String>) -> Verdict {
    let sight = match sight {
        Ok(sight) => sight,
        Err(detail) => return Verdict::Unknown(detail.clone()),
    };
    let voters = sight.voters();
    if !sight.members.iter().any(|peer| peer.id == sight.self_id) {
        return Verdict::Unknown(format!("member {:x} is not in its own member list", sight.self_id));
    }
    if voters.len() <= 1 || !voters.contains(&sight.self_id) {
        return Verdict::Ok;
    }
    let needed = voters.len() / 2 + 1;
    let (_, active) = sight.others();
    if active.len() >= needed {
        return Verdict::Ok;
    }
    Verdict::WouldBreak(format!(
        "without this member {} of {} voters would be left, {needed} are needed; stop it with guard=none to do it anyway",
        active.len(),
        voters.len(),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::sight;
    use super::*;

    fn judged(voters: u64, learners: u64, self_id: u64, active: &[u64]) -> Verdict {
        quorum(&Ok(sight(voters, learners, self_id, active)))
    }

    #[test]
    fn e19_a_full_cluster_lets_one_go_and_a_thin_one_does_not() {
        assert_eq!(judged(3, 0, 1, &[2, 3]), Verdict::Ok);
        assert!(matches!(judged(3, 0, 1, &[2]), Verdict::WouldBreak(_)));
        assert!(matches!(judged(5, 0, 1, &[2, 3]), Verdict::WouldBreak(_)));
        assert_eq!(judged(5, 0, 1, &[2, 3, 4]), Verdict::Ok);
    }

    #[test]
    fn two_voters_cannot_spare_one_and_a_single_one_is_exempt() {
        assert!(matches!(judged(2, 0, 1, &[2]), Verdict::WouldBreak(_)));
        assert_eq!(judged(1, 0, 1, &[]), Verdict::Ok);
        assert_eq!(judged(1, 1, 1, &[2]), Verdict::Ok);
    }

    #[test]
    fn learners_neither_count_nor_are_guarded() {
        assert!(matches!(judged(3, 1, 1, &[2, 4]), Verdict::WouldBreak(_)));
        assert_eq!(judged(3, 1, 4, &[]), Verdict::Ok);
    }

    #[test]
    fn what_cannot_be_known_is_unknown() {
        assert_eq!(quorum(&Err("no metrics".into())), Verdict::Unknown("no metrics".into()));
        assert!(matches!(judged(3, 0, 9, &[1, 2, 3]), Verdict::Unknown(_)));
    }

    proptest! {
        /// Ok for a voter of several means: those that stay are a majority of all voters.
        #[test]
        fn ok_leaves_a_majority(voters in 2u64..8, mask in any::<u8>()) {
            let active: Vec<u64> = (2..=voters).filter(|id| mask >> id & 1 == 1).collect();
            let ok = judged(voters, 0, 1, &active) == Verdict::Ok;
            prop_assert_eq!(ok, active.len() as u64 * 2 > voters);
        }
    }
}
