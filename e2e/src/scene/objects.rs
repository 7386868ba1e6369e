// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The objects of a case as YAML, a file for each kind. Of secrets only names and keys: the folder is kept and passed on.
use std::path::Path;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::write;
use crate::case::Case;
use crate::cluster::etcd_resource;

pub(super) async fn write_all(case: &Case, folder: &Path) {
    let kind = |group: &str, version: &str, kind: &str| {
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    };
    let kinds = [
        etcd_resource(),
        kind("apps", "v1", "StatefulSet"),
        kind("", "v1", "Pod"),
        kind("", "v1", "PersistentVolumeClaim"),
        kind("", "v1", "Service"),
        kind("", "v1", "ConfigMap"),
        kind("", "v1", "Secret"),
        kind("discovery.k8s.io", "v1", "EndpointSlice"),
        kind("coordination.k8s.io", "v1", "Lease"),
    ];
    for kind in kinds {
        let api = Api::<DynamicObject>::namespaced_with(case.client().clone(), case.namespace(), &kind);
        let text = match api.list(&ListParams::default()).await {
            Ok(list) => {
                let objects = list.items.iter().map(|object| bare(serde_json::to_value(object)));
                serde_saphyr::to_string(&objects.collect::<Vec<_>>())
                    .unwrap_or_else(|error| error.to_string())
            }
            Err(error) => format!("{error:#}"),
        };
        write(folder, &format!("{}.yaml", kind.plural), &text);
    }
}

/// Without what only machines read, and without secrets.
fn bare(object: serde_json::Result<Value>) -> Value {
    let mut object = object.unwrap_or_else(|error| json!(error.to_string()));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let is_secret =
        object.get("kind").and_then(Value::as_str) == Some("Secret") || object.get("type").is_some();
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut).filter(|_| is_secret) {
        data.values_mut().for_each(|value| *value = json!("left out"));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_managed_fields_are_left_out_and_other_data_stays() {
        let secret = bare(Ok(json!({"type": "kubernetes.io/tls", "data": {"tls.key": "c2VjcmV0"},
            "metadata": {"name": "a", "managedFields": [1]}})));
        assert_eq!(secret["data"]["tls.key"], "left out");
        assert_eq!(secret["metadata"], json!({"name": "a"}));
        let config = bare(Ok(json!({"kind": "ConfigMap", "data": {"etcd.conf.yaml": "name: x"}})));
        assert_eq!(config["data"]["etcd.conf.yaml"], "name: x");
    }
}
