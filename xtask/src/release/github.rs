// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a release asks of GitHub's API, over one base URL: rights, checks, releases and their assets. The token is sent to
//! the API alone, over TLS or to this machine, and stands in no message. Retries nothing: what failed is run again.

mod answer;

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::config::AutoHeaderValue;
use ureq::tls::{RootCerts, TlsConfig};

/// Where the API is, unless the surroundings name another place.
pub(crate) const API: &str = "https://api.github.com";
/// One call; an upload gets more.
const LIMIT: Duration = Duration::from_secs(60);
const UPLOAD_LIMIT: Duration = Duration::from_secs(15 * 60);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A repository at GitHub.
pub(crate) struct Client {
    base: String,
    slug: String,
    token: Option<String>,
    agent: Agent,
}

/// One check of a commit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) conclusion: Option<String>,
}

/// A release, a draft or published.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Release {
    pub(crate) id: u64,
    pub(crate) tag_name: String,
    pub(crate) name: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) draft: bool,
    pub(crate) upload_url: String,
    pub(crate) assets: Vec<Asset>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Asset {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// `uploaded`; anything else was cut off.
    pub(crate) state: String,
    /// `sha256:…`; older servers do not tell.
    pub(crate) digest: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, slug, .. } = self;
        out.debug_struct("Client").field("base", base).field("slug", slug).finish_non_exhaustive()
    }
}

impl Check {
    /// Whether it stands in nobody's way.
    pub(crate) fn green(&self) -> bool {
        matches!(self.conclusion.as_deref(), Some("success" | "neutral" | "skipped"))
    }
}

