// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A caller of one wrapper's port: the kubelet, who probes without a certificate, and an agent, who has one that may
//! control. Each call has a connection of its own. Knows HTTP and the documented paths.
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;

use super::files::SERVER_NAME;
use crate::exchange::exchange;

const PORT: u16 = 9095;
/// What the kubelet gives a probe.
const PROBE: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub struct Port {
    address: SocketAddr,
    agent: Arc<rustls::ClientConfig>,
}

/// An answer in whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// As the wrapper answered.
    pub status: StatusCode,
    /// Null when it is no JSON.
    pub body: Value,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Port").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Port {
    /// The wrapper's port on `host`, asked as the agent does whose certificate `agent` carries.
    pub fn new(host: IpAddr, agent: Arc<rustls::ClientConfig>) -> Self {
        Self { address: (host, PORT).into(), agent }
    }

    /// What a readiness probe hears: true for 200, false for 503.
    ///
    /// # Errors
    /// Anything else, and nothing within 1 s.
    pub async fn is_ready(&self) -> Result<bool> {
        let probe = async {
            let plain = TcpStream::connect(self.address).await.context("connect")?;
            let response = exchange(plain, &Method::GET, "/readyz", None).await?;
            match response.status() {
                StatusCode::OK => Ok(true),
                StatusCode::SERVICE_UNAVAILABLE => Ok(false),
                other => bail!("GET /readyz: {other}"),
            }
        };
        tokio::time::timeout(PROBE, probe).await.context("GET /readyz: no answer within 1s")?
    }

    /// A call as an agent, over TLS, within `limit`. Any status is an answer.
    ///
    /// # Errors
    /// Nobody answered, or not as the server that its certificate must name.
    pub async fn call(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer> {
        let what = format!("{method} {path} at {}", self.address);
        let call = async {
            let response = self.open(method, path, body).await?;
            let status = response.status();
            let bytes = response.into_body().collect().await.context("read the body")?.to_bytes();
            Ok::<_, anyhow::Error>(Answer {
                status,
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            })
        };
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.context(what),
            Err(_) => bail!("{what}: no answer within {limit:?}"),
        }
    }

    /// `GET /v1/events`, as long as it goes on.
    ///
    /// # Errors
    /// As [`Port::call`]; also for any status but 200.
    pub async fn events(&self) -> Result<Response<Incoming>> {
        let response =
            tokio::time::timeout(Duration::from_secs(5), self.open(Method::GET, "/v1/events", None));
        let response = response.await.context("GET /v1/events: no answer within 5s")??;
        if response.status() != StatusCode::OK {
            bail!("GET /v1/events: {}", response.status());
        }
        Ok(response)
    }

    async fn open(&self, method: Method, path: &str, body: Option<Value>) -> Result<Response<Incoming>> {
        let tcp = TcpStream::connect(self.address).await.context("connect")?;
        let name = ServerName::try_from(SERVER_NAME).context("use the server's name")?;
        let tls = tokio_rustls::TlsConnector::from(Arc::clone(&self.agent)).connect(name, tcp).await;
        let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
        exchange(tls.context("TLS")?, &method, path, body).await
    }
}

impl Answer {
    /// The code of a problem document.
    pub fn code(&self) -> Option<&str> {
        self.body["code"].as_str()
    }
}
