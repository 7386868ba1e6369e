// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Pages whose commands are run exactly as printed: every `sh` block below a heading goes through one shell, and what the
//! commands print must be what stands behind `#>`, with `…` for anything. Only the variables of the first block get values
//! of the test's own. Knows no page; who is the kubelet meanwhile is the caller's matter.
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use doubles::wait::{self, Poll};

use crate::scene::{LONG, Scene, Wrapper, lives};

/// Commands, and what they print.
#[derive(Debug)]
struct Step {
    /// In the page, from 1.
    line: usize,
    commands: Vec<String>,
    prints: Vec<String>,
}

/// The steps below this heading. A step ends with its output, or with its block.
fn steps(page: &str, text: &str, heading: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut block, mut open) = (false, false, false);
    for (at, line) in text.lines().enumerate() {
        match line {
            "```sh" if inside => (block, open) = (true, false),
            "```" => block = false,
            _ if line.starts_with("## ") => inside = line == format!("## {heading}"),
            _ if !block => {}
            _ => match (line.strip_prefix("#> "), steps.last_mut().filter(|_| open)) {
                (Some(print), Some(step)) => step.prints.push(print.to_owned()),
                (Some(print), None) => panic!("{page}:{}: nothing prints {print:?}", at + 1),
                (None, Some(step)) if step.prints.is_empty() => step.commands.push(line.to_owned()),
                (None, _) => {
                    steps.push(Step { line: at + 1, commands: vec![line.to_owned()], prints: Vec::new() });
                    open = true;
                }
            },
        }
    }
    assert!(steps.len() > 1, "no commands below {heading:?} in {page}");
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
fn assigned(page: &str, step: &Step, values: &[(&str, String)]) -> String {
    let named: Vec<&str> = step.commands.iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let ours: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, ours, "{page}:{}: the variables", step.line);
    values.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
}

/// What no step may print: the end of a step and its status.
const END: &str = "@@ end of step";

fn script(page: &str, steps: &[Step], values: &[(&str, String)]) -> String {
    let mut script = format!("exec 2>&1\nset -u\n{}", assigned(page, &steps[0], values));
    for step in &steps[1..] {
        script += &step.commands.join("\n");
        script += &format!("\necho \"{END} {} $?\"\n", step.line);
    }
    script
}

/// A `PATH` with the tools that a reader needs; curl is the machine's.
pub(crate) fn tools(scene: &Scene) -> String {
    let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    assert!(curl.is_ok_and(|status| status.success()), "the pages need curl: apt-get install curl");
    let folder = scene.path().join("tools");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, program) in
        [("etcdctl", etcdctl()), ("etcd-wrapper", env!("CARGO_BIN_EXE_etcd-wrapper").into())]
    {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(program, link).unwrap();
        }
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn etcdctl() -> PathBuf {
    let path = std::env::var_os("E2E_ETCDCTL_35");
    let path = path.expect("E2E_ETCDCTL_35 names no etcdctl: run `cargo xtask test`, or set it to `cargo xtask tool etcdctl@3.5`");
    path.into()
}

/// Stands for `kubectl exec -i POD -c etcd --`: programs of the image, in the member's HOME, at the member's ports.
pub(crate) fn exec_into(scene: &Scene) -> String {
    let path = scene.path().join("exec");
    let script = format!(
        "#!/bin/sh\nexport HOME={home}\nprogram=$1\nshift\ncase $program in\n\
         /etcd-wrapper) case $1 in\n\
         history) exec {wrapper} \"$@\" --state-dir={state} ;;\n\
         validate-config) exec {wrapper} \"$@\" ;;\n\
         *) exec {wrapper} \"$@\" --etcd-wrapper-port={port} ;;\nesac ;;\n\
         etcdctl) exec {etcdctl} --endpoints={client} \"$@\" ;;\n\
         *) echo \"no $program in the image\" >&2; exit 127 ;;\nesac\n",
        home = scene.home().display(),
        wrapper = env!("CARGO_BIN_EXE_etcd-wrapper"),
        state = scene.state_dir().display(),
        port = scene.api_addr().port(),
        etcdctl = etcdctl().display(),
        client = scene.client_url(),
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Starts a wrapper again that has ended, as a kubelet does.
pub(crate) fn as_kubelet<'s>(scene: &'s Scene, wrapper: &mut Wrapper<'s>) {
    if !lives(wrapper.pid()) {
        *wrapper = scene.start();
    }
}

/// Runs the commands of one heading of `page` (its path from the crate's folder), calling `meanwhile` again and again.
/// `scene`: whose folder takes the output, and whose tools are on the `PATH`.
pub(crate) fn run(
    scene: &Scene,
    page: &str,
    heading: &str,
    values: &[(&str, String)],
    mut meanwhile: impl FnMut(),
) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let steps = steps(page, &text, heading);
    let output = scene.path().join("printed.txt");
    let printed = std::fs::File::create(&output).unwrap();
    let script = script(page, &steps, values);
    let mut shell = Command::new("sh")
        .env("PATH", tools(scene))
        .current_dir(scene.path())
        .stdin(Stdio::piped())
        .stdout(printed)
        .spawn()
        .unwrap();
    shell.stdin.take().expect("it is piped").write_all(script.as_bytes()).unwrap();
    let ended = wait::try_until(3 * LONG, || {
        meanwhile();
        let last = || std::fs::read_to_string(&output).unwrap_or_default();
        Poll::when(shell.try_wait().unwrap().is_some(), last)
    });
    if let Err(why) = ended {
        let _ = shell.kill();
        let _ = shell.wait();
        panic!("{page}: {heading}: the commands do not end: {why}");
    }
    let output = std::fs::read_to_string(&output).unwrap();
    let mut printed = output.split_inclusive('\n');
    for step in &steps[1..] {
        let end = format!("{END} {} ", step.line);
        let mut lines: Vec<&str> = Vec::new();
        let status = loop {
            let line = printed.next().unwrap_or_else(|| panic!("{page}:{}: no end:\n{output}", step.line));
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
            "{page}:{}: the page and the truth differ (status {status})\n{}\n--- the page\n{}\n--- the truth\n{}",
            step.line,
            step.commands.join("\n"),
            step.prints.join("\n"),
            lines.join("\n"),
        );
    }
}

#[test]
fn what_a_page_says_of_output_is_compared_strictly() {
    assert!(fits("a…c", "abbc") && fits("…", "") && fits("a…b…", "a1b2") && fits("x", "x"));
    assert!(!fits("a…c", "abb") && !fits("x", "xy") && !fits("a…b…c", "a1c") && !fits("", "x"));
    let page = "## One\n```sh\nA=1\n```\n```sh\nx\n#> y\nz\n```\n## Two\n```sh\nB=1\n```\n";
    let steps = steps("page", page, "One");
    let told: Vec<_> =
        steps.iter().map(|step| (step.line, step.commands[0].as_str(), step.prints.len())).collect();
    assert_eq!(told, [(3, "A=1", 0), (6, "x", 1), (8, "z", 0)]);
}
