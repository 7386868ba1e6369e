// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A scene whose wrappers run as the pod's user: nothing is unreadable for root, whom CI runs the tests as.
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use super::Scene;

/// uid, gid and fsGroup of a druid pod.
pub(crate) const POD_USER: u32 = 65532;

impl Scene {
    /// Wrappers run as the pod's user from now on, and what the scene holds by now is that user's. Somebody who is not
    /// root stays who he is.
    #[must_use]
    pub(crate) fn for_pod_user(mut self) -> Self {
        if rustix::process::geteuid().is_root() {
            self.user = Some(POD_USER);
            // Cache and clone may lie in a home that nobody else can enter.
            let bin = self.path().join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::copy(self.program(), bin.join("etcd-wrapper")).unwrap();
            std::fs::copy(&self.etcd, bin.join("etcd")).unwrap();
            self.etcd = bin.join("etcd");
        }
        self.hand_over();
        self
    }

    /// Everything in the scene is the wrapper's user's.
    pub(crate) fn hand_over(&self) {
        if let Some(user) = self.user {
            below(self.path(), &|path| lchown(path, Some(user), Some(user)).unwrap());
        }
    }

    /// Who the wrapper is.
    pub(crate) fn uid(&self) -> u32 {
        self.user.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }
}

/// `visit` for the path and all below, links not followed, inner ones last.
pub(crate) fn below(path: &Path, visit: &dyn Fn(&Path)) {
    visit(path);
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            below(&entry.unwrap().path(), visit);
        }
    }
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Permission bits, of a link's own.
pub(crate) fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}
