// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Holds answers against `openapi.json`: path, method, status, headers, media type, every key. Shared by the unit tests'
//! rig and the integration tests' caller, so that no test can receive an answer that the document does not know.
//!
//! The document is open, for clients; here it is closed: a key or word that is not written down is an error.
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

/// The document as it is served.
pub(crate) const TEXT: &str = include_str!("../../../openapi.json");

/// One request and what came back.
#[derive(Clone, Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a str,
}

struct Document {
    root: Value,
    /// By the place of the schema.
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let mut root = serde_json::from_str(TEXT).expect("openapi.json is JSON");
    close(&mut root);
    Document { root, compiled: Mutex::default() }
});

/// The document with every schema closed.
pub(crate) fn document() -> &'static Value {
    &DOCUMENT.root
}

/// Is this exchange one that the document tells of?
///
/// # Errors
/// What it does not tell.
pub(crate) fn check(exchange: &Exchange<'_>) -> Result<(), String> {
    let (path, query) = exchange.target.split_once('?').unwrap_or((exchange.target, ""));
    let known = find(path).and_then(|item| operation(item, exchange.method));
    let (responses, place) = match &known {
        Some(operation) => (&operation["responses"], format!("{} {path}", exchange.method)),
        None => (&document()["x-everywhere"], "x-everywhere".into()),
    };
    let status = exchange.status.to_string();
    let response = responses.get(&status).map(resolve);
    let response = response.ok_or_else(|| format!("{place}: no response {status}"))?;
    let place = format!("{place} {status}");
    if (200..300).contains(&exchange.status) && path.starts_with("/v1/") {
        let known = known.map(parameter_names).unwrap_or_default();
        let mut given =
            query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
        if let Some(name) = given.find(|name| !known.contains(*name)) {
            return Err(format!("{place}: parameter {name} was taken, and is not written down"));
        }
    }
    if exchange.status == 405 {
        let wanted: BTreeSet<_> = find(path).map(methods).unwrap_or_default();
        let given = header(exchange, "allow").unwrap_or_default().split(", ").map(Into::into).collect();
        if wanted != given {
            return Err(format!("{place}: Allow is {given:?}, and there are {wanted:?}"));
        }
    }
    check_headers(exchange, response, &place)?;
    check_body(exchange, response, &place)
}

fn check_headers(exchange: &Exchange<'_>, response: &Value, place: &str) -> Result<(), String> {
    let none = Map::new();
    let documented = response["headers"].as_object().unwrap_or(&none);
    for (name, header_) in documented {
        match header(exchange, &name.to_ascii_lowercase()) {
            None if header_["required"] == true => return Err(format!("{place}: no header {name}")),
            None => {}
            Some(value) => {
                let number = header_["schema"]["type"] == "integer";
                let value =
                    if number { value.parse::<u64>().map_or(json!(value), Into::into) } else { json!(value) };
                check_value(&format!("{place} {name}"), &header_["schema"], &value)?;
            }
        }
    }
    let ours = |name: &str| name.starts_with("etcd-wrapper-") || matches!(name, "allow" | "retry-after");
    let strange = exchange
        .headers
        .iter()
        .map(|(name, _)| name)
        .find(|name| ours(name) && !documented.keys().any(|known| known.eq_ignore_ascii_case(name)));
    strange.map_or(Ok(()), |name| Err(format!("{place}: header {name} is not written down")))
}

fn check_body(exchange: &Exchange<'_>, response: &Value, place: &str) -> Result<(), String> {
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        return match exchange.body {
            "" => Ok(()),
            body => Err(format!("{place}: there is no body by the document, and there came {body:?}")),
        };
    };
    let Some(given) = header(exchange, "content-type") else {
        return match (exchange.body, response["x-may-be-empty"] == true) {
            ("", true) => Ok(()),
            (body, _) => Err(format!("{place}: no media type, and the body {body:?}")),
        };
    };
    let essence = given.split(';').next().unwrap_or_default().trim();
    let media =
        content.get(essence).ok_or_else(|| format!("{place}: media type {essence} is not written down"))?;
    if exchange.method == "HEAD" {
        return if exchange.body.is_empty() { Ok(()) } else { Err(format!("{place}: a body for HEAD")) };
    }
    let place = format!("{place} {essence}");
    if essence.ends_with("json") {
        let body = serde_json::from_str(exchange.body).map_err(|error| format!("{place}: {error}"))?;
        check_value(&place, &media["schema"], &body)?;
        return match body.get("status").filter(|_| essence == "application/problem+json") {
            Some(status) if *status != exchange.status => Err(format!("{place}: the document says {status}")),
            _ => Ok(()),
        };
    }
    check_value(&place, &media["schema"], &json!(exchange.body))
}

