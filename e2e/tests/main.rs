// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenarios, as one program that `cargo xtask e2e` starts. A file is a group of them, with a table at its head.
mod agent;
mod change;
mod examples;
mod first;
mod growth;
mod neighbours;
mod network;
mod planted;
mod processes;
mod started;
mod tls;
mod volumes;

use std::process::ExitCode;

use e2e::scenario::Scenario;

fn main() -> ExitCode {
    e2e::runner::main(table().leak())
}

fn table() -> Vec<Scenario> {
    let groups = [
        first::SCENARIOS,
        growth::SCENARIOS,
        agent::SCENARIOS,
        change::SCENARIOS,
        examples::SCENARIOS,
        neighbours::SCENARIOS,
        network::SCENARIOS,
        planted::SCENARIOS,
        processes::SCENARIOS,
        tls::SCENARIOS,
        volumes::SCENARIOS,
    ];
    groups.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k8_damaged_and_deleted_data_are_among_the_default_scenarios() {
        let table = table();
        for word in ["deleted", "zeroed", "half_written", "volume_is_lost"] {
            let has = |scenario: &&Scenario| scenario.name.contains("i8_") && scenario.name.contains(word);
            let found = table.iter().find(has).unwrap_or_else(|| panic!("no scenario of {word} data"));
            assert!(!found.planted && found.needs.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn every_scenario_has_a_name_of_its_own() {
        let mut names: Vec<_> = table().iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
