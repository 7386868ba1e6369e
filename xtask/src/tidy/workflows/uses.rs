// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What workflows take from others: actions by a commit's full hash with the version beside it, our own by their path. A
//! tag can be moved to other code after we looked at it.

use super::super::Finding;
use super::super::tree::Tree;
use super::Workflow;

pub(super) fn check(workflow: &Workflow<'_>, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in workflow.text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches("- ").trim_start();
        let Some(rest) = line.strip_prefix("uses:") else { continue };
        let (action, comment) =
            rest.split_once('#').map_or((rest, ""), |(action, comment)| (action, comment));
        let action = action.trim().trim_matches(['"', '\'']);
        if let Some(wrong) = wrong(action, comment.trim(), tree) {
            findings.push(Finding::new(workflow.path, number + 1, format!("{action}: {wrong}")));
        }
    }
    findings
}

fn wrong(action: &str, comment: &str, tree: &Tree) -> Option<String> {
    if let Some(path) = action.strip_prefix("./") {
        let there = tree.holds(path) && (path.ends_with(".yml") || tree.holds(&format!("{path}/action.yml")));
        return (!there).then(|| "not in the clone".to_owned());
    }
    let Some((_, at)) = action.split_once('@') else {
        return Some("has no commit: write NAME@HASH # VERSION".into());
    };
    let hash =
        at.len() == 40 && at.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if !hash {
        return Some("pin it to the full hash of a commit, with the version in a comment".into());
    }
    let version =
        comment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (!version).then(|| "say which version this commit is: # v1.2.3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GOOD, spoilt, told};

    const PIN: &str = "actions/checkout@0123456789012345678901234567890123456789 # v1.2.3";

    #[test]
    fn an_action_is_pinned_by_its_commit_and_says_its_version() {
        for (to, what) in [
            ("actions/checkout@v1", "full hash"),
            ("actions/checkout@0123456789 # v1.2.3", "full hash"),
            ("actions/checkout", "has no commit"),
            ("actions/checkout@0123456789012345678901234567890123456789", "which version"),
            ("actions/checkout@0123456789012345678901234567890123456789 # latest", "which version"),
            ("docker://alpine:3", "has no commit"),
        ] {
            let told = spoilt(PIN, to);
            assert!(told.starts_with(".github/workflows/w.yml:11: ") && told.contains(what), "{told}");
        }
    }

    #[test]
    fn our_own_actions_are_there() {
        let text = GOOD.replace(PIN, "./.github/actions/setup");
        let workflow = (".github/workflows/w.yml", text.as_str());
        assert!(told(&[workflow])[0].contains("./.github/actions/setup: not in the clone"));
        let action = "runs:\n  using: composite\n  steps:\n    - run: cargo xtask setup\n      shell: bash\n";
        assert_eq!(told(&[workflow, (".github/actions/setup/action.yml", action)]), [""; 0]);
    }
}
