// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `host:port` of the backup sidecar as a flag gives it. Resolves and dials nothing.
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Where the sidecar listens. An empty host in the flag means `localhost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarAddress {
    /// A name or an IP address; IPv6 without its brackets, as certificates and resolvers want it.
    pub host: String,
    /// 1–65535.
    pub port: u16,
}

/// Why a text is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPortError {
    /// There is a scheme in front.
    #[error("must be <host>:<port> without a scheme, as in localhost:8080")]
    Scheme,
    /// There is no port.
    #[error("needs host and port, as in localhost:8080 (an empty host means localhost)")]
    NoPort,
    /// Brackets that do not belong together.
    #[error("an IPv6 address needs brackets, as in [::1]:8080")]
    Brackets,
    /// What stands in brackets is no IPv6 address.
    #[error("{0:?} is not an IPv6 address")]
    NotIpv6(String),
    /// The port is none of 1–65535.
    #[error("{0:?} is not a port between 1 and 65535")]
    Port(String),
    /// The host is neither a name nor an address.
    #[error("{0:?} is not a host name")]
    Host(String),
}

impl SidecarAddress {
    /// `host:port` for a URL's authority and the Host header: IPv6 in brackets.
    pub fn authority(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for SidecarAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for SidecarAddress {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        if text.contains("://") || lower.starts_with("http:") || lower.starts_with("https:") {
            return Err(HostPortError::Scheme);
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']').ok_or(HostPortError::Brackets)?;
                let address = host.split_once('%').map_or(host, |(address, _zone)| address);
                address.parse::<Ipv6Addr>().map_err(|_| HostPortError::NotIpv6(host.to_owned()))?;
                (host, after.strip_prefix(':').ok_or(HostPortError::NoPort)?)
            }
            None => {
                let (host, port) = text.rsplit_once(':').ok_or(HostPortError::NoPort)?;
                if host.contains(':') {
                    return Err(HostPortError::Brackets);
                }
                (host, port)
            }
        };
        if port.is_empty() {
            return Err(HostPortError::NoPort);
        }
        // `u16::from_str` takes a leading plus sign; Go's dialer does not.
        let number = if port.bytes().all(|b| b.is_ascii_digit()) { port.parse::<u16>().ok() } else { None };
        let port = number.filter(|p| *p != 0).ok_or_else(|| HostPortError::Port(port.to_owned()))?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || "/@?#[]\\".contains(c);
        if host.contains(odd) {
            return Err(HostPortError::Host(host.to_owned()));
        }
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(host: &str, port: u16) -> SidecarAddress {
        SidecarAddress { host: host.to_owned(), port }
    }

    #[test]
    fn host_and_port_are_read() {
        assert_eq!("etcd-main-local:8080".parse(), Ok(address("etcd-main-local", 8080)));
        assert_eq!("127.0.0.1:1".parse(), Ok(address("127.0.0.1", 1)));
    }

    #[test]
    fn an_empty_host_means_localhost() {
        assert_eq!(":2379".parse(), Ok(address("localhost", 2379)));
    }

    #[test]
    fn a8_ipv6_in_brackets_keeps_its_whole_address() {
        let parsed: SidecarAddress = "[::1]:8080".parse().unwrap();
        assert_eq!(parsed, address("::1", 8080));
        assert_eq!(parsed.authority(), "[::1]:8080");
    }

    #[test]
    fn bad_addresses_are_refused() {
        let table = [
            ("2379", HostPortError::NoPort),
            ("localhost", HostPortError::NoPort),
            ("localhost:", HostPortError::NoPort),
            ("", HostPortError::NoPort),
            ("[::1]", HostPortError::NoPort),
            ("http://localhost:2379", HostPortError::Scheme),
            ("https:localhost:2379", HostPortError::Scheme),
            ("::1:8080", HostPortError::Brackets),
            ("[::1:8080", HostPortError::Brackets),
            ("[localhost]:8080", HostPortError::NotIpv6("localhost".into())),
            ("localhost:0", HostPortError::Port("0".into())),
            ("localhost:+80", HostPortError::Port("+80".into())),
            ("localhost:65536", HostPortError::Port("65536".into())),
            ("localhost:http", HostPortError::Port("http".into())),
            ("a b:80", HostPortError::Host("a b".into())),
            ("user@host:80", HostPortError::Host("user@host".into())),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<SidecarAddress>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(host in "[a-z0-9][a-z0-9.-]{0,20}", port in 1_u16..) {
            let original = address(&host, port);
            prop_assert_eq!(original.to_string().parse(), Ok(original));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,30}") {
            let _ = text.parse::<SidecarAddress>();
        }
    }
}
