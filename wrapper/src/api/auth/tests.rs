// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every row of the table in api.md §5, and the edges between them.
use http::HeaderValue;

use super::*;

const CLASSES: [Class; 5] = [Class::Probe, Class::Open, Class::Read, Class::Control, Class::Stop];

fn policy() -> Policy {
    Policy { control_loopback: true, control_identities: vec!["agent".into()], allow_remote_stop: false }
}

fn admission(peer: &str, scheme: Scheme, etcd_certificate: bool) -> Admission {
    Admission {
        peer: SocketAddr::new(peer.parse().unwrap(), 40_000),
        scheme,
        etcd_certificate,
        trust_not_loaded: false,
        identity: ClientIdentity::None,
    }
}

fn named(name: &str) -> ClientIdentity {
    ClientIdentity::Verified { cn: Some("cn".into()), sans: vec!["127.0.0.1".into(), name.into()] }
}

/// The answers for all five classes: `-` is a yes, else the code.
fn answers(policy: &Policy, admission: &Admission, marks: Marks) -> [&'static str; 5] {
    CLASSES.map(|class| match authorize(policy, admission, marks, class) {
        Ok(()) => "-",
        Err(problem) => problem.code.meaning().code,
    })
}

#[test]
fn j1_every_row_of_the_table_is_answered_as_written() {
    use Scheme::{Plain, Tls};
    let forwarded = Marks { forwarded: true, ..Marks::default() };
    let none = ClientIdentity::None;
    let bad = ClientIdentity::Unverified;
    let (tls, no_cert) = ("tls_required", "no_server_certificate");
    let (missing, forbidden) = ("certificate_required", "forbidden");
    let direct = Marks::default();
    for (peer, scheme, loaded, identity, marks, expected) in [
        // plain HTTP, etcd's client TLS off
        ("127.0.0.1", Plain, false, &none, direct, ["-", "-", "-", "-", "-"]),
        ("::1", Plain, false, &none, direct, ["-", "-", "-", "-", "-"]),
        ("::ffff:127.0.0.1", Plain, false, &none, direct, ["-", "-", "-", "-", "-"]),
        ("127.0.0.2", Plain, false, &none, direct, ["-", "-", forbidden, forbidden, forbidden]),
        ("::ffff:127.0.0.2", Plain, false, &none, direct, ["-", "-", forbidden, forbidden, forbidden]),
        ("127.0.0.1", Plain, false, &none, forwarded, ["-", "-", forbidden, forbidden, forbidden]),
        ("10.0.0.9", Plain, false, &none, direct, ["-", "-", forbidden, forbidden, forbidden]),
        ("fd00::9", Plain, false, &none, direct, ["-", "-", forbidden, forbidden, forbidden]),
        // plain HTTP beside a loaded certificate
        ("127.0.0.1", Plain, true, &none, direct, ["-", tls, tls, tls, tls]),
        ("10.0.0.9", Plain, true, &none, direct, ["-", tls, tls, tls, tls]),
        // TLS with etcd's certificate
        ("127.0.0.1", Tls, true, &none, direct, ["-", "-", "-", "-", "-"]),
        ("127.0.0.1", Tls, true, &bad, direct, ["-", "-", "-", "-", "-"]),
        ("127.0.0.1", Tls, true, &none, forwarded, ["-", "-", missing, missing, missing]),
        ("10.0.0.9", Tls, true, &none, direct, ["-", "-", missing, missing, missing]),
        ("10.0.0.9", Tls, true, &bad, direct, ["-", "-", missing, missing, missing]),
        ("10.0.0.9", Tls, true, &named("monitor"), direct, ["-", "-", "-", forbidden, forbidden]),
        ("10.0.0.9", Tls, true, &named("agent"), direct, ["-", "-", "-", "-", "-"]),
        ("10.0.0.9", Tls, true, &named("agent"), forwarded, ["-", "-", "-", "-", "-"]),
        // TLS with the self-signed certificate
        ("127.0.0.1", Tls, false, &none, direct, ["-", no_cert, no_cert, no_cert, no_cert]),
        ("10.0.0.9", Tls, false, &none, direct, ["-", no_cert, no_cert, no_cert, no_cert]),
    ] {
        let admission = Admission { identity: identity.clone(), ..admission(peer, scheme, loaded) };
        assert_eq!(answers(&policy(), &admission, marks), expected, "{admission:?} {marks:?}");
    }
}

