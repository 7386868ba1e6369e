// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a scripted etcd behaves: values with a strict file form (YAML or JSON; unknown keys are errors). The file is
//! named by the environment variable `DOUBLE_SCRIPT`, and read again whenever it changes. Carries nothing out.
//!
//! ```yaml
//! record: /tmp/x/record.jsonl        # left out: nothing is recorded
//! version: {number: 3.5.35, output: "...", takes: 0s, code: 0}   # of --version; output replaces all lines
//! end: {after: 1s, since: start, how: {exit: 1}}   # since: start | ready; how: {exit: N} | {signal: N}
//! ready: {after: 300ms, sender: myself, times: 1, text: "READY=1"}  # sender: myself | other_process | nobody
//! handles_signals: at_ready          # at_ready | at_start: until then SIGTERM and SIGINT kill at once
//! on_term: {takes: 0s, then: raise}  # raise | ignore | {exit: N} | {signal: N}; also for SIGINT
//! on_quit: {takes: 0s, then: {exit: 2}}
//! serves: at_ready                   # at_start | at_ready | never
//! locks_database: true               # makes data-dir/member/snap/db and waits for its lock, as etcd does
//! chatter: {every: 1ms, bytes: 200}  # lines on stderr
//! records_calls: false               # one record for each RPC and HTTP call
//! range: {takes: 0s, fails: learner35, hangs: false}    # the linearizable read
//! serializable_range: {}             # and so on: status, alarm, member_list, move_leader, metrics, health
//! moves_leader: true                 # a MoveLeader that succeeds makes the target leader, in the next term
//! member_id: 1234                    # left out: made of the name
//! members: [{id: 1, name: a, peer_urls: ["http://..."], learner: false}]   # left out: from initial-cluster
//! active_peers: [2, 3]               # left out: all others
//! standing:                          # what Status, Alarm and /metrics tell, step by step
//! - {at: 0s, leader: myself, term: 2, learner: false, nospace: false, corrupt: false}
//! - {at: 2s, leader: {member: 77}, term: 3}      # leader: myself | nobody | {member: ID}
//! ```
//! Steps count from READY, or from the moment a changed script was read.
mod standing;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::span::Span;

use super::answer::Answer;

pub use standing::{Chatter, Leader, Row, Standing};

/// The whole script; see the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Where it tells what it saw; None: beside its stage.
    pub record: Option<PathBuf>,
    /// Of `--version`.
    pub version: Version,
    /// By itself; None: it stays.
    pub end: Option<Ending>,
    /// READY on the notify socket.
    pub ready: Ready,
    /// From when on.
    pub handles_signals: When,
    /// What SIGTERM does.
    pub on_term: OnSignal,
    /// What SIGQUIT does.
    pub on_quit: OnSignal,
    /// From when on it listens.
    pub serves: When,
    /// As etcd does.
    pub locks_database: bool,
    /// On stderr; None: silent.
    pub chatter: Option<Chatter>,
    /// One line of the record each.
    pub records_calls: bool,
    /// To linearizable reads.
    pub range: Answer,
    /// To serializable reads.
    pub serializable_range: Answer,
    /// To Maintenance Status.
    pub status: Answer,
    /// To Maintenance Alarm.
    pub alarm: Answer,
    /// To MemberList.
    pub member_list: Answer,
    /// To MoveLeader.
    pub move_leader: Answer,
    /// To `/metrics`.
    pub metrics: Answer,
    /// To `/health`.
    pub health: Answer,
    /// MoveLeader has an effect.
    pub moves_leader: bool,
    /// None: made of the name.
    pub member_id: Option<u64>,
    /// None: itself alone.
    pub members: Option<Vec<Row>>,
    /// None: all that it lists.
    pub active_peers: Option<Vec<u64>>,
    /// How it stands in its cluster, as time goes by.
    pub standing: Vec<Standing>,
}

/// What `--version` does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Version {
    /// Also in Status answers.
    pub number: String,
    /// None: as etcd prints it.
    pub output: Option<String>,
    /// Before it prints.
    pub takes: Span,
    /// Exit code.
    pub code: u8,
}

/// An end that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// Counted from `since`.
    #[serde(default)]
    pub after: Span,
    /// From what time is counted.
    #[serde(default)]
    pub since: Since,
    /// It ends.
    pub how: How,
}

/// From what a time is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The start of the process.
    #[default]
    Start,
    /// READY was sent.
    Ready,
}

/// A process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// With this status.
    Exit(u8),
    /// Sent by the double to itself.
    Signal(i32),
}

/// The READY datagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// Its listener is up.
    pub after: Span,
    /// Who sends it.
    pub sender: Sender,
    /// How often.
    pub times: u32,
    /// `READY=1` unless told.
    pub text: String,
}

/// Which process a datagram comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The scripted etcd itself.
    #[default]
    Myself,
    /// A child of the double: what nobody may take for etcd's own word.
    OtherProcess,
    /// No datagram is sent.
    Nobody,
}

/// Something begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At once.
    AtStart,
    /// With READY.
    #[default]
    AtReady,
    /// Not in this life.
    Never,
}

/// What a signal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnSignal {
    /// From the signal to its effect.
    pub takes: Span,
    /// What follows.
    pub then: Then,
}

/// What a signal leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The same signal again with its default action, as etcd does (as PID 1: exit 0).
    #[default]
    Raise,
    /// Nothing follows.
    Ignore,
    /// An end with this status.
    Exit(u8),
    /// An end by this signal.
    Signal(i32),
}

