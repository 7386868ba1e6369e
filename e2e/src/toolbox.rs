// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A pod beside the members, with a shell and etcdctl, that sits and waits for commands: a client that comes as clients do,
//! through the service of ready members, with a certificate of its own where there is TLS.
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::join;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::case::Case;
use crate::druid::Etcd;
use crate::member;
use crate::pki::{BUNDLE, Use};
use crate::stage::Role;
use crate::wait::{self, Poll};

/// The pod's name.
pub const POD: &str = "toolbox";
/// For a command that should be over at once.
const SHORT: Duration = Duration::from_secs(30);
const START: Duration = Duration::from_secs(60);

/// The pod, ready for commands.
#[derive(Clone, Debug)]
pub struct Toolbox {
    case: Case,
    etcd: Etcd,
}

/// How a command in a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Of the command.
    pub code: i32,
    /// Whole.
    pub stdout: String,
    /// Whole.
    pub stderr: String,
}

impl Toolbox {
    /// Starts the pod for clients of `etcd`; takes the one that is there.
    ///
    /// # Errors
    /// The stage has no image for it, or it does not start.
    pub async fn start(etcd: &Etcd) -> Result<Self> {
        let case = etcd.case().clone();
        let Some(image) = case.cluster().stage.image(Role::Toolbox) else {
            bail!("the stage has no image for the role {}", Role::Toolbox);
        };
        let secret =
            |name: &str, of: Use| json!({"name": name, "secret": {"secretName": of.secret(etcd.name())}});
        let pod = json!({
            "metadata": {"name": POD},
            "spec": {
                // A sleep that is process 1 hears no SIGTERM.
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": POD,
                    "image": image.reference,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sleep", "1000000"],
                    "volumeMounts": [
                        {"name": "ca", "mountPath": "/tls/ca"},
                        {"name": "client", "mountPath": "/tls/client"},
                    ],
                }],
                "volumes": [secret("ca", Use::ClientCa), secret("client", Use::Client)],
            },
        });
        let pods = case.api::<Pod>();
        match pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).context("create the toolbox"),
        }
        wait::until(START, "the toolbox", async || {
            let pod = pods.get(POD).await?;
            if let Some(never) = member::never_starts(&pod) {
                return Ok(Poll::Never(never));
            }
            Ok(Poll::when(member::is_ready(&pod), || member::shown(&pod)))
        })
        .await?;
        Ok(Self { case, etcd: etcd.clone() })
    }

    /// etcdctl through the client service: returns what it wrote to stdout.
    ///
    /// # Errors
    /// It ended with another code than 0, with its stderr; or did not end within 30 s.
    pub async fn etcdctl(&self, args: &[&str]) -> Result<String> {
        let ran = self.try_etcdctl(args).await?;
        if ran.code != 0 {
            bail!("etcdctl {}: exit {}: {}", shown(args), ran.code, ran.stderr.trim());
        }
        Ok(ran.stdout)
    }

    /// As [`Toolbox::etcdctl`], where a failure is an answer too.
    ///
    /// # Errors
    /// It could not be run, or did not end within 30 s.
    pub async fn try_etcdctl(&self, args: &[&str]) -> Result<Ran> {
        let endpoint = format!("--endpoints={}", self.etcd.endpoint());
        let ca = format!("--cacert=/tls/ca/{BUNDLE}");
        let mut command = vec!["etcdctl", &endpoint, "--command-timeout=10s"];
        if self.etcd.has_client_tls() {
            command.extend([&*ca, "--cert=/tls/client/tls.crt", "--key=/tls/client/tls.key"]);
        }
        command.extend(args);
        self.run(&command).await
    }

    /// Writes a key and reads it back, both through the client service.
    ///
    /// # Errors
    /// Either fails, or another value comes back.
    pub async fn put_and_get(&self, key: &str, value: &str) -> Result<()> {
        self.etcdctl(&["put", key, value]).await?;
        let read = self.etcdctl(&["get", key, "--print-value-only"]).await?;
        if read.trim_end() != value {
            bail!("{key} reads as {:?} after {value:?} was written", read.trim_end());
        }
        Ok(())
    }

    /// Any command in the pod, within 30 s.
    ///
    /// # Errors
    /// It could not be run, or did not end in time.
    pub async fn run(&self, command: &[&str]) -> Result<Ran> {
        exec(self.case.client(), self.case.namespace(), POD, POD, command).await
    }
}

/// Runs a command in a container, within 30 s.
///
/// # Errors
/// It could not be run, or did not end in time.
pub async fn exec(
    client: &Client,
    namespace: &str,
    pod: &str,
    container: &str,
    command: &[&str],
) -> Result<Ran> {
    let what = || format!("run {} in container {container} of pod {pod}", shown(command));
    let params = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let run = async {
        let mut process = pods.exec(pod, command.to_vec(), &params).await?;
        let status = process.take_status().context("no status")?;
        let (stdout, stderr) = join(whole(process.stdout()), whole(process.stderr())).await;
        let status = status.await.context("the connection was cut before the end")?;
        let code = match status.status.as_deref() {
            Some("Success") => 0,
            _ => exit_code(&status).with_context(|| format!("{:?}", status.message))?,
        };
        anyhow::Ok(Ran { code, stdout: stdout?, stderr: stderr? })
    };
    tokio::time::timeout(SHORT, run).await.with_context(what)?.with_context(what)
}

/// A command for an error: scripts and values are cut.
fn shown(command: &[&str]) -> String {
    let cut = |word: &&str| match word.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", word[..end].trim()),
        None => (*word).to_owned(),
    };
    command.iter().map(cut).collect::<Vec<_>>().join(" ")
}

/// The exit code in the status of a command that ended otherwise than with 0; None when it was not run at all.
fn exit_code(status: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Status) -> Option<i32> {
    let causes = status.details.as_ref()?.causes.as_ref()?;
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
    code.message.as_ref()?.parse().ok()
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await.context("read its output")?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_where_a_command_is_told() {
        assert_eq!(shown(&["put", "a", &"ä".repeat(70)]), format!("put a {}…", "ä".repeat(60)));
    }

    #[test]
    fn an_exit_code_is_read_and_a_refusal_has_none() {
        let status =
            |details| serde_json::from_value(json!({"status": "Failure", "details": details})).unwrap();
        let code = status(json!({"causes": [{"reason": "ExitCode", "message": "7"}]}));
        assert_eq!(exit_code(&code), Some(7));
        assert_eq!(exit_code(&status(json!({}))), None);
    }
}
