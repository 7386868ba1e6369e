// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Counts per test binary, out of the JUnit file that nextest writes. Reads what nextest writes, no other XML.

use std::path::Path;

use anyhow::{Context, Result};

/// The tests of one binary.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Suite {
    /// As nextest names it: `package`, `package::bin/name` or `package::test`.
    pub(crate) name: String,
    pub(crate) tests: u32,
    /// Failures and errors (a test that timed out or left something behind).
    pub(crate) failed: u32,
    /// The sum of the tests' own times, in seconds; they run side by side.
    pub(crate) seconds: f64,
}

/// The suites of the report at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<Suite>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(suites(&text))
}

fn suites(text: &str) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    for tag in text.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let number = |name: &str| attribute(tag, name).and_then(|value| value.parse().ok()).unwrap_or(0);
        if tag.starts_with("testsuite ") {
            suites.push(Suite {
                name: attribute(tag, "name").unwrap_or_default().to_owned(),
                tests: number("tests"),
                failed: number("failures") + number("errors"),
                seconds: 0.0,
            });
        } else if tag.starts_with("testcase ")
            && let Some(suite) = suites.last_mut()
        {
            suite.seconds += attribute(tag, "time").and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0);
        }
    }
    suites
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_counts_and_time_of_every_binary() {
        let report = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" uuid="x" timestamp="t" time="4.0">
    <testsuite name="etcd-wrapper" tests="2" disabled="0" errors="0" failures="0">
        <testcase name="a::b" classname="etcd-wrapper" timestamp="t" time="0.500">
        </testcase>
        <testcase name="a::c" classname="etcd-wrapper" timestamp="t" time="0.250"/>
    </testsuite>
    <testsuite name="etcd-wrapper::it" tests="1" disabled="0" errors="1" failures="0">
        <testcase name="a&lt;b" classname="etcd-wrapper::it" timestamp="t" time="2.000">
            <failure type="test failure">text="x" time="9"</failure>
        </testcase>
    </testsuite>
</testsuites>"#;
        let suites = suites(report);
        assert_eq!(suites.len(), 2);
        assert_eq!(suites[0], Suite { name: "etcd-wrapper".into(), tests: 2, failed: 0, seconds: 0.75 });
        assert_eq!(suites[1], Suite { name: "etcd-wrapper::it".into(), tests: 1, failed: 1, seconds: 2.0 });
    }
}
