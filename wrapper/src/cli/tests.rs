// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The command line as its users write it.
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::host_port::SidecarAddress;
use super::*;

fn start(args: &[&str]) -> Result<StartFlags, UsageError> {
    match parse(std::iter::once("start-etcd").chain(args.iter().copied()))? {
        Invocation::Start(flags) => Ok(*flags),
        other => panic!("not a start: {other:?}"),
    }
}

fn refusal(args: &[&str]) -> String {
    start(args).expect_err("these flags must be refused").to_string()
}

fn printed(args: &[&str]) -> String {
    match parse(args.iter().copied()) {
        Ok(Invocation::Print(text)) => text,
        other => panic!("expected a text to print, got {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_go_wrapper() {
    let flags = start(&[]).unwrap();
    assert_eq!(flags.wrapper_port, 9095);
    assert_eq!(flags.etcd_client_port, 2379);
    assert_eq!(flags.etcd_ready_timeout, None);
    assert_eq!(flags.etcd_client_pair, None);
    assert_eq!(flags.etcd_server_name, None);
    let address = SidecarAddress { host: "localhost".to_owned(), port: 8080 };
    assert_eq!(flags.bootstrap, Bootstrap::Sidecar(SidecarFlags { address, ca: None }));
}

#[test]
fn defaults_of_our_own_flags_keep_the_go_wrappers_behaviour() {
    let flags = start(&[]).unwrap();
    assert_eq!(flags.state_dir.to_str(), Some("/var/etcd/data"));
    assert_eq!(flags.grace_period, Duration::from_secs(25));
    assert_eq!(flags.on_etcd_exit, OnEtcdExit::Exit);
    assert_eq!(flags.status_interval, Duration::from_millis(250));
    assert_eq!(flags.readiness_interval, Duration::from_secs(2));
    assert_eq!(flags.log_format, LogFormat::Json);
    assert!(!flags.hold && !flags.allow_remote_stop && flags.clean_marker_on_stop);
    assert!(flags.control_loopback && flags.control_identities.is_empty());
    assert_eq!(flags.listen_address, None);
}

#[test]
fn j1_control_identities_add_up_and_are_never_empty() {
    let flags = start(&["--control-identities=agent", "-control-identities", "a,b"]).unwrap();
    assert_eq!(flags.control_identities, ["agent", "a,b"], "a name may hold a comma");
    assert!(refusal(&["--control-identities="]).contains("--control-identities"));
    assert!(!start(&["--control-loopback=false"]).unwrap().control_loopback);
}

#[test]
fn the_command_line_of_etcd_druid_is_taken() {
    let flags = start(&[
        "--backup-restore-host-port=etcd-main-local:8080",
        "--etcd-server-name=etcd-main-local",
        "--backup-restore-tls-enabled=true",
        "--backup-restore-ca-cert-bundle-path=/var/etcdbr/ssl/ca/bundle.crt",
        "--etcd-client-cert-path=/var/etcd/ssl/client/tls.crt",
        "--etcd-client-key-path=/var/etcd/ssl/client/tls.key",
        "--etcd-client-port=2379",
        "--etcd-wrapper-port=9095",
    ])
    .unwrap();
    let Bootstrap::Sidecar(sidecar) = flags.bootstrap else { panic!("a sidecar was named") };
    assert_eq!(sidecar.address.to_string(), "etcd-main-local:8080");
    assert_eq!(sidecar.ca.unwrap().to_str(), Some("/var/etcdbr/ssl/ca/bundle.crt"));
    assert_eq!(flags.etcd_client_pair.unwrap().key.to_str(), Some("/var/etcd/ssl/client/tls.key"));
    assert_eq!(flags.etcd_server_name.as_deref(), Some("etcd-main-local"));
}

#[rstest]
#[case(&["-etcd-client-port", "1234"])]
#[case(&["--etcd-client-port", "1234"])]
#[case(&["-etcd-client-port=1234"])]
#[case(&["--etcd-client-port=1234"])]
#[case(&["--etcd-client-port=1", "-etcd-client-port", "1234"])]
fn values_are_spelled_as_in_go(#[case] args: &[&str]) {
    assert_eq!(start(args).unwrap().etcd_client_port, 1234);
}

#[rstest]
#[case(&["--hold"], true)]
#[case(&["-hold"], true)]
#[case(&["--hold=true"], true)]
#[case(&["-hold=1"], true)]
#[case(&["--hold=t"], true)]
#[case(&["--hold=T"], true)]
#[case(&["--hold=TRUE"], true)]
#[case(&["--hold=false"], false)]
#[case(&["--hold=0"], false)]
#[case(&["--hold=f"], false)]
#[case(&["--hold=F"], false)]
#[case(&["--hold=FALSE"], false)]
#[case(&["--hold", "--hold=false"], false)]
fn booleans_are_spelled_as_in_go(#[case] args: &[&str], #[case] expected: bool) {
    assert_eq!(start(args).unwrap().hold, expected);
}

#[test]
fn a_boolean_does_not_swallow_what_follows() {
    let flags = start(&["--hold", "--etcd-client-port=1234"]).unwrap();
    assert!(flags.hold);
    assert_eq!(flags.etcd_client_port, 1234);
    assert!(refusal(&["--hold", "false"]).contains("false"));
}

#[test]
fn a_flag_with_a_value_swallows_even_what_looks_like_a_flag() {
    let flags = start(&["--etcd-server-name", "--hold"]).unwrap();
    assert_eq!(flags.etcd_server_name.as_deref(), Some("--hold"));
    assert!(!flags.hold);
}

#[rstest]
#[case(&["--hold=maybe"], "maybe")]
#[case(&["--hold="], "boolean")]
#[case(&["--etcd-wrapper-port=65536"], "65536")]
#[case(&["--etcd-wrapper-port"], "--etcd-wrapper-port")]
#[case(&["--etcd-client-port=0"], "--etcd-client-port")]
#[case(&["--etcd-client-port=tcp://10.0.0.1:2379"], "tcp://")]
#[case(&["--etcd-ready-timeout=10d"], "unit")]
#[case(&["--etcd-ready-timeout=-1s"], "negative")]
#[case(&["--etcd-ready-timeout=5"], "unit is missing")]
#[case(&["--grace-period=-1s"], "--grace-period")]
#[case(&["--status-interval=0"], "--status-interval")]
#[case(&["--readiness-interval=10s"], "--readiness-interval")]
#[case(&["--readiness-interval=5001ms"], "a read may take 5s")]
#[case(&["--on-etcd-exit=explode"], "explode")]
#[case(&["--log-format=xml"], "xml")]
#[case(&["--log-level=inof"], "inof")]
#[case(&["--log-level=info,etcd_wrapper=loud"], "loud")]
#[case(&["--log-level="], "--log-level")]
#[case(&["--listen-address=example.org"], "IP address")]
#[case(&["--state-dir="], "--state-dir")]
#[case(&["--backup-restore-host-port=localhost"], "host and port")]
#[case(&["--backup-restore-host-port=https://localhost:1"], "without a scheme")]
#[case(&["--backup-restore-tls-enabled"], "--backup-restore-ca-cert-bundle-path")]
#[case(&["--backup-restore-tls-enabled", "--backup-restore-ca-cert-bundle-path= "], "CA bundle")]
#[case(&["--etcd-client-cert-path=/a"], "--etcd-client-key-path")]
#[case(&["--etcd-client-key-path=/a"], "--etcd-client-cert-path")]
#[case(&["--etcd-config-file=/a", "--backup-restore-host-port=:8080"], "--backup-restore-host-port")]
#[case(&["--notify-url=localhost:80"], "--notify-url")]
#[case(&["--notify-url="], "--notify-url")]
#[case(&["--notify-url=https://a.example/"], "--backup-restore-ca-cert-bundle-path")]
#[case(&["--control-identities="], "--control-identities")]
#[case(&["--control-loopback=maybe"], "maybe")]
#[case(&["stray"], "stray")]
#[case(&["--", "--hold"], "--hold")]
fn bad_flags_are_usage_errors_that_name_the_flag(#[case] args: &[&str], #[case] named: &str) {
    let text = refusal(args);
    assert!(text.contains(named), "{named:?} is not in {text:?}");
}

#[test]
fn urls_to_notify_may_be_repeated_and_https_takes_the_sidecars_ca() {
    let flags = start(&["--notify-url=http://a.example/x", "--notify-url", "http://b.example/"]).unwrap();
    let origins: Vec<_> = flags.notify.iter().map(super::notify_url::NotifyUrl::origin).collect();
    assert_eq!(
        (origins, flags.notify_ca),
        (vec!["http://a.example:80".into(), "http://b.example:80".to_owned()], None)
    );
    let ca = "--backup-restore-ca-cert-bundle-path=/ca";
    let flags = start(&["--notify-url=https://a.example", ca]).unwrap();
    assert_eq!(flags.notify_ca.as_deref(), Some("/ca".as_ref()));
}

#[test]
fn j2_a_bad_url_is_not_shown() {
    for url in ["http://ada:hunter2@[x/", "ftp://ada:hunter2@a.example/?hunter2", "hunter2"] {
        assert!(!refusal(&[&format!("--notify-url={url}")]).contains("hunter2"), "{url}");
    }
}

#[test]
fn a_path_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"/var/\xff");
    let mut inline = OsString::from("-state-dir=");
    inline.push(odd);
    for args in
        [vec!["start-etcd".into(), inline], vec!["start-etcd".into(), "-state-dir".into(), odd.into()]]
    {
        match parse(args) {
            Ok(Invocation::Start(flags)) => assert_eq!(flags.state_dir.as_os_str(), odd),
            other => panic!("expected flags, got {other:?}"),
        }
    }
}

