// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every option of every verb: what it means when it is left out, and what is refused.
use super::*;

fn parse(text: &str) -> Result<StartRequest, Code> {
    let query = Query::parse(Some(text)).unwrap();
    start(&query, None).map_err(|problem| problem.code)
}

fn fields(text: &str) -> Fields {
    Fields::parse(text.as_bytes()).unwrap()
}

fn pointer(result: Result<impl std::fmt::Debug, Problem>) -> String {
    let problem = result.unwrap_err();
    assert_eq!(problem.code, Code::InvalidValue, "{problem:?}");
    problem.errors[0].pointer.clone()
}

#[test]
fn a_start_without_parameters_asks_for_the_bootstrap_of_today() {
    let start = parse("").unwrap();
    assert_eq!((start.validation, start.force, start.if_generation), (Validation::Auto, false, None));
    assert!(start.posted.is_none() && start.hold.is_none() && start.owner.is_none());
}

#[test]
fn holding_needs_an_owner() {
    assert_eq!(parse("ready=hold").unwrap_err(), Code::InvalidValue);
    assert_eq!(parse("ready=hold&owner=").unwrap_err(), Code::InvalidValue);
    let hold = parse("ready=hold&owner=backup-restore&reason=restore").unwrap().hold.unwrap();
    assert_eq!((hold.owner.as_str(), hold.reason.as_str()), ("backup-restore", "restore"));
}

#[test]
fn values_outside_the_vocabulary_are_refused() {
    for text in ["validation=maybe", "ready=yes", "force=1", "ifGeneration=x"] {
        assert_eq!(parse(text).unwrap_err(), Code::InvalidValue, "{text}");
    }
    assert_eq!(parse("validation=full").unwrap().validation, Validation::Ask(Mode::Full));
}

#[test]
fn an_owner_cannot_break_out_of_its_line_in_the_hold_file() {
    for owner in ["a%0Aowner:%20b", "%20a", "a%20", "a%00", &"x".repeat(257)] {
        assert_eq!(parse(&format!("ready=hold&owner={owner}")).unwrap_err(), Code::InvalidValue, "{owner}");
    }
    assert_eq!(parse("ready=hold&owner=a&reason=%1b[2J").unwrap_err(), Code::InvalidValue);
    assert_eq!(parse("ready=hold&owner=a&reason=two%0Alines").unwrap().hold.unwrap().reason, "two\nlines");
}

#[test]
fn a_stop_without_a_body_is_guarded_graceful_and_hands_leadership_over() {
    let stop = stop(&fields("")).unwrap();
    let expected = StopRequest {
        grace: None,
        transfer: true,
        guard: Guard::Quorum,
        force: false,
        hold: None,
        if_generation: None,
        reason: String::new(),
    };
    assert_eq!(stop, expected);
}

#[test]
fn every_option_of_a_stop_reaches_the_supervisor() {
    let text = r#"{"gracePeriod":"90s","transferLeadership":false,"guard":"none","force":true,"ifGeneration":7,
        "reason":"defrag","hold":true,"owner":"me"}"#;
    let stop = stop(&fields(text)).unwrap();
    assert_eq!((stop.grace, stop.transfer), (Some(Duration::from_secs(90)), false));
    assert_eq!((stop.guard, stop.force, stop.if_generation), (Guard::None, true, Some(7)));
    assert_eq!(stop.hold, Some(HoldRequest { owner: "me".into(), reason: "defrag".into() }));
}

#[test]
fn bad_options_of_a_stop_are_named() {
    for (text, at) in [
        (r#"{"gracePeriod":"25h"}"#, "/gracePeriod"),
        (r#"{"gracePeriod":25}"#, "/gracePeriod"),
        (r#"{"guard":"all"}"#, "/guard"),
        (r#"{"force":"true"}"#, "/force"),
        (r#"{"owner":"me"}"#, "/owner"),
        (r#"{"hold":true,"owner":" "}"#, "/owner"),
        (r#"{"reason":"\u0007"}"#, "/reason"),
    ] {
        assert_eq!(pointer(stop(&fields(text))), at, "{text}");
    }
    let problem = stop(&fields(r#"{"graceperiod":"1s"}"#)).unwrap_err();
    assert_eq!(problem.code, Code::UnknownField);
    assert_eq!(problem.errors[0].suggestion.as_deref(), Some("gracePeriod"));
    assert_eq!(restart(&Query::default(), &fields(r#"{"hold":true}"#)).unwrap_err().code, Code::UnknownField);
}

#[test]
fn every_option_of_a_restart_reaches_the_supervisor() {
    let query = Query::parse(Some("validation=sanity&config=sidecar")).unwrap();
    let restart_ = restart(&query, &fields(r#"{"guard":"serial","ifGeneration":2}"#)).unwrap();
    assert_eq!(restart_.validation, Validation::Ask(Mode::Sanity));
    assert_eq!((restart_.config_from_sidecar, restart_.guard), (Some(true), Guard::Serial));
    assert_eq!(restart_.if_generation, Some(2));
    let query = Query::parse(Some("config=file")).unwrap();
    assert_eq!(pointer(restart(&query, &fields(""))), "config");
}

#[test]
fn overrides_have_owners_and_end_by_themselves_unless_that_is_safe() {
    let put = |text: &str| put_readiness(&fields(text));
    let held = put(r#"{"mode":"unready","ttl":"none","owner":"a","reason":"restore"}"#).unwrap();
    assert_eq!((held.mode, held.ttl), (Some(OverrideMode::Unready), None));
    let ready = put(r#"{"mode":"ready","ttl":"24h","owner":"a","force":true}"#).unwrap();
    assert_eq!((ready.mode, ready.ttl, ready.force), (Some(OverrideMode::Ready), Some(DAY), true));
    assert_eq!(put(r#"{"mode":"auto"}"#).unwrap().mode, None);
    for (text, at) in [
        (r"{}", "/mode"),
        (r#"{"mode":"maybe"}"#, "/mode"),
        (r#"{"mode":"unready","ttl":"1s"}"#, "/owner"),
        (r#"{"mode":"unready","owner":"a"}"#, "/ttl"),
        (r#"{"mode":"ready","owner":"a"}"#, "/ttl"),
        (r#"{"mode":"ready","owner":"a","ttl":"none"}"#, "/ttl"),
        (r#"{"mode":"ready","owner":"a","ttl":"999ms"}"#, "/ttl"),
        (r#"{"mode":"unready","owner":"a","ttl":"24h1s"}"#, "/ttl"),
        (r#"{"mode":"unready","owner":"a","ttl":60}"#, "/ttl"),
        (r#"{"mode":"auto","ttl":"5s"}"#, "/ttl"),
        (r#"{"mode":"auto","ttl":"none"}"#, "/ttl"),
    ] {
        assert_eq!(pointer(put(text)), at, "{text}");
    }
}

#[test]
fn a_posted_configuration_is_refused_with_pointers() {
    let problem = posted(Bytes::from_static(
        b"name: a\ndata-dir: /d\nlisten-client-urls: http://0.0.0.0:0\ninitial-cluster: a=http://h:2380\n",
    ))
    .unwrap_err();
    assert_eq!(
        (problem.code, problem.errors[0].pointer.as_str()),
        (Code::ConfigInvalid, "/listen-client-urls")
    );
    let problem = posted(Bytes::from_static(b"hello")).unwrap_err();
    assert_eq!(problem.code, Code::ConfigInvalid);
    assert!(!problem.errors.is_empty());
}
