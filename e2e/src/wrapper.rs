// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A client of the port of one pod's wrapper, as an agent in that pod would be: from loopback, over whichever scheme serves
//! at the moment. It knows HTTP and the documented paths, and nothing of how the wrapper works.
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use kube::Client;
use rustls::pki_types::ServerName;
use serde_json::Value;

use crate::exchange::exchange;
use crate::forward;

/// The port that etcd-druid gives the wrapper.
pub const PORT: u16 = 9095;
/// For a call that does not ask the wrapper to wait for something.
const CALL: Duration = Duration::from_secs(10);

/// Who calls, and whom. Cheap to clone.
#[derive(Clone)]
pub struct Wrapper {
    client: Client,
    namespace: String,
    pod: String,
    port: u16,
    tls: Arc<rustls::ClientConfig>,
    server_name: String,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Of the answer.
    pub status: StatusCode,
    /// Of the answer.
    pub headers: http::HeaderMap,
    /// Whole.
    pub body: Bytes,
}

/// The head has come, and perhaps more of it.
enum Opened {
    Answered(Response<Incoming>),
    /// A 403, which had to be read to know what it is about.
    Refused(Answer),
}

impl fmt::Debug for Wrapper {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Wrapper").field("pod", &self.pod).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Wrapper {
    /// A caller of the wrapper in `pod`. Where it serves TLS, `tls` is used and `server_name` verified.
    pub fn new(
        client: Client,
        namespace: &str,
        pod: &str,
        tls: Arc<rustls::ClientConfig>,
        server_name: &str,
    ) -> Self {
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        Self { client, namespace, pod, port: PORT, tls, server_name: server_name.to_owned() }
    }

    /// The same caller for another port of the pod: the sidecar's double speaks HTTP on 8080.
    #[must_use]
    pub fn on_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// `GET path`, within 10 s. Any status is an answer.
    ///
    /// # Errors
    /// Nobody answered.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.call(CALL, Method::GET, path, None).await
    }

    /// `POST path` with a JSON body, or none.
    ///
    /// # Errors
    /// Nobody answered within `limit`.
    pub async fn post(&self, limit: Duration, path: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
        self.call(limit, Method::POST, path, body).await
    }

    /// Any call; the body with its media type.
    ///
    /// # Errors
    /// Nobody answered within `limit`.
    pub async fn call(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Answer> {
        let what = format!("{method} {path} of the wrapper in {}", self.pod);
        let exchange = async {
            match self.open(method, path, body).await? {
                Opened::Refused(answer) => Ok(answer),
                Opened::Answered(response) => whole(response).await,
            }
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(answer) => answer.context(what),
            Err(_) => bail!("{what}: no answer within {limit:?}"),
        }
    }

    /// `GET path` with a body that goes on: a stream of events. None: there is no such path, as in the Go image. No limit is
    /// set here.
    ///
    /// # Errors
    /// Nobody answered, or with another refusal.
    pub async fn stream(&self, path: &str) -> Result<Option<Response<Incoming>>> {
        let what = || format!("GET {path} of the wrapper in {}", self.pod);
        match self.open(Method::GET, path, None).await.with_context(what)? {
            Opened::Answered(response) if response.status().is_success() => Ok(Some(response)),
            Opened::Answered(response) if response.status() == StatusCode::NOT_FOUND => Ok(None),
            Opened::Answered(response) => bail!("{}: {}", what(), response.status()),
            Opened::Refused(answer) => bail!("{}: {}: {:?}", what(), answer.status, answer.code()),
        }
    }

    /// `GET /v1/status`.
    ///
    /// # Errors
    /// Nobody answered, or not with 200 and a JSON document.
    pub async fn status(&self) -> Result<Value> {
        self.get("/v1/status").await?.json()
    }

    /// Plain first: the wrapper refuses it with `tls_required` exactly when TLS serves. The other way round, a certificate
    /// made at start would have to be believed during the bootstrap.
    async fn open(&self, method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> Result<Opened> {
        let plain = forward::connect(&self.client, &self.namespace, &self.pod, self.port).await?;
        let response = exchange(plain, &method, path, body.clone()).await?;
        if response.status() != StatusCode::FORBIDDEN {
            return Ok(Opened::Answered(response));
        }
        let refusal = whole(response).await?;
        if refusal.code().as_deref() != Some("tls_required") {
            return Ok(Opened::Refused(refusal));
        }
        let tcp = forward::connect(&self.client, &self.namespace, &self.pod, self.port).await?;
        let name = ServerName::try_from(self.server_name.clone()).context("use the server's name")?;
        let tls = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await;
        let tls = tls.context("TLS")?;
        Ok(Opened::Answered(exchange(tls, &method, path, body).await?))
    }
}

async fn whole(response: Response<Incoming>) -> Result<Answer> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.context("read the body")?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

impl Answer {
    /// The body of a success as JSON.
    ///
    /// # Errors
    /// Another status than 2xx, with the body; or no JSON.
    pub fn json(&self) -> Result<Value> {
        if !self.status.is_success() {
            bail!("{}: {}", self.status, String::from_utf8_lossy(&self.body));
        }
        serde_json::from_slice(&self.body).with_context(|| format!("read {} bytes of JSON", self.body.len()))
    }

    /// The code of a problem document.
    pub fn code(&self) -> Option<String> {
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        problem["code"].as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_document() {
        let body = Bytes::from_static(br#"{"code":"config_differs","detail":"another one runs"}"#);
        let answer = Answer { status: StatusCode::CONFLICT, headers: http::HeaderMap::new(), body };
        assert_eq!(answer.code().as_deref(), Some("config_differs"));
        let told = format!("{:#}", answer.json().unwrap_err());
        assert!(told.contains("409") && told.contains("another one runs"), "{told}");
    }
}
