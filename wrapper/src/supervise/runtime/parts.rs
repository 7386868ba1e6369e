// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the supervisor is put together of, and what is left of it at the end. Holds no behaviour.
use std::sync::Arc;

use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::bootstrap::sidecar::SidecarClient;
use crate::exit::record::EtcdEnd;
use crate::member::view::MemberView;
use crate::metrics::Metrics;
use crate::shutdown::Signals;
use crate::supervise::command::Request;
use crate::supervise::disk::{Completion, Disk, Paths};
use crate::supervise::publish::Chronicle;
use crate::supervise::state::{Exit, State};
use crate::supervise::view::{Alive, CoreView, Phase};

/// What a process's supervisor works with.
#[derive(Debug)]
pub struct Parts {
    /// As the machine begins.
    pub state: State,
    /// etcd's binary.
    pub program: std::path::PathBuf,
    /// That it works on all its life.
    pub paths: Paths,
    /// None: stand-alone.
    pub sidecar: Option<SidecarClient>,
    /// SIGTERM and SIGINT, in their order.
    pub signals: Signals,
    /// Commands, with where their answers go.
    pub requests: mpsc::Receiver<Request>,
    /// The disk thread.
    pub disk: Disk,
    /// What it has done.
    pub completions: mpsc::UnboundedReceiver<Completion>,
    /// The prober's view: what confirms a generation.
    pub member: watch::Receiver<Arc<MemberView>>,
    /// Where the supervisor's view goes.
    pub core: watch::Sender<CoreView>,
    /// Every value of `core`, one by one: what a watch channel passes over is an event too.
    pub steps: broadcast::Sender<Arc<CoreView>>,
    /// Where the living etcd is told.
    pub living: watch::Sender<Option<Alive>>,
    /// SIGHUP: read certificates again.
    pub hangup: Arc<Notify>,
    /// What happens is counted there.
    pub metrics: Metrics,
    /// What is told of the past.
    pub chronicle: Chronicle,
    /// A task of ours has panicked.
    pub panicked: Arc<Notify>,
}

/// How the supervisor ended.
#[derive(Debug)]
pub struct Ended {
    /// Code, cause and words.
    pub exit: Exit,
    /// The phase before `exiting`.
    pub phase: Phase,
    /// Of the last etcd; 0: none was started.
    pub generation: u64,
    /// How the last one ended.
    pub etcd: Option<EtcdEnd>,
}
