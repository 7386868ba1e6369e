// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Each warning of the member stage: when it stands, and when not any more.
use rstest::rstest;

use super::super::testing::config;
use super::super::view::{Leadership, Peer, Source};
use super::*;

fn codes(member: &MemberView) -> Vec<&'static str> {
    find(member, Some(&config()), None).into_iter().map(|finding| finding.code).collect()
}

fn with_db(size: u64, quota: u64) -> MemberView {
    MemberView { db: Some(Db { size, in_use: 10 << 20, quota }), ..MemberView::default() }
}

#[test]
fn i12_a_database_at_80_percent_warns_with_what_a_defragmentation_would_free() {
    assert_eq!(codes(&with_db(79 << 20, 100 << 20)), [""; 0]);
    let found = find(&with_db(80 << 20, 100 << 20), None, None);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, "db_near_quota");
    assert!(found[0].detail.contains("would free 70 MiB"), "{}", found[0].detail);
}

fn known_by(urls: &[&str]) -> MemberView {
    let leadership = Leadership {
        member_id: Some(7),
        leader_id: None,
        has_leader: false,
        is_leader: false,
        is_learner: Some(false),
        term: None,
        source: Source::Status,
        since: SystemTime::UNIX_EPOCH,
    };
    let row = |id, urls: &[&str]| Peer {
        id,
        name: String::new(),
        peer_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        is_learner: false,
    };
    MemberView {
        leadership: Some(leadership),
        members: Some(vec![row(8, &["http://other:2380"]), row(7, urls)]),
        ..MemberView::default()
    }
}

#[test]
fn peer_urls_that_the_cluster_knows_otherwise_warn() {
    assert_eq!(codes(&known_by(&["http://etcd-main-0:2380/"])), [""; 0]);
    assert_eq!(codes(&known_by(&["https://etcd-main-0:2380"])), ["peer_urls_differ"]);
    assert_eq!(codes(&known_by(&["http://etcd-main-0:2380", "http://new:2380"])), ["peer_urls_differ"]);
}

#[test]
fn auth_that_hides_status_warns() {
    let member = MemberView { auth_hides_status: true, ..MemberView::default() };
    assert_eq!(codes(&member), ["auth_hides_status"]);
}

#[rstest]
#[case("3.5.0", true)]
#[case("3.5.2", true)]
#[case("3.5.3", false)]
#[case("3.5.21", false)]
#[case("3.4.34", false)]
fn i1_versions_that_lose_data_when_killed_warn(#[case] version: &str, #[case] warns: bool) {
    let member = MemberView { version: Some(version.into()), ..MemberView::default() };
    assert_eq!(codes(&member) == ["etcd_version_unsafe"], warns);
}

#[test]
fn i12_a_nearly_full_volume_warns() {
    let full = Volume { free_bytes: 5 << 20, total_bytes: 10 << 30, free_inodes: 900, total_inodes: 1000 };
    let found = find(&MemberView::default(), None, Some(full));
    assert_eq!(found[0].code, "volume_nearly_full");
    assert!(found[0].detail.starts_with("5 MiB of 10.0 GiB"), "{}", found[0].detail);
}

#[test]
fn a_warning_keeps_the_time_it_began_until_it_is_gone() {
    let found = |code, detail: &str| Finding { code, detail: detail.into() };
    let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let mut standing = Standing::default();
    assert!(standing.update(vec![found("a", "1")], at(1)));
    assert!(!standing.update(vec![found("a", "2")], at(2)));
    assert_eq!(standing.warnings(), [Warning { code: "a", since: at(1), detail: "2".into() }]);
    assert!(standing.update(vec![found("a", "2"), found("b", "")], at(3)));
    assert!(standing.update(vec![], at(4)));
    assert!(standing.update(vec![found("a", "3")], at(5)));
    assert_eq!(standing.warnings()[0].since, at(5));
}
