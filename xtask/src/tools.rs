// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The pinned tools: which there are, and how to get the path of one. Versions stand in `hack/tools/*/go.mod` and
//! `pipelines/tools.yaml`, never here; nothing is installed on the machine, all lies in the cache.

mod crates;
mod debian;
mod go;
mod kubernetes;
mod python;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::cache::Cache;
use crate::machine;
use crate::repo::{self, Pins};

/// The module of promtool, and its name.
const PROMTOOL: &str = "promtool";

/// What a build of some programs takes, for whoever waits.
const SOME_30_S: &str = "some 30 s on two cores, more when modules are fetched";

/// A release line of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Line {
    /// Debian's, the line that etcd-druid starts by default today.
    #[value(name = "3.4")]
    L34,
    #[value(name = "3.5")]
    L35,
    #[value(name = "3.6")]
    L36,
    #[value(name = "3.7")]
    L37,
}

impl Line {
    /// The line that a name without one means.
    pub(crate) const DEFAULT: Self = Self::L35;

    /// As it is typed: `3.5`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::L34 => "3.4",
            Self::L35 => "3.5",
            Self::L36 => "3.6",
            Self::L37 => "3.7",
        }
    }

    /// The folder below `hack/tools`, for the lines that are built from modules.
    pub(crate) fn module(self) -> Option<&'static str> {
        match self {
            Self::L34 => None,
            Self::L35 => Some("etcd35"),
            Self::L36 => Some("etcd36"),
            Self::L37 => Some("etcd37"),
        }
    }
}

/// One tool that can be asked for. Only what exists can be made: parsing refuses the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Etcd(Line),
    /// `etcdctl`; there is none of 3.4, that of 3.5 speaks to it.
    Etcdctl(Line),
    Etcdutl(Line),
    CargoNextest,
    /// Licences, bans and sources of crates; advisories.
    CargoDeny,
    /// Finds dependencies that nothing uses.
    CargoMachete,
    CargoLlvmCov,
    CargoMutants,
    /// Checks workflows; finds shellcheck for what they run.
    Actionlint,
    /// Runs workflows on this machine.
    Act,
    /// Looks for weak spots in workflows.
    Zizmor,
    Shellcheck,
    /// A program of Kubernetes itself; they are built together.
    Kubernetes(&'static str),
    /// Makes a cluster out of a node image.
    Kind,
    /// Speaks to a node's container runtime.
    Crictl,
    Coredns,
    /// The operator whose pods our image runs in.
    Druid,
    /// A static shell with its programs, Debian's.
    Busybox,
    /// Copies images between layouts and registries.
    Oras,
    /// Signs images and files, and verifies.
    Cosign,
    /// A container registry, for tests and rehearsals.
    Registry,
    /// Runs programs of another architecture, Debian's.
    Qemu(Arch),
    /// Prometheus' own judge of rules, and of pages of metrics.
    Promtool,
}

/// A name that is no tool of ours. Its text lists the names that are.
#[derive(Debug)]
pub(crate) struct UnknownTool(String);

impl std::error::Error for UnknownTool {}

impl std::fmt::Display for UnknownTool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "no tool `{}`; there are: {}",
            self.0,
            Tool::all().iter().map(Tool::to_string).collect::<Vec<_>>().join(", ")
        )
    }
}

impl Tool {
    /// All of them, in the order in which they are listed.
    pub(crate) fn all() -> Vec<Self> {
        use Line::{L34, L35, L36, L37};
        use Tool::{Act, Actionlint, Shellcheck, Zizmor};
        use Tool::{Busybox, Coredns, Crictl, Druid, Etcd, Etcdctl, Etcdutl, Kind, Promtool};
        use Tool::{CargoDeny, CargoLlvmCov, CargoMachete, CargoMutants, CargoNextest};
        let lines = [L35, L36, L37];
        let mut all = vec![Etcd(L34)];
        all.extend(lines.map(Etcd));
        all.extend(lines.map(Etcdctl));
        all.extend(lines.map(Etcdutl));
        all.extend(kubernetes::NAMES.map(Self::Kubernetes));
        all.extend([
            Kind,
            Crictl,
            Coredns,
            Druid,
            Busybox,
            Promtool,
            Self::Oras,
            Self::Cosign,
            Self::Registry,
        ]);
        all.extend([CargoNextest, CargoDeny, CargoMachete, CargoLlvmCov, CargoMutants]);
        all.extend([Actionlint, Act, Zizmor, Shellcheck]);
        all.extend(Arch::ALL.map(Self::Qemu));
        all
    }

    /// The `etcdctl` that serves a member of this line.
    pub(crate) fn etcdctl_for(line: Line) -> Self {
        match line {
            Line::L34 => Self::Etcdctl(Line::L35),
            line => Self::Etcdctl(line),
        }
    }

