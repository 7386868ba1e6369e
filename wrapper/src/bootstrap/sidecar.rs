// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The HTTP(S) client for the backup sidecar: one call at a time, each with an exact outcome. Retries nothing, draws no
//! conclusions, and never logs a body: what an answer means is the state machine's to decide (safety.md 1–7).
//!
//! Every call has a connection of its own. On a kept one a request can be lost on a connection that the sidecar has
//! closed meanwhile, and nobody could tell afterwards whether it was heard; with a new one "connection refused" surely
//! means that nothing was sent. The price, a TLS handshake a poll, is resumed after the first and paid once a second.
mod exchange;
mod trust;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout_at};

use self::exchange::{Reply, Whole};
pub(crate) use self::trust::Trust;
pub use crate::cli::host_port::SidecarAddress;
use crate::connect::{ConnectError, Dialler};
use crate::supervise::view::{Mode, SidecarWord};
use crate::tls::files::TlsFileError;

/// Longest config that is taken.
pub const LONGEST_CONFIG: usize = 4 * 1024 * 1024;
/// Longest answer of the other calls that is taken; the longest word has ten letters.
const LONGEST_WORD: usize = 4 * 1024;

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// Neither a host name nor an address.
    #[error("sidecar address {0:?} is neither a host name nor an IP address")]
    Address(String),
    /// The CA bundle cannot be used.
    #[error("sidecar CA: {0}")]
    Ca(#[from] TlsFileError),
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The TCP connection was refused: nothing was sent, and nobody listens there.
    #[error("{0}")]
    Refused(String),
    /// No name, no route, no TLS, or no connection in time: nothing was sent, the sidecar may be there.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have been heard, but no whole answer came: cut, reset, garbled HTTP, or too late.
    #[error("{0}")]
    Lost(String),
    /// A whole answer other than 200, with the beginning of its text.
    #[error("the sidecar answered {0}: {1}")]
    Status(u16, String),
    /// A whole 200 that makes no sense here, or is too large.
    #[error("the sidecar's answer makes no sense: {0}")]
    Garbled(String),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused(text) => Self::Refused(text),
            ConnectError::Unreachable(text) => Self::Unreachable(text),
        }
    }
}

impl Failure {
    /// The `outcome` label of `sidecar_requests_total`; a success is `ok`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Lost(_) => "lost",
            Self::Status(..) => "status",
            Self::Garbled(_) => "garbled",
        }
    }
}

/// Answer to `GET /initialization/status`. Mind that reading `Successful` or `Failed` has reset it.
pub type StatusReply = Result<SidecarWord, Failure>;
/// Answer to `GET /initialization/start`.
pub type StartReply = Result<(), Failure>;
/// Answer to `GET /config`: the body, whole as far as HTTP can tell.
pub type ConfigReply = Result<Bytes, Failure>;

/// The client. Calls need it exclusively, so two are never in flight; a call that is dropped closes its connection.
#[derive(Debug)]
pub struct SidecarClient {
    address: SidecarAddress,
    host: HeaderValue,
    dialler: Dialler,
    tls: Option<(Trust, ServerName<'static>)>,
}

impl SidecarClient {
    /// Speaks HTTPS exactly if a CA bundle is given, and then reads it.
    ///
    /// # Errors
    /// An address that cannot be a Host header or, with TLS, a server name; a bundle that is missing, unreadable or
    /// without a certificate (exit 12).
    pub fn new(address: SidecarAddress, ca: Option<&Path>) -> Result<Self, SidecarError> {
        let unusable = || SidecarError::Address(address.host.clone());
        let host = HeaderValue::try_from(address.to_string()).map_err(|_| unusable())?;
        let tls = match ca {
            Some(path) => {
                let name = crate::tls::client::server_name(None, &address.host).map_err(|_| unusable())?;
                Some((Trust::load(path)?, name))
            }
            None => None,
        };
        let dialler = Dialler::new(&address.host, address.port);
        Ok(Self { host, dialler, tls, address })
    }

    /// `scheme://host:port`, for logs.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Why the newest content of the CA bundle cannot be used; the older one is in use then.
    pub fn ca_problem(&self) -> Option<&str> {
        self.tls.as_ref().and_then(|(trust, _)| trust.problem())
    }

    /// Reads the status. `limit` covers everything from the name's resolution to the last byte.
    ///
    /// # Errors
    /// Any `Failure`; `Garbled` for a word that we do not know.
    pub async fn status(&mut self, limit: Duration) -> StatusReply {
        let whole = self.call("/initialization/status", limit, LONGEST_WORD, Whole::EndWillDo).await?;
        let word = whole.trim_ascii();
        [SidecarWord::New, SidecarWord::Progress, SidecarWord::Successful, SidecarWord::Failed]
            .into_iter()
            .find(|known| known.as_str().as_bytes() == word)
            .ok_or_else(|| Failure::Garbled(format!("unknown status {:?}", exchange::excerpt(&whole))))
    }

    /// Asks for validation. `limit` as above.
    ///
    /// # Errors
    /// Any `Failure`; after `Lost` the sidecar may have started.
    pub async fn start(&mut self, mode: Mode, limit: Duration) -> StartReply {
        let path = format!("/initialization/start?mode={}", mode.as_str());
        self.call(&path, limit, LONGEST_WORD, Whole::EndWillDo).await.map(drop)
    }

    /// Fetches the config: up to `LONGEST_CONFIG` bytes. `limit` as above; 60 s is right, 45 s for a restart.
    ///
    /// # Errors
    /// Any `Failure`; a body whose end cannot be told from a cut is `Lost`.
    pub async fn config(&mut self, limit: Duration) -> ConfigReply {
        self.call("/config", limit, LONGEST_CONFIG, Whole::NeedsLength).await
    }

    async fn call(
        &mut self,
        path: &str,
        limit: Duration,
        cap: usize,
        whole: Whole,
    ) -> Result<Bytes, Failure> {
        let deadline = Instant::now() + limit;
        let late = |doing: &str| format!("{doing} {} took longer than {limit:?}", self.address);
        let tls = self.tls.as_mut().map(|(trust, name)| (trust.current(), name.clone()));
        let stream = match timeout_at(deadline, self.dialler.connect(tls)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(Failure::Unreachable(late("connecting to"))),
        };
        let exchanged = exchange::get(stream, path, self.host.clone(), cap, whole);
        match timeout_at(deadline, exchanged).await {
            Ok(Ok(Reply { status: 200, body })) => Ok(body),
            Ok(Ok(Reply { status, body })) => Err(Failure::Status(status, exchange::excerpt(&body))),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Lost(late(&format!("GET {path} from")))),
        }
    }
}

#[cfg(test)]
mod tests;
