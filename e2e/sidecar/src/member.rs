// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The member beside this sidecar: collects what counts for its start, carries out what was decided, and renders its
//! config. Decides nothing itself (see `decide`), and follows no running etcd (see `watch`).
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use doubles::sidecar::{Backing, ConfigMap, Mode, Work};
use tokio::runtime::Handle;

use crate::arguments::{Endpoint, Options};
use crate::decide::{self, Data, Facts, Held, Step};
use crate::etcd::{Credentials, Etcd, Member};
use crate::kubernetes::Kubernetes;
use crate::{Teller, directory, tell};

/// How long a cluster may be silent before it counts as not there. Long enough for an election; the real one
/// takes more than a minute.
const SILENCE: Duration = Duration::from_secs(6);
/// The same for a config, where less hangs on the answer.
const CONFIG_SILENCE: Duration = Duration::from_secs(3);
/// How long it may take to leave and to join: others may be joining before.
const JOIN_LIMIT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);

/// Who and where we are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: String,
    pub(crate) namespace: String,
    pub(crate) config_file: PathBuf,
}

#[derive(Debug)]
pub(crate) struct LocalMember {
    options: Options,
    place: Place,
    kubernetes: Kubernetes,
    /// Added as a learner, and not started since: its config must be for an existing cluster.
    joining: AtomicBool,
}

/// The config map, and what it says of this member.
#[derive(Debug)]
pub(crate) struct Config {
    map: ConfigMap,
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
}

impl Config {
    /// How many members the cluster is meant to have.
    pub(crate) fn size(&self) -> usize {
        self.map.member_names().len()
    }

    /// Whether this member's peers are to use TLS.
    pub(crate) fn peer_tls(&self) -> bool {
        self.peer_urls.iter().all(|url| url.starts_with("https://"))
    }
}

impl LocalMember {
    /// # Errors
    /// When the pod's name is none of a StatefulSet's, or no etcd is named.
    pub(crate) fn new(options: Options, place: Place, kubernetes: Kubernetes) -> anyhow::Result<Self> {
        options.member_endpoint()?;
        set_of(&place.pod)?;
        Ok(Self { options, place, kubernetes, joining: AtomicBool::new(false) })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// Reads the mounted file anew: the kubelet follows changes of the config map.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let map = ConfigMap::read(&self.place.config_file)?;
        let name = map.member_name(&self.place.pod);
        let peer_urls = map.peer_urls(&name)?;
        Ok(Config { map, name, peer_urls })
    }

    /// The etcd beside us.
    pub(crate) fn own_etcd(&self) -> Etcd {
        let first = self.options.endpoints.iter().take(1).cloned().collect();
        Etcd::new(first, self.credentials())
    }

    /// Members that are ready: behind the client service, or one after the other where there is none.
    pub(crate) fn cluster(&self, config: &Config) -> anyhow::Result<Etcd> {
        let mut endpoints = self.options.service_endpoints.clone();
        if endpoints.is_empty() {
            for name in config.map.member_names() {
                for url in config.map.client_urls(name)? {
                    endpoints.push(url.parse::<Endpoint>().with_context(|| format!("client URL {url}"))?);
                }
            }
        }
        Ok(Etcd::new(endpoints, self.credentials()))
    }

    fn credentials(&self) -> Credentials {
        let pair = self.options.cert.clone().zip(self.options.key.clone());
        Credentials { ca: self.options.cacert.clone(), pair }
    }

    async fn initialize(&self, mode: Mode) -> anyhow::Result<()> {
        let config = self.config()?;
        let data_dir = self.options.data_dir.clone();
        let data = tokio::task::spawn_blocking(move || directory::look(&data_dir, mode)).await?;
        let (mut members, mut held) = (None, Held::Unknown);
        if config.size() > 1 {
            members = self.ask(&config, SILENCE).await?;
            if members.is_none() && data != Data::Sound {
                held = self.kubernetes.held(&config.map.member_names()).await;
            }
        }
        let step = decide::step(&Facts {
            name: &config.name,
            peer_urls: &config.peer_urls,
            size: config.size(),
            data: data.clone(),
            members: members.as_deref(),
            held,
        });
        tell(&format!(
            "initialization ({mode:?}): data {data:?}, leases {held:?}, {}",
            told(members.as_deref())
        ));
        tell(&format!("initialization: {step}"));
        self.joining.store(false, Ordering::Release);
        match step {
            Step::Keep => Ok(()),
            Step::Begin => self.drop_data().await,
            Step::Join { leave } => self.join(&config, leave).await,
            Step::Refuse(why) => bail!("{why}"),
        }
    }

