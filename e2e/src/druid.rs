// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An Etcd as a scenario makes one for etcd-druid: what it asks for, as the object that is sent. Making and watching it is
//! `druid/etcd`'s.
mod etcd;

use serde_json::{Value, json};

pub use etcd::{Condition, Etcd};

use crate::case::Case;
use crate::pki::{BUNDLE, Use};

/// What an Etcd shall be like; etcd-druid's defaults where nothing is said. One member, no TLS, a local store that no other
/// namespace shares.
#[derive(Clone, Debug)]
pub struct EtcdSpec {
    pub(crate) name: String,
    pub(crate) replicas: u32,
    pub(crate) client_tls: bool,
    pub(crate) peer_tls: bool,
    pub(crate) backup_tls: bool,
    run_as_root: bool,
    etcd_image: Option<String>,
    backup_image: Option<String>,
    quota: String,
    annotations: Vec<(String, String)>,
    without_store: bool,
}

/// An [`EtcdSpec`] that knows where to make it: [`Case::etcd`].
#[derive(Clone, Debug)]
pub struct Builder {
    case: Case,
    spec: EtcdSpec,
}

impl EtcdSpec {
    /// An Etcd of this name, with one member and without TLS.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            replicas: 1,
            client_tls: false,
            peer_tls: false,
            backup_tls: false,
            run_as_root: false,
            etcd_image: None,
            backup_image: None,
            quota: "1Gi".into(),
            annotations: Vec::new(),
            without_store: false,
        }
    }

    /// The object, for a namespace.
    pub fn object(&self, namespace: &str) -> Value {
        let name = &self.name;
        let labels = json!({"app": "etcd-statefulset", "instance": name});
        let mut etcd = json!({
            "metrics": "basic",
            "clientPort": 2379,
            "serverPort": 2380,
            "quota": self.quota,
            "defragmentationSchedule": "0 */24 * * *",
            "resources": {"requests": {"cpu": "20m", "memory": "50Mi"}},
        });
        if let Some(image) = &self.etcd_image {
            etcd["image"] = json!(image);
        }
        if self.client_tls {
            etcd["clientUrlTls"] = self.client_tls_block();
        }
        if self.peer_tls {
            etcd["peerUrlTls"] = self.peer_tls_block();
        }
        let mut backup = json!({
            "port": 8080,
            "fullSnapshotSchedule": "0 */24 * * *",
            "deltaSnapshotPeriod": "300s",
            "deltaSnapshotMemoryLimit": "100Mi",
            "garbageCollectionPolicy": "Exponential",
            "garbageCollectionPeriod": "43200s",
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
            "compression": {"enabled": false},
            "leaderElection": {"reelectionPeriod": "5s", "etcdConnectionTimeout": "5s"},
        });
        if !self.without_store {
            // The bucket is a folder of the node: its name keeps cases apart.
            backup["store"] = json!({"provider": "local", "container": namespace, "prefix": name});
        }
        if let Some(image) = &self.backup_image {
            backup["image"] = json!(image);
        }
        if self.backup_tls {
            backup["tls"] = json!({
                "tlsCASecretRef": {"name": Use::SidecarCa.secret(name), "dataKey": BUNDLE},
                "serverTLSSecretRef": {"name": Use::Sidecar.secret(name)},
                "clientTLSSecretRef": {"name": Use::SidecarClient.secret(name)},
            });
        }
        let annotations: serde_json::Map<String, Value> =
            self.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut spec = json!({
            "labels": labels,
            "selector": {"matchLabels": labels},
            "etcd": etcd,
            "backup": backup,
            "sharedConfig": {"autoCompactionMode": "periodic", "autoCompactionRetention": "30m"},
            "replicas": self.replicas,
        });
        if self.run_as_root {
            spec["runAsRoot"] = json!(true);
        }
        json!({
            "apiVersion": "druid.gardener.cloud/v1alpha1",
            "kind": "Etcd",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": spec,
        })
    }

    /// `spec.etcd.clientUrlTls`, for switching it on later.
    pub fn client_tls_block(&self) -> Value {
        json!({
            "tlsCASecretRef": {"name": Use::ClientCa.secret(&self.name), "dataKey": BUNDLE},
            "serverTLSSecretRef": {"name": Use::Server.secret(&self.name)},
            "clientTLSSecretRef": {"name": Use::Client.secret(&self.name)},
        })
    }

    /// `spec.etcd.peerUrlTls`, for switching it on later.
    pub fn peer_tls_block(&self) -> Value {
        json!({
            "tlsCASecretRef": {"name": Use::PeerCa.secret(&self.name), "dataKey": BUNDLE},
            "serverTLSSecretRef": {"name": Use::Peer.secret(&self.name)},
        })
    }
}

