// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cluster-sidecar`: the double of etcd-backup-restore for pods that etcd-druid makes. It takes the place of the
//! container `backup-restore` under druid's own arguments, so that a real druid can drive real members where the
//! real sidecar's image cannot be had. Beside one member it
//!
//! - speaks the sidecar's HTTP contract on its port, plain or TLS: initialization, `/config`, `/healthz`; the
//!   snapshot routes answer as if all went well, and nothing is stored;
//! - looks at the data directory (structure, database pages, log), and starts a member anew that has lost it: leaves
//!   the cluster, joins as a learner, is promoted once in sync; joins a cluster that was scaled up in the same way;
//! - renews the member's lease and, beside the leader, both snapshot leases, from which druid makes members and
//!   conditions;
//! - updates the member's peer URLs after the config's have changed, and calls the wrapper's `POST /stop`.
//!
//! It restores nothing: the store counts as empty, so a lone member with spoilt data begins without data. It takes
//! no part in defragmentation or compaction, and does not guard against a volume of another namespace. It is quicker
//! than the real one (which asks a silent cluster for more than a minute), does not exit when a learner cannot be
//! added, and refuses to begin a cluster anew while a member lease says that there is one.
//!
//! Tests steer it on the same port, under `/double/` (see `doubles::sidecar`): status words, replies that fail or
//! never come. Environment: `POD_NAME`, `POD_NAMESPACE`; `ETCD_CONF` in place of druid's config file.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use doubles::sidecar::{Script, Sidecar};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Options;
use crate::kubernetes::Kubernetes;
use crate::member::{LocalMember, Place};

mod arguments;
mod decide;
mod directory;
mod etcd;
mod kubernetes;
mod member;
mod watch;

/// Where druid mounts the config of all members.
const CONFIG_FILE: &str = "/var/etcd/config/etcd.conf.yaml";

fn main() -> anyhow::Result<()> {
    let options = Options::from_line()?;
    let place = Place {
        pod: variable("POD_NAME")?,
        namespace: variable("POD_NAMESPACE")?,
        config_file: std::env::var_os("ETCD_CONF").map_or_else(|| CONFIG_FILE.into(), PathBuf::from),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end = runtime.block_on(run(options, place));
    // Whatever still blocks (a lookup, the call to the wrapper) does not hold up the end.
    runtime.shutdown_background();
    end
}

/// Serves until a signal comes; an error is fatal for the real one too.
async fn run(options: Options, place: Place) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // One of the libraries below brings a second provider; the process has to name the one that counts.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::infer().await.context("find the API server")?;
    let client = kube::Client::try_from(config).context("make a client for the API server")?;
    let kubernetes = Kubernetes::new(client, &place.namespace);
    let member = Arc::new(LocalMember::new(options, place, kubernetes)?);
    let sidecar = serve(&member)?;
    tell(&format!("listens on {}", sidecar.url()));
    tokio::select! {
        _ = terminate.recv() => tell("ends by SIGTERM"),
        _ = interrupt.recv() => tell("ends by SIGINT"),
        fatal = watch::watch(&member) => match fatal? {},
    }
    Ok(())
}

fn serve(member: &Arc<LocalMember>) -> anyhow::Result<Sidecar> {
    let options = member.options();
    let script = Script { store: options.has_store(), ..Script::default() };
    let mut setup = Sidecar::scripted(script)
        .backed_by(member::backing(member, tokio::runtime::Handle::current()))
        .data_dir(&options.data_dir)
        .listen(([0, 0, 0, 0], options.server_port).into())
        .with_control();
    if let (Some(cert), Some(key)) = (&options.server_cert, &options.server_key) {
        setup = setup.tls_files(cert, key);
    }
    setup.start()
}

fn variable(name: &str) -> anyhow::Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.with_context(|| format!("{name} is not set: druid takes it from the pod"))
}

/// One line of the log.
#[expect(clippy::print_stdout, reason = "the log of a container")]
fn tell(text: &str) {
    println!("{} {text}", humantime::format_rfc3339_seconds(SystemTime::now()));
}

/// Tells what changes: a line that repeats the one before is left out.
#[derive(Debug, Default)]
struct Teller {
    last: String,
}

impl Teller {
    fn tell(&mut self, text: String) {
        if text != self.last {
            tell(&text);
            self.last = text;
        }
    }
}
