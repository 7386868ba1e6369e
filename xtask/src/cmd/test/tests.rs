// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is chosen, what is left out, and what the closing table says of it. Runs no test.
use super::*;

fn suite(name: &str, tests: u32, failed: u32) -> Suite {
    Suite { name: name.into(), tests, failed, seconds: 1.5 }
}

#[test]
fn tiers_are_told_apart_and_every_other_one_is_named() {
    let suites =
        [suite("etcd-wrapper", 3, 0), suite("xtask::bin/xtask", 2, 1), suite("etcd-wrapper::it", 4, 0)];
    let table = table(&rows(&suites, None, false, &[]));
    assert!(table.contains("unit         ran 5 tests, 1 NOT GOOD"), "{table}");
    assert!(table.contains("integration  ran 4 tests, all good"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("soak") && line.contains("not run: ")), "{table}");
}

#[test]
fn a_tier_that_did_not_run_says_why_and_how_to_run_it() {
    let found =
        rows(&[suite("etcd-wrapper", 1, 0)], Some(Tier::Unit), false, &["integration: go: not found".into()]);
    assert_eq!(found[1].outcome, "not run: go: not found");
    assert_eq!(found[1].command, "cargo xtask test integration");
    let found = rows(&[suite("etcd-wrapper", 1, 0)], Some(Tier::Unit), false, &[]);
    assert_eq!(found[1].outcome, "not run: not asked for");
}

#[test]
fn a_missing_etcd_3_4_is_a_line_of_its_own() {
    let found = rows(&[], None, false, &["etcd 3.4: no apt-get; its tests were not run".into()]);
    assert!(
        found.iter().any(|row| row.tier == "etcd 3.4" && row.command == "cargo xtask setup"),
        "{found:?}"
    );
}

#[test]
fn tests_of_a_missing_etcd_3_4_are_left_out_whatever_else_is_chosen() {
    let have = |names: &[&'static str]| names.iter().map(|name| (*name, PathBuf::new())).collect::<Vec<_>>();
    let misses = |names| left_out(Some(&have(names)), &mut Vec::new()).contains(&MODULE_34);
    assert!(misses(&["E2E_ETCD_35"]) && !misses(&["E2E_ETCD_35", "E2E_ETCD_34"]));
    assert_eq!(left_out(None, &mut Vec::new()), [""; 0]);
    assert_eq!(arguments(&["b2_".into()], &[MODULE_34]), ["b2_", "--", "--skip", "etcd_3_4::"]);
    let two = ["--", "x", "--skip", "etcd_3_4::", "--skip", DEAD_VOLUME];
    assert_eq!(arguments(&["--".into(), "x".into()], &[MODULE_34, DEAD_VOLUME]), two);
    assert_eq!(arguments(&["b2_".into()], &[]), ["b2_"]);
}

#[test]
fn what_a_machine_cannot_have_is_a_line_of_its_own() {
    let found = rows(&[], None, false, &["fuse: open /dev/fuse: no; x was not run".into()]);
    assert!(found.iter().any(|row| row.tier == "fuse" && row.outcome.starts_with("left out: ")), "{found:?}");
}

#[test]
fn the_profile_follows_the_flag_then_the_place() {
    assert_eq!([profile(true, true), profile(false, true), profile(false, false)], ["soak", "ci", "default"]);
}