impl Default for Script {
    fn default() -> Self {
        Self {
            record: None,
            version: Version::default(),
            end: None,
            ready: Ready::default(),
            handles_signals: When::AtReady,
            on_term: OnSignal::default(),
            on_quit: OnSignal { takes: Span::ZERO, then: Then::Exit(2) },
            serves: When::AtReady,
            locks_database: true,
            chatter: None,
            records_calls: false,
            range: Answer::default(),
            serializable_range: Answer::default(),
            status: Answer::default(),
            alarm: Answer::default(),
            member_list: Answer::default(),
            move_leader: Answer::default(),
            metrics: Answer::default(),
            health: Answer::default(),
            moves_leader: true,
            member_id: None,
            members: None,
            active_peers: None,
            standing: vec![Standing::default()],
        }
    }
}

impl Default for Version {
    fn default() -> Self {
        Self { number: "3.5.35".into(), output: None, takes: Span::ZERO, code: 0 }
    }
}

impl Ready {
    /// No test lasts so long.
    pub fn never() -> Self {
        Self { after: std::time::Duration::from_secs(86_400).into(), ..Self::default() }
    }
}

impl Default for Ready {
    fn default() -> Self {
        Self { after: Span::ZERO, sender: Sender::Myself, times: 1, text: "READY=1".into() }
    }
}

impl Default for OnSignal {
    fn default() -> Self {
        Self { takes: Span::ZERO, then: Then::Raise }
    }
}

impl Script {
    /// # Errors
    /// Where the text is no script.
    pub fn from_yaml(text: &str) -> anyhow::Result<Self> {
        // An empty document is the script without wishes.
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).context("no script of an etcd double")
    }

    /// # Errors
    /// When the file cannot be read or holds no script.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read script {}", path.display()))?;
        Self::from_yaml(&text).with_context(|| format!("parse script {}", path.display()))
    }

    /// The step that holds `since` after the steps began.
    pub fn standing_at(&self, since: std::time::Duration) -> Standing {
        let holds = self.standing.iter().filter(|step| step.at.0 <= since).max_by_key(|step| step.at);
        holds.or(self.standing.first()).cloned().unwrap_or_default()
    }
}

impl Version {
    /// What `etcd --version` prints.
    pub fn lines(&self) -> String {
        self.output.clone().unwrap_or_else(|| {
            let sha = "Not provided (use ./build instead of go build)";
            format!(
                "etcd Version: {}\nGit SHA: {sha}\nGo Version: go1.26.8\nGo OS/Arch: linux/amd64\n",
                self.number
            )
        })
    }
}

impl Ending {
    /// Ends so long after the process started.
    pub fn after_start(after: std::time::Duration, how: How) -> Self {
        Self { after: Span(after), since: Since::Start, how }
    }

    /// Ends so long after READY.
    pub fn after_ready(after: std::time::Duration, how: How) -> Self {
        Self { after: Span(after), since: Since::Ready, how }
    }
}

impl OnSignal {
    /// Nothing follows.
    pub fn ignored() -> Self {
        Self { takes: Span::ZERO, then: Then::Ignore }
    }

    /// Closes for so long, then ends as etcd does.
    pub fn takes(span: std::time::Duration) -> Self {
        Self { takes: Span(span), then: Then::Raise }
    }

    /// This follows at once.
    pub fn then(then: Then) -> Self {
        Self { takes: Span::ZERO, then }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::answer::Failure;
    use super::*;

    #[test]
    fn the_file_form_is_strict_and_short() {
        let script = Script::from_yaml(
            "record: /r\nend: {after: 1s, how: {exit: 1}}\nready: {sender: other_process}\non_term: {takes: 2s, then: {exit: 0}}\nrange: {fails: learner35}\nstatus: {fails: {other: {code: 14, message: x}}}\nmember_id: 18446744073709551615\nstanding:\n- {at: 2s, leader: {member: 7}, term: 3}\n",
        )
        .unwrap();
        assert_eq!(script.end, Some(Ending::after_start(Duration::from_secs(1), How::Exit(1))));
        assert_eq!(script.range, Answer::fails(Failure::Learner35));
        assert_eq!(script.member_id, Some(u64::MAX));
        assert_eq!(script.on_quit.then, Then::Exit(2), "what is left out keeps its default");
        for wrong in
            ["rang: {}", "ready: {sendr: nobody}", "standing: [{tern: 1}]", "range: {fails: learner}"]
        {
            assert!(Script::from_yaml(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_test_writes_the_program_reads() {
        let script = Script {
            end: Some(Ending::after_ready(Duration::from_millis(1500), How::Signal(9))),
            range: Answer::fails(Failure::Other { code: 3, message: "a: b".into() }),
            standing: vec![Standing { leader: Leader::Nobody, ..Standing::default() }],
            ..Script::default()
        };
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(Script::from_yaml(&text).unwrap(), script);
    }

    #[test]
    fn steps_follow_each_other_in_time() {
        let step = |at, term| Standing { at: Span(Duration::from_secs(at)), term, ..Standing::default() };
        let script = Script { standing: vec![step(0, 2), step(5, 3)], ..Script::default() };
        let terms = [0, 4, 5, 9].map(|s| script.standing_at(Duration::from_secs(s)).term);
        assert_eq!(terms, [2, 2, 3, 3]);
        assert_eq!(Script { standing: vec![], ..Script::default() }.standing_at(Duration::ZERO).term, 2);
    }
}
