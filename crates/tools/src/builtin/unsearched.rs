//! Files that a search left out, wholly or in part, in one line with the reasons.

use std::collections::BTreeMap;

use agentd_workspace::{text, walk::UnreadEntries};

/// Files that were not, or not wholly, searched, by reason.
#[derive(Debug, Default)]
pub(super) struct UnsearchedFiles(BTreeMap<&'static str, usize>);

impl UnsearchedFiles {
    pub(super) fn add(&mut self, reason: &'static str) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// The line, without its end; none where all was searched.
    pub(super) fn line(mut self, left: &UnreadEntries) -> Option<String> {
        if left.unreadable > 0 {
            *self.0.entry("unreadable").or_default() += left.unreadable;
        }
        let mut parts: Vec<String> =
            self.0.iter().map(|(reason, count)| format!("{} ({reason})", text::count(*count, "file"))).collect();
        if left.hidden > 0 {
            let more = left.hidden - left.hidden_names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            parts.push(format!(
                "hidden {}{more} (a call that names one as path searches it)",
                left.hidden_names.join(", ")
            ));
        }
        (!parts.is_empty()).then(|| format!("[not, or not wholly, searched: {}]", parts.join(", ")))
    }
}
