// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The book on restarts of main containers: what was seen, by pod, over all pods of a name; what was announced; and the
//! difference. Seeing is `observe`'s.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// How many restarts were announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Restarts that must have happened.
    pub at_least: u32,
    /// Restarts that may have happened.
    pub at_most: u32,
}

/// What is known of one case.
#[derive(Debug, Default)]
pub struct Restarts {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// By pod's name and uid: a pod that is made anew counts from 0.
    seen: BTreeMap<(String, String), u32>,
    allowed: BTreeMap<String, Allowed>,
}

impl Restarts {
    /// The count that the kubelet tells for a pod.
    pub fn saw(&self, pod: &str, uid: &str, restarts: u32) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = book.seen.entry((pod.to_owned(), uid.to_owned())).or_default();
        *seen = restarts.max(*seen);
    }

    /// Adds to what was announced for a name.
    pub fn expect(&self, pod: &str, more: Allowed) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = book.allowed.entry(pod.to_owned()).or_default();
        allowed.at_least += more.at_least;
        allowed.at_most += more.at_most;
    }

    /// All restarts seen of pods of this name.
    pub fn seen(&self, pod: &str) -> u32 {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).of(pod)
    }

    /// A line for each pod whose restarts are not those announced.
    pub fn differences(&self) -> Vec<String> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<&String> =
            book.seen.keys().map(|(pod, _)| pod).chain(book.allowed.keys()).collect();
        let differs = |pod: &&String| {
            let (seen, allowed) = (book.of(pod), book.allowed.get(*pod).copied().unwrap_or_default());
            let Allowed { at_least, at_most } = allowed;
            if (at_least..=at_most).contains(&seen) {
                return None;
            }
            let announced = match (at_least, at_most) {
                (0, 0) => "none".to_owned(),
                (least, most) if least == most => most.to_string(),
                (least, most) => format!("{least} to {most}"),
            };
            Some(format!(
                "the main container of {pod} was restarted {seen} times, announced were {announced}"
            ))
        };
        names.iter().filter_map(differs).collect()
    }
}

impl Book {
    fn of(&self, pod: &str) -> u32 {
        self.seen.iter().filter(|((name, _), _)| name == pod).map(|(_, restarts)| restarts).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(restarts: u32) -> Allowed {
        Allowed { at_least: restarts, at_most: restarts }
    }

    #[test]
    fn a_restart_that_nobody_announced_is_told() {
        let restarts = Restarts::default();
        restarts.saw("a-0", "x", 0);
        assert!(restarts.differences().is_empty());
        restarts.saw("a-0", "x", 1);
        assert_eq!(
            restarts.differences(),
            ["the main container of a-0 was restarted 1 times, announced were none"]
        );
        restarts.expect("a-0", exactly(1));
        assert!(restarts.differences().is_empty());
    }

    #[test]
    fn pods_of_one_name_add_up_and_no_count_is_taken_back() {
        let restarts = Restarts::default();
        restarts.expect("a-0", exactly(1));
        restarts.expect("a-0", Allowed { at_least: 0, at_most: 2 });
        restarts.saw("a-0", "x", 2);
        restarts.saw("a-0", "x", 1);
        restarts.saw("a-0", "y", 1);
        assert_eq!(restarts.seen("a-0"), 3);
        assert!(restarts.differences().is_empty());
        restarts.saw("a-0", "y", 2);
        assert!(restarts.differences()[0].ends_with("4 times, announced were 1 to 3"));
    }

    #[test]
    fn one_that_was_announced_and_did_not_happen_is_told() {
        let restarts = Restarts::default();
        restarts.expect("a-1", exactly(1));
        assert!(restarts.differences()[0].ends_with("0 times, announced were 1"));
    }
}
