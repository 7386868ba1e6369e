// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The node image of the test cluster, built from pinned modules and Debian's packages: for machines whose engine can
//! pull nothing. A node is a small Debian with systemd, containerd and the programs of Kubernetes, whose control plane
//! travels with it as images of one program each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};
use crate::engine::{Engine, bring};
use crate::image::{Entry, Image, Layer};
use crate::machine;
use crate::repo::{self, Pins};
use crate::sh::Step;
use crate::tools::{Line, Tool};

/// What the built image is called; its tag is the hash of all it is made of.
const NAME: &str = "localhost/etcd-wrapper-node";

/// Programs of Kubernetes that run on the node itself; the others run in pods.
const ON_NODE: [&str; 4] = ["kubeadm", "kubectl", "kubelet", "kube-proxy"];

/// systemd's own units that make no sense in a container, as globs below the root.
const UNITS_LEFT_OUT: [&str; 7] = [
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
];

const UNITS: [&str; 4] = ["containerd", "kubelet", "kube-proxy", "volumes"];

/// The name of the node image in the engine, built and loaded first if the engine lacks it.
pub(crate) fn ensure(engine: &Engine) -> Result<String> {
    let root = repo::root();
    let pins = Pins::read(&root)?;
    let parts = Parts::ensure()?;
    let key = key(&root, &pins, &parts)?;
    let reference = format!("{NAME}:{key}");
    if engine.image(&reference)?.is_some() {
        return Ok(reference);
    }
    let base = root_file_system(&pins)?;
    eprintln!("packing the node image (some 30 s)");
    let work = Cache::locate()?.scratch("node");
    std::fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
    let images = tempfile::tempdir_in(&work)?;
    let mut entries = files(&root)?;
    entries.extend(parts.on_node()?);
    for (name, entry) in parts.control_plane(images.path())? {
        entries.push(Entry { path: format!("kind/images/{name}.tar"), ..entry });
    }
    let node = Image {
        env: vec!["container=docker".into()],
        entrypoint: vec!["/usr/local/bin/entrypoint".into(), "/sbin/init".into()],
        // What systemd takes for a wish to halt.
        stop_signal: Some("SIGRTMIN+3".into()),
        layers: vec![Layer::Tar(base), Layer::Entries(entries)],
        ..Image::default()
    };
    let archive = images.path().join("node.tar");
    node.pack(&work)?.write(&reference, &archive)?;
    eprintln!("loading the node image into the engine");
    engine.load(&archive)?;
    Ok(reference)
}

/// The programs that go into a node.
struct Parts {
    kubernetes: PathBuf,
    crictl: PathBuf,
    coredns: PathBuf,
    etcd: PathBuf,
    pause: PathBuf,
}

impl Parts {
    fn ensure() -> Result<Self> {
        let kubeadm = Tool::Kubernetes("kubeadm").ensure()?;
        Ok(Self {
            kubernetes: kubeadm.parent().context("a tool lies in a folder")?.to_owned(),
            crictl: Tool::Crictl.ensure()?,
            coredns: Tool::Coredns.ensure()?,
            etcd: Tool::Etcd(Line::L36).ensure()?,
            pause: pause()?,
        })
    }

    fn on_node(&self) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = ON_NODE
            .iter()
            .map(|name| Entry::program(format!("usr/bin/{name}"), self.kubernetes.join(name)))
            .collect();
        entries.push(Entry::program("usr/bin/crictl", &self.crictl));
        let version = Tool::Kubernetes("kubelet").pinned()?.context("Kubernetes is pinned")?;
        entries.push(Entry::text("kind/version", version));
        Ok(entries)
    }

    /// The images that kubeadm will ask for, made here under the names that it says itself.
    fn control_plane(&self, folder: &Path) -> Result<Vec<(String, Entry)>> {
        let version = Tool::Kubernetes("kubelet").pinned()?.context("Kubernetes is pinned")?;
        let listed = Step::new(self.kubernetes.join("kubeadm"))
            .args(["config", "images", "list", "--kubernetes-version", &version])
            .read()?;
        let mut images = Vec::new();
        for reference in listed.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let name = reference
                .rsplit('/')
                .next()
                .and_then(|last| last.split(':').next())
                .with_context(|| format!("kubeadm names an image {reference:?}"))?;
            let program = match name {
                // It runs as a unit of the node.
                "kube-proxy" => continue,
                "coredns" => self.coredns.clone(),
                "etcd" => self.etcd.clone(),
                "pause" => self.pause.clone(),
                name => self.kubernetes.join(name),
            };
            if !program.is_file() {
                bail!("kubeadm asks for an image {reference}, and nothing here builds a program {name}");
            }
            let image = Image {
                env: vec!["PATH=/usr/local/bin".into()],
                entrypoint: vec![format!("/usr/local/bin/{name}")],
                layers: vec![Layer::Entries(vec![
                    Entry::program(format!("usr/local/bin/{name}"), &program),
                    Entry::folder("tmp", 0o1777, 0),
                ])],
                ..Image::default()
            };
            let path = folder.join(format!("{name}.tar"));
            image.pack(folder)?.write(reference, &path)?;
            images.push((name.to_owned(), Entry { mode: 0o644, ..Entry::program("", path) }));
        }
        Ok(images)
    }
}

