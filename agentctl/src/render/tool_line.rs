//! A tool call in one quiet line: name, main argument, what came of it, how long it took.

use agentd_core::{
    tool::{FileChangeKind, ToolCall, ToolResult},
    visible,
};
use serde_json::Value;

use crate::terminal::{
    look::TerminalStyle,
    paint::{BAD, GOOD, QUIET, STRONG, clip, duration, number, paint, width},
    sanitize::clean_line,
};

/// The arguments that say best what a call is about, in order.
const MAIN_ARGUMENTS: [&str; 9] =
    ["path", "file_path", "command", "pattern", "query", "question", "url", "glob", "name"];

/// Main argument of a call on one line, with every character visible.
pub(crate) fn main_argument(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(args) => argument_of(&args),
        Err(_) => visible::line(arguments),
    }
}

/// As [`main_argument`], for arguments that were read already.
pub(crate) fn argument_of(args: &Value) -> String {
    visible::line(&main_text(args))
}

/// The main argument as it is.
pub(crate) fn main_text(args: &Value) -> String {
    let Value::Object(fields) = args else { return args.as_str().unwrap_or_default().to_owned() };
    let main = MAIN_ARGUMENTS.iter().filter_map(|name| fields.get(*name)).find_map(Value::as_str);
    main.or_else(|| fields.values().find_map(Value::as_str)).unwrap_or_default().to_owned()
}

/// Main argument of a call that ran, and the model's own where a person has changed it.
pub(crate) fn about(call: Option<&ToolCall>, result: &ToolResult) -> String {
    let called = call.map(|call| main_argument(&call.arguments));
    match (&result.ran_with, called) {
        (None, called) => called.unwrap_or_default(),
        (Some(ran), None) => format!("(edited) {}", main_argument(ran)),
        (Some(ran), Some(called)) => format!("(edited) {} (was {called})", main_argument(ran)),
    }
}

/// The lines of a command's output that are shown where it ran well.
const TOLD_OF_SUCCESS: usize = 3;
/// The lines of a command's output that are shown where it failed.
const TOLD_OF_FAILURE: usize = 4;

