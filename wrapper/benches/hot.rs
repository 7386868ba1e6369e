// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The hot paths of the wrapper: what a probe, a status and a scrape cost on a real connection, what a life costs the
//! machine, and what an event costs with all streams open. See the crate `micro` for how they are counted.
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use etcd_wrapper::api::auth::{ClientIdentity, Policy};
use etcd_wrapper::api::events::frame::{Frame, event};
use etcd_wrapper::api::events::ring::Ring;
use etcd_wrapper::api::events::{Topic, Topics};
use etcd_wrapper::api::listener::{Limits, ServerTls, TlsNow, bind, serve};
use etcd_wrapper::api::publisher::Publisher;
use etcd_wrapper::api::{Api, Settings, Views};
use etcd_wrapper::config::EtcdConfig;
use etcd_wrapper::member::view::{Leadership, MemberView, Probe, Source};
use etcd_wrapper::metrics::Metrics;
use etcd_wrapper::supervise::command::Shutdown;
use etcd_wrapper::supervise::state::{
    Call, Done, Effect, Event, Found, Job, Plan, Reply, Rules, Settings as Rulebook, Sig, State, step,
};
use etcd_wrapper::supervise::view::{
    BootstrapState, BootstrapView, ChildView, ConfigSource, CoreView, ExitStatus, Intent, Phase, SidecarWord,
};
use etcd_wrapper::tls::TlsView;
use micro::{Case, Work};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

const CASES: [Case; 5] = [
    Case { name: "probe", set_up: || page("/readyz"), warm: 100 },
    Case { name: "status", set_up: || page("/v1/status"), warm: 100 },
    Case { name: "metrics", set_up: || page("/metrics"), warm: 100 },
    Case { name: "life", set_up: life, warm: 10 },
    // Past the ring's room, so that every event takes another's place.
    Case { name: "event", set_up: fan_out, warm: 2_000 },
];

fn main() -> ExitCode {
    micro::main(&CASES)
}

const CONFIG: &[u8] = b"name: etcd-main-0\ndata-dir: /var/etcd/data/new.etcd\n\
    initial-cluster: etcd-main-0=http://127.0.0.1:2380\nlisten-client-urls: http://127.0.0.1:2379\n";

/// A member that runs, is ready, and leads.
fn views() -> (CoreView, MemberView) {
    let now = SystemTime::now();
    let config = EtcdConfig::parse(Bytes::from_static(CONFIG)).expect("a config that etcd would take");
    let child = ChildView {
        generation: 1,
        pid: 19,
        started_at: now,
        ready_since: Some(now),
        config: Arc::new(config),
        source: ConfigSource::Sidecar,
    };
    let bootstrap = BootstrapView {
        state: BootstrapState::Initializing,
        validation: None,
        rounds: 0,
        word: None,
        since: now,
        last_error: None,
    };
    let core = CoreView {
        epoch: "3f9a1c".into(),
        started_at: now,
        intent: Intent::Up,
        phase: Phase::Running,
        phase_since: now,
        draining: false,
        hold_reason: None,
        generation: 1,
        etcd_version: Some("3.5.35".into()),
        child: Some(child),
        last_exit: None,
        bootstrap,
        override_: None,
        operations: Arc::default(),
        ready_once: true,
        warnings: Vec::new(),
        data_dir: None,
        ticked: Instant::now(),
    };
    // So young that it is fresh however long this runs under an instruction counter.
    let ahead = Instant::now() + Duration::from_secs(3600);
    let probe = Probe { ok: true, at: ahead, at_wall: now, last_success: Some(ahead), detail: "3 ms".into() };
    let leadership = Leadership {
        member_id: Some(1),
        leader_id: Some(1),
        has_leader: true,
        is_leader: true,
        is_learner: Some(false),
        term: Some(4),
        source: Source::Status,
        since: now,
    };
    let member = MemberView {
        generation: Some(1),
        confirmed: true,
        linearizable_read: Some(probe.clone()),
        learner: Some(false),
        serializable_read: Some(probe.clone()),
        status: Some(probe),
        leadership: Some(leadership),
        ..MemberView::default()
    };
    (core, member)
}

/// One page, asked for again and again on one connection to the real listener.
fn page(path: &'static str) -> Work {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut stream, kept) = runtime.block_on(async {
        let (address, kept) = served();
        (TcpStream::connect(address).await.expect("the port is open"), kept)
    });
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut buffer = vec![0; 64 * 1024];
    Box::new(move |count| {
        // Moved in as a whole: what the server reads from must outlive it.
        let _kept = &kept;
        runtime.block_on(async {
            for _ in 0..count {
                stream.write_all(request.as_bytes()).await.expect("the server reads");
                read_answer(&mut stream, &mut buffer).await;
            }
        });
    })
}

/// Reads one answer, whose length its head tells; allocates nothing.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut end = 0;
    loop {
        let read = stream.read(&mut buffer[end..]).await.expect("the server answers");
        assert!(read > 0, "the connection was closed");
        end += read;
        let Some(head) = buffer[..end].windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..end]));
        if end >= head + 4 + content_length(&buffer[..head]) {
            return;
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let lines = head.split(|byte| *byte == b'\n');
    let value = lines.filter_map(|line| line.strip_prefix(b"content-length: ")).next().unwrap_or(b"0");
    value
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}

