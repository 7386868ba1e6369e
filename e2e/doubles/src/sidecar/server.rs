// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The listening side of a sidecar double: a thread with a runtime of its own, one task a connection. Joins the
//! faithful answers with the scripted replies and keeps the book; decides nothing else.
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::control;
use super::core::{Answer, Core};
use super::exchange::{Reader, Request, Stream, Writer, Written, split};
use super::log::{Call, Log, Sent};
use super::reply::Queues;
use super::script::{Reply, Route};
use super::tls::Tls;

/// What all tasks of one sidecar process share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) queues: Mutex<Queues>,
    pub(super) log: Arc<Log>,
    pub(super) tls: Option<Arc<Tls>>,
    /// Serves `/double/...` too.
    pub(super) control: bool,
}

/// A running server; dropping it without `stop` leaves the thread behind.
#[derive(Debug)]
pub(super) struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    pub(super) fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens from the moment it returns.
    pub(super) fn start(addr: SocketAddr, shared: Arc<Shared>) -> io::Result<Self> {
        let listener = StdListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("sidecar-double".into()).spawn(move || {
            // Leaving block_on drops the runtime, and with it every task, socket and lock: an end like SIGKILL's.
            runtime.block_on(async {
                let accepting = async {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => accept(listener, shared).await,
                        Err(_) => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // An accept fails for want of descriptors or because the caller has gone: the next one may work.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&shared)));
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// Serves one connection to its end. Errors end it and concern nobody: the book says what was sent.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(&stream, 3).map(Arc::new) else {
        return;
    };
    let number = shared.log.new_connection();
    let stream: Box<dyn Stream> = match &shared.tls {
        Some(tls) => match tls.acceptor().accept(stream).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
        None => Box::new(stream),
    };
    let (mut reader, mut writer) = split(stream, socket);
    while let Ok(Some(request)) = reader.request().await {
        let again = if shared.control && control::is_control(&request) {
            let answer = control::answer(&request, &shared);
            writer.send(&answer, &Reply::faithful(), request.close).await.is_ok() && !request.close
        } else {
            serve(&request, number, &mut reader, &mut writer, &shared).await
        };
        if !again {
            return;
        }
    }
}

/// One call from its head to its end; true when the connection may carry another.
async fn serve(
    request: &Request,
    connection: u64,
    reader: &mut Reader,
    writer: &mut Writer,
    shared: &Shared,
) -> bool {
    let now = Instant::now();
    let route = Route::of_path(&request.path);
    let call = Call {
        at: SystemTime::now(),
        began: now,
        ended: None,
        method: request.method.clone(),
        route,
        path: request.path.clone(),
        query: request.query.clone(),
        reply: Sent::Pending,
        connection,
    };
    let number = shared.log.begin(call, &writer.socket);
    let reply = shared.queues().take(route, now);
    let socket = Arc::clone(&writer.socket);
    let work = async {
        let answer = compose(route, &request.query, &reply, shared).await;
        let written = writer.send(&answer, &reply, request.close).await;
        (answer, written)
    };
    let sent = tokio::select! {
        // Replies first: a caller that has its reply and closes has not left early.
        biased;
        (answer, written) = work => match written {
            Ok(Written::Whole) => Sent::Whole { code: answer.code, body: beginning(&answer.body) },
            Ok(Written::Cut) => Sent::Cut(answer.code),
            Ok(Written::Closed) => Sent::Closed,
            Ok(Written::Reset) => Sent::Reset,
            Ok(Written::Garbage) => Sent::Garbage,
            Err(_) => Sent::CallerLeft,
        },
        () = reader.caller_left() => Sent::CallerLeft,
    };
    let again = matches!(sent, Sent::Whole { .. }) && !request.close;
    // The socket stays alive until the book is closed: a dead one would read as a caller that left.
    shared.log.end(number, sent);
    drop(socket);
    again
}

async fn compose(route: Route, query: &str, reply: &Reply, shared: &Shared) -> Answer {
    let answer = if reply.is_faithful() {
        shared.core.answer(route, query, reply.has_effect()).await
    } else {
        if reply.has_effect() {
            let _ = shared.core.answer(route, query, true).await;
        }
        let body = reply.fill.map_or_else(|| reply.body.clone().unwrap_or_default(), |len| "x".repeat(len));
        Answer::text(reply.code.unwrap_or(200), &body)
    };
    if let Some(status) = reply.then_status {
        shared.core.set_status(status);
    }
    answer
}

fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(1024)]).into_owned()
}
