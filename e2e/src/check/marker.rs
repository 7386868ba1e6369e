// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The marker of a clean end lies on disk only after one. The exit code tells: 0 is a clean end that was asked for,
//! every other is none.
use super::{Finding, moment};

/// One end of a wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Name of the member whose wrapper ended.
    pub member: String,
    /// When it was noticed, in milliseconds since 1970.
    pub at: u64,
    /// Its exit code; -1: everything was gone at once.
    pub code: i32,
    /// What the marker's file held after the end and before the next start; None: it was not there.
    pub marker: Option<String>,
}

/// `began`: the zero of the times that are told.
pub fn marker(exits: &[Exit], began: u64) -> Finding {
    let lies = |exit: &&Exit| exit.code != 0 && exit.marker.is_some();
    let told = |exit: &Exit| {
        format!(
            "{} at {}: ended with {}, and its marker says {:?}",
            exit.member,
            moment(exit.at, began),
            exit.code,
            exit.marker.as_deref().unwrap_or_default().trim()
        )
    };
    let clean = exits.iter().filter(|exit| exit.marker.is_some()).count();
    Finding::new(
        "marker",
        "the marker of a clean end lies on disk only after one",
        exits.len(),
        format!("{} ends of wrappers, {clean} with a marker", exits.len()),
        exits.iter().filter(lies).map(told).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, marker: Option<&str>) -> Exit {
        Exit { member: "etcd-1".into(), at: 5_500, code, marker: marker.map(str::to_owned) }
    }

    #[test]
    fn a_marker_after_a_kill_is_a_lie() {
        let good = [exit(0, Some("terminated\n")), exit(137, None), exit(10, None), exit(0, None)];
        assert!(marker(&good, 0).holds());
        let found = marker(&[exit(0, None), exit(137, Some("terminated\n"))], 5_000);
        assert_eq!(found.trouble, ["etcd-1 at 0.500 s: ended with 137, and its marker says \"terminated\""]);
        assert!(!marker(&[exit(10, Some(""))], 0).holds(), "whatever is in it");
        assert!(!marker(&[], 0).holds(), "nothing seen");
    }
}
