// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double over real sockets, with a client that hides nothing. Speaks of the double only, not of the wrapper.
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::*;
use crate::pki::{Authority, Leaf};

const LIMIT: Duration = Duration::from_secs(10);

fn double() -> Setup {
    Sidecar::faithful(ConfigMap::single("etcd-0", Path::new("/data"), 2379, 2380), "etcd-0")
}

/// Sends a request that closes, and returns every byte that comes back.
fn raw(addr: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = open(addr, path);
    let mut all = String::new();
    stream.read_to_string(&mut all)?;
    Ok(all)
}

fn open(addr: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn status(sidecar: &Sidecar) -> String {
    body(&raw(sidecar.addr(), "/initialization/status").unwrap()).to_owned()
}

fn wait_for_status(sidecar: &Sidecar, wanted: Status) {
    wait::until(LIMIT, "the status word", || {
        Poll::when(sidecar.status() == wanted, || format!("{:?}", sidecar.status()))
    });
}

#[test]
fn reading_a_final_status_resets_it() {
    for last in [Status::Successful, Status::Failed] {
        let sidecar = double().initial_status(last).start().unwrap();
        assert_eq!([status(&sidecar), status(&sidecar)], [last.as_str(), "New"]);
    }
    let sidecar = double().initial_status(Status::Progress).start().unwrap();
    assert_eq!([status(&sidecar), status(&sidecar)], ["Progress", "Progress"]);
}

#[test]
fn a_start_counts_only_when_new_and_always_says_yes() {
    let sidecar = double().initial_status(Status::Failed).start().unwrap();
    let answer = raw(sidecar.addr(), "/initialization/start?mode=full").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(sidecar.status(), Status::Failed, "nothing was started");
    assert_eq!(status(&sidecar), "Failed");
    raw(sidecar.addr(), "/initialization/start?mode=sanity").unwrap();
    wait_for_status(&sidecar, Status::Successful);
    assert_eq!(sidecar.modes(), ["full", "sanity"]);
}

#[test]
fn outcomes_are_used_up_and_then_all_is_well() {
    let sidecar = double().outcomes(&[Status::Failed]).start().unwrap();
    for wanted in [Status::Failed, Status::Successful, Status::Successful] {
        raw(sidecar.addr(), "/initialization/start?mode=full").unwrap();
        wait_for_status(&sidecar, wanted);
        assert_eq!(status(&sidecar), wanted.as_str());
    }
}

/// Fails once, notes the modes, and serves a config of its own.
#[derive(Debug, Default)]
struct Living(std::sync::Mutex<Vec<Mode>>);

impl Backing for Living {
    fn initialize(&self, mode: Mode) -> Work<()> {
        let mut modes = self.0.lock().unwrap();
        modes.push(mode);
        let first = modes.len() == 1;
        Box::pin(async move { if first { anyhow::bail!("the first fails") } else { Ok(()) } })
    }

    fn config(&self) -> Work<String> {
        Box::pin(async { Ok("name: alive".into()) })
    }
}

#[test]
fn what_stands_behind_a_double_is_asked_unless_a_script_answers() {
    let living = std::sync::Arc::new(Living::default());
    let backing = std::sync::Arc::clone(&living);
    let sidecar = Sidecar::scripted(Script::default()).backed_by(backing).start().unwrap();
    for (mode, wanted) in
        [("full", Status::Failed), ("sanity", Status::Successful), ("odd", Status::Successful)]
    {
        raw(sidecar.addr(), &format!("/initialization/start?mode={mode}")).unwrap();
        wait_for_status(&sidecar, wanted);
        assert_eq!(status(&sidecar), wanted.as_str());
    }
    assert_eq!(*living.0.lock().unwrap(), [Mode::Full, Mode::Sanity, Mode::Full]);
    sidecar.set_outcomes(&[Status::Failed]);
    raw(sidecar.addr(), "/initialization/start?mode=full").unwrap();
    wait_for_status(&sidecar, Status::Failed);
    assert_eq!(living.0.lock().unwrap().len(), 3, "the script's outcome goes before");
    assert_eq!(body(&raw(sidecar.addr(), "/config").unwrap()), "name: alive");
}

#[test]
fn a_validation_holds_the_database_lock() {
    let folder = tempfile::tempdir().unwrap();
    let snap = folder.path().join("member/snap");
    std::fs::create_dir_all(&snap).unwrap();
    let db = File::create(snap.join("db")).unwrap();
    let sidecar = double().data_dir(folder.path()).validation_time(Duration::from_secs(60)).start().unwrap();
    raw(sidecar.addr(), "/initialization/start?mode=full").unwrap();
    wait::until(LIMIT, "the validator's lock", || {
        let free = rustix::fs::flock(&db, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free {
            rustix::fs::flock(&db, FlockOperation::Unlock).unwrap();
        }
        Poll::when(!free, || "the lock can be had".into())
    });
}

#[test]
fn an_etcd_under_a_validation_is_noticed_and_fails_it() {
    let folder = tempfile::tempdir().unwrap();
    let snap = folder.path().join("member/snap");
    std::fs::create_dir_all(&snap).unwrap();
    let db = File::create(snap.join("db")).unwrap();
    rustix::fs::flock(&db, FlockOperation::LockExclusive).unwrap();
    let script = Script { lock_limit: Span(Duration::from_millis(100)), ..Script::default() };
    let sidecar = double().script(script).data_dir(folder.path()).start().unwrap();
    raw(sidecar.addr(), "/initialization/start?mode=full").unwrap();
    wait_for_status(&sidecar, Status::Failed);
    assert_eq!(sidecar.lock_clashes().len(), 1);
}

#[test]
fn a_config_call_beside_another_gets_a_cut_body_with_a_matching_length() {
    let sidecar = double().config_delay(Duration::from_millis(400)).start().unwrap();
    let mut first = open(sidecar.addr(), "/config");
    sidecar.wait_for_call(Route::Config, 1, LIMIT);
    let mut seconds: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let others: Vec<_> =
            (0..2).map(|_| scope.spawn(|| raw(sidecar.addr(), "/config").unwrap())).collect();
        seconds.extend(others.into_iter().map(|other| other.join().unwrap()));
    });
    let mut whole = String::new();
    first.read_to_string(&mut whole).unwrap();
    let lengths: Vec<usize> = seconds.iter().map(|answer| body(answer).len()).collect();
    for answer in &seconds {
        assert!(answer.contains(&format!("Content-Length: {}\r\n", body(answer).len())), "{answer}");
        assert!(body(&whole).starts_with(body(answer)) && body(&whole).len() > body(answer).len());
    }
    assert!(lengths.contains(&0), "the first to come beside another finds an empty file: {lengths:?}");
    assert_ne!(lengths[0], lengths[1]);
    assert!(sidecar.max_in_flight() >= 2);
}

