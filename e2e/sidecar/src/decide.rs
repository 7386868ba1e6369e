// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a member has to do before etcd may start, and what of its cluster stands in its config: pure decisions.
//! Asks nobody and changes nothing.
//!
//! | cluster | this member in it | data | to do |
//! |---|---|---|---|
//! | of one | | sound | keep |
//! | of one | | absent, spoilt | begin anew (the store is empty, so nothing can be restored) |
//! | answers | by name, or by URL while it never gave its name | sound | keep |
//! | answers | the same | absent, spoilt | leave it, and join as a learner |
//! | answers | no | any | join as a learner, without the data |
//! | silent | | sound | keep |
//! | silent, a member lease is held | | absent, spoilt | refuse: the cluster exists, and must be asked first |
//! | silent, leases cannot be read | | absent, spoilt | refuse: nobody knows |
//! | silent, no lease was ever held | | absent, spoilt | begin anew, with all others |
use std::fmt;

use crate::etcd::Member;

/// What the data directory looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Absent,
    Sound,
    /// Why etcd must not start on it.
    Spoilt(String),
}

/// Whether any member of this cluster has ever renewed its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Never,
    Once,
    /// The API server could not be asked.
    Unknown,
}

/// All that counts for the start of a member.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    /// The member's own name.
    pub(crate) name: &'a str,
    /// What it shall advertise to its peers.
    pub(crate) peer_urls: &'a [String],
    /// How many members the cluster is meant to have.
    pub(crate) size: usize,
    pub(crate) data: Data,
    /// The member list, as a ready member tells it; None: none answered.
    pub(crate) members: Option<&'a [Member]>,
    pub(crate) held: Held,
}

/// What is to be done to the data directory and to the member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start on the data that is there.
    Keep,
    /// Start without data, as the first of a cluster or together with all others.
    Begin,
    /// Remove what is left of this member (by its id, where it is listed), drop the data, add it as a learner.
    Join { leave: Option<u64> },
    /// Nothing: it is not safe now. The initialization fails, the wrapper asks again.
    Refuse(&'static str),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => write!(f, "keep the data"),
            Self::Begin => write!(f, "begin without data"),
            Self::Join { leave: Some(id) } => write!(f, "leave as {id:x}, and join as a learner"),
            Self::Join { leave: None } => write!(f, "join as a learner"),
            Self::Refuse(why) => write!(f, "refuse: {why}"),
        }
    }
}

/// The member that is meant by a name or, as long as etcd does not know its name, by a URL.
fn listed<'a>(members: &'a [Member], name: &str, peer_urls: &[String]) -> Option<&'a Member> {
    let unnamed = |member: &&Member| {
        member.name.is_empty() && member.peer_urls.iter().any(|url| peer_urls.contains(url))
    };
    members.iter().find(|member| member.name == name).or_else(|| members.iter().find(unnamed))
}

/// The table at the head of this file.
pub(crate) fn step(facts: &Facts<'_>) -> Step {
    let sound = facts.data == Data::Sound;
    if facts.size <= 1 {
        return if sound { Step::Keep } else { Step::Begin };
    }
    match (facts.members, facts.held) {
        (Some(members), _) => match listed(members, facts.name, facts.peer_urls) {
            Some(_) if sound => Step::Keep,
            Some(member) => Step::Join { leave: Some(member.id) },
            None => Step::Join { leave: None },
        },
        (None, _) if sound => Step::Keep,
        (None, Held::Never) => Step::Begin,
        (None, Held::Once) => Step::Refuse("the cluster exists and no member of it answers"),
        (None, Held::Unknown) => {
            Step::Refuse("no member of the cluster answers, and the leases cannot be read")
        }
    }
}

/// What a config says of the cluster; see `ConfigMap::render`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Names of the members by now, where the cluster answers.
    pub(crate) known: Option<Vec<String>>,
    /// `initial-cluster-state` is `existing`.
    pub(crate) existing: bool,
}

