// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The life of the program `etcd-double`, from its arguments to READY and on: one loop on the main thread that
//! looks at the script again and again, beside a runtime that serves calls and a thread that takes signals.
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::FlockOperation;
use signal_hook::iterator::backend::Handle;

use super::config::{self, Config};
use super::listen::{self, Bound};
use super::live::Live;
use super::record::{Event, Recorder, StartFacts, sha256};
use super::script::{Script, Sender, Since, When};
use super::{ready, signals};

/// The environment variable that names the script.
pub const SCRIPT_VARIABLE: &str = "DOUBLE_SCRIPT";

/// Between two looks of the main loop at script, clock and lock.
const TICK: Duration = Duration::from_millis(5);

/// Runs the program; the exit code of an end that no script asked for (1, as etcd's).
pub fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == ready::ONLY_NOTIFY) {
        let text = arguments.get(1).map_or("", String::as_str);
        return if ready::send(text).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match live(&arguments) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "etcd-double: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn live(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let facts = StartFacts::look(config::config_file(arguments).as_deref())?;
    let mut source = Source::from_environment();
    let script = source.read()?.unwrap_or_default();
    let recorder = Recorder::open(script.record.as_deref()).context("open the record")?;
    if arguments.iter().any(|argument| argument.trim_start_matches('-') == "version") {
        recorder.note(Event::VersionAsked { argv: facts.argv });
        signals::pause(script.version.takes.0);
        let _ = write!(io::stdout(), "{}", script.version.lines());
        return Ok(ExitCode::from(script.version.code));
    }
    recorder.note(Event::Started(Box::new(facts)));
    // The script's end comes before all else: an etcd that dies at once has not looked at its config either.
    let config = match script.end {
        Some(end) if end.since == Since::Start && end.after.0.is_zero() => Config::default(),
        _ => Config::from_arguments(arguments)?,
    };
    let live = Arc::new(Live::new(config, recorder, script));
    let handle = signals::take(Arc::clone(&live)).context("take signals")?;
    chatter(&live);
    Life { live, handle, source, begun, ready_at: None, bound: Vec::new(), runtime: None, db: Db::Untried }
        .run()
}

/// The main thread's own things.
struct Life {
    live: Arc<Live>,
    handle: Handle,
    source: Source,
    begun: Instant,
    ready_at: Option<Instant>,
    bound: Vec<Bound>,
    /// Serves from the moment it exists.
    runtime: Option<tokio::runtime::Runtime>,
    db: Db,
}

/// The lock of `member/snap/db`.
enum Db {
    Untried,
    Waiting(File),
    /// Held, or not wanted: the script decides.
    Done(#[expect(dead_code, reason = "keeps the lock")] Option<File>),
}

impl Life {
    fn run(mut self) -> ! {
        match self.begin() {
            Ok(()) => {}
            Err(error) => {
                let _ = writeln!(io::stderr(), "etcd-double: {error:#}");
                signals::exit(1);
            }
        }
        loop {
            if let Err(error) = self.tick() {
                let _ = writeln!(io::stderr(), "etcd-double: {error:#}");
                signals::exit(1);
            }
            signals::pause(TICK);
        }
    }

    /// etcd's order: ports first, then the directory.
    fn begin(&mut self) -> anyhow::Result<()> {
        self.end_if_due();
        let script = self.live.script();
        if script.handles_signals == When::AtStart {
            signals::take_stop_signals(&self.handle)?;
        }
        if script.serves != When::Never {
            self.bound = listen::bind(&self.live.config)?;
        }
        if script.serves == When::AtStart {
            self.serve()?;
        }
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        self.read_script_again();
        self.end_if_due();
        self.try_lock()?;
        let script = self.live.script();
        let locked = matches!(self.db, Db::Done(_));
        if locked && self.ready_at.is_none() && self.begun.elapsed() >= script.ready.after.0 {
            self.become_ready(&script)?;
        }
        Ok(())
    }

    /// A script that cannot be read keeps the old one; without its file the test is over, and a double that it
    /// has lost must not stay.
    fn read_script_again(&mut self) {
        if self.source.is_gone() {
            let _ = writeln!(io::stderr(), "etcd-double: the script is gone, and so am I");
            signals::exit(1);
        }
        match self.source.read() {
            Ok(Some(script)) => {
                self.live.change(script);
                self.live.note(Event::ScriptRead { digest: self.source.digest.clone() });
            }
            Ok(None) => {}
            Err(error) => {
                let _ = writeln!(io::stderr(), "etcd-double: keeps its script: {error:#}");
            }
        }
    }

