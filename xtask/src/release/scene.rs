// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A small clone for the tests of a release: the files that a release reads, a bare remote, nothing else of this tree.

use std::path::{Path, PathBuf};

use super::component;
use super::git::Git;

/// A clone with a remote `origin`, gone when dropped.
#[derive(Debug)]
pub(crate) struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A clone on main, whose version is worked on and whose changelog has an entry.
    pub(crate) fn new(version: &str) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(scene.root().join("wrapper")).unwrap();
        Git::new(scene.folder.path())
            .ask(["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"])
            .unwrap();
        let git = scene.git();
        git.ask(["init", "--quiet", "--initial-branch=main"]).unwrap();
        for (key, value) in [
            ("user.name", "A Maintainer"),
            ("user.email", "maintainer@example.org"),
            ("commit.gpgsign", "false"),
            ("tag.gpgsign", "false"),
            ("core.hooksPath", "/dev/null"),
        ] {
            git.ask(["config", key, value]).unwrap();
        }
        let ours = std::fs::read_to_string(crate::repo::root().join(component::PATH)).unwrap();
        scene.write(component::PATH, &ours);
        scene.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n### Added\n- a thing for operators\n");
        scene.write("Cargo.toml", &format!("[workspace]\n\n[workspace.package]\nversion = \"{version}\"\n"));
        scene.write(
            "Cargo.lock",
            &format!("version = 4\n\n[[package]]\nname = \"xtask\"\nversion = \"{version}\"\n"),
        );
        scene.write("wrapper/openapi.json", &format!("{{\"info\": {{\"version\": \"{version}\"}}}}\n"));
        scene.write(".gitignore", "target/\n");
        scene.commit("begin");
        git.ask(["remote", "add", "origin", &scene.remote().display().to_string()]).unwrap();
        git.ask(["push", "--quiet", "origin", "main"]).unwrap();
        scene
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("clone")
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.folder.path().join("remote.git")
    }

    pub(crate) fn git(&self) -> Git {
        Git::new(&self.root())
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Commits all there is.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git().ask(["add", "--all"]).unwrap();
        self.git().ask(["commit", "--quiet", "--message", message]).unwrap();
        self.git().head().unwrap()
    }
}
