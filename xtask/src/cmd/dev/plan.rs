// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who is who before anything runs: names, ports and folders of the members. Makes no file and starts nothing.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How far the ports of two members lie apart with `--port-base`.
const STRIDE: u16 = 10;

/// The ports of one member, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) client: u16,
    pub(super) peer: u16,
    pub(super) wrapper: u16,
    pub(super) sidecar: u16,
}

impl Ports {
    fn named(self) -> [(&'static str, u16); 4] {
        [("client", self.client), ("peer", self.peer), ("wrapper", self.wrapper), ("sidecar", self.sidecar)]
    }
}

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) ports: Ports,
    /// Everything of this member lies below it.
    pub(super) folder: PathBuf,
}

impl Member {
    /// etcd's `data-dir`; neither HOME nor the state folder lies in it.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.folder.join("data/new.etcd")
    }

    pub(super) fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    pub(super) fn config_map(&self) -> PathBuf {
        self.folder.join("config-map.yaml")
    }

    pub(super) fn client_url(&self, tls: bool) -> String {
        url(tls, self.ports.client)
    }

    pub(super) fn peer_url(&self, tls: bool) -> String {
        url(tls, self.ports.peer)
    }

    pub(super) fn wrapper_url(&self, tls: bool) -> String {
        url(tls, self.ports.wrapper)
    }
}

/// A host and port as the neighbours write it.
pub(super) fn url(tls: bool, port: u16) -> String {
    format!("{}://127.0.0.1:{port}", if tls { "https" } else { "http" })
}

/// All members of one run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) root: PathBuf,
    pub(super) members: Vec<Member>,
}

impl Plan {
    /// Members `dev-0`, `dev-1`, … with these ports, below `root`.
    pub(super) fn new(root: &Path, ports: Vec<Ports>) -> Self {
        let member = |(index, ports)| {
            let name = format!("dev-{index}");
            let folder = root.join(&name);
            Member { name, ports, folder }
        };
        Self { root: root.to_owned(), members: ports.into_iter().enumerate().map(member).collect() }
    }
}

/// Ports that nobody listens on now. Somebody may take one before we do: then its program says so and ends.
pub(super) fn free_ports(members: u16) -> Result<Vec<Ports>> {
    // All are held until the last is found, so that none is given twice.
    let mut held = Vec::new();
    let mut next = || -> Result<u16> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        held.push(listener);
        Ok(port)
    };
    (0..members)
        .map(|_| Ok(Ports { client: next()?, peer: next()?, wrapper: next()?, sidecar: next()? }))
        .collect()
}

/// The ports from `base` on, or an error that names the first one that is taken.
pub(super) fn fixed_ports(base: u16, members: u16) -> Result<Vec<Ports>> {
    let ports = counted_ports(base, members)?;
    for (index, ports) in ports.iter().enumerate() {
        for (what, port) in ports.named() {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
                format!("take 127.0.0.1:{port}, the {what} port of dev-{index}; choose another --port-base, or leave it out for free ports")
            })?;
        }
    }
    Ok(ports)
}

fn counted_ports(base: u16, members: u16) -> Result<Vec<Ports>> {
    let last = u32::from(base) + u32::from(members - 1) * u32::from(STRIDE) + 3;
    if last > u32::from(u16::MAX) {
        bail!("--port-base {base}: the last port would be {last}, past 65535");
    }
    let of = |index| {
        let client = base + index * STRIDE;
        Ports { client, peer: client + 1, wrapper: client + 2, sidecar: client + 3 }
    };
    Ok((0..members).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn fixed_ports_are_where_the_help_says() {
        let ports = counted_ports(2379, 2).unwrap();
        assert_eq!(ports[0], Ports { client: 2379, peer: 2380, wrapper: 2381, sidecar: 2382 });
        assert_eq!(ports[1], Ports { client: 2389, peer: 2390, wrapper: 2391, sidecar: 2392 });
    }

    #[test]
    fn ports_past_the_last_one_are_refused() {
        assert!(counted_ports(65532, 1).is_ok());
        assert!(counted_ports(65533, 1).is_err());
        assert!(counted_ports(65530, 2).is_err());
    }

    #[test]
    fn a_taken_port_is_named_with_its_use() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = format!("{:#}", fixed_ports(port, 1).unwrap_err());
        assert!(error.contains(&format!("127.0.0.1:{port}, the client port of dev-0")), "{error}");
    }

    #[test]
    fn free_ports_are_all_different() {
        let ports = free_ports(7).unwrap();
        let all: BTreeSet<u16> = ports.iter().flat_map(|ports| ports.named()).map(|(_, port)| port).collect();
        assert_eq!(all.len(), 28);
    }

    #[test]
    fn the_data_dir_holds_neither_home_nor_state() {
        let plan = Plan::new("/d".as_ref(), counted_ports(1, 1).unwrap());
        let member = &plan.members[0];
        for other in [member.home(), member.state_dir()] {
            assert!(!other.starts_with(member.data_dir()), "{}", other.display());
        }
    }
}
