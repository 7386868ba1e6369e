// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Hands leadership to a healthy voter. Asks once and reports; when to do it, and whether a failure matters, is the
//! supervisor's business (at a stop etcd itself tries again).
use std::time::Duration;

use super::client::{CallError, Client};
use super::guard::{Sight, look};

/// Why leadership stayed where it was.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// 422 `no_candidate`.
    #[error("no other voter is active")]
    NoCandidate,
    /// Who could lead cannot be known.
    #[error("look for a voter to lead: {0}")]
    Blind(String),
    /// etcd refused to hand over to this member.
    #[error("move leadership to member {target:x}: {source}")]
    Refused {
        /// The member that was to lead.
        target: u64,
        /// etcd's answer.
        source: CallError,
    },
    /// Not handed over within this time.
    #[error("move leadership: not done within {0:?}")]
    TimedOut(Duration),
}

/// Moves leadership away from the local member, which leads, to the first active voter that takes it; returns its id.
/// All of it takes at most `limit`.
pub async fn transfer(client: &Client, limit: Duration) -> Result<u64, TransferError> {
    let attempt = async {
        let sight = look(client, &mut client.scraper()).await.map_err(TransferError::Blind)?;
        let mut last = TransferError::NoCandidate;
        for target in candidates(&sight) {
            match client.move_leader(target, limit).await {
                Ok(()) => return Ok(target),
                Err(source) => last = TransferError::Refused { target, source },
            }
        }
        Err(last)
    };
    tokio::time::timeout(limit, attempt).await.unwrap_or(Err(TransferError::TimedOut(limit)))
}

fn candidates(sight: &Sight) -> impl Iterator<Item = u64> {
    sight.others().1.into_iter()
}
