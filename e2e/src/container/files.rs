// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The files that a member's containers mount: certificates as etcd-druid mounts them, and the config that the sidecar
//! renders. Made by the run, in the folder of its report; certificates can be signed anew at any time.
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use doubles::pki::{Authority, Leaf, Pair, swap};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value, json};

use crate::etcd::Tls;
use crate::schedule::MEMBERS;

/// What the wrapper and the clients verify; an alias of 127.0.0.1 within a pod.
pub const SERVER_NAME: &str = "etcd-local";
/// Who may control a wrapper.
pub const AGENT: &str = "agent";
/// Where clients and peers are served.
pub const CLIENT_PORT: u16 = 2379;

/// The authorities of a run, and the folder with everybody's files.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    client_ca: Authority,
    peer_ca: Authority,
    sidecar_ca: Authority,
    /// Where each member is reached by the others: peers are known by their addresses too.
    gateway: IpAddr,
    addresses: [IpAddr; MEMBERS],
}

/// The pod of a member, and so the member.
pub fn name(member: usize) -> String {
    format!("etcd-{member}")
}

/// The port of a member's peers: of its own, since the network of [`super::links`] tells members apart by it.
pub fn peer_port(member: usize) -> u16 {
    2381 + u16::try_from(member).unwrap_or_default()
}

/// The host of a member's peer URL.
pub fn peer_host(member: usize) -> String {
    format!("{}.peer", name(member))
}

impl Files {
    /// Makes all of them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make(folder: &Path, gateway: IpAddr, addresses: [IpAddr; MEMBERS]) -> Result<Self> {
        let files = Self {
            folder: folder.to_owned(),
            client_ca: Authority::new("client-ca"),
            peer_ca: Authority::new("peer-ca"),
            sidecar_ca: Authority::new("sidecar-ca"),
            gateway,
            addresses,
        };
        for member in 0..MEMBERS {
            files.put(member, "ssl/ca/bundle.crt", files.client_ca.cert_pem())?;
            files.put(member, "ssl/peer/ca/bundle.crt", files.peer_ca.cert_pem())?;
            files.put(member, "etcdbr/ssl/ca/bundle.crt", files.sidecar_ca.cert_pem())?;
            files.put(member, "config/etcd.conf.yaml", &config(member).to_string())?;
            files.let_join(member, false)?;
        }
        files.sign_all()?;
        Ok(files)
    }

    /// The folder on this machine that is mounted for a member: `ssl`, `etcdbr`, `config`.
    pub fn of(&self, member: usize, path: &str) -> PathBuf {
        self.folder.join(name(member)).join(path)
    }

    /// Signs every certificate anew and puts it in the place of the old one, as the kubelet does.
    ///
    /// # Errors
    /// What the file system says.
    pub fn sign_all(&self) -> Result<()> {
        for (member, address) in self.addresses.iter().enumerate() {
            let address = address.to_string();
            let gateway = self.gateway.to_string();
            let server = [SERVER_NAME, "localhost", "127.0.0.1", &address, &name(member)];
            let host = peer_host(member);
            let peer = [host.as_str(), "localhost", "127.0.0.1", &address, &gateway];
            self.put_pair(member, "ssl/server", &self.client_ca.sign(&Leaf::server(&server)))?;
            self.put_pair(member, "ssl/client", &self.client_ca.sign(&Leaf::client("etcd-client")))?;
            self.put_pair(member, "ssl/peer/server", &self.peer_ca.sign(&Leaf::peer(&peer)))?;
            self.put_pair(member, "etcdbr/ssl/server", &self.sidecar_ca.sign(&Leaf::server(&server)))?;
        }
        Ok(())
    }

    /// Whether the double renders a config for a member that joins a cluster that is there. Read when it starts.
    ///
    /// # Errors
    /// What the file system says.
    pub fn let_join(&self, member: usize, joins: bool) -> Result<()> {
        self.put(member, "config/script.yaml", &format!("validation_time: 300ms\nlearner_present: {joins}\n"))
    }

    /// For a client of etcd.
    ///
    /// # Errors
    /// None that our own certificates can bring.
    pub fn etcd_tls(&self) -> Result<Tls> {
        let pair = self.client_ca.sign(&Leaf::client("traffic"));
        Tls::new(self.client_ca.cert_pem(), Some((&pair.cert_pem, &pair.key_pem)), SERVER_NAME)
    }

    /// For an agent that may control wrappers.
    ///
    /// # Errors
    /// None that our own certificates can bring.
    pub fn agent_tls(&self) -> Result<Arc<rustls::ClientConfig>> {
        let pair = self.client_ca.sign(&Leaf::client(AGENT));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.client_ca.cert_pem().as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(pair.cert_pem.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Arc::new(config))
    }

    fn put_pair(&self, member: usize, path: &str, pair: &Pair) -> Result<()> {
        // The key first: a certificate with an old key would be noticed, and is what a reader must bear anyhow.
        self.put(member, &format!("{path}/tls.key"), &pair.key_pem)?;
        self.put(member, &format!("{path}/tls.crt"), &pair.cert_pem)
    }

    /// Readable for the pod's user, whoever we are.
    fn put(&self, member: usize, path: &str, content: &str) -> Result<()> {
        let path = self.of(member, path);
        let shown = || format!("write {}", path.display());
        fs::create_dir_all(path.parent().context("a path has a folder")?).with_context(shown)?;
        swap(&path, content).with_context(shown)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).with_context(shown)
    }
}

/// etcd-druid's config map with TLS; JSON is YAML. Not the same for all, since each has a peer port of its own.
fn config(own: usize) -> Value {
    let urls = |url: &dyn Fn(usize) -> String| -> Map<String, Value> {
        (0..MEMBERS).map(|member| (name(member), json!([url(member)]))).collect()
    };
    let peer = |member| format!("https://{}:{}", peer_host(member), peer_port(member));
    let cluster: Vec<String> =
        (0..MEMBERS).map(|member| format!("{}={}", name(member), peer(member))).collect();
    let tls = |folder: &str, ca: &str| {
        json!({
            "auto-tls": false,
            "client-cert-auth": true,
            "cert-file": format!("/var/etcd/ssl/{folder}server/tls.crt"),
            "key-file": format!("/var/etcd/ssl/{folder}server/tls.key"),
            "trusted-ca-file": format!("/var/etcd/ssl/{ca}ca/bundle.crt"),
        })
    };
    json!({
        "name": "etcd-config",
        "data-dir": "/var/etcd/data/new.etcd",
        "metrics": "basic",
        "snapshot-count": 10_000,
        "enable-grpc-gateway": false,
        "quota-backend-bytes": 536_870_912,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "30m",
        "backend-bbolt-freelist-type": "array",
        "initial-cluster-state": "new",
        "initial-cluster-token": "etcd-cluster",
        "initial-cluster": cluster.join(","),
        "listen-peer-urls": format!("https://0.0.0.0:{}", peer_port(own)),
        "listen-client-urls": format!("https://0.0.0.0:{CLIENT_PORT}"),
        "advertise-client-urls": urls(&|member| format!("https://{}:{CLIENT_PORT}", name(member))),
        "initial-advertise-peer-urls": urls(&peer),
        "client-transport-security": tls("", ""),
        "peer-transport-security": tls("peer/", "peer/"),
    })
}