impl Builder {
    pub(crate) fn new(case: &Case, name: &str) -> Self {
        Self { case: case.clone(), spec: EtcdSpec::new(name) }
    }

    /// How many members.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.spec.replicas = replicas;
        self
    }

    /// TLS between clients and etcd, and on the wrapper's port.
    #[must_use]
    pub fn client_tls(mut self) -> Self {
        self.spec.client_tls = true;
        self
    }

    /// TLS among the members.
    #[must_use]
    pub fn peer_tls(mut self) -> Self {
        self.spec.peer_tls = true;
        self
    }

    /// TLS on the sidecar's port. The readiness probe's scheme follows this.
    #[must_use]
    pub fn backup_tls(mut self) -> Self {
        self.spec.backup_tls = true;
        self
    }

    /// Both containers as root.
    #[must_use]
    pub fn run_as_root(mut self) -> Self {
        self.spec.run_as_root = true;
        self
    }

    /// Another image for the main container than etcd-druid would take.
    #[must_use]
    pub fn etcd_image(mut self, reference: &str) -> Self {
        self.spec.etcd_image = Some(reference.to_owned());
        self
    }

    /// Another image for the sidecar.
    #[must_use]
    pub fn backup_image(mut self, reference: &str) -> Self {
        self.spec.backup_image = Some(reference.to_owned());
        self
    }

    /// etcd's quota, as a Kubernetes quantity. 1Gi without.
    #[must_use]
    pub fn quota(mut self, quota: &str) -> Self {
        self.spec.quota = quota.to_owned();
        self
    }

    /// An annotation of the Etcd: etcd-druid takes some for orders.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.spec.annotations.push((key.to_owned(), value.to_owned()));
        self
    }

    /// No backups: the sidecar has nowhere to restore from.
    #[must_use]
    pub fn without_store(mut self) -> Self {
        self.spec.without_store = true;
        self
    }

    /// Sends it, after the secrets that it names. Waits for nothing.
    ///
    /// # Errors
    /// The API server's.
    pub async fn create(self) -> anyhow::Result<Etcd> {
        Etcd::create(self.case, self.spec).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_it_is_the_reference() {
        let object = EtcdSpec { replicas: 3, ..EtcdSpec::new("tri") }.object("e2e-x");
        assert_eq!(object["spec"]["replicas"], 3);
        assert_eq!(object["spec"]["backup"]["store"]["container"], "e2e-x");
        for absent in ["/spec/etcd/clientUrlTls", "/spec/etcd/image", "/spec/backup/tls", "/spec/runAsRoot"] {
            assert!(object.pointer(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn k9_the_store_is_a_folder_of_the_node_and_has_no_secret() {
        let object = EtcdSpec { backup_tls: true, client_tls: true, ..EtcdSpec::new("own") }.object("n");
        let store = object.pointer("/spec/backup/store").expect("a store");
        assert_eq!(store, &json!({"provider": "local", "container": "n", "prefix": "own"}));
    }

    #[test]
    fn each_tls_is_switched_by_itself() {
        let spec = |client_tls, peer_tls, backup_tls| EtcdSpec {
            client_tls,
            peer_tls,
            backup_tls,
            ..EtcdSpec::new("tls")
        };
        let has = |object: &Value| {
            ["/spec/etcd/clientUrlTls", "/spec/etcd/peerUrlTls", "/spec/backup/tls"]
                .map(|block| object.pointer(&format!("{block}/serverTLSSecretRef/name")).cloned())
        };
        assert_eq!(has(&spec(true, false, false).object("n")), [Some(json!("tls-server")), None, None]);
        assert_eq!(has(&spec(false, true, false).object("n")), [None, Some(json!("tls-peer")), None]);
        assert_eq!(has(&spec(false, false, true).object("n")), [None, None, Some(json!("tls-brserver"))]);
    }
}
