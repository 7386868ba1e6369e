// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The least that a supervisor can do: ask the sidecar, write its config, start etcd, wait for `READY=1`, read once
//! through consensus. No port, no checks, no care: the limit for whoever does more.
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::etcd::{self, Bare, Client};
use crate::http;
use crate::scene::{LONG, Scene};

/// Between two looks at the sidecar's status.
const LOOK: Duration = Duration::from_millis(10);

/// A member that was brought up.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) bare: Bare,
    /// From the beginning to the confirmed read, in ms.
    pub(crate) total: f64,
}

/// Brings a member up beside the sidecar at `sidecar`.
pub(crate) fn start(scene: &Scene<'_>, sidecar: SocketAddr) -> Result<Up> {
    let began = Instant::now();
    let runtime = etcd::runtime()?;
    let config = config(sidecar)?;
    let bare = Bare::start(scene, &config)?;
    runtime.block_on(async {
        let mut client = Client::new(scene.client.addr())?;
        tokio::time::timeout(LONG, client.read(b"a"))
            .await
            .map_err(|_| anyhow::anyhow!("no answer to a read"))?
    })?;
    Ok(Up { bare, total: began.elapsed().as_secs_f64() * 1e3 })
}

/// The sidecar's dialogue, from its first word to the config.
fn config(sidecar: SocketAddr) -> Result<Vec<u8>> {
    let deadline = Instant::now() + LONG;
    let mut asked = false;
    loop {
        let word = http::get(sidecar, "/initialization/status");
        match word.as_ref().map(|answer| answer.body.as_slice()) {
            Ok(b"New") if !asked => {
                asked = http::get(sidecar, "/initialization/start?mode=full")?.status == 200;
                continue;
            }
            Ok(b"Successful") => break,
            _ if Instant::now() >= deadline => bail!("the sidecar does not get ready; last: {word:?}"),
            _ => crate::machine::pass(LOOK),
        }
        crate::interrupted()?;
    }
    let answer = http::get(sidecar, "/config")?;
    if answer.status != 200 {
        bail!("the sidecar's /config: {}", answer.status);
    }
    Ok(answer.body)
}
