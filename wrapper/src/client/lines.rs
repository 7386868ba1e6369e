// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Documents in one or two lines, for people: a problem, who leads, an operation, readiness. `leader` shows nothing else.
use crate::api::wire;
use crate::cli::client::{Leader, Output};
use crate::exit::client::ClientCode;

use super::call::{Request, call};
use super::pod::Pod;
use super::reach::Reach;
use super::{ClientError, Shown, as_it_came, decode};

/// `leader` without `--watch`.
pub(super) async fn run_leader(asked: Leader) -> Result<Shown, ClientError> {
    let flags = &asked.read.reach;
    let reach = Reach::new(flags, &Pod::look(flags))?;
    let path = if asked.confirm { "/v1/leader?confirm=true" } else { "/v1/leader" };
    let answer = call(&reach, &Request::get(path)).await?;
    let document: wire::Leader = decode("leader", &answer)?;
    let text = match asked.read.output {
        Output::Json => as_it_came(&answer),
        Output::Table => format!("{}\n", leader(&document)),
    };
    let code = if document.is_leader { ClientCode::Done } else { ClientCode::Not };
    Ok(Shown { text, code })
}

/// Title and detail of a refusal, then each fault with what to write instead.
pub(super) fn problem(problem: &wire::Problem) -> String {
    let mut text = format!("{}: {} ({})", problem.title, problem.detail, problem.code);
    for error in &problem.errors {
        // Where there is but one, the detail has often said it.
        if !problem.detail.contains(&error.detail) {
            let place = if error.pointer.is_empty() { "the document" } else { &error.pointer };
            text.push_str(&format!("\n  {place}: {}", error.detail));
        }
        if let Some(suggestion) = &error.suggestion {
            text.push_str(&format!("\n  did you mean {suggestion}?"));
        }
    }
    if problem.retryable {
        text.push_str("\n  the same call may succeed later");
    }
    text
}

/// Who leads, as this member sees it.
pub(super) fn leader(leader: &wire::Leader) -> String {
    let name = leader.member_name.as_deref().unwrap_or("this member");
    let id = leader.member_id.as_deref();
    let who = if leader.leaving {
        format!("{name} is leaving: look elsewhere")
    } else if leader.is_leader {
        format!("{name} leads")
    } else {
        let role = if leader.is_learner == Some(true) { "is a learner" } else { "follows" };
        match (&leader.leader_id, &leader.source) {
            (Some(other), _) => format!("{name} {role}, the leader is {other}"),
            (None, Some(_)) if leader.term.is_some() => format!("{name} sees no leader"),
            (None, Some(_)) => format!("{name} does not lead"),
            (None, None) => format!("unknown: {name} has not answered"),
        }
    };
    let mut more = Vec::new();
    more.extend(id.map(|id| format!("member {id}")));
    more.extend(leader.term.map(|term| format!("term {term}")));
    if leader.confirmed {
        more.push("confirmed".to_owned());
    }
    if more.is_empty() { who } else { format!("{who} ({})", more.join(", ")) }
}

/// An operation and where it stands.
pub(super) fn operation(operation: &wire::Operation) -> String {
    // The server gives no number where there was nothing to do.
    let id = if operation.id == "op-0" { String::new() } else { format!(" {}", operation.id) };
    let mut text = format!("{}{id}: {}", operation.kind, operation.status);
    match &*operation.status {
        "pending" | "running" => text.push_str(&format!(", {}", operation.phase)),
        "succeeded" if !operation.changed => text.push_str(", there was nothing to do"),
        _ => {}
    }
    if let Some(found) = &operation.problem {
        text.push_str(&format!("\n  {}", problem(found)));
    }
    if let Some(error) = &operation.last_error {
        text.push_str(&format!("\n  last error: {error}"));
    }
    text
}

/// Ready or not, and why not.
pub(super) fn readiness(readiness: &wire::Readiness) -> String {
    let mut text = match (readiness.ready, &readiness.reason) {
        (true, _) => "ready".to_owned(),
        (false, Some(reason)) => format!("not ready: {reason}"),
        (false, None) => "not ready".to_owned(),
    };
    if let Some(standing) = &readiness.override_ {
        text.push_str(&format!("\n  {}", override_(standing)));
    }
    text
}

/// An override, whose, why, and until when.
pub(super) fn override_(standing: &wire::Override) -> String {
    let until = match (&standing.expires_at, standing.durable) {
        (Some(end), _) => format!("until {end}"),
        (None, true) => "until it is ended, also beyond this process".to_owned(),
        (None, false) => "until it is ended".to_owned(),
    };
    let reason = if standing.reason.is_empty() { String::new() } else { format!(": {}", standing.reason) };
    format!("override {} by {}{reason} ({until})", standing.mode, standing.owner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn a_leader(changes: serde_json::Value) -> wire::Leader {
        let mut document = json!({
            "epoch": "3f9a1c", "index": 41, "memberId": "8e9e", "memberName": "etcd-main-0", "leaderId": "8e9e",
            "isLeader": true, "isLearner": false, "leaving": false, "term": 4, "generation": 2, "since": "…",
            "confirmed": false, "age": "120ms", "source": "status",
        });
        for (key, value) in changes.as_object().unwrap() {
            document[key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn who_leads_is_said_in_one_line_and_never_guessed() {
        for (changes, said) in [
            (json!({}), "etcd-main-0 leads (member 8e9e, term 4)"),
            (json!({"confirmed": true}), "etcd-main-0 leads (member 8e9e, term 4, confirmed)"),
            (
                json!({"isLeader": false, "leaderId": "ab"}),
                "etcd-main-0 follows, the leader is ab (member 8e9e, term 4)",
            ),
            (
                json!({"isLeader": false, "leaderId": null}),
                "etcd-main-0 sees no leader (member 8e9e, term 4)",
            ),
            (
                json!({"isLeader": false, "isLearner": true, "leaderId": "ab"}),
                "etcd-main-0 is a learner, the leader is ab (member 8e9e, term 4)",
            ),
            (
                json!({"isLeader": false, "leaving": true}),
                "etcd-main-0 is leaving: look elsewhere (member 8e9e, term 4)",
            ),
            (
                json!({"isLeader": false, "leaderId": null, "term": null, "source": "metrics"}),
                "etcd-main-0 does not lead (member 8e9e)",
            ),
            (
                json!({"isLeader": false, "memberId": null, "memberName": null, "leaderId": null, "term": null, "source": null}),
                "unknown: this member has not answered",
            ),
        ] {
            assert_eq!(leader(&a_leader(changes)), said);
        }
    }

    #[test]
    fn a_problem_shows_its_faults_and_what_was_meant() {
        let document: wire::Problem = serde_json::from_value(json!({
            "type": "urn:x", "title": "The etcd configuration is not valid", "status": 422, "detail": "two faults",
            "code": "config_invalid", "retryable": false,
            "errors": [
                {"pointer": "/data-dir", "detail": "is missing", "suggestion": "data-dir"},
                {"pointer": "/name", "detail": "two faults"},
            ],
        }))
        .unwrap();
        let text = "The etcd configuration is not valid: two faults (config_invalid)\n  /data-dir: is missing\n  \
                    did you mean data-dir?";
        assert_eq!(problem(&document), text);
    }
}
