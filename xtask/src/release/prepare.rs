// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The commit that a release is made of: its version in the manifests and what repeats it, its section in the changelog.
//! Changes the clone alone; nothing is pushed.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use super::changelog;
use super::git::Git;
use super::manifest;
use super::plan::Plan;
use super::version::Version;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// The commit was made.
    Now(String),
    /// It was there: the checked-out commit.
    Before(String),
}

/// The subject of the commit.
pub(crate) fn subject(version: Version) -> String {
    format!("release: {}", version.tag())
}

/// Makes the commit for `plan` in the clone at `root`, with `date` (`YYYY-MM-DD`) in the changelog.
///
/// # Errors
/// Something stands in the way, and nothing was changed; or a file cannot be written or committed.
pub(crate) fn run(root: &Path, git: &Git, plan: &Plan, date: &str) -> Result<Prepared> {
    if !plan.obstacles.is_empty() {
        bail!(
            "{} cannot be prepared: {}; mend that and run it again, nothing was changed",
            plan.version.tag(),
            plan.obstacles.join("; ")
        );
    }
    let read = |path: &str| {
        let path = root.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let text = read(changelog::PATH)?;
    if plan.prepared {
        if changelog::released(&text, plan.version).is_none() {
            bail!(
                "Cargo.toml says {}, and {} has no section for it; set the version back to {}-dev and run it again",
                plan.version,
                changelog::PATH,
                plan.version
            );
        }
        return Ok(Prepared::Before(plan.commit.clone()));
    }
    let mut files = manifest::with_version(plan.version, read)?;
    files.push((changelog::PATH, changelog::cut(&text, plan.version, date)?));
    for (path, text) in &files {
        let path = root.join(path);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    git.record(&paths, &subject(plan.version)).with_context(|| {
        format!("commit {}; put the files back with: git restore --staged --worktree .", paths.join(", "))
    })?;
    Ok(Prepared::Now(git.head()?))
}

/// Today, `YYYY-MM-DD`, in UTC.
pub(crate) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::policy::Bump;
    use super::super::scene::Scene;
    use super::*;

    fn prepare(scene: &Scene) -> Result<Prepared> {
        run(&scene.root(), &scene.git(), &Plan::make(&scene.root(), None)?, "2026-05-06")
    }

    #[test]
    fn a_release_is_one_commit_with_its_version_and_its_changelog() {
        let scene = Scene::new("0.1.0-dev");
        let before = scene.git().head().unwrap();
        let Prepared::Now(commit) = prepare(&scene).unwrap() else { panic!("not made") };
        assert_eq!(scene.git().commit("HEAD~1").unwrap(), before);
        assert_eq!(scene.git().changes().unwrap(), Vec::<String>::new());
        assert_eq!(manifest::version(&scene.root()).unwrap().to_string(), "0.1.0");
        assert_eq!(manifest::disagreeing(&scene.root()).unwrap(), Vec::<&str>::new());
        assert!(scene.read(changelog::PATH).contains("## [0.1.0] - 2026-05-06\n\n### Added\n- a thing"));
        // Once more: it is there.
        assert_eq!(prepare(&scene).unwrap(), Prepared::Before(commit));
    }

    #[test]
    fn a_dirty_tree_a_wrong_branch_and_an_empty_changelog_stop_it_before_anything_changed() {
        let scene = Scene::new("0.1.0-dev");
        let head = scene.git().head().unwrap();
        let refused = |why: &str| {
            let error = format!("{:#}", prepare(&scene).unwrap_err());
            assert!(error.contains(why), "{error}");
            assert_eq!(scene.git().head().unwrap(), head);
            assert!(scene.read("Cargo.toml").contains("0.1.0-dev"));
        };
        scene.write("new", "x");
        refused("the tree is dirty");
        std::fs::remove_file(scene.root().join("new")).unwrap();
        scene.git().ask(["switch", "--quiet", "--create", "feature"]).unwrap();
        refused("wrong branch");
        scene.git().ask(["switch", "--quiet", "main"]).unwrap();
        let error = Plan::make(&scene.root(), Some(Bump::Patch)).unwrap_err().to_string();
        assert!(error.contains("wrong branch for a patch release"), "{error}");
        scene.write(changelog::PATH, "# Changelog\n\n## [Unreleased]\n");
        let head = scene.commit("empty");
        let error = format!("{:#}", prepare(&scene).unwrap_err());
        assert!(error.contains("no entry"), "{error}");
        assert_eq!(scene.git().head().unwrap(), head);
    }

    #[test]
    fn a_plan_names_what_came_since_the_release_before_and_changes_nothing() {
        let scene = Scene::new("0.1.0-dev");
        prepare(&scene).unwrap();
        scene.git().tag("v0.1.0", "HEAD", "v0.1.0").unwrap_err();
        let head = scene.git().head().unwrap();
        scene.git().tag("v0.1.0", &head, "v0.1.0").unwrap();
        for (path, text) in
            manifest::with_version("0.2.0-dev".parse().unwrap(), |path| Ok(scene.read(path))).unwrap()
        {
            scene.write(path, &text);
        }
        scene.commit("a change");
        let plan = Plan::make(&scene.root(), Some(Bump::Minor)).unwrap();
        assert_eq!((plan.version.tag(), plan.since), ("v0.2.0".into(), Some("v0.1.0".into())));
        assert_eq!(plan.commits.len(), 1);
        assert_eq!(plan.supported, ["0.2", "0.1"]);
        assert_eq!(plan.obstacles, ["CHANGELOG.md has no entry for it"]);
        assert_eq!(scene.git().changes().unwrap(), Vec::<String>::new());
    }
}
