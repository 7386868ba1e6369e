// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a pod's containers are started with: hosts, mounts, and the command lines that etcd-druid renders.
use anyhow::{Context, Result};

use super::{Part, Pod, Sidecar};
use crate::container::files::{AGENT, SERVER_NAME, name, peer_host};
use crate::schedule::MEMBERS;

impl Pod {
    pub(super) fn hosts(&self) -> Vec<String> {
        let mut hosts = vec![format!("{SERVER_NAME}:127.0.0.1")];
        for member in 0..MEMBERS {
            hosts.push(format!("{}:{}", name(member), self.place.addresses[member]));
            let peer =
                if member == self.place.member { "127.0.0.1".into() } else { self.place.gateway.to_string() };
            hosts.push(format!("{}:{peer}", peer_host(member)));
        }
        hosts
    }

    pub(super) async fn create_sidecar(&self) -> Result<()> {
        let mounts = [self.mount("config", "/var/etcd/config"), self.mount("etcdbr/ssl", "/var/etcdbr/ssl")];
        let (image, arguments, environment, more): (&str, Vec<String>, &[String], &[String]) =
            match &self.sidecar {
                Sidecar::Double => (self.hand.image(), self.double_arguments(), &[], &[]),
                Sidecar::Real { image, arguments, environment, mounts } => {
                    (image, arguments.clone(), environment, mounts)
                }
            };
        let mut options: Vec<&str> =
            mounts.iter().chain(more).flat_map(|mount| ["--volume", mount]).collect();
        options.extend(environment.iter().flat_map(|variable| ["--env", variable]));
        if matches!(self.sidecar, Sidecar::Double) {
            options.extend(["--entrypoint", "/sidecar-double"]);
        }
        let ssl = self.mount("ssl", "/var/etcd/ssl");
        options.extend(["--user", "65532:65532", "--volume", &ssl]);
        self.run(Part::Sidecar, &options, image, &arguments).await
    }

    fn double_arguments(&self) -> Vec<String> {
        let words = format!(
            "--listen 127.0.0.1:8080 --config /var/etcd/config/etcd.conf.yaml --script /var/etcd/config/script.yaml \
             --data-dir /var/etcd/data/new.etcd --tls-cert /var/etcdbr/ssl/server/tls.crt \
             --tls-key /var/etcdbr/ssl/server/tls.key --member {}",
            self.name()
        );
        words.split_whitespace().map(str::to_owned).collect()
    }

    pub(super) async fn create_wrapper(&self, image: &str) -> Result<()> {
        // As etcd-druid renders them, and one that lets agents in from outside the pod.
        let words = format!(
            "start-etcd --backup-restore-host-port={SERVER_NAME}:8080 --etcd-server-name={SERVER_NAME} \
             --backup-restore-tls-enabled=true --backup-restore-ca-cert-bundle-path=/var/etcdbr/ssl/ca/bundle.crt \
             --etcd-client-cert-path=/var/etcd/ssl/client/tls.crt --etcd-client-key-path=/var/etcd/ssl/client/tls.key \
             --etcd-client-port=2379 --etcd-wrapper-port=9095 --control-identities={AGENT}"
        );
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mounts = [self.mount("ssl", "/var/etcd/ssl"), self.mount("etcdbr/ssl/ca", "/var/etcdbr/ssl/ca")];
        let mut options: Vec<&str> = mounts.iter().flat_map(|mount| ["--volume", mount]).collect();
        options.extend(["--stop-timeout", "30"]);
        self.run(Part::Wrapper, &options, image, &words).await
    }

    fn mount(&self, from: &str, to: &str) -> String {
        format!("{}:{to}:ro", self.files.of(self.place.member, from).display())
    }

    async fn run(&self, part: Part, options: &[&str], image: &str, arguments: &[String]) -> Result<()> {
        let (container, pause, label) = (self.container(part), self.pause(), self.hand.label());
        let (network, pids) = (format!("container:{pause}"), format!("container:{pause}"));
        let volume = format!("{}:/var/etcd/data", self.place.volume);
        let mut words = vec!["run", "--detach", "--name", &container, "--label", &label];
        words.extend(["--network", &network, "--pid", &pids, "--volume", &volume]);
        words.extend(options);
        words.push(image);
        words.extend(arguments.iter().map(String::as_str));
        self.hand.docker(&words).await.with_context(|| format!("start {container}"))?;
        Ok(())
    }
}
