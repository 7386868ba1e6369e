// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! examples/, held against the wrapper: its own parser takes the flags, ports and paths agree with them, the
//! configurations are good, and the agent's script restores a real member. Applies nothing to a cluster.
mod metrics;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use doubles::sidecar::ConfigMap;
use doubles::wait::{self, Poll};
use etcd_wrapper::cli::{self, Bootstrap, Invocation, StartFlags};
use serde_json::Value;

use crate::client::{client, command, said};
use crate::scene::{LONG, SECOND, Scene, Wrapper};

const MANIFESTS: [&str; 3] = ["agent.yaml", "alone.yaml", "with-sidecar.yaml"];
/// How an image of ours is called in an example.
const OURS: &str = "registry.example/etcd-wrapper:latest";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The objects of a manifest.
fn objects(name: &str) -> Vec<Value> {
    let text = read(name);
    let documents = text.split("\n---\n");
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}")))
        .collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn words(value: &Value) -> Vec<String> {
    items(value).iter().map(|word| word.as_str().unwrap().replace("$(POD_NAME)", "etcd-0")).collect()
}

/// The wrapper's container and its flags, as its own parser reads them.
fn wrapper_of(set: &Value) -> (&Value, StartFlags) {
    let pod = &set["spec"]["template"]["spec"];
    let ours: Vec<&Value> = items(&pod["containers"]).iter().filter(|one| one["image"] == OURS).collect();
    assert_eq!(ours.len(), 1, "{pod}");
    let args = words(&ours[0]["args"]);
    match cli::parse(args.clone()) {
        Ok(Invocation::Start(flags)) => (ours[0], *flags),
        other => panic!("{args:?}: {other:?}"),
    }
}

/// Volumes of a container: name → where.
fn mounts(container: &Value) -> BTreeMap<&str, &str> {
    let mounts = items(&container["volumeMounts"]).iter();
    mounts.map(|mount| (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap())).collect()
}

#[test]
fn the_flags_ports_and_paths_of_the_examples_are_the_wrappers() {
    for name in MANIFESTS {
        let objects = objects(name);
        let sets = of_kind(&objects, "StatefulSet");
        assert_eq!(sets.len(), 1, "{name}");
        let (container, flags) = wrapper_of(sets[0]);
        let pod = &sets[0]["spec"]["template"]["spec"];
        let port = |wanted: &str| {
            let ports = items(&container["ports"]).iter();
            ports.filter(|port| port["name"] == wanted).find_map(|port| port["containerPort"].as_u64())
        };
        assert_eq!(port("wrapper"), Some(u64::from(flags.wrapper_port)), "{name}");
        assert_eq!(port("client"), Some(u64::from(flags.etcd_client_port)), "{name}");
        let probe = &container["readinessProbe"]["httpGet"];
        assert_eq!(
            (probe["path"].as_str(), probe["port"].as_u64()),
            (Some("/readyz"), port("wrapper")),
            "{name}"
        );
        assert!(container["livenessProbe"].is_null(), "{name}: one on /readyz kills slow members");
        let patience = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(patience >= flags.grace_period.as_secs() + 3, "{name}: {patience} s");
        let user = &pod["securityContext"];
        assert!(user["runAsUser"] == 65532 && user["fsGroup"] == 65532, "{name}: {user}");
        assert_eq!(mounts(container)["data"], flags.state_dir.to_str().unwrap(), "{name}");
        if let Bootstrap::File(path) = &flags.bootstrap {
            assert!(path.starts_with(mounts(container)["config"]), "{name}: {}", path.display());
        }
        for service in of_kind(&objects, "Service") {
            for port in items(&service["spec"]["ports"]) {
                let known = items(&container["ports"]).iter().any(|own| own["containerPort"] == port["port"]);
                assert!(known, "{name}: nobody listens at {port}");
            }
            assert_eq!(
                service["spec"]["selector"], sets[0]["spec"]["template"]["metadata"]["labels"],
                "{name}"
            );
        }
    }
}

#[test]
fn the_example_with_a_sidecar_has_two_sides_that_fit() {
    let objects = objects("with-sidecar.yaml");
    let set = of_kind(&objects, "StatefulSet")[0];
    let (_, flags) = wrapper_of(set);
    let pod = &set["spec"]["template"]["spec"];
    let sidecar = items(&pod["containers"]).iter().find(|one| one["name"] == "backup-restore").unwrap();
    let args = words(&sidecar["args"]);
    let flag = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')).unwrap();
    let Bootstrap::Sidecar(to) = &flags.bootstrap else { panic!("stand-alone: {flags:?}") };
    assert_eq!(to.address.to_string(), format!("etcd-main-local:{}", flag("--server-port")));
    assert_eq!(items(&pod["hostAliases"])[0]["hostnames"][0], "etcd-main-local");
    assert_eq!(flag("--endpoints"), format!("http://etcd-main-local:{}", flags.etcd_client_port));
    assert_eq!(flags.etcd_server_name.as_deref(), Some("etcd-main-local"));
    // Its stop call goes to this port, whatever ours is.
    assert_eq!((flags.wrapper_port, flag("--use-etcd-wrapper")), (9095, "true"));
    let map = of_kind(&objects, "ConfigMap")[0]["data"]["etcd.conf.yaml"].as_str().unwrap();
    let served = ConfigMap::from_yaml(map).unwrap().render("etcd-main-0", None, false).unwrap();
    assert!(served.contains(&format!("data-dir: {}\n", flag("--data-dir"))), "{served}");
    judged("with-sidecar.yaml", &served);
}

