// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Three members on a network of their own: brought up, asked how they are, and taken down.
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::RngExt;
use tokio::task::JoinSet;

use super::api_server::{ApiServer, NAMESPACE};
use super::files::{CLIENT_PORT, Files, SERVER_NAME, name, peer_port};
use super::hand::Hand;
use super::links::Links;
use super::pod::{Part, Place, Pod, Sidecar, part_of};
use super::port::Port;
use super::setting::Setting;
use super::volume::Volumes;
use crate::etcd::{Client, Connector};
use crate::schedule::MEMBERS;
use crate::stage::Role;
use crate::timeline::Timeline;
use crate::traffic::Target;
use crate::wait::{self, Poll};

const PARTS: [Part; 2] = [Part::Wrapper, Part::Sidecar];
/// How often a network is tried whose addresses somebody else may have.
const TRIES: usize = 20;
/// Until three members serve for the first time.
pub const UP: Duration = Duration::from_secs(120);

/// A cluster that is up, as far as the last fault has left it so.
#[derive(Debug)]
pub struct Cluster {
    /// How the engine is driven.
    pub hand: Hand,
    /// Certificates and configurations.
    pub files: Arc<Files>,
    /// The members' disks.
    pub volumes: Volumes,
    /// The proxies between peers.
    pub links: Links,
    /// One for each member, in their order.
    pub pods: Vec<Pod>,
    /// The wrappers' ports, in the order of members.
    pub ports: Vec<Port>,
    /// A client of each member's etcd, from outside the pod, beside the network of the peers.
    pub clients: Vec<Client>,
    /// What happened so far.
    pub timeline: Timeline,
    kubelet: JoinSet<Result<()>>,
    _api: ApiServer,
}

impl Cluster {
    /// Makes everything and starts all members; waits for nothing.
    ///
    /// # Errors
    /// The engine's, or a machine that cannot have what the tier stands on.
    pub async fn start(setting: &Setting, hand: &Hand, evidence: &Path, timeline: &Timeline) -> Result<Self> {
        let (network, base) = network(hand).await?;
        let at = |last: u8| IpAddr::from([base[0], base[1], base[2], last]);
        let gateway = at(1);
        let addresses: [IpAddr; MEMBERS] = [at(10), at(11), at(12)];
        let files = Arc::new(Files::make(&evidence.join("files"), gateway, addresses)?);
        let targets: [SocketAddr; MEMBERS] =
            std::array::from_fn(|member| SocketAddr::new(addresses[member], peer_port(member)));
        let links = Links::listen(gateway, addresses, targets)
            .await
            .context("listen on the gateway of the members' network: the engine must run on this machine")?;
        let api = ApiServer::listen(gateway).await.context("serve the sidecar's Kubernetes API")?;
        let names: Vec<String> = (0..MEMBERS).map(name).collect();
        let volumes = Volumes::make(hand, &names).await?;
        let image = setting.image(Role::Wrapper).context("no image for the wrapper")?;
        let mut pods = Vec::new();
        for (member, name) in names.iter().enumerate() {
            let place = Place {
                member,
                network: network.clone(),
                gateway,
                addresses,
                volume: volumes.place(name),
                logs: evidence.join("logs"),
            };
            let sidecar = sidecar(setting, member, &api, evidence)?;
            pods.push(Pod::new(
                hand.clone(),
                Arc::clone(&files),
                place,
                sidecar,
                &image.reference,
                timeline.clone(),
            ));
        }
        let agent = files.agent_tls()?;
        let ports = pods.iter().map(|pod| Port::new(pod.address(), Arc::clone(&agent))).collect();
        let tls = files.etcd_tls()?;
        let client = |pod: &Pod| {
            Client::new(Connector::tcp(format!("{}:{CLIENT_PORT}", pod.address())).with_tls(tls.clone()))
        };
        let clients = pods.iter().map(client).collect();
        let mut kubelet = JoinSet::new();
        kubelet.spawn(revive(hand.clone(), pods.clone()));
        let timeline = timeline.clone();
        let cluster = Self {
            hand: hand.clone(),
            files,
            volumes,
            links,
            pods,
            ports,
            clients,
            timeline,
            kubelet,
            _api: api,
        };
        cluster.create_all().await?;
        Ok(cluster)
    }

