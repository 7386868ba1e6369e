// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 over one connection to loopback, blocking, with nothing between the clock and the socket. Follows nothing,
//! repeats nothing.
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Longer than any answer on loopback takes, long-polls and waiting verbs excepted.
const LIMIT: Duration = Duration::from_secs(60);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    host: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        stream.set_read_timeout(Some(LIMIT)).context("set a time limit")?;
        Ok(Self { reader: BufReader::new(stream), host: address.to_string() })
    }

    /// One call on it; the connection may be used again afterwards.
    pub(crate) fn call(&mut self, method: &str, path: &str, media_type: &str, body: &[u8]) -> Result<Answer> {
        self.send(method, path, media_type, body)?;
        let (status, length) = self.head()?;
        let mut read = Vec::new();
        match length {
            Length::Bytes(bytes) => {
                read.resize(bytes, 0);
                self.reader.read_exact(&mut read).context("read a body")?;
            }
            Length::Chunks => {
                let _ = Chunks::new(&mut self.reader).read_to_end(&mut read).context("read chunks")?;
            }
        }
        Ok(Answer { status, body: read })
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Answer> {
        self.call("GET", path, "", &[])
    }

    fn send(&mut self, method: &str, path: &str, media_type: &str, body: &[u8]) -> Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        if !media_type.is_empty() {
            request.push_str(&format!("content-type: {media_type}\r\n"));
        }
        if !body.is_empty() || method != "GET" {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        // In one piece: the server's clock must not wait for our second packet.
        self.reader.get_mut().write_all(&bytes).with_context(|| format!("send {method} {path}"))
    }

    /// Reads up to the body.
    fn head(&mut self) -> Result<(u16, Length)> {
        let mut line = String::new();
        self.reader.read_line(&mut line).context("read an answer")?;
        if line.is_empty() {
            bail!("the connection was closed instead of an answer");
        }
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.with_context(|| format!("no HTTP: {line:?}"))?;
        let mut length = Length::Bytes(0);
        loop {
            line.clear();
            self.reader.read_line(&mut line).context("read a head")?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = Length::Bytes(value.trim().parse().with_context(|| format!("a length: {value:?}"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Length::Chunks;
            }
        }
        Ok((status, length))
    }

    /// Turns it into a stream of server-sent events.
    pub(crate) fn events(mut self, path: &str) -> Result<Events> {
        self.send("GET", path, "", &[])?;
        let (status, _) = self.head()?;
        if status != 200 {
            bail!("GET {path}: {status}");
        }
        let socket = self.reader.get_ref().try_clone().context("keep a socket")?;
        socket.set_read_timeout(None).context("lift a time limit")?;
        Ok(Events { socket, lines: BufReader::new(Chunks::new(self.reader)) })
    }

    /// Sends a request and leaves the answers unread: a reader that takes nothing.
    pub(crate) fn ignore(mut self, path: &str) -> Result<TcpStream> {
        self.send("GET", path, "", &[])?;
        Ok(self.reader.into_inner())
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("no JSON: {:?}", String::from_utf8_lossy(&self.body)))
    }
}

/// One call on a connection of its own.
pub(crate) fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    media_type: &str,
    body: &[u8],
) -> Result<Answer> {
    Connection::open(address)?.call(method, path, media_type, body)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    call(address, "GET", path, "", &[])
}

enum Length {
    Bytes(usize),
    Chunks,
}

/// An open stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) socket: TcpStream,
    lines: BufReader<Chunks<BufReader<TcpStream>>>,
}

/// One event and when all of it was there.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) topic: String,
    pub(crate) data: String,
    pub(crate) at: Instant,
}

impl Iterator for Events {
    type Item = Event;

    /// The next event, comments left out; None at the end, however it came.
    fn next(&mut self) -> Option<Event> {
        let (mut topic, mut data) = (String::new(), String::new());
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", word)) => word.clone_into(&mut topic),
                Some(("data", text)) => text.clone_into(&mut data),
                _ if line == "\n" && !data.is_empty() => {
                    return Some(Event { topic, data, at: Instant::now() });
                }
                _ => {}
            }
        }
    }
}

/// The bytes within HTTP's chunks.
#[derive(Debug)]
struct Chunks<R> {
    inner: R,
    left: usize,
    /// A chunk was read: its line end is still to come.
    behind: bool,
    over: bool,
}

impl<R: BufRead> Chunks<R> {
    fn new(inner: R) -> Self {
        Self { inner, left: 0, behind: false, over: false }
    }
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 && !self.over {
            let mut line = String::new();
            if std::mem::take(&mut self.behind) {
                self.inner.read_line(&mut line)?;
                line.clear();
            }
            self.inner.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16);
            self.left =
                size.map_err(|_| std::io::Error::new(ErrorKind::InvalidData, "a chunk without a size"))?;
            if self.left == 0 {
                self.over = true;
                self.inner.read_line(&mut line)?;
            }
        }
        let end = buffer.len().min(self.left);
        if end == 0 {
            return Ok(0);
        }
        let read = self.inner.read(&mut buffer[..end])?;
        self.left -= read;
        self.behind = self.left == 0;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_whole_and_no_further() {
        let mut wire = &b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nHTTP/1.1"[..];
        let mut text = String::new();
        Chunks::new(&mut wire).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), wire), ("abcde", &b"HTTP/1.1"[..]));
        assert!(Chunks::new(&b"x\r\n"[..]).read_to_string(&mut text).is_err());
    }

    #[test]
    fn a_connection_serves_several_calls() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in ["200 OK\r\ncontent-length: 2\r\n\r\nok", "503 No\r\n\r\n"] {
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
            }
        });
        let mut connection = Connection::open(address).unwrap();
        let answer = connection.get("/a").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"ok"[..]));
        assert_eq!(connection.get("/b").unwrap().status, 503);
        server.join().unwrap();
        assert!(connection.get("/c").is_err());
    }
}
