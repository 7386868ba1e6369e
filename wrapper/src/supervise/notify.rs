// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The socket on which one generation of etcd says that it is ready (sd_notify). Believes only the process it was made
//! for, and only this one word; whether the member really serves is confirmed elsewhere (etcd.md 1).
//!
//! The socket is an abstract one with a name that the kernel picks: no file to place on a read-only root, none to be
//! left behind, no 108-byte limit, never the name of an earlier generation. Abstract names are shared by all
//! containers of a pod (one network namespace), so the sender's pid, as the kernel states it, is checked.
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::process;

/// etcd sends 7 bytes. A longer message is cut here, and its `READY=1` counts only if it stands before the cut.
const MESSAGE_BYTES: usize = 1024;

/// One generation's socket. Dropping it closes it; an etcd that sends later gets an error, and does not mind.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    address: OsString,
}

impl NotifySocket {
    /// Opens a socket with a new name. Needs the runtime.
    ///
    /// # Errors
    /// No descriptor is left, or a sandbox forbids unix sockets.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        // Before there is a name to send to: credentials come only with messages sent after this.
        sockopt::set_socket_passcred(&socket, true)?;
        // No name given: the kernel picks a free abstract one.
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let name = SocketAddrUnix::try_from(getsockname(&socket)?)?;
        let name = name
            .abstract_name()
            .ok_or_else(|| io::Error::other("the kernel gave the socket no abstract name"))?;
        let address = OsString::from_vec([b"@", name].concat());
        let socket = UnixDatagram::from_std(std::os::unix::net::UnixDatagram::from(socket))?;
        Ok(Self { socket, address })
    }

    /// The value of `NOTIFY_SOCKET`: `@` for the zero byte, then the name.
    pub fn address(&self) -> &OsStr {
        &self.address
    }

    /// Returns when process `pid` has said `READY=1`; may be dropped and called again. Messages of other processes, and
    /// other messages of this one, are dropped.
    ///
    /// # Errors
    /// The socket cannot be read any more.
    pub async fn ready(&mut self, pid: u32) -> io::Result<()> {
        loop {
            let mut message = [0; MESSAGE_BYTES];
            let socket = self.socket.as_fd();
            let (length, sender) =
                self.socket.async_io(Interest::READABLE, || process::receive(socket, &mut message)).await?;
            let said_ready = says_ready(&message[..length]);
            if said_ready && sender == Some(pid) {
                return Ok(());
            }
            tracing::debug!(?sender, child = pid, said_ready, length, "ignored a notify message");
            // Somebody who sends without a pause must not keep the only thread here.
            tokio::task::coop::consume_budget().await;
        }
    }
}

fn says_ready(message: &[u8]) -> bool {
    message.split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram as Sender};
    use std::time::Duration;

    use crate::supervise::process::rerun::{self, run};
    use crate::supervise::process::{Launch, spawn};

    use super::*;

    /// As etcd sends it.
    fn send(address: &OsStr, message: &[u8]) {
        let name = SocketAddr::from_abstract_name(&address.as_bytes()[1..]).unwrap();
        Sender::unbound().unwrap().send_to_addr(message, &name).unwrap();
    }

    #[test]
    fn a_message_is_ready_only_with_the_whole_line() {
        for ready in [&b"READY=1"[..], b"READY=1\n", b"STATUS=x\nREADY=1\nMAINPID=3"] {
            assert!(says_ready(ready));
        }
        for not in [&b""[..], b"READY=0", b"READY=10", b"NOTREADY=1", b"STATUS=READY=1", b"READY=1\0"] {
            assert!(!says_ready(not));
        }
    }

    #[test]
    fn b2_ready_of_another_process_or_another_word_does_not_count() {
        const NAME: &str = "b2_ready_of_another_process_or_another_word_does_not_count";
        if let Some(address) = rerun::role() {
            return send(&address, b"READY=1");
        }
        run(async {
            let mut socket = NotifySocket::open().unwrap();
            let own = std::process::id();
            rerun::passes(rerun::test(module_path!(), NAME, socket.address()));
            send(socket.address(), b"STOPPING=1");
            send(socket.address(), &[b'x'; 5000]);
            assert!(tokio::time::timeout(Duration::from_millis(300), socket.ready(own)).await.is_err());
            send(socket.address(), b"READY=1");
            socket.ready(own).await.unwrap();
        });
    }

    #[test]
    fn the_child_itself_is_heard_and_each_generation_has_its_own_name() {
        const NAME: &str = "the_child_itself_is_heard_and_each_generation_has_its_own_name";
        if rerun::role().is_some() {
            return send(&std::env::var_os("NOTIFY_SOCKET").unwrap(), b"READY=1");
        }
        run(async {
            let earlier = NotifySocket::open().unwrap();
            let mut socket = NotifySocket::open().unwrap();
            assert_ne!(earlier.address(), socket.address());
            let program = std::env::current_exe().unwrap();
            let shell = rerun::test(module_path!(), NAME, "child");
            let role = shell.get_envs().next().unwrap();
            let mut args: Vec<OsString> =
                vec![OsString::from_vec([role.0.as_bytes(), b"=child"].concat()), program.into()];
            args.extend(shell.get_args().map(OsString::from));
            let lock = tempfile::tempfile().unwrap();
            let program = std::path::Path::new("/usr/bin/env");
            let mut child =
                spawn(&Launch { program, args: &args, notify_socket: socket.address(), lock: lock.as_fd() })
                    .unwrap();
            socket.ready(child.pid()).await.unwrap();
            child.wait().await;
        });
    }
}
