// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one table of routes: path, method, who may call it. Access rules, `Allow` headers and metric labels all
//! follow from it, so a route cannot exist without a class. Answers nothing itself.
use http::Method;

use crate::supervise::view::OperationKind;

use super::auth::Class;

/// What is asked for, once path and method are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/readyz`
    Readyz,
    /// `/readyz/{check}`
    ReadyzCheck,
    /// `/livez`
    Livez,
    /// `/startupz`
    Startupz,
    /// `/metrics`
    Metrics,
    /// `/stop`
    Stop,
    /// `/v1/status`
    Status,
    /// `/v1/leader`
    Leader,
    /// `/v1/events`
    Events,
    /// `/v1/readiness`, read.
    Readiness,
    /// `/v1/readiness`, changed.
    SetReadiness,
    /// `/v1/etcd/…`: a verb that makes an operation.
    Operate(OperationKind),
    /// `/v1/operations/{id}`
    Operation,
    /// `/v1/config/validate`
    ValidateConfig,
    /// `/v1/version`
    Version,
    /// `/v1/openapi.json`
    OpenApi,
}

/// One row of the table of routes.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// `GET` answers `HEAD` too.
    pub method: Method,
    /// A last segment in braces takes one segment, whatever it says. Also the metric's `route` label.
    pub template: &'static str,
    /// What a caller needs.
    pub class: Class,
    /// What serves it.
    pub endpoint: Endpoint,
}

const fn route(method: Method, template: &'static str, class: Class, endpoint: Endpoint) -> Route {
    Route { method, template, class, endpoint }
}

/// Every route. `GET` answers `HEAD` too.
pub const ROUTES: &[Route] = &[
    route(Method::GET, "/readyz", Class::Probe, Endpoint::Readyz),
    route(Method::GET, "/readyz/{check}", Class::Probe, Endpoint::ReadyzCheck),
    route(Method::GET, "/livez", Class::Probe, Endpoint::Livez),
    route(Method::GET, "/startupz", Class::Probe, Endpoint::Startupz),
    route(Method::GET, "/metrics", Class::Open, Endpoint::Metrics),
    route(Method::POST, "/stop", Class::Stop, Endpoint::Stop),
    route(Method::GET, "/v1/status", Class::Read, Endpoint::Status),
    route(Method::GET, "/v1/leader", Class::Read, Endpoint::Leader),
    route(Method::GET, "/v1/events", Class::Read, Endpoint::Events),
    route(Method::GET, "/v1/readiness", Class::Read, Endpoint::Readiness),
    route(Method::PUT, "/v1/readiness", Class::Control, Endpoint::SetReadiness),
    route(Method::DELETE, "/v1/readiness", Class::Control, Endpoint::SetReadiness),
    route(Method::POST, "/v1/etcd/start", Class::Control, Endpoint::Operate(OperationKind::Start)),
    route(Method::POST, "/v1/etcd/stop", Class::Control, Endpoint::Operate(OperationKind::Stop)),
    route(Method::POST, "/v1/etcd/restart", Class::Control, Endpoint::Operate(OperationKind::Restart)),
    route(
        Method::POST,
        "/v1/etcd/transfer-leadership",
        Class::Control,
        Endpoint::Operate(OperationKind::TransferLeadership),
    ),
    route(Method::GET, "/v1/operations/{id}", Class::Read, Endpoint::Operation),
    route(Method::POST, "/v1/config/validate", Class::Read, Endpoint::ValidateConfig),
    route(Method::GET, "/v1/version", Class::Open, Endpoint::Version),
    route(Method::GET, "/v1/openapi.json", Class::Open, Endpoint::OpenApi),
];

/// Where a request leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// With what stood in the place of the braces, or "".
    Route(&'static Route, &'a str),
    /// The path exists under other methods.
    OtherMethods(&'static Route),
    /// No route has this path: 404.
    Nothing,
}

/// Looks `path` up as it stands: no decoding, no trailing slash forgiven.
pub fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut other = None;
    for route in ROUTES {
        match matched(route.template, path) {
            Some(rest) if route.method == *method => return Found::Route(route, rest),
            Some(_) => other = Some(route),
            None => {}
        }
    }
    other.map_or(Found::Nothing, Found::OtherMethods)
}

/// The value of `Allow` for a path.
pub fn allow(template: &str) -> String {
    let mut allow = String::new();
    for route in ROUTES.iter().filter(|route| route.template == template) {
        if !allow.is_empty() {
            allow.push_str(", ");
        }
        allow.push_str(route.method.as_str());
        if route.method == Method::GET {
            allow.push_str(", HEAD");
        }
    }
    allow
}

fn matched<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    match template.split_once('{') {
        None => (template == path).then_some(""),
        Some((prefix, _)) => path.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !rest.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(method: Method, path: &str) -> Option<(Endpoint, &str)> {
        match find(&method, path) {
            Found::Route(route, rest) => Some((route.endpoint, rest)),
            Found::OtherMethods(_) | Found::Nothing => None,
        }
    }

    #[test]
    fn paths_are_matched_whole() {
        assert_eq!(endpoint(Method::GET, "/readyz"), Some((Endpoint::Readyz, "")));
        assert_eq!(endpoint(Method::HEAD, "/readyz"), Some((Endpoint::Readyz, "")));
        assert_eq!(endpoint(Method::GET, "/readyz/learner"), Some((Endpoint::ReadyzCheck, "learner")));
        for path in
            ["/readyz/", "/readyz/a/b", "/readyzz", "/", "/stop/", "//stop", "/v1", "/STOP", "/%73top"]
        {
            assert_eq!(find(&Method::GET, path), Found::Nothing, "{path}");
        }
    }

    #[test]
    fn e4_stop_knows_post_alone() {
        for method in
            [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS, Method::CONNECT]
        {
            match find(&method, "/stop") {
                Found::OtherMethods(route) => assert_eq!(allow(route.template), "POST"),
                found => panic!("{method}: {found:?}"),
            }
        }
        assert_eq!(allow("/readyz"), "GET, HEAD");
    }

    #[test]
    fn invariant_11_whatever_is_not_a_get_needs_control() {
        for route in ROUTES {
            let controls = matches!(route.class, Class::Control | Class::Stop);
            // A posted configuration is looked at there, and forgotten.
            let reads = route.method == Method::GET || route.endpoint == Endpoint::ValidateConfig;
            assert_ne!(controls, reads, "{route:?}");
        }
    }
}
