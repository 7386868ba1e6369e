// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The task between supervisor, TLS and member stage: which etcd to ask, and how to dial it.
use tokio::sync::watch;
use tracing::{error, warn};

use crate::cli::StartFlags;
use crate::config;
use crate::member::dial::{Address, Dial, Tls};
use crate::member::view::Target;
use crate::supervise::view::{Alive, CoreView};
use crate::tls::client::server_name;
use crate::tls::reload::ClientTls;

/// The member stage's target: the living etcd, dialled with what the TLS stage has loaded for it. The future keeps it up
/// to date.
pub(super) fn follow(
    mut living: watch::Receiver<Option<Alive>>,
    mut tls: watch::Receiver<ClientTls>,
    core: watch::Receiver<CoreView>,
    flags: &StartFlags,
) -> (impl Future<Output = ()> + Send + 'static, watch::Receiver<Option<Target>>) {
    let (port, name) = (flags.etcd_client_port, flags.etcd_server_name.clone());
    let (sender, receiver) = watch::channel(None);
    let following = async move {
        loop {
            // Known before anything is spawned whose pages hang on it.
            let version = core.borrow().etcd_version.clone();
            let target = living.borrow_and_update().as_ref().and_then(|alive| {
                target(alive, &tls.borrow_and_update(), port, name.as_deref(), version.as_deref())
            });
            sender.send_replace(target);
            let alive = tokio::select! {
                changed = living.changed() => changed.is_ok(),
                changed = tls.changed() => changed.is_ok(),
            };
            if !alive {
                return;
            }
        }
    };
    (following, receiver)
}

/// None while the TLS stage has not loaded what this generation needs.
fn target(
    alive: &Alive,
    tls: &ClientTls,
    port: u16,
    name: Option<&str>,
    version: Option<&str>,
) -> Option<Target> {
    let flag = (!alive.posted).then_some(port);
    let endpoint = match config::client_endpoint(&alive.config, flag) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            error!(%error, "etcd cannot be asked");
            return None;
        }
    };
    let http = config::http_endpoint(&alive.config, version).unwrap_or_else(|error| {
        warn!(%error, "etcd's /metrics and /health cannot be found");
        None
    });
    let http = match http {
        Some(endpoint) => Some(dial(endpoint, alive, tls, name)?),
        None => None,
    };
    Some(Target {
        generation: alive.generation,
        config: alive.config.clone(),
        dial: dial(endpoint, alive, tls, name)?,
        http,
        ready_seen: alive.ready_seen,
    })
}

fn dial(
    endpoint: config::ClientEndpoint,
    alive: &Alive,
    tls: &ClientTls,
    name: Option<&str>,
) -> Option<Dial> {
    let host = match &endpoint.address {
        config::Address::Tcp(address) => address.ip().to_string(),
        config::Address::Unix(_) => "localhost".to_owned(),
    };
    let tls = if endpoint.tls {
        if tls.generation != Some(alive.generation) {
            return None;
        }
        let config = tls.config.clone()?;
        let server_name = match server_name(name, &host) {
            Ok(name) => name,
            Err(error) => {
                warn!(%error, name, "the server name cannot be verified");
                return None;
            }
        };
        Some(Tls { config, server_name })
    } else {
        None
    };
    let address = match endpoint.address {
        config::Address::Tcp(address) => Address::Tcp(address),
        config::Address::Unix(path) => Address::Unix(path),
    };
    Some(Dial { address, tls })
}
