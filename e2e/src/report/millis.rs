// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Durations in files: a number of milliseconds, with microseconds behind the point.
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    number(*span).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    span(f64::deserialize(from)?)
}

fn number(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

fn span<E: serde::de::Error>(millis: f64) -> Result<Duration, E> {
    let micros = (millis * 1e3).round();
    if (0.0..9e18).contains(&micros) {
        Duration::try_from_secs_f64(micros / 1e6).map_err(E::custom)
    } else {
        Err(E::custom("a time that is negative or has no end"))
    }
}

/// The same, of what may not be there.
pub(super) mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(super::number).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(from)?.map(super::span).transpose()
    }
}
