// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A double of GitHub's API as far as a release uses it: real HTTP on this machine, releases and files in memory. It keeps
//! GitHub's rules that a cut can run into: rights, names that are taken, uploads that were cut off.

mod routes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use tiny_http::Server;

/// The server, ended when dropped.
pub(crate) struct Double {
    server: Arc<Server>,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
    port: u16,
}

/// What it knows.
#[derive(Debug, Default)]
struct State {
    slug: String,
    token: String,
    port: u16,
    next_id: u64,
    releases: BTreeMap<u64, Value>,
    files: BTreeMap<u64, Vec<u8>>,
    faults: Faults,
    /// Every call, as `METHOD /path`.
    calls: Vec<String>,
}

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// The token may read and not write, and the repository says so.
    pub(crate) read_only: bool,
    /// Calls of this method are refused for want of a right, without a warning before.
    pub(crate) refused: Option<&'static str>,
    /// The next upload is cut off in its middle, and leaves a file that is no file.
    pub(crate) cut_off: bool,
    /// How the check of every commit ended.
    pub(crate) checks: Option<&'static str>,
}

impl std::fmt::Debug for Double {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Double").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Double {
    /// Serves the repository `slug` to whoever shows `token`.
    pub(crate) fn start(slug: &str, token: &str) -> Result<Self> {
        let server =
            Server::http("127.0.0.1:0").map_err(|error| anyhow!("listen on this machine: {error}"))?;
        let port = server.server_addr().to_ip().context("the double listens on no port")?.port();
        let server = Arc::new(server);
        let state = State { slug: slug.into(), token: token.into(), port, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let thread = std::thread::spawn({
            let (server, state) = (Arc::clone(&server), Arc::clone(&state));
            move || {
                while let Ok(request) = server.recv() {
                    routes::serve(&state, request);
                }
            }
        });
        Ok(Self { server, state, thread: Some(thread), port })
    }

    /// What `GITHUB_API_URL` is set to.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets things go wrong from now on.
    #[cfg(test)]
    pub(crate) fn fail(&self, faults: Faults) {
        self.state().faults = faults;
    }

    #[cfg(test)]
    pub(crate) fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// The tags of releases with whether each is a draft.
    pub(crate) fn releases(&self) -> Vec<(String, bool)> {
        let text = |release: &Value| release["tag_name"].as_str().unwrap_or_default().to_owned();
        let draft = |release: &Value| release["draft"].as_bool().unwrap_or_default();
        self.state().releases.values().map(|release| (text(release), draft(release))).collect()
    }

    /// The files of a published release, by name: what anybody can download.
    pub(crate) fn downloads(&self, tag: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let release = state.releases.values().find(|one| one["tag_name"] == tag && one["draft"] == false);
        let assets = release.and_then(|release| release["assets"].as_array()).into_iter().flatten();
        assets
            .filter_map(|asset| {
                let bytes = state.files.get(&asset["id"].as_u64()?)?;
                Some((asset["name"].as_str()?.to_owned(), bytes.clone()))
            })
            .collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            // A panic there was told by itself.
            let _ = thread.join();
        }
    }
}
