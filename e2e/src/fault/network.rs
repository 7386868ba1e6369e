// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Partitions: packets between groups of pods are dropped, in the network namespaces of both sides. Both, since a packet
//! that goes by a service bears the other pod's address on one side only. The node's own packets, and so probes and
//! port-forwards, go on.
use anyhow::{Context, Result};

use super::{Fault, Faults, Heal};
use crate::engine::Engine;
use crate::member::Member;

/// Prints the pid of the sandbox of pod `$2` in namespace `$1`.
const SANDBOX: &str = r#"
sandbox=$(crictl pods -q --state Ready --namespace "^$1\$" --name "^$2\$" | head -1)
[ -n "$sandbox" ] || { echo "no sandbox of pod $2 is ready" >&2; exit 1; }
crictl inspectp -o go-template --template '{{.info.pid}}' "$sandbox"
"#;

/// Drops packets from and to `$3`… in the network namespace of `$1`, in a chain `$2`.
const CUT: &str = r#"
pid=$1 chain=$2; shift 2
rule() { nsenter -t "$pid" -n iptables -w 5 "$@"; }
rule -N "$chain"
for address; do rule -A "$chain" -s "$address" -j DROP; rule -A "$chain" -d "$address" -j DROP; done
rule -I INPUT -j "$chain"; rule -I OUTPUT -j "$chain"
"#;

/// Removes the chain `$2` from the network namespace of `$1`; none of it need be there.
const RECONNECT: &str = r#"
pid=$1 chain=$2
[ -e /proc/"$pid"/ns/net ] || exit 0
rule() { nsenter -t "$pid" -n iptables -w 5 "$@" 2>/dev/null; }
rule -D INPUT -j "$chain" || true; rule -D OUTPUT -j "$chain" || true
rule -F "$chain" || true; rule -X "$chain" || true
if rule -S "$chain" >/dev/null; then echo "chain $chain is still there" >&2; exit 1; fi
"#;

/// One pod's place in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    pid: u32,
    address: String,
}

impl Faults<'_> {
    /// Cuts groups of members off from each other; members of one group still hear each other. A pod that is made anew is
    /// not cut off any more.
    ///
    /// # Errors
    /// A pod has no address or does not run, or the node refuses the rules.
    pub async fn partition(self, groups: &[&[&Member]]) -> Result<Fault> {
        let mut places = Vec::new();
        for group in groups {
            let mut found = Vec::new();
            for member in *group {
                found.push(self.place(member).await?);
            }
            places.push(found);
        }
        let names: Vec<String> = groups
            .iter()
            .map(|group| group.iter().map(|member| member.pod()).collect::<Vec<_>>().join("+"))
            .collect();
        let subjects: Vec<&str> = groups.iter().flat_map(|group| group.iter().map(|it| it.pod())).collect();
        let chain = format!("e2e-{:08x}", rand::random::<u32>());
        let pids = places.iter().flatten().map(|place| place.pid).collect();
        let heal = Heal::Reconnect { chain: chain.clone(), pids };
        let fault = self.began(&format!("partition {}", names.join(" | ")), &subjects, Some(heal));
        for (place, others) in cuts(&places) {
            let pid = place.pid.to_string();
            let args: Vec<&str> = [&*pid, &*chain].into_iter().chain(others).collect();
            let what = || format!("cut off {}", place.address);
            self.engine().node(CUT, &args).await.with_context(what)?;
        }
        Ok(fault)
    }

    async fn place(self, member: &Member) -> Result<Place> {
        let status = member.get().await?.status.unwrap_or_default();
        let address = status.pod_ip.with_context(|| format!("pod {} has no address", member.pod()))?;
        let what = || format!("find the sandbox of pod {}", member.pod());
        let pid =
            self.engine().node(SANDBOX, &[self.case.namespace(), member.pod()]).await.with_context(what)?;
        Ok(Place { pid: pid.trim().parse().with_context(what)?, address })
    }
}

/// For each place, the addresses of all other groups.
fn cuts(groups: &[Vec<Place>]) -> Vec<(&Place, Vec<&str>)> {
    let mut cuts = Vec::new();
    for (group, places) in groups.iter().enumerate() {
        let others = groups.iter().enumerate().filter(|(other, _)| *other != group);
        let others: Vec<&str> = others.flat_map(|(_, places)| places).map(|it| &*it.address).collect();
        cuts.extend(places.iter().map(|place| (place, others.clone())));
    }
    cuts
}

pub(super) async fn reconnect(engine: &Engine, chain: &str, pids: &[u32]) -> Result<()> {
    for pid in pids {
        engine.node(RECONNECT, &[&pid.to_string(), chain]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_cut_off_from_all_other_groups_and_from_none_of_its_own() {
        let place = |pid: u32| Place { pid, address: format!("10.0.0.{pid}") };
        let groups = vec![vec![place(1), place(2)], vec![place(3)]];
        let cuts: Vec<(u32, Vec<&str>)> =
            cuts(&groups).into_iter().map(|(place, others)| (place.pid, others)).collect();
        assert_eq!(cuts, [(1, vec!["10.0.0.3"]), (2, vec!["10.0.0.3"]), (3, vec!["10.0.0.1", "10.0.0.2"])]);
    }
}
