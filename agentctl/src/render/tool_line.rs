//! A tool call in one quiet line: name, main argument, what came of it, how long it took.

use agentd_core::{
    tool::{FileChangeKind, PrintedText, ToolCall, ToolErrorCode, ToolResult},
    visible,
};
use serde_json::Value;

use crate::terminal::{
    look::TerminalStyle,
    paint::{BAD, GOOD, QUIET, STRONG, clip, duration, fold, number, paint, width},
    sanitize::clean_line,
};

/// The tool that runs commands.
const SHELL: &str = "run_bash_command";
/// The tool that changes files by a patch.
const PATCH: &str = "apply_patch";
/// The tool that has a subagent work.
pub(crate) const DELEGATE: &str = "delegate_task";

/// The end of a refusal, which is said to the model.
const ADVICE: &str = ". Do not try the same again; ask, or go another way";

/// The arguments that say best what a call is about, in order.
const MAIN_ARGUMENTS: [&str; 9] =
    ["path", "file_path", "command", "pattern", "query", "question", "url", "glob", "name"];

/// The main argument as it is.
pub(crate) fn main_text(args: &Value) -> String {
    let Value::Object(fields) = args else { return args.as_str().unwrap_or_default().to_owned() };
    let main = MAIN_ARGUMENTS.iter().filter_map(|name| fields.get(*name)).find_map(Value::as_str);
    main.or_else(|| fields.values().find_map(Value::as_str)).unwrap_or_default().to_owned()
}

/// A call as people read it, in two parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallTitle {
    /// Name of the tool, or the prompt before a command; empty where the subject says it.
    pub(crate) name: String,
    /// Main argument, every character visible.
    pub(crate) subject: String,
}

impl CallTitle {
    /// Both in a line.
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.name, self.subject).trim().to_owned()
    }
}

/// The call in a line: a command with its prompt, a patch by its files, any other by its name and main argument.
pub(crate) fn call_line(tool: &str, args: &Value) -> String {
    let subject = subject(tool, args);
    CallTitle { name: name(tool, &subject), subject }.shown()
}

/// The name of a tool before this subject.
fn name(tool: &str, subject: &str) -> String {
    if tool == SHELL && !subject.is_empty() { "$".to_owned() } else { clean_line(tool) }
}

fn subject(tool: &str, args: &Value) -> String {
    let text = main_text(args);
    let patch = (tool == PATCH).then(|| patched(&text)).flatten();
    patch.unwrap_or_else(|| visible::line(&text))
}

/// The files of a patch, each with the lines that it adds and removes; none where it names no file.
fn patched(patch: &str) -> Option<String> {
    let mut files: Vec<(String, u64, u64)> = Vec::new();
    for line in patch.lines() {
        let header = ["*** Update File: ", "*** Add File: ", "*** Delete File: "].iter();
        if let Some(path) = header.filter_map(|header| line.strip_prefix(header)).next() {
            files.push((visible::line(path.trim()), 0, 0));
        } else if let Some((_, added, removed)) = files.last_mut() {
            *added += u64::from(line.starts_with('+'));
            *removed += u64::from(line.starts_with('-'));
        }
    }
    let summary = |(path, added, removed): &(String, u64, u64)| {
        let count =
            |sign: char, lines: u64| if lines == 0 { String::new() } else { format!(" {sign}{}", number(lines)) };
        format!("{path}{}{}", count('+', *added), count('−', *removed))
    };
    (!files.is_empty()).then(|| files.iter().map(summary).collect::<Vec<_>>().join(", "))
}

/// A call that ran, as people read it; the model's own beside it where a person has changed it.
pub(crate) fn about(call: Option<&ToolCall>, result: &ToolResult) -> CallTitle {
    let tool = result.name.as_str();
    let of = |arguments: &str| match serde_json::from_str::<Value>(arguments) {
        Ok(args) => subject(tool, &args),
        Err(_) => visible::line(arguments),
    };
    let called = call.map(|call| of(&call.arguments));
    let Some(ran) = result.ran_with.as_deref().map(of) else {
        let subject = called.unwrap_or_default();
        return CallTitle { name: name(tool, &subject), subject };
    };
    let was = called.map(|called| format!(" (was {called})")).unwrap_or_default();
    CallTitle { name: name(tool, &ran), subject: format!("(edited) {ran}{was}") }
}

/// The lines of a command's output that are shown where it ran well.
const SUCCESS_LINES: usize = 3;
/// The lines of a reason that are shown, and the last ones of each stream of a command that failed.
const FAILURE_LINES: usize = 4;
const LAST_OF_STREAM: usize = 3;

/// The columns of the sign, the arrow, the dot and the spaces between.
const FRAME: usize = 10;

