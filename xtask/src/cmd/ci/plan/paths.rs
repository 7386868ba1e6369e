// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a changed path needs to be looked at by: a table, first match wins. What it does not know needs everything, so
//! that a new folder is never left untested in silence.

/// Jobs of ci.yml.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) checks: bool,
    pub(super) tests: bool,
    pub(super) coverage: bool,
    pub(super) images: bool,
    pub(super) e2e: bool,
    pub(super) bench: bool,
}

impl Needs {
    pub(super) const ALL: Self =
        Self { checks: true, tests: true, coverage: true, images: true, e2e: true, bench: true };
    const CHECKS: Self =
        Self { checks: true, tests: false, coverage: false, images: false, e2e: false, bench: false };
    const TESTS: Self = Self { tests: true, ..Self::CHECKS };
    const MEASURED: Self = Self { coverage: true, ..Self::TESTS };
    const E2E: Self = Self { e2e: true, ..Self::TESTS };

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            checks: self.checks || other.checks,
            tests: self.tests || other.tests,
            coverage: self.coverage || other.coverage,
            images: self.images || other.images,
            e2e: self.e2e || other.e2e,
            bench: self.bench || other.bench,
        }
    }
}

/// Beginning of a path, or with `*` before it its end; what it needs; and what it is.
const TABLE: [(&str, Needs, &str); 36] = [
    // Some pages are inputs of tests.
    ("docs/flows.md", Needs::TESTS, "flows that a test runs"),
    ("docs/runbooks.md", Needs::TESTS, "commands that a test runs"),
    ("docs/operations.md", Needs::TESTS, "tables that a test holds against the product"),
    ("docs/concepts.md", Needs::TESTS, "a page with the machine's diagram"),
    ("*.md", Needs::CHECKS, "prose"),
    ("LICENSES/", Needs::CHECKS, "licences"),
    ("REUSE.toml", Needs::CHECKS, "licences"),
    ("codecov.yml", Needs::CHECKS, "settings of codecov"),
    ("deny.toml", Needs::CHECKS, "settings of a linter"),
    ("clippy.toml", Needs::CHECKS, "settings of a linter"),
    ("rustfmt.toml", Needs::CHECKS, "settings of a linter"),
    (".shellcheckrc", Needs::CHECKS, "settings of a linter"),
    (".gitignore", Needs::CHECKS, "settings of git"),
    (".github/workflows/ci.yml", Needs::ALL, "this workflow"),
    (".github/workflows/e2e.yml", Needs::E2E, "the workflow of end-to-end runs"),
    (".github/actions/", Needs::ALL, "what every job begins with"),
    (".github/", Needs::CHECKS, "a workflow that runs at other times, or a template"),
    (".ci/", Needs::TESTS, "what every change must pass"),
    (".config/", Needs::MEASURED, "how tests are run"),
    ("wrapper/tests/", Needs::MEASURED, "tests of the product"),
    ("wrapper/fuzz/", Needs::MEASURED, "tests of the product"),
    ("wrapper/", Needs::ALL, "the product"),
    ("bench/", Needs { bench: true, ..Needs::TESTS }, "how costs are measured"),
    ("xtask/src/cmd/bench", Needs { bench: true, ..Needs::TESTS }, "how costs are measured"),
    ("e2e/doubles/", Needs { coverage: true, ..Needs::E2E }, "the tests' doubles"),
    ("e2e/", Needs::E2E, "the end-to-end suite"),
    ("xtask/src/tidy", Needs::TESTS, "the repository's own rules"),
    ("xtask/src/cmd/ci", Needs::TESTS, "what workflows decide"),
    ("xtask/src/cmd/lint", Needs::TESTS, "how linters are run"),
    ("xtask/src/coverage", Needs::MEASURED, "how coverage is measured"),
    ("xtask/src/cmd/coverage", Needs::MEASURED, "how coverage is measured"),
    ("hack/tools/etcd", Needs { images: true, ..Needs::E2E }, "the etcd that is shipped"),
    ("hack/", Needs::E2E, "what runs are made with"),
    ("pipelines/component.yaml", Needs::CHECKS, "what a release says of the component"),
    ("pipelines/schema/", Needs::CHECKS, "schemas of pages"),
    ("pipelines/matrix.yaml", Needs::E2E, "what end-to-end runs combine"),
];

/// What a path needs, and what it is.
pub(super) fn needs(path: &str) -> (Needs, &'static str) {
    let row = TABLE.iter().find(|(pattern, ..)| match pattern.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path.starts_with(pattern),
    });
    row.map_or((Needs::ALL, "may change anything"), |(_, needs, what)| (*needs, *what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_needs_everything() {
        for path in
            ["new/thing.rs", "Cargo.lock", "rust-toolchain.toml", "xtask/src/sh.rs", "pipelines/tools.yaml"]
        {
            assert_eq!(needs(path).0, Needs::ALL, "{path}");
        }
    }

    #[test]
    fn the_more_special_row_stands_first() {
        for (at, (pattern, ..)) in TABLE.iter().enumerate() {
            let (_, found) = needs(&pattern.replace('*', "x"));
            let first = TABLE.iter().position(|(_, _, what)| *what == found).unwrap();
            assert!(first <= at && TABLE[first..=at].iter().any(|(other, ..)| other == pattern), "{pattern}");
        }
        assert_eq!(needs("wrapper/tests/it/main.rs").1, "tests of the product");
        assert_eq!(needs("e2e/doubles/src/lib.rs").1, "the tests' doubles");
        assert_eq!(needs("docs/flows.md").1, "flows that a test runs");
    }

    #[test]
    fn the_shipped_etcd_goes_into_images_and_other_tools_do_not() {
        assert!(needs("hack/tools/etcd36/go.mod").0.images);
        assert!(!needs("hack/tools/kind/go.mod").0.images && needs("hack/tools/kind/go.mod").0.e2e);
        assert_eq!(needs(".github/workflows/nightly.yml").0, Needs::CHECKS);
    }
}