    /// The path of the program, built or fetched first if the cache lacks it. Progress goes to stderr.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        self.ensure_for(Arch::HERE)
    }

    /// The same for an architecture: what goes into images can be made for each, the rest runs here.
    pub(crate) fn ensure_for(self, arch: Arch) -> Result<PathBuf> {
        let cache = Cache::locate()?;
        let root = repo::root();
        let single = |module: &str, import: &str, binary: &str, takes: &str| {
            let imports = [(import, binary)];
            // What serves discovery in a dozen clouds is most of Prometheus, and no part of what we ask of it.
            let flag = (module == PROMTOOL).then_some("-tags=remove_all_sd");
            let programs = go::Programs { module, name: binary, imports: &imports, flag, takes };
            Ok(go::build(&cache, &root, &programs, arch, |_| Ok(Vec::new()))?.join(binary))
        };
        match self {
            Self::Etcd(line) => match line.module() {
                Some(module) => single(module, "go.etcd.io/etcd/server/v3", "etcd", SOME_30_S),
                None => debian::unpack(&cache, &Pins::read(&root)?, arch, "etcd-server", &["usr/bin/etcd"]),
            },
            Self::Etcdctl(line) => {
                single(Self::module_of(line), "go.etcd.io/etcd/etcdctl/v3", "etcdctl", SOME_30_S)
            }
            Self::Etcdutl(line) => {
                single(Self::module_of(line), "go.etcd.io/etcd/etcdutl/v3", "etcdutl", SOME_30_S)
            }
            Self::CargoNextest
            | Self::CargoDeny
            | Self::CargoMachete
            | Self::CargoLlvmCov
            | Self::CargoMutants => crates::install(&cache, &Pins::read(&root)?, &self.to_string()),
            Self::Actionlint => {
                single("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "actionlint", SOME_30_S)
            }
            Self::Act => single("act", "github.com/nektos/act", "act", SOME_30_S),
            Self::Zizmor | Self::Shellcheck => python::program(&cache, &root, &self.to_string()),
            Self::Busybox => debian::unpack(
                &cache,
                &Pins::read(&root)?,
                arch,
                "busybox-static",
                &["usr/bin/busybox", "bin/busybox"],
            ),
            Self::Kubernetes(name) => Ok(kubernetes::build(&cache, &root)?.join(name)),
            Self::Kind => single("kind", "sigs.k8s.io/kind", "kind", "some 10 s on two cores"),
            Self::Crictl => single("crictl", "sigs.k8s.io/cri-tools/cmd/crictl", "crictl", SOME_30_S),
            Self::Coredns => {
                single("coredns", "github.com/coredns/coredns", "coredns", "some 90 s on two cores")
            }
            Self::Druid => {
                single("druid", "github.com/gardener/etcd-druid/cmd", "etcd-druid", "some 2 min on two cores")
            }
            Self::Cosign => single(
                "cosign",
                "github.com/sigstore/cosign/v3/cmd/cosign",
                "cosign",
                "some 5 min on two cores",
            ),
            Self::Oras => single("oras", "oras.land/oras/cmd/oras", "oras", SOME_30_S),
            Self::Registry => single(
                "registry",
                "github.com/distribution/distribution/v3/cmd/registry",
                "registry",
                "some 90 s on two cores",
            ),
            Self::Qemu(guest) => {
                let name = format!("qemu-{}-static", guest.gnu());
                match machine::on_path(&name) {
                    Some(path) => Ok(path),
                    None => {
                        let place = format!("usr/bin/{name}");
                        debian::unpack(&cache, &Pins::read(&root)?, arch, "qemu-user-static", &[&place])
                    }
                }
            }
            Self::Promtool => single(
                PROMTOOL,
                "github.com/prometheus/prometheus/cmd/promtool",
                "promtool",
                "some 2 min on two cores",
            ),
        }
    }

    /// The version that the tool's module pins, with its `v`; none for what no module pins.
    pub(crate) fn pinned(self) -> Result<Option<String>> {
        let Some((module, import)) = self.origin() else { return Ok(None) };
        let path = repo::root().join("hack/tools").join(module).join("go.mod");
        let go_mod = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let version = go::version_of(&go_mod, import)
            .with_context(|| format!("{}: no version of {import}", path.display()))?;
        Ok(Some(version.to_owned()))
    }

    /// The folder below `hack/tools` that pins the tool; none for what no module pins.
    pub(crate) fn module(self) -> Option<&'static str> {
        self.origin().map(|(module, _)| module)
    }

    /// The folder of the module that pins it, and the module or package that it is.
    fn origin(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Etcd(Line::L34)
            | Self::Busybox
            | Self::Qemu(_)
            | Self::CargoNextest
            | Self::CargoDeny
            | Self::CargoMachete
            | Self::CargoLlvmCov
            | Self::CargoMutants
            | Self::Zizmor
            | Self::Shellcheck => return None,
            Self::Actionlint => ("actionlint", "github.com/rhysd/actionlint"),
            Self::Act => ("act", "github.com/nektos/act"),
            Self::Etcd(line) => (Self::module_of(line), "go.etcd.io/etcd/server/v3"),
            Self::Etcdctl(line) => (Self::module_of(line), "go.etcd.io/etcd/etcdctl/v3"),
            Self::Etcdutl(line) => (Self::module_of(line), "go.etcd.io/etcd/etcdutl/v3"),
            Self::Kubernetes(_) => ("k8s", "k8s.io/kubernetes"),
            Self::Kind => ("kind", "sigs.k8s.io/kind"),
            Self::Crictl => ("crictl", "sigs.k8s.io/cri-tools"),
            Self::Coredns => ("coredns", "github.com/coredns/coredns"),
            Self::Druid => ("druid", "github.com/gardener/etcd-druid"),
            Self::Cosign => ("cosign", "github.com/sigstore/cosign/v3"),
            Self::Oras => ("oras", "oras.land/oras"),
            Self::Promtool => (PROMTOOL, "github.com/prometheus/prometheus"),
            Self::Registry => ("registry", "github.com/distribution/distribution/v3"),
        })
    }

    fn module_of(line: Line) -> &'static str {
        line.module().expect("no client tool of a line without a module can be named")
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Etcd(line) => write!(out, "etcd@{}", line.as_str()),
            Self::Etcdctl(line) => write!(out, "etcdctl@{}", line.as_str()),
            Self::Etcdutl(line) => write!(out, "etcdutl@{}", line.as_str()),
            Self::CargoNextest => out.write_str("cargo-nextest"),
            Self::CargoDeny => out.write_str("cargo-deny"),
            Self::CargoMachete => out.write_str("cargo-machete"),
            Self::CargoLlvmCov => out.write_str("cargo-llvm-cov"),
            Self::CargoMutants => out.write_str("cargo-mutants"),
            Self::Actionlint => out.write_str("actionlint"),
            Self::Act => out.write_str("act"),
            Self::Zizmor => out.write_str("zizmor"),
            Self::Shellcheck => out.write_str("shellcheck"),
            Self::Kubernetes(name) => out.write_str(name),
            Self::Kind => out.write_str("kind"),
            Self::Crictl => out.write_str("crictl"),
            Self::Coredns => out.write_str("coredns"),
            Self::Druid => out.write_str("etcd-druid"),
            Self::Busybox => out.write_str("busybox"),
            Self::Cosign => out.write_str("cosign"),
            Self::Oras => out.write_str("oras"),
            Self::Registry => out.write_str("registry"),
            Self::Qemu(guest) => write!(out, "qemu-{}", guest.gnu()),
            Self::Promtool => out.write_str(PROMTOOL),
        }
    }
}

