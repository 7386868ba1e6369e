// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 12: from an accepted start to the exec of etcd, with a posted config: the way on which no sidecar is asked.
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::progress;
use crate::finding::Row;
use crate::http;
use crate::log::{self, between, find};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::verdict::{Bar, Side};

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let scene = Scene::bare(stage)?;
    let mut program = scene.start_ready()?;
    let config = scene.config()?;
    let (mut from_request, mut from_accept) = (Vec::new(), Vec::new());
    progress("starts", 0, 1);
    for _ in 0..stage.runs {
        expect(&scene, "/v1/etcd/stop?wait=60s", &[], 200)?;
        let asked = SystemTime::now();
        expect(&scene, "/v1/etcd/start", config.as_bytes(), 202)?;
        scene.wait_ready(&mut program)?;
        let lines = log::read(&program.log)?;
        let spawned = find(&lines, log::SPAWNED, asked).context("no spawn in the log")?;
        // The audit's line is written when the verdict is there, right before the answer.
        let accepted = find(&lines, "control call", asked).context("no audit of the call in the log")?;
        anyhow::ensure!(accepted.fields["outcome"] == "accepted", "{:?}", accepted.fields);
        from_request.push(between(asked, spawned.at));
        from_accept.push(between(accepted.at, spawned.at));
        crate::interrupted()?;
    }
    row.figure("request sent to etcd exec'd", "ms", [("etcd-wrapper", &*from_request)]);
    row.figure("accepted to etcd exec'd", "ms", [("etcd-wrapper", &*from_accept)]);
    row.bar(Bar::median("request sent to etcd exec'd", "ms", &from_request, Side::AtMost, 10.0));
    row.notes.push(
        "The bar is held against the longer time, that from the request. Log times are cut to milliseconds."
            .into(),
    );
    Ok(())
}

/// A control call that has to be answered so.
pub(super) fn expect(scene: &Scene<'_>, path: &str, config: &[u8], status: u16) -> Result<()> {
    let media_type = if config.is_empty() { "" } else { "application/yaml" };
    let answer = http::call(scene.api(), "POST", path, media_type, config)?;
    let said = String::from_utf8_lossy(&answer.body);
    anyhow::ensure!(answer.status == status, "POST {path}: {} {said}", answer.status);
    anyhow::ensure!(!said.contains("\"status\":\"failed\""), "POST {path}: {said}");
    Ok(())
}
