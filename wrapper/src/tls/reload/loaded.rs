// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is loaded now, and what was wrong with what would not load. No task, no clock: time comes in as a parameter.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{ClientTls, TlsFlags};
use crate::config::EtcdConfig;
use crate::supervise::view::Warning;
use crate::tls::client::{ServerTrust, with_verifier};
use crate::tls::files::{CertificateFile, Digest, Pair, TlsFileError};
use crate::tls::server::{ClientTrust, ServerTls};
use crate::tls::trust::{self, Bundle};
use crate::tls::{CertificateView, TlsView};

/// Below this a certificate's end is a warning.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Something loaded from files, comparable by content.
pub(super) trait Content {
    fn digests(&self) -> (Digest, Option<Digest>);
    fn certificate(&self) -> &CertificateFile;
}

impl Content for CertificateFile {
    fn digests(&self) -> (Digest, Option<Digest>) {
        (self.digest, None)
    }
    fn certificate(&self) -> &CertificateFile {
        self
    }
}

impl Content for Bundle {
    fn digests(&self) -> (Digest, Option<Digest>) {
        (self.file.digest, None)
    }
    fn certificate(&self) -> &CertificateFile {
        &self.file
    }
}

impl Content for Pair {
    fn digests(&self) -> (Digest, Option<Digest>) {
        (self.certificate.digest, Some(self.key_digest))
    }
    fn certificate(&self) -> &CertificateFile {
        &self.certificate
    }
}

/// One thing that is watched: the newest good content, and what is wrong with a newer one.
#[derive(Debug)]
struct Slot<T> {
    name: &'static str,
    current: Option<T>,
    problem: Option<String>,
}

impl<T: Content> Slot<T> {
    fn new(name: &'static str) -> Self {
        Self { name, current: None, problem: None }
    }

    /// Takes a new reading; None: nothing is named any more. Counts swaps and failures, each once.
    fn take(&mut self, read: Option<Result<T, TlsFileError>>, counts: &mut Counts) {
        match read {
            None => *self = Self::new(self.name),
            Some(Ok(content)) => {
                self.problem = None;
                let path = content.certificate().path.display();
                match &self.current {
                    Some(old) if old.digests() == content.digests() => {}
                    Some(_) => {
                        counts.ok += 1;
                        tracing::info!(name = self.name, %path, "certificate file has new content, loaded");
                    }
                    None => tracing::debug!(name = self.name, %path, "certificate file loaded"),
                }
                // Also when only the path is new.
                self.current = Some(content);
            }
            Some(Err(error)) => {
                let problem = error.to_string();
                if self.problem.as_ref() != Some(&problem) {
                    counts.failed += 1;
                    let kept = self.current.is_some();
                    tracing::warn!(name = self.name, kept, "certificate file cannot be used: {problem}");
                    self.problem = Some(problem);
                }
            }
        }
    }

    fn digests(&self) -> Option<(Digest, Option<Digest>)> {
        self.current.as_ref().map(Content::digests)
    }
}

#[derive(Debug, Default)]
struct Counts {
    ok: u64,
    failed: u64,
}

/// What a spawned etcd has read for good, and what that file holds now.
#[derive(Debug, Default)]
struct ReadOnce {
    at_spawn: Option<Digest>,
    changed: bool,
}

impl ReadOnce {
    fn compare(&mut self, now: Option<(Digest, Option<Digest>)>) {
        match (self.at_spawn, now) {
            (None, Some((digest, _))) => self.at_spawn = Some(digest),
            (Some(old), Some((digest, _))) => self.changed = old != digest,
            (_, None) => {}
        }
    }
}

type Digests = Option<(Digest, Option<Digest>)>;

#[derive(Debug)]
pub(super) struct Loaded {
    flags: TlsFlags,
    generation: Option<u64>,
    alive: bool,
    config: Option<Arc<EtcdConfig>>,
    server: Slot<Pair>,
    /// The certificate that etcd made for itself (`auto-tls`).
    auto: Slot<CertificateFile>,
    client_ca: Slot<Bundle>,
    peer: Slot<CertificateFile>,
    peer_ca: Slot<Bundle>,
    client: Slot<Pair>,
    sidecar_ca: Slot<Bundle>,
    client_ca_read: ReadOnce,
    peer_ca_read: ReadOnce,
    counts: Counts,
    /// What the newest `ServerTls` and `ClientConfig` were made from.
    served: (Digests, Digests, bool),
    dialled: Option<(Option<u64>, Digests, Digests)>,
    since: BTreeMap<(&'static str, &'static str), SystemTime>,
}

