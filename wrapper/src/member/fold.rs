// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Folds answers into the view of one generation. Pure: the prober brings answers in the order in which they were
//! asked (one of a kind in flight) and the clock; nothing here asks anything.
use std::time::{Duration, Instant, SystemTime};

use super::client::{CallError, Members, StatusAnswer};
use super::gauges::Gauges;
use super::scraper::ScrapeError;
use super::view::{Alarms, Db, Leadership, MemberView, Probe, Source};

/// etcd's default for `quota-backend-bytes`.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// Polls that must fail in a row before leadership is given up: one may be a hiccup of a busy machine.
const FAILED_POLLS: u32 = 2;

/// What came of one question.
#[derive(Debug)]
pub(super) enum Answer {
    Linearizable(Result<(), CallError>),
    Serializable(Result<(), CallError>),
    Status(Result<StatusAnswer, CallError>),
    /// Alarms are None when they were not asked for, or could not be read.
    Gauges(Result<Gauges, ScrapeError>, Option<Alarms>),
    Members(Result<Members, CallError>),
}

/// When an answer came, and after how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// For ages.
    pub now: Instant,
    /// For what is shown.
    pub wall: SystemTime,
    /// From the question to the answer.
    pub took: Duration,
}

/// Leadership as the newest poll told it, before it is known whether that may be published.
#[derive(Debug)]
struct Told {
    member_id: Option<u64>,
    leader_id: Option<u64>,
    has_leader: bool,
    leads: bool,
    term: Option<u64>,
    /// The term is still that of the leader before.
    term_lags: bool,
    source: Source,
}

/// What is known of one generation.
#[derive(Debug)]
pub(super) struct Fold {
    /// What all answers of this generation come to.
    pub view: MemberView,
    quota: u64,
    told: Option<Told>,
    /// The newest term that was told with a leader, and the first leader that was told with it.
    led: Option<(u64, u64)>,
    failed_polls: u32,
}

impl Fold {
    /// `quota`: `quota-backend-bytes` of the generation's config; 0 is etcd's default.
    pub(super) fn new(generation: u64, quota: u64) -> Self {
        let view = MemberView { generation: Some(generation), ..MemberView::default() };
        let quota = if quota == 0 { DEFAULT_QUOTA } else { quota };
        Self { view, quota, told: None, led: None, failed_polls: 0 }
    }

    /// Takes one answer in.
    pub(super) fn apply(&mut self, answer: Answer, moment: Moment) {
        match answer {
            Answer::Linearizable(answer) => self.linearizable(answer, moment),
            Answer::Serializable(answer) => {
                // Refused by auth, it was still answered by this member.
                let outcome = match answer {
                    Ok(()) => Ok(None),
                    Err(refused @ CallError::Auth(_)) => Ok(Some(refused.to_string())),
                    Err(error) => Err(error.to_string()),
                };
                record(&mut self.view.serializable_read, outcome, moment);
            }
            Answer::Status(Ok(status)) => self.status(status, moment),
            Answer::Status(Err(CallError::Auth(_))) => self.view.auth_hides_status = true,
            Answer::Status(Err(error)) => self.failed_poll(error.to_string(), moment),
            Answer::Gauges(Ok(gauges), alarms) => self.gauges(gauges, alarms, moment),
            Answer::Gauges(Err(error), _) => self.failed_poll(error.to_string(), moment),
            Answer::Members(Ok(members)) => self.view.members = Some(members.peers),
            // These refuse always; what was known may be of another time.
            Answer::Members(Err(CallError::Auth(_) | CallError::Learner(_))) => self.view.members = None,
            Answer::Members(Err(_)) => {}
        }
        self.settle(moment.wall);
    }

    fn linearizable(&mut self, answer: Result<(), CallError>, moment: Moment) {
        let outcome = match answer {
            Ok(()) => Ok(None),
            Err(refused @ CallError::Auth(_)) => Ok(Some(refused.to_string())),
            Err(error) => {
                if matches!(error, CallError::Learner(_)) {
                    self.view.learner = Some(true);
                    self.view.confirmed = true;
                }
                Err(error.to_string())
            }
        };
        if outcome.is_ok() {
            self.view.learner = Some(false);
            self.view.confirmed = true;
        }
        record(&mut self.view.linearizable_read, outcome, moment);
    }

    fn status(&mut self, status: StatusAnswer, moment: Moment) {
        self.view.auth_hides_status = false;
        self.view.alarms = Some(status.alarms);
        self.view.db = Some(Db {
            size: status.db_size,
            in_use: status.db_in_use,
            quota: status.db_quota.unwrap_or(self.quota),
        });
        self.view.version = Some(status.version);
        self.says_learner(status.is_learner);
        let told = Told {
            term_lags: self.is_of_the_leader_before(status.leader_id, status.term),
            member_id: Some(status.member_id),
            leader_id: status.leader_id,
            has_leader: status.leader_id.is_some(),
            leads: status.leader_id == Some(status.member_id),
            term: Some(status.term),
            source: Source::Status,
        };
        self.good_poll(told, None, moment);
    }

