// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Our own log: one line an event, to stderr, where etcd's lines go too; stdout belongs to the client verbs. Does not
//! touch etcd's output, which never passes through us.
//!
//! A thread of its own writes, from a bounded queue: a reader that has stopped (a full pipe blocks the writer) must not
//! stop probes or hold up a shutdown. What does not fit is dropped and counted. A closed stderr is no error.
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime};

use tracing::Dispatch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;

/// Bytes that may wait for the reader of stderr.
const QUEUE_BYTES: usize = 1 << 20;

/// `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One object a line.
    #[default]
    Json,
    /// For people; coloured on a terminal.
    Text,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The writer's thread cannot be started.
    #[error("start the log's writer: {0}")]
    Thread(io::Error),
    /// A process has one log.
    #[error("the log has been set up before")]
    Twice,
}

/// The process's log. Lines that were logged but not flushed are lost with the process.
#[derive(Clone, Debug)]
pub struct Telemetry {
    queue: Queue,
}

/// Sets up logging and the panic hook, for the whole process.
///
/// # Errors
/// No thread can be started, or it was called before.
pub fn init(targets: Targets, format: Format) -> Result<Telemetry, TelemetryError> {
    let queue = Queue::start(io::stderr()).map_err(TelemetryError::Thread)?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let dispatch = subscriber(targets, format, colour, queue.clone());
    tracing::dispatcher::set_global_default(dispatch).map_err(|_| TelemetryError::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(
            place,
            thread = thread.name().unwrap_or("unnamed"),
            reason = panic.payload_as_str().unwrap_or("not a text"),
            "panicked; this is a defect of the wrapper",
        );
    }));
    Ok(Telemetry { queue })
}

impl Telemetry {
    /// Queues one line as it is, without time and level: the exit record.
    pub fn write_line(&self, line: &str) {
        self.queue.push(format!("{line}\n").into_bytes());
    }

    /// Waits until all lines so far have been written, at most for `limit`; false if they have not. Blocks the thread:
    /// for the very end of the process.
    pub fn flush(&self, limit: Duration) -> bool {
        let (done, written) = sync_channel(1);
        self.queue.messages.send(Message::Flush(done)).is_ok() && written.recv_timeout(limit).is_ok()
    }

    /// Lines lost so far because the reader of stderr was too slow.
    pub fn dropped(&self) -> u64 {
        self.queue.counters.dropped.load(Ordering::Relaxed)
    }
}

fn subscriber(targets: Targets, format: Format, colour: bool, queue: Queue) -> Dispatch {
    // Internal errors would be printed with a macro that panics when stderr is closed.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(queue).with_timer(Clock).log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(targets);
    match format {
        Format::Json => Dispatch::new(
            registry.with(lines.json().flatten_event(true).with_current_span(false).with_span_list(false)),
        ),
        Format::Text => Dispatch::new(registry.with(lines.with_ansi(colour))),
    }
}

