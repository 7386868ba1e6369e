// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Container images, written as archives that every engine and containerd load. It needs no engine to make one: an
//! image is a list of files and a page of settings. What goes into which image stands in the modules below.

mod archive;
pub(crate) mod ours;

use std::path::PathBuf;

pub(crate) use self::archive::Ready;

/// An image of one architecture, that of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    /// `PATH=…` and the like.
    pub(crate) env: Vec<String>,
    pub(crate) entrypoint: Vec<String>,
    /// `uid:gid`; root when empty.
    pub(crate) user: String,
    pub(crate) stop_signal: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) layers: Vec<Layer>,
}

/// One layer, later ones over earlier ones.
#[derive(Debug, Clone)]
pub(crate) enum Layer {
    /// A root file system that something else packed.
    Tar(PathBuf),
    Entries(Vec<Entry>),
}

/// One path of a layer; folders above it are made when nothing says how.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Without a leading slash.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// Owner and group, the same number.
    pub(crate) owner: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Folder,
    File(PathBuf),
    Bytes(Vec<u8>),
    Symlink(String),
}

impl Entry {
    /// A program, `0755` of root.
    pub(crate) fn program(path: impl Into<String>, from: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), mode: 0o755, owner: 0, what: What::File(from.into()) }
    }

    /// A text that anybody may read.
    pub(crate) fn text(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o644, owner: 0, what: What::Bytes(text.into().into_bytes()) }
    }

    /// A folder of `owner`.
    pub(crate) fn folder(path: impl Into<String>, mode: u32, owner: u32) -> Self {
        Self { path: path.into(), mode, owner, what: What::Folder }
    }

    /// A symbolic link to `target`.
    pub(crate) fn symlink(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o777, owner: 0, what: What::Symlink(target.into()) }
    }
}
