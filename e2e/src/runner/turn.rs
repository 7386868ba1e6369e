// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One scenario's turn: a case, the scenario on a thread of its own within its time, the evidence, the verdict, the way back.
//! An error, a panic, a hang, a signal: each ends the turn with the namespace removed and every fault healed.
use std::any::Any;
use std::cell::RefCell;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};

use super::{Keep, show, until_stopped};
use crate::case::Case;
use crate::cluster::Cluster;
use crate::namespace::{self, Claim};
use crate::outcome::{Outcome, Verdict};
use crate::scenario::Scenario;
use crate::timeline::now;
use crate::wait::{self, Poll};

/// How often a scenario that runs is told of.
const TOLD: Duration = Duration::from_secs(30);
/// How much longer than its time a thread may take that was told to end.
const SPARE: Duration = Duration::from_secs(5);
/// For the namespace and what belongs to it.
const BEGIN: Duration = Duration::from_secs(90);
/// For the last look at a case that passed.
const JUDGE: Duration = Duration::from_secs(60);
/// For everything that has to go.
const CLEAN: Duration = Duration::from_secs(300);
/// How long to wait for others on the same cluster to let this one be alone, or for one that is alone.
const OTHERS: Duration = Duration::from_secs(30 * 60);

pub(super) struct Turn {
    pub(super) scenario: Scenario,
    /// From 1.
    pub(super) place: usize,
    pub(super) total: usize,
    pub(super) cluster: Cluster,
    pub(super) claim: Arc<Claim>,
    pub(super) keep: Keep,
    pub(super) stopped: watch::Receiver<bool>,
}

/// How the scenario itself ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed(String),
    Hung,
    Interrupted,
}

impl Turn {
    pub(super) async fn take(self) -> Outcome {
        let (started, begun) = (now(), Instant::now());
        let case = match Case::new(&self.cluster, self.scenario.name, self.cluster.stage.seed) {
            Ok(case) => case,
            Err(error) => return self.outcome(None, Verdict::Failed, Some(format!("{error:#}")), started),
        };
        if *self.stopped.borrow() {
            return self.outcome(None, Verdict::Interrupted, None, started);
        }
        let place = self.place(&case).await;
        let _place = match place {
            Ok(Some(place)) => place,
            Ok(None) => return self.outcome(None, Verdict::Interrupted, None, started),
            Err(error) => return self.outcome(None, Verdict::Failed, Some(format!("{error:#}")), started),
        };
        show::line(&format!(
            "[{}/{}] {} in {}",
            self.place,
            self.total,
            self.scenario.name,
            case.namespace()
        ));
        let ended = match within(BEGIN, case.begin(&self.claim)).await {
            Ok(observer) => {
                let ended = self.run(&case).await;
                let ended = self.judge(&case, ended).await;
                // The scene is collected while the logs are still copied.
                let told = self.tell(&case, &ended).await;
                drop(observer);
                told
            }
            Err(error) => (Verdict::Failed, Some(format!("begin: {error:#}"))),
        };
        let (mut verdict, mut reason) = ended;
        if let Err(error) = within(CLEAN, self.clean(&case, verdict)).await {
            // A case that leaves something behind has not passed: the next one would stand on it.
            if verdict == Verdict::Passed {
                verdict = Verdict::Failed;
            }
            reason = Some(format!("{}clean up: {error:#}", reason.map_or_else(String::new, |it| it + "\n")));
        }
        show::ended(self.place, self.total, self.scenario.name, verdict, begun.elapsed());
        if let Some(reason) = &reason {
            show::indented(reason);
        }
        self.outcome(Some(&case), verdict, reason, started)
    }

    /// Runs it, and tells of it now and then.
    async fn run(&self, case: &Case) -> Ended {
        let begun = Instant::now();
        let mut ended = Box::pin(on_a_thread(self.scenario, case.clone(), self.stopped.clone()));
        loop {
            match tokio::time::timeout(TOLD, &mut ended).await {
                Ok(ended) => return ended,
                Err(_) => show::line(&format!(
                    "[{}/{}] {:.0} s: {}",
                    self.place,
                    self.total,
                    begun.elapsed().as_secs_f64(),
                    case.last_step().unwrap_or_else(|| "no step yet".into())
                )),
            }
        }
    }

