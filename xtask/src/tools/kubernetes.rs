// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The programs of Kubernetes for a node image, built together out of one module: apart they would compile the same
//! packages seven times.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::go::{self, Programs};
use crate::arch::Arch;
use crate::cache::Cache;

/// What is built, as it is called.
pub(super) const NAMES: [&str; 7] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
];

/// The packages that carry a version; both are set by Kubernetes' own build.
const VERSIONED: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// The folder with all programs.
pub(super) fn build(cache: &Cache, root: &Path) -> Result<PathBuf> {
    let imports = NAMES.map(|name| (format!("k8s.io/kubernetes/cmd/{name}"), name));
    let imports: Vec<(&str, &str)> = imports.iter().map(|(import, name)| (import.as_str(), *name)).collect();
    let programs = Programs {
        module: "k8s",
        name: "kubernetes",
        imports: &imports,
        flag: None,
        takes: "some 6 min on two cores",
    };
    go::build(cache, root, &programs, Arch::HERE, |go_mod| {
        let version = go::version_of(go_mod, "k8s.io/kubernetes")
            .context("hack/tools/k8s/go.mod: no version of k8s.io/kubernetes")?;
        stamp(version).with_context(|| format!("hack/tools/k8s/go.mod: {version} is no version like v1.2.3"))
    })
}

/// Linker flags that tell the programs their version. kubeadm refuses every cluster when the minor is missing.
fn stamp(version: &str) -> Option<Vec<String>> {
    let mut parts = version.strip_prefix('v')?.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    parts.next()?;
    let values =
        [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    let flag = |package: &str, (name, value): (&str, &str)| format!("-X {package}.{name}={value}");
    Some(VERSIONED.iter().flat_map(|package| values.map(|value| flag(package, value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_version_packages_get_every_part() {
        let flags = stamp("v1.34.4").unwrap();
        assert_eq!(flags.len(), 8);
        assert!(flags.contains(&"-X k8s.io/component-base/version.gitMinor=34".to_owned()), "{flags:?}");
        assert!(flags.contains(&"-X k8s.io/client-go/pkg/version.gitVersion=v1.34.4".to_owned()));
        assert_eq!(stamp("1.34.4"), None);
        assert_eq!(stamp("v1.34"), None);
    }
}