/// `validate-config` finds nothing.
#[track_caller]
fn judged(name: &str, config: &str) {
    let scene = tempfile::tempdir().unwrap();
    let path = scene.path().join("etcd.yaml");
    std::fs::write(&path, config).unwrap();
    let mut judge = Command::new(env!("CARGO_BIN_EXE_etcd-wrapper"));
    judge.args(["validate-config", "--etcd-version", "3.5.27"]).arg(&path).stdin(Stdio::null());
    let said = said(judge);
    assert_eq!(said.code, Some(0), "{name}: {said:?}\n{config}");
}

/// The configurations in a manifest's config map, by key.
fn configs(name: &str) -> BTreeMap<String, String> {
    let objects = objects(name);
    let data = of_kind(&objects, "ConfigMap")[0]["data"].as_object().unwrap().clone();
    let configs = data.into_iter().filter(|(key, _)| key.ends_with(".yaml"));
    configs.map(|(key, text)| (key, text.as_str().unwrap().to_owned())).collect()
}

#[test]
fn the_configurations_of_the_examples_are_good() {
    let objects = objects("alone.yaml");
    let replicas = of_kind(&objects, "StatefulSet")[0]["spec"]["replicas"].as_u64().unwrap();
    let all = configs("alone.yaml");
    assert_eq!(u64::try_from(all.len()).unwrap(), replicas, "one for each pod");
    for (key, config) in all.iter().chain(&configs("agent.yaml")) {
        judged(key, config);
        if let Some(pod) = key.strip_suffix(".yaml").filter(|key| *key != "etcd") {
            assert!(config.contains(&format!("name: {pod}\n")), "{key}: {config}");
        }
    }
}

/// A scene without a sidecar whose wrappers are held, and a configuration for its ports.
fn held_scene() -> (Scene, String) {
    let scene = Scene::of(&crate::scene::Etcd::Real("3.5")).flag("--hold");
    let config = configs("agent.yaml").remove("etcd.yaml").unwrap();
    let config = config
        .replace("/var/etcd/data", &scene.state_dir().display().to_string())
        .replace("http://0.0.0.0:2379", &scene.client_url())
        .replace("http://agent:2379", &scene.client_url())
        .replace("127.0.0.1:2380", &format!("127.0.0.1:{}", scene.peer_port()));
    (scene, config)
}

/// The agent of the example beside this scene; killed when dropped.
struct Agent(std::process::Child);

impl Agent {
    fn start(scene: &Scene, config: &str) -> Self {
        let objects = objects("agent.yaml");
        let data = &of_kind(&objects, "ConfigMap")[0]["data"];
        let folder = scene.path().join("agent");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("etcd.yaml"), config).unwrap();
        std::fs::write(folder.join("backup"), data["backup"].as_str().unwrap()).unwrap();
        let mut script = data["restore.sh"].as_str().unwrap().to_owned();
        for (name, value) in [
            ("WRAPPER", format!("http://{}", scene.api_addr())),
            ("ETCD", scene.client_url()),
            ("CONFIG", folder.display().to_string()),
            ("LOADED", scene.state_dir().join("loaded").display().to_string()),
        ] {
            let line = script.lines().find(|line| line.starts_with(&format!("{name}="))).unwrap().to_owned();
            script = script.replacen(&line, &format!("{name}={value}"), 1);
        }
        std::fs::write(folder.join("restore.sh"), script).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("sh")
            .arg(folder.join("restore.sh"))
            .env("PATH", crate::printed::tools(scene))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn values(scene: &Scene) -> String {
    scene.etcdctl(&["get", "--prefix", "restored/", "--print-value-only"])
}

#[track_caller]
fn wait_agent_ready(scene: &Scene, wrapper: &Wrapper<'_>) {
    wait::until(2 * LONG, "the agent to let clients in", || {
        let log = || std::fs::read_to_string(scene.path().join("agent/log")).unwrap_or_default();
        Poll::when(wrapper.readyz().is_some_and(|answer| answer.status == 200), log)
    });
}

#[test]
fn e20_the_agent_of_the_example_restores_whatever_dies_on_the_way() {
    let (scene, config) = held_scene();
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    // An agent before it had started, and had not come to the end.
    let start = ["start", "--owner", "restorer", "--ready", "hold", "--wait", "60s", "--config", "-"];
    let mut first = command(&scene, &start);
    let path = scene.path().join("first.yaml");
    std::fs::write(&path, &config).unwrap();
    first.stdin(std::fs::File::open(&path).unwrap());
    said(first).ended(0);
    wrapper.signal(rustix::process::Signal::KILL);
    wrapper.wait_exit(5 * SECOND);
    let wrapper = scene.start();
    let status = wrapper.wait_phase(LONG, "held");
    assert_eq!(status["readiness"]["ready"], false);

    let agent = Agent::start(&scene, &config);
    wait_agent_ready(&scene, &wrapper);
    assert_eq!(values(&scene), "one\ntwo\n");
    assert!(!scene.state_dir().join("hold").exists() || wrapper.status()["wrapper"]["phase"] == "running");

    // The data is there: the next process is started at once, and nothing is loaded again.
    scene.etcdctl(&["put", "restored/1", "changed since"]);
    let mut wrapper = wrapper;
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let wrapper = scene.start();
    wait_agent_ready(&scene, &wrapper);
    assert_eq!(values(&scene), "changed since\ntwo\n");
    assert!(client(&scene, &["ready"]).ended(0).out.starts_with("ready"));
    drop(agent);
}
