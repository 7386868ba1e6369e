// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! docs/flows.md, run exactly as printed: every `sh` block of a flow goes through one shell, and what the commands print
//! must be what stands behind `#>`. Only the variables of a flow's first block get values of the test's own; the test is
//! the kubelet, which starts a process again that has ended.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use doubles::sidecar::Sidecar;
use doubles::wait::{self, Poll};

use crate::scene::{LONG, MEMBER, Scene, lives};

const PAGE: &str = "../docs/flows.md";

/// Commands, and what they print.
#[derive(Debug)]
struct Step {
    /// In the page, from 1.
    line: usize,
    commands: Vec<String>,
    prints: Vec<String>,
}

/// The steps of the flow below this heading. A step ends with its output, or with its block.
fn flow(page: &str, heading: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut block, mut open) = (false, false, false);
    for (at, text) in page.lines().enumerate() {
        match text {
            "```sh" if inside => (block, open) = (true, false),
            "```" => block = false,
            _ if text.starts_with("## ") => inside = text == format!("## {heading}"),
            _ if !block => {}
            _ => match (text.strip_prefix("#> "), steps.last_mut().filter(|_| open)) {
                (Some(print), Some(step)) => step.prints.push(print.to_owned()),
                (Some(print), None) => panic!("{PAGE}:{}: nothing prints {print:?}", at + 1),
                (None, Some(step)) if step.prints.is_empty() => step.commands.push(text.to_owned()),
                (None, _) => {
                    steps.push(Step { line: at + 1, commands: vec![text.to_owned()], prints: Vec::new() });
                    open = true;
                }
            },
        }
    }
    assert!(steps.len() > 1, "no flow {heading:?} in {PAGE}");
    steps
}

/// `…` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// The first block with our values: every variable has one, and no other is set.
fn assigned(step: &Step, values: &[(&str, String)]) -> String {
    let named: Vec<&str> = step.commands.iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let ours: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, ours, "{PAGE}:{}: the variables of the flow", step.line);
    values.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// What no step may print: the end of a step and its status.
const END: &str = "@@ end of step";

fn script(steps: &[Step], values: &[(&str, String)]) -> String {
    let mut script = format!("exec 2>&1\nset -u\n{}", assigned(&steps[0], values));
    for step in &steps[1..] {
        script += &step.commands.join("\n");
        script += &format!("\necho \"{END} {} $?\"\n", step.line);
    }
    script
}

