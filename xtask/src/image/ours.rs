// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What this repository puts into images: the wrapper beside an etcd, the sidecar's double, the client pod of the
//! suite, and the stand-ins for what cannot be pulled. All are static programs on an empty root.

use std::path::Path;

use anyhow::{Context, Result};

use super::contents::{NONROOT, base, contents};
use super::revision::Revision;
use super::shipped::{self, TITLE};
use super::{Entry, Image, Layer, Ready, What};
use crate::arch::Arch;
use crate::repo;
use crate::sh::Step;
use crate::tools::{Line, Tool};

/// The name of an image of ours: its tag says what it is, so that a name never means two things.
pub(crate) fn reference(name: &str, ready: &Ready) -> String {
    format!("localhost/{name}:{}", ready.short())
}

/// The wrapper of this tree with an etcd of `line`: for the lines that are shipped the very image that is, so that what
/// passed with it passed with the release.
pub(crate) fn wrapper(binary: &Path, line: Line) -> Result<Image> {
    let mut contents = contents(Arch::HERE, binary, line, false)?;
    if line == Line::L34 {
        // Debian's is linked dynamically.
        contents.layers.push(Layer::Entries(libraries(&Tool::Etcd(line).ensure()?)?));
    }
    Ok(shipped::image(&contents, Arch::HERE, &Revision::of(&repo::root())?, TITLE))
}

/// The double of the sidecar for a cluster.
pub(crate) fn sidecar_double(binary: &Path) -> Image {
    let mut entries = base();
    entries.push(Entry::program("etcdbrctl", binary));
    Image {
        entrypoint: vec!["/etcdbrctl".into()],
        user: format!("{NONROOT}:{NONROOT}"),
        layers: vec![Layer::Entries(entries)],
        ..Image::default()
    }
}

/// The wrapper once more under another id, for a member that is moved to a new image.
pub(crate) fn wrapper_again(binary: &Path, line: Line) -> Result<Image> {
    let mut image = wrapper(binary, line)?;
    image.labels.insert("etcd-wrapper.image".to_owned(), "again".to_owned());
    Ok(image)
}

/// The pause container of the container tier, and the light double of the sidecar. Root, since the hand reaches into
/// everything in its pod.
pub(crate) fn hand(hand: &Path, double: &Path) -> Image {
    let mut entries = base();
    entries.push(Entry::program("pod-hand", hand));
    entries.push(Entry::program("sidecar-double", double));
    Image { entrypoint: vec!["/pod-hand".into()], layers: vec![Layer::Entries(entries)], ..Image::default() }
}

/// etcd-druid out of its module.
pub(crate) fn druid() -> Result<Image> {
    let mut entries = base();
    entries.push(Entry::program("etcd-druid", Tool::Druid.ensure()?));
    Ok(Image {
        entrypoint: vec!["/etcd-druid".into()],
        user: format!("{NONROOT}:{NONROOT}"),
        layers: vec![Layer::Entries(entries)],
        ..Image::default()
    })
}

/// A shell and `chown`: what etcd-druid's init container runs, at the places of both ways in which it does.
pub(crate) fn chown() -> Result<Image> {
    let mut entries = base();
    entries.extend(busybox(&["sh", "chown"])?);
    Ok(Image {
        env: vec!["PATH=/bin".into()],
        entrypoint: vec!["/bin/sh".into()],
        layers: vec![Layer::Entries(entries)],
        ..Image::default()
    })
}

/// The client pod of a scenario: a shell, etcd's own clients, and ours.
pub(crate) fn toolbox(binary: &Path) -> Result<Image> {
    let mut entries = base();
    entries.extend(busybox(&[
        "sh", "sleep", "cat", "ls", "wget", "nc", "date", "head", "tail", "grep", "rm", "mkdir",
    ])?);
    entries.push(Entry::program("bin/etcd-wrapper", binary));
    entries.push(Entry::program("bin/etcdctl", Tool::Etcdctl(Line::DEFAULT).ensure()?));
    entries.push(Entry::program("bin/etcdutl", Tool::Etcdutl(Line::DEFAULT).ensure()?));
    Ok(Image {
        env: vec!["PATH=/bin".into()],
        entrypoint: vec!["/bin/sleep".into(), "2147483647".into()],
        user: format!("{NONROOT}:{NONROOT}"),
        layers: vec![Layer::Entries(entries)],
        ..Image::default()
    })
}

fn busybox(applets: &[&str]) -> Result<Vec<Entry>> {
    let mut entries = vec![Entry::program("bin/busybox", Tool::Busybox.ensure()?)];
    entries.extend(applets.iter().map(|name| Entry::symlink(format!("bin/{name}"), "busybox")));
    Ok(entries)
}

/// The libraries that a dynamic program needs, from this machine, where it was run before.
fn libraries(program: &Path) -> Result<Vec<Entry>> {
    let said = Step::new("ldd").arg(program).read()?;
    let mut entries = Vec::new();
    for path in said.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new) {
        let real = std::fs::canonicalize(path).with_context(|| format!("find {}", path.display()))?;
        let place = path.strip_prefix("/").context("ldd says absolute paths")?;
        let what = What::File(real);
        entries.push(Entry { path: place.display().to_string(), mode: 0o755, owner: 0, what });
    }
    Ok(entries)
}
