// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `report`: one text for a bug report. Each section stands for itself and says why where it has nothing; secrets are
//! left out of all of them. Reads only, and waits for nobody longer than the time limit.
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::wire::{self, Status};
use crate::cli::Bootstrap;
use crate::cli::client::Report;
use crate::config::{self, Address};
use crate::member::client::Client;
use crate::member::dial::{self, Dial, Tls};
use crate::member::view::Peer;
use crate::tls::client::{client_config, server_name};
use crate::tls::files::Pair;

use super::call::{Request, call};
use super::pod::{self, Pod};
use super::reach::Reach;
use super::term::columns;
use super::{ClientError, Shown, certificates, decode, history, scrub};

pub(super) async fn run(asked: Report) -> Result<Shown, ClientError> {
    super::only_this_pod(&asked.reach)?;
    let pod = Pod::look_around(&asked.reach);
    let status = get(&asked, &pod, "/v1/status").await;
    let parsed: Option<Status> = status.as_ref().ok().and_then(|body| decode("status", body).ok());
    let server =
        parsed.as_ref().map(|status| status.wrapper.pid).or(pod.server.as_ref().map(|server| server.pid));
    let etcd = parsed.as_ref().and_then(|status| status.etcd.pid);
    let sections = [
        ("Client", format!("etcd-wrapper {}", env!("CARGO_PKG_VERSION"))),
        ("Version", pretty(get(&asked, &pod, "/v1/version").await)),
        ("Status", pretty(status)),
        ("Members", members(&asked, &pod).await),
        ("Last ends", last_ends(&pod)),
        ("Flags", flags(server)),
        ("Configuration", configuration(&pod)),
        ("Certificates", all_certificates(&pod)),
        ("Limits of the wrapper", limits(server)),
        ("Limits of etcd", limits(etcd)),
    ];
    let mut text = String::new();
    for (title, body) in sections {
        // Once more over all: what a section lets through by mistake stops here.
        text.push_str(&format!("=== {title}\n{}\n\n", scrub::scrub(&super::term::plain(body.trim_end()))));
    }
    Ok(Shown::done(text))
}

async fn get(asked: &Report, pod: &Pod, path: &str) -> Result<bytes::Bytes, ClientError> {
    let reach = Reach::new(&asked.reach, pod)?;
    call(&reach, &Request::get(path)).await
}

fn not_to_be_had(error: impl std::fmt::Display) -> String {
    format!("not to be had: {error}")
}

/// JSON for people.
fn pretty(body: Result<bytes::Bytes, ClientError>) -> String {
    let body = match body {
        Ok(body) => body,
        Err(error) => return not_to_be_had(error),
    };
    let value = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned())
}

/// As etcd itself tells them, out of its own state: also without a quorum. Its HTTP gateway is off by default, so this
/// takes the wrapper's own caller of etcd.
async fn members(asked: &Report, pod: &Pod) -> String {
    let dial = match etcd(pod) {
        Ok(dial) => dial,
        Err(why) => return not_to_be_had(why),
    };
    let members = match Client::new(dial.clone(), dial).members(asked.reach.timeout).await {
        Ok(members) => members,
        Err(error) => return not_to_be_had(error),
    };
    let row = |peer: &Peer| {
        let role = if peer.is_learner { "learner" } else { "voter" };
        let own = if peer.id == members.self_id { "this member" } else { "" };
        vec![wire::member_id(peer.id), peer.name.clone(), role.into(), peer.peer_urls.join(","), own.into()]
    };
    columns(&members.peers.iter().map(row).collect::<Vec<_>>())
}

fn etcd(pod: &Pod) -> Result<Dial, String> {
    let config = pod.readable_config().ok_or("there is no configuration")?;
    let flags = pod.server.as_ref().map(|server| &server.flags);
    let port = flags.map(|flags| flags.etcd_client_port);
    let endpoint = config::client_endpoint(&config, port).map_err(|error| error.to_string())?;
    let (address, host) = match endpoint.address {
        Address::Tcp(address) => (dial::Address::Tcp(address), address.ip().to_string()),
        Address::Unix(path) => (dial::Address::Unix(path), "localhost".to_owned()),
    };
    if !endpoint.tls {
        return Ok(Dial { address, tls: None });
    }
    let pair = flags.and_then(|flags| flags.etcd_client_pair.as_ref());
    let pair = pair.map(|pair| Pair::load(&pod.seen(&pair.cert), &pod.seen(&pair.key))).transpose();
    let pair = pair.map_err(|error| error.to_string())?;
    let tls = client_config(&config, pair.as_ref()).map_err(|error| error.to_string())?;
    let tls = Arc::new(tls.ok_or("the configuration names no certificate for clients")?);
    let name = flags.and_then(|flags| flags.etcd_server_name.as_deref());
    let server_name = server_name(name, &host).map_err(|error| error.to_string())?;
    Ok(Dial { address, tls: Some(Tls { config: tls, server_name }) })
}

