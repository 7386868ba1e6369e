// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask dev`: a member, or a cluster, from nothing: our wrapper, our double as its sidecar, a real etcd.
//! Everything lies in one temporary folder and listens on 127.0.0.1; at the end nothing of it is left.

mod config_map;
mod fleet;
pub(super) mod guard;
mod pki;
mod plan;
mod probe;
mod programs;
mod screen;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::sh::{Step, quote};
use crate::tools::{Line, Tool};
use crate::{machine, repo};

use fleet::Fleet;
use pki::Pki;
use plan::Plan;
use programs::Programs;
use screen::Screen;

/// Runs a member, or a cluster, from nothing
///
/// Builds etcd-wrapper and the double of its sidecar, gets a pinned etcd, and starts them in a temporary folder. Prints
/// `client:`, `wrapper:` and `etcdctl:` lines, then phase and readiness of every member as they change. Ctrl-C (or
/// SIGTERM) stops every wrapper with one signal and removes the folder; a second one does not wait for them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask dev\n  \
    cargo xtask dev --members 3 --tls --etcd 3.6\n  \
    cargo xtask dev --port-base 2379   client 2379, peer 2380, wrapper 2381\n\n\
    Append a subcommand to the `etcdctl:` line to use it: … put hello world\n\
    Exit code: 0 stopped on request, 130 stopped by force, 1 failed, or every member ended by itself.")]
pub(crate) struct Args {
    /// How many members
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=7))]
    members: u16,
    /// TLS everywhere: clients, peers and sidecar, with certificates made for this run
    #[arg(long)]
    tls: bool,
    /// The line of etcd
    #[arg(long, value_name = "LINE", default_value = "3.5")]
    etcd: Line,
    /// Fixed ports from here on instead of free ones: client N, peer N+1, wrapper N+2, sidecar N+3; the next member's 10 further
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port_base: Option<u16>,
    /// Show the programs' own output, each line with its source, instead of keeping it in files
    #[arg(long)]
    logs: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    machine::require_linker()?;
    // Before the builds: who asked for a port that is taken should not wait for a compiler to hear it.
    let ports = match args.port_base {
        Some(base) => plan::fixed_ports(base, args.members)?,
        None => plan::free_ports(args.members)?,
    };
    let etcd = Tool::Etcd(args.etcd).ensure()?;
    let etcdctl = Tool::etcdctl_for(args.etcd).ensure()?;
    let (wrapper, sidecar) = built()?;

    let mut screen = Screen::new();
    let mut fleet = Fleet::new(Programs { wrapper, sidecar, etcd }, args.logs)?;
    let plan = Plan::new(fleet.root(), ports);
    let pki = if args.tls { Some(Pki::make(&plan.root.join("pki"))?) } else { None };
    for member in 0..plan.members.len() {
        fleet.start(&plan, member, pki.as_ref())?;
    }
    for member in &plan.members {
        screen.line(&format!("client: {}", member.client_url(args.tls)));
        // Probes are answered on both schemes; this is the one that serves everything once etcd is configured.
        screen.line(&format!("wrapper: {}", member.wrapper_url(args.tls)));
    }
    screen.line(&format!("etcdctl: {}", etcdctl_line(&etcdctl, &plan, pki.as_ref())));
    fleet.watch(&plan, pki.as_ref(), &mut screen)
}

/// Builds the two programs and returns their paths.
fn built() -> Result<(PathBuf, PathBuf)> {
    // Out of the whole workspace, as `test` builds it, so that both share the crates they build.
    let said = Step::new("cargo")
        .args(["build", "--workspace", "--bin", "etcd-wrapper", "--bin", "sidecar-double"])
        .arg("--message-format=json-render-diagnostics")
        .dir(&repo::root())
        .read_loud()?;
    Ok((executable(&said, "etcd-wrapper")?, executable(&said, "sidecar-double")?))
}

/// Finds the path of a binary in cargo's messages, one JSON document a line.
fn executable(messages: &str, name: &str) -> Result<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name && message["target"]["kind"][0] == "bin")
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .with_context(|| format!("cargo build made no program `{name}`"))
}

/// The command before its subcommand, with all endpoints and certificates, ready to paste into a shell.
fn etcdctl_line(etcdctl: &std::path::Path, plan: &Plan, pki: Option<&Pki>) -> String {
    let endpoints: Vec<String> = plan.members.iter().map(|member| member.client_url(pki.is_some())).collect();
    let mut words =
        vec![etcdctl.as_os_str().to_owned(), format!("--endpoints={}", endpoints.join(",")).into()];
    if let Some(pki) = pki {
        for (flag, path) in [("cacert", &pki.client_ca), ("cert", &pki.client.cert), ("key", &pki.client.key)]
        {
            words.push(format!("--{flag}={}", path.display()).into());
        }
    }
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Ports;

    #[test]
    fn a_binary_is_found_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"etcd-wrapper"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"etcd-wrapper"},"executable":"/t/etcd-wrapper"}"#,
            "\nnot json\n",
        );
        assert_eq!(executable(messages, "etcd-wrapper").unwrap(), PathBuf::from("/t/etcd-wrapper"));
        assert!(executable(messages, "sidecar-double").is_err());
    }

    #[test]
    fn the_etcdctl_line_reaches_every_member() {
        let ports =
            [1, 11].map(|base| Ports { client: base, peer: base + 1, wrapper: base + 2, sidecar: base + 3 });
        let plan = Plan::new("/d".as_ref(), ports.to_vec());
        assert_eq!(
            etcdctl_line("/c/etcdctl".as_ref(), &plan, None),
            "/c/etcdctl --endpoints=http://127.0.0.1:1,http://127.0.0.1:11"
        );
    }
}
