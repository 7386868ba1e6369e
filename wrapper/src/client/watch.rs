// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `events`, and `leader --watch`: follows the event stream and prints each event as it comes. After a cut it goes on
//! where it was; when nobody can be reached for the time limit, it ends. `leader --watch` takes long-polls where there
//! is no place among the streams, which are few, or no such route.
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustix::event::{self, PollFd, PollFlags, Timespec};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::api::wire;
use crate::cli::client::{Events, Leader, Output, Reach as Flags};
use crate::connect::chain;
use crate::exit::client::ClientCode;

use super::call::{Request, call, open, query};
use super::pod::Pod;
use super::reach::Reach;
use super::sse::{Event, Parser};
use super::term::one_line;
use super::{ClientError, Shown, lines};

/// The server sends a comment every 15 s; a stream that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(40);
/// Between attempts to connect anew.
const PAUSE: Duration = Duration::from_millis(200);
/// Between looks whether somebody still reads.
const LOOK: Duration = Duration::from_millis(500);
/// How long one long-poll waits.
const POLL: Duration = Duration::from_secs(60);

/// Goes on, or ends because nobody reads any more.
type Flow = ControlFlow<()>;

pub(super) async fn events(asked: Events) -> Result<Shown, ClientError> {
    let output = asked.read.output;
    let topics = Some(asked.topics.join(",")).filter(|topics| !topics.is_empty());
    let path = format!("/v1/events{}", query(&[("topics", topics)]));
    let mut show = |event: &Event| match output {
        Output::Json => print(&one_line(&event.data)),
        Output::Table => print(&line(event)),
    };
    while_read(follow(&asked.read.reach, &path, &mut show)).await
}

pub(super) async fn leader(asked: Leader) -> Result<Shown, ClientError> {
    let flags = &asked.read.reach;
    let mut board = Board { output: asked.read.output, last: None };
    let watch = async {
        let mut show = |event: &Event| board.event(event);
        match follow(flags, "/v1/events?topics=leader", &mut show).await {
            Err(ClientError::Refused(problem, _)) if matches!(problem.status, 404 | 429) => {
                poll(flags, &mut board).await
            }
            other => other,
        }
    };
    while_read(watch).await
}

/// Watches for as long as somebody reads: when nobody does any more, such a verb has ended well. Without news nothing is
/// written for hours, and a client without a reader would keep its place at the server as long.
async fn while_read(watch: impl Future<Output = Result<(), ClientError>>) -> Result<Shown, ClientError> {
    let reader_goes = async {
        while !reader_is_gone() {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        ended = watch => ended?,
        () = reader_goes => {}
    }
    Ok(Shown { text: String::new(), code: ClientCode::Done })
}

/// Reads the stream, and connects anew where it ends, until `show` has enough.
async fn follow(flags: &Flags, path: &str, show: &mut impl FnMut(&Event) -> Flow) -> Result<(), ClientError> {
    let mut patience = Patience::new(flags.timeout);
    let mut request = Request::get(path);
    loop {
        // Anew each time: certificates may have come or changed meanwhile.
        let reach = Reach::new(flags, &Pod::look(flags))?;
        match open(&reach, &request, Instant::now() + flags.timeout).await {
            Ok(response) => {
                match read(response.into_body(), &mut request.last_event_id, &mut patience, show).await? {
                    None => return Ok(()),
                    Some(why) => {
                        patience.bear(ClientError::Nobody(format!("the stream has ended: {why}")))?;
                    }
                }
            }
            Err(error) => patience.bear(error)?,
        }
        sleep(PAUSE).await;
    }
}

/// One connection to its end: why it ended, or None when `show` had enough.
async fn read(
    mut body: Incoming,
    position: &mut Option<String>,
    patience: &mut Patience,
    show: &mut impl FnMut(&Event) -> Flow,
) -> Result<Option<String>, ClientError> {
    let mut parser = Parser::default();
    loop {
        let frame = match timeout(SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Ok(Some(chain(&error))),
            Ok(None) => return Ok(Some("the wrapper closed it".to_owned())),
            Err(_) => return Ok(Some("it fell silent".to_owned())),
        };
        let Ok(data) = frame.into_data() else { continue };
        // Comments count as well: they are there to show that somebody is.
        patience.renew();
        for event in parser.take(&data).map_err(ClientError::Failed)? {
            // An event without an id of its own moves nothing.
            if event.id.is_some() {
                position.clone_from(&event.id);
            }
            if show(&event).is_break() {
                return Ok(None);
            }
        }
    }
}

/// The same for who leads, by long-polls.
async fn poll(flags: &Flags, board: &mut Board) -> Result<(), ClientError> {
    let mut patience = Patience::new(flags.timeout);
    let mut request = Request::get("/v1/leader");
    loop {
        let reach = Reach::new(flags, &Pod::look(flags))?;
        match call(&reach, &request).await {
            Ok(answer) => {
                patience.renew();
                let document: Value = super::decode("leader", &answer)?;
                let leader: wire::Leader = super::decode("leader", &answer)?;
                if board.show(&leader, document).is_break() {
                    return Ok(());
                }
                let after = Some(format!("{}:{}", leader.epoch, leader.index));
                let path =
                    format!("/v1/leader{}", query(&[("after", after), ("wait", Some(wire::duration(POLL)))]));
                request = Request { wait: POLL, ..Request::get(path) };
                // A server that answers every poll at once must not keep us busy.
                if leader.poll.changed == Some(true) {
                    continue;
                }
            }
            Err(error) => patience.bear(error)?,
        }
        sleep(PAUSE).await;
    }
}

/// How long to go on while nobody answers.
struct Patience {
    limit: Duration,
    /// Somebody has answered before; until then an error ends it: a mistyped port is told at once.
    reached: bool,
    since: Option<Instant>,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, reached: false, since: None }
    }

    fn renew(&mut self) {
        (self.reached, self.since) = (true, None);
    }

    /// Lets an error pass, as long as it may be one of a restart and the limit is not over.
    fn bear(&mut self, error: ClientError) -> Result<(), ClientError> {
        let passing = match &error {
            ClientError::Nobody(_) => true,
            ClientError::Refused(problem, _) => problem.status == 503,
            ClientError::Usage(_) | ClientError::Failed(_) => false,
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !passing || !self.reached || since.elapsed() >= self.limit {
            return Err(error);
        }
        Ok(())
    }
}

