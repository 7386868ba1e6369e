// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Numbers out of numbers: medians and quantiles. Knows no unit and passes no verdict.

/// The value below which this share (0 to 1) of the values lie, between neighbours by proportion; NaN of nothing.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor();
    let (low, high) = (sorted[below as usize], sorted[(below as usize + 1).min(last)]);
    low + (high - low) * (place - below)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub(crate) fn least(values: &[f64]) -> f64 {
    quantile(values, 0.0)
}

pub(crate) fn most(values: &[f64]) -> f64 {
    quantile(values, 1.0)
}

/// By how much `y` grows with one more of `x`: least squares. NaN for fewer than two points.
pub(crate) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let over =
        |term: fn(f64, f64) -> f64| -> f64 { points.iter().map(|(x, y)| term(x - mean_x, y - mean_y)).sum() };
    over(|x, y| x * y) / over(|x, _| x * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((median(&values), least(&values), most(&values)), (2.5, 1.0, 4.0));
        assert_eq!(quantile(&values, 0.25), 1.75);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_slope_is_found_through_noise_that_cancels() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), 2.0);
        assert!(slope(&[(1.0, 1.0)]).is_nan());
    }
}
