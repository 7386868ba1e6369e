// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Carries out the faults of a step and mends what does not mend itself. A fault is over when nothing of it is left but
//! what the cluster has to recover from; whether it does is asked afterwards, for all members alike.
mod agents;
mod data;
mod power;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::Mutex;

use super::cluster::Cluster;
use super::links::Way;
use super::pod::Part;
use super::setting::Setting;
use crate::check::Operation;
use crate::schedule::{Fault, Kind, MEMBERS};
use crate::timeline::What;

/// What a slow network takes for a message, each way.
const SLOW: Duration = Duration::from_millis(120);
/// Takes the space of a volume.
const FILLER: &str = "/var/etcd/data/filler";

/// What the faults of a run remember of each other.
#[derive(Debug, Default)]
pub struct Faults {
    /// Images that members can be moved to, by name.
    images: Vec<String>,
    /// They are of rising lines of etcd.
    rising: bool,
    /// The sidecar repairs a member that lost its data.
    repairs: bool,
    number: std::sync::atomic::AtomicU32,
    operations: Mutex<Vec<Operation>>,
}

impl Faults {
    /// Those of a run with these images and this sidecar; nothing is carried out yet.
    pub fn new(setting: &Setting) -> Self {
        Self {
            images: setting.wrappers().iter().map(|image| image.reference.clone()).collect(),
            rising: setting.is_mixed(),
            repairs: !setting.has_double(),
            ..Self::default()
        }
    }

    /// All operations that agents were told of.
    pub async fn operations(&self) -> Vec<Operation> {
        self.operations.lock().await.clone()
    }

    /// Looks at all operations once more, when everything is quiet.
    pub async fn look_again(&self, cluster: &Cluster) {
        agents::look_again(cluster, &mut self.operations.lock().await).await;
    }

    /// One fault, from its beginning until it is over.
    ///
    /// # Errors
    /// It could not be carried out, or not be mended.
    pub async fn carry_out(&self, cluster: &Cluster, fault: &Fault) -> Result<()> {
        let number = self.number.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let subjects =
            if fault.kind.is_of_all() { Vec::new() } else { vec![super::files::name(fault.member)] };
        cluster.timeline.add(What::FaultBegan { fault: number, name: fault.kind.name().into(), subjects });
        let done = self.at_work(cluster, fault).await;
        cluster.timeline.add(What::FaultEnded { fault: number });
        done.with_context(|| format!("fault {fault}"))
    }

    async fn at_work(&self, cluster: &Cluster, fault: &Fault) -> Result<()> {
        let pod = &cluster.pods[fault.member];
        match fault.kind {
            Kind::KillEtcd => signal(cluster, fault, "etcd", "kill").await,
            Kind::KillWrapper => signal(cluster, fault, "etcd-wrapper", "kill").await,
            Kind::KillSidecar => {
                // The kubelet does the rest.
                cluster.hand.docker(&["kill", &pod.container(Part::Sidecar)]).await.map(drop)
            }
            Kind::FreezeEtcd => freeze(cluster, fault, "etcd").await,
            Kind::FreezeWrapper => freeze(cluster, fault, "etcd-wrapper").await,
            Kind::StopContainer => {
                let mut held = pod.hold().await;
                held.go_down();
                pod.stop_wrapper(&held).await?;
                tokio::time::sleep(fault.span).await;
                pod.start(&mut held, Part::Wrapper).await
            }
            Kind::KillPod => {
                let mut held = pod.hold().await;
                held.go_down();
                pod.kill_containers(&held).await?;
                pod.start(&mut held, Part::Sidecar).await?;
                pod.start(&mut held, Part::Wrapper).await
            }
            Kind::NewImage => self.new_image(cluster, fault.member).await,
            Kind::Isolate => part(cluster, fault, true, true).await,
            Kind::Mute => part(cluster, fault, true, false).await,
            Kind::Deafen => part(cluster, fault, false, true).await,
            Kind::SlowNetwork => {
                let slow = Way { blocked: false, delay: SLOW };
                every_way(|from, to| cluster.links.set(from, to, slow));
                tokio::time::sleep(fault.span).await;
                cluster.links.free();
                Ok(())
            }
            Kind::FullVolume => {
                pod.hand(&["fill", FILLER]).await?;
                // Somebody has to write, or nobody notices.
                let ended = signal(cluster, fault, "etcd", "kill").await;
                tokio::time::sleep(fault.span).await;
                pod.hand(&["remove", FILLER]).await?;
                ended
            }
            Kind::RotateCertificates => {
                cluster.files.sign_all()?;
                Ok(())
            }
            Kind::RacingAgents => agents::race(cluster, fault, &self.operations).await,
            Kind::LoseData => data::lose(cluster, fault.member, self.repairs).await,
            Kind::DamageData => data::damage(cluster, fault.member, self.repairs).await,
            Kind::PowerLoss => power::lose(cluster).await,
        }
    }

    /// The next image for a member. Of rising lines of etcd none is left out, and no two members are further apart than
    /// one: the lowest member goes first, whoever was drawn.
    async fn new_image(&self, cluster: &Cluster, drawn: usize) -> Result<()> {
        ensure!(self.images.len() > 1, "there is no other image to move to");
        let mut places = [0; MEMBERS];
        for (place, pod) in places.iter_mut().zip(&cluster.pods) {
            let held = pod.hold().await;
            *place = self.images.iter().position(|image| image == pod.image(&held)).unwrap_or(0);
        }
        let lowest = places.iter().copied().min().unwrap_or(0);
        let (member, next) = if self.rising {
            let member = if places[drawn] == lowest {
                drawn
            } else {
                places.iter().position(|place| *place == lowest).unwrap_or(drawn)
            };
            (member, (lowest + 1).min(self.images.len() - 1))
        } else {
            (drawn, (places[drawn] + 1) % self.images.len())
        };
        let pod = &cluster.pods[member];
        let image = &self.images[next];
        cluster.timeline.add(What::Step { text: format!("{} moves to {image}", pod.name()) });
        let mut held = pod.hold().await;
        held.go_down();
        pod.stop_wrapper(&held).await?;
        pod.replace_wrapper(&mut held, image).await?;
        pod.start(&mut held, Part::Wrapper).await
    }
}

async fn signal(cluster: &Cluster, fault: &Fault, process: &str, signal: &str) -> Result<()> {
    // One that is just starting anew is not there to be hit: that is as good as a hit.
    cluster.pods[fault.member].hand(&["signal", process, signal]).await.map(drop)
}

async fn freeze(cluster: &Cluster, fault: &Fault, process: &str) -> Result<()> {
    signal(cluster, fault, process, "stop").await?;
    tokio::time::sleep(fault.span).await;
    signal(cluster, fault, process, "cont").await
}

async fn part(cluster: &Cluster, fault: &Fault, mute: bool, deaf: bool) -> Result<()> {
    let set = |way: Way| {
        for other in (0..MEMBERS).filter(|other| *other != fault.member) {
            if mute {
                cluster.links.set(fault.member, other, way);
            }
            if deaf {
                cluster.links.set(other, fault.member, way);
            }
        }
    };
    set(Way { blocked: true, ..Way::default() });
    tokio::time::sleep(fault.span).await;
    set(Way::default());
    Ok(())
}

fn every_way(set: impl Fn(usize, usize)) {
    for from in 0..MEMBERS {
        for to in (0..MEMBERS).filter(|to| *to != from) {
            set(from, to);
        }
    }
}
