// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The task that looks at the certificate files again and again, and hands on what changed. It compares contents, not
//! names or times: the kubelet swaps a link, and inotify on the file goes dead. Restarts nothing and closes nothing.
mod loaded;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;

use self::loaded::Loaded;
use super::TlsView;
use super::server::ServerTls;
use crate::supervise::view::Alive;

/// How often the files are looked at.
pub const EVERY: Duration = Duration::from_secs(10);

/// The files that our own flags name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFlags {
    /// `--etcd-client-cert-path` and `--etcd-client-key-path`.
    pub client: Option<(PathBuf, PathBuf)>,
    /// `--backup-restore-ca-cert-bundle-path`, where TLS is on. Watched here for its end and for warnings; the sidecar's
    /// client reads it by itself.
    pub sidecar_ca: Option<PathBuf>,
}

/// How to dial etcd.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// The generation whose config this is made from; wait while it is not yours.
    pub generation: Option<u64>,
    /// None: plain, or (where the listen URL says https) the files are not there yet. ALPN is left open.
    pub config: Option<Arc<rustls::ClientConfig>>,
}

/// What the task tells.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// For the listener, once a connection. None: no certificate of etcd's was loaded yet, or its client TLS is off.
    pub server: watch::Receiver<Option<Arc<ServerTls>>>,
    /// For the member stage, at each new connection.
    pub client: watch::Receiver<ClientTls>,
    /// For status and metrics.
    pub view: watch::Receiver<TlsView>,
}

/// The task before it runs.
#[derive(Debug)]
pub struct Reloader {
    loaded: Loaded,
    every: Duration,
    target: watch::Receiver<Option<Alive>>,
    server: watch::Sender<Option<Arc<ServerTls>>>,
    client: watch::Sender<ClientTls>,
    view: watch::Sender<TlsView>,
}

impl Reloader {
    /// `target` is the etcd that is alive, as the member stage gets it; `every` is `EVERY` outside tests. Reads nothing
    /// yet.
    pub fn new(flags: TlsFlags, every: Duration, target: watch::Receiver<Option<Alive>>) -> (Self, Outputs) {
        let (server, server_seen) = watch::channel(None);
        let (client, client_seen) = watch::channel(ClientTls::default());
        let (view, view_seen) = watch::channel(TlsView::default());
        let outputs = Outputs { server: server_seen, client: client_seen, view: view_seen };
        (Self { loaded: Loaded::new(flags), every, target, server, client, view }, outputs)
    }

    /// Looks at once, at each spawn, every `every`, and whenever `hangup` (SIGHUP) is notified; ends with the sender of
    /// `target`.
    pub async fn run(mut self, hangup: Arc<Notify>) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = hangup.notified() => tracing::info!("SIGHUP: looking at the certificates"),
                changed = self.target.changed() => if changed.is_err() { return },
            }
            self.look(SystemTime::now());
        }
    }

    fn look(&mut self, now: SystemTime) {
        let target = self.target.borrow_and_update().clone();
        match &target {
            Some(target) => self.loaded.lives(target.generation, &target.config),
            None => self.loaded.ended(),
        }
        self.loaded.look();
        if let Some(server) = self.loaded.server_tls() {
            self.server.send_replace(server);
        }
        if let Some(client) = self.loaded.client_tls() {
            self.client.send_replace(client);
        }
        let view = self.loaded.view(now);
        self.view.send_if_modified(|seen| {
            let changed = *seen != view;
            *seen = view;
            changed
        });
    }
}

#[cfg(test)]
mod tests;
