// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The files are real, time and spawns are values; only the last tests run the task.
use std::path::Path;

use super::*;
use crate::config::{EtcdConfig, TlsSection};
use crate::tls::authority::{Authority, etcd_config};

const DEADLINE: Duration = Duration::from_secs(20);

struct Scene {
    dir: tempfile::TempDir,
    authority: Authority,
    config: Arc<EtcdConfig>,
}

impl Scene {
    /// Server and peer pairs and CAs on disk, and the config that names them.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let mut config = etcd_config(dir.path(), "https://0.0.0.0:2379");
        for (stem, section) in [("server", &mut config.client_tls), ("peer", &mut config.peer_tls)] {
            let pair = authority.write_server(dir.path(), stem, &["etcd-main-local"]);
            *section = TlsSection {
                cert_file: Some(pair.cert),
                key_file: Some(pair.key),
                trusted_ca_file: Some(authority.write_ca(&dir.path().join(format!("{stem}-ca.crt")))),
                client_cert_auth: true,
                ..TlsSection::default()
            };
        }
        Self { dir, authority, config: Arc::new(config) }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn flags(&self) -> TlsFlags {
        let pair = self.authority.write_client(self.dir.path(), "client", "etcd-client");
        TlsFlags {
            client: Some((pair.cert, pair.key)),
            sidecar_ca: Some(self.authority.write_ca(&self.path("sidecar-ca.crt"))),
        }
    }

    fn target(&self, generation: u64) -> Option<Alive> {
        Some(Alive { generation, pid: 1, config: self.config.clone(), posted: false, ready_seen: false })
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn codes(view: &TlsView) -> Vec<&'static str> {
    view.warnings.iter().map(|warning| warning.code).collect()
}

fn lived(scene: &Scene) -> Loaded {
    let mut loaded = Loaded::new(TlsFlags::default());
    loaded.lives(1, &scene.config);
    loaded.look();
    loaded
}

#[test]
fn g3_every_file_in_use_is_shown_with_its_end() {
    let scene = Scene::new();
    let mut loaded = Loaded::new(scene.flags());
    loaded.look();
    let names = |view: &TlsView| view.certificates.iter().map(|c| c.name).collect::<Vec<_>>();
    assert_eq!(names(&loaded.view(now())), ["client", "sidecar_ca"]);
    loaded.lives(1, &scene.config);
    loaded.look();
    let view = loaded.view(now());
    assert_eq!(names(&view), ["server", "client_ca", "peer", "peer_ca", "client", "sidecar_ca"]);
    assert_eq!((view.reloads_ok, view.reloads_failed, view.warnings), (0, 0, vec![]));
}

#[test]
fn g3_the_warning_begins_14_days_before_the_end() {
    let scene = Scene::new();
    let end = rcgen::date_time_ymd(2030, 6, 15);
    let short = scene.authority.issue_with(&["x"], &[], |params| params.not_after = end);
    crate::tls::authority::write(scene.dir.path(), "server", &short);
    let mut loaded = lived(&scene);
    let end = loaded.view(now()).certificates[0].not_after;
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(codes(&loaded.view(end - 14 * day)), [""; 0]);
    let first = loaded.view(end - 14 * day + Duration::from_secs(1));
    assert_eq!(codes(&first), ["certificate_expires"]);
    let last = loaded.view(end + day);
    assert!(last.warnings[0].detail.contains("server.crt has ended at 2030-06-15"), "{last:?}");
    assert_eq!(last.warnings[0].since, first.warnings[0].since);
}

// Shows: Invariant 12
#[test]
fn g5_a_bad_pair_keeps_the_old_one_and_warns_and_counts_once() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    assert!(loaded.server_tls().unwrap().is_some());
    std::fs::copy(scene.path("peer.key"), scene.path("server.key")).unwrap();
    for _ in 0..3 {
        loaded.look();
    }
    assert!(loaded.server_tls().is_none(), "the old pair was given up");
    let view = loaded.view(now());
    assert_eq!((view.reloads_ok, view.reloads_failed), (0, 1));
    assert_eq!(codes(&view), ["tls_reload_failed"]);
    let detail = &view.warnings[0].detail;
    assert!(detail.contains("server.key does not belong") && detail.contains("stays in use"), "{detail}");

