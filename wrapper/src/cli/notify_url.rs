// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `--notify-url` as a typed value. User, password, path and query may be secrets: they leave it for the request alone,
//! and no error, log line or debug output shows them.
use std::fmt;
use std::net::Ipv6Addr;

use base64::Engine;
use http::HeaderValue;
use http::uri::{PathAndQuery, Scheme, Uri};

use super::host_port::SidecarAddress;
use crate::percent;

/// Where to POST what changed.
#[derive(Clone, PartialEq, Eq)]
pub struct NotifyUrl {
    /// `https`.
    pub tls: bool,
    /// IPv6 without brackets; a port is always there.
    pub address: SidecarAddress,
    /// Path and query; never logged.
    pub target: PathAndQuery,
    /// `Basic …`, of user and password in the URL.
    pub authorization: Option<HeaderValue>,
}

/// Why a text is no such URL; says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyUrlError {
    /// No URL at all.
    #[error("it is no absolute URL, as in http://127.0.0.1:8080/notify")]
    Malformed,
    /// Neither `http` nor `https`.
    #[error("its scheme is neither http nor https")]
    Scheme,
    /// The port is none of 1–65535.
    #[error("its port does not lie between 1 and 65535")]
    Port,
    /// User or password cannot be sent as Basic authorization.
    #[error("its user and password are not percent-encoded text")]
    User,
}

impl NotifyUrl {
    /// Reads the URL; a fragment is left out, as in every request.
    ///
    /// # Errors
    /// [`NotifyUrlError`].
    pub fn parse(text: &str) -> Result<Self, NotifyUrlError> {
        let uri: Uri = text.trim().parse().map_err(|_| NotifyUrlError::Malformed)?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) => return Err(NotifyUrlError::Scheme),
            None => return Err(NotifyUrlError::Malformed),
        };
        let authority = uri.authority().ok_or(NotifyUrlError::Malformed)?;
        let (user, place) = match authority.as_str().rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority.as_str()),
        };
        let host = authority.host();
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if inner.parse::<Ipv6Addr>().is_err() => return Err(NotifyUrlError::Malformed),
            Some(inner) => inner,
            None if host.is_empty() || host.contains([':', '[', ']', '@']) => {
                return Err(NotifyUrlError::Malformed);
            }
            None => host,
        };
        let port = match place.strip_prefix(authority.host()) {
            Some("") if tls => 443,
            Some("") => 80,
            port => {
                let digits = port.and_then(|port| port.strip_prefix(':')).ok_or(NotifyUrlError::Malformed)?;
                // `u16::from_str` takes a plus sign.
                let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|port| plain && *port > 0).ok_or(NotifyUrlError::Port)?
            }
        };
        let authorization = user.map(basic).transpose()?;
        let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        // Without a path the query stands alone.
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let target = target.parse().map_err(|_| NotifyUrlError::Malformed)?;
        Ok(Self { tls, address: SidecarAddress { host: host.to_owned(), port }, target, authorization })
    }

    /// `scheme://host:port`: all that may be shown.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

impl fmt::Debug for NotifyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NotifyUrl").field(&self.origin()).finish()
    }
}

fn basic(user: &str) -> Result<HeaderValue, NotifyUrlError> {
    let user = percent::decode(user).ok_or(NotifyUrlError::User)?;
    let user = if user.contains(&b':') { user } else { [&user[..], b":"].concat() };
    let value = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
    let mut value = HeaderValue::try_from(value).map_err(|_| NotifyUrlError::User)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = NotifyUrl::parse("https://ada:p%40ss@agent.example:8443/hook?token=t#part").unwrap();
        assert!(url.tls);
        assert_eq!(url.origin(), "https://agent.example:8443");
        assert_eq!(url.target.as_str(), "/hook?token=t");
        // ada:p@ss
        assert_eq!(url.authorization.unwrap(), "Basic YWRhOnBAc3M=");
        for (text, origin, target) in [
            ("http://localhost", "http://localhost:80", "/"),
            ("HTTPS://a.example?x=1", "https://a.example:443", "/?x=1"),
            ("http://[::1]:8080/a", "http://[::1]:8080", "/a"),
            ("http://[::1]/a", "http://[::1]:80", "/a"),
            ("http://127.0.0.1", "http://127.0.0.1:80", "/"),
        ] {
            let url = NotifyUrl::parse(text).unwrap();
            assert_eq!((url.origin().as_str(), url.target.as_str()), (origin, target), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for (text, why) in [
            ("", NotifyUrlError::Malformed),
            ("localhost:80", NotifyUrlError::Malformed),
            ("/hook", NotifyUrlError::Malformed),
            ("http://", NotifyUrlError::Malformed),
            ("http://a b/", NotifyUrlError::Malformed),
            ("http://[@]", NotifyUrlError::Malformed),
            ("http://[a.example]/", NotifyUrlError::Malformed),
            ("ftp://a.example/", NotifyUrlError::Scheme),
            ("unix:///run/x", NotifyUrlError::Malformed),
            ("http://a.example:0/", NotifyUrlError::Port),
            ("http://a.example:+80/", NotifyUrlError::Port),
            ("http://a.example:65536/", NotifyUrlError::Port),
            ("http://%zz@a.example/", NotifyUrlError::User),
        ] {
            assert_eq!(NotifyUrl::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn j2_debug_output_shows_the_origin_alone() {
        let url = NotifyUrl::parse("http://ada:secret@a.example/secret?secret").unwrap();
        assert_eq!(format!("{url:?}"), "NotifyUrl(\"http://a.example:80\")");
    }
}
