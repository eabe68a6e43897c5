//! Standard output of commands that list or show something: tables for people, JSON for programs.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use agentd_core::{
    Timestamp,
    ids::{SessionId, TurnId},
    session::{SessionStatus, SessionSummary},
    turn::{StopReason, TurnError},
    usage::Usage,
    visible,
};
use agentd_proto::client::SandboxState;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    terminal::{TerminalStyle, clip, fold, width},
};

/// Prints a value as JSON, for `--json`. Control and invisible characters are escaped.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn json(value: &impl Serialize) -> Result<Exit> {
    print_json(serde_json::to_string_pretty(value)?)?;
    Ok(Exit::Done)
}

/// Prints a value as JSON, or calls `print` to print it for people.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn show(as_json: bool, value: &impl Serialize, print: impl FnOnce() -> Result<()>) -> Result<Exit> {
    if as_json {
        return json(value);
    }
    print()?;
    Ok(Exit::Done)
}

/// Prints a value as JSON, or a note for people.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn note(as_json: bool, value: &impl Serialize, text: &str) -> Result<Exit> {
    show(as_json, value, || {
        crate::terminal::note(text);
        Ok(())
    })
}

/// Prints lines to standard output.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn lines(lines: impl IntoIterator<Item = impl Display>) -> Result<()> {
    let mut out = anstream::stdout().lock();
    Ok(lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))?)
}

/// Lines that consist of a name and a value.
pub(crate) struct FactSheet {
    /// Width of the name column.
    width: usize,
    /// Makes a value printable on one line.
    shown: fn(&str) -> String,
    pub(crate) lines: Vec<String>,
}

impl FactSheet {
    /// Creates an empty sheet.
    pub(crate) fn new(width: usize, shown: fn(&str) -> String) -> Self {
        Self { width, shown, lines: Vec::new() }
    }

    /// Adds a line with a name and a value.
    pub(crate) fn line(&mut self, name: &str, value: impl AsRef<str>) {
        let (width, value) = (self.width, (self.shown)(value.as_ref()));
        self.lines.push(format!("{name:<width$}{value}"));
    }

    /// Adds one line per value, each with the name.
    pub(crate) fn each(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<str>>) {
        values.into_iter().for_each(|value| self.line(name, value));
    }

    /// Adds a line unless the value is empty.
    pub(crate) fn non_empty(&mut self, name: &str, value: impl AsRef<str>) {
        self.each(name, Some(value).filter(|value| !value.as_ref().is_empty()));
    }

    /// Adds one line per value; only the first has the name.
    pub(crate) fn below(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<str>>) {
        values.into_iter().enumerate().for_each(|(at, value)| self.line(if at == 0 { name } else { "" }, value));
    }

    /// Adds one line per problem, as an error if the problem is fatal.
    pub(crate) fn problems(&mut self, problems: impl IntoIterator<Item = (bool, String)>) {
        for (is_fatal, text) in problems {
            self.line(if is_fatal { "error" } else { "warning" }, text);
        }
    }

    /// Prints all lines.
    ///
    /// # Errors
    /// Fails if standard output is closed.
    pub(crate) fn print(self) -> Result<()> {
        lines(self.lines)
    }
}

fn print_json(json: String) -> Result<()> {
    let mut line = visible::json(json);
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a value as one line of JSON.
///
/// # Errors
/// Fails if standard output is closed.
pub(crate) fn json_line(value: &impl Serialize) -> Result<()> {
    print_json(serde_json::to_string(value)?)
}

/// Builds the result for a turn that could not start or whose end was not received. It has all keys of a result, with
/// default values where the result is unknown.
pub(crate) fn no_result(
    session_id: Option<SessionId>,
    turn_id: Option<TurnId>,
    failure: &Failure,
    duration_ms: u64,
) -> Value {
    let Failure { kind, message, hint, .. } = failure.clone();
    let stop_reason = if failure.exit == Exit::Cancelled { StopReason::Cancelled } else { StopReason::Failed };
    json!({
        "type": "result",
        "session_id": session_id,
        "turn_id": turn_id,
        "trace_id": null,
        "text": "",
        "tool_used": false,
        "stop_reason": stop_reason,
        "error": TurnError { kind, message, hint },
        "steps": 0,
        "usage": Usage::default(),
        "denials": [],
        "files": [],
        "duration_ms": duration_ms,
    })
}

/// Returns the string form of a value in JSON, such as a status.
pub(crate) fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

/// Returns the title of a session on one line. It has none if its first message was taken back.
pub(crate) fn title(session: &SessionSummary) -> String {
    if session.title.is_empty() { "(untitled)".to_owned() } else { visible::line(&session.title) }
}

/// Returns the status of a session with an open question, as shown to users.
pub(crate) fn waits(session: &SessionSummary) -> Option<&'static str> {
    (session.status == SessionStatus::Waiting).then_some("waits for your answer")
}

