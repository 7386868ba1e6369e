// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A Kubernetes API of a few objects, for the real sidecar: the StatefulSet that it reads to tell whether the cluster
//! grows, and the members' leases that it renews and from which it tells who was a member before. Over plain HTTP on
//! the gateway of the members' network; checks nobody's rights, and watches nothing.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::files::name;
use crate::schedule::MEMBERS;

/// Where all objects live.
pub const NAMESPACE: &str = "tier";

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// Ends when it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    _server: JoinSet<()>,
}

impl ApiServer {
    /// Listens on a free port of `host`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn listen(host: IpAddr) -> Result<Self> {
        let listener = TcpListener::bind((host, 0)).await.with_context(|| format!("listen on {host}"))?;
        let address = listener.local_addr().context("ask for the port")?;
        let objects: Objects = Arc::new(Mutex::new(objects()));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((stream, _)) = accepted else { continue };
                        let objects = Arc::clone(&objects);
                        let service = hyper::service::service_fn(move |request| answer(request, Arc::clone(&objects)));
                        connections.spawn(async move {
                            let builder = hyper::server::conn::http1::Builder::new();
                            // How a connection ends concerns nobody.
                            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self { address, _server: server })
    }

    /// What names this server to a client, as a kubeconfig; JSON is YAML.
    pub fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tier",
            "clusters": [{"name": "tier", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "tier", "context": {"cluster": "tier", "user": "tier", "namespace": NAMESPACE}}],
            "users": [{"name": "tier", "user": {}}],
        })
        .to_string()
    }
}

fn objects() -> BTreeMap<String, Value> {
    let resource = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true, "singularName": "", "verbs": ["get", "list", "patch", "update"]});
    let list = |group: &str, resources: Value| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources});
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    let mut objects = BTreeMap::from([
        ("/api".to_owned(), json!({"kind": "APIVersions", "versions": ["v1"]})),
        (
            "/apis".to_owned(),
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group("apps"), group("coordination.k8s.io")]}),
        ),
        ("/api/v1".to_owned(), list("v1", json!([resource("pods", "Pod")]))),
        ("/apis/apps/v1".to_owned(), list("apps/v1", json!([resource("statefulsets", "StatefulSet")]))),
        (
            "/apis/coordination.k8s.io/v1".to_owned(),
            list("coordination.k8s.io/v1", json!([resource("leases", "Lease")])),
        ),
    ]);
    let of = |what: &str, name: &str| json!({"name": name, "namespace": NAMESPACE, "uid": what, "resourceVersion": "1"});
    objects.insert(
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/etcd"),
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": of("set", "etcd"),
            "spec": {"replicas": MEMBERS, "selector": {}, "serviceName": "etcd", "template": {"spec": {"containers": []}}},
            "status": {"replicas": MEMBERS, "readyReplicas": MEMBERS, "updatedReplicas": MEMBERS},
        }),
    );
    for member in 0..MEMBERS {
        let name = name(member);
        objects.insert(
            format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}"),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": of(&name, &name), "spec": {}}),
        );
    }
    objects
}

async fn answer(request: Request<Incoming>, objects: Objects) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let said = {
        let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
        carry_out(&mut objects, &parts.method, &path, &body)
    };
    let (status, said) = match said {
        Some(said) => (StatusCode::OK, said),
        None => (
            StatusCode::NOT_FOUND,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": path, "code": 404}),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(said.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// None: there is no such object, or nothing that can be done with it.
fn carry_out(
    objects: &mut BTreeMap<String, Value>,
    method: &Method,
    path: &str,
    body: &[u8],
) -> Option<Value> {
    let object = objects.get_mut(path)?;
    match *method {
        Method::GET => {}
        Method::PUT => *object = serde_json::from_slice(body).ok()?,
        Method::PATCH => merge(object, &serde_json::from_slice(body).ok()?),
        _ => return None,
    }
    Some(object.clone())
}

/// As RFC 7386 has it.
fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            into.as_object_mut().and_then(|fields| fields.remove(key));
        } else {
            merge(&mut into[key], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_patched_and_what_is_not_there_is_not_found() {
        let mut objects = objects();
        let path = "/apis/coordination.k8s.io/v1/namespaces/tier/leases/etcd-1";
        let mut ask =
            |method: Method, path: &str, body: &str| carry_out(&mut objects, &method, path, body.as_bytes());
        ask(Method::PATCH, path, r#"{"spec": {"holderIdentity": "1f:Member", "leaseDurationSeconds": 40}}"#)
            .unwrap();
        let lease = ask(Method::PATCH, path, r#"{"spec": {"leaseDurationSeconds": null}}"#).unwrap();
        assert_eq!(lease["spec"], json!({"holderIdentity": "1f:Member"}));
        assert_eq!(lease["metadata"]["name"], "etcd-1");
        assert!(ask(Method::GET, "/apis/apps/v1/namespaces/tier/statefulsets/etcd", "").is_some());
        assert!(ask(Method::GET, "/api/v1/namespaces/tier/pods/etcd-0", "").is_none());
        assert!(ask(Method::DELETE, path, "").is_none());
    }
}
