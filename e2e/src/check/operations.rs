// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every operation that a wrapper accepted comes to exactly one end, unless the process ended before it.
use super::{Finding, moment};

/// An accepted operation, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Name of the member that accepted it.
    pub member: String,
    /// When it was accepted, in milliseconds since 1970.
    pub at: u64,
    /// `stop`, `start`, `restart` or `transfer`.
    pub kind: String,
    /// The id by which it is asked for.
    pub id: String,
    /// All words that were seen for it, in order; None: the wrapper did not know it any more.
    pub statuses: Vec<Option<String>>,
}

/// `began`: the zero of the times that are told.
pub fn operations(operations: &[Operation], began: u64) -> Finding {
    let is_end = |status: &str| matches!(status, "succeeded" | "failed" | "superseded");
    let mut trouble = Vec::new();
    for operation in operations {
        let told: Vec<&str> =
            operation.statuses.iter().map(|status| status.as_deref().unwrap_or("unknown")).collect();
        let mut ends: Vec<&str> = told.iter().copied().filter(|status| is_end(status)).collect();
        ends.dedup();
        let last = operation.statuses.last().map(Option::as_deref);
        let open = last.is_some_and(|status| status.is_some_and(|status| !is_end(status)));
        if ends.len() > 1 || open {
            trouble.push(format!(
                "{} of {} at {}: {}",
                operation.kind,
                operation.member,
                moment(operation.at, began),
                told.join(", then ")
            ));
        }
    }
    Finding::new(
        "operations",
        "every operation that was accepted comes to one end",
        // A schedule without agents has none.
        1,
        format!("{} operations", operations.len()),
        trouble,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(statuses: &[Option<&str>]) -> Operation {
        let statuses = statuses.iter().map(|status| status.map(str::to_owned)).collect();
        Operation { member: "a".into(), at: 0, kind: "restart".into(), id: "1".into(), statuses }
    }

    #[test]
    fn an_operation_without_end_or_with_two_is_found() {
        for good in [
            &[Some("running"), Some("succeeded")][..],
            &[Some("pending"), Some("superseded"), Some("superseded")],
            &[Some("running"), None],
        ] {
            assert!(operations(&[operation(good)], 0).holds(), "{good:?}");
        }
        for bad in [&[Some("running")][..], &[Some("failed"), Some("succeeded")]] {
            assert!(!operations(&[operation(bad)], 0).holds(), "{bad:?}");
        }
    }
}
