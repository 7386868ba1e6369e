// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What `check` says of a release that lacks something, or has another label.
use super::super::double::Faults;
use super::super::scene::Scene;
use super::super::{bundle as folder, document, git::Swap};
use super::*;
use crate::arch::Arch;

/// All findings, as text; a rehearsal's, since planted reports are the doubles'.
fn found(scene: &Scene, rehearsal: bool) -> Vec<String> {
    let client = scene.client();
    let (root, target) = (scene.root(), scene.target());
    let subject =
        Subject { root: &root, target: &target, remote: Some("origin"), github: Some(&client), rehearsal };
    run(&subject).unwrap().findings.iter().map(ToString::to_string).collect()
}

fn only(scene: &Scene, part: &str) {
    let found = found(scene, true);
    assert!(!found.is_empty(), "{part} was not missed");
    assert!(found.iter().all(|one| one.starts_with(&format!("{part}: "))), "{part}: {found:#?}");
}

/// Changes a file of the release, with sums that agree.
fn change(scene: &Scene, name: &str, from: &str, to: &str) {
    let bundle = scene.bundle();
    let text = String::from_utf8(bundle.read(name).unwrap()).unwrap();
    assert!(text.contains(from), "{from} is not in {name}:\n{text}");
    bundle.write(name, text.replace(from, to).as_bytes()).unwrap();
    bundle.write_sums().unwrap();
}

#[test]
fn a_whole_release_is_found_whole_and_one_with_doubles_is_none() {
    let scene = Scene::built();
    assert_eq!(found(&scene, true), Vec::<String>::new());
    let found = found(&scene, false);
    assert!(found.iter().all(|one| one.starts_with("e2e-report: ")) && found.len() == 3, "{found:#?}");
}

#[test]
fn k3_a_part_that_is_missing_is_named() {
    let scene = Scene::built();
    scene.build(&[Arch::Amd64], &[]);
    only(&scene, "image linux/arm64");
    for (kind, name) in document::WANTED {
        scene.build(&Arch::ALL, &[kind]);
        only(&scene, name);
    }
    scene.build(&Arch::ALL, &[]);
    let evidence = scene.root().join("../evidence");
    for (folder, name) in [("tests", "test-results"), ("sast", "sast-report"), ("e2e", "e2e-report")] {
        let (here, away) = (evidence.join(folder), evidence.join("away"));
        std::fs::rename(&here, &away).unwrap();
        rebuild(&scene);
        only(&scene, name);
        std::fs::rename(&away, &here).unwrap();
    }
}

/// Builds again from what was planted before.
fn rebuild(scene: &Scene) {
    let (root, target) = (scene.root(), scene.target());
    let evidence = root.join("../evidence");
    let image = crate::image::Layout::open(&root.join("../planted")).unwrap();
    build::run(&build::Inputs { root: &root, target: &target, image: &image, evidence: Some(&evidence) })
        .unwrap();
}

#[test]
fn k2_a_label_that_was_removed_or_changed_is_named() {
    let scene = Scene::built();
    change(&scene, folder::DESCRIPTOR, "network_exposure: protected", "network_exposure: private");
    only(&scene, "label gardener.cloud/cve-categorisation");
    rebuild(&scene);
    change(&scene, folder::DESCRIPTOR, "gardener.cloud/cve-categorisation", "gardener.cloud/other");
    let found = found(&scene, true);
    assert!(found.iter().any(|one| one.contains("the image in the descriptor lacks it")), "{found:#?}");
    assert!(found.iter().any(|one| one.starts_with("cve categorisation: ")), "{found:#?}");
    rebuild(&scene);
    change(&scene, folder::DESCRIPTOR, "cloud.gardener.cnudie/responsibles", "cloud.gardener.cnudie/nobody");
    only(&scene, "responsibles");
}

#[test]
fn a_descriptor_that_breaks_the_models_schema_is_named() {
    let scene = Scene::built();
    change(&scene, folder::DESCRIPTOR, "relation: local", "relation: nearby");
    only(&scene, "component-descriptor");
    assert!(found(&scene, true)[0].contains("against the schema"));
}

#[test]
fn a_file_that_was_changed_added_or_removed_after_the_build_is_named() {
    let scene = Scene::built();
    let bundle = scene.bundle();
    bundle.write("surplus", b"x").unwrap();
    bundle.write(folder::NOTES, b"other").unwrap();
    std::fs::remove_file(bundle.transport()).unwrap();
    let found = found(&scene, true).join("\n");
    for wrong in
        ["surplus is not in", "release-notes.md was changed", "ctf.tar is missing", "transport archive"]
    {
        assert!(found.contains(wrong), "{wrong}: {found}");
    }
}

#[test]
fn a_blob_of_the_image_with_another_byte_is_named() {
    let scene = Scene::built();
    let layout = scene.bundle().layout().unwrap();
    let one = layout.index().unwrap().manifests[1].clone();
    let manifest: crate::image::oci::Manifest = layout.document(&one).unwrap();
    let path = layout.blob(&manifest.layers[0].digest);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    only(&scene, "image linux/arm64");
}

#[test]
fn a_tag_that_moved_here_or_at_the_remote_is_named() {
    let scene = Scene::built();
    let other = scene.git().commit("HEAD~1").unwrap();
    let tag = scene.git().tag("v0.1.0", &other, "other").unwrap();
    only(&scene, "tag");
    let swap = Swap { name: "refs/tags/v0.1.0".into(), from: None, to: Some(tag) };
    scene.git().swap("origin", &[swap]).unwrap();
    scene.git().ask(["tag", "--delete", "v0.1.0"]).unwrap();
    only(&scene, "tag");
}

#[test]
fn a_tree_that_is_not_the_releases_is_named() {
    let scene = Scene::built();
    scene.write("new", "x");
    let found_dirty = found(&scene, true).join("\n");
    assert!(found_dirty.contains("tree: dirty"), "{found_dirty}");
    scene.commit("more");
    let found_moved = found(&scene, true).join("\n");
    assert!(found_moved.contains("files: they are of commit"), "{found_moved}");
    scene.git().ask(["reset", "--hard", "--quiet", "HEAD~1"]).unwrap();
    scene.git().ask(["switch", "--quiet", "--create", "feature"]).unwrap();
    only(&scene, "branch");
    let scene = Scene::new("0.1.0-dev");
    let found = found(&scene, true).join("\n");
    assert!(
        found.contains("version: Cargo.toml says 0.1.0-dev") && found.contains("files: there is no"),
        "{found}"
    );
}

#[test]
fn a_commit_whose_ci_is_red_is_named() {
    let scene = Scene::built();
    scene.github.fail(Faults { checks: Some("failure"), ..Faults::default() });
    only(&scene, "ci");
}
