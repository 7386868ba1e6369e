// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One scrape: the views as gauges, beside the process's own counters. Series that cannot be known are absent, never 0.
use std::collections::BTreeMap;
use std::time::{Instant, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::member::readiness::Evaluation;
use crate::member::view::MemberView;
use crate::member::volume::Volume;
use crate::supervise::view::{CoreView, OverrideMode, Phase, Warning};
use crate::tls::TlsView;

use super::{Metrics, process};

/// One label with a value of a closed vocabulary.
type Label = [(&'static str, &'static str); 1];

/// How the page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a scrape sees: the snapshots of one moment.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// Readiness, judged for this scrape.
    pub evaluation: Evaluation,
    /// As `/v1/leader` says.
    pub is_leader: bool,
    /// The supervisor's view.
    pub core: &'a CoreView,
    /// The prober's view.
    pub member: &'a MemberView,
    /// The reloader's view.
    pub tls: &'a TlsView,
    /// None: it cannot be looked at.
    pub volume: Option<Volume>,
    /// All that stand.
    pub warnings: &'a [Warning],
    /// The commit; None: the build was not told one.
    pub revision: Option<&'static str>,
    /// For ages.
    pub now: Instant,
}

impl Metrics {
    /// The whole page.
    pub fn render(&self, format: Format, scrape: &Scrape<'_>) -> String {
        let registries = [&views(scrape), &self.counted.registry, &process::registry(scrape.core.started_at)];
        let mut page = String::with_capacity(8 * 1024);
        let written = registries.iter().try_for_each(|registry| match format {
            Format::Prometheus => prometheus_text::encode(&mut page, registry),
            Format::OpenMetrics => text::encode_registry(&mut page, registry),
        });
        written.expect("writing to a string");
        if format == Format::OpenMetrics {
            text::encode_eof(&mut page).expect("writing to a string");
        }
        page
    }
}

fn views(scrape: &Scrape<'_>) -> Registry {
    let mut registry = Registry::with_prefix("etcd_wrapper");
    let Scrape { evaluation, core, member, tls, .. } = scrape;
    supervisor(&mut registry, core, evaluation, scrape);
    cluster(&mut registry, member, scrape);
    gauge(
        &mut registry,
        "volume_free_bytes",
        "Free bytes on the data volume",
        scrape.volume.map(|v| v.free_bytes),
    );
    let inodes = scrape.volume.map(|v| v.free_inodes);
    gauge(&mut registry, "volume_free_inodes", "Free inodes on the data volume", inodes);
    certificates(&mut registry, tls);
    let version =
        [("version", env!("CARGO_PKG_VERSION")), ("revision", scrape.revision.unwrap_or("unknown"))];
    registry.register("build", "What this binary was built from", Info::new(version));
    registry
}

fn supervisor(registry: &mut Registry, core: &CoreView, evaluation: &Evaluation, scrape: &Scrape<'_>) {
    let phases = Phase::ALL.map(|phase| ("phase", phase.as_str(), core.phase == phase));
    states(registry, "phase", "1 for the phase of the state machine, 0 for the others", phases);
    let ready = Some(u64::from(evaluation.ready));
    gauge(registry, "ready", "What /readyz says: 1 is 200", ready);
    let checks = evaluation.checks.iter().map(|check| ("check", check.name, check.ok));
    states(registry, "check_ok", "Readiness checks, counted or not", checks);
    let standing = core.override_.as_ref().map(|standing| standing.mode);
    let modes = [("ready", OverrideMode::Ready), ("unready", OverrideMode::Unready)];
    let modes = modes.map(|(word, mode)| ("mode", word, standing == Some(mode)));
    states(registry, "override_active", "1 while an agent's override of readiness stands", modes);
    let warnings = scrape.warnings.iter().map(|warning| ("code", warning.code, true));
    states(registry, "warning_active", "Warnings that stand; absent when they do not", warnings);
    registry.register("child_starts", "Successful spawns of etcd", ConstCounter::new(core.generation));
}

fn cluster(registry: &mut Registry, member: &MemberView, scrape: &Scrape<'_>) {
    let success = member.linearizable_read.as_ref().and_then(|read| read.last_success);
    let age = success.map(|at| scrape.now.saturating_duration_since(at).as_secs_f64());
    let help = "Age of the newest linearizable read through the local member that succeeded";
    if let Some(age) = age {
        registry.register("check_age_seconds", help, ConstGauge::new(age));
    }
    gauge(registry, "db_size_bytes", "Size of the database file", member.db.map(|db| db.size));
    gauge(registry, "db_in_use_bytes", "Bytes of the database in use", member.db.map(|db| db.in_use));
    gauge(registry, "db_quota_bytes", "Size at which etcd refuses writes", member.db.map(|db| db.quota));
    gauge(registry, "is_leader", "1 while this member leads", Some(u64::from(scrape.is_leader)));
    let term = member.leadership.as_ref().and_then(|leadership| leadership.term);
    gauge(registry, "raft_term", "Raft term as the local member knows it", term);
}

fn certificates(registry: &mut Registry, tls: &TlsView) {
    // Several files may bear one name; the earliest end is what matters.
    let mut ends = BTreeMap::<&'static str, f64>::new();
    for certificate in &tls.certificates {
        let end = certificate.not_after.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        ends.entry(certificate.name).and_modify(|earliest| *earliest = earliest.min(end)).or_insert(end);
    }
    let family = Family::<Label, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    for (name, end) in ends {
        family.get_or_create(&[("cert", name)]).set(end);
    }
    let help = "End of validity of a certificate in use, Unix time";
    registry.register("certificate_not_after_timestamp_seconds", help, family);
    let reloads = Family::<Label, prometheus_client::metrics::counter::Counter>::default();
    for (result, count) in [("ok", tls.reloads_ok), ("failed", tls.reloads_failed)] {
        reloads.get_or_create(&[("result", result)]).inc_by(count);
    }
    registry.register("tls_reloads", "Certificates that changed on disk, by what came of it", reloads);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: Option<u64>) {
    if let Some(value) = value {
        registry.register(name, help, gauge_of(value));
    }
}

fn gauge_of(value: u64) -> impl EncodeMetric + std::fmt::Debug + Send + Sync + 'static {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ConstGauge::new(value)
}

/// One series of 0 or 1 for each (label, value, state).
fn states(
    registry: &mut Registry,
    name: &str,
    help: &str,
    states: impl IntoIterator<Item = (&'static str, &'static str, bool)>,
) {
    let family = Family::<Label, Gauge>::default();
    for (label, value, state) in states {
        family.get_or_create(&[(label, value)]).set(i64::from(state));
    }
    registry.register(name, help, family);
}
