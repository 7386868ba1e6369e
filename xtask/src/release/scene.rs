// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A small clone for the tests of a release: the files that a release reads, a bare remote, a planted image, a double of
//! GitHub, and scripts in the place of oras and cosign, which only the rehearsal runs for real.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::build::{self, Inputs};
use super::bundle::Bundle;
use super::component::{self, Component};
use super::cut::Cut;
use super::double::Double;
use super::git::Git;
use super::github::Client;
use super::manifest;
use super::plan::Plan;
use super::planted::{self, Seed};
use super::policy::Line;
use super::prepare;
use super::registry::Registry;
use super::sign::{Means, Signer};
use crate::arch::Arch;

pub(crate) const TOKEN: &str = "ghs_scenes_secret_token";

/// A registry in a folder `$STORE`; it breaks off while there is a file `broken`, and is away while there is `gone`.
const ORAS: &str = r#"#!/bin/sh
set -eu
mark() { echo "$STORE/$(echo "$1" | tr '/:@' '___')"; }
[ ! -e "$STORE/gone" ] || { echo "Error: dial tcp: connection refused" >&2; exit 1; }
[ "$1" = resolve ] || [ ! -e "$STORE/broken" ] || { echo "Error: connection reset by peer" >&2; exit 1; }
case "$1" in
resolve) [ -e "$(mark "$2")" ] || { echo "Error: failed to resolve digest: $2: not found" >&2; exit 1; }; cat "$(mark "$2")" ;;
cp) for last; do :; done; echo "${last#*@}" > "$(mark "$last")" ;;
tag) echo "${2#*@}" > "$(mark "${2%@*}:$3")" ;;
esac
"#;

/// Signs by leaving a file; a signature is good if it is there.
const COSIGN: &str = r#"#!/bin/sh
set -eu
verb="$1"; kind=image; bundle=; last=
while [ $# -gt 0 ]; do
  case "$1" in --type) kind="$2"; shift ;; --bundle) bundle="$2"; shift ;; esac
  last="$1"; shift
done
mark="$STORE/sig-$kind-$(echo "$last" | tr '/:@' '___')"
case "$verb" in
sign|attest) touch "$mark" ;;
verify|verify-attestation) [ -e "$mark" ] ;;
sign-blob) sha256sum < "$last" > "$bundle" ;;
verify-blob) [ "$(sha256sum < "$last")" = "$(cat "$bundle")" ] ;;
esac
"#;

/// A clone with a remote `origin`, gone when dropped.
#[derive(Debug)]
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    pub(crate) github: Double,
}

impl Scene {
    /// A clone on main, whose version is worked on and whose changelog has an entry.
    pub(crate) fn new(version: &str) -> Self {
        let github = Double::start("gardener/etcd-wrapper", TOKEN).unwrap();
        let scene = Self { folder: tempfile::tempdir().unwrap(), github };
        for folder in ["clone", "store"] {
            std::fs::create_dir_all(scene.folder.path().join(folder)).unwrap();
        }
        for (name, text) in [("oras", ORAS), ("cosign", COSIGN)] {
            let path = scene.folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Git::new(scene.folder.path())
            .ask(["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"])
            .unwrap();
        let git = scene.git();
        git.ask(["init", "--quiet", "--initial-branch=main"]).unwrap();
        who(&git, "A Maintainer");
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

    /// One whose release is prepared and built, with all reports.
    pub(crate) fn built() -> Self {
        let scene = Self::new("0.1.0-dev");
        scene.prepare();
        scene.build(&Arch::ALL, &[]);
        scene
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("clone")
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.root().join("target")
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.folder.path().join("remote.git")
    }

    /// Where the stand-ins of registry and cosign keep what they have.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn git(&self) -> Git {
        Git::new(&self.root())
    }

    pub(crate) fn component(&self) -> Component {
        Component::read(&self.root()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.github.url(), "gardener/etcd-wrapper", Some(TOKEN.into())).unwrap()
    }

    pub(crate) fn bundle(&self) -> Bundle {
        Bundle::of(&self.target(), "etcd-wrapper", manifest::version(&self.root()).unwrap())
    }

    pub(crate) fn prepare(&self) {
        let plan = Plan::make(&self.root(), None).unwrap();
        prepare::run(&self.root(), &self.git(), &plan, "2026-05-06").unwrap();
    }

    /// Builds the release out of a planted image.
    pub(crate) fn build(&self, archs: &[Arch], without: &[&str]) {
        let commit = self.git().head().unwrap();
        let version = manifest::version(&self.root()).unwrap();
        let component = self.component();
        let seed = Seed { component: &component, version, commit: &commit, archs, without };
        let image = planted::image(&seed, &self.folder.path().join("planted")).unwrap();
        let evidence = self.folder.path().join("evidence");
        planted::evidence(&evidence, &commit, &image.digest.to_string()).unwrap();
        let (root, target) = (self.root(), self.target());
        build::run(&Inputs { root: &root, target: &target, image: &image, evidence: Some(&evidence) })
            .unwrap();
    }

    /// A cut of what was built, by `owner`.
    pub(crate) fn cut(&self, owner: &str) -> Cut {
        let component = self.component();
        let env = vec![("STORE".to_owned(), self.store().into_os_string())];
        let line = Line::of(&self.git().branch().unwrap(), &component.versions.branch_template).unwrap();
        let key = self.folder.path().join("key");
        Cut {
            bundle: self.bundle(),
            version: manifest::version(&self.root()).unwrap(),
            commit: self.git().head().unwrap(),
            line,
            git: self.git(),
            remote: "origin".into(),
            github: self.client(),
            registry: Registry::new(
                &component.image_repository(),
                self.folder.path().join("oras"),
                env.clone(),
            ),
            signer: Signer::new(
                self.folder.path().join("cosign"),
                Means::Key { private: key.clone(), public: key },
                env,
            ),
            component,
            owner: owner.into(),
            take_over: None,
            halt_after: None,
            halt_in: None,
        }
    }

    /// Lets the remote refuse every push of a ref that begins with this.
    pub(crate) fn refuse(&self, prefix: Option<&str>) {
        let hook = self.remote().join("hooks/pre-receive");
        match prefix {
            None => std::fs::remove_file(hook).unwrap(),
            Some(prefix) => {
                let text = format!(
                    "#!/bin/sh\nwhile read -r old new ref; do case \"$ref\" in {prefix}*) echo protected >&2; exit 1;; esac; done\n"
                );
                std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
                std::fs::write(&hook, text).unwrap();
                std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }

    /// All refs of the remote, `name commit`.
    pub(crate) fn refs(&self) -> Vec<String> {
        let said =
            Git::new(&self.remote()).ask(["for-each-ref", "--format=%(refname) %(objectname)"]).unwrap();
        said.lines().map(str::to_owned).collect()
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

fn who(git: &Git, name: &str) {
    for (key, value) in [
        ("user.name", name),
        ("user.email", "maintainer@example.org"),
        ("commit.gpgsign", "false"),
        ("tag.gpgsign", "false"),
        ("core.hooksPath", "/dev/null"),
    ] {
        git.ask(["config", key, value]).unwrap();
    }
}
