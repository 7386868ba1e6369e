// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who may do what (api.md §5): from what is known of a connection and a request to a yes or the exact refusal.
//! Pure: opens nothing, reads no clock, logs nothing.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

pub use crate::tls::server::ClientIdentity;

use super::problem::{Code, Problem};

/// What the first byte of a connection said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP.
    Plain,
    /// HTTPS, with or without a client certificate.
    Tls,
}

/// What was settled when the connection was accepted; it stays so until the connection closes.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The address that the connection came from.
    pub peer: SocketAddr,
    /// How it is spoken.
    pub scheme: Scheme,
    /// etcd's own server certificate was loaded then; false: the self-signed one of the start.
    pub etcd_certificate: bool,
    /// The config names a client CA, but it cannot be read.
    pub trust_not_loaded: bool,
    /// What its client certificate proves.
    pub identity: ClientIdentity,
}

/// The standing rules, from flags.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `--control-loopback`: loopback peers have rights of their own.
    pub control_loopback: bool,
    /// `--control-identities`: CNs or SANs that may control.
    pub control_identities: Vec<String>,
    /// `--allow-remote-stop`: anybody may `/stop`, as with the Go wrapper.
    pub allow_remote_stop: bool,
}

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `/readyz`, `/livez`, `/startupz`: anybody, by either scheme.
    Probe,
    /// Anybody, by the scheme in force.
    Open,
    /// Documents of `/v1`.
    Read,
    /// Verbs, and whatever changes something.
    Control,
    /// `POST /stop`: control, or what `--allow-remote-stop` makes of it.
    Stop,
}

/// What a caller may do, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Whoever reaches the port.
    Open,
    /// May read documents.
    Read,
    /// May also change things.
    Control,
}

/// What one request adds to its connection's admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `Forwarded`, `X-Forwarded-*` or `Via`: a proxy delivers a stranger's request.
    pub forwarded: bool,
    /// `Origin`: a browser is at work.
    pub origin: bool,
    /// `Host` (or the target's authority) is a name that is not ours.
    pub foreign_host: bool,
}

impl Marks {
    /// Reads the marks of a request. `is_ours` knows the names we go by; localhost and IP literals always count.
    pub fn of(uri: &Uri, headers: &HeaderMap, is_ours: impl Fn(&str) -> bool) -> Self {
        let forwarded = headers.keys().any(|name| {
            *name == header::FORWARDED || *name == header::VIA || name.as_str().starts_with("x-forwarded-")
        });
        let known = |authority: &Authority| {
            let host = authority.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
            host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost") || is_ours(host)
        };
        // A request without Host is no browser's, so it cannot be the work of a rebound name.
        let by_header = headers.get_all(header::HOST).iter().all(|value| {
            value
                .to_str()
                .ok()
                .and_then(|host| host.parse::<Authority>().ok())
                .is_some_and(|host| known(&host))
        });
        let by_target = uri.authority().is_none_or(known);
        Self {
            forwarded,
            origin: headers.contains_key(header::ORIGIN),
            foreign_host: !(by_header && by_target),
        }
    }
}

/// Exactly the three loopback forms of api.md §5. Other addresses of 127.0.0.0/8 have no rights: proxies in a pod
/// deliver strangers' requests from there.
pub fn is_loopback(peer: IpAddr) -> bool {
    match peer {
        IpAddr::V4(v4) => v4 == Ipv4Addr::LOCALHOST,
        IpAddr::V6(v6) => v6 == Ipv6Addr::LOCALHOST || v6.to_ipv4_mapped() == Some(Ipv4Addr::LOCALHOST),
    }
}

/// The caller's role, whatever the route.
pub fn role(policy: &Policy, admission: &Admission, marks: Marks) -> Role {
    if policy.control_loopback && is_loopback(admission.peer.ip()) && !marks.forwarded {
        return Role::Control;
    }
    match &admission.identity {
        ClientIdentity::Verified { cn, sans } => {
            match cn.iter().chain(sans).any(|name| policy.control_identities.contains(name)) {
                true => Role::Control,
                false => Role::Read,
            }
        }
        ClientIdentity::None | ClientIdentity::Unverified => Role::Open,
    }
}

/// Only the open probes are answered by both schemes; all else by the one in force when the connection came.
///
/// # Errors
/// `tls_required`, `no_server_certificate`.
pub fn check_scheme(admission: &Admission, class: Class) -> Result<(), Problem> {
    match (class, admission.scheme, admission.etcd_certificate) {
        (Class::Probe, _, _) | (_, Scheme::Plain, false) | (_, Scheme::Tls, true) => Ok(()),
        (_, Scheme::Plain, true) => Err(Problem::new(
            Code::TlsRequired,
            "etcd's server certificate is loaded: over plain HTTP only the probes are served",
        )),
        (_, Scheme::Tls, false) => Err(Problem::new(
            Code::NoServerCertificate,
            "etcd's server certificate is not loaded: over TLS only the probes are served, use plain HTTP",
        )),
    }
}

/// May this caller use a route of this class?
///
/// # Errors
/// The refusals of api.md §5: `tls_required`, `no_server_certificate`, `certificate_required`, `forbidden`,
/// `trust_not_loaded`.
pub fn authorize(policy: &Policy, admission: &Admission, marks: Marks, class: Class) -> Result<(), Problem> {
    check_scheme(admission, class)?;
    let needed = match class {
        Class::Probe | Class::Open => Role::Open,
        Class::Read => Role::Read,
        Class::Control => Role::Control,
        Class::Stop if policy.allow_remote_stop => Role::Open,
        Class::Stop => Role::Control,
    };
    if role(policy, admission, marks) < needed {
        return Err(refusal(admission));
    }
    if matches!(class, Class::Control | Class::Stop) && marks.origin {
        return Err(forbidden(
            "control requests with an Origin header are refused: a browser is no control caller",
        ));
    }
    if needed == Role::Control && marks.foreign_host {
        return Err(forbidden(
            "the Host of a control request must be localhost, an address, or a name of this member",
        ));
    }
    Ok(())
}

/// Why a caller without enough rights is turned away.
fn refusal(admission: &Admission) -> Problem {
    match (admission.scheme, &admission.identity, admission.trust_not_loaded) {
        (Scheme::Plain, _, _) => forbidden("only a direct loopback caller may do this"),
        (Scheme::Tls, ClientIdentity::Verified { .. }, _) => {
            forbidden("the client certificate is verified, but none of its names is in --control-identities")
        }
        (Scheme::Tls, _, true) => Problem::new(
            Code::TrustNotLoaded,
            "the trusted-ca-file of etcd's configuration cannot be read, so no client certificate can be verified",
        ),
        (Scheme::Tls, _, false) => Problem::new(
            Code::CertificateRequired,
            "show a client certificate that the trusted-ca-file of etcd's configuration vouches for, or call from loopback",
        ),
    }
}

fn forbidden(detail: &str) -> Problem {
    Problem::new(Code::Forbidden, detail)
}

#[cfg(test)]
mod tests;
