// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Faults of single processes of a pod, by signals from the node, where no process of the pod can refuse them.
use anyhow::{Context, Result, bail};

use super::{Fault, Faults, Heal};
use crate::engine::Engine;
use crate::member::{ETCD, Member, SIDECAR};

/// A process of a member's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The wrapper's child. With the Go image there is none: its etcd is the wrapper.
    Etcd,
    /// The first process of the main container.
    Wrapper,
    /// The first process of the sidecar's container.
    Sidecar,
}

/// Prints the pid of the first process of `$3` in pod `$2` of namespace `$1`.
const FIRST: &str = r#"
sandbox=$(crictl pods -q --state Ready --namespace "^$1\$" --name "^$2\$" | head -1)
[ -n "$sandbox" ] || { echo "no sandbox of pod $2 is ready" >&2; exit 1; }
id=$(crictl ps -q --state Running --pod "$sandbox" --name "^$3\$" | head -1)
[ -n "$id" ] || { echo "no container $3 of pod $2 runs" >&2; exit 1; }
crictl inspect -o go-template --template '{{.info.pid}}' "$id"
"#;

/// Prints the pid of the child of `$1` that is called `$2`.
const CHILD: &str = r#"
for child in $(cat /proc/"$1"/task/*/children); do
  [ "$(cat /proc/"$child"/comm)" = "$2" ] && { echo "$child"; exit 0; }
done
echo "process $1 has no child called $2" >&2; exit 1
"#;

impl Process {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Wrapper => "wrapper",
            Self::Sidecar => "sidecar",
        }
    }
}

impl Faults<'_> {
    /// `kill -9`. What follows is the kubelet's and the wrapper's matter: announce the restarts that you expect.
    ///
    /// # Errors
    /// The process does not run, or the engine refuses.
    pub async fn kill(self, member: &Member, process: Process) -> Result<()> {
        let pid = self.pid(member, process).await?;
        self.did(&format!("kill -9 {}", process.name()), &[member.pod()]);
        self.engine().node(r#"kill -9 "$1""#, &[&pid.to_string()]).await.map(drop)
    }

    /// SIGSTOP, until it is healed by SIGCONT.
    ///
    /// # Errors
    /// As [`Faults::kill`].
    pub async fn freeze(self, member: &Member, process: Process) -> Result<Fault> {
        let pid = self.pid(member, process).await?;
        let name = format!("{} frozen", process.name());
        let fault = self.began(&name, &[member.pod()], Some(Heal::Continue { pids: vec![pid] }));
        self.engine().node(r#"kill -STOP "$1""#, &[&pid.to_string()]).await?;
        Ok(fault)
    }

    /// The pid of a process, as the node counts them.
    ///
    /// # Errors
    /// It does not run, or the engine refuses.
    pub async fn pid(self, member: &Member, process: Process) -> Result<u32> {
        let what = || format!("find the {} of pod {}", process.name(), member.pod());
        let container = match process {
            Process::Etcd | Process::Wrapper => ETCD,
            Process::Sidecar => SIDECAR,
        };
        let first = self.engine().node(FIRST, &[self.case.namespace(), member.pod(), container]).await;
        let first = parse(&first.with_context(what)?).with_context(what)?;
        match process {
            Process::Wrapper | Process::Sidecar => Ok(first),
            Process::Etcd => {
                let child =
                    self.engine().node(CHILD, &[&first.to_string(), "etcd"]).await.with_context(what)?;
                parse(&child).with_context(what)
            }
        }
    }
}

fn parse(pid: &str) -> Result<u32> {
    match pid.trim().parse() {
        // Signals to 0 and 1 would mean others.
        Ok(pid) if pid > 1 => Ok(pid),
        _ => bail!("{:?} is no pid", pid.trim()),
    }
}

pub(super) async fn go_on(engine: &Engine, pids: &[u32]) -> Result<()> {
    for pid in pids {
        engine.node(r#"kill -CONT "$1" 2>/dev/null || true"#, &[&pid.to_string()]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_a_pod_is_a_pid() {
        assert_eq!(parse("4711\n").unwrap(), 4711);
        for none in ["", "0", "1", "-1", "<no value>", "12 13"] {
            assert!(parse(none).is_err(), "{none:?}");
        }
    }
}