#[test]
fn a_mistyped_flag_gets_a_suggestion() {
    assert!(refusal(&["-etcd-clientport=1"]).contains("--etcd-client-port"));
}

#[test]
fn a_wrapper_port_of_zero_lets_the_system_choose_as_in_go() {
    assert_eq!(start(&["--etcd-wrapper-port=0"]).unwrap().wrapper_port, 0);
}

#[test]
fn stand_alone_needs_nothing_but_the_file() {
    let flags = start(&["--etcd-config-file", "/etc/etcd.yaml"]).unwrap();
    assert_eq!(flags.bootstrap, Bootstrap::File("/etc/etcd.yaml".into()));
}

#[test]
fn a_ca_without_tls_is_ignored_as_in_go() {
    let flags = start(&["--backup-restore-ca-cert-bundle-path=/ca"]).unwrap();
    assert!(matches!(flags.bootstrap, Bootstrap::Sidecar(SidecarFlags { ca: None, .. })));
}

#[test]
fn durations_are_gos() {
    assert_eq!(start(&["-etcd-ready-timeout", "2m0s"]).unwrap().etcd_ready_timeout.unwrap().as_secs(), 120);
    assert_eq!(start(&["--etcd-ready-timeout=0"]).unwrap().etcd_ready_timeout, None);
}

