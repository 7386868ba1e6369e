// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Three members on loopback, each a [`Scene`] with its own sidecar, wrapper and real etcd. Owns their certificates.
use doubles::pki::PodPki;
use doubles::sidecar::ConfigMap;
use doubles::wait::{self, Poll};
use rustix::process::Signal;
use serde_json::json;

use crate::scene::{Etcd, LONG, Scene, Wrapper, client_tls, signal};

pub(crate) struct Cluster {
    pub(crate) members: Vec<Scene>,
    _pki_dir: tempfile::TempDir,
}

impl Cluster {
    /// Without TLS.
    pub(crate) fn plain(line: &'static str) -> Self {
        Self::of(line, false)
    }

    /// With `tls` peers and clients speak it, and both show certificates.
    pub(crate) fn of(line: &'static str, tls: bool) -> Self {
        let names = ["etcd-main-0", "etcd-main-1", "etcd-main-2"];
        let dir = tempfile::tempdir().unwrap();
        let local = names.map(|name| format!("{name}-local"));
        let pki = PodPki::write(dir.path(), &local.each_ref().map(String::as_str)).unwrap();
        let scenes = names.map(|name| {
            let scene = Scene::of(&Etcd::Real(line)).named(name);
            if tls { scene.with_pki(&pki) } else { scene }
        });
        let peer_scheme = if tls { "https" } else { "http" };
        let peer_url = |scene: &Scene| format!("{peer_scheme}://127.0.0.1:{}", scene.peer_port());
        let all = scenes.each_ref().map(|scene| format!("{}={}", scene.member(), peer_url(scene))).join(",");
        let configs = scenes.each_ref().map(|scene| {
            let config = scene.config();
            let config = config
                .with("listen-peer-urls", peer_url(scene))
                .with("listen-client-urls", scene.client_url())
                .with("initial-advertise-peer-urls", json!({scene.member(): [peer_url(scene)]}))
                .with("advertise-client-urls", json!({scene.member(): [scene.client_url()]}))
                .with("initial-cluster", all.as_str())
                // For a stream that needs no client of etcd's own.
                .with("enable-grpc-gateway", true)
                // Else a member can be removed only once all have been connected for 5 s.
                .with("strict-reconfig-check", false);
            if tls { with_tls(config, &pki) } else { config }
        });
        let members =
            scenes.into_iter().zip(configs).map(|(scene, config)| scene.with_config(config)).collect();
        Self { members, _pki_dir: dir }
    }

    /// Starts all wrappers at once, and waits until all are ready and agree on who leads.
    #[track_caller]
    pub(crate) fn start_ready(&self) -> Vec<Wrapper<'_>> {
        let wrappers: Vec<_> = self.members.iter().map(Scene::start).collect();
        for wrapper in &wrappers {
            wrapper.wait_ready();
        }
        leader(&wrappers);
        wrappers
    }
}

fn with_tls(config: ConfigMap, pki: &PodPki) -> ConfigMap {
    let peer = json!({
        "cert-file": pki.peer.cert, "key-file": pki.peer.key, "trusted-ca-file": pki.peer_ca_file,
        "client-cert-auth": true, "auto-tls": false,
    });
    config.with("client-transport-security", client_tls(pki)).with("peer-transport-security", peer)
}

/// Who leads, as its own wrapper tells.
#[track_caller]
pub(crate) fn leader(wrappers: &[Wrapper<'_>]) -> usize {
    wait::until(LONG, "a leader", || {
        let told: Vec<_> = wrappers
            .iter()
            .map(|wrapper| wrapper.caller().get("/v1/leader").json()["isLeader"].clone())
            .collect();
        let leads = told.iter().position(|told| *told == true);
        Poll::from_option(leads, || format!("{told:?}"))
    })
}

/// Stops the etcds of these wrappers in their tracks until [`thaw`].
#[track_caller]
pub(crate) fn freeze(etcds: &[u32]) {
    for pid in etcds {
        signal(*pid, Signal::STOP);
    }
}

#[track_caller]
pub(crate) fn thaw(etcds: &[u32]) {
    for pid in etcds {
        signal(*pid, Signal::CONT);
    }
}
