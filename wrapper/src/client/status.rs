// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `status`: the whole member on one screen. What is fine is short, what is not says why. Everything shown comes from
//! the one document; ages are counted by its own clock.
use crate::api::wire::{Check, Status};
use crate::cli::client::{Output, Read};
use crate::exit::client::ClientCode;

use super::call::{Request, call};
use super::pod::Pod;
use super::reach::Reach;
use super::term::{Paint, between, one_line, plain, size};
use super::{ClientError, Shown, as_it_came, decode, lines};

pub(super) async fn run(read: Read) -> Result<Shown, ClientError> {
    let reach = Reach::new(&read.reach, &Pod::look(&read.reach))?;
    let answer = call(&reach, &Request::get("/v1/status")).await?;
    let status: Status = decode("status", &answer)?;
    let text = match read.output {
        Output::Json => as_it_came(&answer),
        Output::Table => picture(&status, Paint::of_stdout()),
    };
    let code = if status.readiness.ready { ClientCode::Done } else { ClientCode::Not };
    Ok(Shown { text, code })
}

/// Lines of a label and what it is about.
struct Picture {
    text: String,
    paint: Paint,
}

impl Picture {
    fn line(&mut self, label: &str, value: &str) {
        let label = self.paint.faint(&format!("{label:<11}"));
        self.text.push_str(&format!("{label} {value}\n"));
    }

    /// Belongs to the line above.
    fn more(&mut self, value: &str) {
        self.text.push_str(&format!("{:11} {value}\n", ""));
    }
}

fn picture(status: &Status, paint: Paint) -> String {
    let mut picture = Picture { text: String::new(), paint };
    head(&mut picture, status);
    readiness(&mut picture, status);
    cluster(&mut picture, status);
    etcd(&mut picture, status);
    bootstrap(&mut picture, status);
    if let Some(operation) = &status.operation {
        let text = plain(&lines::operation(operation));
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let failed = &*operation.status == "failed";
        picture.line("operation", &if failed { paint.bad(first) } else { first.to_owned() });
        lines.for_each(|line| picture.more(line.trim_start()));
    }
    for (at, warning) in status.warnings.iter().enumerate() {
        let text = format!("{}: {}", paint.notable(&one_line(&warning.code)), one_line(&warning.detail));
        if at == 0 { picture.line("warnings", &text) } else { picture.more(&text) }
    }
    picture.text
}

/// Since when, as an age: ` for 3m12s`.
fn lasting(since: &str, status: &Status) -> String {
    between(since, &status.time).map(|age| format!(" for {age}")).unwrap_or_default()
}

fn head(picture: &mut Picture, status: &Status) {
    let paint = picture.paint;
    let name = status.etcd.effective.as_ref().map(|effective| one_line(&effective.name));
    let name = name.or_else(|| status.leader.member_name.as_deref().map(one_line));
    let verdict = match status.readiness.ready {
        true => paint.good("READY"),
        false => paint.bad("NOT READY"),
    };
    let name = name.unwrap_or_else(|| "etcd".to_owned());
    picture.text.push_str(&format!("{}  {verdict}\n", paint.strong(&name)));
    let wrapper = &status.wrapper;
    let mut phase = format!("{}{}", wrapper.phase, lasting(&wrapper.phase_since, status));
    if &*wrapper.intent != "up" {
        phase.push_str(&format!(", wanted: {}", wrapper.intent));
    }
    picture.line("phase", &one_line(&phase));
    if let Some(reason) = &wrapper.hold_reason {
        picture.more(&paint.notable(&format!("held: {}", one_line(reason))));
    }
}

fn readiness(picture: &mut Picture, status: &Status) {
    let paint = picture.paint;
    let readiness = &status.readiness;
    let age = lasting(&readiness.since, status);
    if readiness.ready {
        picture.line("readiness", &format!("ready{age}"));
    } else {
        picture.line("readiness", &format!("{}{age}", paint.bad("not ready")));
    }
    let failed = |check: &&Check| check.required && !check.ok;
    for check in readiness.checks.iter().filter(failed) {
        picture.more(&format!("{} {}", paint.bad("✗"), check_line(check)));
    }
    // That one is asked only once the other read has failed.
    let asked = |check: &&Check| !readiness.ready || check.name != "serializable_read";
    for check in readiness.checks.iter().filter(|check| !check.required && !check.ok).filter(asked) {
        picture.more(&format!("{} {} (does not count)", paint.notable("!"), check_line(check)));
    }
    if let Some(standing) = &readiness.override_ {
        picture.more(&paint.notable(&one_line(&lines::override_(standing))));
    }
}

