// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who says what to the machine in an exploration: a few callers with a few lines, and two configurations.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::Plan;
use crate::config::{EtcdConfig, TlsSection};
use crate::supervise::command::{
    Command, Guard, HoldRequest, OverrideRequest, RestartRequest, Shutdown, StartRequest, StopRequest,
    Validation,
};
use crate::supervise::view::{ConfigSource, OverrideMode};

/// One call or signal. A character is the caller's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Line {
    Start(Option<char>),
    StartUnchecked,
    StartPosted,
    /// Another data directory than the sidecar's.
    StartElsewhere,
    StartForced,
    /// The sidecar's configuration, without a check.
    StartUncheckedForced,
    StartHold(char),
    StartPostedHold(char),
    Stop,
    StopHold(char),
    StopForced,
    /// With transfer and the quorum guard.
    StopGently,
    /// Waits for its turn, and leaves a hold.
    StopSerialHold(char),
    Restart,
    RestartUnchecked,
    Release(char),
    Unready(char),
    Term,
    StopCall,
}

impl Line {
    pub(in super::super) fn is_shutdown(self) -> bool {
        matches!(self, Self::Term | Self::StopCall)
    }

    /// What a start names, and what it promises.
    pub(in super::super) fn start(self) -> Option<(Option<char>, bool)> {
        match self {
            Self::Start(owner) => Some((owner, false)),
            Self::StartUnchecked
            | Self::StartPosted
            | Self::StartElsewhere
            | Self::StartForced
            | Self::StartUncheckedForced => Some((None, false)),
            Self::StartHold(owner) | Self::StartPostedHold(owner) => Some((Some(owner), true)),
            _ => None,
        }
    }

    pub(in super::super) fn command(self, fsync: bool) -> Command {
        match self {
            Self::Start(owner) => Command::Start(StartRequest { owner: owner.map(String::from), ..start() }),
            Self::StartUnchecked => Command::Start(StartRequest { validation: Validation::None, ..start() }),
            Self::StartPosted => {
                Command::Start(StartRequest { posted: Some(config(true, fsync)), ..start() })
            }
            Self::StartElsewhere => {
                Command::Start(StartRequest { posted: Some(config(false, fsync)), ..start() })
            }
            Self::StartForced => {
                Command::Start(StartRequest { posted: Some(config(true, fsync)), force: true, ..start() })
            }
            Self::StartUncheckedForced => {
                Command::Start(StartRequest { validation: Validation::None, force: true, ..start() })
            }
            Self::StartHold(owner) => Command::Start(StartRequest { hold: Some(hold(owner)), ..start() }),
            Self::StartPostedHold(owner) => Command::Start(StartRequest {
                posted: Some(config(true, fsync)),
                hold: Some(hold(owner)),
                ..start()
            }),
            Self::Stop => Command::Stop(stop()),
            Self::StopHold(owner) => Command::Stop(StopRequest { hold: Some(hold(owner)), ..stop() }),
            Self::StopForced => Command::Stop(StopRequest { force: true, ..stop() }),
            Self::StopGently => Command::Stop(StopRequest { transfer: true, guard: Guard::Quorum, ..stop() }),
            Self::StopSerialHold(owner) => {
                Command::Stop(StopRequest { hold: Some(hold(owner)), guard: Guard::Serial, ..stop() })
            }
            Self::Restart => Command::Restart(restart()),
            Self::RestartUnchecked => {
                Command::Restart(RestartRequest { validation: Validation::None, ..restart() })
            }
            Self::Release(owner) => Command::SetOverride(OverrideRequest {
                mode: None,
                ttl: None,
                owner: Some(owner.to_string()),
                reason: String::new(),
                force: false,
            }),
            Self::Unready(owner) => Command::SetOverride(OverrideRequest {
                mode: Some(OverrideMode::Unready),
                ttl: Some(Duration::from_secs(60)),
                owner: Some(owner.to_string()),
                reason: "r".into(),
                force: false,
            }),
            Self::Term => Command::Shutdown(Shutdown::Terminate),
            Self::StopCall => Command::Shutdown(Shutdown::StopCall),
        }
    }
}

pub(in super::super) fn start() -> StartRequest {
    StartRequest {
        posted: None,
        validation: Validation::Auto,
        hold: None,
        owner: None,
        force: false,
        if_generation: None,
        reason: String::new(),
    }
}

pub(in super::super) fn stop() -> StopRequest {
    StopRequest {
        grace: None,
        transfer: false,
        guard: Guard::None,
        force: false,
        hold: None,
        if_generation: None,
        reason: String::new(),
    }
}

pub(in super::super) fn restart() -> RestartRequest {
    RestartRequest {
        validation: Validation::Auto,
        config_from_sidecar: None,
        grace: None,
        transfer: false,
        guard: Guard::None,
        force: false,
        if_generation: None,
        reason: String::new(),
    }
}

pub(in super::super) fn hold(owner: char) -> HoldRequest {
    HoldRequest { owner: owner.to_string(), reason: "r".into() }
}

pub(in super::super) fn name(owner: char) -> Arc<str> {
    Arc::from(owner.to_string())
}

/// A posted configuration; `own`: on the sidecar's data directory.
pub(in super::super) fn config(own: bool, fsync: bool) -> Arc<EtcdConfig> {
    let none = Vec::new;
    Arc::new(EtcdConfig {
        bytes: bytes::Bytes::new(),
        digest: if own { "posted" } else { "elsewhere" }.into(),
        name: String::new(),
        data_dir: Path::new(if own { "/own" } else { "/other" }).into(),
        listen_client_urls: none(),
        listen_client_http_urls: Vec::new(),
        listen_peer_urls: none(),
        advertise_client_urls: none(),
        advertise_peer_urls: none(),
        initial_cluster: Vec::new(),
        client_tls: TlsSection::default(),
        peer_tls: TlsSection::default(),
        quota_backend_bytes: 0,
        election_timeout: Duration::from_secs(1),
        unsafe_no_fsync: !fsync,
        force_new_cluster: false,
    })
}

/// What the sidecar serves, or the file says.
pub(in super::super) fn plan(source: ConfigSource, fsync: bool) -> Plan {
    Plan {
        digest: Arc::from("served"),
        data_dir: Arc::from(Path::new("/own")),
        fsync,
        force_new_cluster: false,
        source,
    }
}
