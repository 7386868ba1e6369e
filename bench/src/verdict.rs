// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A bar and whether it holds. A value is judged only when the machine was quiet enough to tell: what spreads over the
//! bar by more than the limit stated here gets the words "too noisy" and counts as neither.
use serde::Serialize;

use crate::stats::{median, most, quantile};

/// The middle half of the runs may spread over so much of the bar and still be judged when the bar lies within it.
pub(crate) const SPREAD: f64 = 0.25;
/// So much of a time limit may be lost to the machine itself (a thread of ours that woke late) before a miss of that
/// limit says nothing about the wrapper.
pub(crate) const LAG: f64 = 0.5;
/// So much of the machine may be used by others before a missed time says nothing about the wrapper.
pub(crate) const FOREIGN: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Holds,
    Missed,
    /// Too noisy for a verdict.
    Noisy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    AtMost,
    AtLeast,
}

/// One thing that must hold, what was measured of it, and the verdict.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bar {
    /// What is judged: `overhead, median`.
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) side: Side,
    pub(crate) limit: f64,
    pub(crate) value: f64,
    /// Lower and upper end of the middle half of the runs.
    pub(crate) middle: (f64, f64),
    pub(crate) runs: usize,
    /// The worst single case is judged, not the median.
    #[serde(skip)]
    pub(crate) is_worst: bool,
    /// Two candidates are compared.
    #[serde(skip)]
    compares: bool,
    pub(crate) verdict: Verdict,
    /// Why there is none; empty otherwise.
    pub(crate) why: String,
}

impl Bar {
    /// The median of these runs.
    pub(crate) fn median(
        what: impl Into<String>,
        unit: &'static str,
        runs: &[f64],
        side: Side,
        limit: f64,
    ) -> Self {
        Self::of(what.into(), unit, median(runs), runs, side, limit)
    }

    /// `ours` minus `theirs`, of the medians, the pairs of one run telling the spread.
    pub(crate) fn difference(
        what: impl Into<String>,
        unit: &'static str,
        ours: &[f64],
        theirs: &[f64],
        limit: f64,
    ) -> Self {
        let pairs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
        let bar = Self::of(what.into(), unit, median(ours) - median(theirs), &pairs, Side::AtMost, limit);
        Self { compares: true, ..bar }
    }

    /// `over` divided by `under`, of the medians, the pairs of one run telling the spread.
    pub(crate) fn ratio(what: impl Into<String>, over: &[f64], under: &[f64], limit: f64) -> Self {
        let pairs: Vec<f64> = over.iter().zip(under).map(|(a, b)| a / b).collect();
        let bar = Self::of(what.into(), "×", median(over) / median(under), &pairs, Side::AtLeast, limit);
        Self { compares: true, ..bar }
    }

    /// Judged with another limit on the spread than [`SPREAD`].
    pub(crate) fn spread(self, share: f64) -> Self {
        let Self { is_worst, compares, .. } = self;
        let middle = (self.middle, self.runs);
        let bar = Self::judged(self.what, self.unit, self.value, middle, self.side, self.limit, share);
        Self { is_worst, compares, ..bar }
    }

    fn of(what: String, unit: &'static str, value: f64, runs: &[f64], side: Side, limit: f64) -> Self {
        let middle = (quantile(runs, 0.25), quantile(runs, 0.75));
        Self::judged(what, unit, value, (middle, runs.len()), side, limit, SPREAD)
    }

    fn judged(
        what: String,
        unit: &'static str,
        value: f64,
        (middle, runs): ((f64, f64), usize),
        side: Side,
        limit: f64,
        share: f64,
    ) -> Self {
        let spread = middle.1 - middle.0;
        let on_both_sides = middle.0 < limit && limit < middle.1;
        let (verdict, why) = if !value.is_finite() {
            (Verdict::Noisy, "nothing was measured".to_owned())
        } else if on_both_sides && spread > share * limit.abs() {
            let why = format!(
                "the middle half of {runs} runs spreads over {spread:.3} {unit}, more than {:.0} % of the bar, and the bar lies within it",
                share * 100.0
            );
            (Verdict::Noisy, why)
        } else {
            let holds = match side {
                Side::AtMost => value <= limit,
                Side::AtLeast => value >= limit,
            };
            (if holds { Verdict::Holds } else { Verdict::Missed }, String::new())
        };
        Self { what, unit, side, limit, value, middle, runs, is_worst: false, compares: false, verdict, why }
    }

    /// The worst of all runs. A machine that was late itself excuses a miss: see [`Bar::unless_late`].
    pub(crate) fn worst(what: impl Into<String>, unit: &'static str, runs: &[f64], limit: f64) -> Self {
        let bar = Self::of(what.into(), unit, most(runs), &[most(runs)], Side::AtMost, limit);
        Self { runs: runs.len(), is_worst: true, ..bar }
    }

