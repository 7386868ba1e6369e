// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a publisher publishes first, without a publisher.
use std::sync::Arc;

use tokio::sync::watch;

use super::{Published, Publisher};
use crate::api::Views;
use crate::api::tests::rig::core_view;
use crate::metrics::Metrics;

/// Position 1, and no event.
pub(crate) fn published() -> (watch::Sender<Published>, watch::Receiver<Published>) {
    let views = Views {
        core: watch::channel(core_view()).1,
        member: watch::channel(Arc::default()).1,
        tls: watch::channel(crate::tls::TlsView::default()).1,
    };
    let (publisher, receiver) = Publisher::new(views, Metrics::new(), watch::channel(None).1);
    (publisher.sender, receiver)
}
