//! Successful reads in a row by the same tool, which share one line. The line is printed when something else happens.

use agentd_core::{
    tool::{ToolCall, ToolResult},
    tool_table::ToolKind,
};

use super::{
    subject::{file_and_lines, kind},
    tool_line::{CallTitle, about, failed, fits, line_count, summary, tool_line},
};
use crate::terminal::paint::{duration, number};

/// One or several reads in a row by the same tool.
#[derive(Debug)]
pub(super) struct FoldedReads {
    pub(super) tool: String,
    /// Title with the subjects of all calls. The file of equal neighbours is named once.
    pub(super) title: CallTitle,
    /// Subject of the last call.
    last: String,
    calls: u64,
    lines: u64,
    outcome: String,
    /// Duration of a single call, or the number of calls.
    took: String,
}

impl FoldedReads {
    /// Returns the read of a result. `None` if the call failed or was not a read.
    pub(super) fn of(call: Option<&ToolCall>, result: &ToolResult) -> Option<Self> {
        let is_read = matches!(kind(&result.name), ToolKind::Look | ToolKind::Search);
        let is_plain = result.files.is_empty() && result.ran_with.is_none() && !failed(result);
        (is_read && is_plain).then(|| {
            let title = about(call, result);
            Self {
                tool: result.name.clone(),
                last: title.subject.clone(),
                calls: 1,
                lines: line_count(result.own_text()),
                outcome: summary(result, &title.subject),
                took: duration(result.duration_ms),
                title,
            }
        })
    }

    /// Adds the next read. Returns false if its line would be another one, or would not fit into `columns`.
    pub(super) fn join(&mut self, next: &Self, columns: usize) -> bool {
        let subject = match (file_and_lines(&self.last), file_and_lines(&next.last)) {
            _ if self.last == next.last => self.title.subject.clone(),
            (Some((last, _)), Some((file, lines))) if last == file => format!("{}, {lines}", self.title.subject),
            _ => format!("{}, {}", self.title.subject, next.last),
        };
        let title = CallTitle { name: self.title.name.clone(), subject };
        let (calls, lines) = (self.calls + 1, self.lines + next.lines);
        let outcome = format!("{} {}", number(lines), if lines == 1 { "line" } else { "lines" });
        let took = format!("{} calls", number(calls));
        if self.tool != next.tool || !fits(&title, &outcome, &took, columns) {
            return false;
        }
        *self = Self { tool: next.tool.clone(), title, last: next.last.clone(), calls, lines, outcome, took };
        true
    }

    /// Returns the line of all calls.
    pub(super) fn line(&self, columns: usize, color: bool) -> String {
        tool_line(&self.title, &self.outcome, &self.took, false, columns, color)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::CallId,
        tool::{FileChange, FileChangeKind, ToolErrorCode},
    };
    use serde_json::{Value, json};

    use super::*;

    fn result(tool: &str, text: &str) -> ToolResult {
        ToolResult { text: text.into(), duration_ms: 12, ..ToolResult::empty(CallId::from("a".to_owned()), tool) }
    }

    /// Returns the lines of these reads: tool, arguments, and number of lines.
    fn lines(reads: &[(&str, Value, usize)], columns: usize) -> Vec<String> {
        let mut folded: Vec<FoldedReads> = Vec::new();
        for (tool, args, lines) in reads {
            let result = result(tool, &"x\n".repeat(*lines));
            let (call_id, name) = (result.call_id.clone(), result.name.clone());
            let call = ToolCall { call_id, name, arguments: args.to_string() };
            let read = FoldedReads::of(Some(&call), &result).unwrap();
            if !folded.last_mut().is_some_and(|last| last.join(&read, columns)) {
                folded.push(read);
            }
        }
        folded.iter().map(|reads| reads.line(columns, false)).collect()
    }

    fn part(path: &str, offset: u64) -> (&'static str, Value, usize) {
        ("read_file", json!({"path": path, "offset": offset, "limit": 40}), 40)
    }

    #[test]
    fn equal_neighbours_share_a_line() {
        let check = |reads: &[(&str, Value, usize)], expected: &[&str]| assert_eq!(lines(reads, 80), expected);
        check(&[part("core.py", 1)], &["● read_file core.py:1-40 → 40 lines · 12 ms"]);
        let parts = [part("core.py", 1), part("core.py", 41), part("core.py", 81)];
        check(&parts, &["● read_file core.py:1-40, 41-80, 81-120 → 120 lines · 3 calls"]);
        let files = [part("a.py", 1), part("b.py", 1), part("b.py", 41), part("a.py", 41)];
        check(&files, &["● read_file a.py:1-40, b.py:1-40, 41-80, a.py:41-80 → 160 lines · 4 calls"]);
        let same = [part("a.py", 1), part("a.py", 1), ("read_file", json!({"path": "a.py"}), 1)];
        check(&same, &["● read_file a.py:1-40, a.py → 81 lines · 3 calls"]);
        let grep = |pattern: &str| ("grep", json!({"pattern": pattern, "path": "src"}), 0);
        check(&[grep("a"), grep("b")], &["● grep \"a\" in src, \"b\" in src → 0 lines · 2 calls"]);
        let mixed = [grep("a"), part("a.py", 1), grep("a")];
        assert_eq!(lines(&mixed, 80).len(), 3);
        check(&[("repo_map", json!({}), 2), ("repo_map", json!({}), 1)], &["● repo_map → 3 lines · 2 calls"]);
    }

    #[test]
    fn line_that_is_full_is_followed_by_another() {
        let many: Vec<_> = (0..9).map(|number| part("漢字.py", number * 40 + 1)).collect();
        let shown = lines(&many, 60);
        assert_eq!(shown[0], "● read_file 漢字.py:1-40, 41-80 → 80 lines · 2 calls");
        assert!(shown.iter().all(|line| crate::terminal::paint::width(line) <= 60), "{shown:#?}");
        let all = shown.join("\n");
        assert!((0..9).all(|number| all.contains(&format!("{}-{}", number * 40 + 1, number * 40 + 40))), "{all}");
    }

    #[test]
    fn only_successful_reads_are_folded() {
        let check = |result: ToolResult, expected: bool| {
            assert_eq!(FoldedReads::of(None, &result).is_some(), expected, "{result:?}");
        };
        check(result("read_file", "x"), true);
        check(result("search_history", "x"), true);
        check(result("cat", "x"), true);
        check(ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "x") }, false);
        check(ToolResult { ran_with: Some("{}".into()), ..result("grep", "x") }, false);
        let files = vec![FileChange::new("a", FileChangeKind::Created)];
        check(ToolResult { files, ..result("grep", "x") }, false);
        check(result("write_file", "x"), false);
        check(result("run_bash_command", "x"), false);
        check(result("mcp_x_read", "x"), false);
    }
}
