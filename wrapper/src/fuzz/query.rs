// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Query strings and small JSON bodies, and the values in them.
use std::time::Duration;

use http::HeaderValue;

use super::{Target, assert_short, shape};
use crate::api::events::position;
use crate::api::fields::Fields;
use crate::api::problem::Problem;
use crate::api::query::Query;
use crate::duration::GoDuration;

/// The queries of long-polls and streams.
pub const TARGET: Target = Target {
    words: &[
        "wait=",
        "after=",
        "force",
        "ifGeneration=",
        "&",
        "=",
        "%",
        "%C3%A9",
        "%zz",
        "+",
        "30s",
        "3f9a1c:41",
        "validation=full",
        "ready=hold",
        "owner=",
        "reason=",
    ],
    longest: 4096,
    cases: 4000,
    ..Target::new("query", run)
};

/// The bodies of verbs.
pub const FIELDS: Target = Target {
    words: &[
        "{\"mode\":\"unready\",\"owner\":\"a\",\"ttl\":\"120s\",\"reason\":\"b\",\"force\":false}",
        "\"gracePeriod\":",
        "\"ifGeneration\":18446744073709551615",
        "\"a/b~c\":",
        "null",
        "1e999",
        "-0",
        "\\ud800",
        "[",
        "{",
        ",",
        ":",
    ],
    longest: 8 * 1024,
    cases: 3000,
    ..Target::new("fields", run_fields)
};

/// A position in the stream of events, `Last-Event-ID`.
pub const POSITION: Target = Target {
    words: &[
        "3f9a1c:",
        "3f9a1c",
        ":",
        "0",
        "18446744073709551615",
        "18446744073709551616",
        "+1",
        "-1",
        " ",
        "\t",
    ],
    longest: 256,
    cases: 5000,
    ..Target::new("position", run_position)
};

const KNOWN: &[&str] = &["wait", "after", "force", "ifGeneration", "owner"];
/// What is said goes into a problem document.
const LONGEST: usize = 8192;

/// Reads a query as the routes do.
pub fn run(input: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(input) else { return 0 };
    let query = match Query::parse(Some(text)) {
        Ok(query) => query,
        Err(problem) => return refused(&problem),
    };
    let mut seen = query.only(KNOWN).map_or_else(|problem| refused(&problem), |()| 1);
    for name in KNOWN {
        seen ^= query.flag(name).map_or_else(|problem| refused(&problem), u64::from);
        seen ^= query.number(name).map_or_else(
            |problem| refused(&problem),
            |number| {
                if let (Some(number), Some(text)) = (number, query.get(name)) {
                    assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{text:?} is no number");
                    assert_eq!(text.trim_start_matches('0'), number.to_string().trim_start_matches('0'));
                }
                2
            },
        );
        let gos = query.get(name).map(|text| text.parse::<GoDuration>().ok().and_then(|d| d.to_std().ok()));
        seen ^= match (query.duration(name), gos) {
            (Ok(None), None) => 3,
            (Ok(Some(duration)), Some(gos)) => {
                assert_eq!(Some(duration), gos, "{:?} is not what Go makes of it", query.get(name));
                4
            }
            (Err(problem), Some(None)) => refused(&problem),
            (ours, gos) => panic!("{:?}: ours {ours:?}, Go's {gos:?}", query.get(name)),
        };
    }
    seen
}

/// Reads a small body as the control routes do.
pub fn run_fields(input: &[u8]) -> u64 {
    let fields = match Fields::parse(input) {
        Ok(fields) => fields,
        Err(problem) => return refused(&problem),
    };
    let known = ["mode", "owner", "ttl", "reason", "force", "gracePeriod", "ifGeneration"];
    let mut seen = fields.only(&known).map_or_else(|problem| refused(&problem), |()| 1);
    let day = Duration::from_secs(86_400);
    for name in known {
        seen ^= fields.text(name).map_or_else(|problem| refused(&problem), |_| 2);
        seen ^= fields.flag(name).map_or_else(|problem| refused(&problem), |_| 3);
        seen ^= fields.number(name).map_or_else(|problem| refused(&problem), |_| 5);
        seen ^= fields
            .word(name, &[("ready", 1), ("unready", 2)])
            .map_or_else(|problem| refused(&problem), |_| 7);
        seen ^= fields.duration(name, Duration::from_secs(1), day).map_or_else(
            |problem| refused(&problem),
            |length| {
                assert!(length.is_none_or(|length| (Duration::from_secs(1)..=day).contains(&length)));
                9
            },
        );
    }
    seen
}

/// A `Last-Event-ID`: a position only with our epoch and digits behind it.
pub fn run_position(input: &[u8]) -> u64 {
    let Ok(value) = HeaderValue::from_bytes(input) else { return 0 };
    let text = String::from_utf8_lossy(input);
    let spelled = text.trim().strip_prefix("3f9a1c:").filter(|index| {
        !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) && index.parse::<u64>().is_ok()
    });
    let found = position(&value, "3f9a1c");
    assert_eq!(
        found.map(|index| index.to_string()),
        spelled.map(|index| {
            let digits = index.trim_start_matches('0');
            if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
        }),
        "{text:?}"
    );
    u64::from(found.is_some())
}

fn refused(problem: &Problem) -> u64 {
    let document = serde_json::to_string(&problem.document(None)).expect("a document can be written");
    assert_short(&document, LONGEST);
    shape(&problem.detail)
}
