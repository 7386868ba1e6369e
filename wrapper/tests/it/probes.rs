// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The probes of the real binary: every form of `/readyz`, and how fast they are answered while etcd is frozen.
use std::time::{Duration, Instant};

use doubles::etcd::{OnSignal, Script};
use doubles::sidecar::{Reply, Route};
use doubles::wait::{self, Poll};
use rstest::rstest;
use rustix::process::Signal;

use crate::http::Answer;
use crate::scene::{LONG, MEMBER, SECOND, Scene, Wrapper, signal};

const COUNTED: [&str; 6] = ["process", "draining", "override", "learner", "linearizable_read", "fresh"];
const SHOWN: [&str; 3] = ["nospace", "corrupt", "serializable_read"];

fn call(wrapper: &Wrapper<'_>, method: &str, path: &str, accept: Option<&str>) -> Answer {
    let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
    wrapper.caller().call(method, path, &headers, "")
}

#[track_caller]
fn names(answer: &Answer) -> Vec<String> {
    let document = answer.json();
    let checks = document["checks"].as_array().unwrap();
    checks.iter().map(|check| check["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn d7_d11_every_form_of_readyz_is_red_during_the_bootstrap() {
    let progress = Reply::text("Progress");
    let scene = Scene::real("3.5").with_sidecar(|setup| setup.always(Route::Status, progress));
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "initializing");
    for method in ["GET", "HEAD"] {
        let answer = call(&wrapper, method, "/readyz", None);
        assert_eq!((answer.status, answer.body.as_str()), (503, ""));
        assert_eq!(answer.header("etcd-wrapper-reason"), Some("process"));
        assert_eq!(answer.header("etcd-wrapper-phase"), Some("initializing"));
    }
    let verbose = call(&wrapper, "GET", "/readyz?verbose", None);
    assert_eq!(verbose.status, 503);
    let says = |text: &str| assert!(verbose.body.contains(text), "{text:?} in {}", verbose.body);
    says("[-]process failed: phase initializing, no etcd\n");
    says("[+]draining ok\n");
    says("readyz check failed\n");
    let json = call(&wrapper, "GET", "/readyz", Some("application/json"));
    assert_eq!((json.status, json.header("content-type")), (503, Some("application/json")));
    let document = json.json();
    assert_eq!((&document["ready"], &document["reason"]), (&false.into(), &"process".into()));
    assert_eq!(names(&json), [&COUNTED[..], &SHOWN[..]].concat());
    // One check alone, and all but some.
    let one = call(&wrapper, "GET", "/readyz/process", None);
    assert_eq!((one.status, one.header("etcd-wrapper-reason")), (503, Some("process")));
    assert_eq!(call(&wrapper, "GET", "/readyz/draining", None).status, 200);
    let rest = call(&wrapper, "GET", "/readyz?exclude=process&verbose", None);
    assert_eq!((rest.status, rest.header("etcd-wrapper-reason")), (503, Some("linearizable_read")));
    assert!(rest.body.contains("[+]process excluded: ok\n"), "{}", rest.body);
    assert_eq!(call(&wrapper, "GET", "/startupz", None).status, 503);
    assert_eq!(call(&wrapper, "HEAD", "/startupz", None).status, 503);
    assert_eq!(call(&wrapper, "GET", "/livez", None).status, 200, "the wrapper itself is fine");
}

/// The quickest of some starts: a start that is always slow shows, and a busy machine does not.
#[test]
fn d11_the_port_answers_within_200_ms_of_the_start() {
    let scene = Scene::real("3.5");
    let scene = scene.with_sidecar(|setup| setup.always(Route::Status, Reply::text("Progress")));
    let quickest = (0..5).map(|_| {
        let wrapper = scene.start();
        let answer =
            wait::until(SECOND * 5, "an answer", || Poll::from_option(wrapper.readyz(), String::new));
        assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("initializing")));
        wrapper.began.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < SECOND / 5, "{quickest:?}");
}