    /// What the scenario does not look at itself.
    async fn judge(&self, case: &Case, ended: Ended) -> Ended {
        if ended != Ended::Passed {
            return ended;
        }
        let left = case.heal_all().await;
        if !left.is_empty() {
            return Ended::Failed(format!("faults cannot be healed: {}", left.join("; ")));
        }
        match within(JUDGE, case.unannounced_restarts()).await {
            Ok(differences) if differences.is_empty() => Ended::Passed,
            Ok(differences) => Ended::Failed(differences.join("; ")),
            Err(error) => Ended::Failed(format!("count restarts: {error:#}")),
        }
    }

    async fn tell(&self, case: &Case, ended: &Ended) -> (Verdict, Option<String>) {
        let (verdict, reason) = match ended {
            Ended::Passed => return (Verdict::Passed, None),
            Ended::Interrupted => return (Verdict::Interrupted, None),
            Ended::Failed(reason) => (Verdict::Failed, reason.clone()),
            Ended::Hung => {
                let step = case.last_step().unwrap_or_else(|| "its beginning".into());
                (Verdict::Hung, format!("no end within {:?}; last step: {step}", self.scenario.within))
            }
        };
        tokio::select! {
            digest = case.scene() => (verdict, Some(format!("{reason}\n{digest}"))),
            () = until_stopped(self.stopped.clone()) => (verdict, Some(reason)),
        }
    }

    async fn clean(&self, case: &Case, verdict: Verdict) -> Result<()> {
        let left = case.heal_all().await;
        if !left.is_empty() {
            anyhow::bail!("faults cannot be healed: {}", left.join("; "));
        }
        // Who interrupts wants a clean machine, whatever was to be kept before.
        if self.keep.keeps(verdict) && !*self.stopped.borrow() {
            let remove = namespace::keep(case.client(), case.namespace()).await?;
            show::line(&format!("namespace {} is kept; to remove it: {remove}", case.namespace()));
            return Ok(());
        }
        tokio::select! {
            removed = case.remove() => removed,
            () = until_stopped(self.stopped.clone()) => case.begin_remove().await,
        }
    }

    /// A place on the cluster, beside others or alone; None when a signal came meanwhile. Other runs count: the lock is a
    /// file of this machine, as the cluster is.
    async fn place(&self, case: &Case) -> Result<Option<File>> {
        let path: PathBuf =
            std::env::temp_dir().join(format!("etcd-wrapper-e2e-{}.lock", self.cluster.stage.cluster));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.with_context(|| format!("open {}", path.display()))?;
        let alone = self.scenario.alone;
        let got = wait::until(OTHERS, "others on this cluster", async || {
            let got = if alone { file.try_lock() } else { file.try_lock_shared() };
            match got {
                Ok(()) => Ok(Poll::Ready(())),
                Err(std::fs::TryLockError::WouldBlock) => {
                    Ok(Poll::NotYet(format!("{} is locked", path.display())))
                }
                Err(std::fs::TryLockError::Error(error)) => Err(error).context("lock the cluster"),
            }
        });
        case.step("waits for its place on the cluster");
        tokio::select! {
            got = got => got?,
            () = until_stopped(self.stopped.clone()) => return Ok(None),
        }
        Ok(Some(file))
    }

    fn outcome(
        &self,
        case: Option<&Case>,
        verdict: Verdict,
        reason: Option<String>,
        started: u64,
    ) -> Outcome {
        Outcome {
            name: self.scenario.name.to_owned(),
            about: self.scenario.about.to_owned(),
            verdict,
            reason,
            started,
            took: now().saturating_sub(started),
            namespace: case.map(|case| case.namespace().to_owned()).unwrap_or_default(),
            evidence: case.map(|_| PathBuf::from(self.scenario.name)),
            timeline: case.map(|case| case.timeline().entries()).unwrap_or_default(),
            measured: case.map(Case::measured).unwrap_or_default(),
        }
    }
}

async fn within<T>(limit: Duration, what: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(limit, what).await {
        Ok(result) => result,
        Err(_) => anyhow::bail!("no end within {limit:?}"),
    }
}

