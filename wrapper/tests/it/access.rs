// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who may do what at port 9095: every row of the table of roles, from real addresses of this machine, by both schemes,
//! with and without client certificates.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use doubles::etcd::Script;
use doubles::pki::{Authority, Leaf, Pair};
use rstest::rstest;

use crate::http::{Answer, Caller};
use crate::scene::{LONG, MEMBER, Scene, Sides};

/// Has no rights of its own: proxies in a pod deliver strangers' requests from there.
const OTHER_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// An address of this machine that is not loopback: what comes from it is a stranger's.
fn outside() -> IpAddr {
    // No packet leaves: connecting a datagram socket only looks the route up.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let routed = socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr());
    let routed = routed.ok().map(|address| address.ip());
    // Without a route there may be an address all the same; the kernel lists each as `|-- ADDRESS` before `host LOCAL`.
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let lines: Vec<&str> = table.lines().collect();
    let local = lines.windows(2).filter(|pair| pair[1].contains("host LOCAL")).filter_map(|pair| {
        pair[0].trim().trim_start_matches("|-- ").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    });
    let own = routed.into_iter().chain(local).find(|address| !address.is_loopback());
    own.expect("this machine has no address but loopback's: run `ip address add 192.0.2.2/32 dev lo` as root")
}

/// The host of an advertise URL.
const ADVERTISED: &str = "etcd-main-0.etcd-main-peer.shoot.svc";

