// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The small tasks between two stages: what the TLS stage loaded, in the listener's and in the member stage's shape.
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use tokio::sync::watch;
use tracing::{error, warn};

use crate::api::auth;
use crate::api::listener;
use crate::cli::StartFlags;
use crate::config;
use crate::member::dial::{Address, Dial, Tls};
use crate::member::view::Target;
use crate::supervise::view::Alive;
use crate::tls::client::server_name;
use crate::tls::reload::ClientTls;
use crate::tls::server::{ClientIdentity, ClientTrust, SelfSigned, ServerTls};

/// The listener's TLS: etcd's own certificate once loaded, a self-signed one until then.
///
/// # Errors
/// There was no randomness for the self-signed key.
pub(super) fn listener_tls(
    mut loaded: watch::Receiver<Option<Arc<ServerTls>>>,
    names: Vec<String>,
) -> Result<watch::Receiver<listener::ServerTls>, rcgen::Error> {
    let own = listener::ServerTls {
        config: SelfSigned::new(names).config()?,
        etcd_certificate: false,
        trust: auth::ClientTrust::Absent,
        classify: Arc::new(|_| auth::ClientIdentity::Unverified),
    };
    let (sender, receiver) = watch::channel(own.clone());
    tokio::spawn(async move {
        while loaded.changed().await.is_ok() {
            let seen = loaded.borrow_and_update().clone();
            sender.send_replace(seen.map_or_else(|| own.clone(), etcds));
        }
    });
    Ok(receiver)
}

fn etcds(tls: Arc<ServerTls>) -> listener::ServerTls {
    let trust = match tls.trust() {
        ClientTrust::Absent => auth::ClientTrust::Absent,
        ClientTrust::NotLoaded => auth::ClientTrust::Unreadable,
        ClientTrust::Loaded(_) => auth::ClientTrust::Loaded,
    };
    listener::ServerTls {
        config: tls.config(),
        etcd_certificate: true,
        trust,
        classify: Arc::new(move |shown| match tls.classify(Some(shown), UnixTime::now()) {
            ClientIdentity::None => auth::ClientIdentity::None,
            ClientIdentity::Unverified => auth::ClientIdentity::Unverified,
            ClientIdentity::Verified { cn, sans } => {
                auth::ClientIdentity::Verified { names: cn.into_iter().chain(sans).collect() }
            }
        }),
    }
}

/// The member stage's target: the living etcd, dialled with what the TLS stage has loaded for it.
pub(super) fn targets(
    mut living: watch::Receiver<Option<Alive>>,
    mut tls: watch::Receiver<ClientTls>,
    flags: &StartFlags,
) -> watch::Receiver<Option<Target>> {
    let (port, name) = (flags.etcd_client_port, flags.etcd_server_name.clone());
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let target = living
                .borrow_and_update()
                .as_ref()
                .and_then(|alive| target(alive, &tls.borrow_and_update(), port, name.as_deref()));
            sender.send_replace(target);
            let alive = tokio::select! {
                changed = living.changed() => changed.is_ok(),
                changed = tls.changed() => changed.is_ok(),
            };
            if !alive {
                return;
            }
        }
    });
    receiver
}

/// None while the TLS stage has not loaded what this generation needs.
fn target(alive: &Alive, tls: &ClientTls, port: u16, name: Option<&str>) -> Option<Target> {
    let flag = (!alive.posted).then_some(port);
    let endpoint = match config::client_endpoint(&alive.config, flag) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            error!(%error, "etcd cannot be asked");
            return None;
        }
    };
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
    Some(Target {
        generation: alive.generation,
        config: alive.config.clone(),
        dial: Dial { address, tls },
        http: None,
        ready_seen: alive.ready_seen,
    })
}
