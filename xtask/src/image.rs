// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Container images, made without an engine: an image is a list of files and a page of settings. `archive` packs one for
//! engines and nodes, `layout` what is shipped; what goes into which image stands in `ours` and `shipped`.

mod archive;
mod blobs;
mod contents;
mod digest;
pub(crate) mod export;
mod inventory;
mod layer;
mod layout;
pub(crate) mod oci;
pub(crate) mod ours;
mod provenance;
pub(crate) mod registry;
mod revision;
pub(crate) mod sbom;
mod shipped;
pub(crate) mod smoke;
mod unpack;
pub(crate) mod verify;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

pub(crate) use self::archive::Ready;
pub(crate) use self::blobs::Blobs;
pub(crate) use self::digest::Digest;
pub(crate) use self::layout::Layout;
pub(crate) use self::shipped::{Options, build};
use crate::arch::Arch;

/// The time that files carry, and an image that is not for shipping: there is nothing to learn from when it was built.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// An image of one architecture.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) arch: Arch,
    /// When it was made, in RFC 3339.
    pub(crate) created: String,
    /// `PATH=…` and the like.
    pub(crate) env: Vec<String>,
    pub(crate) entrypoint: Vec<String>,
    /// `uid:gid`; root when empty.
    pub(crate) user: String,
    pub(crate) stop_signal: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) layers: Vec<Layer>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            arch: Arch::HERE,
            created: EPOCH.into(),
            env: Vec::new(),
            entrypoint: Vec::new(),
            user: String::new(),
            stop_signal: None,
            labels: BTreeMap::new(),
            layers: Vec::new(),
        }
    }
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

impl Image {
    /// The page of settings, which names the layers by the digests of their tars.
    pub(crate) fn config(&self, layers: &[&Digest]) -> serde_json::Value {
        let history: Vec<_> = layers.iter().map(|_| json!({"created": self.created})).collect();
        let mut config = json!({ "Env": self.env, "Entrypoint": self.entrypoint, "Labels": self.labels });
        if !self.user.is_empty() {
            config["User"] = self.user.clone().into();
        }
        if let Some(signal) = &self.stop_signal {
            config["StopSignal"] = signal.clone().into();
        }
        json!({
            "architecture": self.arch.as_str(),
            "os": "linux",
            "created": self.created,
            "config": config,
            "history": history,
            "rootfs": { "type": "layers", "diff_ids": layers },
        })
    }
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
