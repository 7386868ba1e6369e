// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cut` step by step on a double of the registry and of GitHub: what is done, what is done again, what is refused.
use super::super::double::Faults;
use super::super::scene::{Scene, TOKEN};
use super::super::{git::Swap, manifest};
use super::*;

fn run(scene: &Scene) -> Result<Vec<(Step, bool)>> {
    run_as(&scene.cut("one"))
}

/// What was told of each step, and whether it was done before.
fn run_as(cut: &Cut) -> Result<Vec<(Step, bool)>> {
    let states = cut.survey()?;
    let mut told = Vec::new();
    cut.execute(states, &mut |step, state, before| {
        if matches!(state, State::Done(_)) {
            told.push((step, before));
        }
    })?;
    Ok(told)
}

fn at(scene: &Scene, name: &str) -> Option<String> {
    scene.git().remote("origin", name).unwrap()
}

fn refused(result: Result<Vec<(Step, bool)>>, words: &[&str]) -> String {
    let error = format!("{:#}", result.unwrap_err());
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    assert!(!error.contains(TOKEN), "{error}");
    error
}

#[test]
fn a_minor_release_is_out_whole_and_a_second_run_has_nothing_to_do() {
    let scene = Scene::built();
    let commit = scene.git().head().unwrap();
    let told = run(&scene).unwrap();
    assert_eq!(told, Step::ALL.map(|step| (step, false)));

    assert_eq!(scene.git().remote_tag("origin", "v0.1.0").unwrap().as_deref(), Some(&*commit));
    assert_ne!(at(&scene, "refs/tags/v0.1.0").unwrap(), commit, "the tag is annotated");
    for (branch, version) in [("main", "0.2.0-dev"), ("release-v0.1", "0.1.1-dev")] {
        let tip = scene.git().fetch("origin", &format!("refs/heads/{branch}")).unwrap().unwrap();
        assert!(scene.git().is_ancestor(&commit, &tip).unwrap());
        assert_eq!(
            manifest::of(&scene.git().file(&tip, "Cargo.toml").unwrap()).unwrap().to_string(),
            version
        );
        assert_eq!(scene.git().ask(["rev-list", "--count", &format!("{commit}..{tip}")]).unwrap(), "1");
    }
    assert_eq!(at(&scene, "refs/release/lock"), None);
    assert_eq!(scene.github.releases(), [("v0.1.0".to_owned(), false)]);
    let files = scene.github.downloads("v0.1.0");
    assert!(
        files.contains_key("component-descriptor.yaml") && files.contains_key("SHA256SUMS.sigstore.json")
    );
    // The clone is where it was.
    assert_eq!(scene.git().head().unwrap(), commit);
    assert_eq!(scene.git().changes().unwrap(), Vec::<String>::new());

    let (refs, calls) = (scene.refs(), scene.github.calls().len());
    let states = scene.cut("one").survey().unwrap();
    assert!(Cut::is_done(&states), "{states:?}");
    assert_eq!(scene.refs(), refs);
    let written = |call: &String| !call.starts_with("GET");
    assert!(!scene.github.calls()[calls..].iter().any(written));
}

#[test]
fn a_patch_release_leaves_main_alone_and_is_not_the_latest() {
    let scene = Scene::built();
    run(&scene).unwrap();
    let main = at(&scene, "refs/heads/main").unwrap();
    scene.git().ask(["fetch", "--quiet", "origin"]).unwrap();
    scene.git().ask(["switch", "--quiet", "release-v0.1"]).unwrap();
    let text = scene.read("CHANGELOG.md").replace("[Unreleased]\n", "[Unreleased]\n\n- a mended thing\n");
    scene.write("CHANGELOG.md", &text);
    scene.commit("mend a thing");
    // A newer minor is out meanwhile.
    let tag = scene.git().tag("v0.2.0", &main, "v0.2.0").unwrap();
    let swap = Swap { name: "refs/tags/v0.2.0".into(), from: None, to: Some(tag) };
    scene.git().swap("origin", &[swap]).unwrap();
    scene.prepare();
    scene.build(&crate::arch::Arch::ALL, &[]);
    let commit = scene.git().head().unwrap();
    run(&scene).unwrap();
    assert_eq!(scene.git().remote_tag("origin", "v0.1.1").unwrap(), Some(commit));
    assert_eq!(at(&scene, "refs/heads/main").unwrap(), main);
    let tip = scene.git().fetch("origin", "refs/heads/release-v0.1").unwrap().unwrap();
    assert!(scene.git().file(&tip, "Cargo.toml").unwrap().contains("0.1.2-dev"));
}

