// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A scripted etcd: the program `etcd-double`, which a wrapper spawns in etcd's place, and the stage from which a
//! test directs it and reads what it recorded. Stores no data and forms no cluster.
pub mod answer;
pub mod config;
mod listen;
mod live;
mod metrics;
pub mod program;
mod ready;
pub mod record;
pub mod script;
mod service;
mod signals;
pub mod stage;

pub use self::answer::{Answer, Failure};
pub use self::live::id_of;
pub use self::record::{Event, Record, StartFacts};
pub use self::script::{
    Chatter, Ending, How, Leader, OnSignal, Ready, Row, Script, Sender, Since, Standing, Then, Version, When,
};
pub use self::stage::Stage;

/// The messages of etcd's API that the double answers; the client side is for tests.
pub mod proto {
    #![expect(clippy::allow_attributes, missing_docs, reason = "generated code")]
    tonic::include_proto!("etcdserverpb");
}
