// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/readyz`, `/livez`, `/startupz`: read snapshots, wait for nothing, so that a frozen etcd cannot freeze them.
use std::fmt::Write;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, Request, StatusCode};
use hyper::body::Incoming;

use crate::member::readiness::{Check, Evaluation, MAX_AGE, evaluate};

use super::problem::{Code, Problem};
use super::query::Query;
use super::snapshot::{Now, readiness_document};
use super::{Answer, Api, accepts, empty, json, text};

/// The loop that `/livez` vouches for has turned within this time.
const TICKED_WITHIN: Duration = Duration::from_secs(10);

const REASON: HeaderName = HeaderName::from_static("etcd-wrapper-reason");
const PHASE: HeaderName = HeaderName::from_static("etcd-wrapper-phase");

impl Api {
    /// `/readyz` and, with `check`, `/readyz/<check>`.
    pub(super) fn readyz(&self, request: &Request<Incoming>, check: Option<&str>) -> Answer {
        let query = match Query::parse(request.uri().query()) {
            Ok(query) => query,
            Err(problem) => return self.problem(&problem),
        };
        let now = Now::read();
        let core = self.views.core.borrow();
        let excluded: Vec<_> = query.all("exclude").filter(|_| check.is_none()).collect();
        let evaluation =
            evaluate(&core, &self.views.member.borrow(), now.instant, MAX_AGE).without(&excluded);
        let verdict = match check {
            None => Verdict::of(&evaluation, &excluded),
            Some(name) => match evaluation.checks.iter().find(|check| check.name == name) {
                Some(check) => Verdict::of_one(check),
                None => {
                    drop(core);
                    let known: Vec<_> = evaluation.checks.iter().map(|check| check.name).collect();
                    let detail = format!("no check {name:?}; there are {}", known.join(", "));
                    return self.problem(&Problem::new(Code::NotFound, detail));
                }
            },
        };
        let status = if verdict.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut answer = if accepts(request.headers(), "application/json") {
            let mut document = readiness_document(&core, &evaluation, &self.published.borrow().marks, now);
            document.ready = verdict.ready;
            document.reason = verdict.reason.map(Into::into);
            json(status, &document)
        } else if query.get("verbose").is_some() {
            text(status, "text/plain; charset=utf-8", verdict.listing("readyz"))
        } else {
            empty(status)
        };
        if !verdict.ready {
            let reason = verdict.reason.unwrap_or("unknown");
            answer.headers_mut().insert(REASON, HeaderValue::from_static(reason));
            answer.headers_mut().insert(PHASE, HeaderValue::from_static(core.phase.as_str()));
        }
        answer
    }

    /// `/livez`: nothing but the supervisor's own loop counts.
    pub(super) fn livez(&self) -> Answer {
        empty(alive(self.views.core.borrow().ticked, Instant::now()))
    }

    /// `/startupz`: etcd was ready once in this process's life.
    pub(super) fn startupz(&self) -> Answer {
        let started = self.views.core.borrow().ready_once;
        empty(if started { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE })
    }
}

fn alive(ticked: Instant, now: Instant) -> StatusCode {
    match now.saturating_duration_since(ticked) <= TICKED_WITHIN {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The evaluation as one caller asked for it.
struct Verdict<'a> {
    ready: bool,
    reason: Option<&'static str>,
    checks: &'a [Check],
    excluded: &'a [&'a str],
}

impl<'a> Verdict<'a> {
    fn of(evaluation: &'a Evaluation, excluded: &'a [&'a str]) -> Self {
        Self { ready: evaluation.ready, reason: evaluation.reason, checks: &evaluation.checks, excluded }
    }

    /// One check alone; here it counts whether or not it does for readiness.
    fn of_one(check: &'a Check) -> Self {
        let reason = (!check.ok).then_some(check.name);
        Self { ready: check.ok, reason, checks: std::slice::from_ref(check), excluded: &[] }
    }

    /// The text form of Kubernetes and etcd, with the reason that they withhold.
    fn listing(&self, probe: &str) -> String {
        let mut out = String::with_capacity(256);
        for check in self.checks {
            let counts = check.required || self.checks.len() == 1;
            let written = match (self.excluded.contains(&check.name), check.ok, counts) {
                (true, _, _) => writeln!(out, "[+]{} excluded: ok", check.name),
                (false, true, _) => writeln!(out, "[+]{} ok", check.name),
                (false, false, true) => writeln!(out, "[-]{} failed: {}", check.name, check.detail),
                (false, false, false) => {
                    writeln!(out, "[-]{} failed, not counted: {}", check.name, check.detail)
                }
            };
            written.expect("writing to a string");
        }
        for name in self.excluded.iter().filter(|name| !self.checks.iter().any(|check| check.name == **name))
        {
            writeln!(out, "warn: some health checks cannot be excluded: no matches for {name:?}")
                .expect("writing to a string");
        }
        out.push_str(probe);
        out.push_str(if self.ready { " check passed\n" } else { " check failed\n" });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, ok: bool, required: bool) -> Check {
        Check { name, ok, required, at: None, detail: "why".into() }
    }

    fn evaluation() -> Evaluation {
        let checks = vec![
            check("process", true, true),
            check("linearizable_read", false, true),
            check("nospace", false, false),
        ];
        Evaluation { ready: false, reason: Some("linearizable_read"), checks }
    }

    #[test]
    fn the_listing_reads_like_that_of_kubernetes() {
        let evaluation = evaluation();
        assert_eq!(
            Verdict::of(&evaluation, &[]).listing("readyz"),
            "[+]process ok\n[-]linearizable_read failed: why\n[-]nospace failed, not counted: why\nreadyz check failed\n"
        );
        assert_eq!(
            Verdict::of(&evaluation.without(&["linearizable_read", "foo"]), &["linearizable_read", "foo"])
                .listing("readyz"),
            "[+]process ok\n[+]linearizable_read excluded: ok\n[-]nospace failed, not counted: why\n\
             warn: some health checks cannot be excluded: no matches for \"foo\"\nreadyz check passed\n"
        );
    }

    #[test]
    fn d7_a_check_asked_for_by_name_counts_even_when_readiness_ignores_it() {
        let evaluation = evaluation();
        let verdict = Verdict::of_one(&evaluation.checks[2]);
        assert!(!verdict.ready);
        assert_eq!(verdict.listing("readyz"), "[-]nospace failed: why\nreadyz check failed\n");
        assert!(Verdict::of_one(&evaluation.checks[0]).ready);
    }

    #[test]
    fn d8_livez_turns_red_only_when_the_loop_stood_still() {
        let start = Instant::now();
        assert_eq!(alive(start, start + TICKED_WITHIN), StatusCode::OK);
        let late = start + TICKED_WITHIN + Duration::from_millis(1);
        assert_eq!(alive(start, late), StatusCode::SERVICE_UNAVAILABLE);
    }
}
