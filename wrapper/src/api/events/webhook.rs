// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `--notify-url`: POSTs the newest event of each topic until it was heard. Keeps no queue: what a receiver misses while
//! it is away is only what was replaced meanwhile. One task a URL; nobody waits for it but the end of the process, for
//! a moment.
//!
//! HTTPS is verified against the sidecar's CA bundle: the wrapper has no other authority that was given to it for calls
//! to its neighbours, and carries no list of public ones.
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Topic;
use super::ring::Ring;
use crate::api::closed;
use crate::api::publisher::Published;
use crate::bootstrap::sidecar::Trust;
use crate::cli::notify_url::NotifyUrl;
use crate::connect::{ConnectError, Dialler};
use crate::metrics::Metrics;
use crate::tls::files::TlsFileError;

/// All of one call, from the name's resolution to the answer's head.
const LIMIT: Duration = Duration::from_secs(2);
/// The first pause after a failure is half of this to all of it; each further one is twice as long,
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why a URL cannot be called at all.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The URL's host is neither a name nor an address.
    #[error("--notify-url: host {0:?} is neither a name nor an IP address")]
    Host(String),
    /// The bundle that `https` is verified with cannot be read.
    #[error("CA bundle for --notify-url: {0}")]
    Ca(#[from] TlsFileError),
}

/// Why a call has to be made again.
#[derive(Debug, thiserror::Error)]
enum Missed {
    #[error("{0}")]
    NotReached(#[from] ConnectError),
    #[error("no answer: {0}")]
    Lost(#[from] hyper::Error),
    #[error("the answer was {0}")]
    Status(StatusCode),
    #[error("no answer within {LIMIT:?}")]
    Late,
}

impl Missed {
    /// The `outcome` label of `notify_total`; a success is `ok`.
    fn outcome(&self) -> &'static str {
        match self {
            Self::NotReached(_) => "unreachable",
            Self::Lost(_) => "lost",
            Self::Status(_) => "status",
            Self::Late => "late",
        }
    }
}

/// One URL.
#[derive(Debug)]
pub struct Webhook {
    url: NotifyUrl,
    host: HeaderValue,
    dialler: Dialler,
    tls: Option<(Trust, ServerName<'static>)>,
    metrics: Metrics,
}

impl Webhook {
    /// `ca`: whom HTTPS is verified against; read now.
    ///
    /// # Errors
    /// A host that can be no Host header or server name; a bundle that is missing, unreadable or empty (exit 12).
    pub fn new(url: NotifyUrl, ca: Option<&Path>, metrics: Metrics) -> Result<Self, WebhookError> {
        let unusable = || WebhookError::Host(url.address.host.clone());
        let host = HeaderValue::try_from(url.address.to_string()).map_err(|_| unusable())?;
        let tls = match ca.filter(|_| url.tls) {
            Some(ca) => {
                let name =
                    crate::tls::client::server_name(None, &url.address.host).map_err(|_| unusable())?;
                Some((Trust::load(ca)?, name))
            }
            None => None,
        };
        let dialler = Dialler::new(&url.address.host, url.address.port);
        Ok(Self { url, host, dialler, tls, metrics })
    }

    /// Runs until the publisher ends or `closing` turns true, and everything was heard or one more call has failed.
    pub async fn run(
        mut self,
        mut published: watch::Receiver<Published>,
        mut closing: watch::Receiver<bool>,
    ) {
        let origin = self.url.origin();
        let mut heard = [0; Topic::ALL.len()];
        let (mut failures, mut begin_with, mut is_over) = (0, 0, false);
        loop {
            published.mark_unchanged();
            let due = due(&published.borrow().ring, &heard, begin_with);
            let Some((topic, index, event)) = due else {
                if is_over {
                    return;
                }
                tokio::select! {
                    biased;
                    changed = published.changed() => is_over = changed.is_err(),
                    () = closed(&mut closing) => is_over = true,
                }
                continue;
            };
            match self.call(event).await {
                Ok(()) => {
                    self.metrics.notified("ok");
                    heard[topic as usize] = index;
                    if std::mem::take(&mut failures) > 0 {
                        info!(url = origin, "notifications are heard again");
                    }
                }
                Err(missed) => {
                    self.metrics.notified(missed.outcome());
                    if failures == 0 {
                        warn!(url = origin, "notification: {missed}; trying until it is heard");
                    }
                    if is_over {
                        return;
                    }
                    failures += 1;
                    // A receiver that cannot bear one topic still hears the others.
                    begin_with = topic as usize + 1;
                    tokio::select! {
                        () = tokio::time::sleep(pause(failures)) => {}
                        () = closed(&mut closing) => is_over = true,
                    }
                }
            }
        }
    }

    async fn call(&mut self, event: Bytes) -> Result<(), Missed> {
        match tokio::time::timeout(LIMIT, self.post(event)).await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(Missed::Status(status)),
            Ok(Err(missed)) => Err(missed),
            Err(_) => Err(Missed::Late),
        }
    }

    /// One POST over a connection of its own; the answer's body is not read.
    async fn post(&mut self, event: Bytes) -> Result<StatusCode, Missed> {
        let tls = self.tls.as_mut().map(|(trust, name)| (trust.current(), name.clone()));
        let stream = self.dialler.connect(tls).await?;
        let mut request = Request::post(self.url.target.as_str())
            .header(HOST, self.host.clone())
            .header(CONNECTION, "close")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("etcd-wrapper/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.url.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Full::new(event)).expect("a parsed URL and header values");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let answer = sender.send_request(request);
        tokio::pin!(answer);
        // Driven here: dropping the call closes the connection.
        let response = tokio::select! {
            biased;
            response = &mut answer => response,
            _ = connection => answer.await,
        };
        Ok(response?.status())
    }
}

/// The oldest of the newest events that were not heard, topics from `begin_with` on first.
fn due(ring: &Ring, heard: &[u64; Topic::ALL.len()], begin_with: usize) -> Option<(Topic, u64, Bytes)> {
    let order = |topic: Topic| (topic as usize + Topic::ALL.len() - begin_with) % Topic::ALL.len();
    let newest = Topic::ALL.into_iter().filter_map(|topic| ring.latest(topic));
    let unheard = newest.filter(|entry| entry.index > heard[entry.topic as usize]);
    let next = match begin_with {
        0 => unheard.min_by_key(|entry| entry.index),
        _ => unheard.min_by_key(|entry| order(entry.topic)),
    };
    next.map(|entry| (entry.topic, entry.index, entry.frame.data()))
}

/// Doubles, and differs between members that lost the same receiver.
fn pause(failures: u32) -> Duration {
    let longest = (FIRST_PAUSE * 2_u32.pow(failures.saturating_sub(1).min(10))).min(LONGEST_PAUSE);
    let mut byte = [0_u8; 1];
    // Without randomness there is no jitter, which is no reason to fail.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut byte);
    longest / 2 + longest / 2 * u32::from(byte[0]) / 255
}

#[cfg(test)]
mod tests;
