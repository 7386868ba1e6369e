// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The small tasks between two stages: what the TLS stage loaded, in the listener's and in the member stage's shape.
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use tokio::sync::watch;
use tracing::{error, warn};

use crate::api::auth;
use crate::api::listener;
use crate::cli::StartFlags;
use crate::config;
use crate::member::dial::{Address, Dial, Tls};
use crate::member::view::Target;
use crate::supervise::view::Alive;
use crate::tls::client::server_name;
use crate::tls::reload::ClientTls;
use crate::tls::server::{ClientIdentity, SelfSigned, ServerTls};

/// The listener's TLS: etcd's own certificate once loaded, a self-signed one until then.
pub(super) fn listener_tls(
    mut loaded: watch::Receiver<Option<Arc<ServerTls>>>,
    names: Vec<String>,
) -> watch::Receiver<listener::ServerTls> {
    let own = Arc::new(SelfSigned::new(names));
    let (sender, receiver) = watch::channel(shape(loaded.borrow_and_update().as_ref(), &own));
    tokio::spawn(async move {
        while loaded.changed().await.is_ok() {
            sender.send_replace(shape(loaded.borrow_and_update().as_ref(), &own));
        }
        sender.closed().await;
    });
    receiver
}
