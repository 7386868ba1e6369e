// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Ports that a test owns before anybody listens on them: for programs that must be told a number. Listens on none.
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A bound socket that never listens. Connections are refused, port 0 never gives the number away again, and a
/// server that allows reuse (Rust's, tokio's and Go's all do) can listen on it, again and again, until this drops.
#[derive(Debug)]
pub struct ReservedPort {
    addr: SocketAddr,
    _socket: OwnedFd,
}

impl ReservedPort {
    /// A free port of 127.0.0.1.
    ///
    /// # Panics
    /// When loopback has none left.
    pub fn loopback() -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into())
            .unwrap_or_else(|error| panic!("reserve a port of 127.0.0.1: {error}"))
    }

    /// This address; port 0 takes a free one.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub fn at(addr: SocketAddr) -> io::Result<Self> {
        let family = match addr.ip() {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &addr)?;
        let addr = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self { addr, _socket: socket })
    }

    /// On loopback.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// 1–65535.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_until_somebody_listens_and_after() {
        let reserved = ReservedPort::loopback();
        let refused = || {
            TcpStream::connect(reserved.addr()).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        };
        assert!(refused());
        for _ in 0..2 {
            let listener = TcpListener::bind(reserved.addr()).unwrap();
            TcpStream::connect(reserved.addr()).unwrap();
            drop(listener);
            assert!(refused());
        }
    }
}
