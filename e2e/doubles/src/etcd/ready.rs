// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Sends the READY datagram, from this process or from another one. Decides not when.
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

/// First argument of a double that is only to send: the other process of a script.
pub(super) const ONLY_NOTIFY: &str = "--double-only-notify";

/// Sends `text` to `NOTIFY_SOCKET` (a path, or `@` and an abstract name) from this process.
pub(super) fn send(text: &str) -> io::Result<u32> {
    let name = std::env::var("NOTIFY_SOCKET").map_err(|_| io::Error::other("NOTIFY_SOCKET is not set"))?;
    let addr = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &addr)?;
    Ok(std::process::id())
}

/// The same from a child, which has ended by then: to whoever checks, its pid is not the one it spawned.
pub(super) fn send_from_other_process(text: &str) -> io::Result<u32> {
    let mut child = Command::new("/proc/self/exe").args([ONLY_NOTIFY, text]).spawn()?;
    let pid = child.id();
    let status = child.wait()?;
    if status.success() { Ok(pid) } else { Err(io::Error::other(format!("the other process: {status}"))) }
}