fn last_ends(pod: &Pod) -> String {
    match history::read(&pod.seen(&pod.state_dir)) {
        Ok(records) => history::table(&records),
        Err(error) => not_to_be_had(error),
    }
}

fn configuration(pod: &Pod) -> String {
    let path = pod.seen(&pod.config_path);
    let bytes = match pod::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => return not_to_be_had(config::describe_unreadable(&path, &error)),
    };
    // What is no YAML has no keys to tell a secret by, so nothing of it is shown.
    let outline = match config::outline(&bytes) {
        Ok(outline) => outline,
        Err(_) => return format!("{} is no YAML, and not shown for that", path.display()),
    };
    let line = |(key, value): &(String, String)| {
        format!("{key}: {}\n", super::term::one_line(&scrub::value(key, value)))
    };
    let listed: String = outline.iter().map(line).collect();
    let verdict = match &pod.config {
        Ok(config) => config.digest.clone(),
        Err(why) => super::term::one_line(why),
    };
    format!("{} ({verdict})\n{listed}", path.display())
}

fn all_certificates(pod: &Pod) -> String {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Ok(config) = &pod.config {
        let keyless = config::files(config)
            .into_iter()
            .filter(|file| !matches!(file.role, config::FileRole::Key | config::FileRole::ClientKey));
        paths.extend(keyless.map(|file| file.path));
    }
    if let Some(server) = &pod.server {
        paths.extend(server.flags.etcd_client_pair.iter().map(|pair| pair.cert.clone()));
        if let Bootstrap::Sidecar(sidecar) = &server.flags.bootstrap {
            paths.extend(sidecar.ca.clone());
        }
    }
    if paths.is_empty() {
        return "none are named".to_owned();
    }
    paths.iter().map(|path| certificates::describe(&pod.seen(path))).collect()
}

/// The server's command line.
fn flags(pid: Option<u32>) -> String {
    let Some(pid) = pid else { return not_to_be_had("no wrapper was found") };
    match pod::read(format!("/proc/{pid}/cmdline").as_ref()) {
        Ok(bytes) => command_line(&bytes),
        Err(error) => not_to_be_had(error),
    }
}

/// One word a line. Of a webhook's URL only its place: many carry their secret in the path.
fn command_line(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut is_hook = false;
    for word in bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
        let word = super::term::one_line(&String::from_utf8_lossy(word));
        let (flag, value) =
            if is_hook { ("", word.as_str()) } else { word.split_once('=').unwrap_or((&word, "")) };
        let hook = flag.trim_start_matches('-') == "notify-url";
        let shown = match (is_hook || hook, value) {
            (_, "") => word.clone(),
            (true, url) => format!("{flag}{}{}", if hook { "=" } else { "" }, scrub::place(url)),
            (false, value) => format!("{flag}={}", scrub::value(flag, value)),
        };
        is_hook = hook && !word.contains('=');
        text.push_str(&shown);
        text.push('\n');
    }
    text
}

fn limits(pid: Option<u32>) -> String {
    let Some(pid) = pid else { return not_to_be_had("there is no such process") };
    match pod::read(format!("/proc/{pid}/limits").as_ref()) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => not_to_be_had(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j2_a_webhooks_url_is_shown_as_its_place_however_it_was_written() {
        let line = b"/etcd-wrapper\0start-etcd\0--hold\0--notify-url=https://u:HUNTER2@h:1/HUNTER2?a=HUNTER2\0-notify-url\0\
                     https://h/HUNTER2\0--state-dir=/s\0";
        let text = command_line(line);
        assert_eq!(
            text,
            "/etcd-wrapper\nstart-etcd\n--hold\n--notify-url=https://h:1/(left out)\n-notify-url\nhttps://h/(left out)\n\
             --state-dir=/s\n"
        );
    }
}
