// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One bootstrap's conversation with the sidecar: which answers count, and what to ask for next (safety.md 1–4).
//! Knows nothing of children, operations or time.
use std::time::Duration;

use crate::supervise::view::{Mode, SidecarWord};

use super::event::Reply;
use super::rules::Rule;

/// What is known of the last `start` sent to the sidecar, by us or before us; outlives a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// Nothing was heard since process start: a process before us may have begun one.
    Unheard,
    /// It is over, or there was none.
    Ended,
    /// `whole`: its 200, or a `Progress`, arrived. Without that a `New` says nothing: the request may still be on its way.
    Open {
        /// A whole answer told of it.
        whole: bool,
    },
}

impl Round {
    /// What any status reading says about a round of ours (safety.md 4).
    pub fn after_status(self, reply: &Reply, rules: &super::rules::Rules) -> Self {
        match (self, reply) {
            (_, Reply::Word(SidecarWord::Successful | SidecarWord::Failed) | Reply::Refused) => Self::Ended,
            // Not only what we sent: a stop must not call a directory free that a process before us has validated.
            (_, Reply::Word(SidecarWord::Progress)) => Self::Open { whole: true },
            (Self::Unheard, Reply::Word(SidecarWord::New)) => Self::Ended,
            (Self::Open { whole }, Reply::Word(SidecarWord::New))
                if whole || !rules.on(Rule::LostStartIsNotEndedByNew) =>
            {
                Self::Ended
            }
            (round, _) => round,
        }
    }

    /// The sidecar may still work for us.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Not known to have ended: what a stop waits for (safety.md 6).
    pub fn may_run(self) -> bool {
        self != Self::Ended
    }
}

/// What to ask next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// For its status.
    Ask,
    /// For a validation.
    Start,
}

/// What a reply led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Go on at once.
    Now,
    /// Go on after a pause.
    After(Duration),
    /// A `Successful` of this bootstrap was read: the directory may be used.
    Sound,
}

/// One bootstrap's conversation with the sidecar: which answers count, and what to ask next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dialogue {
    /// The bootstrap of the process start: a round begun by a process before us may end in it.
    from_process_start: bool,
    /// What the first `start` may say.
    first: Mode,
    /// The first `start` was sent.
    sent: bool,
    /// Nothing but `New` was read before the first `start` (a sidecar that was not up yet is no reading).
    pristine: bool,
    /// An answer has come.
    contacted: bool,
    /// A `Successful` would be of this bootstrap.
    credit: bool,
    /// What held before the `start` in flight was sent, for when it turns out that it never left.
    before_start: (bool, Round),
    /// What to ask next.
    pub next: Next,
    failures: u8,
    polls: u8,
}

const FIRST_POLL: Duration = Duration::from_millis(5);
const SLOWEST_POLL: Duration = Duration::from_secs(1);
const SLOWEST_RETRY: Duration = Duration::from_secs(30);

impl Dialogue {
    /// `from_process_start`: a `Progress` may be of a process before us. `first`: the mode of the first start.
    pub fn new(from_process_start: bool, first: Mode) -> Self {
        Self {
            from_process_start,
            first,
            sent: false,
            pristine: true,
            contacted: false,
            credit: false,
            before_start: (false, Round::Ended),
            next: Next::Ask,
            failures: 0,
            polls: 0,
        }
    }

    /// The mode that the next `start` must carry (safety.md 2).
    pub fn mode(&self, rules: &super::rules::Rules) -> Mode {
        let first = !self.sent || !rules.on(Rule::LaterStartsAreFull);
        let pristine = self.pristine || !rules.on(Rule::SanityOnlyAfterNew);
        if first && pristine { self.first } else { Mode::Full }
    }

    /// Something was heard that makes the next mode full: a clean marker has no say any more.
    pub fn heard(&self) -> bool {
        !self.pristine
    }

    /// The `start` leaves; from now on it may have been carried out.
    pub fn start_sent(&mut self, round: &mut Round) {
        self.sent = true;
        self.before_start = (self.credit, *round);
        self.credit = true;
        if !round.is_open() {
            *round = Round::Open { whole: false };
        }
        self.polls = 0;
    }

    /// The answer to our `start`.
    pub fn on_start(&mut self, reply: &Reply, round: &mut Round) -> Step {
        self.next = Next::Ask;
        match reply {
            Reply::Started => {
                self.contacted = true;
                *round = Round::Open { whole: true };
            }
            Reply::Refused => {
                *round = Round::Ended;
                self.gone();
            }
            Reply::Unreachable => {
                (self.credit, *round) = self.before_start;
            }
            _ => self.contacted = true,
        }
        self.poll()
    }

    /// A status answer; `before` is what was known of our round until then.
    pub fn on_status(&mut self, reply: &Reply, before: Round, rules: &super::rules::Rules) -> Step {
        match reply {
            Reply::Word(SidecarWord::New) => {
                self.contacted = true;
                self.next = Next::Start;
                if before.is_open() {
                    // Our round is gone (the sidecar died), or its `start` never arrived: once more, in full.
                    self.spoil();
                    self.credit = false;
                    return self.retry();
                }
                Step::Now
            }
            Reply::Word(SidecarWord::Progress) => {
                self.seen();
                if self.from_process_start {
                    self.credit = true;
                }
                self.next = Next::Ask;
                self.poll()
            }
            Reply::Word(SidecarWord::Successful) => {
                self.seen();
                if self.credit || !rules.on(Rule::OnlyOwnSuccessCounts) {
                    self.failures = 0;
                    return Step::Sound;
                }
                // Left over from somebody before us: reading it has consumed it, so ask for our own.
                self.next = Next::Start;
                Step::Now
            }
            Reply::Word(SidecarWord::Failed) => {
                self.seen();
                self.credit = false;
                self.next = Next::Start;
                self.retry()
            }
            Reply::Refused => {
                self.gone();
                self.next = Next::Ask;
                self.poll()
            }
            Reply::Unreachable => {
                if self.contacted {
                    self.spoil();
                }
                self.next = Next::Ask;
                self.poll()
            }
            _ => {
                self.seen();
                self.next = Next::Ask;
                self.poll()
            }
        }
    }

    /// Failures and polls decide nothing but the length of pauses.
    #[cfg(test)]
    pub fn forget_counts(&mut self) {
        (self.failures, self.polls) = (0, 0);
    }

    /// Nobody listens: whatever the sidecar knew is lost with it.
    fn gone(&mut self) {
        if self.contacted {
            self.spoil();
        }
        self.credit = false;
    }

    fn seen(&mut self) {
        self.contacted = true;
        self.spoil();
    }

    /// What comes after the first `start` needs no noting: from then on the mode is full anyway.
    fn spoil(&mut self) {
        self.pristine &= self.sent;
    }

    /// 5 ms, doubling up to a second: a validation of an empty directory is over at once.
    fn poll(&mut self) -> Step {
        let pause = FIRST_POLL.saturating_mul(1 << self.polls.min(8)).min(SLOWEST_POLL);
        self.polls = (self.polls + 1).min(8);
        Step::After(pause)
    }

    /// A round went wrong: a second, doubling up to 30; never faster, or a flapping network restores over good data.
    fn retry(&mut self) -> Step {
        let pause = Duration::from_secs(1 << self.failures.min(5)).min(SLOWEST_RETRY);
        self.failures = (self.failures + 1).min(5);
        self.polls = 0;
        Step::After(pause)
    }
}
