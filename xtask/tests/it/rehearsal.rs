// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The rehearsal of a release, with a small image in the place of the real one, which takes minutes to build.

use std::process::Command;

#[test]
fn k2_a_release_is_rehearsed_whole_killed_after_every_step_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let said = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["release", "rehearse", "--planted", "--folder"])
        .arg(folder.path().join("rehearsal"))
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{out}\n{err}");
    for step in
        ["lock", "draft", "images", "sign", "refs", "image-tag", "assets", "publish", "next", "unlock"]
    {
        assert!(out.contains(&format!("the cut was killed after step `{step}`")), "{step}: {out}");
    }
    for line in [
        "the registry broke off",
        "gave the same bytes in another folder",
        "v0.1.0 is out",
        "v0.1.1 is out",
        "consumer: started the image",
        "the rehearsal passed",
        "GitHub's API by a double",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
}
