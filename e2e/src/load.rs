// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Traffic on the members of an Etcd while a scenario does something to them, and the verdict on what the clients were
//! told. Clients reach a member from inside its pod, so a partition among members does not part them from theirs.
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::druid::Etcd;
use crate::etcd::{Client, Connector, Tls};
use crate::forward;
use crate::history::{Judgement, judge};
use crate::member::Member;
use crate::pki::Use;
use crate::timeline;
use crate::traffic::{Plan, Target, Traffic};

/// What a load leaves in the case's folder: the calls, and the verdict on them.
pub const HISTORY: &str = "history.jsonl";
/// Its file in a case's folder.
pub const JUDGEMENT: &str = "judgement.json";

/// The port of etcd's clients in etcd-druid's pods.
const CLIENT_PORT: u16 = 2379;
/// A few calls everywhere before anything is done.
const BEFORE: u64 = 30;
const SOON: Duration = Duration::from_secs(60);
/// Longer than any scenario.
const VALID: Duration = Duration::from_secs(24 * 3600);

/// Traffic under way.
#[derive(Debug)]
pub struct Load {
    case: Case,
    traffic: Traffic,
    /// The zero of the history's times, in milliseconds since 1970.
    began: u64,
}

/// What the report reads of a load: `judgement.json` beside `history.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The zero of the history's times, in milliseconds since 1970.
    pub began: u64,
    /// Of what its clients were told.
    pub judgement: Judgement,
}

impl Load {
    /// Lets a client for each member begin, and waits until all of them were served.
    ///
    /// # Errors
    /// A member does not answer, or the cluster takes no writes.
    pub async fn start(etcd: &Etcd) -> Result<Self> {
        let case = etcd.case().clone();
        let file = case.folder().join(HISTORY);
        let began = timeline::now();
        let plan = Plan {
            clients: etcd.members().len(),
            file: Some(file.clone()),
            ..Plan::new("traffic/", case.seed())
        };
        let targets = etcd.members().iter().map(target).collect::<Result<_>>()?;
        let traffic = Traffic::start(plan, targets).await.context("start the traffic")?;
        for member in etcd.members() {
            traffic.answered_by(member.pod(), BEFORE, SOON).await?;
        }
        case.step(&format!("traffic on all members, seed {}", traffic.seed()));
        Ok(Self { case, traffic, began })
    }

    /// The clients, for what a scenario waits to see in them.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Waits until the cluster as a whole takes writes, whatever some member does.
    ///
    /// # Errors
    /// Not within `limit`.
    pub async fn served(&self, limit: Duration) -> Result<()> {
        self.traffic.acknowledged(BEFORE, limit).await
    }

    /// Stops the clients, reads every key once more, and judges: each key must have been one register, and hold what was
    /// last acknowledged.
    ///
    /// # Errors
    /// It was not so, with the calls that show it; or nothing can be said.
    pub async fn judge(self) -> Result<Judgement> {
        let history = self.traffic.stop().await.context("stop the traffic")?;
        let judgement = judge(&history);
        self.case.step(&format!("history: {judgement}"));
        let pause = judgement.longest_pause.map_or(0, |(from, to)| to.saturating_sub(from));
        let pause = Duration::from_micros(pause).as_secs_f64();
        self.case.measure("longest time without an acknowledged write", format!("{pause:.1} s"));
        let judged = Judged { began: self.began, judgement };
        let path = self.case.folder().join(JUDGEMENT);
        std::fs::write(&path, serde_json::to_vec_pretty(&judged)?)
            .with_context(|| format!("write {}", path.display()))?;
        let what = || format!("the history in {}", self.case.folder().display());
        judged.judgement.require().with_context(what)?;
        Ok(judged.judgement)
    }
}

fn target(member: &Member) -> Result<Target> {
    Ok(Target { member: member.pod().to_owned(), client: client(member)? })
}

/// A client of a member's own etcd, from inside its pod.
///
/// # Errors
/// None that our own certificates can bring.
pub fn client(member: &Member) -> Result<Client> {
    let (client, namespace) = (member.case().client().clone(), member.case().namespace().to_owned());
    let pod = member.pod().to_owned();
    let mut connector = Connector::new(format!("pod {pod}"), move || {
        let (client, namespace, pod) = (client.clone(), namespace.clone(), pod.clone());
        async move { forward::connect(&client, &namespace, &pod, CLIENT_PORT).await }
    });
    if member.has_client_tls() {
        let pki = member.case().pki();
        let pair = pki.sign(Use::Client, "traffic", member.case().namespace(), VALID);
        let pair = pair.as_ref().map(|pair| (pair.cert_pem.as_str(), pair.key_pem.as_str()));
        connector = connector.with_tls(Tls::new(pki.ca_pem(Use::ClientCa), pair, &member.server_name())?);
    }
    Ok(Client::new(connector))
}