    fn end_if_due(&self) {
        let Some(end) = self.live.script().end else {
            return;
        };
        let since = match end.since {
            Since::Start => Some(self.begun),
            Since::Ready => self.ready_at,
        };
        if since.is_some_and(|since| since.elapsed() >= end.after.0) {
            signals::end(&self.live, end.how);
        }
    }

    fn try_lock(&mut self) -> anyhow::Result<()> {
        self.db = match std::mem::replace(&mut self.db, Db::Untried) {
            Db::Untried if !self.live.script().locks_database => Db::Done(None),
            Db::Untried => {
                let file = open_database(&self.live.config.data_dir)?;
                self.lock(file, true)?
            }
            Db::Waiting(file) => self.lock(file, false)?,
            done @ Db::Done(_) => done,
        };
        Ok(())
    }

    fn lock(&self, file: File, first: bool) -> io::Result<Db> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.live.note(Event::LockTaken);
                Ok(Db::Done(Some(file)))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                if first {
                    self.live.note(Event::LockWaiting);
                }
                Ok(Db::Waiting(file))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// etcd's order: it serves, takes SIGTERM from here on, and says so last.
    fn become_ready(&mut self, script: &Script) -> anyhow::Result<()> {
        if script.ready.sender == Sender::Nobody {
            return Ok(());
        }
        self.live.restart_steps();
        if script.serves == When::AtReady {
            self.serve()?;
        }
        if script.handles_signals == When::AtReady {
            signals::take_stop_signals(&self.handle)?;
        }
        for _ in 0..script.ready.times {
            let sent = match script.ready.sender {
                Sender::OtherProcess => ready::send_from_other_process(&script.ready.text),
                Sender::Myself | Sender::Nobody => ready::send(&script.ready.text),
            };
            self.live.note(match sent {
                Ok(sender) => Event::ReadySent { sender },
                Err(error) => Event::NotifyFailed { error: error.to_string() },
            });
        }
        self.ready_at = Some(Instant::now());
        Ok(())
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        if self.runtime.is_some() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let bound = std::mem::take(&mut self.bound);
        runtime.block_on(async { listen::serve(bound, &self.live) })?;
        self.runtime = Some(runtime);
        self.live.note(Event::Serving { urls: self.live.config.listen_client_urls.clone() });
        Ok(())
    }
}

/// The script's file, and what was last read of it.
#[derive(Debug)]
struct Source {
    path: Option<PathBuf>,
    seen: (u64, u64, i64, i64),
    digest: String,
}

impl Source {
    fn from_environment() -> Self {
        Self {
            path: std::env::var_os(SCRIPT_VARIABLE).map(Into::into),
            seen: (0, 0, 0, 0),
            digest: String::new(),
        }
    }

    fn is_gone(&self) -> bool {
        self.path.as_ref().is_some_and(|path| !path.exists())
    }

    /// The script, when its file has changed since the last look.
    fn read(&mut self) -> anyhow::Result<Option<Script>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let file = std::fs::metadata(path).with_context(|| format!("find script {}", path.display()))?;
        let seen = (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        if seen == self.seen {
            return Ok(None);
        }
        self.seen = seen;
        let bytes = std::fs::read(path).with_context(|| format!("read script {}", path.display()))?;
        self.digest = sha256(&bytes);
        Script::from_yaml(&String::from_utf8_lossy(&bytes)).map(Some)
    }
}

/// As etcd leaves it: the folders 0700, the file 0600, whatever the umask.
fn open_database(data_dir: &Path) -> anyhow::Result<File> {
    let snap = data_dir.join("member/snap");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&snap)
        .with_context(|| format!("make {}", snap.display()))?;
    let db = snap.join("db");
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&db)
        .with_context(|| format!("open {}", db.display()))
}

fn chatter(live: &Arc<Live>) {
    if let Some(chatter) = live.script().chatter {
        std::thread::spawn(move || {
            let line = "x".repeat(chatter.bytes);
            // Rust ignores SIGPIPE; etcd dies by it.
            while writeln!(io::stderr(), "{line}").is_ok() {
                signals::pause(chatter.every.0);
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
        });
    }
}
