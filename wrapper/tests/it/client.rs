// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The same binary as a client, as scripts and people call it: what it prints, and its exit codes.
mod pod;
mod tls;
mod verbs;
mod watch;

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use doubles::etcd::Script;
use serde_json::Value;

use crate::scene::{LONG, SECOND, Scene, Wrapper};

/// What a client said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with this code; hands itself on.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// The command line of a client in this scene: in the wrapper's container, as `kubectl exec` has it.
pub(crate) fn command(scene: &Scene, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-wrapper"));
    command.args(args);
    let alone = matches!(args.first(), Some(&("history" | "validate-config" | "completions" | "man")));
    if !alone && !args.iter().any(|arg| arg.starts_with("--server")) {
        command.arg(format!("--etcd-wrapper-port={}", scene.api_addr().port()));
    }
    command.env_clear().env("HOME", scene.home()).stdin(Stdio::null());
    command
}

#[track_caller]
pub(crate) fn client(scene: &Scene, args: &[&str]) -> Said {
    said(command(scene, args))
}

#[track_caller]
pub(crate) fn said(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A member that is ready, leads, and knows of itself: readiness comes from reads and may be there before the first
/// Status answer.
#[track_caller]
pub(crate) fn start_leading(scene: &Scene) -> Wrapper<'_> {
    let wrapper = scene.start_ready();
    wrapper.wait_status(LONG, "a leader with an id", |status| {
        status["leader"]["isLeader"] == true && !status["member"].is_null()
    });
    wrapper
}

#[test]
fn a_ready_member_is_shown_on_one_screen_and_ends_with_0() {
    let scene = Scene::real("3.5");
    let wrapper = start_leading(&scene);
    let status = client(&scene, &["status"]).ended(0);
    for part in ["etcd-main-0  READY", "phase       running", "quorum ok", "etcd-main-0 leads", "pid "] {
        assert!(status.out.contains(part), "{part:?} is not in\n{}", status.out);
    }
    assert!(!status.out.contains('\u{1b}'), "no colours in a pipe: {}", status.out);
    let leader = client(&scene, &["leader"]).ended(0);
    assert!(leader.out.starts_with("etcd-main-0 leads (member "), "{}", leader.out);
    assert!(client(&scene, &["leader", "--confirm"]).ended(0).out.contains("confirmed"));
    assert_eq!(client(&scene, &["ready"]).ended(0).out, "ready\n");

    // For machines: the document as it came.
    let document = client(&scene, &["status", "-o", "json"]).ended(0).json();
    let direct = wrapper.status();
    assert_eq!(document["etcd"], direct["etcd"]);
    assert_eq!(document.as_object().unwrap().len(), direct.as_object().unwrap().len());
}

#[test]
fn a_member_that_is_not_ready_says_why_and_ends_with_4() {
    let scene = Scene::scripted(Script::default());
    scene.leave("hold", "ask alice\n");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let status = client(&scene, &["status"]).ended(4);
    for part in ["NOT READY", "phase       held", "held: ask alice", "✗ process", "diagnosis   held"] {
        assert!(status.out.contains(part), "{part:?} is not in\n{}", status.out);
    }
    assert!(client(&scene, &["ready"]).ended(4).out.starts_with("not ready: process"));
    let leader = client(&scene, &["leader"]).ended(4);
    assert!(leader.out.contains("has not answered"), "{}", leader.out);
}

#[test]
fn where_nobody_listens_it_ends_with_3_and_names_the_address() {
    let scene = Scene::scripted(Script::default());
    for verb in ["status", "leader", "ready", "start", "stop", "restart", "transfer-leadership"] {
        let said = client(&scene, &[verb]).ended(3);
        assert!(said.err.contains(&scene.api_addr().to_string()) && said.out.is_empty(), "{said:?}");
        assert!(said.err.contains("`etcd-wrapper history`"), "{said:?}");
    }
    for verb in [&["events"][..], &["leader", "--watch"]] {
        client(&scene, verb).ended(3);
    }
}

#[test]
fn who_never_answers_is_not_waited_for() {
    let scene = Scene::scripted(Script::default());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("--server=http://{}", silent.local_addr().unwrap());
    for verb in [&["status"][..], &["events"], &["leader", "--watch"], &["ready", "--clear"]] {
        let began = Instant::now();
        let said = client(&scene, &[verb, &[&server, "--timeout=300ms"]].concat()).ended(3);
        assert!(said.err.contains("300ms") && began.elapsed() < 10 * SECOND, "{said:?}");
    }
}

#[test]
fn a_command_line_that_cannot_be_meant_ends_with_2() {
    let scene = Scene::scripted(Script::default());
    for args in [
        &["status", "--no-such-flag"][..],
        &["statsu"],
        &["status", "--server=localhost"],
        &["ready", "--owner=a"],
        &["validate-config", "/x", "--etcd-version=new"],
    ] {
        let said = client(&scene, args).ended(2);
        assert!(said.out.is_empty() && !said.err.is_empty(), "{said:?}");
    }
}

#[test]
fn a_client_needs_no_home_and_no_environment() {
    let scene = Scene::scripted(Script::default()).with_tls(crate::scene::Sides::CLIENT);
    let _wrapper = scene.start_ready();
    let mut command = command(&scene, &["status"]);
    command.env_clear();
    // Nothing says where the configuration lies, but the wrapper's own process.
    let said = said(command).ended(0);
    assert!(said.out.contains("READY"), "{said:?}");
}

#[test]
fn a_configuration_is_judged_without_any_server() {
    let scene = Scene::scripted(Script::default());
    let write = |name: &str, text: &str| {
        let path = scene.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good =
        "name: a\ndata-dir: /d\ninitial-cluster: a=http://a:2380\nlisten-client-urls: http://0.0.0.0:2379\n";
    let (good, bad) = (write("good.yaml", good), write("bad.yaml", &good.replace("data-dir", "data-dri")));
    assert_eq!(client(&scene, &["validate-config", &good]).ended(0).out, "valid\n");
    let said = client(&scene, &["validate-config", &bad]).ended(1);
    assert!(
        said.out.contains("/data-dir: is missing (better: write data-dir instead of data-dri)"),
        "{said:?}"
    );
    let document = client(&scene, &["validate-config", &bad, "-o=json"]).ended(1).json();
    assert_eq!(document["valid"], false);
    assert_eq!(document["findings"][0]["pointer"], "/data-dir");
    let said = client(&scene, &["validate-config", "/no/such.yaml"]).ended(1);
    assert!(said.err.contains("/no/such.yaml") && said.err.contains("no such file"), "{said:?}");
}

#[test]
fn scripts_and_manual_are_printed() {
    let scene = Scene::scripted(Script::default());
    assert!(client(&scene, &["man"]).ended(0).out.starts_with(".TH ETCD-WRAPPER 8"));
    for shell in ["bash", "fish", "zsh"] {
        assert!(client(&scene, &["completions", shell]).ended(0).out.contains("transfer-leadership"));
    }
}

#[test]
fn who_reads_no_further_harms_nobody() {
    let scene = Scene::scripted(Script::default());
    let mut command = command(&scene, &["man"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Longer than a client takes to start on a busy machine.
pub(crate) const SOON: Duration = LONG;