#[test]
fn a_refused_push_leaves_nothing_with_a_name_and_is_continued() {
    let scene = Scene::built();
    scene.refuse(Some("refs/release/"));
    let before = scene.refs();
    refused(run(&scene), &["step `lock`", "origin", "protected", CONTINUE]);
    assert_eq!(scene.refs(), before);
    assert!(scene.github.releases().is_empty());

    scene.refuse(Some("refs/heads/main"));
    refused(run(&scene), &["step `refs`", "pull request", CONTINUE]);
    // All or none: neither branch nor tag came without main.
    let now: Vec<String> = scene.refs().into_iter().filter(|one| !one.starts_with("refs/release/")).collect();
    assert_eq!(now, before);
    assert_eq!(scene.github.releases(), [("v0.1.0".to_owned(), true)]);

    scene.refuse(None);
    let told = run(&scene).unwrap();
    let before: Vec<Step> = told.into_iter().filter(|(_, before)| *before).map(|(step, _)| step).collect();
    assert_eq!(before, [Step::Lock, Step::Draft, Step::Images, Step::Sign]);
}

#[test]
fn a_registry_that_breaks_off_or_is_not_there_stops_the_cut_before_anything_is_out() {
    let scene = Scene::built();
    let mark = |name: &str| scene.store().join(name);
    std::fs::write(mark("gone"), "").unwrap();
    refused(run(&scene), &["step `images`", "connection refused", "log in"]);
    assert_eq!(at(&scene, "refs/release/lock"), None, "it stopped before the first step");
    std::fs::remove_file(mark("gone")).unwrap();
    std::fs::write(mark("broken"), "").unwrap();
    refused(run(&scene), &["step `images`", "connection reset", CONTINUE]);
    assert_eq!(scene.git().remote_tag("origin", "v0.1.0").unwrap(), None);
    std::fs::remove_file(mark("broken")).unwrap();
    run(&scene).unwrap();
}

#[test]
fn of_two_cuts_at_once_the_second_is_refused_until_it_takes_over() {
    let scene = Scene::built();
    let first = scene.cut("first");
    lock::act(&first).unwrap();
    refused(
        run_as(&scene.cut("second")),
        &["another cut holds the lock", "owner: first", "A Maintainer", "--take-over"],
    );
    assert!(scene.github.releases().is_empty());
    let object = at(&scene, "refs/release/lock").unwrap();
    // A wrong name takes nothing over.
    let wrong = Cut { take_over: Some("0123456789ab".into()), ..scene.cut("second") };
    refused(run_as(&wrong), &["another cut holds the lock"]);
    let second = Cut { take_over: Some(object[..12].to_owned()), ..scene.cut("second") };
    run_as(&second).unwrap();
    let states = first.survey().unwrap();
    assert!(Cut::is_done(&states), "{states:?}");
}

#[test]
fn the_lock_is_made_only_where_there_is_none() {
    let scene = Scene::built();
    let (one, two) = (scene.git().note("one").unwrap(), scene.git().note("two").unwrap());
    let claim = |to: &str, from: Option<&str>| {
        let swap =
            Swap { name: "refs/release/lock".into(), from: from.map(str::to_owned), to: Some(to.into()) };
        scene.git().swap("origin", &[swap])
    };
    claim(&one, None).unwrap();
    claim(&two, None).unwrap_err();
    assert_eq!(at(&scene, "refs/release/lock").as_deref(), Some(&*one));
    claim(&two, Some(&two)).unwrap_err();
    claim(&two, Some(&one)).unwrap();
}

#[test]
fn two_cuts_of_one_clone_do_not_run_at_once() {
    let scene = Scene::built();
    let held = alone(&scene.target()).unwrap();
    let error = alone(&scene.target()).unwrap_err().to_string();
    assert!(error.contains("another cut runs in this clone"), "{error}");
    drop(held);
    alone(&scene.target()).unwrap();
}

#[test]
fn a_tag_with_other_content_is_never_moved() {
    let scene = Scene::built();
    let main = at(&scene, "refs/heads/main").unwrap();
    let tag = scene.git().tag("v0.1.0", &main, "somebody's").unwrap();
    let swap = Swap { name: "refs/tags/v0.1.0".into(), from: None, to: Some(tag.clone()) };
    scene.git().swap("origin", &[swap]).unwrap();
    refused(run(&scene), &["tag v0.1.0 of this clone", "git tag -d v0.1.0"]);
    scene.git().ask(["tag", "--delete", "v0.1.0"]).unwrap();
    refused(run(&scene), &["tag v0.1.0 of origin", "never moved", "next version"]);
    assert_eq!(at(&scene, "refs/tags/v0.1.0"), Some(tag));
    assert_eq!(at(&scene, "refs/release/lock"), None);
    assert!(scene.github.releases().is_empty());
}

