// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one way to wait in a scenario: for a value, with a deadline. Three answers, so that a wait ends at once when what
//! it waits for can no longer come, and says what was seen last when time runs out. Nothing is tried again here: a look
//! only looks.
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What one look told; the tests of one process wait with the same word.
pub use doubles::wait::Poll;

/// Pause between two looks: a look is a call to an API server that shares two cores with everything it is asked about.
const PAUSE: Duration = Duration::from_millis(250);
/// What one look may take, so that one that hangs does not use up the wait in silence.
const LOOK: Duration = Duration::from_secs(10);

const NOTHING: &str = "nothing";

/// Looks again and again until the answer is ready. A look that fails is "not yet" with its error: the API server may be
/// away for a while, and that alone ends no wait.
///
/// # Errors
/// `what` was not there within `limit`, with what was seen last; or can never be there, with the reason.
pub async fn until<T, L>(limit: Duration, what: &str, look: L) -> Result<T>
where
    L: AsyncFnMut() -> Result<Poll<T>>,
{
    until_every(PAUSE, limit, what, look).await
}

/// As [`until`], with another pause between two looks: for times that a scenario measures.
///
/// # Errors
/// As [`until`].
pub async fn until_every<T, L>(pause: Duration, limit: Duration, what: &str, mut look: L) -> Result<T>
where
    L: AsyncFnMut() -> Result<Poll<T>>,
{
    let begun = Instant::now();
    let mut seen = String::from(NOTHING);
    loop {
        let left = limit.saturating_sub(begun.elapsed()).min(LOOK).max(PAUSE);
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(Poll::Ready(value))) => return Ok(value),
            Ok(Ok(Poll::Never(why))) => {
                bail!("wait for {what}: it can never come, after {:.1?}: {why}", begun.elapsed())
            }
            Ok(Ok(Poll::NotYet(status))) => seen = status,
            Ok(Err(error)) => seen = format!("{error:#}"),
            // A look that is cut short by the end of the wait says less than the one before.
            Err(_) if left < LOOK && seen != NOTHING => {}
            Err(_) => seen = format!("no answer within {left:.1?}; before that: {seen}"),
        }
        if begun.elapsed() >= limit {
            bail!("wait for {what}: not within {limit:?}; last seen: {seen}");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Looks for as long as `span` lasts, and wants every look to be ready.
///
/// # Errors
/// The first look that was not, with when and what it saw. A look that fails or hangs counts as one that was not.
pub async fn throughout<L>(span: Duration, what: &str, mut look: L) -> Result<()>
where
    L: AsyncFnMut() -> Result<Poll<()>>,
{
    let begun = Instant::now();
    while begun.elapsed() < span {
        let seen = match tokio::time::timeout(LOOK, look()).await {
            Ok(Ok(Poll::Ready(()))) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Ok(Ok(Poll::NotYet(seen) | Poll::Never(seen))) => seen,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("no answer within {LOOK:?}"),
        };
        bail!("{what} for {span:?}: not so after {:.1?}: {seen}", begun.elapsed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[tokio::test]
    async fn a_value_that_comes_is_returned() {
        let mut looks = 0;
        let value = until(Duration::from_secs(5), "the third look", async || {
            looks += 1;
            Ok(Poll::from_option((looks == 3).then_some(looks), || format!("look {looks}")))
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    // Shows: K6
    #[tokio::test]
    async fn a_wait_that_runs_out_tells_the_last_status() {
        let mut looks = 0;
        let told = until::<(), _>(Duration::from_millis(600), "the moon", async || {
            looks += 1;
            Ok(Poll::NotYet(format!("look {looks}")))
        });
        let told = format!("{:#}", told.await.unwrap_err());
        assert_eq!(told, format!("wait for the moon: not within 600ms; last seen: look {looks}"));
        assert!(looks > 1);
    }

    #[tokio::test]
    async fn a_look_that_fails_or_hangs_ends_no_wait_and_is_told() {
        let told = until::<(), _>(Duration::from_millis(300), "it", async || Err(anyhow!("refused"))).await;
        assert!(format!("{:#}", told.unwrap_err()).ends_with("last seen: refused"));
        let told = until::<(), _>(Duration::from_millis(300), "it", async || std::future::pending().await);
        assert!(format!("{:#}", told.await.unwrap_err()).contains("no answer within"));
    }

    #[tokio::test]
    async fn what_never_comes_ends_the_wait_at_once() {
        let told = until::<(), _>(Duration::from_secs(60), "it", async || Ok(Poll::Never("it died".into())));
        let told = format!("{:#}", told.await.unwrap_err());
        assert!(told.contains("can never come") && told.ends_with("it died"), "{told}");
    }

    #[tokio::test]
    async fn one_look_that_is_not_so_breaks_a_span() {
        let mut looks = 0;
        let told = throughout(Duration::from_secs(60), "serves", async || {
            looks += 1;
            Ok(Poll::when(looks < 3, || format!("look {looks}")))
        });
        let told = format!("{:#}", told.await.unwrap_err());
        assert!(told.starts_with("serves for 60s: not so after") && told.ends_with("look 3"), "{told}");
        throughout(Duration::from_millis(300), "serves", async || Ok(Poll::Ready(()))).await.unwrap();
    }
}
