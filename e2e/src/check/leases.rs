// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A key that goes with a lease stays as long as the lease was promised, and goes when it has run out. Times are those of
//! the client: a promise counts from when it was asked for, an end is noticed some time after it came.
use super::{Finding, moment};

/// For clocks that count in seconds.
const SLACK: u64 = 1_000;

/// A promise that was answered: the grant, or a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// In milliseconds since 1970.
    pub begun: u64,
    /// When its answer came, in milliseconds since 1970.
    pub ended: u64,
}

/// One lease with its one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The one key that hangs on it.
    pub key: String,
    /// In milliseconds.
    pub life: u64,
    /// In order.
    pub promises: Vec<Renewal>,
    /// Somebody asked for its end, with whatever outcome.
    pub revoked: bool,
    /// When its key was seen to go, in milliseconds since 1970.
    pub gone: Option<u64>,
    /// The key was there when nothing renewed it any more, and long after.
    pub lingers: bool,
}

/// `began`: the zero of the times that are told.
pub fn leases(leases: &[Lease], began: u64) -> Finding {
    let mut trouble = Vec::new();
    for lease in leases {
        // A promise that was asked for when the key had gone is about nothing; one that ended before is binding.
        let gone = lease.gone.unwrap_or(u64::MAX);
        let binding = lease.promises.iter().rfind(|promise| promise.ended < gone);
        if let (Some(gone), Some(promise), false) = (lease.gone, binding, lease.revoked)
            && gone + SLACK < promise.begun + lease.life
        {
            trouble.push(format!(
                "{} went at {}, though its lease of {} s was promised anew between {} and {}",
                lease.key,
                moment(gone, began),
                lease.life / 1000,
                moment(promise.begun, began),
                moment(promise.ended, began)
            ));
        }
        if lease.lingers {
            let last = lease.promises.last().map_or(began, |promise| promise.ended);
            trouble.push(format!(
                "{} is still there, though its lease of {} s was last renewed at {}",
                lease.key,
                lease.life / 1000,
                moment(last, began)
            ));
        }
    }
    let renewals: usize = leases.iter().map(|lease| lease.promises.len()).sum();
    let revoked = leases.iter().filter(|lease| lease.revoked).count();
    Finding::new(
        "leases",
        "a leased key stays as long as was promised, and goes when its lease has run out",
        leases.len(),
        format!("{} leases, {revoked} of them revoked, with {renewals} promises", leases.len()),
        trouble,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(gone: Option<u64>) -> Lease {
        let promises = vec![Renewal { begun: 1_000, ended: 1_010 }, Renewal { begun: 4_000, ended: 4_020 }];
        Lease { key: "l".into(), life: 6_000, promises, revoked: false, gone, lingers: false }
    }

    #[test]
    fn a_key_that_goes_too_early_or_never_is_found() {
        assert!(leases(&[lease(Some(10_500)), lease(None)], 0).holds());
        let early = leases(&[lease(Some(7_500))], 0);
        assert!(
            early.trouble[0].contains("l went at 7.500 s, though its lease of 6 s was promised anew"),
            "{early:?}"
        );
        let lingers = Lease { lingers: true, ..lease(None) };
        assert!(leases(&[lingers], 0).trouble[0].contains("still there"));
        assert!(!leases(&[], 0).holds());
    }

    #[test]
    fn a_revoked_lease_and_a_renewal_that_came_too_late_are_no_early_end() {
        assert!(leases(&[Lease { revoked: true, ..lease(Some(4_500)) }], 0).holds());
        // The second promise was under way when the key went: the first one had run out.
        let mut late = lease(Some(7_200));
        late.promises[1] = Renewal { begun: 7_100, ended: 7_300 };
        assert!(leases(&[late], 0).holds());
    }
}