impl Loaded {
    pub(super) fn new(flags: TlsFlags) -> Self {
        Self {
            flags,
            generation: None,
            alive: false,
            config: None,
            server: Slot::new("server"),
            auto: Slot::new("server"),
            client_ca: Slot::new("client_ca"),
            peer: Slot::new("peer"),
            peer_ca: Slot::new("peer_ca"),
            client: Slot::new("client"),
            sidecar_ca: Slot::new("sidecar_ca"),
            client_ca_read: ReadOnce::default(),
            peer_ca_read: ReadOnce::default(),
            counts: Counts::default(),
            served: (None, None, false),
            dialled: None,
            since: BTreeMap::new(),
        }
    }

    /// This generation is alive; a new one has read its files anew.
    pub(super) fn lives(&mut self, generation: u64, config: &Arc<EtcdConfig>) {
        self.alive = true;
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            // Other files are another matter: what the old ones held must not stand in for them.
            if self.config.as_ref().is_some_and(|old| old.client_tls != config.client_tls) {
                self.server = Slot::new(self.server.name);
                self.client_ca = Slot::new(self.client_ca.name);
            }
            if self.config.as_ref().is_some_and(|old| old.peer_tls != config.peer_tls) {
                self.peer = Slot::new(self.peer.name);
                self.peer_ca = Slot::new(self.peer_ca.name);
            }
            self.config = Some(config.clone());
            self.client_ca_read = ReadOnce::default();
            self.peer_ca_read = ReadOnce::default();
        }
    }

    /// No etcd is alive: what is loaded stays in use, and nothing needs a restart.
    pub(super) fn ended(&mut self) {
        self.alive = false;
        self.client_ca_read = ReadOnce::default();
        self.peer_ca_read = ReadOnce::default();
    }

    /// Reads every file that is named.
    pub(super) fn look(&mut self) {
        let counts = &mut self.counts;
        let client_before = self.client.digests();
        self.client.take(self.flags.client.as_ref().map(|(cert, key)| Pair::load(cert, key)), counts);
        if let Some(pair) = &self.client.current
            && client_before != self.client.digests()
            && !pair.may_be_client()
        {
            let path = pair.certificate.path.display();
            tracing::warn!(%path, "client certificate is not for clients (no clientAuth), so it is not shown to etcd");
        }
        self.sidecar_ca.take(bundle(self.flags.sidecar_ca.as_deref()), counts);

        let Some(config) = &self.config else { return };
        let (client, peer) = (&config.client_tls, &config.peer_tls);
        let pair = client.cert_file.as_deref().zip(client.key_file.as_deref());
        self.server.take(pair.map(|(cert, key)| Pair::load(cert, key)), counts);
        self.client_ca.take(bundle(client.trusted_ca_file.as_deref()), counts);
        self.peer.take(peer.cert_file.as_deref().map(CertificateFile::load), counts);
        self.peer_ca.take(bundle(peer.trusted_ca_file.as_deref()), counts);
        let own = match (pair, ServerTrust::of(config)) {
            // etcd writes it a moment after the spawn: an absent one is no failure.
            (None, Some(ServerTrust::Exactly(path))) if path.exists() => Some(CertificateFile::load(&path)),
            (None | Some(_), Some(_) | None) => None,
        };
        self.auto.take(own, counts);
        if self.alive {
            self.client_ca_read.compare(self.client_ca.digests());
            self.peer_ca_read.compare(self.peer_ca.digests());
        }
    }

    /// What the listener is to use from now on; None: nothing changed.
    pub(super) fn server_tls(&mut self) -> Option<Option<Arc<ServerTls>>> {
        let names_ca = self.config.as_ref().is_some_and(|config| config.client_tls.trusted_ca_file.is_some());
        let made_from = (self.server.digests(), self.client_ca.digests(), names_ca);
        if made_from == self.served {
            return None;
        }
        self.served = made_from;
        Some(self.server.current.as_ref().map(|pair| {
            let trust = match &self.client_ca.current {
                Some(bundle) => ClientTrust::by_bundle(bundle),
                None if names_ca => ClientTrust::NotLoaded,
                None => ClientTrust::Absent,
            };
            Arc::new(ServerTls::new(pair, trust))
        }))
    }

    /// What the member stage is to use from now on; None: nothing changed.
    pub(super) fn client_tls(&mut self) -> Option<ClientTls> {
        let trust = self.config.as_ref().and_then(|config| ServerTrust::of(config));
        let (verifier, trusted) = match trust {
            None => (None, None),
            Some(ServerTrust::Bundle(_)) => {
                (self.client_ca.current.as_ref().map(trust::by_bundle), self.client_ca.digests())
            }
            Some(ServerTrust::Exactly(_)) => {
                let pinned = self.server.current.as_ref().map(|pair| &pair.certificate);
                let pinned = pinned.or(self.auto.current.as_ref());
                (pinned.map(trust::exactly), pinned.map(Content::digests))
            }
        };
        let made_from = Some((self.generation, trusted, self.client.digests()));
        if made_from == self.dialled {
            return None;
        }
        self.dialled = made_from;
        let config = verifier.map(|verifier| Arc::new(with_verifier(verifier, self.client.current.as_ref())));
        Some(ClientTls { generation: self.generation, config })
    }

    /// What is in use, and what deserves a human's eye.
    pub(super) fn view(&mut self, now: SystemTime) -> TlsView {
        let mut found = Vec::new();
        let mut certificates = Vec::new();
        look_at(&self.server, &mut certificates, &mut found, now);
        look_at(&self.auto, &mut certificates, &mut found, now);
        look_at(&self.client_ca, &mut certificates, &mut found, now);
        look_at(&self.peer, &mut certificates, &mut found, now);
        look_at(&self.peer_ca, &mut certificates, &mut found, now);
        look_at(&self.client, &mut certificates, &mut found, now);
        look_at(&self.sidecar_ca, &mut certificates, &mut found, now);
        for (slot, read) in [(&self.client_ca, &self.client_ca_read), (&self.peer_ca, &self.peer_ca_read)] {
            if let (true, Some(bundle)) = (read.changed, &slot.current) {
                let path = bundle.file.path.display();
                let detail = format!("{path} changed since etcd was started, and etcd reads it only then");
                found.push(("restart_needed", slot.name, detail));
            }
        }
        self.since.retain(|key, _| found.iter().any(|(code, name, _)| *key == (*code, *name)));
        let warnings = found
            .into_iter()
            .map(|(code, name, detail)| {
                let since = *self.since.entry((code, name)).or_insert(now);
                Warning { code, since, detail }
            })
            .collect();
        TlsView { certificates, reloads_ok: self.counts.ok, reloads_failed: self.counts.failed, warnings }
    }
}

fn bundle(path: Option<&Path>) -> Option<Result<Bundle, TlsFileError>> {
    path.map(Bundle::load)
}

fn look_at<T: Content>(
    slot: &Slot<T>,
    certificates: &mut Vec<CertificateView>,
    found: &mut Vec<(&'static str, &'static str, String)>,
    now: SystemTime,
) {
    if let Some(problem) = &slot.problem {
        let kept = if slot.current.is_some() { "the old one stays in use" } else { "none is in use" };
        found.push(("tls_reload_failed", slot.name, format!("{} certificate: {problem}; {kept}", slot.name)));
    }
    let Some(content) = &slot.current else { return };
    let CertificateFile { path, not_after, .. } = content.certificate();
    certificates.push(CertificateView { name: slot.name, path: path.clone(), not_after: *not_after });
    if *not_after < now + SOON {
        let end = humantime::format_rfc3339_seconds(*not_after);
        let verb = if *not_after < now { "has ended" } else { "ends" };
        found.push(("certificate_expires", slot.name, format!("{} {verb} at {end}", path.display())));
    }
}