#[test]
fn a_config_run_goes_on_after_its_caller_left() {
    let sidecar = double().config_delay(Duration::from_secs(60)).start().unwrap();
    drop(open(sidecar.addr(), "/config"));
    let call = sidecar.wait_for_end(Route::Config, 1, LIMIT);
    assert_eq!(call.reply, Sent::CallerLeft);
    let _second = open(sidecar.addr(), "/config");
    sidecar.wait_for_call(Route::Config, 2, LIMIT);
    assert_eq!(sidecar.max_in_flight(), 1, "a call that was given up is not in flight any more");
}

#[test]
fn a_lost_reply_may_have_had_its_effect_or_not() {
    for effect in [true, false] {
        let lost = Reply::faithful().end(End::AfterHead).effect(effect);
        let sidecar = double().initial_status(Status::Successful).reply(Route::Status, lost).start().unwrap();
        let answer = raw(sidecar.addr(), "/initialization/status").unwrap();
        assert!(answer.contains("Content-Length: 10\r\n"), "{answer}");
        assert_eq!(body(&answer), "");
        assert_eq!(status(&sidecar), if effect { "New" } else { "Successful" });
    }
}

#[test]
fn broken_replies_are_broken_as_asked() {
    let script = Script::default()
        .reply(Route::Status, Reply::reset())
        .reply(Route::Status, Reply::garbage("SSH-2.0-nope\r\n"))
        .reply(Route::Status, Reply::faithful().end(End::BeforeHead))
        .reply(Route::Status, Reply::text("Successful").end(End::Short(4)))
        .reply(Route::Status, Reply::text("<html>").times(2))
        .reply(Route::Status, Reply::filled(300_000).chunked(7, Duration::from_millis(30)));
    let sidecar = Sidecar::scripted(script).start().unwrap();
    let ask = || raw(sidecar.addr(), "/initialization/status");
    assert_eq!(ask().unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(ask().unwrap(), "SSH-2.0-nope\r\n");
    assert_eq!(ask().unwrap(), "");
    let short = ask().unwrap();
    assert!(short.contains("Content-Length: 10\r\n") && body(&short) == "Succes", "{short}");
    assert_eq!([body(&ask().unwrap()), body(&ask().unwrap())], ["<html>", "<html>"]);
    let chunked = ask().unwrap();
    assert_eq!(body(&chunked).matches('x').count(), 300_000);
    assert_eq!(body(&chunked).matches("\r\nx").count(), 7, "seven pieces");
    assert!(chunked.ends_with("\r\n0\r\n\r\n"));
    assert_eq!(body(&ask().unwrap()), "New", "the queue is used up");
    let sent: Vec<Sent> = sidecar.log().into_iter().map(|call| call.reply).take(4).collect();
    assert_eq!(sent, [Sent::Reset, Sent::Garbage, Sent::Closed, Sent::Cut(200)]);
}

#[test]
fn a_body_can_be_late_and_a_call_without_answer_stays_open() {
    let late =
        Reply::text("Progress").before_head(Duration::from_millis(50)).before_body(Duration::from_millis(50));
    let sidecar =
        Sidecar::scripted(Script::default()).reply(Route::Status, late).reply(Route::Status, Reply::never());
    let sidecar = sidecar.start().unwrap();
    let begun = Instant::now();
    assert_eq!(status(&sidecar), "Progress");
    assert!(begun.elapsed() >= Duration::from_millis(100));
    let waiting = open(sidecar.addr(), "/initialization/status");
    assert_eq!(sidecar.wait_for_call(Route::Status, 2, LIMIT).ended, None);
    drop(waiting);
    assert_eq!(sidecar.wait_for_end(Route::Status, 2, LIMIT).reply, Sent::CallerLeft);
}

#[test]
fn a_stopped_double_refuses_and_comes_back_new_on_its_port() {
    let mut sidecar = double().initial_status(Status::New).start().unwrap();
    sidecar.set_status(Status::Progress);
    let addr = sidecar.addr();
    sidecar.stop();
    assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    sidecar.restart().unwrap();
    assert_eq!(sidecar.addr(), addr);
    assert_eq!(status(&sidecar), "New");
}

#[test]
fn a_reserved_double_refuses_until_it_is_started() {
    let mut sidecar = double().listen("[::1]:0".parse().unwrap()).reserve().unwrap();
    assert_eq!(TcpStream::connect(sidecar.addr()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    sidecar.restart().unwrap();
    assert_eq!(status(&sidecar), "New");
}

#[test]
fn control_routes_steer_the_double_and_stay_out_of_the_book() {
    let sidecar = double().with_control().start().unwrap();
    let mut stream = TcpStream::connect(sidecar.addr()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let fault = "{code: 500, body: broken}";
    write!(
        stream,
        "POST /double/fault?route=status HTTP/1.1\r\nContent-Length: {}\r\n\r\n{fault}\
         PUT /double/status HTTP/1.1\r\nContent-Length: 6\r\nConnection: close\r\n\r\nFailed",
        fault.len()
    )
    .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    assert_eq!([status(&sidecar), status(&sidecar)], ["broken", "Failed"]);
    let book = raw(sidecar.addr(), "/double/calls").unwrap();
    let book: serde_json::Value = serde_json::from_str(body(&book)).unwrap();
    assert_eq!(book["calls"].as_array().map(Vec::len), Some(2));
    assert_eq!(book["calls"][0]["reply"]["whole"]["code"], 500);
}

#[test]
fn a_fault_can_be_put_on_all_routes_at_once() {
    let sidecar = double().with_control().start().unwrap();
    let put = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(sidecar.addr()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    put("PUT", "/double/fault?route=all", "{code: 500}");
    for path in ["/initialization/status", "/initialization/start", "/config", "/healthz", "/nowhere"] {
        assert!(raw(sidecar.addr(), path).unwrap().starts_with("HTTP/1.1 500"), "{path}");
    }
    put("DELETE", "/double/fault", "");
    assert_eq!(status(&sidecar), "New");
}

/// Asks over TLS, trusting `ca`; the sidecar's own stop call is the client at hand.
fn tls_works(sidecar: &Sidecar, ca: &Authority) -> bool {
    StopCall::tls(sidecar.addr().port(), ca.cert_pem()).send().is_ok_and(|code| code == Some(404))
}

#[test]
fn certificates_are_swapped_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let pair = old.sign(&Leaf::server(&["127.0.0.1"]));
    let sidecar = double().tls(&pair.cert_pem, &pair.key_pem).start().unwrap();
    assert!(tls_works(&sidecar, &old) && !tls_works(&sidecar, &new));
    let pair = new.sign(&Leaf::server(&["127.0.0.1"]));
    sidecar.swap_certificates(&pair.cert_pem, &pair.key_pem).unwrap();
    assert!(!tls_works(&sidecar, &old) && tls_works(&sidecar, &new));
}

#[test]
fn certificate_files_are_read_again_and_a_bad_pair_keeps_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = old.sign(&Leaf::server(&["127.0.0.1"])).write(folder.path()).unwrap();
    let sidecar = double().tls_files(&files.cert, &files.key).start().unwrap();
    let pair = new.sign(&Leaf::server(&["127.0.0.1"]));
    crate::pki::swap(&files.cert, &pair.cert_pem).unwrap();
    assert!(tls_works(&sidecar, &old), "the key does not match yet");
    crate::pki::swap(&files.key, &pair.key_pem).unwrap();
    assert!(tls_works(&sidecar, &new));
    assert!(!tls_works(&sidecar, &old));
}

#[test]
fn a_stop_call_posts_and_may_hang_up_at_once() {
    let wrapper = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = wrapper.local_addr().unwrap().port();
    assert_eq!(StopCall::plain(port).hanging_up().send().unwrap(), None);
    let mut request = String::new();
    wrapper.accept().unwrap().0.read_to_string(&mut request).unwrap();
    assert!(request.starts_with("POST /stop HTTP/1.1\r\n"), "{request}");
}
