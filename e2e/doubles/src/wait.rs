// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Waiting for a value with a deadline: the only place where tests sleep. Three answers, so that a test stops
//! at once when what it waits for can no longer come, and says what it saw last when time runs out.
use std::panic::Location;
use std::time::{Duration, Instant};

/// Pause between two looks: short against everything the tests measure, long enough to leave a busy machine alone.
const PAUSE: Duration = Duration::from_millis(5);

/// What one look at the world told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll<T> {
    /// It is there.
    Ready(T),
    /// Not there; the text says how things stand.
    NotYet(String),
    /// It cannot come any more; the text says why.
    Never(String),
}

impl<T> Poll<T> {
    /// Ready with the value, or not yet with `status`.
    pub fn from_option(value: Option<T>, status: impl FnOnce() -> String) -> Self {
        value.map_or_else(|| Self::NotYet(status()), Self::Ready)
    }
}

impl Poll<()> {
    /// Ready once `condition` holds, or not yet with `status`.
    pub fn when(condition: bool, status: impl FnOnce() -> String) -> Self {
        Self::from_option(condition.then_some(()), status)
    }
}

/// Looks again and again until the answer is ready; panics, at the caller's place, when it never will be or
/// when `limit` is over, with `what` was waited for and the status last seen. Looks at least once.
#[track_caller]
pub fn until<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Poll<T>) -> T {
    match try_until(limit, &mut look) {
        Ok(value) => value,
        Err(why) => panic!("{}: waiting for {what}: {why}", Location::caller()),
    }
}

/// As [`until`], with the failure as a value: for programs, and for tests that expect it.
///
/// # Errors
/// The last status with the time waited, or the reason why it can never come.
pub fn try_until<T>(limit: Duration, mut look: impl FnMut() -> Poll<T>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        match look() {
            Poll::Ready(value) => return Ok(value),
            Poll::Never(why) => return Err(format!("it can never come: {why}")),
            Poll::NotYet(status) if begun.elapsed() >= limit => {
                return Err(format!("not within {limit:?}; last seen: {status}"));
            }
            Poll::NotYet(_) => pause(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one sleep of the tests, between two looks at a value")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_comes_is_returned() {
        let mut looks = 0;
        let value = until(Duration::from_secs(5), "the third look", || {
            looks += 1;
            Poll::from_option((looks == 3).then_some(looks), || format!("look {looks}"))
        });
        assert_eq!(value, 3);
    }

    #[test]
    fn a_wait_that_runs_out_tells_the_last_status() {
        let mut looks = 0;
        let told = try_until::<()>(Duration::from_millis(20), || {
            looks += 1;
            Poll::NotYet(format!("look {looks}"))
        });
        assert_eq!(told, Err(format!("not within 20ms; last seen: look {looks}")));
        assert!(looks > 1);
    }

    #[test]
    fn what_never_comes_ends_the_wait_at_once() {
        let begun = Instant::now();
        let told = try_until::<()>(Duration::from_secs(60), || Poll::Never("it has died".into()));
        assert_eq!(told, Err("it can never come: it has died".into()));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    #[should_panic(expected = "waiting for the moon: not within 0ns; last seen: clouds")]
    fn until_panics_with_what_it_waited_for() {
        until::<()>(Duration::ZERO, "the moon", || Poll::NotYet("clouds".into()));
    }
}
