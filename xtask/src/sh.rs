// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The only place that starts processes. It says what it runs, and tells a program that is missing from one that
//! failed; it decides nothing about what to run.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// Lines of a failed program's output that an error repeats.
const TAIL: usize = 40;

/// One run of a program.
#[derive(Debug)]
pub(crate) struct Step {
    command: Command,
    shown: String,
    mend: Option<String>,
}

impl Step {
    /// A run of `program`, looked up on PATH unless it is a path.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(&program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_cargo_run_variable(name)) {
            command.env_remove(name);
        }
        Self { command, shown: quote(program.as_ref()), mend: None }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.shown.push(' ');
        self.shown.push_str(&quote(arg.as_ref()));
        self.command.arg(arg);
        self
    }

    /// Adds several arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Step::arg)
    }

    /// Sets a variable of the program's environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// The command that brings the program, named when it is missing.
    pub(crate) fn mend(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }

    /// Runs it with our output, and says so first. Any other status than 0 is an error.
    pub(crate) fn run(self) -> Result<()> {
        let shown = self.shown.clone();
        let status = self.status()?;
        if status.success() { Ok(()) } else { bail!("{shown}: {}", ended(status)) }
    }

    /// Runs it with our output, and says so first; how it ended is the caller's matter.
    pub(crate) fn status(mut self) -> Result<ExitStatus> {
        eprintln!("+ {}", self.shown);
        self.command.status().map_err(|error| self.explain(error))
    }

    /// Runs it in silence and returns what it wrote to stdout.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.command.stdin(Stdio::null()).output().map_err(|error| self.explain(error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}: {}", self.shown, ended(output.status), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it in silence with `input` to read.
    pub(crate) fn feed(mut self, input: Stdio) -> Result<()> {
        let output = self.command.stdin(input).output().map_err(|error| self.explain(error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}: {}", self.shown, ended(output.status), said.trim());
        }
        Ok(())
    }

    /// Runs it with its stderr going to ours, says so first, and returns what it wrote to stdout.
    pub(crate) fn read_loud(mut self) -> Result<String> {
        eprintln!("+ {}", self.shown);
        let output = self.command.stderr(Stdio::inherit()).output().map_err(|error| self.explain(error))?;
        if !output.status.success() {
            bail!("{}: {}", self.shown, ended(output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs something long: `what` and the time it takes go to stderr, its own output only when it fails. Nothing
    /// is written to stdout.
    pub(crate) fn watch(mut self, what: &str) -> Result<()> {
        let mut progress = Progress::begin(what, &self.shown);
        let talking = self.talk()?;
        let mut tail = VecDeque::with_capacity(TAIL);
        loop {
            match talking.said.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => {
                    progress.tick(Some(&line));
                    if tail.len() == TAIL {
                        tail.pop_front();
                    }
                    tail.push_back(line);
                }
                Err(RecvTimeoutError::Timeout) => progress.tick(None),
                // Both outputs are closed: the program is ending.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = talking.end(&self.shown)?;
        progress.end(status.success());
        if status.success() {
            return Ok(());
        }
        let tail: Vec<String> = tail.into();
        bail!("{}: {}; the end of its output:\n{}", self.shown, ended(status), tail.join("\n"))
    }

    /// Runs something whose words matter also when it fails: whether it ended well, and all that it wrote. `loud`: its
    /// words go to stderr too, as they come.
    pub(crate) fn listen(mut self, loud: bool) -> Result<(bool, String)> {
        eprintln!("+ {}", self.shown);
        let talking = self.talk()?;
        let mut text = String::new();
        for line in &talking.said {
            if loud {
                eprintln!("{line}");
            }
            text.push_str(&line);
            text.push('\n');
        }
        let status = talking.end(&self.shown)?;
        Ok((status.success(), text))
    }

    /// Starts it without input, and reads both of its outputs.
    fn talk(&mut self) -> Result<Talking> {
        let piped = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(|error| self.explain(error))?;
        let (lines, said) = mpsc::channel();
        let out = child.stdout.take().map(|out| forward(out, lines.clone()));
        let err = child.stderr.take().map(|err| forward(err, lines));
        Ok(Talking { child, said, readers: out.into_iter().chain(err).collect() })
    }

    /// Starts it in a process group of its own, so that a terminal's Ctrl-C does not reach it, without input.
    pub(crate) fn start(mut self, stdout: Stdio, stderr: Stdio) -> Result<Child> {
        self.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        self.command.spawn().map_err(|error| self.explain(error))
    }

    /// Starts it in a process group of its own with a pipe as its only link to us: it reads end of file when we
    /// are gone, however we went.
    pub(crate) fn start_listening(mut self) -> Result<Child> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.command.spawn().map_err(|error| self.explain(error))
    }

    fn explain(&self, error: std::io::Error) -> anyhow::Error {
        match (&self.mend, error.kind()) {
            (Some(mend), ErrorKind::NotFound) => {
                anyhow!("{}: not found; it comes with: {mend}", self.command.get_program().to_string_lossy())
            }
            _ => anyhow::Error::new(error).context(format!("start {}", self.shown)),
        }
    }
}

/// How a process ended, in words.
pub(crate) fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// A word as a POSIX shell reads it.
pub(crate) fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `cargo run` tells us about our own package in variables. A cargo that inherits them takes them for a changed
/// environment, and builds crates anew whose build scripts look at them (ring does).
fn is_cargo_run_variable(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(
            name.as_ref(),
            "CARGO_CRATE_NAME" | "CARGO_BIN_NAME" | "CARGO_PRIMARY_PACKAGE" | "OUT_DIR"
        )
}

/// A program that runs, and its lines as they come, of both outputs.
struct Talking {
    child: Child,
    said: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
}

impl Talking {
    /// How it ended, once both outputs are closed.
    fn end(mut self, shown: &str) -> Result<ExitStatus> {
        for reader in self.readers {
            reader.join().map_err(|_| anyhow!("{shown}: the reader of its output panicked"))?;
        }
        self.child.wait().with_context(|| format!("wait for {shown}"))
    }
}

fn forward(from: impl Read + Send + 'static, to: Sender<String>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // Compilers may print what is not UTF-8; that must not end the reading, or the pipe fills up.
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if to.send(text).is_err() {
                return;
            }
        }
    })
}