/// The tools that a reader needs, by their names on `PATH`; curl is the machine's.
fn tools(scene: &Scene) -> String {
    let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    assert!(curl.is_ok_and(|status| status.success()), "the flows need curl: apt-get install curl");
    let etcdctl = std::env::var_os("E2E_ETCDCTL_35")
        .expect("E2E_ETCDCTL_35 names no etcdctl: run `cargo xtask test`, or set it to `cargo xtask tool etcdctl@3.5`");
    let folder = scene.path().join("tools");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(PathBuf::from(etcdctl), folder.join("etcdctl")).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn run(scene: &Scene, heading: &str, values: &[(&str, String)]) {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap();
    let steps = flow(&page, heading);
    let output = scene.path().join("flow.txt");
    let printed = std::fs::File::create(&output).unwrap();
    let mut wrapper = scene.start_ready();
    let mut shell =
        Command::new("sh").env("PATH", tools(scene)).stdin(Stdio::piped()).stdout(printed).spawn().unwrap();
    let script = script(&steps, values);
    shell.stdin.take().expect("it is piped").write_all(script.as_bytes()).unwrap();
    let ended = wait::try_until(2 * LONG, || {
        if !lives(wrapper.pid()) {
            wrapper = scene.start();
        }
        let last = || std::fs::read_to_string(&output).unwrap_or_default();
        Poll::when(shell.try_wait().unwrap().is_some(), last)
    });
    if let Err(why) = ended {
        let _ = shell.kill();
        let _ = shell.wait();
        panic!("the flow does not end: {why}");
    }
    let output = std::fs::read_to_string(&output).unwrap();
    let mut printed = output.split_inclusive('\n');
    for step in &steps[1..] {
        let end = format!("{END} {} ", step.line);
        let mut lines: Vec<&str> = Vec::new();
        let status = loop {
            let line = printed.next().unwrap_or_else(|| panic!("{PAGE}:{}: no end:\n{output}", step.line));
            match line.trim_end().split_once(&end) {
                Some((before, status)) => {
                    lines.extend((!before.is_empty()).then_some(before));
                    break status;
                }
                None => lines.push(line.trim_end_matches('\n')),
            }
        };
        let as_printed = lines.len() == step.prints.len()
            && step.prints.iter().zip(&lines).all(|(pattern, line)| fits(pattern, line));
        assert!(
            as_printed && status == "0",
            "{PAGE}:{}: the page and the truth differ (status {status})\n{}\n--- the page\n{}\n--- the truth\n{}",
            step.line,
            step.commands.join("\n"),
            step.prints.join("\n"),
            lines.join("\n"),
        );
    }
}

#[test]
fn e20_the_restore_flow_works_as_printed() {
    let scene = Scene::real("3.5");
    let values = [
        ("WRAPPER", format!("http://{}", scene.api_addr())),
        ("ETCD", scene.client_url()),
        ("STATE", scene.state_dir().display().to_string()),
        ("CONFIG", scene.home().join("etcd.conf.yaml").display().to_string()),
    ];
    run(&scene, "Restore with the member held unready", &values);
    assert_eq!(scene.sidecar().modes(), ["full"], "of the first start alone");
}

#[test]
fn the_flow_of_a_peer_url_change_works_as_printed() {
    let mut scene = Scene::real("3.5");
    let map = scene.path().join("config-map.yaml");
    let url = |host: &str| format!("http://{host}:{}", scene.peer_port());
    let old = url("127.0.0.1");
    // As a config map looks: block style, so that a line is one setting.
    let client = scene.client_url();
    let text = format!(
        "name: etcd-config\ndata-dir: {}\nlisten-client-urls: {client}\nlisten-peer-urls: {old}\n\
         advertise-client-urls:\n  {MEMBER}:\n  - {client}\ninitial-advertise-peer-urls:\n  {MEMBER}:\n  - {old}\n\
         initial-cluster: {MEMBER}={old}\ninitial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n",
        scene.data_dir().display()
    );
    std::fs::write(&map, text).unwrap();
    let setup = Sidecar::faithful_file(&map, MEMBER).data_dir(&scene.data_dir());
    scene = scene.with_sidecar(|_| setup);
    let values = [
        ("WRAPPER", format!("http://{}", scene.api_addr())),
        ("ETCD", client),
        ("CONFIG_MAP", map.display().to_string()),
        ("OLD_URL", old),
        ("NEW_URL", format!("http://localhost:{}", scene.peer_port())),
    ];
    run(&scene, "Peer-URL change: member update, then restart in place", &values);
    assert_eq!(scene.sidecar().modes(), ["full"], "of the first start alone");
}

#[test]
fn what_a_page_says_of_output_is_compared_strictly() {
    assert!(fits("a…c", "abbc") && fits("…", "") && fits("a…b…", "a1b2") && fits("x", "x"));
    assert!(!fits("a…c", "abb") && !fits("x", "xy") && !fits("a…b…c", "a1c") && !fits("", "x"));
    let page = "## One\n```sh\nA=1\n```\n```sh\nx\n#> y\nz\n```\n## Two\n```sh\nB=1\n```\n";
    let steps = flow(page, "One");
    let told: Vec<_> =
        steps.iter().map(|step| (step.line, step.commands[0].as_str(), step.prints.len())).collect();
    assert_eq!(told, [(3, "A=1", 0), (6, "x", 1), (8, "z", 0)]);
}
