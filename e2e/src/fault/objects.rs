// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Faults and changes that come through the API server: pods that are deleted, certificates that are replaced.
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::Faults;
use crate::druid::Etcd;
use crate::member::Member;
use crate::pki::Use;

impl Faults<'_> {
    /// Deletes a member's pod with the grace that it asks for. Returns the uid of the pod that goes.
    ///
    /// # Errors
    /// The API server's; there is no such pod.
    pub async fn delete_pod(self, member: &Member) -> Result<String> {
        self.delete(member, &DeleteParams::default(), "pod deleted").await
    }

    /// Deletes a member's pod without grace, as when a node is lost: all its processes are killed.
    ///
    /// # Errors
    /// As [`Faults::delete_pod`].
    pub async fn kill_pod(self, member: &Member) -> Result<String> {
        self.delete(member, &DeleteParams::default().grace_period(0), "pod killed").await
    }

    async fn delete(self, member: &Member, params: &DeleteParams, name: &str) -> Result<String> {
        let uid = member.uid().await?;
        self.did(name, &[member.pod()]);
        let pods = self.case.api::<Pod>();
        pods.delete(member.pod(), params).await.with_context(|| format!("delete pod {}", member.pod()))?;
        Ok(uid)
    }

    /// Replaces certificates by new ones of the same authority, valid for `valid` from now. The kubelet carries them into
    /// the pods within about a minute and a half.
    ///
    /// # Errors
    /// The API server's.
    pub async fn rotate(self, etcd: &Etcd, uses: &[Use], valid: Duration) -> Result<()> {
        let secrets = self.case.api::<Secret>();
        for of in uses {
            let secret = self.case.pki().secret(*of, etcd.name(), self.case.namespace(), valid);
            let name = secret.name_any();
            let patch = Patch::Merge(json!({"data": secret.data}));
            let what = || format!("replace secret {name}");
            secrets.patch(&name, &PatchParams::default(), &patch).await.with_context(what)?;
            self.did("certificate replaced", &[&name]);
        }
        Ok(())
    }
}