    scene.authority.write_server(scene.dir.path(), "server", &["etcd-main-local"]);
    loaded.look();
    assert!(loaded.server_tls().unwrap().is_some());
    let view = loaded.view(now());
    assert_eq!((view.reloads_ok, view.reloads_failed, view.warnings), (1, 1, vec![]));
}

#[test]
fn g5_files_touched_without_new_content_change_nothing() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    assert!(loaded.server_tls().is_some() && loaded.client_tls().is_some());
    let bytes = std::fs::read(scene.path("server.crt")).unwrap();
    std::fs::write(scene.path("server.crt"), bytes).unwrap();
    loaded.look();
    assert!(loaded.server_tls().is_none() && loaded.client_tls().is_none());
    assert_eq!(loaded.view(now()).reloads_ok, 0);
}

#[test]
fn g2_a_changed_ca_needs_a_restart_until_the_next_spawn() {
    for name in ["server-ca.crt", "peer-ca.crt"] {
        let scene = Scene::new();
        let mut loaded = lived(&scene);
        Authority::new("new").write_ca(&scene.path(name));
        loaded.look();
        let view = loaded.view(now());
        assert_eq!(codes(&view), ["restart_needed"], "{name}");
        assert!(view.warnings[0].detail.contains(name));
        loaded.lives(2, &scene.config);
        loaded.look();
        assert_eq!(codes(&loaded.view(now())), [""; 0], "{name}");
    }
}

#[test]
fn g2_a_ca_that_comes_back_or_cannot_be_read_needs_no_restart() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    Authority::new("new").write_ca(&scene.path("peer-ca.crt"));
    loaded.look();
    scene.authority.write_ca(&scene.path("peer-ca.crt"));
    loaded.look();
    assert_eq!(codes(&loaded.view(now())), [""; 0]);
    std::fs::remove_file(scene.path("peer-ca.crt")).unwrap();
    loaded.look();
    assert_eq!(codes(&loaded.view(now())), ["tls_reload_failed"]);
}

#[test]
fn without_an_etcd_the_certificate_stays_and_nothing_needs_a_restart() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    assert!(loaded.server_tls().unwrap().is_some());
    Authority::new("new").write_ca(&scene.path("peer-ca.crt"));
    loaded.ended();
    loaded.look();
    assert_eq!(codes(&loaded.view(now())), [""; 0]);
    assert!(loaded.server_tls().is_none(), "stopped keeps the last TLS state");
}

#[test]
fn a_generation_without_client_tls_ends_the_use_of_the_old_certificate() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    assert!(loaded.server_tls().unwrap().is_some());
    assert!(loaded.client_tls().unwrap().config.is_some());
    let plain = Arc::new(etcd_config(scene.dir.path(), "http://127.0.0.1:2379"));
    loaded.lives(2, &plain);
    loaded.look();
    assert!(loaded.server_tls().unwrap().is_none());
    let client = loaded.client_tls().unwrap();
    assert!(client.generation == Some(2) && client.config.is_none());
}

#[test]
fn a_generation_with_other_files_does_not_inherit_whom_the_old_one_trusted() {
    let scene = Scene::new();
    let mut loaded = lived(&scene);
    assert!(!loaded.server_tls().unwrap().unwrap().trust_not_loaded());
    let mut config = (*scene.config).clone();
    config.client_tls.trusted_ca_file = Some(scene.path("missing.crt"));
    loaded.lives(2, &Arc::new(config));
    loaded.look();
    assert!(loaded.server_tls().unwrap().unwrap().trust_not_loaded());
    assert!(loaded.client_tls().unwrap().config.is_none());
}

