// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double's answers.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tiny_http::{Header, Request, Response};

use super::State;
use crate::image::Digest;

type Answer = (u16, Value);

pub(super) fn serve(state: &Mutex<State>, mut request: Request) {
    let mut body = Vec::new();
    let cut_short = request.as_reader().read_to_end(&mut body).is_err();
    let method = request.method().to_string();
    let url = request.url().to_owned();
    let sent = |name: &str| {
        let header =
            request.headers().iter().find(|header| header.field.as_str().as_str().eq_ignore_ascii_case(name));
        header.map(|header| header.value.to_string())
    };
    let authorised = sent("Authorization");
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.calls.push(format!("{method} {url}"));
    let (status, answer) = if cut_short {
        (400, json!({"message": "the body was cut off"}))
    } else {
        answer(&mut state, &method, &url, authorised.as_deref(), body)
    };
    drop(state);
    let mut response = Response::from_data(answer.to_string().into_bytes()).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", "application/json") {
        response = response.with_header(header);
    }
    // A client that went away is none of ours.
    let _ = request.respond(response);
}

fn answer(state: &mut State, method: &str, url: &str, authorised: Option<&str>, body: Vec<u8>) -> Answer {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    if authorised != Some(&format!("Bearer {}", state.token)) {
        return (401, json!({"message": "Bad credentials"}));
    }
    let upload = path.strip_prefix("/upload");
    let repository = format!("/repos/{}", state.slug);
    let Some(rest) = upload.unwrap_or(path).strip_prefix(&repository) else {
        return not_found();
    };
    if method != "GET" && (state.faults.read_only || state.faults.refused == Some(method)) {
        return (403, json!({"message": "Resource not accessible by integration"}));
    }
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    match (method, &parts[..]) {
        ("GET", []) => {
            (200, json!({"full_name": state.slug, "permissions": {"push": !state.faults.read_only}}))
        }
        ("GET", ["commits", _, "check-runs"]) => {
            let conclusion = state.faults.checks.unwrap_or("success");
            let run = json!({"name": "gate", "status": "completed", "conclusion": conclusion});
            (200, json!({"total_count": 1, "check_runs": [run]}))
        }
        ("GET", ["releases"]) => {
            let first = !query.split('&').any(|pair| pair.starts_with("page=") && pair != "page=1");
            let releases = state.releases.values().rev().filter(|_| first);
            (200, releases.cloned().collect())
        }
        ("POST", ["releases"]) => create(state, &body),
        ("PATCH", ["releases", id]) => change(state, id, &body),
        ("POST", ["releases", id, "assets"]) if upload.is_some() => attach(state, id, query, body),
        ("DELETE", ["releases", "assets", id]) => detach(state, id),
        _ => not_found(),
    }
}

fn not_found() -> Answer {
    (404, json!({"message": "Not Found"}))
}

fn create(state: &mut State, body: &[u8]) -> Answer {
    let Ok(wish) = serde_json::from_slice::<Value>(body) else { return (400, json!({"message": "no JSON"})) };
    let taken = |one: &&Value| one["tag_name"] == wish["tag_name"] && one["draft"] == false;
    if wish["draft"] == false && state.releases.values().any(|one| taken(&one)) {
        return (422, json!({"message": "Validation Failed: already_exists"}));
    }
    state.next_id += 1;
    let id = state.next_id;
    let upload = format!(
        "http://127.0.0.1:{}/upload/repos/{}/releases/{id}/assets{{?name,label}}",
        state.port, state.slug
    );
    let release = json!({
        "id": id, "tag_name": wish["tag_name"], "target_commitish": wish["target_commitish"], "name": wish["name"],
        "body": wish["body"], "draft": wish["draft"], "upload_url": upload, "assets": [],
    });
    state.releases.insert(id, release.clone());
    (201, release)
}

fn change(state: &mut State, id: &str, body: &[u8]) -> Answer {
    let Ok(wish) = serde_json::from_slice::<Value>(body) else { return (400, json!({"message": "no JSON"})) };
    let Some(release) = id.parse().ok().and_then(|id: u64| state.releases.get_mut(&id)) else {
        return not_found();
    };
    for (name, value) in wish.as_object().into_iter().flatten() {
        release[name] = value.clone();
    }
    (200, release.clone())
}

fn attach(state: &mut State, id: &str, query: &str, body: Vec<u8>) -> Answer {
    let name = query.split('&').find_map(|pair| pair.strip_prefix("name=")).unwrap_or_default().to_owned();
    state.next_id += 1;
    let asset_id = state.next_id;
    let cut_off = std::mem::take(&mut state.faults.cut_off);
    let Some(release) = id.parse().ok().and_then(|id: u64| state.releases.get_mut(&id)) else {
        return not_found();
    };
    let Some(assets) = release["assets"].as_array_mut() else { return not_found() };
    if name.is_empty() || assets.iter().any(|asset| asset["name"] == name.as_str()) {
        return (422, json!({"message": "Validation Failed: already_exists"}));
    }
    let asset = json!({
        "id": asset_id, "name": name, "size": if cut_off { 0 } else { body.len() },
        "state": if cut_off { "starter" } else { "uploaded" },
        "digest": if cut_off { Value::Null } else { Digest::of(&body).to_string().into() },
    });
    assets.push(asset.clone());
    if cut_off {
        return (502, json!({"message": "the connection was lost"}));
    }
    state.files.insert(asset_id, body);
    (201, asset)
}

fn detach(state: &mut State, id: &str) -> Answer {
    let Ok(id) = id.parse::<u64>() else { return not_found() };
    for release in state.releases.values_mut() {
        let Some(assets) = release["assets"].as_array_mut() else { continue };
        let before = assets.len();
        assets.retain(|asset| asset["id"] != id);
        if assets.len() < before {
            state.files.remove(&id);
            return (204, Value::Null);
        }
    }
    not_found()
}