    /// No miss of a time when the machine itself was late (see [`LAG`]). `lag`: the worst that a thread of ours which did
    /// nothing but wait saw meanwhile, in the same unit.
    pub(crate) fn unless_late(mut self, lag: f64) -> Self {
        if self.verdict == Verdict::Missed && lag >= LAG * self.limit {
            self.verdict = Verdict::Noisy;
            self.why = format!(
                "a thread that only waited woke up to {lag:.1} {} late: {:.0} % of the bar are lost to the machine",
                self.unit,
                lag / self.limit * 100.0
            );
        }
        self
    }

    /// No verdict on what others on the machine had a hand in, when they used so much of it (see [`FOREIGN`]): no miss of
    /// a time, and no comparison but one that most runs agree on. Sizes stand.
    pub(crate) fn unless_crowded(mut self, foreign: f64) -> Self {
        let is_size = self.unit == "MiB";
        let by_luck = match (self.compares, self.side) {
            (false, _) => false,
            (true, Side::AtMost) => self.middle.1 > self.limit,
            (true, Side::AtLeast) => true,
        };
        let doubtful = self.verdict == Verdict::Missed || (self.verdict == Verdict::Holds && by_luck);
        if doubtful && foreign > FOREIGN && !is_size {
            self.verdict = Verdict::Noisy;
            self.why = format!("others used {:.0} % of the machine", foreign * 100.0);
        }
        self
    }

    /// A plain number that has no runs, such as a size.
    pub(crate) fn plain(what: impl Into<String>, unit: &'static str, value: f64, limit: f64) -> Self {
        Self::of(what.into(), unit, value, &[value], Side::AtMost, limit)
    }

    /// `≤ 80 ms`
    pub(crate) fn limit_text(&self) -> String {
        let sign = match self.side {
            Side::AtMost => "≤",
            Side::AtLeast => "≥",
        };
        format!("{sign} {} {}", number(self.limit), self.unit)
    }
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Missed => "MISSED",
            Self::Noisy => "too noisy",
        }
    }
}

/// As many digits as say something.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(runs: &[f64], limit: f64) -> Verdict {
        Bar::median("x", "ms", runs, Side::AtMost, limit).verdict
    }

    #[test]
    fn what_lies_on_one_side_is_judged_however_much_it_spreads() {
        assert_eq!(verdict(&[1.0, 50.0, 79.0], 80.0), Verdict::Holds);
        assert_eq!(verdict(&[81.0, 500.0, 900.0], 80.0), Verdict::Missed);
    }

    #[test]
    fn what_spreads_over_the_bar_gets_no_number_that_means_nothing() {
        let bar = Bar::median("x", "ms", &[10.0, 40.0, 78.0, 150.0, 300.0], Side::AtMost, 80.0);
        assert_eq!(bar.verdict, Verdict::Noisy);
        assert!(bar.why.contains("25 % of the bar"), "{}", bar.why);
        // A small spread around the bar is judged by the median.
        assert_eq!(verdict(&[78.0, 79.0, 81.0, 82.0], 80.5), Verdict::Holds);
    }

    #[test]
    fn a_late_machine_takes_the_verdict_from_a_miss_and_never_from_a_success() {
        let worst = |value, lag| Bar::worst("x", "ms", &[1.0, value], 50.0).unless_late(lag).verdict;
        assert_eq!(worst(60.0, 1.0), Verdict::Missed);
        assert_eq!(worst(60.0, 30.0), Verdict::Noisy);
        assert_eq!(worst(40.0, 300.0), Verdict::Holds);
    }

    #[test]
    fn a_crowded_machine_excuses_times_and_no_sizes() {
        let missed = |unit| Bar::plain("x", unit, 81.0, 80.0).unless_crowded(0.9).verdict;
        assert_eq!(
            (missed("ms"), missed("×"), missed("MiB")),
            (Verdict::Noisy, Verdict::Noisy, Verdict::Missed)
        );
        assert_eq!(Bar::plain("x", "ms", 81.0, 80.0).unless_crowded(0.2).verdict, Verdict::Missed);
        assert_eq!(Bar::plain("x", "ms", 79.0, 80.0).unless_crowded(0.9).verdict, Verdict::Holds);
        let ratio = || Bar::ratio("x", &[1.9, 2.0], &[1.0, 1.0], 0.99);
        assert_eq!(ratio().unless_crowded(0.1).verdict, Verdict::Holds);
        assert_eq!(ratio().unless_crowded(0.9).verdict, Verdict::Noisy);
        let difference = |ours: &[f64]| {
            Bar::difference("x", "ms", ours, &[4.0, 4.0, 4.0, 4.0], 15.0).unless_crowded(0.9).verdict
        };
        assert_eq!(difference(&[5.0, 6.0, 7.0, 99.0]), Verdict::Noisy);
        assert_eq!(difference(&[5.0, 6.0, 7.0, 8.0]), Verdict::Holds);
    }

    #[test]
    fn a_ratio_is_that_of_the_medians_and_nothing_is_not_a_number() {
        let bar = Bar::ratio("x", &[100.0, 200.0, 300.0], &[2.0, 4.0, 5.0], 25.0);
        assert_eq!((bar.value, bar.verdict), (50.0, Verdict::Holds));
        assert_eq!(Bar::ratio("x", &[], &[], 1.0).verdict, Verdict::Noisy);
    }
}
