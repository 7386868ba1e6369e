// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Members that join, come back without their data, and change their URLs.
use std::io::{Read, Write};
use std::net::TcpListener;

use doubles::wait::{self, Poll};

use crate::api_server::ApiServer;
use crate::scene::{LIMIT, Member};

const PEER_TLS: &str = "member.etcd.gardener.cloud/tls-enabled";

fn wait_held(api: &ApiServer, lease: &str, role: &str) {
    wait::until(LIMIT, &format!("the lease {lease} held as {role}"), || {
        let holder = api.holder(lease);
        Poll::when(holder.ends_with(role) && !holder.is_empty(), || holder.clone())
    });
}

#[test]
fn a_cluster_grows_and_spoilt_data_is_kept_while_nobody_can_be_asked() {
    let api = ApiServer::with_leases(&["m-0", "m-1", "full", "delta"]);
    let (mut first, mut second) = (Member::new("m-0"), Member::new("m-1"));
    let ready = first.client_url();
    first.config_map(&[first.lists()], &first.peer_url());
    first.start_sidecar(&api, &ready);
    assert!(first.launch().contains("initial-cluster-state: new\n"));
    wait_held(&api, "m-0", ":Leader");
    assert_eq!(api.annotation("m-0", PEER_TLS), "false");
    for lease in ["full", "delta"] {
        wait::until(LIMIT, "a snapshot lease", || {
            Poll::when(api.holder(lease).parse::<u64>().is_ok(), || api.holder(lease))
        });
    }

    second.config_map(&[first.lists(), second.lists()], &second.peer_url());
    second.start_sidecar(&api, &ready);
    let config = second.launch();
    assert!(config.contains("initial-cluster-state: existing\n"), "{config}");
    assert!(config.contains(&format!("initial-cluster: m-0={},m-1=", first.peer_url())), "{config}");
    wait_held(&api, "m-1", ":Member");
    let id = first.wait_listed(&["started", "m-1", "false"]);
    assert!(api.holder("m-1").starts_with(&id), "{} is not {id}", api.holder("m-1"));

    // The database is no database any more, and with this member down two have no quorum: nobody can be asked.
    second.kill_etcd();
    let db = second.data_dir().join("member/snap/db");
    let mut file = std::fs::File::options().write(true).open(&db).unwrap();
    file.write_all(&[0; 16384]).unwrap();
    let word = second.initialize();
    assert_eq!(word, "Failed", "without a quorum nobody answers, and nothing is thrown away");
    assert!(db.is_file());
}

#[test]
fn a_late_member_of_a_cluster_joins_keeps_its_data_and_is_replaced_without_it() {
    let api = ApiServer::with_leases(&["m-0", "m-1", "m-2", "full", "delta"]);
    let mut members: Vec<_> = (0..3).map(|n| Member::new(&format!("m-{n}"))).collect();
    let lists: Vec<_> = members.iter().map(Member::lists).collect();
    let ready = members[0].client_url();
    for member in &mut members {
        member.config_map(&lists, &member.peer_url());
        member.start_sidecar(&api, &ready);
    }
    let (early, late) = members.split_at_mut(2);
    std::thread::scope(|scope| {
        for member in early {
            scope.spawn(|| assert!(member.launch().contains("initial-cluster-state: new\n")));
        }
    });
    wait_held(&api, "m-1", "");
    // It is listed, and nobody can tell whether it has ever run.
    assert!(late[0].launch().contains("initial-cluster-state: existing\n"));
    let old = members[0].wait_listed(&["started", "m-2", "false"]);
    wait_held(&api, "m-2", ":Member");

    members[2].kill_etcd();
    members[2].launch();
    wait::until(LIMIT, "the member again", || {
        let list = members[2].member_list();
        Poll::when(list.contains(&old), || list.clone())
    });

    members[2].kill_etcd();
    std::fs::remove_dir_all(members[2].data_dir()).unwrap();
    let config = members[2].launch();
    assert!(config.contains("initial-cluster-state: existing\n"), "{config}");
    wait::until(LIMIT, "the member under a new id", || {
        let list = members[0].member_list();
        let back = list.lines().any(|line| {
            !line.starts_with(&old) && ["started", "m-2", "false"].iter().all(|word| line.contains(word))
        });
        Poll::when(back && !list.contains(&old), || list.clone())
    });
}

#[test]
fn peer_urls_follow_the_config_and_the_wrapper_is_told_to_stop() {
    let api = ApiServer::with_leases(&["m-0", "full", "delta"]);
    let mut member = Member::new("m-0");
    let (old, ready) = (member.peer_url(), member.client_url());
    member.config_map(&[member.lists()], &old);
    member.start_sidecar(&api, &ready);
    member.launch();
    wait_held(&api, "m-0", ":Leader");

    let wrapper = TcpListener::bind((member.host.as_str(), 9095)).unwrap();
    wrapper.set_nonblocking(true).unwrap();
    let new = old.replace("http://127", "https://127");
    member.config_map(&[(member.name.clone(), new.clone())], &new);
    member.kill_sidecar();
    assert_eq!(api.annotation("m-0", PEER_TLS), "false");
    member.start_sidecar(&api, &ready);
    let mut request = [0; 16];
    let mut stream = wait::until(LIMIT, "the call to the wrapper", || {
        Poll::from_option(wrapper.accept().ok(), || member.log())
    })
    .0;
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"POST /stop HTTP/");
    write!(stream, "HTTP/1.1 500 .\r\nContent-Length: 0\r\n\r\n").unwrap();
    member.wait_listed(&["m-0", &new]);
    wait::until(LIMIT, "the annotation", || {
        let said = api.annotation("m-0", PEER_TLS);
        Poll::when(said == "true", || format!("{said}\n{}", member.log()))
    });

    // Without a wrapper that answers, the sidecar ends; the next one has nothing to change.
    drop((stream, wrapper));
    member.config_map(&[member.lists()], &old);
    member.kill_sidecar();
    member.start_sidecar(&api, &ready);
    let mut sidecar = member.sidecar.take().unwrap();
    let status = wait::until(LIMIT, "the end of the sidecar", || {
        Poll::from_option(sidecar.try_wait().unwrap(), || member.log())
    });
    assert_eq!(status.code(), Some(1));
    member.wait_listed(&["m-0", &old]);
}