/// Serves on a port of its own; the other ends of all channels have to be kept.
fn served() -> (SocketAddr, impl Send) {
    let (core, member) = views();
    let (core, core_seen) = watch::channel(core);
    let (member, member_seen) = watch::channel(Arc::new(member));
    let (tls, tls_seen) = watch::channel(TlsView::default());
    let (sender, commands) = mpsc::channel(8);
    let (closing, closes) = watch::channel(false);
    let plain = ServerTls {
        offer: Arc::new(|| None),
        etcd_certificate: false,
        trust_not_loaded: false,
        classify: Arc::new(|_| ClientIdentity::Unverified),
    };
    let tls_now: Arc<TlsNow> = Arc::new(move || plain.clone());
    let views = Views { core: core_seen, member: member_seen, tls: tls_seen };
    let metrics = Metrics::new();
    let (publisher, published) = Publisher::new(views.clone(), metrics.clone(), watch::channel(None).1);
    tokio::spawn(publisher.run());
    let policy = Policy { control_loopback: true, control_identities: Vec::new(), allow_remote_stop: false };
    let settings = Settings { policy, host_names: Vec::new(), revision: None };
    let api = Arc::new(Api::new(settings, views, published, sender, metrics, closes.clone()));
    let listener = bind(Some(Ipv4Addr::LOCALHOST.into()), 0).expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(serve(listener, api, tls_now, closes, Limits::of_this_process()));
    (address, (core, member, tls, commands, closing))
}

/// The machine from the first event to its exit, everything going well.
fn life() -> Work {
    let rulebook = Rulebook {
        sidecar: true,
        hold: false,
        restart_on_exit: false,
        marker_on_stop: true,
        grace: Duration::from_secs(25),
        ready_timeout: None,
        rules: Rules::default(),
    };
    let plan = Plan {
        digest: "sha256:00".into(),
        data_dir: Path::new("/var/etcd/data/new.etcd").into(),
        fsync: true,
        force_new_cluster: false,
        source: ConfigSource::Sidecar,
    };
    Box::new(move |count| {
        for _ in 0..count {
            live(State::new(rulebook.clone(), Found { clean_marker: false, hold: None }), &plan);
        }
    })
}

fn live(mut state: State, plan: &Plan) {
    let mut validated = false;
    let mut events = VecDeque::from([Event::Begin]);
    while let Some(event) = events.pop_front() {
        let (next, effects) = step(state, event);
        state = next;
        for effect in effects {
            match effect {
                Effect::Call(call) => events.push_back(Event::Sidecar(match call {
                    Call::Start(_) => {
                        validated = true;
                        Reply::Started
                    }
                    Call::Config { .. } => Reply::Config(plan.clone()),
                    Call::Status if validated => {
                        validated = false;
                        Reply::Word(SidecarWord::Successful)
                    }
                    Call::Status | Call::Check | Call::Watch => Reply::Word(SidecarWord::New),
                })),
                Effect::Disk(job) => events.push_back(Event::Disk(done(&job, plan))),
                Effect::Spawn(_) => {
                    events.push_front(Event::Spawned);
                    events.extend([Event::Ready, Event::Confirmed, Event::Shutdown(Shutdown::Terminate)]);
                }
                Effect::Signal(Sig::Term) => {
                    events.push_back(Event::ChildExited {
                        status: ExitStatus::Signaled(15),
                        recent_crashes: 0,
                    });
                }
                Effect::Arm(timer, after) if after < Duration::from_secs(1) => {
                    events.push_back(Event::Timer(timer));
                }
                Effect::Exit(exit) => {
                    assert_eq!(exit.code, 0, "{exit:?}");
                    return;
                }
                _ => {}
            }
        }
    }
    panic!("the machine stands still at {state:?}");
}

fn done(job: &Job, plan: &Plan) -> Done {
    match job {
        Job::ConsumeMarker => Done::MarkerConsumed(Ok(())),
        Job::WriteMarker(_) => Done::MarkerWritten,
        Job::WriteHold(_) => Done::HoldWritten(Ok(())),
        Job::RemoveHold => Done::HoldRemoved(Ok(())),
        Job::ReadFile => Done::FileRead(Ok(plan.clone())),
        Job::Inspect(_) => Done::Inspected(Ok(())),
        Job::Prepare(_) => Done::Prepared(Ok(())),
        Job::Lock(_) => Done::Locked(Ok(true)),
        Job::ProbeLocks => Done::Probed(false),
    }
}

/// One event into the ring, and what each of 32 streams then finds.
fn fan_out() -> Work {
    const STREAMS: usize = 32;
    let now = SystemTime::now();
    let mut ring = Ring::new(1);
    let mut positions = [1; STREAMS];
    Box::new(move |count| {
        for _ in 0..count {
            let index = ring.last() + 1;
            let frame = Frame::new(&event("3f9a1c", index, "readiness", now));
            ring.append(Topic::Readiness, 0, index, frame);
            for position in &mut positions {
                let entry = ring.after(*position, Topics::ALL).expect("an event that came just now");
                *position = entry.index;
                std::hint::black_box(entry.frame.message());
            }
        }
    })
}
