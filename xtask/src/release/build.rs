// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Puts a release together in its folder: the image, what is said of it, the reports, the descriptor, the transport
//! archive, the sums. The same commit, image and reports give the same bytes. Publishes nothing and judges nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::bundle::{self, Bundle, Summary};
use super::changelog;
use super::component::Component;
use super::descriptor::{Blob, Descriptor, Parts};
use super::document::Document;
use super::evidence::{self, Kind};
use super::git::Git;
use super::transport;
use super::version::Version;
use crate::image::{Digest, Layout, export};

/// What a release is put together from.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) root: &'a Path,
    pub(crate) target: &'a Path,
    /// The layout of the image; it is copied.
    pub(crate) image: &'a Layout,
    /// Folder with reports.
    pub(crate) evidence: Option<&'a Path>,
}

/// Puts it together, anew, and says which reports were not there.
///
/// # Errors
/// The tree is not that of a prepared release, or a part cannot be read or written; the folder that was there before stays.
pub(crate) fn run(inputs: &Inputs<'_>) -> Result<(Bundle, Vec<Kind>)> {
    let root = inputs.root;
    let component = Component::read(root)?;
    let git = Git::new(root);
    let version = prepared(root)?;
    let commit = git.head()?;
    let created = rfc3339(git.time(&commit)?);

    let done = Bundle::of(inputs.target, component.short(), version);
    let bundle = Bundle { path: inputs.target.join(format!(".release-{version}.new")), ..done.clone() };
    remove(&bundle.path)?;
    std::fs::create_dir_all(&bundle.path).with_context(|| format!("create {}", bundle.path.display()))?;
    export::copy(inputs.image, &bundle.image())?;
    let layout = bundle.layout()?;

    let mut blobs = Vec::new();
    for document in Document::all(&layout)? {
        let file = bundle.file_name(&document.ending);
        bundle.write(&file, &layout.bytes(&document.blob)?)?;
        blobs.push(blob(&bundle, &document.name, document.kind, &document.blob.media_type, file, &[])?);
    }
    let text = std::fs::read_to_string(root.join(changelog::PATH)).context("read the changelog")?;
    let section = changelog::released(&text, version).context("the changelog lost its section")?;
    bundle.write(bundle::NOTES, format!("{}\n", section.body).as_bytes())?;
    blobs.push(blob(&bundle, "release-notes", "blob", "text/markdown", bundle::NOTES.into(), &[])?);
    let absent = evidence::copy(inputs.evidence, &bundle)?;
    for kind in Kind::ALL.into_iter().filter(|kind| !absent.contains(kind)) {
        let file = bundle.evidence_archive(kind);
        blobs.push(blob(&bundle, kind.resource(), "blob", "application/x-tar", file, kind.purposes())?);
    }

    let descriptor = Descriptor::make(&Parts {
        component: &component,
        version,
        commit: &commit,
        created: &created,
        image: &layout.digest,
        blobs: &blobs,
    })
    .to_yaml()?;
    bundle.write(bundle::DESCRIPTOR, descriptor.as_bytes())?;
    transport::write(
        &transport::Contents {
            component: &component.name,
            tag: &version.tag(),
            descriptor: &descriptor,
            folder: &bundle.path,
            blobs: &blobs,
            repository: &component.image_repository(),
            layout: &layout,
        },
        &bundle.transport(),
    )?;
    let architectures = layout.index()?.manifests.into_iter().filter_map(|one| one.platform);
    bundle.write_summary(&Summary {
        component: component.name,
        version: version.to_string(),
        commit,
        image: layout.digest.to_string(),
        architectures: architectures.map(|platform| platform.architecture).collect(),
        absent: absent.iter().map(|kind| kind.resource().to_owned()).collect(),
    })?;
    bundle.write_sums()?;
    // What was signed before was signed over other sums, or will be found to be good again.
    keep_signature(&done, &bundle)?;
    remove(&done.path)?;
    std::fs::rename(&bundle.path, &done.path)
        .with_context(|| format!("rename to {}", done.path.display()))?;
    Ok((done, absent))
}

