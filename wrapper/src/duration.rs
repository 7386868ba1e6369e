// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Durations as Go reads and writes them (`2m0s`, `1.5h`, `300ms`, `0`): same grammar, same limits, same spelling.
//! Knows nothing of flags; what a flag allows is decided where the flag is.
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Go's `time.Duration`: signed nanoseconds, about ±292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is no duration; reads well after the text itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a duration at all.
    #[error("{0:?} is not a duration: write a number with a unit, such as 300ms, 1.5h or 2m0s")]
    Invalid(String),
    /// A number without a unit; only `0` may.
    #[error("{0:?} is not a duration: a unit is missing (ns, us, ms, s, m, h)")]
    MissingUnit(String),
    /// A unit that Go does not know.
    #[error("{0:?} is not a duration: unknown unit {1:?} (ns, us, ms, s, m, h)")]
    UnknownUnit(String, String),
    /// More than an `int64` of nanoseconds holds.
    #[error("{0:?} is too long for a duration (about 292 years)")]
    Overflow(String),
    /// Below zero where that makes no sense.
    #[error("{0} is negative")]
    Negative(GoDuration),
}

/// Go's magnitude limit: one more than the largest positive value, so that the smallest negative one parses.
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// Signed nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds, as Go counts them; may be negative.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The standard library's duration; an error when negative.
    pub fn to_std(self) -> Result<Duration, DurationError> {
        u64::try_from(self.0).map(Duration::from_nanos).map_err(|_| DurationError::Negative(self))
    }
}

/// Reads a duration that is not negative.
///
/// # Errors
/// Go would not read it, or it is negative.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    text.parse::<GoDuration>()?.to_std()
}

impl From<Duration> for GoDuration {
    /// Saturates at Go's largest duration.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Follows Go's `time.ParseDuration` step by step, the float rounding of fractions included.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let overflow = || DurationError::Overflow(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = leading_digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(tail) => leading_digits(tail),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (name, tail) = after.split_at(unit_end);
            if name.is_empty() {
                return Err(DurationError::MissingUnit(text.to_owned()));
            }
            let unit = unit_nanos(name)
                .ok_or_else(|| DurationError::UnknownUnit(text.to_owned(), name.to_owned()))?;
            let nanos = whole_number(whole)
                .and_then(|n| n.checked_mul(unit))
                .filter(|n| *n <= LIMIT)
                .ok_or_else(overflow)?;
            let nanos = nanos + fraction_nanos(fraction, unit);
            total =
                total.checked_add(nanos).filter(|n| nanos <= LIMIT && *n <= LIMIT).ok_or_else(overflow)?;
            rest = tail;
        }
        if negative {
            // LIMIT itself is the magnitude of i64::MIN.
            return Ok(Self(0_i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| overflow())
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn whole_number(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Digits that no longer fit are dropped, as Go does: they are below a nanosecond anyway.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1_f64);
    for digit in digits.bytes() {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        let longer = value * 10 + u64::from(digit - b'0');
        if longer > LIMIT {
            break;
        }
        value = longer;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn unit_nanos(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        // U+00B5 (micro sign) and U+03BC (Greek mu)
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    /// Go's `Duration.String`: `0s`, `1.5s`, `2m0s`, `300ms`, `2µs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = match nanos {
            0 => "0s".to_owned(),
            n if n < 1_000 => format!("{n}ns"),
            n if n < 1_000_000 => format!("{}µs", decimal(n, 3)),
            n if n < 1_000_000_000 => format!("{}ms", decimal(n, 6)),
            n => {
                let (minutes, below) = (n / 60_000_000_000, n % 60_000_000_000);
                let seconds = decimal(below, 9);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => format!("{seconds}s"),
                    (0, m) => format!("{m}m{seconds}s"),
                    (h, m) => format!("{h}h{m}m{seconds}s"),
                }
            }
        };
        f.pad(&format!("{sign}{text}"))
    }
}

/// `value / 10^digits` without trailing zeros.
fn decimal(value: u64, digits: u32) -> String {
    let unit = 10_u64.pow(digits);
    let fraction = format!("{:0width$}", value % unit, width = digits as usize);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{}{dot}{fraction}", value / unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// (text, nanoseconds) as Go's own documentation and tests give them.
    const GO: &[(&str, i64)] = &[
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("5s", 5_000_000_000),
        ("30s", 30_000_000_000),
        ("1478s", 1_478_000_000_000),
        ("-5s", -5_000_000_000),
        ("+5s", 5_000_000_000),
        ("5.0s", 5_000_000_000),
        ("5.6s", 5_600_000_000),
        ("5.s", 5_000_000_000),
        (".5s", 500_000_000),
        ("1.0s", 1_000_000_000),
        ("1.004s", 1_004_000_000),
        ("100.00100s", 100_001_000_000),
        ("10ns", 10),
        ("11us", 11_000),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("13ms", 13_000_000),
        ("15m", 900_000_000_000),
        ("16h", 57_600_000_000_000),
        ("3h30m", 12_600_000_000_000),
        ("10.5s4m", 250_500_000_000),
        ("-2m3.4s", -123_400_000_000),
        ("1h2m3s4ms5us6ns", 3_723_004_005_006),
        ("39h9m14.425s", 140_954_425_000_000),
        ("52763797000ns", 52_763_797_000),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("9007199254740993ns", 9_007_199_254_740_993),
        ("9223372036854775807ns", i64::MAX),
        ("9223372036854775.807us", i64::MAX),
        ("9223372036s854ms775us807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
        ("-9223372036854775.808us", i64::MIN),
        ("0.100000000000000000000h", 360_000_000_000),
        ("0.830103483285477580700h", 2_988_372_539_827),
        ("2m0s", 120_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("300ms", 300_000_000),
    ];

    #[test]
    fn durations_parse_as_in_go() {
        for (text, nanos) in GO {
            assert_eq!(text.parse(), Ok(GoDuration(*nanos)), "{text}");
        }
    }

    #[test]
    fn texts_that_go_refuses_are_refused() {
        let refused = [
            "",
            "3",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "10d",
            " 1s",
            "1s ",
            "1 s",
            "1e3s",
            "1S",
            "--1s",
            "9223372036854775810ns",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "9223372036854776us",
            "3000000h",
            "9223372036854ms775us808ns",
            "\u{660}s",
        ];
        for text in refused {
            assert!(text.parse::<GoDuration>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn durations_print_as_in_go() {
        let table = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (120_000_000_000, "2m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in table {
            assert_eq!(GoDuration(nanos).to_string(), text);
        }
    }

    #[test]
    fn a_negative_duration_is_not_a_wait() {
        let duration: GoDuration = "-1s".parse().unwrap();
        assert_eq!(duration.to_std().unwrap_err().to_string(), "-1s is negative");
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(nanos: i64) {
            prop_assert_eq!(GoDuration(nanos).to_string().parse(), Ok(GoDuration(nanos)));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn nearly_durations_never_panic(text in "[-+]?[0-9]{0,22}\\.?[0-9]{0,22}(ns|us|µs|ms|s|m|h|x)?[0-9.hms]{0,6}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
