// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An API server of a few objects: gets and merge patches by path, over plain HTTP on loopback. Checks nobody's
//! rights.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// Runs until the test ends.
pub(crate) struct ApiServer {
    addr: SocketAddr,
    objects: Objects,
}

impl ApiServer {
    /// With these leases, never held, and a StatefulSet `m` whose pods are all of its newest template.
    pub(crate) fn with_leases(leases: &[&str]) -> Self {
        let mut objects = BTreeMap::new();
        for name in leases {
            objects.insert(lease(name), json!({"metadata": {"name": name}, "spec": {}}));
        }
        objects.insert(
            "/apis/apps/v1/namespaces/x/statefulsets/m".into(),
            json!({
                "metadata": {"name": "m"},
                "spec": {"replicas": 2, "selector": {}, "serviceName": "m", "template": {}},
                "status": {"replicas": 2, "updatedReplicas": 2},
            }),
        );
        let objects = Arc::new(Mutex::new(objects));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { addr: listener.local_addr().unwrap(), objects: Arc::clone(&objects) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Whoever hangs up early is no concern of ours.
                let _ = answer(stream.unwrap(), &objects);
            }
        });
        server
    }

    /// What names this server to a client.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": format!("http://{}", self.addr)}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "x"}}],
            "users": [{"name": "x", "user": {}}],
        });
        let path = folder.join("kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// The holder of a lease; empty before the first.
    pub(crate) fn holder(&self, name: &str) -> String {
        let objects = self.objects.lock().unwrap();
        objects[&lease(name)]["spec"]["holderIdentity"].as_str().unwrap_or_default().into()
    }

    pub(crate) fn annotation(&self, name: &str, key: &str) -> String {
        let objects = self.objects.lock().unwrap();
        objects[&lease(name)]["metadata"]["annotations"][key].as_str().unwrap_or_default().into()
    }

    pub(crate) fn hold(&self, name: &str, holder: &str) {
        let mut objects = self.objects.lock().unwrap();
        objects.get_mut(&lease(name)).unwrap()["spec"]["holderIdentity"] = holder.into();
    }

    /// As if the object had never been.
    pub(crate) fn forget_set(&self) {
        self.objects.lock().unwrap().retain(|path, _| !path.contains("/statefulsets/"));
    }
}

fn lease(name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/x/leases/{name}")
}

fn answer(mut stream: TcpStream, objects: &Objects) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..read]);
        if read == 0 {
            return Ok(());
        }
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                break (String::from_utf8_lossy(&bytes[..end]).into_owned(), length);
            }
        }
    };
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let path = target.split('?').next().unwrap();
    let body = &bytes[bytes.len() - length..];
    let (code, said) = {
        let mut objects = objects.lock().unwrap();
        match (method, objects.get_mut(path)) {
            ("PATCH", Some(object)) => {
                merge(object, &serde_json::from_slice(body).unwrap());
                (200, object.clone())
            }
            ("GET", Some(object)) => (200, object.clone()),
            _ => (404, json!({"status": "Failure", "reason": "NotFound", "message": path, "code": 404})),
        }
    };
    let said = said.to_string();
    let head = "Content-Type: application/json\r\nConnection: close";
    write!(stream, "HTTP/1.1 {code} .\r\n{head}\r\nContent-Length: {}\r\n\r\n{said}", said.len())
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        merge(&mut into[key], value);
    }
}