#[test]
fn log_filters_are_those_of_rust_log() {
    let filter = start(&["--log-level=info,etcd_wrapper::api=debug"]).unwrap().log_filter;
    assert!(filter.would_enable("etcd_wrapper::api::probes", &tracing::Level::DEBUG));
    assert!(!filter.would_enable("etcd_wrapper::member", &tracing::Level::DEBUG));
    assert!(filter.would_enable("etcd_wrapper::member", &tracing::Level::INFO));
}

#[test]
fn listen_addresses_may_be_ipv6() {
    for text in ["::1", "[::1]"] {
        let flags = start(&["--listen-address", text]).unwrap();
        assert_eq!(flags.listen_address.unwrap().to_string(), "::1");
    }
}

#[test]
fn help_shows_the_nine_of_go_first() {
    let text = printed(&["start-etcd", "--help"]);
    let flags: Vec<&str> = text
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.split(['=', '[']).next().unwrap_or(word))
        .take(9)
        .collect();
    let go = [
        "--etcd-wrapper-port",
        "--backup-restore-tls-enabled",
        "--backup-restore-host-port",
        "--backup-restore-ca-cert-bundle-path",
        "--etcd-client-port",
        "--etcd-client-cert-path",
        "--etcd-client-key-path",
        "--etcd-server-name",
        "--etcd-ready-timeout",
    ];
    assert_eq!(flags, go, "{text}");
    assert!(text.find("Flags of the Go etcd-wrapper").unwrap() < text.find("HTTP port").unwrap());
    for spelled in ["-help", "-h"] {
        assert_eq!(printed(&["start-etcd", spelled]), text);
    }
}

