// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! For tests about rights: CI runs as root, for whom nothing is unreadable. Not part of the product.
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Uid;

/// Runs `test` on a thread of its own with the uid that the pod has. Linux keeps ids per thread, so the other tests
/// stay what they are. Somebody who is not root stays who he is.
pub(crate) fn unprivileged<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let run = || {
        if rustix::process::geteuid().is_root() {
            let uid = Uid::from_raw(65532);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        }
        test()
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap()
}

/// Sets the mode of a file or folder.
pub(crate) fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
