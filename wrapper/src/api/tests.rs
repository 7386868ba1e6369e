// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The whole API over real loopback connections, with the stages' views and the supervisor's mailbox in the test's
//! hands.
mod certificates;
mod contract;
mod control;
mod documents;
mod event_load;
mod events;
mod limits;
mod openapi;
mod probes;
pub(crate) mod rig;
mod schemes;
mod stop;
mod verbs;
