// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The doubles' programs as a wrapper meets them: spawned, signalled, called. Knows nothing of the wrapper itself.
mod calls;
mod life;
mod sidecar;
mod spawned;
