// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The program `sidecar-double`.
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::spawned::{get, wait_end};

#[test]
fn the_sidecar_program_serves_a_member_and_ends_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("etcd.conf.yaml");
    let urls = "{red-0: [\"http://red-0:2379\"]}";
    let text = format!("name: x\nadvertise-client-urls: {urls}\ninitial-advertise-peer-urls: {urls}\n");
    std::fs::write(&map, &text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-double"))
        .args(["--listen", "127.0.0.1:0", "--member", "red-0", "--config"])
        .arg(&map)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let addr = line.trim().rsplit_once("http://").unwrap().1;
    let answer = get(TcpStream::connect(addr).unwrap(), "/config").unwrap();
    assert!(answer.contains("\nadvertise-client-urls: http://red-0:2379\n"), "{answer}");
    assert!(answer.contains("\nname: red-0\n"), "{answer}");
    std::fs::write(&map, text.replace("red-0:2379", "moved:2379")).unwrap();
    let answer = get(TcpStream::connect(addr).unwrap(), "/config").unwrap();
    assert!(answer.contains("\ninitial-advertise-peer-urls: http://moved:2379\n"), "{answer}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait_end(&mut child).code(), Some(0));
}