#[test]
fn a_ca_that_was_never_readable_is_told_apart_from_none() {
    let scene = Scene::new();
    std::fs::remove_file(scene.path("server-ca.crt")).unwrap();
    let mut loaded = lived(&scene);
    assert!(loaded.server_tls().unwrap().unwrap().trust_not_loaded());
    assert!(loaded.client_tls().unwrap().config.is_none());
    scene.authority.write_ca(&scene.path("server-ca.crt"));
    loaded.look();
    assert!(!loaded.server_tls().unwrap().unwrap().trust_not_loaded());
    assert!(loaded.client_tls().unwrap().config.is_some());
}

#[test]
fn etcds_own_certificate_is_found_when_etcd_has_written_it() {
    let scene = Scene::new();
    let mut config = etcd_config(scene.dir.path(), "https://127.0.0.1:2379");
    config.client_tls.auto_tls = true;
    let fixtures = config.data_dir.join("fixtures/client");
    let mut loaded = Loaded::new(TlsFlags::default());
    loaded.lives(1, &Arc::new(config));
    loaded.look();
    assert!(loaded.client_tls().unwrap().config.is_none());
    assert_eq!(codes(&loaded.view(now())), [""; 0]);
    std::fs::create_dir_all(&fixtures).unwrap();
    std::fs::copy(scene.path("server.crt"), fixtures.join("cert.pem")).unwrap();
    loaded.look();
    assert!(loaded.client_tls().unwrap().config.is_some());
    assert!(loaded.server_tls().is_none());
}

/// As the kubelet does it: the files lie behind a link to a folder, and the link is renamed over.
fn swap_link(dir: &Path, to: &str) {
    let temporary = dir.join("..data_tmp");
    std::os::unix::fs::symlink(to, &temporary).unwrap();
    std::fs::rename(&temporary, dir.join("..data")).unwrap();
}

#[tokio::test]
async fn g1_a_swapped_link_is_seen_by_the_task() {
    let scene = Scene::new();
    for folder in ["one", "two"] {
        std::fs::create_dir(scene.path(folder)).unwrap();
        scene.authority.write_server(&scene.path(folder), "tls", &[folder]);
    }
    swap_link(scene.dir.path(), "one");
    let mut config = (*scene.config).clone();
    config.client_tls.cert_file = Some(scene.path("..data/tls.crt"));
    config.client_tls.key_file = Some(scene.path("..data/tls.key"));
    let target = Alive { generation: 1, pid: 1, config: Arc::new(config), posted: false, ready_seen: true };
    let (_spawn, target) = watch::channel(Some(target));
    let (task, mut outputs) = Reloader::new(TlsFlags::default(), Duration::from_millis(20), target);
    let task = tokio::spawn(task.run(Arc::new(Notify::new())));
    let first = tokio::time::timeout(DEADLINE, outputs.server.wait_for(Option::is_some)).await.unwrap();
    drop(first.unwrap());
    swap_link(scene.dir.path(), "two");
    tokio::time::timeout(DEADLINE, outputs.view.wait_for(|view| view.reloads_ok == 1))
        .await
        .unwrap()
        .unwrap();
    assert!(outputs.server.has_changed().unwrap());
    task.abort();
}

#[tokio::test]
async fn a_spawn_and_a_hangup_are_looked_at_at_once_and_the_task_ends_with_its_sender() {
    let scene = Scene::new();
    let (spawn, target) = watch::channel(None);
    let hangup = Arc::new(Notify::new());
    let (task, mut outputs) = Reloader::new(scene.flags(), Duration::from_secs(3600), target);
    let task = tokio::spawn(task.run(hangup.clone()));
    spawn.send_replace(scene.target(1));
    let dial = outputs.client.wait_for(|client| client.generation == Some(1) && client.config.is_some());
    drop(tokio::time::timeout(DEADLINE, dial).await.unwrap().unwrap());

    scene.authority.write_client(scene.dir.path(), "client", "another");
    hangup.notify_one();
    tokio::time::timeout(DEADLINE, outputs.view.wait_for(|view| view.reloads_ok == 1))
        .await
        .unwrap()
        .unwrap();

    drop(spawn);
    tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap();
}
