// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Calls as a table for people: who asked whom for what, from when to when, and what was told.
use super::super::{Call, Op, Outcome, Seen};

/// One line per call, in the given order; `>` stands at the marked one. Times in seconds since the run began.
pub(in super::super) fn table(ops: &[&Op], marked: Option<&Op>) -> String {
    let head = ["client", "member", "key", "call", "from", "to", "told"].map(str::to_owned);
    let mut rows = vec![(false, head)];
    for op in ops {
        let is_marked = marked.is_some_and(|marked| std::ptr::eq(marked, *op));
        let (from, to) = (seconds(op.begun), seconds(op.ended));
        let call = op.call.to_string();
        let row = [op.client.to_string(), op.member.clone(), op.key.clone(), call, from, to, told(op)];
        rows.push((is_marked, row));
    }
    let mut widths = [0; 7];
    for (_, row) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |(is_marked, row): &(bool, [String; 7])| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let mark = if *is_marked { '>' } else { ' ' };
        format!("{mark} {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn told(op: &Op) -> String {
    let seen = |seen: &Option<Seen>| {
        seen.as_ref().map_or_else(
            || "nothing".to_owned(),
            |seen| format!("{} (revision {})", seen.value, seen.revision),
        )
    };
    match (&op.outcome, &op.call) {
        (Outcome::Failed { why }, _) => format!("refused: {why}"),
        (Outcome::Unknown { why }, _) => format!("no answer: {why}"),
        (Outcome::Ok(answer), Call::Swap { .. }) if answer.written.is_none() => {
            format!("not as expected, was {}", seen(&answer.seen))
        }
        (Outcome::Ok(answer), Call::Read | Call::Delete) => {
            let written =
                answer.written.map_or_else(String::new, |revision| format!(", gone at revision {revision}"));
            format!("saw {}{written}", seen(&answer.seen))
        }
        (Outcome::Ok(answer), Call::Put { .. } | Call::Swap { .. }) => {
            format!("done, revision {}", answer.written.unwrap_or_default())
        }
    }
}
