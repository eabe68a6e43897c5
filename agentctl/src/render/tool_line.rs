//! A tool call in one quiet line: name, subject, outcome and duration. Below it, the reason of a failure, the end or
//! the start of a command's output, and the changes of files.

use agentd_core::{
    tool::{FileChange, FileChangeKind, PrintedText, ToolCall, ToolErrorCode, ToolResult},
    tool_table::ToolKind,
    visible,
};
use serde_json::Value;

use super::{
    diff,
    subject::{PATCH, file_and_lines, kind, subject},
};
use crate::terminal::{
    look::TerminalStyle,
    paint::{BAD, GOOD, QUIET, STRONG, clip, duration, fold, number, paint, tail, width},
    sanitize::clean_line,
};

pub(crate) use super::subject::main_text;

/// Name of the tool that runs commands.
const SHELL: &str = "run_bash_command";
/// Name before the command of a call.
const COMMAND_PROMPT: &str = "$";
/// Name of the tool that delegates a task to a subagent.
pub(crate) const DELEGATE: &str = "delegate_task";

/// End of a refusal, which is meant for the model.
const ADVICE: &str = ". Do not try the same again; ask, or go another way";

/// Name and subject of a call, for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallTitle {
    /// Name of the tool, or the prompt before a command.
    pub(crate) name: String,
    /// Main argument with every character visible.
    pub(crate) subject: String,
}

impl CallTitle {
    fn of(tool: &str, subject: String) -> Self {
        let is_command = tool == SHELL && !subject.is_empty();
        Self { name: if is_command { COMMAND_PROMPT.to_owned() } else { clean_line(tool) }, subject }
    }

    /// Returns name and subject in one line.
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.name, self.subject).trim().to_owned()
    }
}

/// Returns a call in one line: a command with its prompt, a patch with its files, and other calls with their name and
/// main argument.
pub(crate) fn call_line(tool: &str, args: &Value) -> String {
    CallTitle::of(tool, subject(tool, args)).shown()
}

/// Returns the title of a call that ran. If the user edited the call, the model's arguments follow.
pub(crate) fn about(call: Option<&ToolCall>, result: &ToolResult) -> CallTitle {
    let tool = result.name.as_str();
    let of = |arguments: &str| match serde_json::from_str::<Value>(arguments) {
        Ok(args) => subject(tool, &args),
        Err(_) => visible::line(arguments),
    };
    let called = call.map(|call| of(&call.arguments));
    let Some(ran) = result.ran_with.as_deref().map(of) else {
        return CallTitle::of(tool, called.unwrap_or_default());
    };
    let was = called.map(|called| format!(" (was {called})")).unwrap_or_default();
    CallTitle { subject: format!("(edited) {ran}{was}"), ..CallTitle::of(tool, ran) }
}

/// Maximum number of lines of a successful command's output.
const SUCCESS_LINES: usize = 3;
/// Maximum number of lines of a failure's reason, and of each stream of a failed command.
const FAILURE_LINES: usize = 4;
const LAST_OF_STREAM: usize = 3;

/// Number of changed files that are named below the line of their call.
const NAMED_FILES: usize = 5;

/// Number of columns of the sign, the arrow, the dot and the spaces between them.
const FRAME: usize = 10;
/// Columns of an outcome that are not clipped if the subject can be clipped instead.
const SHORT_OUTCOME: usize = 16;
/// Minimum number of columns of a subject.
const LEAST_SUBJECT: usize = 8;