impl FromStr for Tool {
    type Err = UnknownTool;

    fn from_str(text: &str) -> Result<Self, UnknownTool> {
        let named = |name: &str| Self::all().into_iter().find(|tool| tool.to_string() == name);
        named(text)
            .or_else(|| named(&format!("{text}@{}", Line::DEFAULT.as_str())))
            .ok_or_else(|| UnknownTool(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_line_means_the_default_line() {
        assert_eq!("etcd".parse::<Tool>().unwrap(), Tool::Etcd(Line::L35));
        assert_eq!("etcdctl@3.6".parse::<Tool>().unwrap(), Tool::Etcdctl(Line::L36));
        assert_eq!("etcd@3.4".parse::<Tool>().unwrap(), Tool::Etcd(Line::L34));
        assert_eq!("cargo-nextest".parse::<Tool>().unwrap(), Tool::CargoNextest);
    }

    #[test]
    fn what_does_not_exist_is_refused_with_the_names_that_do() {
        for name in ["etcdctl@3.4", "etcd@3.8", "etcd@", "@3.5", "", "cargo-nextest@3.5", "etcd@3.5 "] {
            let error = name.parse::<Tool>().expect_err(name).to_string();
            assert!(error.contains("etcd@3.5, ") && error.contains("cargo-nextest"), "{error}");
        }
    }

    #[test]
    fn every_tool_can_be_asked_for_by_the_name_it_is_listed_under() {
        for tool in Tool::all() {
            assert_eq!(tool.to_string().parse::<Tool>().unwrap(), tool);
        }
    }

    #[test]
    fn every_line_that_is_built_has_its_pinned_module() {
        let etcd = [Line::L35, Line::L36, Line::L37].map(Tool::module_of);
        for module in etcd.into_iter().chain([
            "k8s",
            "kind",
            "crictl",
            "coredns",
            "druid",
            "actionlint",
            "act",
            "cosign",
            "oras",
            "registry",
            PROMTOOL,
        ]) {
            let folder = repo::root().join("hack/tools").join(module);
            assert!(
                folder.join("go.mod").is_file() && folder.join("go.sum").is_file(),
                "{}",
                folder.display()
            );
        }
    }
}
