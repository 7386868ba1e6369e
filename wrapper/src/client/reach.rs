// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Whom to ask, and by which schemes in which order. On loopback etcd's own configuration tells: with its client TLS on,
//! the wrapper serves TLS once the certificate is loaded, and plain HTTP until then. Opens no connection.
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::cli::client::Reach as Flags;
use crate::config::EtcdConfig;
use crate::tls::client::{client_config, server_name, with_verifier};
use crate::tls::files::{CertificateFile, Pair};
use crate::tls::trust::{Bundle, by_bundle};

use super::ClientError;
use super::certificates::names;
use super::pod::Pod;

/// One wrapper and the ways to it.
#[derive(Debug)]
pub(super) struct Reach {
    /// A name or an address, without brackets; `localhost` is never looked up.
    pub(super) host: String,
    pub(super) port: u16,
    /// Tried in this order until one is the scheme in force; never empty.
    pub(super) doors: Vec<Door>,
    pub(super) timeout: Duration,
    /// Why there is no TLS among the doors, for people.
    pub(super) without_tls: Option<String>,
}

/// A scheme with what it needs.
#[derive(Clone)]
pub(super) enum Door {
    Plain,
    Tls { config: Arc<ClientConfig>, name: ServerName<'static> },
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration may hold a private key.
        match self {
            Self::Plain => f.write_str("Plain"),
            Self::Tls { name, .. } => write!(f, "Tls({})", name.to_str()),
        }
    }
}

impl Reach {
    /// # Errors
    /// A URL that cannot be meant; certificates that are named and cannot be used.
    pub(super) fn new(flags: &Flags, pod: &Pod) -> Result<Self, ClientError> {
        let pair = match (&flags.cert, &flags.key) {
            (Some(cert), Some(key)) => Some(Pair::load(cert, key).map_err(failed)?),
            _ => None,
        };
        let (scheme, host, port) = match &flags.server {
            Some(url) => parse(url).map_err(ClientError::Usage)?,
            None => (None, "localhost".to_owned(), flags.etcd_wrapper_port),
        };
        let tls = tls(flags, pod, pair.as_ref(), &host);
        let (doors, without_tls) = match (scheme, tls) {
            (Some(Scheme::Plain), _) => (vec![Door::Plain], None),
            (Some(Scheme::Tls), tls) => (vec![tls?.map_err(ClientError::Failed)?], None),
            (None, Ok(Ok(door))) => (vec![door, Door::Plain], None),
            (None, Ok(Err(why))) => (vec![Door::Plain], Some(why)),
            // What a flag names must be usable, else we would ask somebody who was not meant.
            (None, Err(error)) => return Err(error),
        };
        Ok(Self { host, port, doors, timeout: flags.timeout, without_tls })
    }

