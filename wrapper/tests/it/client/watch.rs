// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `leader --watch` and `events`, beside a member that changes.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use doubles::etcd::Script;
use doubles::wait::{self, Poll};

use super::{SOON, client, command, start_leading};
use crate::cluster::{Cluster, leader};
use crate::scene::{LONG, SECOND, Scene, Sides, children};

/// A client that goes on; killed when dropped.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(scene: &Scene, args: &[&str]) -> Self {
        let mut child = command(scene, args).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = read(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that has this in it.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        self.wait_within(SOON, text)
    }

    #[track_caller]
    fn wait_within(&self, limit: Duration, text: &str) -> String {
        let mut seen = Vec::new();
        wait::until(limit, &format!("{text:?} in a line"), || match self.lines.try_recv() {
            Ok(line) if line.contains(text) => Poll::Ready(line),
            Ok(line) => {
                seen.push(line);
                Poll::NotYet(format!("{seen:?}"))
            }
            Err(_) => Poll::NotYet(format!("{seen:?}")),
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });
    lines
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn h6_pgrep_wrapper_finds_the_server_alone_and_its_root_has_the_files() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::ALL);
    let wrapper = scene.start_ready();
    let watching = Watching::start(&scene, &["leader", "--watch"]);
    watching.wait_for("leads");
    let events = command(&scene, &["status", "--timeout=20s"]).stdout(Stdio::piped()).spawn().unwrap();
    // pgrep matches a pattern against the names in /proc, as they are cut to 15 letters there.
    let mut all = vec![wrapper.pid(), watching.child.id()];
    all.extend(children(wrapper.pid()).iter().map(|(pid, _)| *pid));
    let found: Vec<_> = all.iter().filter(|pid| name(**pid).contains("wrapper")).collect();
    assert_eq!(found, [&wrapper.pid()], "{:?}", all.iter().map(|pid| name(*pid)).collect::<Vec<_>>());
    assert_eq!(name(watching.child.id()), "etcd-member-cli");
    assert!(events.wait_with_output().unwrap().status.success());

    let root = format!("/proc/{}/root", wrapper.pid());
    let seen = |path: &Path| Path::new(&root).join(path.strip_prefix("/").unwrap()).exists();
    let pki = scene.pki();
    for path in [&pki.client.cert, &pki.client.key, &pki.client_ca_file, &scene.home().join("etcd.conf.yaml")]
    {
        assert!(seen(path), "{}", path.display());
    }
}

#[test]
fn each_change_of_the_leader_is_a_line_at_once() {
    let cluster = Cluster::of("3.5", true);
    let wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    let (old, new) = (&cluster.members[leads], &cluster.members[(leads + 1) % 3]);
    let watching = [old, new].map(|scene| Watching::start(scene, &["leader", "--watch"]));
    watching[0].wait_for(&format!("{} leads", old.member()));
    watching[1].wait_for(&format!("{} follows", new.member()));
    let id =
        wrappers[(leads + 1) % 3].caller().get("/v1/leader").json()["memberId"].as_str().unwrap().to_owned();
    old.etcdctl(&["move-leader", &id]);
    watching[0].wait_within(2 * SECOND, &format!("{} follows, the leader is {id}", old.member()));
    watching[1].wait_within(2 * SECOND, &format!("{} leads", new.member()));
}

#[test]
fn events_are_shown_as_they_happen_for_people_and_for_machines() {
    let scene = Scene::scripted(Script::default());
    let wrapper = start_leading(&scene);
    let people = Watching::start(&scene, &["events"]);
    let machines = Watching::start(&scene, &["events", "-o=json", "--topics=phase,operation"]);
    people.wait_for("snapshot   running, ready; etcd-main-0 leads");
    machines.wait_for("\"status\":{");
    client(&scene, &["stop", "--guard=none", "--wait=30s"]).ended(0);
    people.wait_for("running → stopping");
    people.wait_for(&format!("stop {}: succeeded", wrapper.first_operation()));
    let event: serde_json::Value = serde_json::from_str(&machines.wait_for("\"stopped\"")).unwrap();
    assert_eq!((&event["topic"], &event["phase"]), (&"phase".into(), &"stopped".into()));
    let refused = client(&scene, &["events", "--topics=weather"]).ended(1);
    assert!(refused.err.contains("weather"), "{refused:?}");
}

#[test]
fn a_watch_outlives_a_restart_of_the_wrapper() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let watching = Watching::start(&scene, &["leader", "--watch", "-o=json", "--timeout=30s"]);
    let first: serde_json::Value = serde_json::from_str(&watching.wait_for("\"isLeader\":true")).unwrap();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let _wrapper = scene.start_ready();
    let again: serde_json::Value = serde_json::from_str(&watching.wait_for("\"isLeader\":true")).unwrap();
    assert_ne!(first["epoch"], again["epoch"]);
}

#[test]
fn a_watch_ends_when_nobody_can_be_reached_any_more() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let mut watching = Watching::start(&scene, &["leader", "--watch", "--timeout=1s"]);
    watching.wait_for("leads");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let code = wait::until(LONG, "its end", || {
        Poll::from_option(watching.child.try_wait().unwrap(), || "it goes on".into())
    });
    assert_eq!(code.code(), Some(3));
}

#[test]
fn a_watch_ends_when_nobody_reads_any_more() {
    let scene = Scene::scripted(Script::default());
    let _wrapper = start_leading(&scene);
    let mut command = command(&scene, &["leader", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("leads"), "{first}");
    // The reader is gone with that line, and no news will come.
    let code =
        wait::until(LONG, "its end", || Poll::from_option(child.try_wait().unwrap(), || "it goes on".into()));
    assert_eq!(code.code(), Some(0));
}

#[test]
fn a_refusal_of_the_stream_is_told() {
    let scene = Scene::scripted(Script::default()).flag("--control-loopback=false");
    let _wrapper = scene.start_ready();
    assert!(client(&scene, &["leader", "--watch"]).ended(1).err.contains("forbidden"));
}
