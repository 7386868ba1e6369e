// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The sidecar double as a program, for dev and the container tier. Reads its arguments, waits for a signal;
//! everything else is [`doubles::sidecar`].
#![expect(clippy::print_stdout, reason = "a program that tells where it listens")]
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use doubles::sidecar::{Script, Sidecar};
use doubles::span::Span;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Speaks etcd-backup-restore's HTTP contract to an etcd-wrapper. Restores nothing.
#[derive(Debug, Parser)]
#[command(
    name = "sidecar-double",
    version,
    after_help = "\
Example: sidecar-double --listen 127.0.0.1:8080 --config etcd.conf.yaml --member etcd-main-0 \\
           --data-dir /var/etcd/data/new.etcd --validation-time 2s
Live control (curl): GET /double/calls, PUT /double/status, POST|PUT|DELETE /double/fault?route=status, ..."
)]
struct Arguments {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// druid's etcd.conf.yaml, for all members, read anew for every call; without it /config is what the script says
    #[arg(long, value_name = "FILE", requires = "member")]
    config: Option<PathBuf>,
    /// The pod's name
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// etcd's data directory, whose database a validation locks
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Serve HTTPS with this certificate; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How long a validation lasts, e.g. 2s; goes before the script's
    #[arg(long, value_name = "SPAN")]
    validation_time: Option<Span>,
    /// Scripted replies, YAML or JSON (see the head of sidecar/script.rs)
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Signals are taken before the first line is printed: whoever reads it may send one.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("take signals")?;
    let sidecar = setup(&arguments)?.start()?;
    println!("sidecar-double listens on {}", sidecar.url());
    if let Some(signal) = signals.forever().next() {
        println!("sidecar-double ends by signal {signal} after {} calls", sidecar.log().len());
    }
    Ok(())
}

fn setup(arguments: &Arguments) -> anyhow::Result<doubles::sidecar::Setup> {
    let mut script = match &arguments.script {
        Some(path) => Script::read(path)?,
        None => Script::default(),
    };
    if let Some(span) = arguments.validation_time {
        script.validation_time = span;
    }
    let mut setup = match (&arguments.config, &arguments.member) {
        (Some(path), Some(member)) => Sidecar::faithful_file(path, member).script(script),
        _ => Sidecar::scripted(script),
    };
    if let Some(folder) = &arguments.data_dir {
        setup = setup.data_dir(folder);
    }
    if let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        setup = setup.tls_files(cert, key);
    }
    Ok(setup.listen(arguments.listen).with_control())
}
