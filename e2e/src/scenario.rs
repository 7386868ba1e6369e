// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A scenario as a row of a table: its name, what it is about, what it needs, how long it may take, and the function. Which
//! of a table can run on a stage is judged here; running is `runner`'s.
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::LocalBoxFuture;

use crate::case::Case;
use crate::stage::{Role, Stage};

/// What a scenario does: it gets a case of its own, and fails by an error or a panic.
pub type Run = for<'a> fn(&'a Case) -> LocalBoxFuture<'a, Result<()>>;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// A sentence about behaviour, with the requirement's id in front where there is one.
    pub name: &'static str,
    /// One line for people: what would be broken for whom.
    pub about: &'static str,
    /// Beyond our image, a sidecar and etcd-druid.
    pub needs: &'static [Need],
    /// Part of the short set that shows that anything works at all.
    pub smoke: bool,
    /// It does things to the node that every other scenario would feel: nothing else runs on the cluster meanwhile.
    pub alone: bool,
    /// It is made to go wrong, to show that the program notices: run only by `--planted`.
    pub planted: bool,
    /// The whole of it, set-up included; afterwards it counts as hung.
    pub within: Duration,
    /// The scenario itself.
    pub run: Run,
}

/// What a scenario needs beyond our image, a sidecar and etcd-druid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The real sidecar: it restores from a store, or its own calls are what is looked at.
    RealSidecar,
    /// The double: the scenario tells it to misbehave.
    Double,
    /// The Go image.
    GoImage,
    /// Our image with etcd 3.4.
    Etcd34,
    /// Our image with etcd 3.6.
    Etcd36,
}

/// A row with default limits: no needs, not in the smoke, five minutes. `scenario!(function, "about")`.
#[macro_export]
macro_rules! scenario {
    ($function:ident, $about:expr) => {
        $crate::scenario::Scenario::new(stringify!($function), $about, |case| Box::pin($function(case)))
    };
}

impl Scenario {
    /// See [`scenario!`](crate::scenario!).
    pub const fn new(name: &'static str, about: &'static str, run: Run) -> Self {
        Self {
            name,
            about,
            needs: &[],
            smoke: false,
            alone: false,
            planted: false,
            within: Duration::from_secs(300),
            run,
        }
    }

    /// It cannot run without these.
    #[must_use]
    pub const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// It is in the short set.
    #[must_use]
    pub const fn smoke(self) -> Self {
        Self { smoke: true, ..self }
    }

    /// Nothing else runs meanwhile.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// It must fail.
    #[must_use]
    pub const fn planted(self) -> Self {
        Self { planted: true, ..self }
    }

    /// Set-up included.
    #[must_use]
    pub const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// What of its needs is not on this stage; empty when it can run.
    pub fn missing(&self, stage: &Stage) -> Vec<Need> {
        self.needs.iter().copied().filter(|need| !need.met(stage)).collect()
    }
}

impl Need {
    fn met(self, stage: &Stage) -> bool {
        match self {
            Self::RealSidecar => stage.image(Role::Sidecar).is_some() && !stage.has_double(),
            Self::Double => stage.image(Role::SidecarDouble).is_some(),
            Self::GoImage => stage.image(Role::GoWrapper).is_some(),
            Self::Etcd34 => stage.image(Role::Wrapper34).is_some(),
            Self::Etcd36 => stage.image(Role::Wrapper36).is_some(),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::RealSidecar => "the real sidecar (an image under its public name in the engine)",
            Self::Double => "the double of the sidecar",
            Self::GoImage => "the Go image (give its name)",
            Self::Etcd34 => "our image with etcd 3.4",
            Self::Etcd36 => "our image with etcd 3.6",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Origin;
    use crate::stage::tests::stage;

    async fn something_comes_back(_: &Case) -> Result<()> {
        Ok(())
    }

    #[test]
    fn a_row_is_named_after_its_function() {
        let row = crate::scenario!(something_comes_back, "why").smoke().within(Duration::from_secs(9));
        assert_eq!((row.name, row.smoke, row.within.as_secs()), ("something_comes_back", true, 9));
    }

    #[test]
    fn needs_are_held_against_the_stage() {
        let row = |needs| crate::scenario!(something_comes_back, "why").needs(needs);
        let real = stage(&[(Role::Sidecar, Origin::Engine), (Role::GoWrapper, Origin::Engine)]);
        let double = stage(&[(Role::SidecarDouble, Origin::Double), (Role::Wrapper36, Origin::Built)]);
        assert_eq!(row(&[Need::RealSidecar, Need::GoImage]).missing(&real), []);
        assert_eq!(
            row(&[Need::RealSidecar, Need::GoImage]).missing(&double),
            [Need::RealSidecar, Need::GoImage]
        );
        assert_eq!(row(&[Need::Double, Need::Etcd36]).missing(&double), []);
        assert_eq!(row(&[Need::Double, Need::Etcd34]).missing(&real), [Need::Double, Need::Etcd34]);
        assert_eq!(row(&[Need::RealSidecar]).missing(&stage(&[])), [Need::RealSidecar]);
    }
}