    /// Makes the containers of all pods, at the same time.
    ///
    /// # Errors
    /// The engine's.
    pub async fn create_all(&self) -> Result<()> {
        let all = self.pods.iter().map(|pod| async move { pod.create(&mut *pod.hold().await).await });
        futures_util::future::try_join_all(all).await.map(drop)
    }

    /// Kills all containers at once. One that has ended already is no matter.
    pub async fn kill_all(&self) {
        let pods = self.pods.iter();
        let names: Vec<String> = pods.flat_map(|pod| PARTS.map(|part| pod.container(part))).collect();
        let words: Vec<&str> = ["kill"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let _ = self.hand.docker(&words).await;
    }

    /// What the traffic is bound to.
    pub fn targets(&self) -> Vec<Target> {
        let target = |(pod, client): (&Pod, &Client)| Target { member: pod.name(), client: client.clone() };
        self.pods.iter().zip(&self.clients).map(target).collect()
    }

    /// Waits until every member says that it is ready, answers a linearizable read, and is a voter.
    ///
    /// # Errors
    /// Not within `limit`: who is not, and how it stands.
    pub async fn well(&self, limit: Duration) -> Result<()> {
        wait::until(limit, "all members to be ready and to answer", async || {
            let all = (0..MEMBERS).map(|member| self.trouble(member));
            let troubles: Vec<String> =
                futures_util::future::join_all(all).await.into_iter().flatten().collect();
            Ok(Poll::when(troubles.is_empty(), || troubles.join("; ")))
        })
        .await
    }

    /// What is wrong with a member; None: nothing.
    async fn trouble(&self, member: usize) -> Option<String> {
        let who = name(member);
        match self.ports[member].is_ready().await {
            Ok(true) => {}
            Ok(false) => {
                let call =
                    self.ports[member].call(Duration::from_secs(2), http::Method::GET, "/v1/status", None);
                let status = call.await.map(|answer| answer.body).unwrap_or_default();
                let (wrapper, bootstrap) = (&status["wrapper"]["phase"], &status["bootstrap"]);
                return Some(format!("{who} is not ready: phase {wrapper}, bootstrap {bootstrap}"));
            }
            Err(error) => return Some(format!("{who}: {error:#}")),
        }
        let client = self.clients[member].within(Duration::from_secs(3));
        if let Err(error) = client.get("well").await {
            return Some(format!("{who}: {error}"));
        }
        match client.status().await {
            Ok(standing) if standing.is_learner => Some(format!("{who} is a learner")),
            Ok(_) => None,
            Err(error) => Some(format!("{who}: {error}")),
        }
    }

    /// The kubelet's own trouble, if it has ended: nothing is started any more then.
    pub async fn kubelet_ended(&mut self) -> anyhow::Error {
        match self.kubelet.join_next().await {
            Some(Ok(Err(error))) => error.context("the kubelet's part"),
            Some(Err(error)) => anyhow::Error::new(error).context("the kubelet's part"),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("the engine tells of no more events"),
        }
    }

    /// Takes the logs of all containers.
    pub async fn keep_logs(&self) {
        for pod in &self.pods {
            for part in PARTS {
                // A container that is gone has left its log before.
                let _ = pod.keep_logs(part).await;
            }
        }
    }
}

/// Starts again what ended, until the engine says nothing any more.
async fn revive(hand: Hand, pods: Vec<Pod>) -> Result<()> {
    let filter = format!("label={}", hand.label());
    let format = "{{.Actor.Attributes.name}}";
    let words = ["events", "--filter", &filter, "--filter", "event=die", "--format", format];
    let mut events = hand.cli().follow(&words)?;
    let mut revivals = JoinSet::new();
    loop {
        tokio::select! {
            line = events.line() => {
                let Some(line) = line else { bail!("`docker events` ended") };
                // Pause containers end with their pods alone.
                let Ok((member, part)) = part_of(&line) else { continue };
                let pod = pods[member].clone();
                revivals.spawn(async move { pod.revive(part).await });
            }
            Some(ended) = revivals.join_next() => ended.context("start a container again")??,
        }
    }
}

/// A bridge with addresses that nobody has: its name, and the first three bytes of all addresses.
async fn network(hand: &Hand) -> Result<(String, [u8; 3])> {
    let (network, label) = (hand.name("net"), hand.label());
    let mut refused = String::new();
    for _ in 0..TRIES {
        let base: [u8; 3] = [10, rand::rng().random_range(130..250), rand::rng().random_range(0..=255)];
        let subnet = Ipv4Addr::new(base[0], base[1], base[2], 0);
        let (subnet, gateway) = (format!("{subnet}/24"), format!("{}.{}.{}.1", base[0], base[1], base[2]));
        let words =
            ["network", "create", "--label", &label, "--subnet", &subnet, "--gateway", &gateway, &network];
        match hand.docker(&words).await {
            Ok(_) => return Ok((network, base)),
            // Somebody has them; only that is a reason to try others.
            Err(error) if format!("{error:#}").to_lowercase().contains("overlap") => {
                refused = format!("{error:#}");
            }
            Err(error) => return Err(error.context("make a network")),
        }
    }
    bail!("no free addresses for a network in {TRIES} tries: {refused}")
}

/// etcd-backup-restore as etcd-druid starts it, with a store of its own on the volume of the member.
fn sidecar(setting: &Setting, member: usize, api: &ApiServer, evidence: &Path) -> Result<Sidecar> {
    if setting.has_double() {
        return Ok(Sidecar::Double);
    }
    let kubeconfig = evidence.join("files/kubeconfig");
    std::fs::write(&kubeconfig, api.kubeconfig())
        .with_context(|| format!("write {}", kubeconfig.display()))?;
    let endpoints: Vec<String> =
        (0..MEMBERS).map(|member| format!("https://{}:{CLIENT_PORT}", name(member))).collect();
    let words = format!(
        "server --server-port=8080 --enable-snapshot-lease-renewal=false --enable-member-lease-renewal=true \
         --k8s-heartbeat-duration=10s --insecure-transport=false --insecure-skip-tls-verify=false \
         --cacert=/var/etcd/ssl/ca/bundle.crt --cert=/var/etcd/ssl/client/tls.crt --key=/var/etcd/ssl/client/tls.key \
         --endpoints=https://{SERVER_NAME}:{CLIENT_PORT} --service-endpoints={} \
         --server-cert=/var/etcdbr/ssl/server/tls.crt --server-key=/var/etcdbr/ssl/server/tls.key \
         --data-dir=/var/etcd/data/new.etcd --restoration-temp-snapshots-dir=/var/etcd/data/restoration.temp \
         --snapstore-temp-directory=/var/etcd/data/temp --etcd-connection-timeout=5m --use-etcd-wrapper=true \
         --embedded-etcd-quota-bytes=536870912 --etcd-connection-timeout-leader-election=5s --reelection-period=5s",
        endpoints.join(",")
    );
    Ok(Sidecar::Real {
        image: setting.image(Role::Sidecar).context("no image for the sidecar")?.reference.clone(),
        arguments: words.split_whitespace().map(str::to_owned).collect(),
        environment: vec![
            format!("POD_NAME={}", name(member)),
            format!("POD_NAMESPACE={NAMESPACE}"),
            "KUBECONFIG=/var/kubeconfig".into(),
        ],
        mounts: vec![format!("{}:/var/kubeconfig:ro", kubeconfig.display())],
    })
}