    /// `localhost:9095`, `[::1]:9095`: the Host header, and what messages say.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn failed(error: impl ToString) -> ClientError {
    ClientError::Failed(error.to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Plain,
    Tls,
}

/// Scheme, host without brackets, port (9095 where none is named).
fn parse(url: &str) -> Result<(Option<Scheme>, String, u16), String> {
    let unusable = |why: &str| format!("--server {url:?} {why}: write http://HOST:PORT or https://HOST:PORT");
    let parsed: http::Uri = url.parse().map_err(|_| unusable("is no URL"))?;
    let scheme = match parsed.scheme_str() {
        Some("http") => Scheme::Plain,
        Some("https") => Scheme::Tls,
        Some(_) | None => return Err(unusable("is neither http nor https")),
    };
    if parsed.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return Err(unusable("has a path"));
    }
    let authority = parsed.authority().ok_or_else(|| unusable("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(unusable("has a user"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(unusable("has no host"));
    }
    let port = match (
        authority.port_u16(),
        authority.as_str().ends_with(']') || !authority.as_str().contains(':'),
    ) {
        (Some(0), _) | (None, false) => return Err(unusable("has no usable port")),
        (Some(port), _) => port,
        (None, true) => 9095,
    };
    Ok((Some(scheme), host.to_owned(), port))
}

/// How to speak TLS; inside an error: why that cannot be known without anybody being at fault.
fn tls(
    flags: &Flags,
    pod: &Pod,
    pair: Option<&Pair>,
    host: &str,
) -> Result<Result<Door, String>, ClientError> {
    let config = pod.readable_config();
    let own_cert = config.as_ref().and_then(|config| config.client_tls.cert_file.as_deref());
    let name = match &flags.server_name {
        Some(name) => name.clone(),
        None => own_cert.filter(|_| is_loopback(host)).and_then(own_name).unwrap_or_else(|| host.to_owned()),
    };
    let name = server_name(Some(&name), host)
        .map_err(|_| ClientError::Usage(format!("{name:?} is no name that a certificate could have")))?;
    if let Some(ca) = &flags.cacert {
        let bundle = Bundle::load(ca).map_err(failed)?;
        return Ok(Ok(Door::Tls { config: Arc::new(with_verifier(by_bundle(&bundle), pair)), name }));
    }
    Ok(by_config(config.as_ref(), pod, pair).map(|config| Door::Tls { config: Arc::new(config), name }))
}

fn by_config(config: Option<&EtcdConfig>, pod: &Pod, pair: Option<&Pair>) -> Result<ClientConfig, String> {
    let Some(config) = config else {
        let why = pod.config.as_ref().err().map_or("", String::as_str);
        return Err(format!("no certificate to trust is known: {why}; name one with --cacert"));
    };
    match client_config(config, pair) {
        Ok(Some(config)) => Ok(config),
        Ok(None) => Err(format!("{} has no client TLS", pod.config_path.display())),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A name out of the certificate that the wrapper will show on loopback. Reaching loopback proves more than a name
/// could: what counts is that the authority of the configuration vouches for it.
fn own_name(cert: &Path) -> Option<String> {
    let file = CertificateFile::load(cert).ok()?;
    let names = names(file.certificates.first()?);
    let usable = |name: &&String| !name.contains('*');
    let local = names.iter().find(|name| is_loopback(name)).or_else(|| names.iter().find(usable));
    match local {
        Some(name) => Some(name.clone()),
        None => names.first().map(|name| name.replace('*', "member")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::tls::authority::Authority;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    /// A pod with this configuration, and flags as they would be typed.
    fn reach(dir: &Path, config: Option<&str>, args: &[&str]) -> Result<Reach, ClientError> {
        let state = format!("--state-dir={}", dir.display());
        let line = ["x", &state].into_iter().chain(args.iter().copied());
        let flags = Line::try_parse_from(line).unwrap().flags;
        if let Some(config) = config {
            std::fs::write(dir.join("etcd.conf.yaml"), config).unwrap();
        }
        let path = dir.join("etcd.conf.yaml");
        let pod = Pod::of_file(&path, dir);
        Reach::new(&flags, &pod)
    }

    fn config(dir: &Path, tls: &str) -> String {
        format!(
            "name: a\ndata-dir: {}/data\ninitial-cluster: a=https://a:2380\n\
             listen-client-urls: https://0.0.0.0:2379\n{tls}\n",
            dir.display()
        )
    }

    fn doors(reach: &Reach) -> Vec<String> {
        reach.doors.iter().map(|door| format!("{door:?}")).collect()
    }

    #[test]
    fn without_a_configuration_plain_http_is_all_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let reach = reach(dir.path(), None, &[]).unwrap();
        assert_eq!(
            (doors(&reach), reach.authority()),
            (vec!["Plain".to_owned()], "localhost:9095".to_owned())
        );
        let why = reach.without_tls.unwrap();
        assert!(why.contains("etcd.conf.yaml") && why.contains("--cacert"), "{why}");
    }

    #[test]
    fn g7_with_client_tls_the_name_is_one_of_the_certificates_own() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let ca = authority.write_ca(&dir.path().join("ca.crt"));
        for (names, expected) in [
            (&["*.peer", "etcd-main-local"][..], "etcd-main-local"),
            (&["etcd-main-local", "localhost"], "localhost"),
            (&["etcd-main-local", "127.0.0.1"], "127.0.0.1"),
            (&["*.peer"], "member.peer"),
        ] {
            let pair = authority.write_server(dir.path(), "tls", names);
            for trusted in [format!(", trusted-ca-file: {}", ca.display()), String::new()] {
                let section = format!(
                    "client-transport-security: {{cert-file: {}, key-file: {}{trusted}}}",
                    pair.cert.display(),
                    pair.key.display()
                );
                let reach = reach(dir.path(), Some(&config(dir.path(), &section)), &[]).unwrap();
                let doors = doors(&reach);
                assert!(doors[0].contains(expected) && doors[1] == "Plain", "{doors:?}");
            }
        }
    }

    #[test]
    fn a_url_settles_the_scheme() {
        let dir = tempfile::tempdir().unwrap();
        let ca = Authority::new("ca").write_ca(&dir.path().join("ca.crt"));
        let plain = reach(dir.path(), None, &["--server=http://[fd00::1]:1"]).unwrap();
        assert_eq!((doors(&plain).len(), plain.authority().as_str()), (1, "[fd00::1]:1"));
        let cacert = format!("--cacert={}", ca.display());
        let tls = reach(dir.path(), None, &["--server=https://etcd.example.org", &cacert]).unwrap();
        assert!(doors(&tls) == [doors(&tls)[0].as_str()] && doors(&tls)[0].contains("etcd.example.org"));
        assert_eq!(tls.authority(), "etcd.example.org:9095");
        let named =
            reach(dir.path(), None, &["--server=https://localhost:1", &cacert, "--server-name=x"]).unwrap();
        assert!(doors(&named)[0].contains('x'), "{named:?}");
        // Nobody to trust: not asked at all, rather than without TLS.
        let error = reach(dir.path(), None, &["--server=https://localhost"]).unwrap_err();
        assert!(error.to_string().contains("--cacert"), "{error}");
    }

    #[test]
    fn urls_that_cannot_be_meant_are_usage_errors() {
        let dir = tempfile::tempdir().unwrap();
        for url in [
            "localhost:9095",
            "ftp://a",
            "http://",
            "http://a/v1",
            "http://u:p@a",
            "http://a:0",
            "http://a:x",
            "http://a?b",
        ] {
            let error = reach(dir.path(), None, &[&format!("--server={url}")]).unwrap_err();
            assert!(matches!(error, ClientError::Usage(_)), "{url}: {error}");
        }
    }

    #[test]
    fn files_that_flags_name_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        for args in [&["--cacert=/no/ca.crt"][..], &["--cert=/no/tls.crt", "--key=/no/tls.key"]] {
            let error = reach(dir.path(), None, args).unwrap_err();
            assert!(matches!(&error, ClientError::Failed(text) if text.contains("/no/")), "{error}");
        }
    }
}
