// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs that change something, from the command line to the member.
use doubles::etcd::Script;
use doubles::sidecar::{Reply, Route};
use doubles::wait::{self, Poll};

use super::{client, command, said, start_leading};
use crate::scene::{LONG, SECOND, Scene};

fn started() -> Scene {
    Scene::scripted(Script::default())
}

#[test]
fn stop_start_and_restart_are_carried_out_and_waited_for() {
    let scene = started();
    let wrapper = scene.start_ready();
    let first = wrapper.etcd_pid();
    let said = client(&scene, &["stop", "--wait=30s", "--reason=a test", "--guard=none"]).ended(0);
    assert!(said.out.starts_with("stop op-") && said.out.contains("succeeded"), "{said:?}");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "stopped");
    assert!(client(&scene, &["stop", "--wait=1s"]).ended(0).out.contains("nothing to do"));
    client(&scene, &["start", "--wait=30s", "--validation=sanity"]).ended(0);
    assert_eq!(scene.sidecar().modes().last().map(String::as_str), Some("sanity"));
    assert_ne!(wrapper.etcd_pid(), first);
    let document = client(&scene, &["restart", "--wait=30s", "-o=json", "--if-generation=2"]).ended(0).json();
    assert_eq!((&document["status"], &document["result"]["generation"]), (&"succeeded".into(), &3.into()));
}

#[test]
fn a_given_configuration_is_posted_from_a_file_and_from_stdin() {
    let scene = started().flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let yaml = scene.config().render(scene.member(), None, false).unwrap();
    let path = scene.path().join("etcd.yaml");
    std::fs::write(&path, &yaml).unwrap();
    let config = format!("--config={}", path.display());
    let hold = ["--ready=hold", "--owner=backup restore & co", "--reason=it's a test"];
    client(&scene, &[&["start", &config, "--wait=30s"][..], &hold].concat()).ended(0);
    let status = wrapper.status();
    assert_eq!(status["etcd"]["configSource"], "posted");
    assert_eq!(status["readiness"]["override"]["owner"], "backup restore & co");
    assert!(scene.sidecar().modes().is_empty(), "the caller answers for the data");

    let mut again = command(&scene, &["start", "--config=-", "--owner=backup restore & co"]);
    again.stdin(std::fs::File::open(&path).unwrap());
    assert!(said(again).ended(0).out.contains("nothing to do"), "the same bytes, the same digest");
    std::fs::write(&path, yaml.replace("data-dir:", "data-dri:")).unwrap();
    let refused = client(&scene, &["start", &config]).ended(1);
    assert!(refused.err.contains("/data-dir") && refused.err.contains("data-dri"), "{refused:?}");
    let said = client(&scene, &["start", "--config=/no/such.yaml"]).ended(1);
    assert!(said.err.contains("/no/such.yaml"), "{said:?}");
}

#[test]
fn readiness_is_overridden_shown_and_given_back() {
    let scene = started();
    let wrapper = scene.start_ready();
    let unready = ["unready", "--owner=a", "--ttl=none", "--reason=a restore"];
    assert!(client(&scene, &unready).ended(0).out.contains("override unready by a: a restore"));
    assert_eq!(wrapper.wait_readyz(LONG, 503).header("etcd-wrapper-reason"), Some("override"));
    client(&scene, &["ready"]).ended(4);
    let refused = client(&scene, &["unready", "--owner=b", "--ttl=10s"]).ended(1);
    assert!(refused.err.contains("override_held"), "{refused:?}");
    client(&scene, &["unready", "--owner=b", "--ttl=10s", "--force"]).ended(0);
    assert_eq!(client(&scene, &["ready", "--clear"]).ended(0).out, "ready\n");
    assert!(
        client(&scene, &["ready", "--owner=a", "--ttl=10s"]).ended(0).out.contains("override ready by a")
    );
    client(&scene, &["ready", "--owner=a", "--ttl=25h"]).ended(1);
}

#[test]
fn a_stop_with_hold_leaves_the_hold_file() {
    let scene = started();
    let wrapper = scene.start_ready();
    client(&scene, &["stop", "--hold", "--owner=ada", "--reason=repair", "--guard=none", "--wait=30s"])
        .ended(0);
    let file = std::fs::read_to_string(scene.state_dir().join("hold")).unwrap();
    assert_eq!(file, "owner: ada\nrepair\n");
    let refused = client(&scene, &["start"]).ended(1);
    assert!(refused.err.contains("ada"), "{refused:?}");
    client(&scene, &["start", "--owner=ada", "--wait=30s"]).ended(0);
    wrapper.wait_ready();
}

#[test]
fn refusals_end_with_1_and_say_what_helps() {
    let scene = started();
    let _wrapper = scene.start_ready();
    let said = client(&scene, &["restart", "--if-generation=7"]).ended(1);
    assert!(said.err.contains("generation_mismatch"), "{said:?}");
    client(&scene, &["stop", "--wait=30s", "--guard=none"]).ended(0);
    for verb in ["restart", "transfer-leadership"] {
        assert!(client(&scene, &[verb]).ended(1).err.contains("not_running"), "{verb}");
    }
}

#[test]
fn a_wait_that_runs_out_ends_with_5_and_the_operation_goes_on() {
    let scene = started().flag("--hold");
    scene.sidecar().push_reply(Route::Status, Reply::text("Progress\n").lasting(3 * SECOND));
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let said = client(&scene, &["start", "--wait=100ms"]).ended(5);
    assert!(said.out.starts_with("start op-"), "{said:?}");
    // Without a wait the acceptance is all that was asked for.
    client(&scene, &["start"]).ended(0);
    wrapper.wait_ready();
}

#[test]
fn leadership_is_handed_over() {
    let scene = Scene::real("3.5");
    let _wrapper = start_leading(&scene);
    // Alone there is nobody to hand it to, and the reason is told.
    let said = client(&scene, &["transfer-leadership", "--wait=10s"]).ended(1);
    assert!(said.err.contains("no_candidate") || said.out.contains("no_candidate"), "{said:?}");
    wait::until(LONG, "it still leads", || {
        let said = client(&scene, &["leader"]);
        Poll::when(said.code == Some(0), || format!("{said:?}"))
    });
}
