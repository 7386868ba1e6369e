// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Groups C and H5: what becomes of a configuration, served or read from `--etcd-config-file`, on its way to etcd.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use doubles::etcd::record::sha256;
use doubles::etcd::script::Ready;
use doubles::etcd::{Ending, How, Script};
use doubles::sidecar::{Route, Script as SidecarScript};
use rstest::rstest;

use crate::scene::{LONG, MEMBER, SECOND, Scene, Wrapper};

fn rendered(scene: &Scene) -> String {
    scene.config().render(MEMBER, None, false).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn serving(scene: Scene, text: &str) -> Scene {
    let script = SidecarScript { config: Some(text.to_owned()), ..SidecarScript::default() };
    scene.with_sidecar(|setup| setup.script(script))
}

#[test]
fn c4_an_unknown_key_is_warned_of_once_by_name_and_etcd_starts() {
    let scene = Scene::real("3.5");
    let config =
        scene.config().with("member-name-prefix", "").with("snapshot-cuont", 5).with("max-txn-ops", 128);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let log = wrapper.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") && line.contains("ignores the config")).collect();
    assert!(
        told.iter().any(|line| line.contains("snapshot-cuont") && line.contains("snapshot-count")),
        "{told:?}"
    );
    assert_eq!(told.iter().filter(|line| line.contains("snapshot-cuont")).count(), 1, "{told:?}");
    assert!(!told.iter().any(|line| line.contains("max-txn-ops")), "a key that etcd knows: {told:?}");
}

#[test]
fn c4_of_an_etcd_without_a_version_nothing_is_said() {
    let mut script = Script::default();
    script.version.output = Some("this is no etcd\n".into());
    let scene = Scene::scripted(script);
    let config = scene.config().with("snapshot-cuont", 5);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    assert!(!wrapper.log().contains("ignores the config"));
}

/// Comments, odd spacing, unknown keys, tuning keys, other languages: all of it arrives as it was served.
#[rstest]
#[case::comments("# by hand\n\n", "\n# the end, without a line break")]
#[case::unknown_and_tuning(
    "next-cluster-version-compatible: true\n",
    "auto-compaction-mode: periodic\nquota-backend-bytes: 8589934592\nexperimental-initial-corrupt-check: true\n"
)]
#[case::windows("# a\r\n", "x-note: \"\u{fc}ml\u{e4}ut \u{4e2d}\"\r\n")]
#[case::document_marks("---\n", "...\n")]
fn c5_i10_etcd_gets_the_bytes_as_they_were_served(#[case] before: &str, #[case] after: &str) {
    let scene = Scene::scripted(Script::default());
    let text = format!("{before}{}{after}", rendered(&scene));
    let scene = serving(scene, &text);
    let wrapper = scene.start_ready();
    let (_, facts) = scene.stage().wait_for_start(1, LONG);
    let written = scene.home().join("etcd.conf.yaml");
    let config = facts.config.unwrap();
    assert_eq!(config.path, written);
    assert_eq!(config.sha256, sha256(text.as_bytes()));
    assert_eq!(std::fs::read_to_string(&written).unwrap(), text);
    let digest = wrapper.status()["etcd"]["configDigest"].clone();
    assert_eq!(digest, format!("sha256:{}", sha256(text.as_bytes())));
}

#[test]
fn h5_the_file_is_ours_alone_whatever_lay_there() {
    let scene = Scene::scripted(Script::default());
    let written = scene.home().join("etcd.conf.yaml");
    std::fs::write(&written, "something else").unwrap();
    std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o666)).unwrap();
    let _wrapper = scene.start_ready();
    assert_eq!(mode(&written), 0o600);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), rendered(&scene));
    let names: Vec<_> =
        std::fs::read_dir(scene.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["etcd.conf.yaml"], "no half-written rest");
}

/// Without a home the file lies beside the marker: the state directory is the one place that is surely ours.
#[rstest]
#[case::unset(None)]
#[case::empty(Some(""))]
#[case::relative(Some("home"))]
fn h5_without_a_home_the_file_goes_to_the_state_directory(#[case] home: Option<&str>) {
    let scene = Scene::scripted(Script::default());
    let mut command = scene.command();
    match home {
        None => command.env_remove("HOME"),
        Some(home) => command.env("HOME", home),
    };
    let wrapper = scene.start_command(command);
    wrapper.wait_ready();
    let written = scene.state_dir().join("etcd.conf.yaml");
    assert_eq!(mode(&written), 0o600);
    assert_eq!(std::fs::read_to_string(&written).unwrap(), rendered(&scene));
}

#[test]
fn h5_a_home_that_does_not_exist_is_named() {
    let scene = Scene::scripted(Script::default());
    let mut command = scene.command();
    let home = scene.path().join("nowhere");
    command.env("HOME", &home);
    let mut wrapper = scene.start_command(command);
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("nowhere/etcd.conf.yaml"), "{hint}");
    assert!(scene.stage().starts().is_empty());
}

/// etcd gives up once because a name is not known yet; the container's next start finds it.
#[test]
fn c10_a_name_that_comes_late_costs_one_restart_at_most() {
    let end = Ending::after_start(SECOND, How::Exit(1));
    let never = Ready { after: LONG.into(), ..Ready::default() };
    let scene = Scene::scripted(Script { end: Some(end), ready: never, ..Script::default() });
    let mut first = scene.start();
    assert_eq!(first.wait_exit(LONG), 10);
    assert!(first.began.elapsed() >= SECOND);
    scene.stage().write(Script::default()).unwrap();
    let _second = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}