/// The lines of a call that has ended: one that says what came of it, and of a command that failed the last ones that it
/// wrote. `columns` bounds their width.
pub(crate) fn tool_lines(call: Option<&ToolCall>, result: &ToolResult, columns: usize, color: bool) -> Vec<String> {
    let mut lines = vec![tool_line(call, result, columns, color)];
    if failed(result) {
        let output = Output::of(&result.text);
        let rows = output.last().iter().rev().take(TOLD_OF_FAILURE).rev();
        lines.extend(rows.map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    lines
}

/// The same with the first lines of a command that ran well, for a person who watches.
pub(crate) fn watched_lines(call: Option<&ToolCall>, result: &ToolResult, look: TerminalStyle) -> Vec<String> {
    let (columns, color) = (look.columns(), look.err_color);
    let mut lines = tool_lines(call, result, columns, color);
    if look.err_terminal && result.exit_code.is_some() && !failed(result) && result.files.is_empty() {
        let rows = Output::of(&result.text).first_rows();
        lines.extend(rows.iter().map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    lines
}

/// The first of them.
fn tool_line(call: Option<&ToolCall>, result: &ToolResult, columns: usize, color: bool) -> String {
    let name = clean_line(&result.name);
    let argument = about(call, result);
    let outcome = summary(result);
    let took = duration(result.duration_ms);
    let failed = failed(result);
    let (sign, sign_style) = if failed { ("✗", BAD) } else { ("●", GOOD) };
    // The sign, the arrow, the dot and the spaces between.
    let room = columns.saturating_sub(width(&name) + width(&took) + 10);
    let outcome_room = if argument.is_empty() { room } else { room - (room / 2).min(width(&argument)) };
    let outcome = clip(&outcome, outcome_room.max(8));
    let argument = clip(&argument, room.saturating_sub(width(&outcome)).max(8));
    let argument = if argument.is_empty() { argument } else { format!(" {argument}") };
    let outcome_style = if failed { BAD } else { QUIET };
    format!(
        "{} {}{} {} {} {}",
        paint(color, sign_style, sign),
        paint(color, STRONG, &name),
        paint(color, QUIET, &argument),
        paint(color, QUIET, "→"),
        paint(color, outcome_style, &outcome),
        paint(color, QUIET, &format!("· {took}")),
    )
}

/// True if a call failed, or the command that it ran did.
fn failed(result: &ToolResult) -> bool {
    result.error.is_some() || result.exit_code.is_some_and(|code| code != 0)
}

/// Result of a call, in a few words.
fn summary(result: &ToolResult) -> String {
    let text = result.text.trim();
    let first = clean_line(text.lines().next().unwrap_or_default());
    if let Some(error) = result.error {
        // What follows is for the model.
        let first = first.split(". Do not try the same again").next().unwrap_or_default();
        return if first.is_empty() { error.as_str().to_owned() } else { without_code(first, error.as_str()) };
    }
    match result.exit_code {
        Some(code @ 129..) => return format!("exit {code}, ended by signal {}", code - 128),
        Some(code) if code != 0 => return format!("exit {code}"),
        _ => {}
    }
    match result.files.as_slice() {
        [] => {}
        [file] => return format!("{} {}", done(file.change), clean_line(&file.path)),
        files => return format!("changed {} files", files.len()),
    }
    if result.exit_code.is_some() {
        return Output::of(text).told();
    }
    match text.lines().count() {
        0 => "done".to_owned(),
        1 => first,
        lines => format!("{} lines", number(lines as u64)),
    }
}

/// The output of a command, as far as its result tells it.
struct Output {
    /// The lines of all of it, those that were left out where it is said how many.
    lines: u64,
    /// Lines that are not empty, of its standard output.
    out: Vec<String>,
    /// Lines that are not empty, of its standard error.
    err: Vec<String>,
}

impl Output {
    /// Reads the text of a result: what is said of the command, and then each stream below its name.
    fn of(text: &str) -> Self {
        let mut output = Self { lines: 0, out: Vec::new(), err: Vec::new() };
        let mut is_err = false;
        let rest = text.lines().skip_while(|line| !matches!(*line, "stdout:" | "stderr:"));
        for line in rest {
            match line {
                "stdout:" => is_err = false,
                "stderr:" => is_err = true,
                line => {
                    output.lines += left_out(line).unwrap_or(1);
                    let row = Some(clean_line(line)).filter(|row| !row.is_empty());
                    if is_err { &mut output.err } else { &mut output.out }.extend(row);
                }
            }
        }
        output
    }

    /// Lines of its standard error where it wrote there.
    fn last(&self) -> &[String] {
        if self.err.is_empty() { &self.out } else { &self.err }
    }

    /// Its first lines, and the number of the others. One alone stands in the line of its call.
    fn first_rows(&self) -> Vec<String> {
        if self.lines <= 1 {
            return Vec::new();
        }
        let mut rows: Vec<String> = self.out.iter().chain(&self.err).take(TOLD_OF_SUCCESS).cloned().collect();
        let more = self.lines.saturating_sub(rows.len() as u64);
        if more > 0 {
            rows.push(format!("… {} more {}", number(more), if more == 1 { "line" } else { "lines" }));
        }
        rows
    }

    /// In a few words.
    fn told(&self) -> String {
        match (self.lines, self.last()) {
            (0, _) => "no output".to_owned(),
            (1, [line]) => line.clone(),
            (1, _) => "1 line".to_owned(),
            (lines, _) => format!("{} lines", number(lines)),
        }
    }
}

/// The number of lines for which a note stands, such as `[… 1,234 lines left out, 5 to 1238 …]`.
fn left_out(line: &str) -> Option<u64> {
    let note = line.strip_prefix("[… ")?;
    let (count, _) = note.split_once(" lines left out")?;
    count.replace(',', "").parse().ok()
}

/// A message without the code that models are told with it: people read the words.
fn without_code(message: &str, code: &str) -> String {
    let words = message.strip_prefix(code).map(|rest| rest.trim_start_matches([':', ' ']));
    words.filter(|words| !words.is_empty()).unwrap_or(message).to_owned()
}

fn done(change: FileChangeKind) -> &'static str {
    match change {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "changed",
        FileChangeKind::Deleted => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::CallId,
        tool::{FileChange, ToolErrorCode},
    };

    use super::*;

    fn line(arguments: &str, result: ToolResult, columns: usize) -> String {
        let call = ToolCall { call_id: result.call_id.clone(), name: result.name.clone(), arguments: arguments.into() };
        tool_line(Some(&call), &result, columns, false)
    }

    fn result(name: &str, text: &str) -> ToolResult {
        ToolResult { text: text.into(), duration_ms: 12, ..ToolResult::empty(CallId::from("call_1".to_owned()), name) }
    }

    #[test]
    fn a_line_says_what_was_done_and_what_came_of_it() {
        assert_eq!(line("{}", result("now", "12:00"), 80), "● now → 12:00 · 12 ms");
        assert_eq!(
            line(r#"{"path":"a.txt"}"#, result("read_file", "a\nb\n"), 80),
            "● read_file a.txt → 2 lines · 12 ms"
        );
        assert_eq!(line("{broken", result("read_file", ""), 80), "● read_file {broken → done · 12 ms");
        let files = vec![FileChange::new("a.txt", FileChangeKind::Created)];
        let written = ToolResult { files, ..result("write_file", "wrote 3 bytes") };
        assert_eq!(
            line(r#"{"content":"x","path":"a.txt"}"#, written, 80),
            "● write_file a.txt → created a.txt · 12 ms"
        );
        let failed = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "no such file\nmore") };
        let shown = line(r#"{"path":"a\u001b[2J"}"#, failed, 80);
        assert_eq!(shown, r"✗ read_file a\u{1b}[2J → no such file · 12 ms");
        let coded = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "E_PATH: no such file") };
        assert_eq!(line("{}", coded, 80), "✗ read_file → no such file · 12 ms");
        let bare = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "") };
        assert_eq!(line("{}", bare, 80), "✗ read_file → E_PATH · 12 ms");
    }

    #[test]
    fn an_edited_call_is_shown_as_it_ran() {
        let edited = |ran_with: &str| ToolResult { ran_with: Some(ran_with.to_owned()), ..result("act", "done") };
        assert_eq!(
            line(r#"{"command":"rm x"}"#, edited(r#"{"command":"ls"}"#), 80),
            "● act (edited) ls (was rm x) → done · 12 ms"
        );
        assert_eq!(about(None, &edited(r#"{"command":"ls"}"#)), "(edited) ls");
    }

    #[test]
    fn a_command_that_failed_is_red_and_shows_its_last_words() {
        let ran = |code, text: &str| ToolResult { exit_code: Some(code), ..result("run_bash_command", text) };
        let shown = |result: &ToolResult| tool_lines(None, result, 80, false).join("\n");
        let failed = ran(2, "exit code 2 after 0.0 s\nstdout:\nout\nstderr:\n1\n2\n\n3\n4\u{1b}[2J\n5");
        assert_eq!(shown(&failed), "✗ run_bash_command → exit 2 · 12 ms\n  2\n  3\n  4\n  5");
        let quiet = ran(1, "exit code 1 after 0.0 s\n[no output]");
        assert_eq!(shown(&quiet), "✗ run_bash_command → exit 1 · 12 ms");
        let killed = ran(137, "ended by signal 9 after 1.0 s\nstdout:\nhalf");
        assert_eq!(shown(&killed), "✗ run_bash_command → exit 137, ended by signal 9 · 12 ms\n  half");
        let late = "ended at its limit of 1 s, with all its children\nstdout:\ntick 1\ntick 2";
        let late = ToolResult { error: Some(ToolErrorCode::Timeout), ..result("run_bash_command", late) };
        let expected =
            "✗ run_bash_command → ended at its limit of 1 s, with all its children · 12 ms\n  tick 1\n  tick 2";
        assert_eq!(shown(&late), expected);
        assert!(tool_lines(None, &failed, 80, true)[0].starts_with("\u{1b}[31m✗"));
    }

    #[test]
    fn a_command_that_ran_well_tells_how_much_it_wrote() {
        let ran = |text: &str| ToolResult { exit_code: Some(0), ..result("run_bash_command", text) };
        assert_eq!(
            line("{}", ran("exit code 0 after 0.0 s\n[no output]"), 80),
            "● run_bash_command → no output · 12 ms"
        );
        let one = ran("exit code 0 after 0.0 s\nstdout:\n5.15");
        assert_eq!(line("{}", one, 80), "● run_bash_command → 5.15 · 12 ms");
        let look = TerminalStyle {
            err_terminal: true,
            out_terminal: true,
            out_color: false,
            err_color: false,
            size: || (40, 24),
        };
        let rows = |text: &str| watched_lines(None, &ran(text), look).split_off(1);
        assert_eq!(rows("exit code 0 after 0.0 s\nstdout:\n5.15"), [""; 0]);
        let five = "exit code 0 after 0.0 s\nstdout:\na\n\u{1b}[2Jb\n\nc\nstderr:\nhm";
        assert_eq!(rows(five), ["  a", "  b", "  c", "  … 2 more lines"]);
        assert!(rows(&format!("exit code 0\nstdout:\n{}\nb", "long ".repeat(50))).iter().all(|row| width(row) < 40));
        let piped = TerminalStyle { err_terminal: false, ..look };
        assert_eq!(watched_lines(None, &ran(five), piped).len(), 1);
        let more = ran("exit code 0 after 0.0 s\nstdout:\na\n[… 4,917 lines left out, 2 to 4918 …]\nz\nstderr:\nhm");
        assert_eq!(line("{}", more, 80), "● run_bash_command → 4,920 lines · 12 ms");
    }

    #[test]
    fn a_line_is_one_line() {
        let command = format!(r#"{{"command":"echo {}\nrm -rf x"}}"#, "漢字".repeat(50));
        let line = line(&command, result("run_bash_command", &"word ".repeat(50)), 60);
        assert!(width(&line) <= 60, "{line}");
        assert!(!line.contains('\n'));
    }
}
