// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the local etcd says of itself: readiness, leadership, alarms, numbers.
pub mod view;