/// The view of a cluster that is meant to have more than one member. `joining`: this member was added as a learner
/// and has not started yet; `growing`: the StatefulSet has more pods to come than it has updated.
///
/// # Errors
/// A joining member needs the list: with a config for a new cluster it would begin one of its own.
pub(crate) fn view(members: Option<&[Member]>, joining: bool, growing: bool) -> Result<View, &'static str> {
    match members {
        Some(members) => {
            let known = members.iter().map(|member| member.name.clone()).collect();
            let learner = members.iter().any(|member| member.is_learner);
            Ok(View { known: Some(known), existing: learner || joining || growing })
        }
        None if joining => Err("this member joins a cluster, and no member of that answers"),
        None => Ok(View { known: None, existing: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_URL: &str = "http://red-1.red-peer:2380";

    fn member(id: u64, name: &str) -> Member {
        let ordinal = name.rsplit('-').next().unwrap_or_default();
        Member {
            id,
            name: name.into(),
            peer_urls: vec![format!("http://red-{ordinal}.red-peer:2380")],
            client_urls: Vec::new(),
            is_learner: false,
        }
    }

    fn unnamed() -> Member {
        Member { peer_urls: vec![OWN_URL.into()], is_learner: true, ..member(9, "") }
    }

    fn decide(size: usize, data: Data, members: Option<&[Member]>, held: Held) -> Step {
        let urls = [OWN_URL.to_owned()];
        step(&Facts { name: "red-1", peer_urls: &urls, size, data, members, held })
    }

    fn spoilt() -> Data {
        Data::Spoilt("zeroes".into())
    }

    const ALL_HELD: [Held; 3] = [Held::Never, Held::Once, Held::Unknown];

    #[test]
    fn a_lone_member_needs_nobody() {
        for held in ALL_HELD {
            assert_eq!(decide(1, Data::Sound, None, held), Step::Keep);
            assert_eq!(decide(1, Data::Absent, None, held), Step::Begin);
            assert_eq!(decide(1, spoilt(), None, held), Step::Begin);
        }
    }

    #[test]
    fn sound_data_of_a_member_is_kept_whoever_answers() {
        let list = [member(1, "red-0"), member(2, "red-1"), member(3, "red-2")];
        for held in ALL_HELD {
            assert_eq!(decide(3, Data::Sound, Some(&list), held), Step::Keep);
            assert_eq!(decide(3, Data::Sound, None, held), Step::Keep);
        }
    }

    #[test]
    fn a_learner_that_never_gave_its_name_keeps_its_data() {
        // With data gone the leader would speak of entries that this member has acknowledged and lost.
        let list = [member(1, "red-0"), unnamed()];
        assert_eq!(decide(3, Data::Sound, Some(&list), Held::Once), Step::Keep);
        assert_eq!(decide(3, Data::Absent, Some(&list), Held::Once), Step::Join { leave: Some(9) });
    }

    #[test]
    fn a_member_that_lost_its_data_leaves_and_joins_again() {
        let list = [member(1, "red-0"), member(2, "red-1"), member(3, "red-2")];
        for data in [Data::Absent, spoilt()] {
            for held in ALL_HELD {
                assert_eq!(decide(3, data.clone(), Some(&list), held), Step::Join { leave: Some(2) });
            }
        }
    }

    #[test]
    fn a_member_that_is_not_listed_joins_without_its_data() {
        let list = [member(1, "red-0"), member(3, "red-2")];
        for data in [Data::Absent, Data::Sound, spoilt()] {
            assert_eq!(decide(3, data, Some(&list), Held::Once), Step::Join { leave: None });
        }
    }

    #[test]
    fn only_a_cluster_that_never_was_is_begun_in_silence() {
        for data in [Data::Absent, spoilt()] {
            assert_eq!(decide(3, data.clone(), None, Held::Never), Step::Begin);
            for held in [Held::Once, Held::Unknown] {
                let step = decide(3, data.clone(), None, held);
                assert!(matches!(step, Step::Refuse(_)), "{data:?} {held:?}: {step:?}");
            }
        }
    }

    #[test]
    fn a_config_lists_the_members_that_are_there() {
        let voters = [member(1, "red-0"), member(2, "red-1")];
        let known = Some(vec!["red-0".to_owned(), "red-1".to_owned()]);
        let seen = view(Some(&voters), false, false).unwrap();
        assert_eq!(seen, View { known: known.clone(), existing: false });
        assert_eq!(view(Some(&voters), false, true).unwrap(), View { known: known.clone(), existing: true });
        assert_eq!(view(Some(&voters), true, false).unwrap(), View { known, existing: true });
        assert!(view(Some(&[member(1, "red-0"), unnamed()]), false, false).unwrap().existing);
    }

    #[test]
    fn in_silence_a_config_is_for_a_new_cluster_unless_the_member_joins_one() {
        assert_eq!(view(None, false, true).unwrap(), View { known: None, existing: false });
        assert!(view(None, true, false).is_err());
    }
}
