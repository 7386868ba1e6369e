// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What goes wrong in a scenario, on purpose: processes, network, node, volumes, objects. Every fault stands in the case's
//! timeline; one that lasts stands in a ledger too, until somebody heals it: the scenario, or the end of the case, which
//! heals all that is left before anything else. So no fault outlives its case, however the scenario ended.
mod network;
mod objects;
mod process;
mod volume;

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::case::Case;
use crate::engine::Engine;
use crate::timeline::{Timeline, What};

pub use process::Process;
pub use volume::Damage;
pub(crate) use volume::clean_volumes;

/// What can be done to a case's part of the world.
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a> {
    case: &'a Case,
}

/// A fault that stands. Dropping it heals nothing: an end of the case does.
#[must_use = "it stands until it is healed, or the case ends"]
#[derive(Debug)]
pub struct Fault {
    case: Case,
    number: u32,
}

/// How a fault is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heal {
    /// SIGCONT to these processes of the node.
    Continue { pids: Vec<u32> },
    /// Remove this chain from the network namespaces of these processes of the node.
    Reconnect { chain: String, pids: Vec<u32> },
    /// Let the node's container go on.
    Unpause,
    /// Take this small file system of the node away, which stands for a volume.
    Unmount { small: String },
    /// Remove this file of the node.
    Remove { path: String },
}

/// The faults of a case that stand.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    count: u32,
    standing: Vec<(u32, String, Heal)>,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(case: &'a Case) -> Self {
        Self { case }
    }

    fn engine(self) -> &'a Engine {
        &self.case.cluster().engine
    }

    /// Freezes the whole node: every pod of the cluster, and the cluster itself. For scenarios that run alone.
    ///
    /// # Errors
    /// The engine's refusal.
    pub async fn pause_node(self) -> Result<Fault> {
        let fault = self.began("node paused", &[self.engine().node_name()], Some(Heal::Unpause));
        self.engine().pause().await?;
        Ok(fault)
    }

    /// Writes a fault down, before it is done: one that half happened is healed too.
    fn began(self, name: &str, subjects: &[&str], heal: Option<Heal>) -> Fault {
        let number = self.case.ledger().add(name, heal);
        let subjects = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        self.case.timeline().add(What::FaultBegan { fault: number, name: name.to_owned(), subjects });
        Fault { case: self.case.clone(), number }
    }

    /// A fault that is over as soon as it is done.
    fn did(self, name: &str, subjects: &[&str]) {
        let _ = self.began(name, subjects, None);
    }
}

impl Fault {
    /// Undoes it.
    ///
    /// # Errors
    /// It cannot be undone; the end of the case tries again.
    pub async fn heal(self) -> Result<()> {
        self.case.ledger().heal(self.number, &self.case.cluster().engine, self.case.timeline()).await
    }
}

impl Ledger {
    fn add(&self, name: &str, heal: Option<Heal>) -> u32 {
        let mut book = self.lock();
        book.count += 1;
        let number = book.count;
        if let Some(heal) = heal {
            book.standing.push((number, name.to_owned(), heal));
        }
        number
    }

    async fn heal(&self, number: u32, engine: &Engine, timeline: &Timeline) -> Result<()> {
        let found = self.lock().standing.iter().find(|(other, ..)| *other == number).cloned();
        let Some((_, name, heal)) = found else { return Ok(()) };
        heal.apply(engine).await.with_context(|| format!("heal {name}"))?;
        self.lock().standing.retain(|(other, ..)| *other != number);
        timeline.add(What::FaultEnded { fault: number });
        Ok(())
    }

    /// Heals all that stand, the newest first. Returns what could not be.
    pub(crate) async fn heal_all(&self, engine: &Engine, timeline: &Timeline) -> Vec<String> {
        let mut numbers: Vec<u32> = self.lock().standing.iter().map(|(number, ..)| *number).collect();
        numbers.reverse();
        let mut failed = Vec::new();
        for number in numbers {
            if let Err(error) = self.heal(number, engine, timeline).await {
                failed.push(format!("{error:#}"));
            }
        }
        failed
    }

    /// The names of the faults that stand.
    pub(crate) fn standing(&self) -> Vec<String> {
        self.lock().standing.iter().map(|(_, name, _)| name.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heal {
    /// Undoes it; a process, pod or file that is gone needs nothing.
    async fn apply(&self, engine: &Engine) -> Result<()> {
        match self {
            Self::Continue { pids } => process::go_on(engine, pids).await,
            Self::Reconnect { chain, pids } => network::reconnect(engine, chain, pids).await,
            Self::Unpause if engine.node_state().await? != "paused" => Ok(()),
            Self::Unpause => engine.unpause().await,
            Self::Unmount { small } => volume::unshrink(engine, small).await,
            Self::Remove { path } => engine.node(r#"rm -f "$1""#, &[path]).await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;
    use crate::stage::tests::stage;

    /// `true` or `false` in the engine's place.
    fn engine(program: &str) -> Engine {
        Engine::new(&Stage { engine: program.into(), ..stage(&[]) })
    }

    fn file(path: &str) -> Option<Heal> {
        Some(Heal::Remove { path: path.into() })
    }

    #[tokio::test]
    async fn what_cannot_be_healed_goes_on_standing_and_is_told() {
        let (ledger, timeline) = (Ledger::default(), Timeline::default());
        ledger.add("full volume", file("a"));
        ledger.add("killed", None);
        assert_eq!(ledger.standing(), ["full volume"]);
        let failed = ledger.heal_all(&engine("false"), &timeline).await;
        assert!(failed[0].starts_with("heal full volume"), "{failed:?}");
        assert_eq!(ledger.standing(), ["full volume"]);
    }

    #[tokio::test]
    async fn all_are_healed_the_newest_first_and_each_once() {
        let (ledger, timeline) = (Ledger::default(), Timeline::default());
        let (first, second) = (ledger.add("one", file("a")), ledger.add("two", file("b")));
        assert!(ledger.heal_all(&engine("true"), &timeline).await.is_empty());
        ledger.heal(first, &engine("false"), &timeline).await.unwrap();
        let ended: Vec<What> = timeline.entries().into_iter().map(|entry| entry.what).collect();
        assert_eq!(ended, [What::FaultEnded { fault: second }, What::FaultEnded { fault: first }]);
    }
}
