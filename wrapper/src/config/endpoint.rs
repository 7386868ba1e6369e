// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where the wrapper's own client reaches the local etcd, derived from `listen-client-urls`. Never from what is
//! advertised: that may be a load balancer. Dials nothing.
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::{ConfigError, EtcdConfig, EtcdVersion};

/// One reachable client endpoint of the local member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEndpoint {
    /// `https` or `unixs`.
    pub tls: bool,
    /// Where to connect.
    pub address: Address,
    /// False: no listen URL has the port of `--etcd-client-port`, and this one's own is used. Worth a warning.
    pub has_flags_port: bool,
}

/// Of a listener on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Never a wildcard address, never port 0.
    Tcp(SocketAddr),
    /// As etcd binds it; a relative path is relative to etcd's working directory.
    Unix(PathBuf),
}

impl fmt::Display for ClientEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, self.tls) {
            (Address::Tcp(address), false) => write!(f, "http://{address}"),
            (Address::Tcp(address), true) => write!(f, "https://{address}"),
            (Address::Unix(path), false) => write!(f, "unix://{}", path.display()),
            (Address::Unix(path), true) => write!(f, "unixs://{}", path.display()),
        }
    }
}

/// Chooses among `listen-client-urls`: the URL with the port of `--etcd-client-port` first, then a unix socket, then
/// the rest; loopback and wildcard before a concrete address. `flags_port` is None for a posted configuration, whose own
/// ports count.
///
/// # Errors
/// A URL that etcd could not bind either, or port 0, which nobody could find.
pub fn client_endpoint(config: &EtcdConfig, flags_port: Option<u16>) -> Result<ClientEndpoint, ConfigError> {
    let pointer = "/listen-client-urls";
    nearest(&config.listen_client_urls, pointer, flags_port)?
        .ok_or_else(|| ConfigError::one(pointer, "is missing"))
}

/// Where `/metrics` and `/health` are served when that is not where gRPC is: `listen-client-http-urls` takes them away
/// from the client URLs. None: it is not given, or etcd `version` does not know it and ignores it.
///
/// # Errors
/// As for [`client_endpoint`].
pub fn http_endpoint(
    config: &EtcdConfig,
    version: Option<&str>,
) -> Result<Option<ClientEndpoint>, ConfigError> {
    let key = "listen-client-http-urls";
    let known = version.and_then(EtcdVersion::parse).and_then(|version| version.knows(key));
    if known == Some(false) {
        return Ok(None);
    }
    nearest(&config.listen_client_http_urls, "/listen-client-http-urls", None)
}

fn nearest(
    urls: &[String],
    pointer: &str,
    flags_port: Option<u16>,
) -> Result<Option<ClientEndpoint>, ConfigError> {
    let mut best: Option<((u8, bool), ClientEndpoint)> = None;
    for url in urls {
        let (tls, address) =
            parse(url).map_err(|why| ConfigError::one(pointer, format!("{url:?} cannot be used: {why}")))?;
        let (rank, concrete) = match &address {
            Address::Tcp(tcp) if flags_port.is_none_or(|port| port == tcp.port()) => {
                (0, !tcp.ip().is_loopback())
            }
            Address::Unix(_) => (1, false),
            Address::Tcp(tcp) => (2, !tcp.ip().is_loopback()),
        };
        let has_flags_port = rank < 2;
        if best.as_ref().is_none_or(|(have, _)| (rank, concrete) < *have) {
            best = Some(((rank, concrete), ClientEndpoint { tls, address, has_flags_port }));
        }
    }
    Ok(best.map(|(_, endpoint)| endpoint))
}