/// One long piece of work on stderr: a line that is drawn again on a terminal, a line every 15 s elsewhere.
struct Progress<'a> {
    what: &'a str,
    since: Instant,
    drawn: Instant,
    last: String,
    terminal: bool,
}

impl<'a> Progress<'a> {
    fn begin(what: &'a str, shown: &str) -> Self {
        eprintln!("+ {shown}");
        let now = Instant::now();
        Self { what, since: now, drawn: now, last: String::new(), terminal: std::io::stderr().is_terminal() }
    }

    fn tick(&mut self, line: Option<&str>) {
        if let Some(line) = line.map(str::trim).filter(|line| !line.is_empty()) {
            line.clone_into(&mut self.last);
        }
        let pause = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(15) };
        if self.drawn.elapsed() < pause {
            return;
        }
        self.drawn = Instant::now();
        let last: String = self.last.chars().take(60).collect();
        let text = format!("{}: {} s  {last}", self.what, self.since.elapsed().as_secs());
        if self.terminal { self.draw(&text) } else { eprintln!("{}", text.trim_end()) }
    }

    fn end(&self, well: bool) {
        if self.terminal {
            self.draw("");
        }
        let how = if well { "done" } else { "failed" };
        eprintln!("{}: {how} after {:.1} s", self.what, self.since.elapsed().as_secs_f64());
    }

    fn draw(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // A terminal that went away is no reason to stop the work.
        let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_survives_the_shell() {
        assert_eq!(
            quote("--endpoints=http://127.0.0.1:1,http://127.0.0.1:2".as_ref()),
            "--endpoints=http://127.0.0.1:1,http://127.0.0.1:2"
        );
        assert_eq!(quote("it's here".as_ref()), r"'it'\''s here'");
        assert_eq!(quote("".as_ref()), "''");
    }

    #[test]
    fn a_missing_program_is_named_with_the_command_that_brings_it() {
        let error =
            Step::new("no-such-program-here").mend("apt-get install it").read().unwrap_err().to_string();
        assert_eq!(error, "no-such-program-here: not found; it comes with: apt-get install it");
    }

    #[test]
    fn a_failed_program_is_shown_with_its_status_and_its_words() {
        let error = Step::new("sh").args(["-c", "echo sorry >&2; exit 7"]).read().unwrap_err().to_string();
        assert!(error.ends_with("exit code 7: sorry"), "{error}");
        let error = Step::new("sh")
            .args(["-c", "echo a; echo b >&2; kill -9 $$"])
            .watch("test")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("killed by signal 9") && error.contains('a') && error.contains('b'),
            "{error}"
        );
    }

    #[test]
    fn variables_about_our_own_package_do_not_reach_a_cargo_below() {
        assert!(is_cargo_run_variable(&"CARGO_PKG_VERSION".into()));
        assert!(is_cargo_run_variable(&"CARGO_MANIFEST_DIR".into()));
        assert!(!is_cargo_run_variable(&"CARGO_TARGET_DIR".into()));
        assert!(!is_cargo_run_variable(&"CARGO_HOME".into()));
    }
}
