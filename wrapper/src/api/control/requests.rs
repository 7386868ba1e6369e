// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What callers write, turned into commands: every option of every verb, parsed once. Whether a verb may go through is
//! the supervisor's to say.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::fields::{Fields, refused};
use crate::api::problem::{Code, Problem};
use crate::api::query::{Query, invalid};
use crate::api::wire::FieldError;
use crate::config::{self, EtcdConfig};
use crate::supervise::command::{
    Guard, HoldRequest, OverrideRequest, RestartRequest, StartRequest, StopRequest, Validation,
};
use crate::supervise::view::{Mode, OverrideMode};

pub(super) const START: &[&str] =
    &["validation", "ready", "owner", "reason", "force", "wait", "ifGeneration"];
pub(super) const RESTART: &[&str] = &["validation", "config", "wait"];
const RESTART_BODY: &[&str] =
    &["gracePeriod", "transferLeadership", "guard", "force", "ifGeneration", "reason"];
const STOP_BODY: &[&str] =
    &["gracePeriod", "transferLeadership", "guard", "force", "ifGeneration", "reason", "hold", "owner"];
const READINESS_BODY: &[&str] = &["mode", "ttl", "owner", "reason", "force"];

const GUARDS: &[(&str, Guard)] =
    &[("quorum", Guard::Quorum), ("serial", Guard::Serial), ("none", Guard::None)];
const MODES: &[(&str, Option<OverrideMode>)] =
    &[("ready", Some(OverrideMode::Ready)), ("unready", Some(OverrideMode::Unready)), ("auto", None)];

/// The longest `gracePeriod` and `ttl`.
const DAY: Duration = Duration::from_secs(86_400);
/// Longest owner and reason, in bytes: as much as the hold file keeps.
const LONGEST_OWNER: usize = 256;
const LONGEST_REASON: usize = 4 * 1024;

/// A posted configuration that etcd may be given, and whose client port our own client can find.
///
/// # Errors
/// `config_invalid` with a pointer for everything that is wrong.
pub(super) fn posted(bytes: Bytes) -> Result<Arc<EtcdConfig>, Problem> {
    let usable = EtcdConfig::parse(bytes).and_then(|config| {
        config::client_endpoint(&config, None)?;
        Ok(config)
    });
    usable.map(Arc::new).map_err(|error| {
        let errors = error.problems.iter().map(|problem| FieldError {
            pointer: problem.pointer.clone(),
            detail: problem.detail.clone(),
            suggestion: problem.suggestion.clone(),
        });
        Problem { code: Code::ConfigInvalid, detail: error.to_string(), errors: errors.collect() }
    })
}

pub(super) fn start(query: &Query, posted: Option<Arc<EtcdConfig>>) -> Result<StartRequest, Problem> {
    let reason = checked_reason("reason", query.get("reason").unwrap_or_default())?;
    let owner = query
        .get("owner")
        .filter(|owner| !owner.is_empty())
        .map(|owner| checked_owner("owner", owner))
        .transpose()?;
    let hold = match (query.get("ready"), &owner) {
        (None | Some("auto"), _) => None,
        (Some("hold"), Some(owner)) => Some(HoldRequest { owner: owner.clone(), reason: reason.clone() }),
        (Some("hold"), None) => return Err(refused("owner", "ready=hold needs an owner")),
        (Some(other), _) => return Err(invalid("ready", other, "auto or hold")),
    };
    let validation = validation(query)?;
    let (force, if_generation) = (query.flag("force")?, query.number("ifGeneration")?);
    Ok(StartRequest { posted, validation, hold, owner, force, if_generation, reason })
}

pub(super) fn stop(body: &Fields) -> Result<StopRequest, Problem> {
    body.only(STOP_BODY)?;
    let Ending { grace, transfer, guard, force, if_generation, reason } = ending(body)?;
    let owner = body.text("owner")?.map(|owner| checked_owner("/owner", owner)).transpose()?;
    let hold = match (body.flag("hold")?.unwrap_or_default(), owner) {
        (false, None) => None,
        (false, Some(_)) => {
            return Err(refused("/owner", "an owner is one of a hold: it goes with \"hold\": true"));
        }
        (true, owner) => Some(HoldRequest { owner: owner.unwrap_or_default(), reason: reason.clone() }),
    };
    Ok(StopRequest { grace, transfer, guard, force, hold, if_generation, reason })
}

