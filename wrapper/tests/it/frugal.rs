// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the wrapper costs: processor time in every phase, memory and descriptors over many polls. Short forms run
//! always; `soak_` ones take the full length.
use std::time::{Duration, Instant};

use doubles::etcd::script::{Ready, Sender};
use doubles::etcd::{OnSignal, Script};
use doubles::sidecar::{Reply, Route};
use doubles::wait::{self, Poll};

use crate::scene::{LONG, SECOND, Scene, Wrapper};

/// Processor time that all threads of the process have used.
fn used(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Looks again without asking the wrapper anything, so that only its own doings are measured.
fn wait_for(span: Duration) {
    let began = Instant::now();
    wait::until(LONG.max(2 * span), "time to pass", || Poll::when(began.elapsed() >= span, String::new));
}

/// Debug builds are several times slower than what is shipped.
const SHARE: u32 = if cfg!(debug_assertions) { 5 } else { 1 };

#[track_caller]
fn is_idle(wrapper: &Wrapper<'_>, span: Duration) {
    let before = used(wrapper.pid());
    wait_for(span);
    let percent = (used(wrapper.pid()) - before).as_secs_f64() / span.as_secs_f64() * 100.0;
    assert!(percent < f64::from(SHARE), "{percent:.2} % of a core over {span:?}");
    eprintln!("{percent:.2} %");
}

const SPAN: Duration = Duration::from_secs(2);

#[test]
fn f11_initializing_costs_next_to_nothing() {
    let progress = Reply::text("Progress");
    let scene = Scene::scripted(Script::default());
    let scene = scene.with_sidecar(|setup| setup.always(Route::Status, progress));
    let wrapper = scene.start();
    wrapper.wait_status(LONG, "Progress", |status| status["bootstrap"]["sidecarState"] == "Progress");
    is_idle(&wrapper, SPAN);
}

#[test]
fn f11_a_sidecar_that_is_down_costs_next_to_nothing() {
    let mut scene = Scene::scripted(Script::default());
    scene.sidecar.as_mut().unwrap().stop();
    let wrapper = scene.start();
    wrapper.wait_status(LONG, "a refusal", |status| status["bootstrap"]["lastError"].is_string());
    is_idle(&wrapper, SPAN);
}

#[test]
fn f11_a_sidecar_that_fails_costs_next_to_nothing() {
    let failed = Reply { code: Some(500), ..Reply::text("boom") };
    let scene = Scene::scripted(Script::default());
    let scene = scene.with_sidecar(|setup| setup.always(Route::Status, failed));
    let wrapper = scene.start();
    wrapper.wait_status(LONG, "an error", |status| status["bootstrap"]["lastError"].is_string());
    is_idle(&wrapper, SPAN);
}

#[test]
fn f11_held_costs_next_to_nothing() {
    let scene = Scene::scripted(Script::default());
    scene.leave("hold", "wait");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    is_idle(&wrapper, SPAN);
}

#[test]
fn f11_starting_costs_next_to_nothing() {
    let ready = Ready { sender: Sender::Nobody, ..Default::default() };
    let scene = Scene::scripted(Script { ready, ..Script::default() });
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "starting");
    is_idle(&wrapper, SPAN);
}

#[test]
fn f11_serving_and_stopping_cost_next_to_nothing() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(3 * SECOND), ..Script::default() });
    let mut wrapper = scene.start_ready();
    is_idle(&wrapper, SPAN);
    wrapper.terminate();
    wrapper.wait_status(LONG, "a stop", |status| status["wrapper"]["intent"] == "exit");
    is_idle(&wrapper, SPAN);
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

/// A wrapper whose etcd has gone silent has calls that hang, and tries again and again.
#[test]
fn f11_a_frozen_etcd_costs_next_to_nothing() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    crate::scene::signal(wrapper.etcd_pid(), rustix::process::Signal::STOP);
    wrapper.wait_status(LONG, "silence", |status| status["leader"]["isLeader"] == false);
    is_idle(&wrapper, SPAN);
}

/// Resident memory in KiB by kind: `VmRSS`, `RssAnon`, ...
fn memory(pid: u32, kind: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The wrapper itself polls etcd fast; `probes` calls of each kind come from outside.
fn stays_as_it_is(probes: usize) {
    let scene = Scene::real("3.5").flag("--status-interval=10ms").flag("--readiness-interval=10ms");
    let wrapper = scene.start_ready();
    let pid = wrapper.pid();
    let round = |count: usize| {
        for n in 0..count {
            assert_eq!(wrapper.caller().get("/readyz").status, 200);
            match n % 100 {
                0 => drop(wrapper.caller().get("/metrics")),
                50 => drop(wrapper.status()),
                _ => {}
            }
        }
    };
    // Buffers and pools grow to their size first.
    round(1000);
    let (memory_before, open_before) = (memory(pid, "RssAnon"), descriptors(pid));
    round(probes);
    let grown = memory(pid, "RssAnon").saturating_sub(memory_before);
    assert!(grown < 1024, "{grown} KiB more after {probes} polls");
    // The last connections may be a moment from their end.
    wait::until(5 * SECOND, "descriptors as before", || {
        let open = descriptors(pid);
        Poll::when(open <= open_before, || format!("{open}, before {open_before}"))
    });
    let all = memory(pid, "VmRSS");
    eprintln!("anonymous {} KiB, all {all} KiB", memory(pid, "RssAnon"));
}

#[test]
fn j3_some_thousand_polls_leave_memory_and_descriptors_alone() {
    stays_as_it_is(3_000);
}

#[test]
fn soak_j3_a_hundred_thousand_polls_leave_memory_and_descriptors_alone() {
    stays_as_it_is(100_000);
}

/// The file's own pages are bigger in a debug build; what is allocated is the same.
#[track_caller]
fn is_small(pid: u32) {
    const LIMIT: u64 = 15 * 1024;
    let (all, own) = (memory(pid, "VmRSS"), memory(pid, "RssAnon"));
    if cfg!(debug_assertions) {
        assert!(own < LIMIT / 2, "{own} KiB of its own, {all} KiB in all");
    } else {
        assert!(all < LIMIT, "{all} KiB");
    }
    eprintln!("{own} KiB of its own, {all} KiB in all");
}

#[test]
fn f8_memory_is_small_after_a_start_and_some_polling() {
    let scene = Scene::real("3.5").flag("--status-interval=10ms").flag("--readiness-interval=10ms");
    let wrapper = scene.start_ready();
    wait_for(3 * SECOND);
    wrapper.status();
    is_small(wrapper.pid());
}

/// As many polls as in 24 hours at the default pace.
#[test]
fn soak_f8_memory_is_small_after_a_days_polling() {
    let scene = Scene::real("3.5").flag("--status-interval=10ms").flag("--readiness-interval=80ms");
    let wrapper = scene.start_ready();
    wait_for(Duration::from_secs(24 * 3600 / 25));
    is_small(wrapper.pid());
}

#[test]
fn soak_f11_a_serving_wrapper_uses_less_than_one_percent() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    is_idle(&wrapper, Duration::from_secs(600));
}