/// RFC 3339, UTC, milliseconds, as in etcd's own lines.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", humantime::format_rfc3339_millis(SystemTime::now()))
    }
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counters {
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// The sending side; never blocks, never fails.
#[derive(Clone, Debug)]
struct Queue {
    messages: Sender<Message>,
    counters: Arc<Counters>,
}

impl Queue {
    fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, incoming) = channel();
        let counters = Arc::new(Counters::default());
        let shared = Arc::clone(&counters);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_out(&incoming, output, &shared))?;
        Ok(Self { messages, counters })
    }

    fn push(&self, line: Vec<u8>) {
        let length = line.len();
        let queued = self.counters.queued_bytes.fetch_add(length, Ordering::Relaxed);
        if queued + length > QUEUE_BYTES || self.messages.send(Message::Line(line)).is_err() {
            self.counters.queued_bytes.fetch_sub(length, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The formatter hands over each event in one piece.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer thread: ends when every [`Queue`] is gone.
fn write_out(incoming: &Receiver<Message>, mut output: impl Write, counters: &Counters) {
    let mut told = 0;
    for message in incoming {
        match message {
            Message::Line(line) => {
                // Nobody is left to be told that the log cannot be written.
                let _ = output.write_all(&line);
                let queued = counters.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed) - line.len();
                let dropped = counters.dropped.load(Ordering::Relaxed);
                if dropped > told && queued < QUEUE_BYTES / 2 {
                    tracing::warn!(
                        lines = dropped - told,
                        "the reader of stderr was too slow: log lines were dropped"
                    );
                    told = dropped;
                }
            }
            // The other side may have given up waiting.
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    use std::sync::Mutex;

    use serde_json::Value;

    use crate::supervise::process::rerun::{self, DEADLINE};

    use super::*;

    /// What was written, and a gate that a reader can hold shut.
    #[derive(Clone, Default)]
    struct Output {
        text: Arc<Mutex<Vec<u8>>>,
        gate: Arc<Mutex<()>>,
    }

    impl Write for Output {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _open = self.gate.lock().unwrap();
            self.text.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: Format, log: impl FnOnce()) -> String {
        let output = Output::default();
        let queue = Queue::start(output.clone()).unwrap();
        let dispatch = subscriber(filter.parse().unwrap(), format, false, queue.clone());
        tracing::dispatcher::with_default(&dispatch, log);
        assert!(Telemetry { queue }.flush(DEADLINE));
        String::from_utf8(output.text.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_json_line_is_flat_with_a_utc_time_in_milliseconds() {
        let text = logged("info", Format::Json, || tracing::warn!(path = "/x", "no \"such\"\nfile"));
        let line: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((line["level"].as_str(), line["path"].as_str()), (Some("WARN"), Some("/x")));
        assert_eq!(line["message"], "no \"such\"\nfile");
        let time = line["timestamp"].as_str().unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), ("2026-12-01T17:00:00.000Z".len(), true), "{time}");
        humantime::parse_rfc3339(time).unwrap();
    }

    #[test]
    fn text_has_no_colours_unless_asked_for() {
        let text = logged("info", Format::Text, || tracing::info!(phase = "held", "waiting"));
        assert!(text.contains(" INFO ") && text.ends_with("waiting phase=\"held\"\n"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn the_filter_knows_levels_and_targets() {
        let text = logged("warn,chatty=debug", Format::Text, || {
            tracing::info!("left out");
            tracing::debug!(target: "chatty::part", "let in");
        });
        assert!(text.contains("let in") && !text.contains("left out"), "{text}");
    }

    #[test]
    fn a_reader_that_has_stopped_costs_lines_and_never_time() {
        let output = Output::default();
        let telemetry = Telemetry { queue: Queue::start(output.clone()).unwrap() };
        let shut = output.gate.lock().unwrap();
        let line = "x".repeat(1023);
        for _ in 0..3 * QUEUE_BYTES / 1024 {
            telemetry.write_line(&line);
        }
        let dropped = telemetry.dropped();
        assert_eq!(dropped, 2 * QUEUE_BYTES as u64 / 1024);
        assert!(!telemetry.flush(Duration::from_millis(1)));
        drop(shut);
        assert!(telemetry.flush(DEADLINE));
        assert_eq!(output.text.lock().unwrap().len(), QUEUE_BYTES);
        telemetry.write_line("there is room again");
        assert_eq!(telemetry.dropped(), dropped);
    }

    #[test]
    fn f4_a_panic_is_one_line_of_the_log() {
        const NAME: &str = "f4_a_panic_is_one_line_of_the_log";
        if rerun::role().is_some() {
            let telemetry = init(Targets::new().with_default(tracing::Level::INFO), Format::Json).unwrap();
            std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
            telemetry.write_line("the last line");
            assert!(telemetry.flush(DEADLINE));
            return;
        }
        let output = rerun::test(module_path!(), NAME, "wrapper").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let [panic, last] = text.lines().collect::<Vec<_>>()[..] else { panic!("not two lines: {text}") };
        let panic: Value = serde_json::from_str(panic).unwrap();
        assert_eq!((panic["level"].as_str(), panic["reason"].as_str()), (Some("ERROR"), Some("on purpose")));
        assert!(panic["place"].as_str().unwrap().contains("telemetry.rs:"));
        assert_eq!(last, "the last line");
    }

    #[test]
    fn a_full_or_closed_stderr_does_not_stop_the_process() {
        const NAME: &str = "a_full_or_closed_stderr_does_not_stop_the_process";
        if let Some(role) = rerun::role() {
            let telemetry = init(Targets::new().with_default(tracing::Level::INFO), Format::Json).unwrap();
            for _ in 0..1000 {
                tracing::info!(filling = "x".repeat(1024), "much to say");
            }
            assert_eq!(telemetry.flush(Duration::from_millis(500)), role != "full");
            return;
        }
        for role in ["full", "closed"] {
            let mut process = rerun::test(module_path!(), NAME, role)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stderr = process.stderr.take();
            if role == "closed" {
                stderr = None;
            }
            // Its end, although nobody reads the other pipe.
            let passed = BufReader::new(process.stdout.take().unwrap())
                .lines()
                .any(|l| l.unwrap().contains(" 1 passed"));
            assert!(passed && process.wait().unwrap().success());
            if let Some(mut stderr) = stderr {
                let mut first = [0; 16];
                stderr.read_exact(&mut first).unwrap();
                assert!(first.starts_with(b"{\"timestamp\""));
            }
        }
    }
}