impl Client {
    /// The repository `slug` (`owner/name`) at the API `base`.
    ///
    /// # Errors
    /// A token would travel in the clear.
    pub(crate) fn new(base: &str, slug: &str, token: Option<String>) -> Result<Self> {
        let base = base.trim_end_matches('/').to_owned();
        let local = is_local(&base);
        if !local && !base.starts_with("https://") {
            bail!("GITHUB_API_URL {base} is not https: the token would travel in the clear");
        }
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let mut config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(LIMIT))
            .timeout_connect(Some(CONNECT_LIMIT))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(AutoHeaderValue::from("etcd-wrapper-release"));
        if local {
            // Nothing between us and this machine.
            config = config.proxy(None);
        }
        Ok(Self { base, slug: slug.to_owned(), token, agent: config.build().into() })
    }

    /// Refuses a token that may not write.
    pub(crate) fn may_write(&self) -> Result<()> {
        if self.token.is_none() {
            bail!("no token: set GITHUB_TOKEN to one with the right `contents: write` for {}", self.slug);
        }
        let repository: Value = self.get("", &format!("look at the repository {}", self.slug))?;
        // A token of a workflow run is not told its rights here; what it lacks shows at the draft, before anything is out.
        match repository["permissions"]["push"].as_bool() {
            Some(false) => {
                bail!("the token may read {} and not write; give it the right `contents: write`", self.slug)
            }
            Some(true) | None => Ok(()),
        }
    }

    /// What ran for a commit.
    pub(crate) fn checks(&self, commit: &str) -> Result<Vec<Check>> {
        #[derive(Deserialize)]
        struct Page {
            total_count: usize,
            check_runs: Vec<Check>,
        }
        let mut all = Vec::new();
        for page in 1.. {
            let path = format!("/commits/{commit}/check-runs?filter=latest&per_page=100&page={page}");
            let Page { total_count, check_runs } =
                self.get(&path, &format!("ask for the checks of {commit}"))?;
            let last = check_runs.is_empty();
            all.extend(check_runs);
            if last || all.len() >= total_count {
                break;
            }
        }
        Ok(all)
    }

    /// The release of a tag, a draft too.
    pub(crate) fn release(&self, tag: &str) -> Result<Option<Release>> {
        for page in 1.. {
            let path = format!("/releases?per_page=100&page={page}");
            let releases: Vec<Release> = self.get(&path, "list the releases")?;
            if releases.is_empty() {
                break;
            }
            if let Some(found) = releases.into_iter().find(|release| release.tag_name == tag) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Makes a draft, which only those see who may write.
    pub(crate) fn draft(&self, tag: &str, commit: &str, notes: &str) -> Result<Release> {
        let body = json!({
            "tag_name": tag, "target_commitish": commit, "name": tag, "body": notes, "draft": true,
            "prerelease": false,
        });
        self.send("POST", "/releases", &body, &format!("make the draft of {tag}"))
    }

    /// Gives a release other notes.
    pub(crate) fn rewrite(&self, release: &Release, notes: &str) -> Result<Release> {
        let path = format!("/releases/{}", release.id);
        let what = format!("write the notes of {}", release.tag_name);
        self.send("PATCH", &path, &json!({"body": notes, "name": release.tag_name}), &what)
    }

    /// Shows a draft to everybody.
    pub(crate) fn publish(&self, release: &Release, latest: bool) -> Result<Release> {
        let path = format!("/releases/{}", release.id);
        let body = json!({"draft": false, "make_latest": if latest { "true" } else { "false" }});
        self.send("PATCH", &path, &body, &format!("publish {}", release.tag_name))
    }

    /// Attaches a file.
    pub(crate) fn upload(&self, release: &Release, name: &str, path: &Path) -> Result<Asset> {
        let base = release.upload_url.split('{').next().unwrap_or_default();
        if !base.starts_with("https://") && !is_local(base) {
            bail!("the upload of {name} would go to {base}, and the token would travel in the clear");
        }
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let size = file.metadata().with_context(|| format!("look at {}", path.display()))?.len();
        let mut request = self
            .agent
            .post(format!("{base}?name={name}"))
            .config()
            .timeout_global(Some(UPLOAD_LIMIT))
            .build()
            .header("Content-Type", "application/octet-stream")
            .header("Content-Length", size);
        for (key, value) in self.headers() {
            request = request.header(key, value);
        }
        answer::read(request.send(file), &format!("upload {name}"))
    }

    /// Takes an attached file away.
    pub(crate) fn remove(&self, asset: &Asset) -> Result<()> {
        let what = format!("remove the asset {}", asset.name);
        let mut request = self.agent.delete(self.url(&format!("/releases/assets/{}", asset.id)));
        for (key, value) in self.headers() {
            request = request.header(key, value);
        }
        answer::empty(request.call(), &what)
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str, what: &str) -> Result<T> {
        let mut request = self.agent.get(self.url(path));
        for (key, value) in self.headers() {
            request = request.header(key, value);
        }
        answer::read(request.call(), what)
    }

    fn send<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        what: &str,
    ) -> Result<T> {
        let url = self.url(path);
        let mut request = if method == "PATCH" { self.agent.patch(url) } else { self.agent.post(url) };
        for (key, value) in self.headers() {
            request = request.header(key, value);
        }
        answer::read(request.send_json(body), what)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/repos/{}{path}", self.base, self.slug)
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("Accept", "application/vnd.github+json".to_owned()),
            ("X-GitHub-Api-Version", "2022-11-28".to_owned()),
        ];
        all.extend(self.token.as_ref().map(|token| ("Authorization", format!("Bearer {token}"))));
        all
    }
}

/// Whether a URL leads to this machine and nowhere else.
pub(crate) fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_does_not_travel_in_the_clear_and_stands_in_no_message() {
        let token = || Some("secret-token".to_owned());
        for url in [
            "http://api.example.org",
            "http://localhost.example.org",
            "http://127.0.0.1@example.org",
            "ftp://x",
        ] {
            Client::new(url, "o/n", token()).expect_err(url);
        }
        for url in
            ["http://127.0.0.1:80", "https://api.example.org", "http://localhost:1/api", "http://[::1]:1"]
        {
            let client = Client::new(url, "o/n", token()).unwrap();
            assert!(!format!("{client:?}").contains("secret"), "{client:?}");
        }
    }

    #[test]
    fn without_network_the_place_that_was_not_reached_is_named() {
        // Bound and closed again: nobody listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client =
            Client::new(&format!("http://127.0.0.1:{port}"), "o/n", Some("secret-token".into())).unwrap();
        let error = format!("{:#}", client.may_write().unwrap_err());
        assert!(error.contains("look at the repository o/n") && error.contains("no answer"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
