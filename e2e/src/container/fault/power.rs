// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A loss of power: all volumes at once take nothing more to the disk, then everything is killed, and the machine comes
//! back with what was synced.
use anyhow::Result;

use crate::container::cluster::Cluster;

pub(super) async fn lose(cluster: &Cluster) -> Result<()> {
    let mut held = Vec::new();
    for pod in &cluster.pods {
        held.push(pod.hold().await);
    }
    held.iter_mut().for_each(|held| held.go_down());
    cluster.volumes.cut().await?;
    cluster.kill_all().await;
    let removals = cluster.pods.iter().zip(&mut held).map(|(pod, held)| pod.remove(held));
    futures_util::future::try_join_all(removals).await?;
    cluster.volumes.restore().await?;
    let creations = cluster.pods.iter().zip(&mut held).map(|(pod, held)| async move {
        pod.note_power_loss().await?;
        pod.create(held).await
    });
    futures_util::future::try_join_all(creations).await.map(drop)
}