    async fn join(&self, config: &Config, leave: Option<u64>) -> anyhow::Result<()> {
        let cluster = self.cluster(config)?;
        if let Some(id) = leave {
            // Somebody else may have removed it, or an answer got lost.
            insist("leave", || cluster.remove(id), "member not found").await?;
        }
        self.drop_data().await?;
        insist("join", || async { cluster.add_learner(&config.peer_urls).await.map(drop) }, "already exists")
            .await?;
        self.joining.store(true, Ordering::Release);
        tell(&format!("joined as a learner with {}", config.peer_urls.join(",")));
        Ok(())
    }

    async fn drop_data(&self) -> anyhow::Result<()> {
        let data_dir = self.options.data_dir.clone();
        tokio::task::spawn_blocking(move || directory::remove(&data_dir)).await?
    }

    async fn serve_config(&self) -> anyhow::Result<String> {
        let config = self.config()?;
        if config.size() <= 1 {
            return config.map.render(&self.place.pod, None, false);
        }
        let members = self.ask(&config, CONFIG_SILENCE).await?;
        let growing = self.kubernetes.growing(set_of(&self.place.pod)?).await?;
        let joining = self.joining.load(Ordering::Acquire);
        let view = decide::view(members.as_deref(), joining, growing).map_err(|why| anyhow!("{why}"))?;
        let state = if view.existing { "an existing" } else { "a new" };
        tell(&format!("config for {state} cluster, {}", told(members.as_deref())));
        config.map.render(&self.place.pod, view.known.as_deref(), view.existing)
    }

    /// The member list; None when nobody had one for so long.
    async fn ask(&self, config: &Config, silence: Duration) -> anyhow::Result<Option<Vec<Member>>> {
        let cluster = self.cluster(config)?;
        let begun = Instant::now();
        loop {
            match cluster.members().await {
                Ok(members) => return Ok(Some(members)),
                Err(error) if begun.elapsed() >= silence => {
                    tell(&format!("the cluster is silent: {error:#}"));
                    return Ok(None);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Repeats a change of the member list until it is done, or was done before (its error says `done`).
async fn insist<F: Future<Output = anyhow::Result<()>>>(
    verb: &str,
    change: impl Fn() -> F,
    done: &str,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut teller = Teller::default();
    loop {
        match change().await {
            Ok(()) => return Ok(()),
            Err(error) if format!("{error:#}").contains(done) => return Ok(()),
            Err(error) if begun.elapsed() >= JOIN_LIMIT => {
                return Err(error.context(format!("{verb}: not done within {JOIN_LIMIT:?}")));
            }
            Err(error) => teller.tell(format!("{verb}: not yet: {error:#}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn told(members: Option<&[Member]>) -> String {
    let Some(members) = members else { return "no members told".into() };
    let each = |member: &Member| {
        let learner = if member.is_learner { " (learner)" } else { "" };
        format!("{:x} {:?}{learner}", member.id, member.name)
    };
    format!("members {}", members.iter().map(each).collect::<Vec<_>>().join(", "))
}

/// The StatefulSet of a pod: its name without the ordinal.
fn set_of(pod: &str) -> anyhow::Result<&str> {
    let (set, ordinal) = pod.rsplit_once('-').with_context(|| format!("{pod}: no pod of a StatefulSet"))?;
    ordinal.parse::<u32>().with_context(|| format!("{pod}: no pod of a StatefulSet"))?;
    Ok(set)
}

/// The member as the double's backing; all work is done on `runtime`, and goes on when its caller leaves.
pub(crate) fn backing(member: &Arc<LocalMember>, runtime: Handle) -> Arc<dyn Backing> {
    Arc::new(Behind { member: Arc::clone(member), runtime })
}

#[derive(Debug)]
struct Behind {
    member: Arc<LocalMember>,
    runtime: Handle,
}

impl Behind {
    fn work<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> Work<T> {
        let work = self.runtime.spawn(work);
        Box::pin(async move {
            let done = work.await.context("the task has died").and_then(|done| done);
            done.inspect_err(|error| tell(&format!("{what} failed: {error:#}")))
        })
    }
}

impl Backing for Behind {
    fn initialize(&self, mode: Mode) -> Work<()> {
        let member = Arc::clone(&self.member);
        self.work("initialization", async move { member.initialize(mode).await })
    }

    fn config(&self) -> Work<String> {
        let member = Arc::clone(&self.member);
        self.work("config", async move { member.serve_config().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_belongs_to_the_set_before_its_ordinal() {
        assert_eq!(set_of("etcd-main-10").unwrap(), "etcd-main");
        assert!(set_of("etcd").is_err() && set_of("etcd-main").is_err());
    }

    #[tokio::test]
    async fn a_change_that_was_done_before_is_done() {
        insist("leave", || async { Err(anyhow!("etcdserver: member not found")) }, "member not found")
            .await
            .unwrap();
    }
}
