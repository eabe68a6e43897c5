//! Lines of a text beside an earlier one.

use std::time::Duration;

use similar::{ChangeTag, TextDiffConfig};

/// Time limit for comparing. From then on it is coarser.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedLine {
    /// Set if the earlier text does not have it there.
    pub is_new: bool,
    /// The line, without its end.
    pub text: String,
}

/// The lines of `now`, with those marked that `before` does not have.
#[must_use]
pub fn marked(before: &str, now: &str) -> Vec<MarkedLine> {
    let mut config = TextDiffConfig::default();
    let compared = config.timeout(PATIENCE).diff_lines(before, now);
    let lines = compared.iter_all_changes().filter(|change| change.tag() != ChangeTag::Delete);
    let text = |text: &str| text.trim_end_matches(['\r', '\n']).to_owned();
    let line = |is_new, value| MarkedLine { is_new, text: text(value) };
    lines.map(|change| line(change.tag() == ChangeTag::Insert, change.value())).collect()
}

/// The difference of two texts with these names, as a unified diff; empty where there is none.
#[must_use]
pub fn unified(names: (&str, &str), before: &str, now: &str) -> String {
    let mut config = TextDiffConfig::default();
    config.timeout(PATIENCE).diff_lines(before, now).unified_diff().header(names.0, names.1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_are_marked_and_gone_ones_left_out() {
        let lines = marked("a\nb\nc\n", "a\nx\nc\nd\n");
        let lines: Vec<(bool, &str)> = lines.iter().map(|line| (line.is_new, line.text.as_str())).collect();
        assert_eq!(lines, [(false, "a"), (true, "x"), (false, "c"), (true, "d")]);
        assert_eq!(marked("", "a\n"), [MarkedLine { is_new: true, text: "a".to_owned() }]);
        let diff = unified(("request 1", "request 2"), "a\nb\n", "a\nc\n");
        assert_eq!(diff, "--- request 1\n+++ request 2\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert_eq!(unified(("1", "2"), "a\n", "a\n"), "");
    }
}