/// Returns the lines of a call that has ended, at most `columns` wide: its outcome, and for a failed command the last
/// lines of its output.
pub(crate) fn tool_lines(call: Option<&ToolCall>, result: &ToolResult, columns: usize, color: bool) -> Vec<String> {
    let title = about(call, result);
    let (outcome, took) = (summary(result, &title.subject), duration(result.duration_ms));
    let is_reason_below = result.error.is_some() && !fits(&title, &outcome, &took, columns);
    // A clipped reason is useless.
    let shown = if is_reason_below { "failed" } else { &outcome };
    let mut lines = vec![tool_line(&title, shown, &took, failed(result), columns, color)];
    if is_reason_below {
        // A reason without spaces is one row, which the terminal wraps.
        let outcome = clip(&outcome, columns.saturating_mul(FAILURE_LINES));
        let rows = fold(&outcome, columns.saturating_sub(3)).into_iter().take(FAILURE_LINES);
        lines.extend(rows.map(|row| paint(color, BAD, &format!("  {row}"))));
    }
    if failed(result) {
        let rows = last_rows(result).into_iter();
        lines.extend(rows.map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    lines
}

/// Returns true if a line of a call needs no clipping.
pub(super) fn fits(title: &CallTitle, outcome: &str, took: &str, columns: usize) -> bool {
    width(&title.shown()) + width(outcome) + width(took) + FRAME <= columns
}

/// Returns the last lines of both streams of a command, or of the result's text if the streams are not stored.
fn last_rows(result: &ToolResult) -> Vec<String> {
    let details = result.details.as_deref().filter(|details| details.stdout.is_some() || details.stderr.is_some());
    let of_stream = |printed: &Option<PrintedText>| rows(printed.as_ref().map_or("", PrintedText::end));
    let Output { out, err, .. } = Output::of(result.own_text());
    let streams = details.map_or([out, err], |details| [of_stream(&details.stdout), of_stream(&details.stderr)]);
    streams.iter().flat_map(|rows| rows.iter().skip(rows.len().saturating_sub(LAST_OF_STREAM))).cloned().collect()
}

/// Returns the lines that are not empty.
fn rows(text: &str) -> Vec<String> {
    text.lines().map(clean_line).filter(|row| !row.is_empty()).collect()
}

/// Returns the same lines for a person who watches, with the first lines of a successful command, or the changes of
/// files. The diff is left out without a `diff_hint`, which points to the rest of a long one.
pub(crate) fn watched_lines(
    call: Option<&ToolCall>,
    result: &ToolResult,
    look: TerminalStyle,
    diff_hint: Option<&str>,
) -> Vec<String> {
    let (columns, color) = (look.columns(), look.err_color);
    let mut lines = tool_lines(call, result, columns, color);
    if look.err_terminal && result.exit_code.is_some() && !failed(result) && result.files.is_empty() {
        let rows = Output::of(result.own_text()).first_rows();
        lines.extend(rows.iter().map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    if look.err_shown {
        // The rows are indented by two columns, and the last column stays free.
        let columns = columns.saturating_sub(3);
        let names = changed_names(result, columns).map(|names| paint(color, QUIET, &names));
        let diff = diff_hint.zip(changes(result)).map(|(hint, diff)| diff::excerpt(diff, columns, hint, color));
        lines.extend(names.into_iter().chain(diff.into_iter().flatten()).map(|row| format!("  {row}")));
    }
    lines
}

/// Returns the diff of a successful edit, or of a command that ended by itself.
pub(super) fn changes(result: &ToolResult) -> Option<&PrintedText> {
    result.details.as_deref()?.diff.as_ref().filter(|diff| result.error.is_none() && !diff.text.is_empty())
}

/// Returns the names of the changed files with their counts in one row, as many as fit. `None` if the line of the call
/// has them.
fn changed_names(result: &ToolResult, columns: usize) -> Option<String> {
    let files = &result.files;
    let is_outcome = !failed(result) && result.name != DELEGATE;
    if files.is_empty() || is_outcome && (files.len() == 1 || result.name == PATCH) {
        return None;
    }
    let by_file = changes(result).map(diff::counts_by_file).unwrap_or_default();
    let name = |file: &FileChange| {
        let counts = by_file.get(file.path.trim_start_matches('/')).copied().unwrap_or_default();
        format!("{} {counts}", visible::line(&file.path)).trim_end().to_owned()
    };
    let names: Vec<String> = files.iter().take(NAMED_FILES).map(name).collect();
    let row = |shown: usize| match files.len() - shown {
        0 => format!("changed: {}", names.join(", ")),
        more => format!("changed: {} and {} more", names[..shown].join(", "), number(more as u64)),
    };
    let fitting = (1..=names.len()).rev().map(&row).find(|row| width(row) <= columns);
    Some(fitting.unwrap_or_else(|| clip(&row(1), columns)))
}

/// Returns the first line of a call.
pub(super) fn tool_line(
    title: &CallTitle,
    outcome: &str,
    took: &str,
    failed: bool,
    columns: usize,
    color: bool,
) -> String {
    let CallTitle { name, subject } = title;
    let (sign, sign_style) = if failed { ("✗", BAD) } else { ("●", GOOD) };
    let room = columns.saturating_sub(width(name) + width(took) + FRAME);
    let outcome_room = if subject.is_empty() { room } else { room - (room / 2).min(width(subject)) };
    let outcome_room = outcome_room.max(room.saturating_sub(LEAST_SUBJECT).min(SHORT_OUTCOME));
    let outcome = clip(outcome, outcome_room.max(8));
    let subject_room = room.saturating_sub(width(&outcome)).max(LEAST_SUBJECT);
    let subject = match file_and_lines(subject) {
        // The line numbers are more useful than the folders.
        Some(_) if name != COMMAND_PROMPT && width(subject) > subject_room => {
            format!("…{}", tail(subject, subject_room - 1))
        }
        _ => clip(subject, subject_room),
    };
    let subject = if subject.is_empty() { subject } else { format!(" {subject}") };
    let outcome_style = if failed { BAD } else { QUIET };
    format!(
        "{} {}{} {} {} {}",
        paint(color, sign_style, sign),
        paint(color, STRONG, name),
        paint(color, QUIET, &subject),
        paint(color, QUIET, "→"),
        paint(color, outcome_style, &outcome),
        paint(color, QUIET, &format!("· {took}")),
    )
}

/// Returns true if a call or its command failed.
pub(super) fn failed(result: &ToolResult) -> bool {
    result.error.is_some() || result.exit_code.is_some_and(|code| code != 0)
}

/// Returns the outcome of a call with this subject in a few words.
pub(super) fn summary(result: &ToolResult, subject: &str) -> String {
    let text = result.own_text().trim();
    if let Some(summary) = delegated(result) {
        return summary;
    }
    let first = clean_line(text.lines().next().unwrap_or_default());
    if let Some(error) = result.error {
        let words = if first.is_empty() { error.as_str().to_owned() } else { without_code(&first, error.as_str()) };
        return match words.strip_suffix(ADVICE) {
            // Instructions for the model are not shown to users.
            Some(summary) if error == ToolErrorCode::Denied => summary.to_owned(),
            _ => words,
        };
    }
    match result.exit_code {
        Some(code @ 129..) => return format!("exit {code}, ended by signal {}", code - 128),
        Some(code) if code != 0 => return format!("exit {code}"),
        _ => {}
    }
    if !result.files.is_empty() {
        return changed(result, subject);
    }
    if result.exit_code.is_some() {
        return Output::of(text).summary();
    }
    match line_count(text) {
        0 => "done".to_owned(),
        1 => first,
        lines => format!("{} lines", number(lines)),
    }
}

/// Returns the number of lines of a text, including those that were left out.
pub(super) fn line_count(text: &str) -> u64 {
    text.trim().lines().map(|line| left_out(line).unwrap_or(1)).sum()
}

/// Returns the change of files in a few words, without what the subject of the call has already: its path for an edit
/// with a diff, and the counts for a patch. Several files have counts only if the diff has all of them.
fn changed(result: &ToolResult, subject: &str) -> String {
    let files = &result.files;
    let total = files.iter().filter(|file| !file.is_folder()).count();
    let has_all = |diff: &&PrintedText| files.len() == 1 || diff::counts_by_file(diff).len() >= total;
    let counts = changes(result).filter(has_all).and_then(|diff| diff::counts(diff, files.len() == 1));
    let counts = counts.map(|counts| counts.to_string());
    let [file] = files.as_slice() else {
        return format!("changed {} files {}", files.len(), counts.unwrap_or_default()).trim_end().to_owned();
    };
    let path = visible::line(&file.path);
    let verb = match file.change {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "changed",
        FileChangeKind::Deleted => "deleted",
    };
    match counts {
        Some(counts) if kind(&result.name) != ToolKind::Edit => {
            let is_counted = file.change == FileChangeKind::Modified && !counts.is_empty();
            let change = if is_counted { counts } else { format!("{verb} {counts}") };
            format!("{} {path}", change.trim_end())
        }
        Some(counts) if subject.ends_with(&counts) => verb.to_owned(),
        Some(counts) if file.change == FileChangeKind::Modified => counts,
        Some(counts) => format!("{verb} {counts}"),
        None if result.name == PATCH && subject.contains(&path) => verb.to_owned(),
        None => format!("{verb} {path}"),
    }
}

/// Returns the first line of a subagent's answer, or the reason of its failure. `None` for other tools.
fn delegated(result: &ToolResult) -> Option<String> {
    if result.name != DELEGATE {
        return None;
    }
    let summary: Value = serde_json::from_str(&result.text).ok()?;
    let text = |name: &str| summary.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    if let Some(why) = text("error") {
        // The rest is meant for the model.
        return Some(clean_line(why.split(';').next().unwrap_or(why)));
    }
    let mut lines = text("result")?.lines().map(clean_line).filter(|line| !line.is_empty());
    let first = lines.next()?;
    Some(if lines.next().is_some() { format!("{first} …") } else { first })
}

/// Output of a command, as far as its result contains it.
struct Output {
    /// Number of lines, including omitted lines whose number is known.
    lines: u64,
    /// Lines of standard output that are not empty.
    out: Vec<String>,
    /// Lines of standard error that are not empty.
    err: Vec<String>,
}

impl Output {
    /// Parses the text of a result: a status, and then each stream below its name.
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

    /// Returns the first lines, and the number of the others. A single line is part of the call's line.
    fn first_rows(&self) -> Vec<String> {
        if self.lines <= 1 {
            return Vec::new();
        }
        let mut rows: Vec<String> = self.out.iter().chain(&self.err).take(SUCCESS_LINES).cloned().collect();
        let more = self.lines.saturating_sub(rows.len() as u64);
        if more > 0 {
            rows.push(format!("… {} more {}", number(more), if more == 1 { "line" } else { "lines" }));
        }
        rows
    }

    /// Returns the size of the output, or its only line.
    fn summary(&self) -> String {
        let last = if self.err.is_empty() { &self.out } else { &self.err };
        match (self.lines, last.as_slice()) {
            (0, _) => "no output".to_owned(),
            (1, [line]) => line.clone(),
            (1, _) => "1 line".to_owned(),
            (lines, _) => format!("{} lines", number(lines)),
        }
    }
}

/// Returns the number of omitted lines from a note such as `[… 1,234 lines left out, 5 to 1238 …]`.
fn left_out(line: &str) -> Option<u64> {
    let note = line.strip_prefix("[… ")?;
    let (count, _) = note.split_once(" lines left out")?;
    count.replace(',', "").parse().ok()
}

/// Removes the error code for models from a message.
fn without_code(message: &str, code: &str) -> String {
    let words = message.strip_prefix(code).map(|rest| rest.trim_start_matches([':', ' ']));
    words.filter(|words| !words.is_empty()).unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests {
    use agentd_core::{ids::CallId, tool::ToolDetails};

    use super::*;
    use crate::render::screen::TERMINAL;

    fn line(arguments: &str, result: ToolResult, columns: usize) -> String {
        let call = ToolCall { call_id: result.call_id.clone(), name: result.name.clone(), arguments: arguments.into() };
        tool_lines(Some(&call), &result, columns, false).swap_remove(0)
    }

    fn result(name: &str, text: &str) -> ToolResult {
        ToolResult { text: text.into(), duration_ms: 12, ..ToolResult::empty(CallId::from("call_1".to_owned()), name) }
    }

    #[test]
    fn tool_line_shows_call_and_result() {
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
    fn tool_line_shows_commands_and_patched_files() {
        let make = r#"{"command":"make test"}"#;
        assert_eq!(line(make, result("run_bash_command", "[no output]"), 80), "● $ make test → [no output] · 12 ms");
        let ran_with = Some(r#"{"command":"make"}"#.to_owned());
        let edited = ToolResult { ran_with, ..result("run_bash_command", "ok") };
        assert_eq!(line(make, edited, 80), "● $ (edited) make (was make test) → ok · 12 ms");
        let patch = "*** Begin Patch\n*** Update File: /project/a.py\n@@ def f():\n-one\n+two\n+three\n context\n*** \
                     Add File: b\u{1b}[2J.py\n+new\n*** Delete File: c.py\n*** End Patch\n";
        let arguments = serde_json::json!({ "patch": patch }).to_string();
        let files = ["/project/a.py", "b.py", "c.py"].map(|path| FileChange::new(path, FileChangeKind::Modified));
        let many = ToolResult { files: files.to_vec(), ..result("apply_patch", "done") };
        let expected = r"● apply_patch /project/a.py +2 −1, b\u{1b}[2J.py +1, c.py → changed 3 files · 12 ms";
        assert_eq!(line(&arguments, many, 110), expected);
        let one = ToolResult { files: files[..1].to_vec(), ..result("apply_patch", "done") };
        let arguments = serde_json::json!({ "patch": "*** Update File: /project/a.py\n-x\n" }).to_string();
        assert_eq!(line(&arguments, one, 80), "● apply_patch /project/a.py −1 → changed · 12 ms");
        let odd = line(r#"{"patch":"no patch\n at all"}"#, result("apply_patch", "done"), 80);
        assert_eq!(odd, "● apply_patch no patch⏎ at all → done · 12 ms");
    }

    #[test]
    fn long_error_is_shown_below_its_call() {
        let text =
            "E_PATH: /project/src/lib.rs cannot be changed: the project is mounted read-only, so nothing writes to it";
        let failed = ToolResult { error: Some(ToolErrorCode::Path), ..result("edit_file", text) };
        let arguments = r#"{"path":"/project/src/lib.rs"}"#.to_owned();
        let call = ToolCall { call_id: failed.call_id.clone(), name: failed.name.clone(), arguments };
        let lines = tool_lines(Some(&call), &failed, 50, false);
        let below = "  project is mounted read-only, so nothing writes";
        assert_eq!(lines[0], "✗ edit_file /project/src/lib.rs → failed · 12 ms");
        assert!(lines.contains(&below.to_owned()) && lines.iter().all(|line| width(line) < 50), "{lines:?}");
        assert_eq!(tool_lines(Some(&call), &failed, 200, false).len(), 1);
        let huge = ToolResult { text: format!("E_PATH: {}", "x".repeat(100_000)), ..failed };
        let lines = tool_lines(Some(&call), &huge, 50, false);
        assert!(lines.iter().map(|line| width(line)).sum::<usize>() < 6 * 50, "{lines:?}");
    }

    #[test]
    fn advice_to_the_model_is_hidden_from_users() {
        let denied = |text: &str| ToolResult { error: Some(ToolErrorCode::Denied), ..result("act", text) };
        let check = |text: &str, words: &str| {
            assert_eq!(line("{}", denied(text), 120), format!("✗ act → {words} · 12 ms"));
        };
        let advice = "Do not try the same again; ask, or go another way";
        check(&format!("E_DENIED: rejected (no reason). {advice}"), "rejected (no reason)");
        check(&format!("refused: No. Use cargo. {advice}"), "refused: No. Use cargo");
        check("it did not run: too much to be shown", "it did not run: too much to be shown");
        let delegated = |text: &str, error| ToolResult { error, ..result("delegate_task", text) };
        let said = r#"{"ok":true,"result":"\n# Found it\n\nIn a.rs.","context_id":"0193","loops":2}"#;
        let shown = line(r#"{"task":"look"}"#, delegated(said, None), 80);
        assert_eq!(shown, "● delegate_task look → # Found it … · 12 ms");
        let failed = r#"{"ok":false,"result":"","error":"the subagent failed: no key; call delegate_task again"}"#;
        let shown = line("{}", delegated(failed, Some(ToolErrorCode::Tool)), 80);
        assert_eq!(shown, "✗ delegate_task → the subagent failed: no key · 12 ms");
        let odd = line("{}", delegated("no JSON", Some(ToolErrorCode::Tool)), 80);
        assert_eq!(odd, "✗ delegate_task → no JSON · 12 ms");
    }

    #[test]
    fn successful_command_shows_its_output_size() {
        let ran = |text: &str| ToolResult { exit_code: Some(0), ..result("run_bash_command", text) };
        assert_eq!(
            line("{}", ran("exit code 0 after 0.0 s\n[no output]"), 80),
            "● run_bash_command → no output · 12 ms"
        );
        let one = ran("exit code 0 after 0.0 s\nstdout:\n5.15");
        assert_eq!(line("{}", one, 80), "● run_bash_command → 5.15 · 12 ms");
        let look = TerminalStyle { size: || (40, 24), ..LOOK };
        let rows = |text: &str| watched_lines(None, &ran(text), look, None).split_off(1);
        assert_eq!(rows("exit code 0 after 0.0 s\nstdout:\n5.15"), [""; 0]);
        let five = "exit code 0 after 0.0 s\nstdout:\na\n\u{1b}[2Jb\n\nc\nstderr:\nhm";
        assert_eq!(rows(five), ["  a", "  b", "  c", "  … 2 more lines"]);
        assert!(rows(&format!("exit code 0\nstdout:\n{}\nb", "long ".repeat(50))).iter().all(|row| width(row) < 40));
        let piped = TerminalStyle { err_terminal: false, ..look };
        assert_eq!(watched_lines(None, &ran(five), piped, None).len(), 1);
        let more = ran("exit code 0 after 0.0 s\nstdout:\na\n[… 4,917 lines left out, 2 to 4918 …]\nz\nstderr:\nhm");
        assert_eq!(line("{}", more, 80), "● run_bash_command → 4,920 lines · 12 ms");
    }

    const LOOK: TerminalStyle =
        TerminalStyle { out_color: false, err_shown: true, err_terminal: true, size: || (80, 24), ..TERMINAL };

    /// Returns the result of an edit of these files, with its diff.
    fn edit(tool: &str, paths: &[&str], change: FileChangeKind, diff: &str) -> ToolResult {
        let files = paths.iter().map(|path| FileChange::new(*path, change)).collect();
        let details = (!diff.is_empty()).then(|| Box::new(ToolDetails::of_diff(diff)));
        ToolResult { files, details, ..result(tool, "done") }
    }

    #[test]
    fn changed_files_are_counted() {
        use FileChangeKind::{Created, Deleted, Modified};
        let check = |arguments: &str, result: ToolResult, columns: usize, expected: &str| {
            assert_eq!(line(arguments, result, columns), expected);
        };
        let diff = "--- a/project/a.rs\n+++ b/project/a.rs\n@@ -1,2 +1,3 @@\n-old\n+new\n+more\n same\n";
        let of = |path: &str| serde_json::json!({ "path": path }).to_string();
        let edited = edit("edit_file", &["/project/a.rs"], Modified, diff);
        check(&of("a.rs"), edited, 80, "● edit_file a.rs → +2 −1 · 12 ms");
        let new = "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1234 @@\n".to_owned() + &"+line\n".repeat(1234);
        check(&of("a"), edit("write_file", &["a"], Created, &new), 80, "● write_file a → created +1,234 · 12 ms");
        let long: String = new.replace("+line", &format!("+{}", "long".repeat(20)));
        check(&of("a"), edit("write_file", &["a"], Created, &long), 80, "● write_file a → created +1,234 · 12 ms");
        for unknown in [long.replace("-0,0", "-1,9"), String::new()] {
            let written = edit("write_file", &["a"], Modified, &unknown);
            check(&of("a"), written, 80, "● write_file a → changed a · 12 ms");
        }
        let removed = edit("run_bash_command", &["a\u{202e}b"], Deleted, "");
        check("{}", removed, 80, r"● run_bash_command → deleted a\u{202e}b · 12 ms");
        check("{}", edit("undo_patch", &["a", "b"], Created, ""), 80, "● undo_patch → changed 2 files · 12 ms");
        let both = format!("{diff}--- a/b.rs\n+++ b/b.rs\n@@ -1 +1 @@\n-old\n+new\n");
        let renamed = edit("rename_symbol", &["/project/a.rs", "b.rs"], Modified, &both);
        check(&of("b.rs"), renamed, 80, "● rename_symbol b.rs → changed 2 files +3 −2 · 12 ms");
        let patch = serde_json::json!({ "patch": "*** Update File: /project/a.rs\n-old\n+new\n+more\n" }).to_string();
        let patched = edit("apply_patch", &["/project/a.rs"], Modified, diff);
        check(&patch, patched, 80, "● apply_patch /project/a.rs +2 −1 → changed · 12 ms");
        // The subject of a command does not name its files.
        let touched = |change, diff: &str| edit("run_bash_command", &["/project/a.rs"], change, diff);
        let ran = r#"{"command":"make /project/a.rs"}"#;
        check(ran, touched(Modified, diff), 80, "● $ make /project/a.rs → +2 −1 /project/a.rs · 12 ms");
        let gone = "--- a/project/a.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";
        check(ran, touched(Deleted, gone), 80, "● $ make /project/a.rs → deleted −1 /project/a.rs · 12 ms");
        let binary = "--- a/project/a.rs\n+++ b/project/a.rs\n(binary content: 2 bytes after)\n";
        check(ran, touched(Modified, binary), 80, "● $ make /project/a.rs → changed /project/a.rs · 12 ms");
        let partial = edit("run_bash_command", &["/project/a.rs", "b.pem"], Modified, diff);
        check(ran, partial, 80, "● $ make /project/a.rs → changed 2 files · 12 ms");
        // The counts are shown in a narrow window, too.
        let big = diff.replace("+new\n", &"+new\n".repeat(1199)).replace("1,3 @@", "1,1201 @@");
        let narrow = edit("edit_file", &["/project/src/main.rs"], Modified, &big);
        check(&of("/project/src/main.rs"), narrow, 50, "● edit_file /project/src/mai… → +1,200 −1 · 12 ms");
    }

    #[test]
    fn changes_are_shown_below_their_call() {
        let watched = |result: &ToolResult, hint| watched_lines(None, result, LOOK, hint).split_off(1);
        let diff = "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-old\n+new \u{1b}[2J\u{202e}\n";
        let edited = edit("edit_file", &["a.rs"], FileChangeKind::Modified, diff);
        let expected = ["    @@ -1 +1 @@", "  1 -old", r"  1 +new \u{1b}[2J\u{202e}"];
        assert_eq!(watched(&edited, Some("")), expected);
        assert_eq!(watched(&edited, None), [""; 0]);
        let piped = TerminalStyle { err_shown: false, err_terminal: false, ..LOOK };
        assert_eq!(watched_lines(None, &edited, piped, Some("")).len(), 1);
        let failed = ToolResult { error: Some(ToolErrorCode::Tool), files: Vec::new(), ..edited };
        assert_eq!(watched(&failed, Some("")), [""; 0]);
        let paths: Vec<String> = (1..=9).map(|number| format!("target/{number}\u{1b}[2J")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let ran = ToolResult { exit_code: Some(0), ..edit("run_bash_command", &paths, FileChangeKind::Created, "") };
        let names = r"  changed: target/1\u{1b}[2J, target/2\u{1b}[2J, target/3\u{1b}[2J and 6 more";
        assert_eq!(watched(&ran, Some("")), [names]);
        let narrow = TerminalStyle { size: || (30, 24), ..LOOK };
        assert!(watched_lines(None, &ran, narrow, Some("")).iter().skip(1).all(|row| width(row) < 30));
        let one = ToolResult { exit_code: Some(1), ..edit("run_bash_command", &["a"], FileChangeKind::Modified, "") };
        assert_eq!(watched(&one, Some("")), ["  changed: a"]);
        let two = format!("{diff}--- a/project/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n(… and 1 more file)\n");
        let paths = ["a.rs", "/project/b", "logo.png"];
        let ran = ToolResult { exit_code: Some(1), ..edit("run_bash_command", &paths, FileChangeKind::Modified, &two) };
        let shown = watched(&ran, Some(""));
        assert_eq!(shown[0], "  changed: a.rs +1 −1, /project/b −1, logo.png");
        assert_eq!(shown.last().unwrap(), "    (… and 1 more file)");
        let patched = edit("apply_patch", &["a", "b"], FileChangeKind::Modified, "");
        assert_eq!(watched(&patched, Some("")), [""; 0]);
    }

    #[test]
    fn failure_shows_the_end_of_both_streams() {
        let passed: String = (1..=5_000).map(|number| format!("test {number} … ok\n")).collect();
        let out = passed + "FAILED tests/a.py\n\n";
        let err: String = (1..=5_000).map(|number| format!("warning {number}\n")).collect();
        let printed = |text: &str| Some(PrintedText::of_stream(text, text.len() as u64));
        let stored = Some("large_tool_results/a.txt".to_owned());
        let details = ToolDetails { stdout: printed(&out), stderr: printed(&err), stored, ..ToolDetails::default() };
        let text = "exit code 1 after 2.0 s\nstdout:\ntest 1 … ok\n[… 9,000 lines left out, 2 to 9001 …]";
        let reduced = ToolResult { exit_code: Some(1), ..result("run_bash_command", text) };
        let whole = ToolResult { details: Some(Box::new(details)), ..reduced };
        let expected = [
            "✗ run_bash_command → exit 1 · 12 ms",
            "  test 4999 … ok",
            "  test 5000 … ok",
            "  FAILED tests/a.py",
            "  warning 4998",
            "  warning 4999",
            "  warning 5000",
        ];
        assert_eq!(tool_lines(None, &whole, 50, false), expected);
        // A line of several megabytes, and one without a stored stream.
        let huge = format!("{}\nFAILED\n", "漢".repeat(1_000_000));
        let details = ToolDetails { stdout: printed(&huge), ..ToolDetails::default() };
        let huge = ToolResult { details: Some(Box::new(details)), ..whole.clone() };
        let lines = tool_lines(None, &huge, 50, false);
        assert!(lines.iter().all(|line| width(line) <= 50) && lines.last().unwrap() == "  FAILED", "{lines:?}");
        let text = format!("exit code 1\nstdout:\n{out}stderr:\n{err}");
        let archived = ToolResult { text, details: None, ..whole };
        assert_eq!(tool_lines(None, &archived, 50, false), expected);
    }

    #[test]
    fn narrow_line_keeps_the_lines_of_a_file() {
        let read = r#"{"path":"/project/src/click/core.py","offset":41,"limit":40}"#;
        let shown = line(read, result("read_file", "x\ny"), 50);
        assert_eq!(shown, "● read_file …lick/core.py:41-80 → 2 lines · 12 ms");
    }
}
