// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 5: from SIGTERM to the end of the last process, out of whole lives.
use super::life::Lives;
use crate::finding::Row;
use crate::verdict::Bar;

pub(super) fn row(row: &mut Row, lives: &Lives, peer: &str) {
    let (ours, theirs) = (lives.of_ours(|life| life.stop), lives.of_peer(|life| life.stop));
    row.figure(
        "SIGTERM to everything gone",
        "ms",
        [("bare etcd", &*lives.bare_stop), ("etcd-wrapper", &ours), (peer, &theirs)],
    );
    row.bar(Bar::difference("ours − bare etcd", "ms", &ours, &lives.bare_stop, 15.0));
    if let Some(why) = &lives.peer_missing {
        row.missing("the figure of a peer", why);
    }
}
