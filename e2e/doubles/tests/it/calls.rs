// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a scripted etcd answers on its client port.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test are tests, too; clippy sees only marked functions"
)]
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use doubles::etcd::proto::cluster_client::ClusterClient;
use doubles::etcd::proto::kv_client::KvClient;
use doubles::etcd::proto::maintenance_client::MaintenanceClient;
use doubles::etcd::proto::{
    AlarmRequest, MemberListRequest, MoveLeaderRequest, RangeRequest, StatusRequest, StatusResponse,
};
use doubles::etcd::{Answer, Event, Failure, Leader, Script, Standing, id_of};
use doubles::pki::PodPki;
use doubles::span::Span;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tonic::transport::Channel;

use crate::spawned::{LIMIT, Spawned, config, get, runtime};

async fn range(kv: &mut KvClient<Channel>, serializable: bool) -> Result<(), tonic::Status> {
    let request = RangeRequest { key: b"x".to_vec(), serializable, ..RangeRequest::default() };
    let call = kv.range(request);
    let answer = tokio::time::timeout(Duration::from_millis(500), call).await;
    answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("hangs"))).map(|_| ())
}

#[test]
fn calls_follow_the_script_and_its_changes() {
    let etcd = Spawned::new(Script { range: Answer::fails(Failure::Learner35), ..Script::default() });
    etcd.wait_ready();
    runtime().block_on(async {
        let mut kv = KvClient::new(etcd.channel().await);
        let refused = range(&mut kv, false).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
        assert_eq!(refused.message(), "etcdserver: rpc not supported for learner");
        range(&mut kv, true).await.unwrap();
        etcd.stage.change(Script { range: Answer::hangs(), ..Script::default() }, LIMIT);
        assert_eq!(range(&mut kv, false).await.unwrap_err().message(), "hangs");
        etcd.stage.change(Script::default(), LIMIT);
        range(&mut kv, false).await.unwrap();
    });
}

async fn status(maintenance: &mut MaintenanceClient<Channel>) -> StatusResponse {
    maintenance.status(StatusRequest {}).await.unwrap().into_inner()
}

#[test]
fn leadership_follows_the_steps_and_a_transfer() {
    let steps = vec![
        Standing { leader: Leader::Nobody, ..Standing::default() },
        Standing { at: Span(Duration::from_millis(300)), term: 3, nospace: true, ..Standing::default() },
    ];
    let etcd = Spawned::new(Script { standing: steps, ..Script::default() });
    etcd.wait_ready();
    let own = id_of("red-0");
    runtime().block_on(async {
        let channel = etcd.channel().await;
        let mut maintenance = MaintenanceClient::new(channel.clone());
        let mut seen = vec![status(&mut maintenance).await];
        while seen.last().unwrap().leader != own {
            seen.push(status(&mut maintenance).await);
        }
        assert_eq!((seen[0].leader, seen[0].raft_term), (0, 2));
        assert_eq!(seen.last().unwrap().raft_term, 3);
        let alarms = maintenance.alarm(AlarmRequest::default()).await.unwrap().into_inner().alarms;
        assert_eq!(alarms.iter().map(|alarm| (alarm.member_id, alarm.alarm)).collect::<Vec<_>>(), [(own, 1)]);
        let members = ClusterClient::new(channel).member_list(MemberListRequest::default()).await.unwrap();
        let others: Vec<u64> =
            members.into_inner().members.iter().map(|member| member.id).filter(|id| *id != own).collect();
        assert_eq!(others, [id_of("red-1"), id_of("red-2")]);
        maintenance.move_leader(MoveLeaderRequest { target_id: others[1] }).await.unwrap();
        let after = status(&mut maintenance).await;
        assert_eq!((after.leader, after.raft_term), (others[1], 4));
        let again = maintenance.move_leader(MoveLeaderRequest { target_id: others[0] }).await.unwrap_err();
        assert_eq!(again.message(), "etcdserver: not leader");
    });
}

#[test]
fn metrics_show_leadership_and_active_peers() {
    let script = Script { active_peers: Some(vec![id_of("red-2")]), ..Script::default() };
    let etcd = Spawned::new(script);
    etcd.wait_ready();
    let answer = get(TcpStream::connect(etcd.port.addr()).unwrap(), "/metrics").unwrap();
    let peer = |name, active| {
        format!(
            "etcd_network_active_peers{{Local=\"{:x}\",Remote=\"{:x}\"}} {active}\n",
            id_of("red-0"),
            id_of(name)
        )
    };
    for line in ["etcd_server_is_leader 1\n", &peer("red-1", 0), &peer("red-2", 1)] {
        assert!(answer.contains(line), "{line} in {answer}");
    }
}

#[test]
fn tls_demands_a_client_certificate_once_there_is_a_ca() {
    let mut pki = None;
    let etcd = Spawned::with(Script::default(), |folder, port| {
        let made = pki.insert(PodPki::write(folder, &[]).unwrap());
        let section = format!(
            "client-transport-security:\n  cert-file: {}\n  key-file: {}\n  trusted-ca-file: {}\n",
            made.server.cert.display(),
            made.server.key.display(),
            made.client_ca_file.display()
        );
        config(port, "https", &section)
    });
    etcd.wait_ready();
    let pki = pki.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.client_ca.cert_pem().as_bytes()).unwrap()).unwrap();
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots.clone())
    };
    let health = |config: rustls::ClientConfig| {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(etcd.port.addr()).unwrap();
        get(rustls::StreamOwned::new(tls, tcp), "/health")
    };
    health(builder().with_no_client_auth()).unwrap_err();
    etcd.wait_for("a rejected connection", |event| matches!(event, Event::Rejected { .. }));
    let chain = vec![CertificateDer::from_pem_file(&pki.client.cert).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&pki.client.key).unwrap();
    let answer = health(builder().with_client_auth_cert(chain, key).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    etcd.wait_for("a client certificate", |event| {
        matches!(event, Event::Connected { certificate: true, .. })
    });
}
