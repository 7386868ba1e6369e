// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Never two leaders in one term, in what the wrappers publish; and the terms that one wrapper publishes never fall.
use std::collections::BTreeMap;

use super::{Finding, moment};

/// One published document about leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose wrapper said so.
    pub member: String,
    /// When it was heard, in milliseconds since 1970.
    pub at: u64,
    /// Of the process that said so.
    pub epoch: String,
    /// Number of the event in the member's stream.
    pub index: u64,
    /// The member that it speaks for, as etcd numbers it.
    pub own: String,
    /// The term of raft that the document tells.
    pub term: u64,
    /// It leads.
    pub leads: bool,
}

/// `began`: the zero of the times that are told.
pub fn leaders(claims: &[Claim], began: u64) -> Finding {
    let mut trouble = Vec::new();
    let mut leading: BTreeMap<u64, &Claim> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| claim.leads) {
        let first = leading.entry(claim.term).or_insert(claim);
        if first.own != claim.own {
            trouble.push(format!(
                "term {}: {} ({}) led by its own word at {}, and {} ({}) at {}",
                claim.term,
                first.member,
                first.own,
                moment(first.at, began),
                claim.member,
                claim.own,
                moment(claim.at, began)
            ));
        }
    }
    let mut newest: BTreeMap<(&str, &str), &Claim> = BTreeMap::new();
    for claim in claims {
        let last = newest.entry((&claim.member, &claim.epoch)).or_insert(claim);
        if claim.index > last.index {
            if claim.term < last.term {
                trouble.push(format!(
                    "{} at {}: term {} after term {}",
                    claim.member,
                    moment(claim.at, began),
                    claim.term,
                    last.term
                ));
            }
            *last = claim;
        }
    }
    Finding::new(
        "leaders",
        "never two leaders in one term, and no wrapper's term ever falls, in what the wrappers publish",
        leading.len(),
        format!("{} documents about leadership, {} terms with a leader", claims.len(), leading.len()),
        trouble,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(member: &str, index: u64, term: u64, leads: bool) -> Claim {
        Claim {
            member: member.into(),
            at: 1_000 + index,
            epoch: "e".into(),
            index,
            own: format!("id-{member}"),
            term,
            leads,
        }
    }

    #[test]
    fn two_leaders_of_one_term_are_found() {
        let good = [
            claim("a", 1, 2, true),
            claim("b", 1, 2, false),
            claim("b", 2, 3, true),
            claim("a", 2, 3, false),
        ];
        assert!(leaders(&good, 1_000).holds());
        let bad = [claim("a", 1, 2, true), claim("b", 1, 2, true)];
        let told = leaders(&bad, 1_000).trouble;
        assert!(told[0].contains("term 2: a (id-a) led by its own word at 0.001 s, and b"), "{told:?}");
        // The same member once more, also in another process, is no other leader.
        assert!(leaders(&[claim("a", 1, 2, true), claim("a", 9, 2, true)], 0).holds());
    }

    #[test]
    fn a_term_that_falls_is_found_and_a_new_process_begins_anew() {
        let falls = [claim("a", 1, 5, true), claim("a", 2, 4, false)];
        assert!(leaders(&falls, 0).trouble[0].contains("term 4 after term 5"));
        let mut other = claim("a", 1, 4, false);
        other.epoch = "f".into();
        assert!(leaders(&[claim("a", 1, 5, true), other], 0).holds());
    }

    #[test]
    fn nobody_who_ever_led_shows_nothing() {
        assert!(!leaders(&[claim("a", 1, 2, false)], 0).holds());
    }
}
