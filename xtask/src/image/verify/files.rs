// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Files of an image that are no programs of ours: what must be there, with which owner and mode, and what must not.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::super::contents::{NONROOT, ROOTS};
use super::super::unpack::{Kind, Node, Tree};
use super::all_well;

/// The programs of the image that is shipped, and those that the one for people has besides.
const PROGRAMS: [&str; 3] = ["etcd-wrapper", "usr/local/bin/etcd", "usr/local/bin/etcdctl"];
const FOR_PEOPLE: [&str; 2] = ["usr/local/bin/etcdutl", "bin/busybox"];

/// Fewer certificates than this are not the list of a browser.
const FEW: usize = 50;

/// Nothing is set-user-id or set-group-id, nothing but `/tmp` can be written by all, and all is a file, a folder or a
/// link.
pub(super) fn modes(tree: &Tree) -> Result<String> {
    let mut wrong = Vec::new();
    for (path, node) in &tree.nodes {
        if node.mode & 0o6000 != 0 {
            wrong.push(format!(
                "{path} has the mode {:04o}, which lends its owner's rights",
                node.mode & 0o7777
            ));
        }
        let link = matches!(node.what, Kind::Symlink(_));
        if node.mode & 0o002 != 0 && !link && path != "tmp" {
            wrong.push(format!("{path} has the mode {:04o}: anybody may change it", node.mode & 0o7777));
        }
        if let Kind::Other(kind) = &node.what {
            wrong.push(format!("{path} is of the kind {kind}"));
        }
        if path.rsplit('/').next().is_some_and(|name| name.starts_with(".wh.")) {
            wrong.push(format!("{path} hides a file of a layer below"));
        }
    }
    all_well(wrong, || "no file lends rights".into())
}

/// No program but ours; in the image for people a shell, and it is the one that we put there.
pub(super) fn shell(tree: &Tree, ops: bool) -> Result<String> {
    let mut wanted = PROGRAMS.to_vec();
    if ops {
        wanted.extend(FOR_PEOPLE);
    }
    let found: Vec<&str> = tree.programs().map(|(path, ..)| path).collect();
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|path| !wanted.contains(path))
        .map(|path| format!("a program that does not belong here: {path}"))
        .collect();
    wrong.extend(wanted.iter().filter(|path| !found.contains(path)).map(|path| format!("no {path}")));
    for (path, node) in &tree.nodes {
        if let Kind::Symlink(target) = &node.what
            && !(ops && (target == "busybox" || target == "/etcd-wrapper"))
        {
            wrong.push(format!("a link that does not belong here: {path} to {target}"));
        }
    }
    let well = if ops { "busybox alone" } else { "no shell, no program but ours" };
    all_well(wrong, || well.into())
}

/// The users of the pods, their homes, and a folder for temporary files.
pub(super) fn users(tree: &Tree, folder: &Path) -> Result<String> {
    for (path, line) in [
        ("etc/passwd", format!("nonroot:x:{NONROOT}:{NONROOT}:nonroot:/home/nonroot:/sbin/nologin")),
        ("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin".into()),
        ("etc/group", format!("nonroot:x:{NONROOT}:")),
    ] {
        let text = text(tree, folder, path)?;
        if !text.lines().any(|held| held == line) {
            bail!("/{path} lacks the line {line}");
        }
    }
    let user = u64::from(NONROOT);
    for (path, owner, mode) in
        [("root", 0, 0o700), ("home/nonroot", user, 0o700), ("tmp", 0, 0o1777), ("home", 0, 0o755)]
    {
        let node = tree.nodes.get(path).with_context(|| format!("no folder /{path}"))?;
        let Node { mode: held, uid, gid, what } = node;
        if *what != Kind::Folder || (*uid, *gid, held & 0o7777) != (owner, owner, mode) {
            bail!("/{path} is {uid}:{gid} {:04o} and not a folder {owner}:{owner} {mode:04o}", held & 0o7777);
        }
    }
    Ok("root and nonroot, with their homes".into())
}

/// The certificates of public authorities can be read.
pub(super) fn authorities(tree: &Tree, folder: &Path) -> Result<String> {
    let text = text(tree, folder, ROOTS)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let count = read.map_err(|error| anyhow!("/{ROOTS}: {error:?}"))?.len();
    if count < FEW {
        bail!("/{ROOTS} has {count} certificates");
    }
    Ok(format!("{count} certificates"))
}

fn text(tree: &Tree, folder: &Path, path: &str) -> Result<String> {
    match tree.nodes.get(path).map(|node| &node.what) {
        Some(Kind::File { .. }) => {}
        _ => bail!("no file /{path}"),
    }
    let file = folder.join(path);
    std::fs::read_to_string(&file).with_context(|| format!("read /{path}"))
}