#[test]
fn version_and_help_are_for_printing() {
    assert_eq!(printed(&["--version"]), format!("etcd-wrapper {}\n", env!("CARGO_PKG_VERSION")));
    assert!(printed(&["--help"]).contains("start-etcd"));
}

#[test]
fn without_a_verb_the_help_is_the_complaint() {
    let error = parse(Vec::<&str>::new()).expect_err("there is nothing to do").to_string();
    assert!(error.contains("start-etcd"), "{error}");
    assert!(parse(["stop-etcd"]).is_err());
}

#[rstest]
#[case(&["status", "--server=http://a:1", "--etcd-wrapper-port=1"], "--server")]
#[case(&["status", "--timeout=0"], "longer than 0")]
#[case(&["status", "-o", "xml"], "xml")]
#[case(&["status", "--cert=/a"], "--key")]
#[case(&["leader", "--watch", "--confirm"], "--confirm")]
#[case(&["ready", "--ttl=1s"], "--owner")]
#[case(&["ready", "--clear", "--owner=a", "--ttl=1s"], "--ttl")]
#[case(&["unready", "--owner=a"], "--ttl")]
#[case(&["unready", "--owner=a", "--ttl=soon"], "soon")]
#[case(&["start", "--ready=hold"], "--owner")]
#[case(&["start", "--validation=maybe"], "maybe")]
#[case(&["start", "--wait=1h"], "5m")]
#[case(&["stop", "--owner=a"], "--hold")]
#[case(&["stop", "--guard=quorom"], "quorum")]
#[case(&["restart", "--hold"], "--hold")]
#[case(&["validate-config"], "FILE")]
#[case(&["completions", "tcsh"], "tcsh")]
fn bad_client_flags_are_usage_errors_that_name_the_flag(#[case] args: &[&str], #[case] named: &str) {
    let text = parse(args.iter().copied()).expect_err("these flags must be refused").to_string();
    assert!(text.contains(named), "{named:?} is not in {text:?}");
}

#[test]
fn client_verbs_take_flags_in_any_place_and_short_ones() {
    for args in
        [&["status", "-o", "json", "--timeout", "1.5s"][..], &["status", "--timeout=1500ms", "-ojson"]]
    {
        match parse(args.iter().copied()) {
            Ok(Invocation::Client(verb)) => match *verb {
                ClientVerb::Status(read) => {
                    assert_eq!((read.output, read.reach.timeout.as_millis()), (client::Output::Json, 1500));
                }
                other => panic!("not a status: {other:?}"),
            },
            other => panic!("not a client: {other:?}"),
        }
    }
}

/// The page for people, from the client's section on.
fn client_page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) =
        page.split_once("\n## The client\n").expect("operations.md has a section about the client");
    section.split("\n## ").next().unwrap().to_owned()
}

#[test]
fn every_verb_and_flag_of_the_client_stands_on_the_page_for_operators() {
    let page = client_page();
    let mut command = command();
    command.build();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != SERVER) {
        assert!(page.contains(&format!("`{}", verb.get_name())), "{}", verb.get_name());
        for flag in verb.get_arguments().filter_map(clap::Arg::get_long).filter(|flag| *flag != "help") {
            assert!(page.contains(&format!("--{flag}")), "--{flag} of {}", verb.get_name());
        }
    }
}

#[test]
fn every_verb_of_the_client_has_an_example_that_is_no_usage_error_and_fits_80_columns() {
    for verb in command().get_subcommands().filter(|verb| verb.get_name() != SERVER) {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(!examples.is_empty(), "{}", verb.get_name());
        for example in examples {
            // What follows is a remark or the shell's.
            let command = example.trim_start().split("  ").next().unwrap();
            let words = command.split_whitespace().take_while(|word| !matches!(*word, "|" | ">"));
            let parsed = parse(words.skip(1));
            assert!(parsed.is_ok() && example.chars().count() <= 80, "{example}: {parsed:?}");
        }
    }
}

#[test]
fn clap_finds_no_fault_with_the_declaration() {
    command().debug_assert();
}

proptest! {
    #[test]
    fn no_arguments_make_it_panic(args in proptest::collection::vec("(-{0,3}[a-z-]{0,24}=?.{0,12})|(start-etcd)|(status)|(stop)|(ready)", 0..6)) {
        let _ = parse(args);
    }
}
