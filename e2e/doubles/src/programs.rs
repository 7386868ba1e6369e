// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Finds the built programs of this crate from a test of another one: cargo hands their paths only to the crate
//! that owns them, and builds them only for it. Builds nothing itself.
use std::path::{Path, PathBuf};

/// The scripted etcd.
///
/// # Panics
/// When it was not built, with the command that builds it.
pub fn etcd_double() -> PathBuf {
    find("etcd-double")
}

/// The sidecar double.
///
/// # Panics
/// When it was not built, with the command that builds it.
pub fn sidecar_double() -> PathBuf {
    find("sidecar-double")
}

fn find(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("find the running test: {error}"));
    // target/<profile>/deps/<test>: programs lie one folder up.
    let path = test.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join(name);
    assert!(path.is_file(), "{} is not there: run `cargo build -p doubles --bins`", path.display());
    path
}