    fn gauges(&mut self, gauges: Gauges, alarms: Option<Alarms>, moment: Moment) {
        // Status answered meanwhile: auth was switched off, and this page is old.
        if !self.view.auth_hides_status {
            return;
        }
        self.view.alarms = alarms.or(self.view.alarms);
        if let (Some(size), Some(in_use)) = (gauges.db_size, gauges.db_in_use) {
            self.view.db = Some(Db { size, in_use, quota: gauges.db_quota.unwrap_or(self.quota) });
        }
        self.view.version = gauges.version.or(self.view.version.take());
        if let Some(is_learner) = gauges.is_learner {
            self.says_learner(is_learner);
        }
        let told = Told {
            member_id: gauges.member_id,
            leader_id: None,
            has_leader: gauges.has_leader,
            leads: gauges.is_leader,
            term: None,
            term_lags: false,
            source: Source::Metrics,
        };
        self.good_poll(told, Some("from /metrics"), moment);
    }

    fn says_learner(&mut self, is_learner: bool) {
        self.view.learner = Some(is_learner);
        self.view.confirmed |= is_learner;
    }

    /// etcd tells of a new leader at once, and of its term only when the first entry of it is applied, which on a slow
    /// disk is a second later. A term has one leader, so a second one with the same term is that of a term to come.
    fn is_of_the_leader_before(&mut self, leader: Option<u64>, term: u64) -> bool {
        let Some(leader) = leader else { return false };
        match self.led {
            Some((led, by)) if led == term => by != leader,
            Some((led, _)) if led > term => false,
            Some(_) | None => {
                self.led = Some((term, leader));
                false
            }
        }
    }

    fn good_poll(&mut self, told: Told, detail: Option<&str>, moment: Moment) {
        self.failed_polls = 0;
        record(&mut self.view.status, Ok(detail.map(str::to_owned)), moment);
        // etcd's term only grows; an answer that is behind is none.
        let newest = self.told.as_ref().and_then(|told| told.term);
        if told.term.is_none() || told.term >= newest {
            self.told = Some(told);
        }
    }

    fn failed_poll(&mut self, error: String, moment: Moment) {
        self.failed_polls += 1;
        record(&mut self.view.status, Err(error), moment);
    }

    /// Publishes of `told` what may be published by now.
    fn settle(&mut self, wall: SystemTime) {
        let Some(told) = &self.told else { return };
        let heard = self.failed_polls < FAILED_POLLS;
        let mut leadership = Leadership {
            member_id: told.member_id,
            leader_id: told.leader_id.filter(|_| heard),
            has_leader: told.has_leader && heard,
            is_leader: told.leads && heard && self.view.confirmed && self.view.learner != Some(true),
            is_learner: self.view.learner,
            term: told.term.filter(|_| self.view.confirmed && !told.term_lags),
            source: told.source,
            since: wall,
        };
        if let Some(old) = &self.view.leadership {
            let since = leadership.since;
            leadership.since = old.since;
            if leadership != *old {
                leadership.since = since;
            }
        }
        self.view.leadership = Some(leadership);
    }
}

/// Ok(None): the time it took is all there is to say.
fn record(slot: &mut Option<Probe>, outcome: Result<Option<String>, String>, moment: Moment) {
    let ok = outcome.is_ok();
    let last_success =
        slot.as_ref().and_then(|probe| probe.last_success).filter(|_| !ok).or(ok.then_some(moment.now));
    let detail = match outcome {
        Ok(None) => format!("{} ms", moment.took.as_millis()),
        Ok(Some(remark)) => format!("{} ms, {remark}", moment.took.as_millis()),
        Err(error) => error,
    };
    *slot = Some(Probe { ok, at: moment.now, at_wall: moment.wall, last_success, detail });
}

/// True when a watcher that has seen `old` needs not be woken for `new`: only times, durations or database numbers
/// differ. Those come four times a second, and who shows them reads the newest value anyway.
pub(super) fn is_same_news(old: &MemberView, new: &MemberView) -> bool {
    let ok = |probe: &Option<Probe>| probe.as_ref().map(|probe| probe.ok);
    old.generation == new.generation
        && old.confirmed == new.confirmed
        && ok(&old.linearizable_read) == ok(&new.linearizable_read)
        && old.learner == new.learner
        && ok(&old.serializable_read) == ok(&new.serializable_read)
        && ok(&old.status) == ok(&new.status)
        && old.leadership == new.leadership
        && old.alarms == new.alarms
        && old.db.is_some() == new.db.is_some()
        && old.version == new.version
        && old.members == new.members
        && old.auth_hides_status == new.auth_hides_status
        && old.client.is_some() == new.client.is_some()
}

#[cfg(test)]
mod tests;
