// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Watches are complete and in order: revisions rise, every acknowledged write is told under its revision, nothing is
//! told that nobody wrote or that was refused, and all watchers tell the same. Each write here changes one key, so a
//! revision stands for one change.
use std::collections::{BTreeMap, HashMap};

use super::Finding;
use crate::etcd::Change;
use crate::history::{Call, History, Op, Outcome};

/// What one watcher heard, over all its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watcher {
    /// Name of the member that was watched.
    pub member: String,
    /// In the order of hearing.
    pub changes: Vec<Change>,
    /// Up to which revision it must have heard everything.
    pub until: i64,
    /// Why it could not go on where it was, each time.
    pub gaps: Vec<String>,
    /// How often it had to begin anew.
    pub connections: usize,
}

/// What a change did, without the history's prefix.
type Told<'a> = (&'a str, Option<&'a str>);

/// Every watcher heard every change of `history` once, in the order of revisions, and nothing else.
pub fn watches(watchers: &[Watcher], history: &History) -> Finding {
    let mut trouble = Vec::new();
    let mut all: BTreeMap<i64, (Told<'_>, &str)> = BTreeMap::new();
    for watcher in watchers {
        let who = &watcher.member;
        trouble.extend(watcher.gaps.iter().map(|gap| format!("the watch through {who} has a gap: {gap}")));
        for pair in watcher.changes.windows(2) {
            if pair[1].revision <= pair[0].revision {
                trouble.push(format!(
                    "the watch through {who} told revision {} ({}) after {} ({})",
                    pair[1].revision, pair[1].key, pair[0].revision, pair[0].key
                ));
            }
        }
        for change in &watcher.changes {
            let told = told(change, history);
            let (first, whose) = all.entry(change.revision).or_insert((told, who));
            if *first != told {
                trouble.push(format!(
                    "revision {} is {} through {whose} and {} through {who}",
                    change.revision,
                    shown(*first),
                    shown(told)
                ));
            }
        }
    }
    for watcher in watchers {
        let heard: HashMap<i64, Told<'_>> =
            watcher.changes.iter().map(|change| (change.revision, told(change, history))).collect();
        let who = &watcher.member;
        for (op, revision) in writes(history).filter(|(_, revision)| *revision <= watcher.until) {
            match heard.get(&revision) {
                Some(found) if *found == wrote(op) => {}
                Some(found) => trouble.push(format!(
                    "revision {revision} is {} by the acknowledged {} of {}, and the watch through {who} told {}",
                    shown(wrote(op)),
                    op.call,
                    op.key,
                    shown(*found)
                )),
                None => trouble.push(format!(
                    "the watch through {who} never told revision {revision}: the acknowledged {} of {}",
                    op.call, op.key
                )),
            }
        }
        // What others were told, nobody may miss, whoever wrote it.
        for (revision, (told, whose)) in all.range(..=watcher.until) {
            if !heard.contains_key(revision) {
                trouble.push(format!(
                    "the watch through {who} never told revision {revision}: {}, which {whose} told",
                    shown(*told)
                ));
            }
        }
    }
    trouble.extend(invented(&all, history));
    let changes: usize = watchers.iter().map(|watcher| watcher.changes.len()).sum();
    let connections: usize = watchers.iter().map(|watcher| watcher.connections).sum();
    Finding::new(
        "watches",
        "watches are complete and in order, and tell nothing that nobody wrote",
        changes,
        format!("{changes} changes told to {} watchers over {connections} connections", watchers.len()),
        trouble,
    )
}

/// Changes that no call can have made.
fn invented(all: &BTreeMap<i64, (Told<'_>, &str)>, history: &History) -> Vec<String> {
    let by_revision: HashMap<i64, &Op> = writes(history).map(|(op, revision)| (revision, op)).collect();
    // Calls without a known outcome, and how many of the same kind a change may be by.
    let mut open: HashMap<Told<'_>, usize> = HashMap::new();
    for op in history.ops.iter().filter(|op| matches!(op.outcome, Outcome::Unknown { .. })) {
        if !matches!(op.call, Call::Read) {
            *open.entry(wrote(op)).or_default() += 1;
        }
    }
    let mut trouble = Vec::new();
    for (revision, (told, whose)) in all {
        if by_revision.contains_key(revision) {
            continue;
        }
        match open.get_mut(told) {
            Some(left) if *left > 0 => *left -= 1,
            _ => trouble.push(format!(
                "the watch through {whose} told revision {revision}: {}, and no call can have done that",
                shown(*told)
            )),
        }
    }
    trouble
}

fn writes(history: &History) -> impl Iterator<Item = (&Op, i64)> {
    history.answered().filter_map(|(op, answer)| Some((op, answer.written?)))
}

fn wrote(op: &Op) -> Told<'_> {
    let value = match &op.call {
        Call::Put { value } | Call::Swap { value: Some(value), .. } => Some(value.as_str()),
        Call::Read | Call::Delete | Call::Swap { value: None, .. } => None,
    };
    (&op.key, value)
}

fn told<'a>(change: &'a Change, history: &History) -> Told<'a> {
    (change.key.strip_prefix(history.prefix.as_str()).unwrap_or(&change.key), change.value.as_deref())
}