/// While etcd itself waits for the name nobody pulls the rug from under it: no limit is set by default.
#[test]
fn c10_an_etcd_that_takes_its_time_is_waited_for() {
    let ready = Ready { after: (4 * SECOND).into(), ..Ready::default() };
    let scene = Scene::scripted(Script { ready, ..Script::default() });
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "starting");
    wrapper.wait_ready();
    assert_eq!(scene.stage().starts().len(), 1);
}

/// Takes the sidecar away and puts a config file in its place.
fn stand_alone(mut scene: Scene, text: &str) -> (Scene, PathBuf) {
    scene.sidecar = None;
    let path = scene.path().join("etcd.yaml");
    std::fs::write(&path, text).unwrap();
    scene.flags.push(format!("--etcd-config-file={}", path.display()));
    (scene, path)
}

/// Nobody was even looked for, at the default address either.
#[track_caller]
fn assert_no_sidecar_was_asked(wrapper: &Wrapper<'_>) {
    let metrics = wrapper.caller().get("/metrics").body;
    assert!(metrics.contains("etcd_wrapper_phase"), "{metrics}");
    assert!(!metrics.contains("sidecar_requests_total{"), "{metrics}");
    assert!(!wrapper.log().contains("Sidecar("), "{}", wrapper.log());
}

#[test]
fn a_config_file_makes_a_member_without_a_sidecar() {
    let scene = Scene::real("3.5");
    let text = format!("# by hand\n{}", rendered(&scene));
    let (scene, path) = stand_alone(scene, &text);
    let mut wrapper = scene.start_ready();
    assert_eq!(wrapper.status()["etcd"]["configSource"], "file");
    assert_no_sidecar_was_asked(&wrapper);
    scene.etcdctl(&["put", "a", "1"]);
    let written = scene.home().join("etcd.conf.yaml");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), text);
    assert_eq!(mode(&written), 0o600);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));

    // The file is read anew, too.
    std::fs::write(&path, format!("# twice\n{}", rendered(&scene))).unwrap();
    let wrapper = scene.start_ready();
    assert_eq!(scene.marker(), None, "consumed although nobody asks for its word");
    assert!(std::fs::read_to_string(&written).unwrap().starts_with("# twice"));
    assert!(scene.etcdctl(&["get", "a"]).contains('1'));
    assert_no_sidecar_was_asked(&wrapper);
}

#[test]
fn a_config_file_and_a_sidecar_exclude_each_other() {
    let mut scene = Scene::scripted(Script::default());
    scene.flags.push("--etcd-config-file=/etc/etcd.yaml".into());
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 2);
    assert!(wrapper.log().contains("--backup-restore-host-port"), "{}", wrapper.log());
    assert_eq!(scene.sidecar().connections(), 0);
}

#[rstest]
#[case::absent(None, "etcd.yaml")]
#[case::no_yaml(Some(b"a: [".as_slice()), "YAML")]
#[case::no_mapping(Some(b"words".as_slice()), "mapping")]
#[case::empty(Some(b"".as_slice()), "empty")]
#[case::no_text(Some(b"\xff\xfe\x00".as_slice()), "UTF-8")]
#[case::keys_missing(Some(b"name: a\n".as_slice()), "data-dir")]
fn a_bad_config_file_ends_the_process_with_12_and_says_why(
    #[case] content: Option<&[u8]>,
    #[case] said: &str,
) {
    let (scene, path) = stand_alone(Scene::scripted(Script::default()), "");
    match content {
        Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        None => std::fs::remove_file(&path).unwrap(),
    }
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    assert!(wrapper.began.elapsed() < 5 * SECOND);
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("etcd.yaml") && hint.contains(said), "{hint}");
    assert!(scene.stage().starts().is_empty());
    assert!(!scene.home().join("etcd.conf.yaml").exists());
}

#[test]
fn a_folder_is_no_config_file() {
    let (scene, path) = stand_alone(Scene::scripted(Script::default()), "");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("etcd.yaml"), "{hint}");
}

/// The walk over the data directory takes rights away: it must never run over anything else.
/// (`/` itself is tried without a wrapper, beside the guard: one that is broken would walk over this machine.)
#[rstest]
#[case::home(Scene::home)]
#[case::state_dir(Scene::state_dir)]
#[case::above_both(|scene: &Scene| scene.path().to_owned())]
#[case::by_a_detour(|scene: &Scene| scene.data_dir().join("../../home"))]
#[case::by_a_link(|scene: &Scene| {
    let link = scene.state_dir().join("link");
    std::os::unix::fs::symlink(scene.home(), &link).unwrap();
    link
})]
fn a_data_dir_that_holds_more_than_etcds_data_is_refused(
    #[case] data_dir: fn(&Scene) -> PathBuf,
    #[values(false, true)] served: bool,
) {
    let scene = Scene::scripted(Script::default());
    let before = mode(&scene.home());
    let refused = data_dir(&scene);
    let config = scene.config().with("data-dir", refused.to_str().unwrap());
    let text = config.render(MEMBER, None, false).unwrap();
    let scene = if served { serving(scene, &text) } else { stand_alone(scene, &text).0 };
    let bystander = scene.home().join("bystander");
    std::fs::write(&bystander, "x").unwrap();
    std::fs::set_permissions(&bystander, std::fs::Permissions::from_mode(0o664)).unwrap();
    let mut wrapper: Wrapper<'_> = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    assert!(wrapper.began.elapsed() < 5 * SECOND);
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("data-dir") && hint.contains("refused"), "{hint}");
    assert_eq!((mode(&scene.home()), mode(&bystander)), (before, 0o664), "nothing was touched");
    assert!(scene.stage().starts().is_empty());
    if served {
        assert_eq!(
            scene.sidecar().calls(Route::Config).len(),
            1,
            "what is refused for good is not asked for again"
        );
    }
}