/// The scenario has a thread: its future need not be one that moves between threads, and when it blocks, only it does.
async fn on_a_thread(scenario: Scenario, case: Case, stopped: watch::Receiver<bool>) -> Ended {
    let runtime = tokio::runtime::Handle::current();
    let (sender, receiver) = oneshot::channel();
    let body = move || {
        PANIC.set(Some(None));
        let ended = runtime.block_on(async {
            let run = AssertUnwindSafe((scenario.run)(&case)).catch_unwind();
            tokio::select! {
                ended = tokio::time::timeout(scenario.within, run) => match ended {
                    Ok(Ok(Ok(()))) => Ended::Passed,
                    Ok(Ok(Err(error))) => Ended::Failed(format!("{error:#}")),
                    Ok(Err(panic)) => Ended::Failed(panicked(&*panic)),
                    Err(_) => Ended::Hung,
                },
                () = until_stopped(stopped) => Ended::Interrupted,
            }
        });
        // Nobody waits any more: it was taken for hung.
        let _ = sender.send(ended);
    };
    let thread = std::thread::Builder::new().name(scenario.name.chars().take(15).collect()).spawn(body);
    if let Err(error) = thread {
        return Ended::Failed(format!("start a thread: {error}"));
    }
    match tokio::time::timeout(scenario.within + SPARE, receiver).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => Ended::Failed("the scenario's thread died".into()),
        Err(_) => Ended::Hung,
    }
}

thread_local! {
    /// The last panic of a scenario's thread; on other threads there is no place for one.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Keeps message and place of a scenario's panic, which its payload lacks, and prints other panics as ever.
pub(super) fn remember_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANIC.with_borrow_mut(|last| match last {
            Some(last) => *last = Some(panic.to_string()),
            None => before(panic),
        });
    }));
}

fn panicked(payload: &(dyn Any + Send)) -> String {
    let message = payload.downcast_ref::<String>().cloned();
    let message = message.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    PANIC.take().flatten().or(message).unwrap_or_else(|| "a panic without a message".into())
}

#[cfg(test)]
mod tests {
    use kube::Client;

    use super::*;
    use crate::engine::Engine;
    use crate::scenario;
    use crate::stage::Stage;
    use crate::stage::tests::stage;

    async fn passes(_: &Case) -> Result<()> {
        Ok(())
    }

    async fn fails(_: &Case) -> Result<()> {
        Err(anyhow::anyhow!("inner")).context("outer")
    }

    async fn panics(case: &Case) -> Result<()> {
        assert_eq!(case.name(), "another", "on purpose");
        Ok(())
    }

    async fn hangs(_: &Case) -> Result<()> {
        std::future::pending().await
    }

    #[expect(clippy::disallowed_methods, reason = "a scenario that blocks is what is looked at")]
    async fn blocks(_: &Case) -> Result<()> {
        std::thread::sleep(Duration::from_secs(60));
        Ok(())
    }

    async fn ended(scenario: Scenario, stopped: bool) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage { report: folder.path().into(), ..stage(&[]) };
        let config = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let cluster = Cluster {
            client: Client::try_from(config).unwrap(),
            engine: Engine::new(&stage),
            stage: Arc::new(stage),
        };
        let case = Case::new(&cluster, scenario.name, 1).unwrap();
        let (_sender, stopped) = watch::channel(stopped);
        on_a_thread(scenario, case, stopped).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_scenario_ends_by_an_error_a_panic_or_its_time() {
        let second = Duration::from_secs(1);
        assert_eq!(ended(scenario!(passes, ""), false).await, Ended::Passed);
        assert_eq!(ended(scenario!(fails, ""), false).await, Ended::Failed("outer: inner".into()));
        assert_eq!(ended(scenario!(hangs, "").within(second), false).await, Ended::Hung);
        assert_eq!(ended(scenario!(hangs, ""), true).await, Ended::Interrupted);
        remember_panics();
        let Ended::Failed(told) = ended(scenario!(panics, ""), false).await else { panic!("no failure") };
        assert!(told.contains("on purpose") && told.contains("turn.rs"), "{told}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_that_blocks_its_thread_holds_up_nobody() {
        let begun = Instant::now();
        let within = Duration::from_millis(100);
        assert_eq!(ended(scenario!(blocks, "").within(within), false).await, Ended::Hung);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