/// Is this a message that the stream of events may send?
///
/// # Errors
/// What the document does not tell of.
pub(crate) fn check_message(topic: &str, data: &Value) -> Result<(), String> {
    let response = &document()["paths"]["/v1/events"]["get"]["responses"]["200"];
    let topics = &response["content"]["text/event-stream"]["x-sse-events"];
    let schema = topics.get(topic).ok_or_else(|| format!("topic {topic} is not written down"))?;
    check_value(topic, schema, data)
}

/// Is this the body of a notification?
///
/// # Errors
/// What the document does not tell of.
pub(crate) fn check_notification(data: &Value) -> Result<(), String> {
    let request = &document()["webhooks"]["notification"]["post"]["requestBody"];
    check_value("notification", &request["content"]["application/json"]["schema"], data)
}

/// Validates against one schema of the document. `place` names the schema: the same place is the same schema.
///
/// # Errors
/// Every fault, with its pointer.
pub(crate) fn check_value(place: &str, schema: &Value, value: &Value) -> Result<(), String> {
    let validator = {
        let mut compiled = DOCUMENT.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        // Path segments vary, schemas do not.
        Arc::clone(compiled.entry(schema.to_string()).or_insert_with(|| Arc::new(compile(place, schema))))
    };
    let faults: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{place}: {}\nin {value}", faults.join("\n"))) }
}

fn compile(place: &str, schema: &Value) -> Validator {
    let mut schema = schema.clone();
    // References begin at the root of what is compiled.
    schema["components"] = document()["components"].clone();
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
    options.build(&schema).unwrap_or_else(|error| panic!("{place} is no schema: {error}"))
}

/// Lets schemas know only what they name.
fn close(value: &mut Value) {
    if let Value::Object(object) = value {
        let is_schema = object.get("properties").is_some_and(Value::is_object) && object.contains_key("type");
        if is_schema {
            object.entry("additionalProperties").or_insert(json!(false));
        }
        if let Some(words) = object.get("x-extensible-enum").cloned() {
            object.insert("enum".into(), words);
        }
        object.values_mut().for_each(close);
    } else if let Value::Array(list) = value {
        list.iter_mut().for_each(close);
    }
}

/// What a reference stands for, or the thing itself.
pub(crate) fn resolve(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let pointer = reference.strip_prefix('#').expect("references stay within the document");
            document().pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
        }
        None => value,
    }
}

/// The item of a path: itself, or one whose last segment stands in braces.
fn find(path: &str) -> Option<&'static Value> {
    let paths = document()["paths"].as_object().expect("paths are an object");
    paths.get(path).or_else(|| {
        let (prefix, _) = path.rsplit_once('/').filter(|(_, last)| !last.is_empty())?;
        let takes_any = |template: &str| {
            template.rsplit_once('/').is_some_and(|(known, name)| known == prefix && name.starts_with('{'))
        };
        paths.iter().find(|(template, _)| takes_any(template)).map(|(_, item)| item)
    })
}

/// Method names are case-sensitive: `post` is no `POST`.
fn operation(item: &'static Value, method: &str) -> Option<&'static Value> {
    let method = if method == "HEAD" { "GET" } else { method };
    let mut known = item.as_object().expect("path items are objects").iter();
    known.find(|(name, _)| name.to_ascii_uppercase() == method).map(|(_, operation)| operation)
}

fn methods(item: &Value) -> BTreeSet<String> {
    let named = item.as_object().into_iter().flat_map(Map::keys).map(|method| method.to_ascii_uppercase());
    let mut methods: BTreeSet<_> = named.collect();
    if methods.contains("GET") {
        methods.insert("HEAD".into());
    }
    methods
}

/// Names of the query parameters of an operation.
pub(crate) fn parameter_names(operation: &'static Value) -> BTreeSet<&'static str> {
    let all = operation["parameters"].as_array().into_iter().flatten().map(resolve);
    all.filter(|parameter| parameter["in"] == "query")
        .filter_map(|parameter| parameter["name"].as_str())
        .collect()
}

fn header<'a>(exchange: &'a Exchange<'_>, name: &str) -> Option<&'a str> {
    exchange.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