/// A table with aligned columns. Cells may contain text from models and tool calls, so hidden characters are escaped.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Maximum number of characters in a cell; longer cells are truncated.
const MAX_CELL_WIDTH: usize = 60;

/// Minimum width of a last cell that is wrapped over several lines beside the others.
const MIN_END_WIDTH: usize = 20;

/// Columns between two cells, and before continued lines.
const GAP: usize = 2;

impl Table {
    /// Creates a table with these columns and rows.
    pub(crate) fn of<const N: usize>(head: [&'static str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        let rows = rows.into_iter().map(|row| row.map(|cell| cut(&visible::line(&cell), MAX_CELL_WIDTH)).into());
        Self { head: head.into(), rows: rows.collect() }
    }

    /// Like `of`, but the last cell of each row is not truncated.
    pub(crate) fn with_long_end<const N: usize>(
        head: [&'static str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let shown = |(column, cell): (usize, String)| match visible::line(&cell) {
            cell if column + 1 < N => cut(&cell, MAX_CELL_WIDTH),
            cell => cell,
        };
        let rows = rows.into_iter().map(|row| row.into_iter().enumerate().map(shown).collect());
        Self { head: head.into(), rows: rows.collect() }
    }

    /// Prints the table, or `if_empty` on standard error if it has no rows.
    ///
    /// # Errors
    /// Fails if standard output is closed.
    pub(crate) fn print(&self, if_empty: &str) -> Result<()> {
        if self.rows.is_empty() {
            writeln!(anstream::stderr(), "{if_empty}")?;
            return Ok(());
        }
        let mut out = anstream::stdout().lock();
        let columns = if io::stdout().is_terminal() { TerminalStyle::detect().columns() } else { usize::MAX };
        out.write_all(self.render(columns).as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Renders the table without colours and without a width limit.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> String {
        anstream::adapter::strip_str(&self.render(usize::MAX)).to_string()
    }

    /// Renders the table for a terminal of this width.
    fn render(&self, columns: usize) -> String {
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column)).map(|cell| width(cell));
        let longest = |(column, head): (usize, &&str)| cells(column).chain([head.len()]).max().unwrap_or(0);
        let widths: Vec<usize> = self.head.iter().enumerate().map(longest).collect();
        let mut text = format!("\x1b[1m{}\x1b[0m\n", lay_out(&self.head, &widths, columns));
        for row in &self.rows {
            text.push_str(&lay_out(row, &widths, columns));
            text.push('\n');
        }
        text
    }
}

/// Returns the lines of a row. Cells that do not fit continue on an indented line, and the last cell wraps below itself.
fn lay_out(row: &[impl AsRef<str>], widths: &[usize], columns: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for (at, (cell, column)) in row.iter().zip(widths).enumerate() {
        let is_last = at + 1 == widths.len();
        let needed = if is_last { *column.min(&MIN_END_WIDTH) } else { *column };
        if used > 0 && used + needed > columns {
            text.truncate(text.trim_end().len());
            text.push_str("\n  ");
            used = GAP;
        }
        let room = columns.saturating_sub(used);
        if is_last {
            text.push_str(&fold(cell.as_ref(), room).join(&format!("\n{:used$}", "")));
        } else {
            let cell = clip(cell.as_ref(), room);
            let padding = (column + GAP).saturating_sub(width(&cell));
            text.push_str(&format!("{cell}{:padding$}", ""));
            used += column + GAP;
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Truncates a text to at most `longest` characters.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(longest.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Minimum characters of a shortened id.
const SHORT_ID: usize = 8;

/// Returns unique suffixes of ids, all of the same length, which is at least [`SHORT_ID`] characters. Suffixes are used
/// because an id starts with its creation time, so ids of the same minute have the same prefix.
pub(crate) fn short_ids<T: ToString>(ids: impl IntoIterator<Item = T>) -> Vec<String> {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut sorted: Vec<String> = ids.iter().map(|id| id.chars().rev().collect()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let shared = sorted
        .windows(2)
        .map(|pair| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count())
        .max()
        .unwrap_or(0);
    ids.iter().map(|id| end_of(id, (shared + 1).max(SHORT_ID)).trim_start_matches('-').to_owned()).collect()
}

/// Returns the suffix of an id, for display.
pub(crate) fn short_id(id: impl ToString) -> String {
    end_of(&id.to_string(), SHORT_ID).to_owned()
}

fn end_of(id: &str, length: usize) -> &str {
    id.get(id.len().saturating_sub(length)..).unwrap_or(id)
}

/// Returns a hint for choosing one of several items, with the description, age and id of each.
pub(crate) fn choice_hint<T: ToString>(
    several: impl ExactSizeIterator<Item = (String, Timestamp, T)>,
    limit: usize,
) -> String {
    let (now, more) = (Timestamp::now(), if several.len() > limit { "; …" } else { "" });
    let named = several.take(limit).map(|(subject, at, id)| format!("{subject} · {} · {}", ago(at, now), short_id(id)));
    format!("name one by the end of its id: {}{more}", named.collect::<Vec<_>>().join("; "))
}

/// Quotes a word for a shell unless all its characters are plain.
pub(crate) fn shell_word(word: &str, is_plain: impl Fn(char) -> bool) -> String {
    let needs_quotes = word.is_empty() || !word.chars().all(is_plain);
    if needs_quotes { format!("'{}'", word.replace('\'', r"'\''")) } else { word.to_owned() }
}

/// Returns a code fence longer than any in the text.
pub(crate) fn fence(text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().chars().take_while(|c| *c == '`').count()).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

/// Formats a number with its noun, adding a plural `s`.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a size in bytes with a unit.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Formats the age of a moment.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Converts a duration to milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration given in milliseconds.
pub(crate) fn span(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Describes the sandbox for commands in one line.
pub(crate) fn sandbox(state: &SandboxState) -> String {
    if state.mode == "off" {
        return "off: commands have all of your permissions".to_owned();
    }
    let landlock = match state.landlock {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    let calls = if state.seccomp { "system calls filtered" } else { "system calls not filtered" };
    let namespaces = if state.namespaces { "namespaces" } else { "no namespaces" };
    let network = if state.network { "network allowed" } else { "no network" };
    let end = if state.runs { "" } else { "; commands do not run" };
    format!("{}: {landlock}, {calls}, {namespaces}, {network}{end}", state.mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_show_escapes() {
        let rows = [["019", "Größe\x1b[2J\nof it", "3"], ["019ab", "x", "12"]];
        let table = Table::of(["ID", "TITLE", "TURNS"], rows.map(|row| row.map(str::to_owned)));
        insta::assert_snapshot!(anstream::adapter::strip_str(&table.render(usize::MAX)), @r"
        ID     TITLE                 TURNS
        019    Größe\u{1b}[2J⏎of it  3
        019ab  x                     12
        ");
    }

    #[test]
    fn long_last_column_wraps_below_itself() {
        let row = ["now", "Tells the date and the time of day"].map(str::to_owned);
        let table = Table::with_long_end(["TOOL", "WHAT IT DOES"], [row]);
        insta::assert_snapshot!(anstream::adapter::strip_str(&table.render(28)), @r"
        TOOL  WHAT IT DOES
        now   Tells the date and the
              time of day
        ");
    }

    #[test]
    fn cells_continue_on_indented_lines_in_narrow_terminals() {
        let rows =
            [["1", "漢字", "waits for your answer", "Paint it red"], ["2", "barn/", "idle", "Mend the roof of it"]];
        let table = Table::of(["#", "FOLDER", "STATUS", "TITLE"], rows.map(|row| row.map(str::to_owned)));
        let plain = |columns| anstream::adapter::strip_str(&table.render(columns)).to_string();
        insta::assert_snapshot!(plain(36), @r"
        #  FOLDER  STATUS
          TITLE
        1  漢字    waits for your answer
          Paint it red
        2  barn/   idle
          Mend the roof of it
        ");
        insta::assert_snapshot!(plain(16), @r"
        #  FOLDER
          STATUS
          TITLE
        1  漢字
          waits for you…
          Paint it red
        2  barn/
          idle
          Mend the roof
          of it
        ");
        assert!(plain(52).lines().all(|line| width(line) <= 52));
        assert_eq!((plain(52).lines().count(), plain(53).lines().count()), (6, 3));
    }

    #[test]
    fn short_ids_are_unique() {
        #[track_caller]
        fn check(ids: &[&str], short: &[&str]) {
            assert_eq!(short_ids(ids.iter().copied()), short);
        }
        check(&[], &[]);
        check(&["7000-0123456789ab"], &["456789ab"]);
        check(&["7000-0123456789ab", "7000-0123456789ac"], &["456789ab", "456789ac"]);
        check(&["7000-0123456789ab", "7000-0120456789ab"], &["3456789ab", "0456789ab"]);
        check(&["7000-0123456789ab", "7001-0123456789ab"], &["0-0123456789ab", "1-0123456789ab"]);
        check(&["17000-123456789ab", "27000-123456789ab"], &["17000-123456789ab", "27000-123456789ab"]);
        check(&["7a-23456789", "7b-23456789", "7b-23456780"], &["a-23456789", "b-23456789", "b-23456780"]);
        assert_eq!(short_id("7000-0123456789ab"), "456789ab");
    }

    #[test]
    fn times_are_shown_in_relative_words() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        for (then, text) in [
            ("2026-01-02T12:00:05Z", "just now"),
            ("2026-01-02T11:59:30Z", "just now"),
            ("2026-01-02T11:58:00Z", "2 min ago"),
            ("2026-01-02T09:00:00Z", "3 h ago"),
            ("2025-12-30T12:00:00Z", "3 d ago"),
        ] {
            assert_eq!(ago(then.parse().unwrap(), now), text);
        }
        assert_eq!(span(3_723_000), "1 h 2 min");
    }
}
