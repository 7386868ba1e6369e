// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What goes wrong in a run of the container tier, and when: drawn from a seed and from nothing else, so that the same
//! seed draws the same again. No two faults of a step hit one member, and none takes data from more than one: a quorum's
//! data is never at stake. Carries nothing out.
use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Members of the cluster.
pub const MEMBERS: usize = 3;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// etcd gets SIGKILL.
    KillEtcd,
    /// The wrapper gets SIGKILL.
    KillWrapper,
    /// The sidecar gets SIGKILL.
    KillSidecar,
    /// etcd gets SIGSTOP, and SIGCONT after a while.
    FreezeEtcd,
    /// The wrapper gets SIGSTOP, and SIGCONT after a while.
    FreezeWrapper,
    /// The wrapper's container is stopped, with a grace period.
    StopContainer,
    /// All containers of the pod are killed at once.
    KillPod,
    /// The wrapper's container is made anew from another image, on the old volume.
    NewImage,
    /// Both ways, from both others.
    Isolate,
    /// What this member says does not arrive; what the others say does.
    Mute,
    /// What the others say does not arrive at this member.
    Deafen,
    /// Every packet between peers is late.
    SlowNetwork,
    /// The volume of one member has no room left for a while.
    FullVolume,
    /// All certificates are made anew, in place.
    RotateCertificates,
    /// Several agents stop, start, restart and move leadership at the same time.
    RacingAgents,
    /// The data of one member is deleted.
    LoseData,
    /// The database of one member is damaged.
    DamageData,
    /// All members lose power at once: what was not synced to the disk is gone.
    PowerLoss,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// From 0. Where a fault hits all members it says nothing.
    pub member: usize,
    /// How long it lasts, for those that last.
    pub span: Duration,
    /// Of what a fault draws itself.
    pub seed: u64,
}

/// What goes wrong at the same time. The next step begins when all is well again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// From 1.
    pub number: usize,
    /// Each on another member.
    pub faults: Vec<Fault>,
    /// The quiet before it.
    pub rest: Duration,
}

/// All steps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What they were drawn from.
    pub seed: u64,
    /// In the order in which they come.
    pub steps: Vec<Step>,
}

impl Kind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 18] = [
        Self::KillEtcd,
        Self::KillWrapper,
        Self::KillSidecar,
        Self::FreezeEtcd,
        Self::FreezeWrapper,
        Self::StopContainer,
        Self::KillPod,
        Self::NewImage,
        Self::Isolate,
        Self::Mute,
        Self::Deafen,
        Self::SlowNetwork,
        Self::FullVolume,
        Self::RotateCertificates,
        Self::RacingAgents,
        Self::LoseData,
        Self::DamageData,
        Self::PowerLoss,
    ];

    /// As it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillEtcd => "kill-etcd",
            Self::KillWrapper => "kill-wrapper",
            Self::KillSidecar => "kill-sidecar",
            Self::FreezeEtcd => "freeze-etcd",
            Self::FreezeWrapper => "freeze-wrapper",
            Self::StopContainer => "stop-container",
            Self::KillPod => "kill-pod",
            Self::NewImage => "new-image",
            Self::Isolate => "isolate",
            Self::Mute => "mute",
            Self::Deafen => "deafen",
            Self::SlowNetwork => "slow-network",
            Self::FullVolume => "full-volume",
            Self::RotateCertificates => "rotate-certificates",
            Self::RacingAgents => "racing-agents",
            Self::LoseData => "lose-data",
            Self::DamageData => "damage-data",
            Self::PowerLoss => "power-loss",
        }
    }

    /// Hits all members alike.
    pub fn is_of_all(self) -> bool {
        matches!(self, Self::SlowNetwork | Self::RotateCertificates | Self::RacingAgents | Self::PowerLoss)
    }

    /// May go along with another one on another member.
    fn is_sociable(self) -> bool {
        matches!(
            self,
            Self::KillEtcd
                | Self::KillWrapper
                | Self::KillSidecar
                | Self::FreezeEtcd
                | Self::FreezeWrapper
                | Self::StopContainer
                | Self::KillPod
                | Self::Isolate
                | Self::Mute
                | Self::Deafen
        )
    }

    /// How long it lasts at least and at most, in seconds.
    fn span(self) -> (u64, u64) {
        match self {
            Self::FreezeEtcd | Self::FreezeWrapper => (2, 14),
            // Longer than a wrapper may rest on an old read and than reads that hang: one that lies is seen.
            Self::Isolate => (24, 30),
            Self::Mute | Self::Deafen => (3, 12),
            Self::SlowNetwork => (5, 10),
            Self::FullVolume => (4, 8),
            Self::RacingAgents => (4, 6),
            Self::StopContainer => (0, 3),
            _ => (0, 0),
        }
    }

    /// What a step with it takes until all is well again, roughly, on two busy cores.
    fn cost(self) -> Duration {
        let (least, most) = self.span();
        let mending = match self {
            Self::KillSidecar | Self::SlowNetwork | Self::RotateCertificates => 1,
            Self::RacingAgents | Self::PowerLoss | Self::LoseData | Self::DamageData => 9,
            _ => 4,
        };
        Duration::from_secs(u64::midpoint(least, most) + mending)
    }
}

