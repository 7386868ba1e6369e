// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Asks the sidecar whether the data directory is sound, and for the configuration.
pub mod calls;
pub mod hold;
pub mod marker;
pub mod sidecar;
