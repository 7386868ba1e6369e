// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! GETs etcd's `/metrics` and `/health` over one HTTP/1 connection that is kept between calls: without TLS etcd serves
//! plain HTTP only to HTTP/1, and a connection for each call would cost etcd a handshake each.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;

use super::dial::{Dial, DialError};
use super::gauges::{Gauges, Missing, parse};
use super::view::Alarms;

/// Far above what etcd serves (about 150 KB).
const BODY_LIMIT: usize = 8 << 20;

/// Reads pages from the local etcd. Owned by one caller at a time.
#[derive(Debug)]
pub struct Scraper {
    dial: Arc<Dial>,
    /// Taken while a call runs, so that a call that was given up takes its connection with it.
    connection: Option<SendRequest<Empty<Bytes>>>,
}

/// Why a page could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// A connection, and no HTTP answer.
    #[error("get {path}: {source}")]
    Http {
        /// Of the page.
        path: &'static str,
        /// HTTP's.
        source: hyper::Error,
    },
    /// An answer that breaks off.
    #[error("get {path}: {source}")]
    Body {
        /// Of the page.
        path: &'static str,
        /// What broke it off.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer other than 200.
    #[error("get {path}: answered {status}")]
    Refused {
        /// Of the page.
        path: &'static str,
        /// What came instead.
        status: StatusCode,
    },
    /// A page without what is looked for.
    #[error("get {path}: {source}")]
    Page {
        /// Of the page.
        path: &'static str,
        /// What is not there.
        source: Missing,
    },
    /// Not within the limit.
    #[error("get {path}: no answer within {limit:?}")]
    TimedOut {
        /// Of the page.
        path: &'static str,
        /// That was up.
        limit: Duration,
    },
}

impl Scraper {
    pub(super) fn new(dial: Arc<Dial>) -> Self {
        Self { dial, connection: None }
    }

    pub(super) fn is_for(&self, dial: &Arc<Dial>) -> bool {
        Arc::ptr_eq(&self.dial, dial)
    }

    /// etcd's gauges, from `/metrics`. `listen-metrics-urls` only adds another place for it; `listen-client-http-urls`
    /// moves it away from the client URLs.
    pub async fn gauges(&mut self, limit: Duration) -> Result<Gauges, ScrapeError> {
        let path = "/metrics";
        let (status, body) = self.get(path, limit).await?;
        if status != StatusCode::OK {
            return Err(ScrapeError::Refused { path, status });
        }
        parse(&String::from_utf8_lossy(&body)).map_err(|source| ScrapeError::Page { path, source })
    }

    /// The alarms, from `/health`, which stays open when auth hides Status. etcd logs a line for each call while one is
    /// raised, so ask rarely. It names one alarm at a time, hence up to two calls.
    pub async fn alarms(&mut self, limit: Duration) -> Result<Alarms, ScrapeError> {
        let mut alarms = Alarms::default();
        // `serializable`: without a quorum the answer must still come.
        let mut path = "/health?serializable=true";
        for _ in 0..2 {
            let (_, body) = self.get(path, limit).await?;
            let says = |words: &[u8]| body.windows(words.len()).any(|window| window == words);
            if says(b"ALARM NOSPACE") {
                alarms.nospace = true;
                path = "/health?serializable=true&exclude=NOSPACE";
            } else {
                alarms.corrupt = says(b"ALARM CORRUPT");
                path = "/health?serializable=true&exclude=CORRUPT";
                if !alarms.corrupt || alarms.nospace {
                    break;
                }
            }
        }
        Ok(alarms)
    }

    async fn get(&mut self, path: &'static str, limit: Duration) -> Result<(StatusCode, Bytes), ScrapeError> {
        let exchange = tokio::time::timeout(limit, self.exchange(path));
        exchange.await.unwrap_or(Err(ScrapeError::TimedOut { path, limit }))
    }

    async fn exchange(&mut self, path: &'static str) -> Result<(StatusCode, Bytes), ScrapeError> {
        let http = |source| ScrapeError::Http { path, source };
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => {
                let stream = self.dial.open(b"http/1.1").await?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(http)?;
                // Ends with the sender; its errors come out of `send_request`.
                tokio::spawn(async move { drop(connection.await) });
                sender
            }
        };
        let request = Request::get(path)
            .header(header::HOST, self.dial.authority())
            .body(Empty::new())
            .expect("a fixed path and a socket address make a request");
        connection.ready().await.map_err(http)?;
        let answer = connection.send_request(request).await.map_err(http)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), BODY_LIMIT).collect().await;
        let body = body.map_err(|source| ScrapeError::Body { path, source })?.to_bytes();
        self.connection = Some(connection);
        Ok((status, body))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::dial::Address;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    async fn listen() -> (TcpListener, Scraper) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        (listener, Scraper::new(Arc::new(Dial { address, tls: None })))
    }

    /// Reads one request, answers it, and returns the request's first line.
    async fn answer(stream: &mut TcpStream, status: &str, body: &str) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.push(stream.read_u8().await.unwrap());
        }
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        String::from_utf8(seen).unwrap().lines().next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn d17_one_connection_serves_many_calls() {
        let (listener, mut scraper) = listen().await;
        let page = "etcd_server_is_leader 1\netcd_server_has_leader 1\n";
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..3 {
                assert_eq!(answer(&mut stream, "200 OK", page).await, "GET /metrics HTTP/1.1");
            }
        };
        let client = async {
            for _ in 0..3 {
                assert!(scraper.gauges(LIMIT).await.unwrap().is_leader);
            }
        };
        tokio::join!(server, client);
    }

    #[tokio::test]
    async fn d4_both_alarms_are_found_behind_each_other() {
        let (listener, mut scraper) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let unavailable = "503 Service Unavailable";
            let nospace = r#"{"health":"false","reason":"ALARM NOSPACE"}"#;
            assert!(answer(&mut stream, unavailable, nospace).await.contains("/health?serializable=true "));
            let corrupt = r#"{"health":"false","reason":"ALARM CORRUPT"}"#;
            assert!(answer(&mut stream, unavailable, corrupt).await.contains("exclude=NOSPACE"));
        };
        let (alarms, ()) = tokio::join!(scraper.alarms(LIMIT), server);
        assert_eq!(alarms.unwrap(), Alarms { nospace: true, corrupt: true });
    }

    #[tokio::test]
    async fn a_refused_page_names_path_and_status() {
        let (listener, mut scraper) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            answer(&mut stream, "404 Not Found", "").await
        };
        let (gauges, _) = tokio::join!(scraper.gauges(LIMIT), server);
        assert_eq!(gauges.unwrap_err().to_string(), "get /metrics: answered 404 Not Found");
    }
}
