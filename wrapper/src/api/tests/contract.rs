// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `openapi.json` against the code: routes, classes, problem codes, words, names of parameters and fields, and a walk
//! through every operation with every answer that the document promises. What the tests receive elsewhere is held
//! against the document by the rig itself.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::openapi::{self, document, parameter_names, resolve};
use super::rig::{Recorded, Rig, read_reply, request, within};
use crate::api::auth::Class;
use crate::api::problem::Code;
use crate::api::route::ROUTES;
use crate::member::health::{Diagnosis, Member, Process, Quorum, Role};
use crate::supervise::command::{self, Accepted, Refusal};
use crate::supervise::view::{OperationKind, OperationPhase, OperationStatus, OperationView, Phase};

/// Method, path, operation.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.to_ascii_uppercase(), path.as_str(), operation))
    });
    all.collect()
}

/// The codes that a response may carry.
fn codes(response: &'static Value) -> BTreeSet<&'static str> {
    let schema = &resolve(response)["content"]["application/problem+json"]["schema"];
    let listed = schema["allOf"][1]["properties"]["code"]["enum"].as_array();
    listed.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn words(value: &Value) -> BTreeSet<&str> {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn every_route_is_written_down_and_nothing_else_is() {
    let known: BTreeMap<_, _> = ROUTES
        .iter()
        .map(|route| {
            let class = match route.class {
                Class::Probe => "probe",
                Class::Open => "open",
                Class::Read => "read",
                Class::Control => "control",
                Class::Stop => "stop",
            };
            ((route.method.to_string(), route.template), class)
        })
        .collect();
    let written: BTreeMap<_, _> = operations()
        .into_iter()
        .map(|(method, path, operation)| ((method, path), operation["x-class"].as_str().unwrap()))
        .collect();
    assert_eq!(written, known);
    let ids: BTreeSet<_> =
        operations().iter().map(|(.., operation)| operation["operationId"].as_str()).collect();
    assert_eq!(ids.len(), operations().len(), "operationIds are unique");
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_problem_code_is_written_down_and_stands_under_its_own_status() {
    let known: BTreeSet<_> = Code::ALL.iter().map(|code| code.meaning().code).collect();
    assert_eq!(words(&document()["components"]["schemas"]["ProblemCode"]["enum"]), known);
    let everywhere = document()["x-everywhere"].as_object().unwrap().iter();
    let all = operations();
    let all = all.iter().flat_map(|(.., operation)| operation["responses"].as_object().unwrap());
    let mut seen = BTreeSet::new();
    for (status, response) in all.chain(everywhere) {
        for word in codes(response) {
            let code = Code::ALL.into_iter().find(|code| code.meaning().code == word);
            assert_eq!(code.unwrap().meaning().status.to_string(), *status, "{word}");
            seen.insert(word);
        }
    }
    // An operation's problem alone: the sidecar is asked for a configuration only after the call was taken.
    let in_operations = BTreeSet::from(["sidecar_unavailable"]);
    assert_eq!(known.difference(&seen).copied().collect::<BTreeSet<_>>(), in_operations);
}

#[test]
fn every_example_fits_its_schema() {
    let mut seen = 0;
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().into_iter().flatten() {
            openapi::check_value(name, schema, example).unwrap();
            seen += 1;
        }
    }
    assert!(seen >= 14, "{seen}");
}

#[test]
fn words_of_closed_vocabularies_are_those_of_the_code() {
    let schemas = &document()["components"]["schemas"];
    let is =
        |written: &Value, known: Vec<&str>| assert_eq!(words(&written["enum"]), known.into_iter().collect());
    is(&schemas["Phase"], Phase::ALL.iter().map(|word| word.as_str()).collect());
    let health = &schemas["Health"]["properties"];
    is(&health["process"], Process::ALL.iter().map(|word| word.as_str()).collect());
    is(&health["member"], Member::ALL.iter().map(|word| word.as_str()).collect());
    is(&health["quorum"], Quorum::ALL.iter().map(|word| word.as_str()).collect());
    is(&health["role"], Role::ALL.iter().map(|word| word.as_str()).collect());
    is(&health["diagnosis"], Diagnosis::ALL.iter().map(|word| word.as_str()).collect());
}

/// A request with the body that the document gives as an example.
async fn ask(rig: &Rig, method: &str, target: &str, body: Option<(&str, String)>) -> Recorded<TcpStream> {
    let (media_type, body) = body.unwrap_or_default();
    let mut head = format!("Content-Length: {}\r\n", body.len());
    if !media_type.is_empty() {
        head += &format!("Content-Type: {media_type}\r\n");
    }
    let mut stream = rig.connect().await;
    within(stream.write_all(format!("{}{body}", request(method, target, &head)).as_bytes())).await.unwrap();
    stream
}

/// A path that the template stands for.
fn spelled(template: &str) -> String {
    template.replace("{check}", "learner").replace("{id}", "op-3f9a1c-1")
}

/// Media type and example of every body that an operation takes, and none where it may be left out.
fn bodies(operation: &'static Value) -> Vec<Option<(&'static str, String)>> {
    let Some(body) = operation.get("requestBody") else { return vec![None] };
    let mut all = if body["required"] == true { Vec::new() } else { vec![None] };
    for (media_type, content) in body["content"].as_object().unwrap() {
        let examples = resolve(&content["schema"])["examples"].as_array().expect("every body has an example");
        // JSON is YAML too.
        all.extend(examples.iter().map(|example| Some((media_type.as_str(), example.to_string()))));
    }
    all
}

/// The names that a refusal of an unknown one lists.
fn listed(detail: &str) -> BTreeSet<&str> {
    let (_, names) = detail.split_once("there are ").unwrap_or_else(|| panic!("no names in {detail}"));
    if names == "none here" { BTreeSet::new() } else { names.split(", ").collect() }
}

#[tokio::test]
async fn parameters_and_fields_are_those_that_the_code_takes() {
    let rig = Rig::ready();
    for (method, path, operation) in operations() {
        let named = parameter_names(operation);
        if !path.starts_with("/v1/") {
            continue;
        }
        let target = format!("{}?no-such-parameter=1", spelled(path));
        let reply = read_reply(&mut ask(&rig, &method, &target, None).await).await;
        assert_eq!(reply.code(), "unknown_field", "{method} {path}");
        assert_eq!(listed(reply.json()["detail"].as_str().unwrap()), named, "{method} {path}");
        // None of them takes what is no text.
        for name in named {
            let target = format!("{}?{name}=%01", spelled(path));
            let reply = read_reply(&mut ask(&rig, &method, &target, None).await).await;
            assert_eq!(reply.code(), "invalid_value", "{method} {target}");
        }
        let Some(schema) = operation["requestBody"]["content"].get("application/json") else { continue };
        let schema = resolve(&schema["schema"]);
        let branches =
            schema["oneOf"].as_array().map_or(vec![schema], |all| all.iter().map(resolve).collect());
        let fields: BTreeSet<_> =
            branches.iter().flat_map(|branch| branch["properties"].as_object().unwrap().keys()).collect();
        let body = Some(("application/json", r#"{"no-such-field":1}"#.into()));
        let reply = read_reply(&mut ask(&rig, &method, path, body).await).await;
        let document = reply.json();
        let listed = listed(document["detail"].as_str().unwrap());
        assert_eq!(listed, fields.into_iter().map(String::as_str).collect(), "{method} {path}");
    }
}

/// Every operation that reads, with the inputs that the document gives: what comes back is checked by the rig.
#[tokio::test]
async fn whatever_reads_answers_as_written_at_rest_and_running() {
    for rig in [Rig::start(), Rig::ready()] {
        rig.core.send_modify(|core| core.operations = Arc::new([operation_view(1, None)].into()));
        for (method, path, operation) in operations() {
            if matches!(operation["x-class"].as_str(), Some("control" | "stop")) || path == "/v1/events" {
                continue;
            }
            for body in bodies(operation) {
                let reply = read_reply(&mut ask(&rig, &method, &spelled(path), body).await).await;
                assert!(matches!(reply.status, 200 | 503), "{method} {path}: {reply:?}");
            }
            if method == "GET" {
                let head = read_reply(&mut ask(&rig, "HEAD", &spelled(path), None).await).await;
                assert!(matches!(head.status, 200 | 503), "{path}: {head:?}");
            }
            let reply = read_reply(&mut ask(&rig, "BREW", &spelled(path), None).await).await;
            assert_eq!(reply.status, 405, "{path}");
        }
    }
}

fn operation_view(id: u64, finished_at: Option<SystemTime>) -> OperationView {
    let (status, phase) = match finished_at {
        None => (OperationStatus::Running, OperationPhase::Validating),
        Some(_) => (OperationStatus::Succeeded, OperationPhase::Done),
    };
    OperationView {
        id,
        kind: OperationKind::Start,
        status,
        phase,
        changed: true,
        started_at: SystemTime::now(),
        finished_at,
        generation: finished_at.map(|_| 1),
        problem: None,
        last_error: None,
    }
}

const REFUSALS: [command::Code; 17] = [
    command::Code::OperationInProgress,
    command::Code::InitializationInProgress,
    command::Code::ConfigDiffers,
    command::Code::ConfigNotRepeatable,
    command::Code::OverrideHeld,
    command::Code::NotRunning,
    command::Code::WouldBreakQuorum,
    command::Code::GuardUnknown,
    command::Code::GenerationMismatch,
    command::Code::ConfigInvalid,
    command::Code::FileUnreadable,
    command::Code::DataDirRefused,
    command::Code::NoCandidate,
    command::Code::InvalidValue,
    command::Code::ShuttingDown,
    command::Code::SidecarUnavailable,
    command::Code::Failed,
];

/// Every operation that controls, with every body that the document gives, and every verdict of the supervisor that the
/// document knows there.
#[tokio::test]
async fn whatever_controls_answers_as_written_to_every_verdict() {
    let mut rig = Rig::ready();
    let operations_view = [operation_view(1, None), operation_view(2, Some(SystemTime::now()))];
    rig.core.send_modify(|core| core.operations = Arc::new(operations_view.into()));
    for (method, path, operation) in operations() {
        if operation["x-class"] != "control" {
            continue;
        }
        let responses = operation["responses"].as_object().unwrap();
        let written: BTreeSet<_> = responses.values().flat_map(codes).collect();
        let mut verdicts: Vec<_> = [(None, 200), (Some(1), 202), (Some(2), 200), (Some(3), 404)]
            .into_iter()
            .filter(|(operation, _)| operation.is_none() || path != "/v1/readiness")
            .map(|(operation, status)| (Ok(Accepted { operation, changed: true }), status))
            .collect();
        for code in REFUSALS {
            let meaning = Code::from(code).meaning();
            if written.contains(meaning.code) {
                verdicts.push((Err(Refusal { code, detail: "no".into() }), meaning.status));
            }
        }
        for body in bodies(operation) {
            for (verdict, status) in &verdicts {
                let mut caller = ask(&rig, &method, path, body.clone()).await;
                rig.command().await.reply.send(verdict.clone()).unwrap();
                let reply = read_reply(&mut caller).await;
                assert_eq!(reply.status, *status, "{method} {path} {body:?} {verdict:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_document_is_served_as_it_is_reviewed_to_anybody() {
    let rig = Rig::start();
    let reply = rig.call("GET", "/v1/openapi.json", "Via: 1.1 proxy\r\n").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, openapi::TEXT));
    assert_eq!(reply.header("content-type"), Some("application/json"));
}