#[test]
fn d7_every_form_of_readyz_is_green_when_ready_and_red_again_while_stopping() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(2 * SECOND), ..Script::default() });
    let mut wrapper = scene.start_ready();
    for method in ["GET", "HEAD"] {
        let answer = call(&wrapper, method, "/readyz", None);
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
        assert_eq!(answer.header("etcd-wrapper-reason"), None);
        assert_eq!(answer.header("etcd-wrapper-phase"), None);
    }
    wrapper.wait_status(5 * SECOND, "a serializable read", |status| {
        let checks = status["readiness"]["checks"].as_array().unwrap();
        checks.iter().all(|check| check["ok"] == true)
    });
    let verbose = call(&wrapper, "GET", "/readyz?verbose", None);
    let listing: String =
        [&COUNTED[..], &SHOWN[..]].concat().iter().map(|name| format!("[+]{name} ok\n")).collect();
    assert_eq!((verbose.status, verbose.body), (200, format!("{listing}readyz check passed\n")));
    let json = call(&wrapper, "GET", "/readyz", Some("application/json"));
    assert_eq!((json.status, &json.json()["ready"], &json.json()["reason"]), (200, &true.into(), &().into()));
    for check in json.json()["checks"].as_array().unwrap() {
        let counted = COUNTED.contains(&check["name"].as_str().unwrap());
        assert_eq!(check["required"], counted, "{check}");
    }
    for name in COUNTED.iter().chain(&SHOWN) {
        let answer = call(&wrapper, "GET", &format!("/readyz/{name}"), None);
        assert_eq!(answer.status, 200, "{name}");
    }
    assert_eq!(call(&wrapper, "GET", "/readyz/nonsense", None).status, 404);
    let unknown = call(&wrapper, "GET", "/readyz?exclude=nonsense&verbose", None);
    assert!(
        unknown.status == 200 && unknown.body.contains("no matches for \"nonsense\""),
        "{}",
        unknown.body
    );
    for method in ["POST", "PUT", "DELETE"] {
        let answer = call(&wrapper, method, "/readyz", None);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")), "{:?}", answer.headers);
    }
    assert_eq!(call(&wrapper, "GET", "/startupz", None).status, 200);

    wrapper.terminate();
    let answer = wrapper.wait_readyz(SECOND, 503);
    assert_eq!(answer.header("etcd-wrapper-reason"), Some("process"));
    let phase = answer.header("etcd-wrapper-phase").unwrap();
    assert!(["stopping", "exiting"].contains(&phase), "{phase}");
    assert_eq!(call(&wrapper, "GET", "/readyz/draining", None).status, 503);
    assert_eq!(call(&wrapper, "GET", "/startupz", None).status, 200, "for good");
    assert_eq!(call(&wrapper, "GET", "/livez", None).status, 200);
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

/// A single member that says READY is ready for its users at once: `/readyz` has 5 s to follow.
#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d20_ready_within_5_s_of_etcds_own_readiness(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let wrapper = scene.start();
    wrapper.wait_log(LONG, "etcd says READY");
    let began = Instant::now();
    wrapper.wait_ready_within(5 * SECOND);
    // etcd's port is open to clients by now: that the wrapper takes no detour shows in well under the limit.
    assert!(began.elapsed() < 5 * SECOND);
}

/// Probes, each on a connection of its own: their status codes and times.
fn probe(wrapper: &Wrapper<'_>, count: usize) -> (Vec<u16>, Vec<Duration>) {
    (0..count)
        .map(|_| {
            let began = Instant::now();
            let answer = wrapper.readyz().expect("the port answers");
            (answer.status, began.elapsed())
        })
        .unzip()
}