/// The version of a tree that is prepared for a release.
///
/// # Errors
/// It is still worked on, the changelog has no section for it, or the tree has changes.
pub(crate) fn prepared(root: &Path) -> Result<Version> {
    let version = super::manifest::version(root)?;
    let path = root.join(changelog::PATH);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    if version.dev || changelog::released(&text, version).is_none() {
        bail!(
            "Cargo.toml says {version}, and {} has no release of it; make the commit: cargo xtask release prepare",
            changelog::PATH
        );
    }
    let changes = Git::new(root).changes()?;
    if let Some(first) = changes.first() {
        bail!(
            "the tree is dirty: {} changes, such as {first:?}; a release is made of a commit: commit or git stash them",
            changes.len()
        );
    }
    Ok(version)
}

fn blob(
    bundle: &Bundle,
    name: &str,
    kind: &str,
    media_type: &str,
    file: String,
    purposes: &[&str],
) -> Result<Blob> {
    let path = bundle.path.join(&file);
    let size = path.metadata().with_context(|| format!("look at {}", path.display()))?.len();
    Ok(Blob {
        name: name.into(),
        kind: kind.into(),
        media_type: media_type.into(),
        digest: Digest::of_file(&path)?,
        size,
        file,
        purposes: purposes.iter().map(|purpose| (*purpose).to_owned()).collect(),
    })
}

fn keep_signature(from: &Bundle, to: &Bundle) -> Result<()> {
    let (old, new) = (from.path.join(bundle::SIGNATURE), from.path.join(bundle::SUMS));
    if old.is_file() && new.is_file() && from.read(bundle::SUMS)? == to.read(bundle::SUMS)? {
        to.write(bundle::SIGNATURE, &from.read(bundle::SIGNATURE)?)?;
    }
    Ok(())
}

fn remove(path: &PathBuf) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("remove {}", path.display())),
    }
}

/// Seconds since 1970 as a date and time in UTC.
fn rfc3339(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;
    use crate::arch::Arch;

    fn build(scene: &Scene, target: &Path, evidence: Option<&Path>) -> Result<(Bundle, Vec<Kind>)> {
        let image = Layout::open(&scene.root().join("../planted")).unwrap();
        run(&Inputs { root: &scene.root(), target, image: &image, evidence })
    }

    #[test]
    fn reports_that_are_not_there_are_named_and_those_of_several_jobs_are_kept_apart() {
        let scene = Scene::built();
        let (bundle, absent) = build(&scene, &scene.target(), None).unwrap();
        assert_eq!(absent, Kind::ALL);
        assert_eq!(bundle.summary().unwrap().absent, ["test-results", "sast-report", "e2e-report"]);
        let evidence = scene.root().join("../jobs");
        for (path, text) in
            [("e2e-a/results.json", "a"), ("e2e-b/results.json", "b"), ("tests/x/junit.xml", "c")]
        {
            let path = evidence.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (bundle, absent) = build(&scene, &scene.target(), Some(&evidence)).unwrap();
        assert_eq!(absent, [Kind::Sast]);
        let read =
            |kind: Kind, path: &str| std::fs::read_to_string(bundle.evidence(kind).join(path)).unwrap();
        assert_eq!(read(Kind::E2e, "e2e-a/results.json") + &read(Kind::E2e, "e2e-b/results.json"), "ab");
        assert_eq!(read(Kind::Tests, "x/junit.xml"), "c");
        build(&scene, &scene.target(), Some(Path::new("/no/such/folder"))).unwrap_err();
    }

    #[test]
    fn the_same_commit_gives_the_same_bytes_and_what_is_not_prepared_is_not_built() {
        let scene = Scene::built();
        let evidence = scene.root().join("../evidence");
        let other = tempfile::tempdir().unwrap();
        let (one, _) = build(&scene, &scene.target(), Some(&evidence)).unwrap();
        let (two, _) = build(&scene, other.path(), Some(&evidence)).unwrap();
        for name in one.assets().unwrap() {
            assert_eq!(one.read(&name).unwrap(), two.read(&name).unwrap(), "{name}");
        }
        assert_eq!(one.assets().unwrap(), two.assets().unwrap());
        scene.write("new", "x");
        let error = build(&scene, &scene.target(), None).unwrap_err().to_string();
        assert!(error.contains("dirty"), "{error}");
        let scene = Scene::new("0.1.0-dev");
        let error = prepared(&scene.root()).unwrap_err().to_string();
        assert!(error.contains("release prepare"), "{error}");
    }

    #[test]
    fn a_build_for_one_architecture_says_so() {
        let scene = Scene::built();
        scene.build(&[Arch::Arm64], &[]);
        assert_eq!(scene.bundle().summary().unwrap().architectures, ["arm64"]);
    }
}