fn check_line(check: &Check) -> String {
    match &check.detail {
        Some(detail) => one_line(&format!("{}: {detail}", check.name)),
        None => one_line(&check.name),
    }
}

fn cluster(picture: &mut Picture, status: &Status) {
    let paint = picture.paint;
    let health = &status.health;
    let diagnosis = one_line(&health.diagnosis);
    let diagnosis = match &*health.diagnosis {
        "healthy" => paint.good(&diagnosis),
        "member_down" | "quorum_lost_member_alive" | "alarm_nospace" | "alarm_corrupt" => {
            paint.bad(&diagnosis)
        }
        _ => paint.notable(&diagnosis),
    };
    picture.line("diagnosis", &diagnosis);
    let words = format!("quorum {}, member {}, process {}", health.quorum, health.member, health.process);
    picture.more(&one_line(&words));
    let since =
        if status.leader.source.is_some() { lasting(&status.leader.since, status) } else { String::new() };
    picture.line("leader", &one_line(&format!("{}{since}", lines::leader(&status.leader))));
}

fn etcd(picture: &mut Picture, status: &Status) {
    let etcd = &status.etcd;
    let version = etcd.version.as_deref().unwrap_or("of unknown version");
    let process = match etcd.pid {
        Some(pid) => format!("pid {pid}, generation {}", etcd.generation),
        None if etcd.generation == 0 => "not started yet".to_owned(),
        None => format!("not running, {} started so far", etcd.generation),
    };
    let up = etcd.started_at.as_deref().map(|at| lasting(at, status)).unwrap_or_default();
    picture.line("etcd", &one_line(&format!("{version}, {process}{up}")));
    if let (Some(source), Some(digest)) = (&etcd.config_source, &etcd.config_digest) {
        let short: String = digest.chars().take("sha256:".len() + 12).collect();
        picture.more(&one_line(&format!("config from {source}, {short}")));
    }
    if let Some(end) =
        etcd.last_exit.as_ref().filter(|end| etcd.pid.is_none() || !end.requested || !end.clean)
    {
        let how = match (end.code, &end.signal) {
            (Some(code), _) => format!("code {code}"),
            (None, Some(signal)) => signal.to_string(),
            (None, None) => end.kind.to_string(),
        };
        let asked = if end.requested { "asked for" } else { "not asked for" };
        let clean = if end.clean { "" } else { ", not clean" };
        let ago = between(&end.at, &status.time).map(|age| format!("{age} ago: ")).unwrap_or_default();
        picture.more(&one_line(&format!("last end {ago}{how}, {asked}{clean} ({})", end.cause)));
    }
    if let Some(db) = &etcd.db {
        let quota = if db.quota == 0 || db.quota == u64::MAX {
            "no quota".to_owned()
        } else {
            format!("{} % of {}", db.size.saturating_mul(100) / db.quota, size(db.quota))
        };
        picture.line("database", &format!("{}, {} in use, {quota}", size(db.size), size(db.in_use)));
    }
    if let Some(volume) = &status.volume {
        picture.line("volume", &format!("{} free", size(volume.free_bytes)));
    }
}

/// Only until it is done: afterwards nobody asks.
fn bootstrap(picture: &mut Picture, status: &Status) {
    let bootstrap = &status.bootstrap;
    if matches!(&*bootstrap.state, "done" | "idle") && bootstrap.last_error.is_none() {
        return;
    }
    let mut text = format!("{}{}", bootstrap.state, lasting(&bootstrap.since, status));
    if let Some(validation) = &bootstrap.validation {
        text.push_str(&format!(", validation {validation}"));
    }
    if let Some(word) = &bootstrap.sidecar_state {
        text.push_str(&format!(", the sidecar says {word}"));
    }
    picture.line("bootstrap", &one_line(&text));
    if let Some(error) = &bootstrap.last_error {
        picture.more(&one_line(&format!("last error: {error}")));
    }
}

#[cfg(test)]
mod tests;
