// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Datagrams on the readiness socket, as any process of the pod may send them.
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::{Target, on_runtime};
use crate::supervise::notify::NotifySocket;

/// What etcd sends to its notify socket.
pub const TARGET: Target = Target {
    words: &[
        "READY=1",
        "READY=1\n",
        "\nREADY=1",
        "READY=",
        "STATUS=x\n",
        "MAINPID=1\n",
        "STOPPING=1\n",
        "\0",
    ],
    longest: 2048,
    cases: 500,
    ..Target::new("notify", run)
};

/// Sends the input, and then the word itself from a process that was not waited for.
pub fn run(input: &[u8]) -> u64 {
    on_runtime(async {
        let mut socket = NotifySocket::open().expect("a descriptor is left");
        let name =
            SocketAddr::from_abstract_name(&socket.address().as_bytes()[1..]).expect("an abstract name");
        let sender = UnixDatagram::unbound().expect("a descriptor is left");
        sender.send_to_addr(input, &name).expect("a datagram of this size fits");
        let own = std::process::id();
        let heard = tokio::time::timeout(Duration::ZERO, socket.ready(own)).await.is_ok();
        // Cut at 1 KiB: a word that the cut leaves whole counts, and one that it makes does not matter to anybody.
        let said =
            input.get(..1024).unwrap_or(input).split(|byte| *byte == b'\n').any(|line| line == b"READY=1");
        assert_eq!(heard, said, "{:?}", String::from_utf8_lossy(input));
        sender.send_to_addr(b"READY=1", &name).expect("a datagram of this size fits");
        let stranger = tokio::time::timeout(Duration::ZERO, socket.ready(own + 1)).await.is_ok();
        assert!(!stranger, "a word of another process counted");
        u64::from(heard)
    })
}
