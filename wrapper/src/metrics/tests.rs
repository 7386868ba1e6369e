// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is counted, and what is absent when it cannot be known.
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::api::tests::rig::{answering_member, core_view, running_core};
use crate::member::readiness::{MAX_AGE, evaluate};
use crate::supervise::view::{
    LastExit, OperationKind, OperationPhase, OperationStatus, OperationView, Warning,
};
use crate::tls::{CertificateView, TlsView};

fn page(
    metrics: &Metrics,
    core: &CoreView,
    member: &MemberView,
    tls: &TlsView,
    warnings: &[Warning],
) -> String {
    let now = Instant::now();
    let evaluation = evaluate(core, member, now, MAX_AGE);
    let scrape = Scrape {
        evaluation,
        is_leader: false,
        core,
        member,
        tls,
        volume: None,
        warnings,
        revision: None,
        now,
    };
    metrics.render(Format::Prometheus, &scrape)
}

fn has(page: &str, line: &str) -> bool {
    page.lines().any(|known| known == line)
}

#[test]
fn what_cannot_be_known_has_no_series() {
    let page = page(&Metrics::new(), &core_view(), &MemberView::default(), &TlsView::default(), &[]);
    for name in ["raft_term", "db_size_bytes", "check_age_seconds", "volume_free_bytes", "warning_active{"] {
        assert!(!page.contains(&format!("\netcd_wrapper_{name}")), "{name} in\n{page}");
    }
    assert!(has(&page, "etcd_wrapper_ready 0"), "{page}");
    assert!(has(&page, "etcd_wrapper_phase{phase=\"initializing\"} 1"), "{page}");
    assert!(has(&page, "etcd_wrapper_phase{phase=\"running\"} 0"), "{page}");
    assert!(page.contains("\nprocess_resident_memory_bytes "), "{page}");
}

#[test]
fn g3_the_earliest_end_of_each_certificate_is_shown_in_unix_seconds() {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let certificate = |seconds| CertificateView { name: "server", path: "/x".into(), not_after: at(seconds) };
    let tls = TlsView {
        certificates: vec![certificate(2000), certificate(1000)],
        reloads_failed: 3,
        ..TlsView::default()
    };
    let warnings = [Warning { code: "certificate_expires", since: at(1), detail: String::new() }];
    let page = page(&Metrics::new(), &core_view(), &MemberView::default(), &tls, &warnings);
    let earliest = "etcd_wrapper_certificate_not_after_timestamp_seconds{cert=\"server\"} 1000";
    assert!(page.lines().any(|line| line.trim_end_matches(".0") == earliest), "{page}");
    assert!(has(&page, "etcd_wrapper_tls_reloads_total{result=\"failed\"} 3"), "{page}");
    assert!(has(&page, "etcd_wrapper_warning_active{code=\"certificate_expires\"} 1"), "{page}");
}

#[test]
fn ends_operations_steps_and_leaders_are_counted_once() {
    let metrics = Metrics::new();
    let mut core = core_view();
    let mut member = answering_member();
    metrics.observe(&core, &member);
    let running = running_core();
    core.phase = running.phase;
    core.phase_since += Duration::from_secs(3);
    core.last_exit = Some(LastExit {
        generation: 1,
        status: ExitStatus::Signaled(15),
        requested: true,
        clean: true,
        at: SystemTime::now(),
        cause: "restart",
    });
    let operation = |id| OperationView {
        id,
        kind: OperationKind::Restart,
        status: OperationStatus::Succeeded,
        phase: OperationPhase::Done,
        changed: true,
        started_at: SystemTime::UNIX_EPOCH,
        finished_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(2)),
        generation: None,
        problem: None,
        last_error: None,
    };
    // Two ended between two looks.
    core.operations = Arc::new([operation(1), operation(2)].into());
    member.leadership.as_mut().unwrap().leader_id = Some(7);
    for _ in 0..3 {
        metrics.observe(&core, &member);
    }
    let page = page(&metrics, &core, &member, &TlsView::default(), &[]);
    for line in [
        "etcd_wrapper_child_exits_total{kind=\"signaled\"} 1",
        "etcd_wrapper_operation_duration_seconds_sum{kind=\"restart\",status=\"succeeded\"} 4.0",
        "etcd_wrapper_bootstrap_duration_seconds_sum{step=\"initializing\"} 3.0",
        "etcd_wrapper_leader_changes_total 1",
    ] {
        assert!(has(&page, line), "{line} not in\n{page}");
    }
}