#[test]
fn d8_d9_a_frozen_etcd_turns_probes_red_within_8_s_and_slows_none() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    signal(etcd, Signal::STOP);
    let mut times = Vec::new();
    wait::until(8 * SECOND, "/readyz 503", || {
        let (codes, took) = probe(&wrapper, 1);
        times.extend(took);
        Poll::when(codes == [503], || format!("{codes:?}"))
    });
    let (codes, took) = probe(&wrapper, 200);
    assert!(codes.iter().all(|code| *code == 503));
    times.extend(took);
    times.sort_unstable();
    // A few late ones are this machine's other work; a probe that asked etcd would be late each time.
    let (most, worst) = (times[times.len() * 95 / 100], times[times.len() - 1]);
    assert!(most < SECOND / 10 && worst < SECOND, "95 % within {most:?}, the worst {worst:?}");
    assert_eq!(wrapper.caller().get("/livez").status, 200);
    signal(etcd, Signal::CONT);
    wrapper.wait_readyz(5 * SECOND, 200);
    assert_eq!(wrapper.etcd_pid(), etcd, "no restart");
}

/// Spins until it is dropped.
struct Spinner(std::sync::Arc<std::sync::atomic::AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Spinner {
    fn start() -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn d10_a_thousand_probes_are_answered_in_time_beside_a_hung_etcd_and_a_busy_cpu() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    signal(wrapper.etcd_pid(), Signal::STOP);
    let _busy = Spinner::start();
    for n in 0..1000 {
        let (_, took) = probe(&wrapper, 1);
        assert!(took[0] < SECOND, "probe {n} took {:?}", took[0]);
    }
}

/// Many more polls than in ten minutes at the default pace, over TLS, with a freeze in between.
#[rstest]
#[case("3.5")]
#[case("3.7")]
fn d17_polling_makes_no_noise_and_needs_two_connections(#[case] line: &'static str) {
    let dir = tempfile::tempdir().unwrap();
    let pki = doubles::pki::PodPki::write(dir.path(), &[&format!("{MEMBER}-local")]).unwrap();
    let scene = Scene::of(&crate::scene::Etcd::Real(line)).with_pki(&pki);
    let scene = scene.flag("--status-interval=10ms").flag("--readiness-interval=10ms");
    let config = scene
        .config()
        .with("listen-client-urls", scene.client_url())
        .with("advertise-client-urls", serde_json::json!({MEMBER: [scene.client_url()]}))
        .with("client-transport-security", crate::scene::client_tls(&pki));
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let mut ports = std::collections::BTreeSet::new();
    let began = Instant::now();
    let look = |ports: &mut std::collections::BTreeSet<u16>| {
        ports.extend(connections_to(scene.client_port(), wrapper.pid()));
        Poll::when(began.elapsed() > 3 * SECOND, || "polling".into())
    };
    wait::until(LONG, "some hundred polls", || look(&mut ports));
    signal(etcd, Signal::STOP);
    wrapper.wait_status(5 * SECOND, "a poll that failed", |status| {
        look(&mut ports);
        status["leader"]["isLeader"] == false
    });
    signal(etcd, Signal::CONT);
    wrapper.wait_readyz(10 * SECOND, 200);
    wrapper.wait_status(5 * SECOND, "leading", |status| {
        look(&mut ports);
        status["leader"]["isLeader"] == true
    });
    assert!(!ports.is_empty() && ports.len() <= 2, "source ports {ports:?}");
    let log = wrapper.log();
    let noise: Vec<_> = log.lines().filter(|line| line.contains("rejected connection")).collect();
    assert!(noise.is_empty(), "{noise:#?}");
}

/// Local ports of this process's established connections to a port of 127.0.0.1.
fn connections_to(port: u16, pid: u32) -> Vec<u16> {
    let sockets: std::collections::BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| {
            let link = std::fs::read_link(entry.ok()?.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let hex = |field: &str| u16::from_str_radix(field.rsplit(':').next().unwrap(), 16).unwrap();
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let ours = hex(fields[2]) == port && fields[3] == "01" && sockets.contains(fields[9]);
            ours.then(|| hex(fields[1]))
        })
        .collect()
}