pub(super) fn restart(query: &Query, body: &Fields) -> Result<RestartRequest, Problem> {
    body.only(RESTART_BODY)?;
    let Ending { grace, transfer, guard, force, if_generation, reason } = ending(body)?;
    let config_from_sidecar = match query.get("config") {
        None => None,
        Some("same") => Some(false),
        Some("sidecar") => Some(true),
        Some(other) => return Err(invalid("config", other, "same or sidecar")),
    };
    let validation = validation(query)?;
    Ok(RestartRequest {
        validation,
        config_from_sidecar,
        grace,
        transfer,
        guard,
        force,
        if_generation,
        reason,
    })
}

/// `PUT /v1/readiness`.
pub(super) fn put_readiness(body: &Fields) -> Result<OverrideRequest, Problem> {
    body.only(READINESS_BODY)?;
    let mode = body.word("mode", MODES)?.ok_or_else(|| refused("/mode", "mode is ready, unready or auto"))?;
    let owner = body.text("owner")?.map(|owner| checked_owner("/owner", owner)).transpose()?;
    let reason = checked_reason("/reason", body.text("reason")?.unwrap_or_default())?;
    let force = body.flag("force")?.unwrap_or_default();
    let endless = body.text("ttl").is_ok_and(|ttl| ttl == Some("none"));
    let ttl = if endless { None } else { body.duration("ttl", Duration::from_secs(1), DAY)? };
    if mode.is_some() && owner.is_none() {
        return Err(refused(
            "/owner",
            "an override has an owner, who alone may renew or end it without force",
        ));
    }
    match (mode, ttl, endless) {
        (None, None, false) | (Some(_), Some(_), _) | (Some(OverrideMode::Unready), None, true) => {}
        (None, ..) => return Err(refused("/ttl", "auto ends what stands: it has no ttl")),
        (Some(OverrideMode::Ready), None, _) => {
            return Err(refused("/ttl", "ready needs a ttl from 1s to 24h: it must end by itself"));
        }
        (Some(OverrideMode::Unready), None, false) => {
            return Err(refused("/ttl", "unready needs a ttl from 1s to 24h, or \"none\""));
        }
    }
    Ok(OverrideRequest { mode, ttl, owner, reason, force })
}

/// `DELETE /v1/readiness`.
pub(super) fn delete_readiness(query: &Query) -> Result<OverrideRequest, Problem> {
    query.only(&["owner", "force"])?;
    let owner = query.get("owner").map(|owner| checked_owner("owner", owner)).transpose()?;
    Ok(OverrideRequest { mode: None, ttl: None, owner, reason: String::new(), force: query.flag("force")? })
}

fn validation(query: &Query) -> Result<Validation, Problem> {
    Ok(match query.get("validation") {
        None | Some("auto") => Validation::Auto,
        Some("none") => Validation::None,
        Some("sanity") => Validation::Ask(Mode::Sanity),
        Some("full") => Validation::Ask(Mode::Full),
        Some(other) => return Err(invalid("validation", other, "auto, none, sanity or full")),
    })
}

/// What stop and restart have in common.
struct Ending {
    grace: Option<Duration>,
    transfer: bool,
    guard: Guard,
    force: bool,
    if_generation: Option<u64>,
    reason: String,
}

fn ending(body: &Fields) -> Result<Ending, Problem> {
    Ok(Ending {
        grace: body.duration("gracePeriod", Duration::ZERO, DAY)?,
        transfer: body.flag("transferLeadership")?.unwrap_or(true),
        guard: body.word("guard", GUARDS)?.unwrap_or(Guard::Quorum),
        force: body.flag("force")?.unwrap_or_default(),
        if_generation: body.number("ifGeneration")?,
        reason: checked_reason("/reason", body.text("reason")?.unwrap_or_default())?,
    })
}

/// An owner is written into a line of the hold file and compared as it stands.
fn checked_owner(pointer: &str, owner: &str) -> Result<String, Problem> {
    let plain = !owner.is_empty() && owner.trim() == owner && !owner.chars().any(char::is_control);
    if !plain || owner.len() > LONGEST_OWNER {
        let detail = format!(
            "an owner is a name of at most {LONGEST_OWNER} bytes, without line breaks or white space at its ends"
        );
        return Err(refused(pointer, detail));
    }
    Ok(owner.to_owned())
}

fn checked_reason(pointer: &str, reason: &str) -> Result<String, Problem> {
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if reason.len() > LONGEST_REASON || !reason.chars().all(plain) {
        let detail = format!("a reason is text of at most {LONGEST_REASON} bytes without control characters");
        return Err(refused(pointer, detail));
    }
    Ok(reason.to_owned())
}

#[cfg(test)]
mod tests;