/// What was printed last of who leads: only changes are worth a line.
struct Board {
    output: Output,
    last: Option<String>,
}

impl Board {
    fn event(&mut self, event: &Event) -> Flow {
        let Ok(mut data) = serde_json::from_str::<Value>(&event.data) else { return Flow::Continue(()) };
        // A snapshot and a reset carry the whole status, a leader event the leader.
        let document = match data.get_mut("leader") {
            Some(document) => document.take(),
            None => data
                .get_mut("status")
                .and_then(|status| status.get_mut("leader"))
                .map(Value::take)
                .unwrap_or_default(),
        };
        match serde_json::from_value::<wire::Leader>(document.clone()) {
            Ok(leader) => self.show(&leader, document),
            Err(_) => Flow::Continue(()),
        }
    }

    fn show(&mut self, leader: &wire::Leader, document: Value) -> Flow {
        let said = lines::leader(leader);
        if self.last.as_ref() == Some(&said) {
            return Flow::Continue(());
        }
        let flow = match self.output {
            Output::Json => print(&document.to_string()),
            Output::Table => print(&one_line(&format!("{}  {said}", leader.since))),
        };
        self.last = Some(said);
        flow
    }
}

/// One event for people: when, which, and what is new.
fn line(event: &Event) -> String {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let time = data["time"].as_str().unwrap_or("-");
    let what = summary(&event.topic, &data).unwrap_or_else(|| event.data.clone());
    one_line(&format!("{time}  {:9}  {what}", event.topic))
}

fn summary(topic: &str, data: &Value) -> Option<String> {
    let part = |name: &str| data.get(name).cloned();
    match topic {
        "leader" => Some(lines::leader(&serde_json::from_value(part("leader")?).ok()?)),
        "readiness" => Some(lines::readiness(&serde_json::from_value(part("readiness")?).ok()?)),
        "operation" => Some(lines::operation(&serde_json::from_value(part("operation")?).ok()?)),
        "phase" => {
            let phase = data.get("phase")?.as_str()?;
            let previous = data.get("previous").and_then(Value::as_str);
            let before = previous.map(|previous| format!("{previous} → ")).unwrap_or_default();
            Some(format!("{before}{phase} (generation {})", data.get("generation")?))
        }
        "snapshot" | "reset" => {
            let status: wire::Status = serde_json::from_value(part("status")?).ok()?;
            let readiness = lines::readiness(&status.readiness);
            Some(format!("{}, {readiness}; {}", status.wrapper.phase, lines::leader(&status.leader)))
        }
        "gap" => Some("events were left out: this reader was too slow".to_owned()),
        "bye" => Some("the wrapper says goodbye".to_owned()),
        _ => None,
    }
}

/// A line at once, whoever reads it.
fn print(line: &str) -> Flow {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Flow::Continue(()),
        Err(_) => Flow::Break(()),
    }
}

/// Has whoever read our pipe closed it?
fn reader_is_gone() -> bool {
    let out = io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let asked = event::poll(&mut polled, Some(&Timespec::default()));
    asked.is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(test)]
mod tests;
