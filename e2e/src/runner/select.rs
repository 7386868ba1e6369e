// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What of a table is selected, and what of that can run here. Pure.
use super::args::{Args, Shard};
use crate::case::fnv;
use crate::scenario::{Need, Scenario};
use crate::stage::Stage;

/// What was selected, in the order of the table.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) can_run: Vec<&'a Scenario>,
    pub(super) cannot_run: Vec<(&'a Scenario, Vec<Need>)>,
}

pub(super) fn select<'a>(table: &'a [Scenario], args: &Args, stage: &Stage) -> Selection<'a> {
    let mut selection = Selection { can_run: Vec::new(), cannot_run: Vec::new() };
    for scenario in table.iter().filter(|scenario| is_selected(scenario, args)) {
        let missing = scenario.missing(stage);
        if missing.is_empty() {
            selection.can_run.push(scenario);
        } else {
            selection.cannot_run.push((scenario, missing));
        }
    }
    selection
}

fn is_selected(scenario: &Scenario, args: &Args) -> bool {
    // The short set is what the double can carry too, whichever sidecar is there.
    let smoke = !args.smoke || (scenario.smoke && !scenario.needs.contains(&Need::RealSidecar));
    let filter = args.filter.is_empty() || args.filter.iter().any(|text| scenario.name.contains(&**text));
    smoke
        && scenario.planted == args.planted
        && filter
        && args.shard.is_none_or(|shard| shard.has(scenario.name))
}

impl Shard {
    /// By the name's hash, so that a new scenario moves no other one to another part.
    fn has(self, name: &str) -> bool {
        fnv(name) % self.parts + 1 == self.part
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use clap::Parser;

    use super::*;
    use crate::case::Case;
    use crate::stage::tests::stage;
    use crate::stage::{Origin, Role};

    async fn one(_: &Case) -> Result<()> {
        Ok(())
    }

    async fn another(_: &Case) -> Result<()> {
        Ok(())
    }

    async fn third(_: &Case) -> Result<()> {
        Ok(())
    }

    async fn fourth(_: &Case) -> Result<()> {
        Ok(())
    }

    const TABLE: [Scenario; 4] = [
        crate::scenario!(one, "1").smoke(),
        crate::scenario!(another, "2").needs(&[Need::GoImage]),
        crate::scenario!(third, "3").smoke().needs(&[Need::RealSidecar]),
        crate::scenario!(fourth, "4").planted(),
    ];

    fn names(words: &[&str], from: Origin) -> (Vec<&'static str>, Vec<&'static str>) {
        let args = Args::parse_from(["e2e", "--stage", "s"].iter().chain(words));
        let selection = select(&TABLE, &args, &stage(&[(Role::Sidecar, from)]));
        (
            selection.can_run.iter().map(|scenario| scenario.name).collect(),
            selection.cannot_run.iter().map(|(scenario, _)| scenario.name).collect(),
        )
    }

    #[test]
    fn what_cannot_run_is_named() {
        assert_eq!(names(&[], Origin::Engine), (vec!["one", "third"], vec!["another"]));
        assert_eq!(names(&[], Origin::Double), (vec!["one"], vec!["another", "third"]));
    }

    #[test]
    fn the_smoke_is_the_same_with_either_sidecar() {
        assert_eq!(names(&["--smoke"], Origin::Engine), (vec!["one"], vec![]));
        assert_eq!(names(&["--smoke"], Origin::Double), (vec!["one"], vec![]));
    }

    #[test]
    fn what_is_made_to_fail_runs_only_by_its_flag() {
        assert_eq!(names(&["--planted"], Origin::Engine), (vec!["fourth"], vec![]));
    }

    #[test]
    fn any_of_the_filters_selects() {
        assert_eq!(names(&["--filter", "ne"], Origin::Engine), (vec!["one"], vec![]));
        assert_eq!(
            names(&["--filter", "thi", "--filter", "other"], Origin::Engine),
            (vec!["third"], vec!["another"])
        );
        assert_eq!(names(&["--filter", "x"], Origin::Engine), (vec![], vec![]));
    }

    #[test]
    fn every_scenario_is_in_exactly_one_part() {
        for name in ["one", "another", "third", "i9_each_pod_killed_in_turn"] {
            let parts = (1..=3).filter(|part| Shard { part: *part, parts: 3 }.has(name));
            assert_eq!(parts.count(), 1, "{name}");
        }
    }
}
