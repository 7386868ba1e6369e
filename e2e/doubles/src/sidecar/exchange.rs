// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 by hand on one connection: reads requests, writes replies as broken as a script wants them (which no
//! HTTP library would do). Knows nothing of what a reply means.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::core::Answer;
use super::script::{End, Reply};

/// As Go's server: longer heads are nobody's we know.
const LONGEST_HEAD: usize = 64 * 1024;
const LONGEST_BODY: usize = 1024 * 1024;
/// Pieces of a paced body that has a content length.
const PIECES: usize = 10;

/// A connection, plain or TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A request as far as a sidecar looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: Vec<u8>,
    /// The caller wants the connection closed after the reply.
    pub(super) close: bool,
}

/// What was written of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Whole,
    Cut,
    Closed,
    Reset,
    Garbage,
}

/// The reading side; keeps what came early.
pub(super) struct Reader {
    half: ReadHalf<Box<dyn Stream>>,
    early: Vec<u8>,
}

/// The writing side, and the socket below it for a reset.
pub(super) struct Writer {
    half: WriteHalf<Box<dyn Stream>>,
    pub(super) socket: Arc<OwnedFd>,
}

pub(super) fn split(stream: Box<dyn Stream>, socket: Arc<OwnedFd>) -> (Reader, Writer) {
    let (read, write) = tokio::io::split(stream);
    (Reader { half: read, early: Vec::new() }, Writer { half: write, socket })
}

impl Reader {
    /// The next request; None when the caller is done.
    pub(super) async fn request(&mut self) -> io::Result<Option<Request>> {
        let end = loop {
            if let Some(at) = self.early.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.early.len() > LONGEST_HEAD {
                return Err(io::Error::other("head too long"));
            }
            if self.more().await? == 0 {
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&self.early[..end]).into_owned();
        let (mut request, length) = parse_head(&head).ok_or_else(|| io::Error::other("no HTTP/1 request"))?;
        if length > LONGEST_BODY {
            return Err(io::Error::other("body too long"));
        }
        while self.early.len() < end + length {
            if self.more().await? == 0 {
                return Ok(None);
            }
        }
        request.body = self.early[end..end + length].to_vec();
        self.early.drain(..end + length);
        Ok(Some(request))
    }

    /// Ends when the caller hangs up; keeps whatever it sends before.
    pub(super) async fn caller_left(&mut self) {
        while self.more().await.is_ok_and(|read| read > 0) {}
    }

    async fn more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 4096];
        let read = self.half.read(&mut piece).await?;
        self.early.extend_from_slice(&piece[..read]);
        Ok(read)
    }
}

fn parse_head(head: &str) -> Option<(Request, usize)> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        close: version == "HTTP/1.0",
        ..Request::default()
    };
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        } else if name.eq_ignore_ascii_case("connection") {
            request.close = value.eq_ignore_ascii_case("close");
        }
    }
    Some((request, length))
}

impl Writer {
    /// Sends `answer` the way `reply` wants it sent. Everything but `Whole` leaves a connection to be dropped.
    pub(super) async fn send(&mut self, answer: &Answer, reply: &Reply, close: bool) -> io::Result<Written> {
        tokio::time::sleep(reply.before_head.0).await;
        match &reply.end {
            End::Whole => self.whole(answer, reply, close).await,
            End::Short(missing) => {
                let len = answer.body.len().saturating_sub(*missing);
                self.head(answer, reply, answer.body.len().max(*missing), true).await?;
                self.body(&answer.body[..len], reply).await?;
                self.close().await;
                Ok(Written::Cut)
            }
            End::AfterHead => {
                self.head(answer, reply, answer.body.len().max(1), true).await?;
                tokio::time::sleep(reply.before_body.0).await;
                self.close().await;
                Ok(Written::Cut)
            }
            End::BeforeHead => {
                self.close().await;
                Ok(Written::Closed)
            }
            End::Reset => {
                // Closing with a zero linger time sends RST; the drop of the connection closes.
                rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO))?;
                Ok(Written::Reset)
            }
            End::Never => std::future::pending().await,
            End::Garbage(text) => {
                self.write(text.as_bytes()).await?;
                self.close().await;
                Ok(Written::Garbage)
            }
        }
    }

    async fn whole(&mut self, answer: &Answer, reply: &Reply, close: bool) -> io::Result<Written> {
        let at_once = reply.chunks.is_none() && reply.before_body.0.is_zero() && reply.over.0.is_zero();
        if at_once {
            // As Go's server sends a small answer. Its clients rely on it: the Go wrapper reads a body only as far as it
            // came with the head.
            let head = Self::head_text(answer, reply, answer.body.len(), close);
            self.write(&[head.as_bytes(), &answer.body].concat()).await?;
        } else {
            self.head(answer, reply, answer.body.len(), close).await?;
            self.body(&answer.body, reply).await?;
        }
        if reply.chunks.is_some() {
            self.write(b"0\r\n\r\n").await?;
        }
        if close {
            self.close().await;
        }
        Ok(Written::Whole)
    }

    async fn head(&mut self, answer: &Answer, reply: &Reply, length: usize, close: bool) -> io::Result<()> {
        self.write(Self::head_text(answer, reply, length, close).as_bytes()).await
    }

    fn head_text(answer: &Answer, reply: &Reply, length: usize, close: bool) -> String {
        let reason = http::StatusCode::from_u16(answer.code).ok().and_then(|code| code.canonical_reason());
        let framing = match reply.chunks {
            Some(_) => "Transfer-Encoding: chunked".into(),
            None => format!("Content-Length: {length}"),
        };
        format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{framing}\r\n{}\r\n",
            answer.code,
            reason.unwrap_or("Unknown"),
            reply.content_type.as_deref().unwrap_or("text/plain; charset=utf-8"),
            if close { "Connection: close\r\n" } else { "" },
        )
    }

    async fn body(&mut self, body: &[u8], reply: &Reply) -> io::Result<()> {
        tokio::time::sleep(reply.before_body.0).await;
        let wanted = match reply.chunks {
            Some(pieces) => pieces.max(1),
            None if reply.over.0 > Duration::ZERO => PIECES,
            None => 1,
        };
        if body.is_empty() {
            return Ok(());
        }
        let size = body.len().div_ceil(wanted);
        let count = body.len().div_ceil(size);
        let pause = reply.over.0 / u32::try_from(count.saturating_sub(1).max(1)).unwrap_or(u32::MAX);
        for (n, piece) in body.chunks(size).enumerate() {
            if n > 0 {
                tokio::time::sleep(pause).await;
            }
            if reply.chunks.is_some() {
                let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
                self.write(&framed).await?;
            } else {
                self.write(piece).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.half.write_all(bytes).await?;
        self.half.flush().await
    }

    /// The end as the caller sees it; what it still sends is of no interest.
    async fn close(&mut self) {
        let _ = self.half.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_apart() {
        let head = "GET /initialization/start?mode=full HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\nConnection: close\r\n\r\n";
        let (request, length) = parse_head(head).unwrap();
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/initialization/start", "mode=full"));
        assert!(request.close);
        assert_eq!(length, 3);
        assert_eq!(parse_head("hello\r\n\r\n"), None);
    }
}
