// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What tests cover: line counts as lcov has them, without the lines of tests, in the forms that others read, and held
//! against the lines that a change adds. Measures nothing itself; `cargo xtask coverage` does.

mod cobertura;
mod diff;
mod lcov;
mod patch;
mod tests_within;

pub(crate) use self::cobertura::cobertura;
pub(crate) use self::diff::Added;
pub(crate) use self::lcov::Lines;
pub(crate) use self::patch::Patch;

/// Whether a file is the product's: its tests, the tools around it and the doubles are not.
pub(crate) fn is_product(path: &str) -> bool {
    let Some(within) = path.strip_prefix("wrapper/src/") else { return false };
    // The fuzz targets are compiled for tests alone.
    let of_tests = within.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "fuzz" | "fuzz.rs"));
    within.ends_with(".rs") && !of_tests
}

/// A share in per cent; all of nothing is all of it.
pub(crate) fn percent(covered: usize, of: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of lines are small")]
    if of == 0 { 100.0 } else { covered as f64 * 100.0 / of as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wrappers_own_sources_are_the_product() {
        assert!(is_product("wrapper/src/app.rs") && is_product("wrapper/src/api/auth.rs"));
        for path in [
            "wrapper/src/api/tests.rs",
            "wrapper/src/api/tests/openapi.rs",
            "wrapper/src/fuzz/drive.rs",
            "wrapper/src/fuzz.rs",
            "wrapper/tests/it/main.rs",
            "wrapper/build.rs",
            "wrapper/src/x.md",
            "e2e/src/case.rs",
            "xtask/src/main.rs",
        ] {
            assert!(!is_product(path), "{path}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_whole() {
        assert!((percent(0, 0) - 100.0).abs() < f64::EPSILON);
        assert!((percent(1, 4) - 25.0).abs() < f64::EPSILON);
    }
}