impl Schedule {
    /// Draws steps out of `kinds` until they take some `length`: every kind once before any comes again.
    pub fn draw(seed: u64, kinds: &[Kind], length: Duration) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut bag: Vec<Kind> = Vec::new();
        let mut steps = Vec::new();
        let mut taken = Duration::ZERO;
        while taken < length && !kinds.is_empty() {
            if bag.is_empty() {
                bag = kinds.to_vec();
                bag.shuffle(&mut random);
            }
            let Some(kind) = bag.pop() else { break };
            let first = fault(&mut random, kind, None);
            let mut faults = vec![first.clone()];
            // Drawn in any case, so that what is left out of `kinds` changes as little as it can.
            let (company, place) = (random.random_bool(0.4), random.random_range(0..1_000_usize));
            if company && kind.is_sociable() {
                let others: Vec<usize> = (0..bag.len()).filter(|place| bag[*place].is_sociable()).collect();
                if !others.is_empty() {
                    let other = bag.remove(others[place % others.len()]);
                    faults.push(fault(&mut random, other, Some(first.member)));
                }
            }
            let rest = Duration::from_millis(random.random_range(500..2_500));
            let longest = faults.iter().map(|fault| fault.kind.cost()).max().unwrap_or_default();
            taken += rest + longest;
            steps.push(Step { number: steps.len() + 1, faults, rest });
        }
        Self { seed, steps }
    }

    /// The kinds that come up.
    pub fn kinds(&self) -> std::collections::BTreeSet<Kind> {
        self.steps.iter().flat_map(|step| &step.faults).map(|fault| fault.kind).collect()
    }
}

fn fault(random: &mut StdRng, kind: Kind, taken: Option<usize>) -> Fault {
    let member = match taken {
        None => random.random_range(0..MEMBERS),
        Some(taken) => (taken + random.random_range(1..MEMBERS)) % MEMBERS,
    };
    let (least, most) = kind.span();
    let span = Duration::from_millis(random.random_range(least * 1000..=most * 1000));
    Fault { kind, member, span, seed: random.random() }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("no fault {text:?}; there are: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.kind)?;
        if !self.kind.is_of_all() {
            write!(out, " etcd-{}", self.member)?;
        }
        if self.kind.span().1 > 0 {
            write!(out, " for {:.1} s", self.span.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        write!(out, "{}. {}", self.number, faults.join(" + "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_seed_draws_the_same_again_and_another_something_else() {
        let drawn = |seed| Schedule::draw(seed, &Kind::ALL, LONG);
        assert_eq!(drawn(5), drawn(5));
        assert_ne!(drawn(5).steps, drawn(6).steps);
        // A longer run begins as a shorter one.
        let short = Schedule::draw(5, &Kind::ALL, LONG / 4);
        assert_eq!(drawn(5).steps[..short.steps.len()], short.steps);
    }

    #[test]
    fn every_kind_comes_before_any_comes_again() {
        for seed in 0..50 {
            let schedule = Schedule::draw(seed, &Kind::ALL, LONG);
            let kinds: Vec<Kind> =
                schedule.steps.iter().flat_map(|step| &step.faults).map(|fault| fault.kind).collect();
            let first: BTreeSet<Kind> = kinds[..Kind::ALL.len()].iter().copied().collect();
            assert_eq!(first.len(), Kind::ALL.len(), "{seed}: {kinds:?}");
        }
    }

    #[test]
    fn no_two_faults_of_a_step_hit_one_member_and_data_is_taken_from_one_at_most() {
        let mut pairs = 0;
        for seed in 0..200 {
            for step in Schedule::draw(seed, &Kind::ALL, LONG).steps {
                let members: BTreeSet<usize> = step.faults.iter().map(|fault| fault.member).collect();
                assert_eq!(members.len(), step.faults.len(), "{step}");
                assert!(members.iter().all(|member| *member < MEMBERS));
                let takes = |fault: &Fault| matches!(fault.kind, Kind::LoseData | Kind::DamageData);
                assert!(!step.faults.iter().any(takes) || step.faults.len() == 1, "{step}");
                pairs += usize::from(step.faults.len() == 2);
            }
        }
        assert!(pairs > 100, "{pairs}");
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("kill".parse::<Kind>().is_err());
    }

    #[test]
    fn only_what_was_asked_for_is_drawn() {
        let kinds = [Kind::KillEtcd, Kind::Isolate];
        let schedule = Schedule::draw(1, &kinds, LONG);
        assert_eq!(schedule.kinds(), BTreeSet::from(kinds));
        assert!(Schedule::draw(1, &[], LONG).steps.is_empty());
    }
}
