// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a release takes from the environment, and and the only place of a release that reads it: API and token, whom commits are by, and a
//! login. What is secret goes on in variables and files, never on a command line.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::release::git::Git;
use crate::release::github::{self, Client};

/// A variable that is set to something.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn token() -> Option<String> {
    // The second is what GitHub's own command line reads.
    variable("GITHUB_TOKEN").or_else(|| variable("GH_TOKEN"))
}

/// GitHub, as `GITHUB_API_URL` and `GITHUB_TOKEN` name it; Actions sets the first.
pub(super) fn github(slug: &str) -> Result<Client> {
    let base = variable("GITHUB_API_URL").unwrap_or_else(|| github::API.to_owned());
    Client::new(&base, slug, token())
}

/// The clone at `root`. In hosted CI pushes bear the token, and commits are by who started the run.
pub(super) fn git(root: &Path) -> Git {
    let git = Git::new(root);
    let Some(actor) = variable("GITHUB_ACTOR") else { return git };
    let server = variable("GITHUB_SERVER_URL").unwrap_or_else(|| "https://github.com".into());
    let id = variable("GITHUB_ACTOR_ID").map(|id| format!("{id}+")).unwrap_or_default();
    let header = format!("http.{server}/.extraheader");
    let mut settings =
        vec![("user.email", format!("{id}{actor}@users.noreply.github.com")), ("user.name", actor)];
    // The empty one takes away what a checkout may have left: two of them are refused.
    settings.extend(token().into_iter().flat_map(|token| {
        let basic = BASE64_STANDARD.encode(format!("x-access-token:{token}"));
        vec![(&*header, String::new()), (&*header, format!("AUTHORIZATION: basic {basic}"))]
    }));
    git.with(&settings)
}

/// Variables that log in at the registry of `repository`, with `REGISTRY_USER` and `REGISTRY_PASSWORD` if they are set; the
/// login lies in `folder`. Without them it is whatever `docker login` left.
pub(super) fn login(repository: &str, folder: &Path) -> Result<Vec<(String, OsString)>> {
    let Some(password) = variable("REGISTRY_PASSWORD") else { return Ok(Vec::new()) };
    let user = variable("REGISTRY_USER").context("REGISTRY_PASSWORD is set, and REGISTRY_USER is not")?;
    let host = repository.split('/').next().unwrap_or(repository);
    let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let path = folder.join("config.json");
    std::fs::write(&path, serde_json::json!({"auths": {host: {"auth": auth}}}).to_string())
        .with_context(|| format!("write {}", path.display()))?;
    Ok(vec![("DOCKER_CONFIG".into(), folder.into())])
}
