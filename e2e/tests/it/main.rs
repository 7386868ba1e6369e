// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The library's own parts against real etcds, as child processes: no cluster, no images. The scenarios are elsewhere.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene must fail where it stands")]
mod etcds;
mod histories;