/// The process that holds a pod together, static.
fn pause() -> Result<PathBuf> {
    let source = repo::root().join("hack/kind/pause.c");
    let text = std::fs::read(&source).with_context(|| format!("read {}", source.display()))?;
    let folder = Cache::locate()?.entry("pause", &cache::key(&[("source", &text)]), |folder| {
        Step::new("cc")
            .args(["-static", "-Os", "-s", "-o"])
            .arg(folder.join("pause"))
            .arg(&source)
            .mend(machine::LINKER_MEND)
            .read()
            .map(drop)
    })?;
    Ok(folder.join("pause"))
}

/// The packages, unpacked and tidied: a tar in the cache.
fn root_file_system(pins: &Pins) -> Result<PathBuf> {
    let packages = pins.node.packages.join(",");
    let left_out = UNITS_LEFT_OUT.map(|glob| format!("\"$1\"/{glob}")).join(" ");
    let hook = format!("--customize-hook=rm -f {left_out}");
    let key = cache::key(&[
        ("suite", pins.node.suite.as_bytes()),
        ("packages", packages.as_bytes()),
        ("hook", hook.as_bytes()),
    ]);
    let folder = Cache::locate()?.entry("node-root", &key, |folder| {
        if machine::on_path("mmdebstrap").is_none() {
            install_mmdebstrap()?;
        }
        let sources = Path::new("/etc/apt/sources.list.d/debian.sources");
        let text = std::fs::read_to_string(sources).with_context(|| {
            format!("read {}: a node image is built out of Debian's packages, on Debian", sources.display())
        })?;
        let text = bring::resuite(&text, &pins.node.suite)
            .with_context(|| format!("{}: no entry with a line `Suites:`", sources.display()))?;
        let list = folder.join("node.sources");
        std::fs::write(&list, text)?;
        Step::new("mmdebstrap")
            .args(["--variant=minbase", &format!("--include={packages}"), &hook, &pins.node.suite])
            .arg(folder.join("root.tar"))
            .arg(&list)
            .watch("unpacking Debian's packages for the node (some 60 s)")
    })?;
    Ok(folder.join("root.tar"))
}

fn install_mmdebstrap() -> Result<()> {
    if !machine::apt_as_root() {
        bail!("mmdebstrap is not on PATH; run, as root: apt-get install -y mmdebstrap");
    }
    Step::new("apt-get").args(["-q", "update"]).watch("fetching Debian's package lists")?;
    Step::new("apt-get")
        .args(["-q", "install", "-y", "--no-install-recommends", "mmdebstrap"])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .watch("installing mmdebstrap")
}

/// The files of `hack/kind/node`, at their places.
fn files(root: &Path) -> Result<Vec<Entry>> {
    let from = root.join("hack/kind/node");
    let read = |name: &str| {
        let path = from.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let mut entries = Vec::new();
    for name in ["entrypoint", "kubelet-cgroups", "import-images", "volumes"] {
        entries.push(Entry { mode: 0o755, ..Entry::text(format!("usr/local/bin/{name}"), read(name)?) });
    }
    for (name, place) in [
        ("containerd.toml", "etc/containerd/config.toml"),
        ("10-e2e.conflist", "etc/cni/net.d/10-e2e.conflist"),
        ("sysctl.conf", "etc/sysctl.d/50-node.conf"),
        ("crictl.yaml", "etc/crictl.yaml"),
        ("default-storage.yaml", "kind/manifests/default-storage.yaml"),
    ] {
        entries.push(Entry::text(place, read(name)?));
    }
    for unit in UNITS {
        let name = format!("{unit}.service");
        entries.push(Entry::text(format!("etc/systemd/system/{name}"), read(&name)?));
        entries.push(Entry::symlink(
            format!("etc/systemd/system/multi-user.target.wants/{name}"),
            format!("/etc/systemd/system/{name}"),
        ));
    }
    entries.push(Entry::symlink("usr/sbin/init", "/lib/systemd/systemd"));
    entries.push(Entry::symlink("etc/systemd/system/systemd-binfmt.service", "/dev/null"));
    entries.push(Entry::folder("etc/kubernetes/manifests", 0o755, 0));
    entries.push(Entry::folder("var/local-volumes", 0o755, 0));
    Ok(entries)
}

/// Everything that decides what the image is.
fn key(root: &Path, pins: &Pins, parts: &Parts) -> Result<String> {
    let mut inputs: Vec<(String, Vec<u8>)> = vec![
        ("suite".into(), pins.node.suite.clone().into_bytes()),
        ("packages".into(), pins.node.packages.join(",").into_bytes()),
    ];
    for entry in files(root)? {
        let bytes = format!("{entry:?}").into_bytes();
        inputs.push((entry.path, bytes));
    }
    // A tool's folder is named after what it was built from.
    for path in [&parts.kubernetes, &parts.crictl, &parts.coredns, &parts.etcd, &parts.pause] {
        let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let name = folder.and_then(Path::file_name).context("a tool lies in a folder")?;
        inputs.push(("part".into(), name.to_string_lossy().into_owned().into_bytes()));
    }
    let inputs: Vec<(&str, &[u8])> =
        inputs.iter().map(|(label, value)| (label.as_str(), value.as_slice())).collect();
    Ok(cache::key(&inputs))
}