fn shown((key, value): Told<'_>) -> String {
    value.map_or_else(|| format!("{key} deleted"), |value| format!("{key} = {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, End};

    fn op(call: Call, outcome: Outcome) -> Op {
        Op { client: 0, member: "a".into(), key: "k".into(), call, begun: 0, ended: 1, outcome, last: false }
    }

    fn put(value: &str, revision: i64) -> Op {
        let answer = Answer { written: Some(revision), store: revision, seen: None };
        op(Call::Put { value: value.into() }, Outcome::Ok(answer))
    }

    fn history(ops: Vec<Op>) -> History {
        History { prefix: "t/".into(), ops, end: End::Stopped, ..History::default() }
    }

    fn change(value: Option<&str>, revision: i64) -> Change {
        Change { key: "t/k".into(), value: value.map(str::to_owned), revision, lease: 0 }
    }

    fn watcher(member: &str, changes: &[Change]) -> Watcher {
        Watcher { member: member.into(), changes: changes.to_vec(), until: 100, ..Watcher::default() }
    }

    fn told(changes: &[Change], ops: Vec<Op>) -> Vec<String> {
        watches(&[watcher("a", changes)], &history(ops)).trouble
    }

    #[test]
    fn a_whole_watch_is_well_with_what_may_have_happened() {
        let unknown = op(Call::Put { value: "u".into() }, Outcome::Unknown { why: String::new() });
        let ops = vec![put("x", 2), unknown, put("y", 4)];
        let whole = [change(Some("x"), 2), change(Some("u"), 3), change(Some("y"), 4)];
        assert_eq!(told(&whole, ops.clone()), Vec::<String>::new());
        assert!(told(&[], ops)[0].contains("never told revision 2: the acknowledged put x of k"));
    }

    #[test]
    fn a_lost_an_invented_and_a_refused_change_are_found() {
        let ops = vec![put("x", 2), put("y", 3)];
        let lost = told(&[change(Some("x"), 2)], ops.clone());
        assert!(lost[0].contains("never told revision 3"), "{lost:?}");
        let invented = told(&[change(Some("x"), 2), change(Some("y"), 3), change(Some("z"), 4)], ops.clone());
        assert!(invented[0].contains("revision 4: k = z, and no call can have done that"), "{invented:?}");
        let failed = op(Call::Put { value: "z".into() }, Outcome::Failed { why: String::new() });
        let refused = told(&[change(Some("x"), 2), change(Some("z"), 3)], vec![put("x", 2), failed]);
        assert!(refused[0].contains("k = z, and no call"), "{refused:?}");
        let other = told(&[change(Some("x"), 2), change(None, 3)], ops);
        assert!(other[0].contains("told k deleted"), "{other:?}");
    }

    #[test]
    fn an_unknown_call_happens_once_at_most() {
        let unknown = op(Call::Put { value: "u".into() }, Outcome::Unknown { why: String::new() });
        let twice = told(&[change(Some("u"), 3), change(Some("u"), 4)], vec![unknown]);
        assert!(twice[0].contains("revision 4"), "{twice:?}");
    }

    #[test]
    fn disorder_gaps_and_watchers_that_differ_are_found() {
        let ops = vec![put("x", 2), put("y", 3)];
        let order = told(&[change(Some("y"), 3), change(Some("x"), 2)], ops.clone());
        assert!(order[0].contains("told revision 2 (t/k) after 3"), "{order:?}");
        let whole = [change(Some("x"), 2), change(Some("y"), 3)];
        let mut gap = watcher("a", &whole);
        gap.gaps.push("compacted".into());
        assert!(watches(&[gap], &history(ops.clone())).trouble[0].contains("has a gap: compacted"));
        let other = [change(Some("x"), 2), change(Some("n"), 3)];
        let differ = watches(&[watcher("a", &whole), watcher("b", &other)], &history(ops));
        assert!(
            differ.trouble[0].contains("revision 3 is k = y through a and k = n through b"),
            "{differ:?}"
        );
    }
}
