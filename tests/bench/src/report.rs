//! The report, as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::figures::{Figure, Limit, Unit};

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) measured: Vec<Figure>,
    /// Best value that the host can reach, or the value with which the figure is compared.
    pub(crate) floor: Option<Figure>,
    /// Measured value divided by the floor.
    pub(crate) ratio: Option<f64>,
    /// Remark, or the error if nothing was measured.
    pub(crate) note: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, measured: Vec<Figure>) -> Self {
        Self { what: what.into(), measured, floor: None, ratio: None, note: String::new() }
    }

    /// Compares the first figure with a floor.
    pub(crate) fn over(self, floor: Figure) -> Self {
        let first = self.measured.first().map_or(f64::NAN, |figure| figure.value);
        Self { ratio: Some(first / floor.value), floor: Some(floor), ..self }
    }

    /// Sets the ratio explicitly if it is not that of the first figure to the floor.
    pub(crate) fn with_ratio(self, ratio: f64) -> Self {
        Self { ratio: Some(ratio), ..self }
    }

    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Creates a row for a failed measurement.
    pub(crate) fn broken(what: impl Into<String>, reason: String) -> Self {
        Self::new(what, Vec::new()).with_note(reason)
    }

    fn met(&self) -> Option<bool> {
        if self.measured.is_empty() {
            return Some(false);
        }
        self.measured.iter().filter_map(Figure::met).reduce(|all, one| all && one)
    }

    fn cells(&self) -> [String; 6] {
        let joined = |parts: Vec<String>| if parts.is_empty() { "–".to_owned() } else { parts.join(", ") };
        [
            self.what.clone(),
            joined(self.measured.iter().map(Figure::shown).collect()),
            self.floor.as_ref().map_or("–".to_owned(), Figure::shown),
            self.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}×")),
            joined(self.measured.iter().filter_map(Figure::target).collect()),
            self.met().map_or("–", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]
    }
}

const HEADS: [&str; 6] = ["what", "measured", "floor", "ratio", "target", "met"];

/// Formats the table, with the host above and the remarks below.
pub(crate) fn table(rows: &[Row], before: &Machine) -> String {
    let mut lines = vec![HEADS.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = format!("{}\n\n", before.sentence());
    for (number, cells) in lines.iter().enumerate() {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", padded.collect::<Vec<_>>().join("  ").trim_end());
        if number == 0 {
            let _ = writeln!(text, "{}", widths.map(|width| "-".repeat(width)).join("  "));
        }
    }
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        let _ = write!(text, "\n{}: {}", row.what, row.note);
    }
    text.trim_end().to_owned() + "\n"
}

/// Formats the report as JSON, for scripts.
pub(crate) fn json(rows: &[Row], before: &Machine) -> String {
    let figure = |figure: &Figure| {
        let unit = match figure.unit {
            Unit::Millis => "ms",
            Unit::PerSecond => "per_second",
            Unit::Megabytes => "MB",
            Unit::Times => "times",
            Unit::Percent => "percent",
            Unit::Count => "count",
        };
        let (at_most, at_least) = match figure.limit {
            Some(Limit::AtMost(limit)) => (Some(limit), None),
            Some(Limit::AtLeast(limit)) => (None, Some(limit)),
            None => (None, None),
        };
        json!({
            "label": figure.label, "value": figure.value, "unit": unit,
            "at_most": at_most, "at_least": at_least, "met": figure.met(),
        })
    };
    let row = |row: &Row| {
        json!({
            "what": row.what, "measured": row.measured.iter().map(figure).collect::<Vec<Value>>(),
            "floor": row.floor.as_ref().map(figure), "ratio": row.ratio, "met": row.met(), "note": row.note,
        })
    };
    let after = machine();
    let machine = json!({
        "processor": before.processor, "cores": before.cores,
        "load_before": before.load, "load_after": after.load,
    });
    json!({"machine": machine, "rows": rows.iter().map(row).collect::<Vec<Value>>()}).to_string() + "\n"
}

/// Description of the measured host. Unavailable facts have placeholders.
#[derive(Debug)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    /// Average number of runnable processes over the last minute.
    load: String,
}

impl Machine {
    fn sentence(&self) -> String {
        let after = machine().load;
        format!("{}, {} cores; load {} before and {after} after the run", self.processor, self.cores, self.load)
    }
}

pub(crate) fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Machine {
        processor: model.map_or("unknown processor", |(_, name)| name).trim().to_owned(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        load: read("/proc/loadavg").split(' ').next().unwrap_or("?").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_columns_are_aligned_and_failures_shown() {
        let rows = [
            Row::new("a", vec![Figure::millis("median", 2.0).at_most(1.0), Figure::millis("p99", 3.0)])
                .over(Figure::millis("", 0.5)),
            Row::broken("longer", "the daemon is not there".to_owned()),
        ];
        let machine = Machine { processor: "P".to_owned(), cores: 2, load: "1".to_owned() };
        let table = table(&rows, &machine);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(lines[2], "a       2.00 ms median, 3.00 ms p99  0.50 ms  4.00×  ≤ 1 ms median  NO");
        assert_eq!(lines[3], "longer  –                            –        –      –              NO");
        assert_eq!(lines[5], "longer: the daemon is not there");
        let json: Value = serde_json::from_str(&super::json(&rows, &machine)).unwrap();
        assert_eq!(json["rows"][0]["ratio"], 4.0);
        assert_eq!(json["rows"][0]["measured"][0]["at_most"], 1.0);
        assert_eq!(json["rows"][1]["met"], false);
    }
}
