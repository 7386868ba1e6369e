// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Tells when an answer's bytes have left for the kernel: the HTTP library says nothing of it, but it flushes the
//! stream after the last byte of what it has buffered. Also tells that the peer takes bytes at all. Changes no byte.
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::connections::Activity;

/// Shared by a connection's stream and its requests.
#[derive(Debug, Default)]
pub struct Flushed {
    waiting: Mutex<Option<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    written: bool,
    tell: oneshot::Sender<()>,
}

impl Flushed {
    /// Resolves when what is written from now on was flushed, or with an error when the connection is gone first.
    pub fn after_next_write(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        *self.lock() = Some(Waiting { written: false, tell });
        told
    }

    fn written(&self) {
        if let Some(waiting) = self.lock().as_mut() {
            waiting.written = true;
        }
    }

    fn flushed(&self) {
        let mut waiting = self.lock();
        if let Some(done) = waiting.take_if(|waiting| waiting.written) {
            // A receiver that stopped waiting needs no word.
            let _ = done.tell.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that reports its flushes.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    flushed: Arc<Flushed>,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    /// Tells `flushed` of writes and `activity` of every move.
    pub fn new(stream: S, flushed: Arc<Flushed>, activity: Arc<Activity>) -> Self {
        Self { stream, flushed, activity }
    }

    fn progressed(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = written {
            self.activity.progressed();
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.flushed.written();
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.progressed(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.flushed.written();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.progressed(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = done {
            self.flushed.flushed();
        }
        done
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