fn parse(url: &str) -> Result<(bool, Address), String> {
    let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" | "unix" => false,
        "https" | "unixs" => true,
        _ => return Err(format!("its scheme {scheme:?} is none of http, https, unix, unixs")),
    };
    if scheme.to_ascii_lowercase().starts_with("unix") {
        // etcd binds host and path of the URL put together.
        if rest.is_empty() {
            return Err("it has no path".to_owned());
        }
        return Ok((tls, Address::Unix(PathBuf::from(rest))));
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = authority.rsplit_once(':').ok_or("it has no port")?;
    // Rust takes a plus sign, Go does not.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|_| digits).ok_or_else(|| format!("{port:?} is no port"))?;
    if port == 0 {
        return Err("port 0 lets the system choose, and then nobody knows where etcd listens".to_owned());
    }
    let ip = match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().map(IpAddr::V6).ok(),
        None if host == "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        None => host.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
    };
    let ip = ip.ok_or_else(|| format!("etcd binds IP addresses only, and {host:?} is none"))?;
    // etcd binds either wildcard for both families, and every network namespace has 127.0.0.1 (not always ::1).
    let ip = if ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { ip };
    Ok((tls, Address::Tcp(SocketAddr::new(ip, port))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::tests::with_urls;

    fn endpoint(urls: &str, port: Option<u16>) -> String {
        client_endpoint(&with_urls(urls), port).unwrap().to_string()
    }

    #[test]
    fn wildcards_are_dialled_at_loopback_and_concrete_addresses_as_they_are() {
        let table = [
            ("https://0.0.0.0:2379", "https://127.0.0.1:2379"),
            ("http://[::]:2379", "http://127.0.0.1:2379"),
            ("http://localhost:2379", "http://127.0.0.1:2379"),
            ("http://10.1.2.3:2379", "http://10.1.2.3:2379"),
            ("https://[::1]:2379", "https://[::1]:2379"),
            ("https://[fd00::1]:2379/", "https://[fd00::1]:2379"),
            ("unix:///run/etcd.sock", "unix:///run/etcd.sock"),
            ("unixs://localhost:m0", "unixs://localhost:m0"),
        ];
        for (urls, expected) in table {
            assert_eq!(endpoint(urls, Some(2379)), expected);
        }
    }

    #[test]
    fn the_url_with_the_flags_port_is_preferred() {
        let urls = "http://10.0.0.1:1111,unix:///s,https://10.0.0.2:2222,https://127.0.0.1:2222";
        assert_eq!(endpoint(urls, Some(2222)), "https://127.0.0.1:2222");
        assert_eq!(endpoint(urls, Some(3333)), "unix:///s");
        assert_eq!(endpoint("http://127.0.0.1:1111,http://127.0.0.1:2222", None), "http://127.0.0.1:1111");
    }

    #[test]
    fn a_port_that_is_not_the_flags_is_used_and_shown() {
        let found = client_endpoint(&with_urls("http://0.0.0.0:12379"), Some(2379)).unwrap();
        assert_eq!(found.to_string(), "http://127.0.0.1:12379");
        assert!(!found.has_flags_port);
    }

    #[test]
    fn urls_that_nobody_could_dial_are_refused() {
        for url in [
            "http://127.0.0.1:0",
            "http://127.0.0.1",
            "127.0.0.1:2379",
            "ftp://127.0.0.1:2379",
            "http://etcd.example.org:2379",
            "http://:2379",
            "http://[::1:2379",
            "http://127.0.0.1:65536",
            "http://127.0.0.1:+2379",
            "unix://",
        ] {
            let error = client_endpoint(&with_urls(url), None).expect_err(url);
            assert_eq!(error.problems[0].pointer, "/listen-client-urls");
            assert!(error.to_string().contains(url), "{error}");
        }
    }

    #[test]
    fn d5_http_is_looked_for_where_this_etcd_serves_it() {
        let mut config = with_urls("https://0.0.0.0:2379");
        assert_eq!(http_endpoint(&config, Some("3.6.16")), Ok(None));
        config.listen_client_http_urls = vec!["http://10.0.0.1:2381".into(), "http://0.0.0.0:2382".into()];
        for version in [None, Some("3.4.25"), Some("3.5.8"), Some("3.6.16"), Some("9.0.0")] {
            let found = http_endpoint(&config, version).unwrap().expect("it is given");
            assert_eq!(found.to_string(), "http://127.0.0.1:2382", "{version:?}");
        }
        for version in ["3.4.24", "3.5.7"] {
            assert_eq!(http_endpoint(&config, Some(version)), Ok(None), "{version} ignores the key");
        }
        config.listen_client_http_urls = vec!["http://etcd.example.org:2381".into()];
        let error = http_endpoint(&config, None).unwrap_err();
        assert_eq!(error.problems[0].pointer, "/listen-client-http-urls");
    }

    proptest! {
        #[test]
        fn no_url_makes_it_panic(url in "(https?|unixs?)?(://)?[\\[\\]a-z0-9:./]{0,30}") {
            let _ = parse(&url);
        }
    }
}
