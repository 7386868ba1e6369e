// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 2: exec to ready beside a real etcd-backup-restore, on an empty directory. Most of it is the sidecar's own time,
//! so the least that any supervisor can take is the limit.
use std::net::SocketAddr;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use doubles::ports::ReservedPort;
use serde_json::json;

use super::life::since;
use super::progress;
use crate::finding::Row;
use crate::log;
use crate::minimal;
use crate::process::Program;
use crate::scene::{self, Scene};
use crate::stage::{Peer, Stage};
use crate::verdict::Bar;

const WHY: &str = "no --sidecar was given: the path of an etcdbrctl";

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    if stage.sidecar.is_none() {
        row.missing("all of it", WHY);
        return Ok(());
    }
    let (mut least, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // Without what etcd took: its election alone differs by a second from life to life.
    let (mut least_over, mut ours_over) = (Vec::new(), Vec::new());
    let mut peer_missing = stage.peer.is_none().then(|| "no --peer was given".to_owned());
    for turn in 0..stage.runs {
        progress("lives beside the real sidecar", turn, stage.runs);
        let (total, own) = of_minimal(stage).context("the minimal client")?;
        least.push(total);
        least_over.push(total - own);
        let (total, own) = of_ours(stage).context("our wrapper")?;
        ours.push(total);
        ours_over.push(total - own);
        if let Some(peer) = stage.peer.as_ref().filter(|_| peer_missing.is_none()) {
            match of_peer(stage, peer) {
                Ok(took) => theirs.push(took),
                Err(error) => peer_missing = Some(format!("{} cannot be measured: {error:#}", peer.name)),
            }
        }
        crate::interrupted()?;
    }
    let name = stage.peer.as_ref().map_or("peer", |peer| peer.name.as_str());
    row.figure(
        "exec to ready",
        "ms",
        [("minimal client", &*least), ("etcd-wrapper", &ours), (name, &theirs)],
    );
    row.figure(
        "of it, not etcd's own",
        "ms",
        [("minimal client", &*least_over), ("etcd-wrapper", &ours_over)],
    );
    row.bar(Bar::difference("ours − minimal client, not etcd's own", "ms", &ours_over, &least_over, 150.0));
    if peer_missing.is_none() {
        let most = crate::stats::median(&theirs) / crate::stats::median(&least);
        row.notes.push(format!(
            "{name} takes {most:.2} times as long as the minimal client, so no wrapper gets further ahead."
        ));
    }
    match peer_missing {
        None => row.bar(Bar::ratio(format!("{name} / ours"), &theirs, &ours, 1.35)),
        Some(why) => row.missing("the ratio to a peer", why),
    }
    Ok(())
}

/// All of it, and etcd's own share, in ms.
fn of_minimal(stage: &Stage) -> Result<(f64, f64)> {
    let scene = Scene::bare(stage)?;
    let sidecar = Sidecar::start(&scene)?;
    let up = minimal::start(&scene, sidecar.port.addr())?;
    Ok((up.total, up.bare.took()))
}

/// As of the minimal client.
fn of_ours(stage: &Stage) -> Result<(f64, f64)> {
    let scene = Scene::bare(stage)?;
    let sidecar = Sidecar::start(&scene)?;
    let began = SystemTime::now();
    let (took, program) = ready(&scene, scene.wrapper(Some(sidecar.port.addr())))?;
    let lines = log::read(&program.log)?;
    Ok((took, log::etcds_own(&lines, began).with_context(|| program.tail())?))
}

fn of_peer(stage: &Stage, peer: &Peer) -> Result<f64> {
    let scene = Scene::bare(stage)?;
    let sidecar = Sidecar::start(&scene)?;
    Ok(ready(&scene, scene.peer(peer, sidecar.port.addr()))?.0)
}

fn ready(scene: &Scene<'_>, command: Command) -> Result<(f64, Program)> {
    let mut program = scene.run(command, "wrapper")?;
    let ready = scene.wait_ready(&mut program)?;
    Ok((since(program.began, ready), program))
}

/// A real one, killed when dropped.
#[derive(Debug)]
struct Sidecar {
    port: ReservedPort,
    _program: Program,
}

impl Sidecar {
    /// Starts it and waits until it answers.
    fn start(scene: &Scene<'_>) -> Result<Self> {
        let path = scene.stage.sidecar.as_deref().context(WHY)?;
        let port = ReservedPort::at(([127, 0, 0, 1], 0).into()).context("reserve a port")?;
        // It reads its config map below /var and nowhere else, so it sees a /var of its own.
        let var = scene.path().join("var");
        let map = var.join("etcd/config/etcd.conf.yaml");
        std::fs::create_dir_all(var.join("etcd/config")).context("make a folder")?;
        std::fs::write(&map, config_map(scene).to_string()).context("write a config map")?;
        let below = |name: &str| scene.path().join(name).display().to_string();
        for name in ["store", "temp"] {
            std::fs::create_dir(scene.path().join(name)).context("make a folder")?;
        }
        let client = format!("http://{}", scene.client.addr());
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--map-root-user", "--", "sh", "-c"])
            .arg(r#"mount --bind "$0" /var && exec "$@""#)
            .arg(&var)
            .arg(path)
            .args(["server", "--storage-provider=Local", "--store-prefix=bench", "--use-etcd-wrapper=true"])
            .args(["--enable-snapshot-lease-renewal=false", "--enable-member-lease-renewal=false"])
            .arg(format!("--server-port={}", port.port()))
            .arg(format!("--store-container={}", below("store")))
            .arg(format!("--endpoints={client}"))
            .arg(format!("--service-endpoints={client}"))
            .arg(format!("--data-dir={}", scene.data_dir().display()))
            .arg(format!("--restoration-temp-snapshots-dir={}", below("temp/restoration")))
            .arg(format!("--snapstore-temp-directory={}", below("temp/snapshots")))
            .env_clear()
            .env("PATH", "/bin:/usr/bin:/sbin:/usr/sbin")
            .env("HOME", scene.path())
            .env("POD_NAME", scene::MEMBER)
            .env("POD_NAMESPACE", "default")
            .current_dir(scene.path());
        let mut program = scene.run(command, "sidecar")?;
        let address: SocketAddr = port.addr();
        // The port alone: a read of its status would be a call that changes it.
        scene::wait(&mut program, "the sidecar's port", || {
            Ok(std::net::TcpStream::connect(address).map_err(|error| error.to_string()))
        })?;
        Ok(Self { port, _program: program })
    }
}

/// As druid makes it: URLs by member. JSON is YAML.
fn config_map(scene: &Scene<'_>) -> serde_json::Value {
    let client = format!("http://{}", scene.client.addr());
    let peer = format!("http://127.0.0.1:{}", scene.peer_port());
    json!({
        "name": "etcd-config",
        "data-dir": scene.data_dir(),
        "listen-client-urls": client,
        "listen-peer-urls": peer,
        "advertise-client-urls": { scene::MEMBER: [client] },
        "initial-advertise-peer-urls": { scene::MEMBER: [peer] },
        "initial-cluster": format!("{}={peer}", scene::MEMBER),
        "initial-cluster-state": "new",
        "initial-cluster-token": "etcd-cluster",
        "enable-grpc-gateway": false,
        "metrics": "basic",
        "snapshot-count": 10_000,
        "quota-backend-bytes": 1_073_741_824,
    })
}
