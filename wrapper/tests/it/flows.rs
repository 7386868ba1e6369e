// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! docs/flows.md, run exactly as printed; the test is the kubelet, which starts a process again that has ended.
use doubles::sidecar::Sidecar;

use crate::printed::{as_kubelet, run as run_page};
use crate::scene::{MEMBER, Scene};

const PAGE: &str = "../docs/flows.md";

fn run(scene: &Scene, heading: &str, values: &[(&str, String)]) {
    let mut wrapper = scene.start_ready();
    run_page(scene, PAGE, heading, values, || as_kubelet(scene, &mut wrapper));
}

#[test]
fn e20_the_restore_flow_works_as_printed() {
    let scene = Scene::real("3.5");
    let values = [
        ("WRAPPER", format!("http://{}", scene.api_addr())),
        ("ETCD", scene.client_url()),
        ("STATE", scene.state_dir().display().to_string()),
        ("CONFIG", scene.home().join("etcd.conf.yaml").display().to_string()),
    ];
    run(&scene, "Restore with the member held unready", &values);
    assert_eq!(scene.sidecar().modes(), ["full"], "of the first start alone");
}

#[test]
fn the_flow_of_a_peer_url_change_works_as_printed() {
    let mut scene = Scene::real("3.5");
    let map = scene.path().join("config-map.yaml");
    let url = |host: &str| format!("http://{host}:{}", scene.peer_port());
    let old = url("127.0.0.1");
    // As a config map looks: block style, so that a line is one setting.
    let client = scene.client_url();
    let text = format!(
        "name: etcd-config\ndata-dir: {}\nlisten-client-urls: {client}\nlisten-peer-urls: {old}\n\
         advertise-client-urls:\n  {MEMBER}:\n  - {client}\ninitial-advertise-peer-urls:\n  {MEMBER}:\n  - {old}\n\
         initial-cluster: {MEMBER}={old}\ninitial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n",
        scene.data_dir().display()
    );
    std::fs::write(&map, text).unwrap();
    let setup = Sidecar::faithful_file(&map, MEMBER).data_dir(&scene.data_dir());
    scene = scene.with_sidecar(|_| setup);
    let values = [
        ("WRAPPER", format!("http://{}", scene.api_addr())),
        ("ETCD", client),
        ("CONFIG_MAP", map.display().to_string()),
        ("OLD_URL", old),
        ("NEW_URL", format!("http://localhost:{}", scene.peer_port())),
    ];
    run(&scene, "Peer-URL change: member update, then restart in place", &values);
    assert_eq!(scene.sidecar().modes(), ["full"], "of the first start alone");
}
