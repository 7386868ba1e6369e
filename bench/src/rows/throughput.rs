// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 9: what clients get out of etcd with the wrapper beside it and without. Both are up all the time and loaded in
//! turn, in short slices, forwards and backwards, so that a slow minute of the machine meets both.
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::progress;
use crate::etcd::{self, Bare, Client};
use crate::finding::Row;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::verdict::Bar;

const SLICE: Duration = Duration::from_secs(2);
const CLIENTS: usize = 16;
const CONNECTIONS: usize = 4;
const VALUE: [u8; 256] = [b'v'; 256];
/// A hundredth is to be told: runs that differ by more than this say nothing about it.
const SPREAD: f64 = 0.02;

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Put,
    Read,
}

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (alone, scene) = (Scene::bare(stage)?, Scene::new(stage)?);
    let bare = Bare::start(&alone, alone.config()?.as_bytes())?;
    let program = scene.start_ready()?;
    let places = [alone.client.addr(), scene.client.addr()];
    for (load, name) in [(Load::Put, "writes"), (Load::Read, "linearizable reads")] {
        for place in places {
            slice(place, load)?;
        }
        let mut rates: [Vec<f64>; 2] = Default::default();
        for turn in 0..stage.runs {
            progress(name, turn, stage.runs);
            // A B B A: a drift within the turn meets both alike.
            let mut pair = [0.0; 2];
            for at in [0, 1, 1, 0] {
                pair[at] += slice(places[at], load)? / 2.0;
            }
            for (rates, rate) in rates.iter_mut().zip(pair) {
                rates.push(rate);
            }
            crate::interrupted()?;
        }
        let [without, with] = &rates;
        row.figure(name, "/s", [("bare etcd", &**without), ("etcd beside etcd-wrapper", with)]);
        row.bar(
            Bar::ratio(format!("{name}, with / without the wrapper"), with, without, 0.99).spread(SPREAD),
        );
    }
    drop((bare, program));
    Ok(())
}

/// Calls a second.
fn slice(address: SocketAddr, load: Load) -> Result<f64> {
    etcd::runtime()?.block_on(async {
        let connections: Vec<Client> =
            (0..CONNECTIONS).map(|_| Client::new(address)).collect::<Result<_>>()?;
        let began = Instant::now();
        let ends = began + SLICE;
        let tasks: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = connections[number % CONNECTIONS].clone();
                tokio::spawn(async move {
                    let mut calls = 0_u64;
                    while Instant::now() < ends {
                        let key = format!("bench/{number}/{}", calls % 100);
                        match load {
                            Load::Put => client.put(key.as_bytes(), &VALUE).await?,
                            Load::Read => client.read(key.as_bytes()).await?,
                        }
                        calls += 1;
                    }
                    Ok::<_, anyhow::Error>(calls)
                })
            })
            .collect();
        let mut calls = 0;
        for task in tasks {
            calls += task.await.context("a client panicked")??;
        }
        Ok(calls as f64 / began.elapsed().as_secs_f64())
    })
}