/// The lines of a call that has ended: one that says what came of it, and of a command that failed the last ones that it
/// wrote. `columns` bounds their width.
pub(crate) fn tool_lines(call: Option<&ToolCall>, result: &ToolResult, columns: usize, color: bool) -> Vec<String> {
    let title = about(call, result);
    let outcome = summary(result, &title.subject);
    let fits = width(&title.shown()) + width(&outcome) + width(&duration(result.duration_ms)) + FRAME <= columns;
    let is_reason_below = result.error.is_some() && !fits;
    // A reason that is cut says nothing.
    let shown = if is_reason_below { "failed" } else { &outcome };
    let mut lines = vec![tool_line(&title, shown, result, columns, color)];
    if is_reason_below {
        let rows = fold(&outcome, columns.saturating_sub(3)).into_iter().take(FAILURE_LINES);
        lines.extend(rows.map(|row| paint(color, BAD, &format!("  {row}"))));
    }
    if failed(result) {
        let rows = last_rows(result).into_iter();
        lines.extend(rows.map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    lines
}

/// The last lines that a command wrote to each of its streams; those of the text where nothing else is kept.
fn last_rows(result: &ToolResult) -> Vec<String> {
    let details = result.details.as_deref().filter(|details| details.stdout.is_some() || details.stderr.is_some());
    let streams = details.map_or_else(
        || {
            let Output { out, err, .. } = Output::of(result.own_text());
            [out, err]
        },
        |details| [&details.stdout, &details.stderr].map(|printed| rows(printed.as_ref().map_or("", PrintedText::end))),
    );
    streams.iter().flat_map(|rows| rows.iter().skip(rows.len().saturating_sub(LAST_OF_STREAM))).cloned().collect()
}

/// Lines that are not empty.
fn rows(text: &str) -> Vec<String> {
    text.lines().map(clean_line).filter(|row| !row.is_empty()).collect()
}

/// The same with the first lines of a command that ran well, for a person who watches.
pub(crate) fn watched_lines(call: Option<&ToolCall>, result: &ToolResult, look: TerminalStyle) -> Vec<String> {
    let (columns, color) = (look.columns(), look.err_color);
    let mut lines = tool_lines(call, result, columns, color);
    if look.err_terminal && result.exit_code.is_some() && !failed(result) && result.files.is_empty() {
        let rows = Output::of(result.own_text()).first_rows();
        lines.extend(rows.iter().map(|row| paint(color, QUIET, &clip(&format!("  {row}"), columns.saturating_sub(1)))));
    }
    lines
}

/// The first of them.
fn tool_line(title: &CallTitle, outcome: &str, result: &ToolResult, columns: usize, color: bool) -> String {
    let CallTitle { name, subject: argument } = title;
    let took = duration(result.duration_ms);
    let failed = failed(result);
    let (sign, sign_style) = if failed { ("✗", BAD) } else { ("●", GOOD) };
    let room = columns.saturating_sub(width(name) + width(&took) + FRAME);
    let outcome_room = if argument.is_empty() { room } else { room - (room / 2).min(width(argument)) };
    let outcome = clip(outcome, outcome_room.max(8));
    let argument = clip(argument, room.saturating_sub(width(&outcome)).max(8));
    let argument = if argument.is_empty() { argument } else { format!(" {argument}") };
    let outcome_style = if failed { BAD } else { QUIET };
    format!(
        "{} {}{} {} {} {}",
        paint(color, sign_style, sign),
        paint(color, STRONG, name),
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

/// Result of a call about this, in a few words.
fn summary(result: &ToolResult, argument: &str) -> String {
    let text = result.own_text().trim();
    if let Some(summary) = delegated(result) {
        return summary;
    }
    let first = clean_line(text.lines().next().unwrap_or_default());
    if let Some(error) = result.error {
        let words = if first.is_empty() { error.as_str().to_owned() } else { without_code(&first, error.as_str()) };
        return match words.strip_suffix(ADVICE) {
            // People are not told what the model is to do now.
            Some(summary) if error == ToolErrorCode::Denied => summary.to_owned(),
            _ => words,
        };
    }
    match result.exit_code {
        Some(code @ 129..) => return format!("exit {code}, ended by signal {}", code - 128),
        Some(code) if code != 0 => return format!("exit {code}"),
        _ => {}
    }
    match result.files.as_slice() {
        [] => {}
        // Its path stands in the line.
        [file] if result.name == PATCH && argument.contains(&clean_line(&file.path)) => {
            return done(file.change).to_owned();
        }
        [file] => return format!("{} {}", done(file.change), clean_line(&file.path)),
        files => return format!("changed {} files", files.len()),
    }
    if result.exit_code.is_some() {
        return Output::of(text).summary();
    }
    match text.lines().map(|line| left_out(line).unwrap_or(1)).sum() {
        0 => "done".to_owned(),
        1 => first,
        lines => format!("{} lines", number(lines)),
    }
}

/// The first line of what a subagent said, or why it failed; none of any other result.
fn delegated(result: &ToolResult) -> Option<String> {
    if result.name != DELEGATE {
        return None;
    }
    let summary: Value = serde_json::from_str(&result.text).ok()?;
    let text = |name: &str| summary.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    if let Some(why) = text("error") {
        // What follows is said to the model.
        return Some(clean_line(why.split(';').next().unwrap_or(why)));
    }
    let mut lines = text("result")?.lines().map(clean_line).filter(|line| !line.is_empty());
    let first = lines.next()?;
    Some(if lines.next().is_some() { format!("{first} …") } else { first })
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
        let mut rows: Vec<String> = self.out.iter().chain(&self.err).take(SUCCESS_LINES).cloned().collect();
        let more = self.lines.saturating_sub(rows.len() as u64);
        if more > 0 {
            rows.push(format!("… {} more {}", number(more), if more == 1 { "line" } else { "lines" }));
        }
        rows
    }

    /// In a few words.
    fn summary(&self) -> String {
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
    use agentd_core::{ids::CallId, tool::FileChange};

    use super::*;

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
        let look = TerminalStyle {
            err_terminal: true,
            out_shown: true,
            out_terminal: true,
            out_color: false,
            err_shown: true,
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
    fn tool_line_is_a_single_line() {
        let command = format!(r#"{{"command":"echo {}\nrm -rf x"}}"#, "漢字".repeat(50));
        let line = line(&command, result("run_bash_command", &"word ".repeat(50)), 60);
        assert!(width(&line) <= 60, "{line}");
        assert!(!line.contains('\n'));
    }
}
