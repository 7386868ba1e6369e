// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A member whose cluster does not answer, and an API server that is away.
use doubles::wait::{self, Poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::api_server::ApiServer;
use crate::scene::{LIMIT, Member};

/// Nobody listens there.
const NOBODY: &str = "http://127.0.0.1:9";

fn lonely(api: &ApiServer) -> Member {
    let mut member = Member::new("m-1");
    let other = ("m-0".to_owned(), "http://127.0.0.1:9".to_owned());
    member.config_map(&[other, member.lists()], &member.peer_url());
    member.start_sidecar(api, NOBODY);
    member
}

#[test]
fn a_silent_cluster_is_begun_once_and_never_begun_anew() {
    let api = ApiServer::with_leases(&["m-0", "m-1"]);
    let member = lonely(&api);
    assert_eq!(member.initialize(), "Successful", "{}", member.log());
    let (code, config) = member.get("/config");
    assert!(code == 200 && config.contains("initial-cluster-state: new\n"), "{config}");
    api.hold("m-0", "1:2:Leader");
    assert_eq!(member.initialize(), "Failed", "{}", member.log());
}

#[test]
fn without_the_api_server_there_is_no_config() {
    let api = ApiServer::with_leases(&["m-0", "m-1"]);
    api.forget_set();
    let member = lonely(&api);
    assert_eq!(member.get("/config").0, 500);
}

#[test]
fn a_sidecar_ends_at_once_by_sigterm() {
    let api = ApiServer::with_leases(&["m-0", "m-1"]);
    let mut member = lonely(&api);
    assert_eq!(member.get("/initialization/start?mode=full").0, 200);
    let mut sidecar = member.sidecar.take().unwrap();
    kill_process(Pid::from_child(&sidecar), Signal::TERM).unwrap();
    let status = wait::until(LIMIT, "the end of the sidecar", || {
        Poll::from_option(sidecar.try_wait().unwrap(), || member.log())
    });
    assert!(status.success(), "{status:?}");
    assert!(!member.log().contains("the cluster is silent"), "it has waited for its work\n{}", member.log());
}