#[test]
fn an_image_tag_with_other_content_is_never_moved() {
    let scene = Scene::built();
    let cut = scene.cut("one");
    let other = crate::image::Digest::of(b"other");
    cut.registry.tag(&other, "v0.1.0").unwrap();
    refused(run(&scene), &["step `image-tag`", "is another image", "never moved"]);
    assert_eq!(cut.registry.tagged("v0.1.0").unwrap(), Some(other));
    assert_eq!(at(&scene, "refs/release/lock"), None);
}

#[test]
fn a_token_that_lacks_a_right_stops_the_cut_before_anything_has_a_name() {
    let scene = Scene::built();
    let refs = scene.refs();
    scene.github.fail(Faults { read_only: true, ..Faults::default() });
    refused(run(&scene), &["may read", "contents: write"]);
    assert_eq!(scene.refs(), refs);
    // A token of a workflow's run shows what it lacks only when it writes: at the draft.
    scene.github.fail(Faults { refused: Some("POST"), ..Faults::default() });
    refused(run(&scene), &["step `draft`", "403", "contents: write", CONTINUE]);
    assert_eq!(scene.git().remote_tag("origin", "v0.1.0").unwrap(), None);
    let none = Cut {
        github: Client::new(&scene.github.url(), "gardener/etcd-wrapper", None).unwrap(),
        ..scene.cut("one")
    };
    refused(run_as(&none), &["GITHUB_TOKEN"]);
    scene.github.fail(Faults::default());
    run(&scene).unwrap();
}

#[test]
fn without_network_nothing_is_begun_and_the_place_is_named() {
    let scene = Scene::built();
    let nowhere = Cut { remote: scene.root().join("nowhere.git").display().to_string(), ..scene.cut("one") };
    refused(run_as(&nowhere), &["reach the remote", "git ls-remote"]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let github =
        Client::new(&format!("http://127.0.0.1:{port}"), "gardener/etcd-wrapper", Some(TOKEN.into()));
    refused(run_as(&Cut { github: github.unwrap(), ..scene.cut("one") }), &["no answer", "GITHUB_API_URL"]);
    assert_eq!(at(&scene, "refs/release/lock"), None);
}

#[test]
fn an_upload_that_was_cut_off_is_made_anew() {
    let scene = Scene::built();
    scene.github.fail(Faults { cut_off: true, ..Faults::default() });
    refused(run(&scene), &["step `assets`", "upload", "502", CONTINUE]);
    assert_eq!(scene.github.releases(), [("v0.1.0".to_owned(), true)]);
    run(&scene).unwrap();
    let files = scene.github.downloads("v0.1.0");
    for name in scene.bundle().assets().unwrap() {
        assert_eq!(files[&name], scene.bundle().read(&name).unwrap(), "{name}");
    }
}

#[test]
fn files_of_a_published_release_are_not_touched() {
    let scene = Scene::built();
    run(&scene).unwrap();
    scene.bundle().write("release.json", b"{}").unwrap();
    let calls = scene.github.calls().len();
    refused(run(&scene), &["step `assets`", "published with other files: release.json"]);
    assert!(scene.github.calls()[calls..].iter().all(|call| call.starts_with("GET")));
}

#[test]
fn a_branch_that_moved_on_is_told_before_the_first_step() {
    let scene = Scene::built();
    let main = at(&scene, "refs/heads/main").unwrap();
    let files = [("other", "x".to_owned())];
    let moved = scene.git().graft(&main, &files, "somebody's").unwrap();
    let swap = Swap { name: "refs/heads/main".into(), from: Some(main), to: Some(moved) };
    scene.git().swap("origin", &[swap]).unwrap();
    refused(run(&scene), &["step `refs`", "moved on", "git pull --rebase"]);
    assert_eq!(at(&scene, "refs/release/lock"), None);
}

#[test]
fn work_that_came_to_main_during_the_cut_is_kept() {
    let scene = Scene::built();
    let cut = scene.cut("one");
    let commit = cut.commit.clone();
    let moved = std::cell::Cell::new(false);
    cut.execute(cut.survey().unwrap(), &mut |step, state, _| {
        if step == Step::Publish && matches!(state, State::Done(_)) {
            let files = [("other", "x".to_owned())];
            let tip = scene.git().graft(&commit, &files, "somebody's").unwrap();
            let swap = Swap { name: "refs/heads/main".into(), from: Some(commit.clone()), to: Some(tip) };
            scene.git().swap("origin", &[swap]).unwrap();
            moved.set(true);
        }
    })
    .unwrap();
    assert!(moved.get());
    let tip = scene.git().fetch("origin", "refs/heads/main").unwrap().unwrap();
    assert_eq!(scene.git().file(&tip, "other").unwrap(), "x");
    assert!(scene.git().file(&tip, "Cargo.toml").unwrap().contains("0.2.0-dev"));
}