/// One kind of request: method and path.
type Call = (&'static str, &'static str);
const PROBES: [Call; 4] = [("GET", "/readyz"), ("HEAD", "/readyz"), ("GET", "/livez"), ("GET", "/startupz")];
const OPEN: [Call; 2] = [("GET", "/metrics"), ("GET", "/v1/version")];
const READ: [Call; 3] = [("GET", "/v1/status"), ("GET", "/v1/leader"), ("GET", "/v1/readiness")];
/// Further calls with their bodies, and what an admitted caller is told: all of them come to nothing.
const READ_MORE: [(Call, &str, &str); 3] = [
    (("GET", "/v1/operations/op-99"), "", "404 not_found"),
    (("POST", "/v1/config/validate"), "", "400 bad_request"),
    (("GET", "/v1/leader?confirm=maybe"), "", "422 invalid_value"),
];
const CONTROL_MORE: [(Call, &str, &str); 6] = [
    (("POST", "/v1/etcd/stop"), r#"{"ifGeneration":99}"#, "412 generation_mismatch"),
    (("POST", "/v1/etcd/restart"), r#"{"ifGeneration":99}"#, "412 generation_mismatch"),
    (("POST", "/v1/etcd/transfer-leadership?wat=1s"), "", "400 unknown_field"),
    (("POST", "/v1/etcd/start"), "name: a", "422 config_invalid"),
    (("PUT", "/v1/readiness"), "{}", "422 invalid_value"),
    (("DELETE", "/v1/readiness"), "", "200"),
];
const START: Call = ("POST", "/v1/etcd/start");
const STOP: Call = ("POST", "/stop");

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Probe,
    Open,
    Read,
    Control,
}

/// The status, with the problem's code where there is one.
fn told(answer: &Answer) -> String {
    let code = serde_json::from_str::<serde_json::Value>(&answer.body).unwrap_or_default();
    format!("{} {}", answer.status, code["code"].as_str().unwrap_or_default()).trim().to_owned()
}

/// Checks every call of a caller but an admitted `/stop`, which would end the test.
#[track_caller]
fn check(who: &str, caller: &Caller, headers: &[(&str, &str)], role: Role, refusal: &str) {
    let call = |(method, path): Call| told(&caller.call(method, path, headers, ""));
    for probe in PROBES {
        assert_eq!(call(probe), "200", "{who}: {probe:?}");
    }
    let wanted = |needed: Role| if role >= needed { "200" } else { refusal };
    for open in OPEN {
        assert_eq!(call(open), wanted(Role::Open), "{who}: {open:?}");
    }
    for read in READ {
        assert_eq!(call(read), wanted(Role::Read), "{who}: {read:?}");
    }
    assert_eq!(call(START), wanted(Role::Control), "{who}: {START:?}");
    for (needed, more) in [(Role::Read, &READ_MORE[..]), (Role::Control, &CONTROL_MORE)] {
        for ((method, path), body, admitted) in more {
            let wanted = if role >= needed { admitted } else { refusal };
            assert_eq!(told(&caller.call(method, path, headers, body)), wanted, "{who}: {method} {path}");
        }
    }
    if role < Role::Control {
        assert_eq!(call(STOP), refusal, "{who}: {STOP:?}");
    }
}

#[rstest]
#[case::forwarded("Forwarded", "for=203.0.113.7")]
#[case::x_forwarded_for("X-Forwarded-For", "203.0.113.7")]
#[case::x_forwarded_whatever("X-Forwarded-Prefix", "/")]
#[case::via("Via", "1.1 proxy")]
fn j1_a_forwarded_request_from_loopback_is_a_strangers(#[case] name: &str, #[case] value: &str) {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    check(name, &wrapper.caller(), &[(name, value)], Role::Open, "403 forbidden");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn j1_without_tls_read_and_control_belong_to_the_pod_itself() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    check("loopback", &wrapper.caller(), &[], Role::Control, "");
    for address in [OTHER_LOOPBACK, outside()] {
        check(&address.to_string(), &wrapper.caller().from(address), &[], Role::Open, "403 forbidden");
    }
    let tls = wrapper.caller().tls();
    check("loopback, TLS", &tls, &[], Role::Probe, "403 no_server_certificate");
    check("outside, TLS", &tls.from(outside()), &[], Role::Probe, "403 no_server_certificate");
    // A certificate is worth nothing where none can be verified.
    let pair = Authority::new("any").sign(&Leaf::client("root"));
    let shown = wrapper.caller().showing(&pair.cert_pem, &pair.key_pem).from(outside());
    check("outside, a certificate", &shown, &[], Role::Probe, "403 no_server_certificate");
    assert_eq!(told(&wrapper.caller().post("/stop")), "200");
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

#[test]
fn j1_with_tls_a_verified_certificate_reads_and_the_pod_itself_controls() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT);
    let mut wrapper = scene.start_ready();
    let plain = wrapper.caller();
    check("loopback, plain", &plain, &[], Role::Probe, "403 tls_required");
    check("outside, plain", &plain.clone().from(outside()), &[], Role::Probe, "403 tls_required");

    check("loopback", &plain.clone().tls(), &[], Role::Control, "");
    let forwarded = [("X-Forwarded-For", "203.0.113.7")];
    check("forwarded", &plain.clone().tls(), &forwarded, Role::Open, "401 certificate_required");
    for address in [OTHER_LOOPBACK, outside()] {
        let caller = plain.clone().tls().from(address);
        check(&address.to_string(), &caller, &[], Role::Open, "401 certificate_required");
    }

    let ca = &scene.pki().client_ca;
    let stranger = |pair: &Pair| plain.clone().showing(&pair.cert_pem, &pair.key_pem).from(outside());
    let good = stranger(&ca.sign(&Leaf::client("somebody")));
    check("verified", &good, &[], Role::Read, "403 forbidden");
    check("verified, by a proxy", &good, &forwarded, Role::Read, "403 forbidden");
    let useless = [
        ("another CA's", Authority::new("client-ca").sign(&Leaf::client("somebody"))),
        ("the sidecar's CA's", scene.pki().sidecar_ca.sign(&Leaf::client("somebody"))),
        ("expired", ca.sign(&Leaf::client("somebody").expired())),
        ("a server's", ca.sign(&Leaf::server(&["localhost"]))),
    ];
    for (what, pair) in &useless {
        check(what, &stranger(pair), &[], Role::Open, "401 certificate_required");
        // From the pod itself it does no harm.
        let inside = plain.clone().showing(&pair.cert_pem, &pair.key_pem);
        check(what, &inside, &[], Role::Control, "");
    }
    assert_eq!(told(&plain.tls().post("/stop")), "200", "the sidecar has no certificate");
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(Sides::CLIENT)]
fn j1_browsers_and_foreign_host_names_control_nothing(#[case] sides: Sides) {
    let scene = Scene::scripted(Script::default()).with_tls(sides);
    let advertised = serde_json::json!({MEMBER: [format!("http://{ADVERTISED}:2379")]});
    let config = scene.config().with("advertise-client-urls", advertised);
    let scene = scene.with_config(config);
    let mut wrapper = scene.start_ready();
    let caller = if sides.client { wrapper.caller().tls() } else { wrapper.caller() };
    let told = |(method, path): Call, headers: &[(&str, &str)]| told(&caller.call(method, path, headers, ""));
    let bad: [&[(&str, &str)]; 5] = [
        &[("origin", "http://localhost:9095")],
        &[("origin", "null")],
        &[("host", "evil.example")],
        &[("host", "localhost.evil.example:9095")],
        &[("host", "")],
    ];
    for headers in bad {
        assert_eq!(told(START, headers), "403 forbidden", "{headers:?}");
        assert_eq!(told(STOP, headers), "403 forbidden", "{headers:?}");
        for (call, _, _) in CONTROL_MORE {
            assert_eq!(told(call, headers), "403 forbidden", "{headers:?} {call:?}");
        }
        assert_eq!(told(READ[0], headers), "200", "{headers:?}: reading is no control");
        assert_eq!(told(PROBES[0], headers), "200", "{headers:?}");
    }
    let own = format!("{MEMBER}-local:9095");
    let pod = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names =
        ["localhost", "LocalHost:9095", "127.0.0.1", "[::1]:9095", "203.0.113.7", &own, &pod, ADVERTISED];
    for host in names {
        assert_eq!(told(START, &[("host", host)]), "200", "{host}");
    }
    assert_eq!(told(STOP, &[("host", &own)]), "200");
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(Sides::CLIENT)]
fn j1_allow_remote_stop_opens_stop_and_nothing_else(#[case] sides: Sides) {
    let scene = Scene::scripted(Script::default()).with_tls(sides).flag("--allow-remote-stop");
    let mut wrapper = scene.start_ready();
    let (caller, refusal) = match sides.client {
        true => (wrapper.caller().tls().from(outside()), "401 certificate_required"),
        false => (wrapper.caller().from(outside()), "403 forbidden"),
    };
    assert_eq!(told(&caller.post("/v1/etcd/start")), refusal);
    assert_eq!(told(&caller.post("/v1/etcd/stop")), refusal, "the process may be ended, etcd not be stopped");
    assert_eq!(told(&caller.get("/v1/status")), refusal);
    let stop = |headers: &[(&str, &str)]| told(&caller.call("POST", "/stop", headers, ""));
    assert_eq!(stop(&[("origin", "http://evil.example")]), "403 forbidden", "a browser is never Go's caller");
    assert_eq!(stop(&[("host", "any.name.at.all")]), "200");
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

/// druid's pods listen at all addresses of both families.
#[rstest]
#[case::v6(IpAddr::V6(Ipv6Addr::LOCALHOST))]
#[case::v4_mapped(IpAddr::V4(Ipv4Addr::LOCALHOST))]
fn j1_both_families_of_loopback_are_the_pod_itself(#[case] address: IpAddr) {
    let scene = Scene::scripted(Script::default()).flag("--listen-address=::");
    let mut wrapper = scene.start_ready();
    let caller = Caller::plain(SocketAddr::new(address, scene.api_addr().port()));
    check("loopback", &caller, &[], Role::Control, "");
    assert_eq!(told(&caller.post("/stop")), "200");
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

#[test]
fn j1_every_control_call_is_one_audit_line() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    wrapper.caller().call("POST", "/v1/etcd/stop", &[], r#"{"ifGeneration":99,"reason":"weekly drill"}"#);
    wrapper.wait_log(LONG, "weekly drill");
    wrapper.caller().from(OTHER_LOOPBACK).post("/stop");
    wrapper.wait_log(LONG, "control call");
    let lines = |what: &str| wrapper.log().lines().filter(|line| line.contains(what)).count();
    wrapper.wait_log(LONG, "127.0.0.2");
    assert_eq!(lines("control call"), 2, "{}", wrapper.log());
}

#[test]
fn j1_a_held_member_is_started_by_the_pod_itself_only() {
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let caller = wrapper.caller();
    for address in [OTHER_LOOPBACK, outside()] {
        let stranger = caller.clone().from(address);
        assert_eq!(told(&stranger.post("/v1/etcd/start")), "403 forbidden", "{address}");
        assert_eq!(told(&stranger.tls().post("/v1/etcd/start")), "403 no_server_certificate", "{address}");
    }
    assert_eq!(wrapper.status()["wrapper"]["phase"], "held");
    assert_eq!(scene.stage().starts(), []);
    assert_eq!(caller.post("/v1/etcd/start").status, 202);
    wrapper.wait_ready();
}

/// A kept connection may go on as it was let in; a new one meets the rules of now.
#[test]
fn an_open_connection_keeps_its_admission() {
    use std::io::{BufRead, BufReader, Read, Write};
    let scene = Scene::scripted(Script::default()).with_tls(Sides::CLIENT).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let mut stream = BufReader::new(wrapper.caller().connect().unwrap());
    let mut ask = || {
        stream.get_mut().write_all(b"GET /v1/version HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let (mut status, mut length) = (String::new(), 0);
        stream.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                Some(_) => {}
                None => break,
            }
        }
        stream.read_exact(&mut vec![0; length]).unwrap();
        status
    };
    assert!(ask().contains("200"));
    wrapper.caller().post("/v1/etcd/start");
    wrapper.wait_status(LONG, "etcd's certificate in use", |_| {
        wrapper.caller().get("/v1/version").status == 403
    });
    assert!(ask().contains("200"), "it was let in before");
}

#[test]
fn j1_a_listed_certificate_controls_from_anywhere() {
    let scene = Scene::scripted(Script::default())
        .with_tls(Sides::CLIENT)
        .flag("--control-identities=agent")
        .flag("--control-identities=agent.kube-system.svc");
    let mut wrapper = scene.start_ready();
    let ca = &scene.pki().client_ca;
    let showing = |pair: Pair| wrapper.caller().showing(&pair.cert_pem, &pair.key_pem).from(outside());
    check("by its CN", &showing(ca.sign(&Leaf::client("agent"))), &[], Role::Control, "");
    let by_san = ca.sign(&Leaf::client("x").names(&["agent.kube-system.svc"]));
    check("by a SAN", &showing(by_san), &[], Role::Control, "");
    for name in ["agent2", "Agent", "gent", "agent.kube-system.svc.evil"] {
        check(name, &showing(ca.sign(&Leaf::client(name))), &[], Role::Read, "403 forbidden");
    }
    let forged = showing(Authority::new("client-ca").sign(&Leaf::client("agent")));
    check("forged", &forged, &[], Role::Open, "401 certificate_required");
    let agent = showing(ca.sign(&Leaf::client("agent")));
    let browser = agent.call("POST", "/stop", &[("origin", "https://evil.example")], "");
    assert_eq!(told(&browser), "403 forbidden");
    assert_eq!(told(&agent.post("/stop")), "200");
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

/// In the host's network every process of the node is a loopback peer.
#[rstest]
#[case::plain(Sides::NONE)]
#[case::tls(Sides::CLIENT)]
fn j1_loopback_can_be_a_stranger_too(#[case] sides: Sides) {
    let scene = Scene::scripted(Script::default()).with_tls(sides).flag("--control-loopback=false");
    let wrapper = scene.start_ready();
    match sides.client {
        true => check("TLS", &wrapper.caller().tls(), &[], Role::Open, "401 certificate_required"),
        false => check("plain", &wrapper.caller(), &[], Role::Open, "403 forbidden"),
    }
}
