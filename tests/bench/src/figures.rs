//! Measured numbers with units and limits.

use std::time::Duration;

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Duration in milliseconds (fractional).
    Millis,
    /// Number of events per second.
    PerSecond,
    /// Size in megabytes (10⁶ bytes).
    Megabytes,
    /// Multiple of the floor.
    Times,
    /// Share of a total, in percent.
    Percent,
    /// Plain count without a unit.
    Count,
}

/// Limit that a number should stay within.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One measured number with its limit.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Distinguishes several numbers in the same row, such as `median`.
    pub(crate) label: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// Limit of the number, or `None` if there is no requirement.
    pub(crate) limit: Option<Limit>,
}

impl Figure {
    pub(crate) fn millis(label: &'static str, time: f64) -> Self {
        Self { label, value: time, unit: Unit::Millis, limit: None }
    }

    pub(crate) fn per_second(label: &'static str, rate: f64) -> Self {
        Self { label, value: rate, unit: Unit::PerSecond, limit: None }
    }

    pub(crate) fn megabytes(label: &'static str, bytes: u64) -> Self {
        Self { label, value: as_f64(bytes) / 1e6, unit: Unit::Megabytes, limit: None }
    }

    pub(crate) fn times(label: &'static str, ratio: f64) -> Self {
        Self { label, value: ratio, unit: Unit::Times, limit: None }
    }

    pub(crate) fn percent(label: &'static str, part: f64) -> Self {
        Self { label, value: part, unit: Unit::Percent, limit: None }
    }

    pub(crate) fn count(label: &'static str, number: f64) -> Self {
        Self { label, value: number, unit: Unit::Count, limit: None }
    }

    pub(crate) fn at_most(self, limit: f64) -> Self {
        Self { limit: Some(Limit::AtMost(limit)), ..self }
    }

    pub(crate) fn at_least(self, limit: f64) -> Self {
        Self { limit: Some(Limit::AtLeast(limit)), ..self }
    }

    /// Returns true if the number is within its limit, or `None` if it has no limit.
    pub(crate) fn met(&self) -> Option<bool> {
        self.limit.map(|limit| match limit {
            Limit::AtMost(max) => self.value <= max,
            Limit::AtLeast(least) => self.value >= least,
        })
    }

    pub(crate) fn shown(&self) -> String {
        labelled(number(self.value, self.unit), self.label)
    }

    pub(crate) fn target(&self) -> Option<String> {
        let (sign, limit) = match self.limit? {
            Limit::AtMost(limit) => ('≤', limit),
            Limit::AtLeast(limit) => ('≥', limit),
        };
        Some(format!("{sign} {}", labelled(round(limit, self.unit), self.label)))
    }
}

fn labelled(number: String, label: &str) -> String {
    if label.is_empty() { number } else { format!("{number} {label}") }
}

fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Millis if value.abs() < 10.0 => format!("{value:.2} ms"),
        Unit::Millis => format!("{value:.1} ms"),
        Unit::PerSecond if value.abs() < 10.0 => format!("{value:.2}/s"),
        Unit::PerSecond => format!("{}/s", thousands(value)),
        Unit::Megabytes => format!("{value:.1} MB"),
        Unit::Times => format!("{value:.2}×"),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Count => format!("{value:.0}"),
    }
}

fn round(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Millis => format!("{value} ms"),
        Unit::PerSecond => format!("{}/s", thousands(value)),
        Unit::Megabytes => format!("{value} MB"),
        Unit::Times => format!("{value}×"),
        Unit::Percent => format!("{value} %"),
        Unit::Count => format!("{value}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Repeated measurements of the same operation, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(millis(time));
    }

    /// Adds the difference between two times, which may be negative because of noise.
    pub(crate) fn add_difference(&mut self, whole: Duration, floor: Duration) {
        self.0.push(millis(whole) - millis(floor));
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// Returns the smallest sample that at least `percent` of all samples do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(rank).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the number of events per second.
pub(crate) fn rate(count: u64, time: Duration) -> f64 {
    as_f64(count) / time.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "figures for display, far below 2^52")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let mut samples = Samples::default();
        for number in (1..=200).rev() {
            samples.add(Duration::from_millis(number));
        }
        assert_eq!((samples.median(), samples.percentile(99)), (100.0, 198.0));
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn figures_show_their_limits() {
        let check = |figure: Figure, shown: &str, target: Option<&str>, met: Option<bool>| {
            assert_eq!((figure.shown(), figure.target().as_deref(), figure.met()), (shown.to_owned(), target, met));
        };
        check(Figure::millis("median", 0.5).at_most(1.0), "0.50 ms median", Some("≤ 1 ms median"), Some(true));
        check(Figure::per_second("", 1_234_567.4).at_least(2e6), "1,234,567/s", Some("≥ 2,000,000/s"), Some(false));
        check(Figure::megabytes("idle", 25_040_000), "25.0 MB idle", None, None);
        check(Figure::times("", f64::NAN).at_most(2.0), "NaN×", Some("≤ 2×"), Some(false));
    }
}