#[test]
fn an_unreadable_client_ca_is_our_fault_and_not_the_callers() {
    for identity in [ClientIdentity::None, ClientIdentity::Unverified] {
        let stranger =
            Admission { identity, trust_not_loaded: true, ..admission("10.0.0.9", Scheme::Tls, true) };
        let wait = "trust_not_loaded";
        assert_eq!(answers(&policy(), &stranger, Marks::default()), ["-", "-", wait, wait, wait]);
    }
    let pod = Admission { trust_not_loaded: true, ..admission("::1", Scheme::Tls, true) };
    assert_eq!(answers(&policy(), &pod, Marks::default()), ["-"; 5]);
}

#[test]
fn j1_allow_remote_stop_opens_stop_alone_under_any_host_name() {
    let open = Policy { allow_remote_stop: true, ..policy() };
    let foreign = Marks { foreign_host: true, ..Marks::default() };
    let remote = admission("10.0.0.9", Scheme::Plain, false);
    assert_eq!(answers(&open, &remote, foreign), ["-", "-", "forbidden", "forbidden", "-"]);
    let remote = admission("10.0.0.9", Scheme::Tls, true);
    let missing = "certificate_required";
    assert_eq!(answers(&open, &remote, foreign), ["-", "-", missing, missing, "-"]);
    // The scheme's rule stands, and a browser is never a caller of /stop.
    let plain = admission("10.0.0.9", Scheme::Plain, true);
    assert_eq!(answers(&open, &plain, foreign)[4], "tls_required");
    let browser = Marks { origin: true, ..Marks::default() };
    assert_eq!(answers(&open, &admission("10.0.0.9", Scheme::Plain, false), browser)[4], "forbidden");
}

#[test]
fn loopback_loses_its_rights_on_the_host_network() {
    let host_network = Policy { control_loopback: false, ..policy() };
    let plain = admission("127.0.0.1", Scheme::Plain, false);
    let no = "forbidden";
    assert_eq!(answers(&host_network, &plain, Marks::default()), ["-", "-", no, no, no]);
    let identity = ClientIdentity::Verified { cn: Some("agent".into()), sans: Vec::new() };
    let agent = Admission { identity, ..admission("127.0.0.1", Scheme::Tls, true) };
    assert_eq!(answers(&host_network, &agent, Marks::default()), ["-"; 5]);
}

#[test]
fn browsers_and_rebound_names_control_nothing_but_may_read() {
    let pod = admission("127.0.0.1", Scheme::Plain, false);
    for marks in
        [Marks { origin: true, ..Marks::default() }, Marks { foreign_host: true, ..Marks::default() }]
    {
        assert_eq!(answers(&policy(), &pod, marks), ["-", "-", "-", "forbidden", "forbidden"], "{marks:?}");
    }
}

fn marks(uri: &str, headers: &[(&'static str, &str)]) -> Marks {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    Marks::of(&uri.parse().unwrap(), &map, |host| host.eq_ignore_ascii_case("etcd-main-local"))
}

#[test]
fn only_our_own_names_localhost_and_addresses_are_known_hosts() {
    for host in [
        "localhost",
        "LOCALHOST:9095",
        "localhost.",
        "127.0.0.1:9095",
        "[::1]:9095",
        "10.1.2.3",
        "etcd-main-local",
        "ETCD-main-local:9095",
    ] {
        assert!(!marks("/stop", &[("host", host)]).foreign_host, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "etcd-main-local.evil", "a b", ""]
    {
        assert!(marks("/stop", &[("host", host)]).foreign_host, "{host}");
    }
    assert!(!marks("/stop", &[]).foreign_host, "no browser leaves Host out");
    assert!(marks("http://evil.example/stop", &[("host", "localhost")]).foreign_host);
    assert!(marks("/stop", &[("host", "localhost"), ("host", "evil.example")]).foreign_host);
}

#[test]
fn every_forwarding_header_is_seen() {
    for name in ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-anything"] {
        assert!(marks("/stop", &[(name, "x")]).forwarded, "{name}");
    }
    assert!(!marks("/stop", &[("x-request-id", "x"), ("user-agent", "via")]).forwarded);
    assert!(marks("/stop", &[("origin", "null")]).origin);
}
