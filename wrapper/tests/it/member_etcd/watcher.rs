// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A prober running against one etcd, and waits on what it publishes.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use etcd_wrapper::config::{EtcdConfig, TlsSection};
use etcd_wrapper::member::client::Client;
use etcd_wrapper::member::view::{MemberView, Target};
use etcd_wrapper::member::{Settings, run};

use super::etcd::Etcd;

pub(super) struct Watcher {
    targets: watch::Sender<Option<Target>>,
    views: watch::Receiver<Arc<MemberView>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Probes an etcd whose READY has come.
    pub(super) fn of(etcd: &Etcd) -> Self {
        let (targets, target) = watch::channel(Some(target(etcd, 1, true)));
        let (view, views) = watch::channel(Arc::default());
        let task = tokio::spawn(run(target, Settings::default(), view));
        Self { targets, views, task }
    }

    /// (etcd, generation, READY seen).
    pub(super) fn aim(&self, at: Option<(&Etcd, u64, bool)>) {
        let new = at.map(|(etcd, generation, ready_seen)| target(etcd, generation, ready_seen));
        self.targets.send(new).unwrap();
    }

    /// The same etcd with a new TLS configuration.
    pub(super) fn reload(&self, etcd: &Etcd) {
        self.aim(Some((etcd, 1, true)));
    }

    pub(super) fn view(&self) -> MemberView {
        MemberView::clone(&self.views.borrow())
    }

    pub(super) fn client(&self) -> Client {
        self.view().client.unwrap()
    }

    /// Waits for a view that fits; panics with the last one seen. Looks again every 50 ms, since times and numbers wake
    /// nobody.
    pub(super) async fn until(
        &mut self,
        limit: Duration,
        what: &str,
        fits: impl Fn(&MemberView) -> bool,
    ) -> MemberView {
        let start = Instant::now();
        loop {
            let view = self.view();
            if fits(&view) {
                return view;
            }
            assert!(start.elapsed() < limit, "not {what} within {limit:?}: {view:#?}");
            let _ = timeout(Duration::from_millis(50), self.views.changed()).await;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn target(etcd: &Etcd, generation: u64, ready_seen: bool) -> Target {
    let config = EtcdConfig {
        bytes: Bytes::new(),
        digest: String::new(),
        name: "etcd".into(),
        data_dir: "/nonexistent".into(),
        listen_client_urls: vec![],
        listen_client_http_urls: Vec::new(),
        listen_peer_urls: vec![],
        advertise_client_urls: vec![],
        advertise_peer_urls: vec![etcd.peer_url()],
        initial_cluster: vec![],
        client_tls: TlsSection::default(),
        peer_tls: TlsSection::default(),
        quota_backend_bytes: 0,
        election_timeout: Duration::from_secs(1),
        unsafe_no_fsync: false,
        force_new_cluster: false,
    };
    Target { generation, config: Arc::new(config), dial: etcd.dial(), http: None, ready_seen }
}
