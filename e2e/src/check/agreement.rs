// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! All members hold the same, when nobody writes any more: one hash at one revision.
use super::Finding;

/// What a member says of all that it holds up to a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// Name of the member, `etcd-main-0`.
    pub member: String,
    /// The revision up to which it holds.
    pub revision: i64,
    /// etcd's `HashKV` at that revision.
    pub hash: u32,
    /// Below it history is gone; hashes compare only where it is the same.
    pub compacted: i64,
}

/// `members`: how many there must be.
pub fn agreement(hashes: &[Hash], members: usize) -> Finding {
    let mut trouble = Vec::new();
    if hashes.len() < members {
        let who: Vec<&str> = hashes.iter().map(|hash| hash.member.as_str()).collect();
        trouble.push(format!("only {} of {members} members told: {}", hashes.len(), who.join(", ")));
    }
    if let Some(first) = hashes.first() {
        let other = hashes.iter().find(|hash| {
            (hash.revision, hash.hash, hash.compacted) != (first.revision, first.hash, first.compacted)
        });
        if other.is_some() {
            let told: Vec<String> = hashes
                .iter()
                .map(|hash| {
                    format!(
                        "{} {:08x} at revision {}, compacted at {}",
                        hash.member, hash.hash, hash.revision, hash.compacted
                    )
                })
                .collect();
            trouble.push(format!("members hold different things: {}", told.join("; ")));
        }
    }
    let seen = hashes
        .first()
        .map_or("no hashes".into(), |hash| format!("{} hashes at revision {}", hashes.len(), hash.revision));
    Finding::new("agreement", "all members hold the same at the same revision", hashes.len(), seen, trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(member: &str, hash: u32, compacted: i64) -> Hash {
        Hash { member: member.into(), revision: 9, hash, compacted }
    }

    #[test]
    fn members_that_differ_or_are_silent_are_found() {
        assert!(agreement(&[hash("a", 1, 2), hash("b", 1, 2)], 2).holds());
        let differs = agreement(&[hash("a", 1, 2), hash("b", 0xbeef, 2)], 2);
        assert!(differs.trouble[0].contains("b 0000beef at revision 9"), "{differs:?}");
        assert!(!agreement(&[hash("a", 1, 2), hash("b", 1, 3)], 2).holds());
        assert!(!agreement(&[hash("a", 1, 2)], 2).holds());
        assert!(!agreement(&[], 0).holds());
    }
}
