// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd-druid in a cluster: its resource definitions out of its module, its deployment, and the page that makes it use
//! our images.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::repo;
use crate::sh::Step;

/// Which images druid shall put into its pods.
#[derive(Debug)]
pub(crate) struct PodImages<'a> {
    pub(crate) wrapper: &'a str,
    pub(crate) sidecar: &'a str,
    pub(crate) chown: &'a str,
}

/// Installs or updates druid, and waits until it runs.
pub(crate) fn deploy(cluster: &Cluster, image: &str, pods: &PodImages<'_>) -> Result<()> {
    let crds = crds()?;
    // Too large for the annotation of a client-side apply.
    cluster
        .kubectl()
        .args(["apply", "--server-side", "--force-conflicts", "--filename"])
        .arg(&crds)
        .read()?;
    let path = repo::root().join("hack/kind/druid.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let overrides = overrides(pods)?;
    let manifest = text
        .replace("${DRUID_IMAGE}", image)
        // The pods must start anew when the page changes: druid reads it once.
        .replace("${OVERRIDES_HASH}", &crate::cache::key(&[("overrides", overrides.as_bytes())]))
        .replace("${OVERRIDES}", &indented(&overrides, 4));
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), manifest)?;
    cluster.kubectl().args(["apply", "--filename"]).arg(file.path()).read()?;
    let rolled = cluster
        .kubectl()
        .args(["rollout", "status", "deployment/etcd-druid", "--namespace=druid", "--timeout=120s"])
        .read();
    if let Err(error) = rolled {
        let logs = ["logs", "deployment/etcd-druid", "--namespace=druid", "--tail=20"];
        let now = cluster.kubectl().args(logs).read().unwrap_or_else(|error| format!("{error:#}"));
        let before = cluster.kubectl().args(logs).arg("--previous").read().unwrap_or_default();
        bail!("etcd-druid does not come up: {error:#}\n{before}\n{now}");
    }
    Ok(())
}

/// The folder of druid's resource definitions, in the module that its program is built from.
fn crds() -> Result<PathBuf> {
    let folder = Step::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "github.com/gardener/etcd-druid"])
        .dir(&repo::root().join("hack/tools/druid"))
        .env("GOFLAGS", "-mod=mod")
        .env("GOWORK", "off")
        .read()?;
    let folder = PathBuf::from(folder.trim()).join("charts/crds");
    if !folder.is_dir() {
        bail!("etcd-druid's module has no {}", folder.display());
    }
    Ok(folder)
}

/// druid's own form of a page that replaces images; the feature gate `UpgradeEtcdVersion` selects the `-next` ones.
fn overrides(pods: &PodImages<'_>) -> Result<String> {
    let mut page = String::from("images:\n");
    for (name, reference) in [
        ("etcd-wrapper-next", pods.wrapper),
        ("etcd-backup-restore-next", pods.sidecar),
        ("alpine", pods.chown),
    ] {
        let (repository, tag) =
            reference.rsplit_once(':').with_context(|| format!("an image without a tag: {reference}"))?;
        page.push_str(&format!("- name: {name}\n  repository: {repository}\n  tag: \"{tag}\"\n"));
    }
    Ok(page)
}

fn indented(text: &str, by: usize) -> String {
    text.lines()
        .map(|line| format!("{:by$}{line}\n", ""))
        .collect::<String>()
        .trim_start()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_with_a_port_keeps_it() {
        let pods = PodImages { wrapper: "localhost:5000/w:a-1", sidecar: "r.io/s:v1", chown: "x:3" };
        let page = overrides(&pods).unwrap();
        assert!(
            page.contains("- name: etcd-wrapper-next\n  repository: localhost:5000/w\n  tag: \"a-1\"\n"),
            "{page}"
        );
        assert!(overrides(&PodImages { wrapper: "w", sidecar: "s:1", chown: "c:1" }).is_err());
    }

    #[test]
    fn the_deployment_has_a_place_for_everything_that_is_filled_in() {
        let text = std::fs::read_to_string(repo::root().join("hack/kind/druid.yaml")).unwrap();
        for name in ["${DRUID_IMAGE}", "${OVERRIDES}", "${OVERRIDES_HASH}"] {
            assert!(text.contains(name), "{name}");
        }
    }
}
