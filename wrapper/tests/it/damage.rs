// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Group I on one member: directories that etcd refuses or repairs, versions that are unsafe, space that runs out.
//! The damage is done to real directories and met by a real etcd.
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use doubles::etcd::script::{Ready, Sender};
use doubles::etcd::{Ending, How, Script, Standing};
use doubles::sidecar::Route;
use rstest::rstest;
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, Wrapper, wait_gone};

#[rstest]
#[case("3.5.0", true)]
#[case("3.5.2", true)]
#[case("3.5.3", false)]
fn i1_an_etcd_that_loses_data_when_killed_is_warned_of(#[case] number: &str, #[case] warns: bool) {
    let mut script = Script::default();
    script.version.number = number.to_owned();
    let scene = Scene::scripted(script);
    let wrapper = scene.start_ready();
    wrapper.wait_status(LONG, "etcd's version", |status| status["etcd"]["version"] == number);
    let has = |status: &serde_json::Value| {
        let warnings = status["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning["code"] == "etcd_version_unsafe")
    };
    if warns {
        wrapper.wait_status(LONG, "the warning", has);
        wrapper.wait_log(5 * SECOND, "can lose consistency");
    } else {
        // The versions of both come by the same look at etcd: the other warnings would be there by now.
        wrapper.wait_status(LONG, "a database size", |status| status["etcd"]["db"]["size"].is_u64());
        assert!(!has(&wrapper.status()));
        assert!(!wrapper.log().contains("can lose consistency"));
    }
}

#[rstest]
#[case::configuration_or_port(1)]
#[case::panic(2)]
fn i5_a_directory_that_etcd_refuses_is_told_with_its_status(#[case] code: u8) {
    let end = Ending::after_start(SECOND / 10, How::Exit(code));
    let ready = Ready { sender: Sender::Nobody, ..Ready::default() };
    let scene = Scene::scripted(Script { end: Some(end), ready, ..Script::default() });
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let record = wrapper.record();
    assert_eq!(record["phase"], "starting");
    assert_eq!(record["etcd"]["exitCode"], code);
    assert_eq!(record["etcd"]["readySeen"], false);
    assert!(record["hint"].as_str().unwrap().contains("data directory"), "{record}");
    assert_eq!(scene.marker(), None);
}

/// A member with some data that was ended in order.
fn member_with_data() -> Scene {
    let scene = Scene::real("3.5");
    let mut wrapper = scene.start_ready();
    for key in 0..8 {
        scene.etcdctl(&["put", &format!("key-{key}"), "value"]);
    }
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    drop(wrapper);
    scene
}

fn wal_file(scene: &Scene) -> PathBuf {
    let files = std::fs::read_dir(scene.data_dir().join("member/wal")).unwrap();
    let mut files: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    files.sort();
    files.pop().unwrap()
}

/// Where the last record of a WAL file ends: files are preallocated with zeroes.
fn used(path: &PathBuf) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

/// Where the content of a record in the middle begins that lies within one sector: etcd takes a record of which a whole
/// sector is zero for the torn tail that it repairs, and one whose sum is wrong for damage.
fn whole_record(path: &PathBuf) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let (middle, mut at) = (used(path) / 2, 0);
    loop {
        // A frame: its length in the lower 56 bits, the padding to eight bytes in the highest byte.
        let head: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
        let length = u64::from_le_bytes(head) & ((1 << 56) - 1);
        let padding = if head[7] & 0x80 == 0 { 0 } else { u64::from(head[7] & 7) };
        let (content, end) = (at as u64 + 8, at as u64 + 8 + length);
        assert!(length > 0, "no such record before {at}");
        if content > middle && content / 512 == (end - 1) / 512 && length > 16 {
            return content;
        }
        at = usize::try_from(end + padding).unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    DatabaseHeader,
    EmptyWal,
    WalRecord,
}

impl Damage {
    fn inflict(self, scene: &Scene) {
        let open = |path: &PathBuf| std::fs::OpenOptions::new().write(true).open(path).unwrap();
        match self {
            Self::DatabaseHeader => {
                // Both meta pages.
                open(&scene.data_dir().join("member/snap/db")).write_all_at(&[0; 8192], 0).unwrap();
            }
            Self::EmptyWal => open(&wal_file(scene)).set_len(0).unwrap(),
            Self::WalRecord => {
                let path = wal_file(scene);
                open(&path).write_all_at(&[0; 8], whole_record(&path)).unwrap();
            }
        }
    }
}

#[rstest]
#[case::database(Damage::DatabaseHeader, Some(2))]
#[case::empty_wal(Damage::EmptyWal, None)]
#[case::wal_record(Damage::WalRecord, None)]
fn i6_damage_ends_the_process_without_a_marker_and_asks_for_full(
    #[case] damage: Damage,
    #[case] status: Option<i32>,
) {
    let scene = member_with_data();
    damage.inflict(&scene);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let record = wrapper.record();
    assert_eq!(record["phase"], "starting", "{record}");
    let code = record["etcd"]["exitCode"].as_i64().unwrap_or_else(|| panic!("{record}"));
    assert!(matches!(code, 1 | 2), "{record}");
    if let Some(status) = status {
        assert_eq!(code, i64::from(status), "{record}");
    }
    assert!(record["hint"].as_str().unwrap().contains("data directory"), "{record}");
    assert_eq!(scene.marker(), None);
    assert_eq!(scene.sidecar().modes(), ["full", "sanity"]);
    let _wrapper = scene.start();
    scene.sidecar().wait_for_call(Route::Start, 3, LONG);
    assert_eq!(scene.sidecar().modes(), ["full", "sanity", "full"]);
}

#[test]
fn i6_a_cut_wal_tail_is_etcds_own_to_repair() {
    let scene = Scene::real("3.5");
    let mut wrapper = scene.start_ready();
    for key in 0..8 {
        scene.etcdctl(&["put", &format!("key-{key}"), "value"]);
    }
    let etcd = wrapper.etcd_pid();
    crate::scene::signal(etcd, Signal::KILL);
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let path = wal_file(&scene);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Within the last record.
    file.set_len(used(&path) - 3).unwrap();
    let _wrapper = scene.start_ready();
    assert!(scene.etcdctl(&["get", "key-0"]).contains("value"));
}

#[test]
fn i6_an_etcd_that_never_gets_ready_is_ended_by_the_ready_timeout() {
    let ready = Ready { sender: Sender::Nobody, ..Ready::default() };
    let scene = Scene::scripted(Script { ready, ..Script::default() }).flag("--etcd-ready-timeout=2s");
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "starting");
    let etcd = wrapper.etcd_pid();
    assert_eq!(wrapper.wait_exit(LONG), 14);
    assert_ready_timeout(&wrapper, 2);
    wait_gone(etcd, SECOND);
    assert_eq!(scene.marker(), None);
    assert_eq!(wrapper.record()["phase"], "starting");
}

#[track_caller]
fn assert_ready_timeout(wrapper: &Wrapper<'_>, seconds: u32) {
    let took = wrapper.began.elapsed();
    assert!(took >= seconds * SECOND && took < (seconds + 5) * SECOND, "{took:?}");
}

#[test]
fn i12_a_database_near_its_quota_warns_and_stays_ready() {
    let standing = Standing { db_size: 90_000, db_size_in_use: 30_000, ..Standing::default() };
    let scene = Scene::scripted(Script { standing: vec![standing], ..Script::default() });
    let config = scene.config().with("quota-backend-bytes", 100_000);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let status = wrapper.wait_status(LONG, "db_near_quota", |status| {
        let warnings = status["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning["code"] == "db_near_quota")
    });
    let warnings = status["warnings"].as_array().unwrap();
    let warning = warnings.iter().find(|warning| warning["code"] == "db_near_quota").unwrap();
    assert!(warning["detail"].as_str().unwrap().contains("defragment"), "{warning}");
    let metrics = wrapper.caller().get("/metrics").body;
    let active = r#"etcd_wrapper_warning_active{code="db_near_quota"} 1"#;
    assert!(metrics.contains(active), "{metrics}");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}
