//! Undo of a turn's file changes: arguments and reports of `agentctl undo`.

use agentd_core::{
    Timestamp,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::{Ask, AskedBy, Interrupt},
    tool::FileChangeKind,
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoneFile},
    visible,
};

use crate::{
    exit::Exit,
    render::diff::{self, Room},
    report,
    terminal::{BAD, GOOD, QUIET, STRONG, TerminalStyle, note, paint},
};

/// Limit for the diff of a file that was left unchanged. Previews are shown completely.
const CONFLICT_DIFF_ROOM: Room = Room { rows: 200, columns: usize::MAX };

/// Maximum number of lines of a preview above a question, without its summary.
const LINES_ABOVE_QUESTION: usize = 20;
/// Minimum number of rows of a diff that is cut.
const MIN_DIFF_ROWS: usize = 3;

/// Parses a turn number or id.
///
/// # Errors
/// Fails if the text is neither a turn number nor an id.
pub(crate) fn turn(text: &str) -> Result<TurnChoice, String> {
    let number = text.parse().ok().filter(|number| *number > 0).map(TurnChoice::Number);
    let id = || text.parse::<TurnId>().ok().map(TurnChoice::Id);
    number.or_else(id).ok_or_else(|| format!("{text:?} is neither the number of a turn nor the id of one"))
}

/// Prints a report per file, with diffs for previews and for changes that were not made.
pub(crate) fn print(report: &UndoReport) -> anyhow::Result<()> {
    report::lines(lines(report, Some(Room::WITHOUT_END), TerminalStyle::detect().out_color))
}

/// Prints a preview that is cut, so that it stays on the screen with the question below it.
pub(crate) fn print_above_question(report: &UndoReport) -> anyhow::Result<()> {
    report::lines(short_lines(report, TerminalStyle::detect().out_color))
}

fn short_lines(report: &UndoReport, color: bool) -> Vec<String> {
    let whole = lines(report, Some(Room::WITHOUT_END), color);
    if whole.len() <= LINES_ABOVE_QUESTION + 1 {
        return whole;
    }
    // Each file has a line for its path, and a share of the rows for its diff.
    let rows = (LINES_ABOVE_QUESTION / report.files.len().max(1)).saturating_sub(1);
    let room = (rows >= MIN_DIFF_ROWS).then_some(Room { rows, columns: usize::MAX });
    let mut lines = lines(report, room, color);
    if lines.len() > LINES_ABOVE_QUESTION + 1 {
        let summary = lines.pop();
        let left_out = lines.len() - LINES_ABOVE_QUESTION;
        lines.truncate(LINES_ABOVE_QUESTION);
        lines.push(format!("… {}", report::count(left_out, "more path")));
        lines.extend(summary);
    }
    lines
}

/// Like `print`, but on standard error, for commands that use standard output for something else.
pub(crate) fn print_stderr(report: &UndoReport) {
    for line in lines(report, Some(Room::WITHOUT_END), TerminalStyle::detect().err_color) {
        note(&line);
    }
}

/// Returns the lines of a report. `room` limits each diff of a preview; without it, no diffs are shown.
fn lines(report: &UndoReport, room: Option<Room>, color: bool) -> Vec<String> {
    let room = if report.preview { room } else { Some(CONFLICT_DIFF_ROOM) };
    let mut lines = Vec::new();
    for file in &report.files {
        let (mark, style) = match file.outcome {
            UndoOutcome::Done => ("✓", GOOD),
            UndoOutcome::Already => ("·", QUIET),
            UndoOutcome::Conflict | UndoOutcome::Failed => ("✗", BAD),
        };
        let path = paint(color, STRONG, &visible::line(&file.path));
        lines.push(format!("{} {path}: {}", paint(color, style, mark), outcome_text(file, report.preview)));
        let is_left = matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed);
        if let (Some(diff), Some(room)) = (file.diff.as_deref().filter(|_| report.preview || is_left), room) {
            lines.extend(diff::preview(diff, room, color).into_iter().map(|line| format!("  {line}")));
        }
    }
    lines.push(summary(report));
    lines
}

fn outcome_text(file: &UndoneFile, preview: bool) -> String {
    let reason = || file.reason.as_deref().map(visible::line).unwrap_or_default();
    let done = match (file.outcome, file.change) {
        (UndoOutcome::Already, _) => return "already restored".to_owned(),
        (UndoOutcome::Conflict, _) => return format!("left alone, {}", reason()),
        (UndoOutcome::Failed, _) => return format!("failed, {}", reason()),
        (UndoOutcome::Done, FileChangeKind::Created) if preview => "will be recreated",
        (UndoOutcome::Done, FileChangeKind::Modified) if preview => "will be restored",
        (UndoOutcome::Done, FileChangeKind::Deleted) if preview => "will be removed",
        (UndoOutcome::Done, FileChangeKind::Created) => "recreated",
        (UndoOutcome::Done, FileChangeKind::Modified) => "restored",
        (UndoOutcome::Done, FileChangeKind::Deleted) => "removed",
    };
    if file.reason.is_some() { format!("{done}, but {}", reason()) } else { done.to_owned() }
}

/// Returns a summary of the report in one line.
pub(crate) fn summary(report: &UndoReport) -> String {
    let number = |outcome| report.files.iter().filter(|file| file.outcome == outcome).count();
    let [done, conflicts, failed] = [UndoOutcome::Done, UndoOutcome::Conflict, UndoOutcome::Failed].map(number);
    let verb = match (report.redo, report.preview) {
        (false, false) => "undone",
        (false, true) => "would be undone",
        (true, false) => "redone",
        (true, true) => "would be redone",
    };
    let left = (conflicts > 0).then(|| format!("{} left alone", report::count(conflicts, "conflict")));
    let failed = (failed > 0).then(|| format!("{failed} failed"));
    let done = format!("turn {}: {} {verb}", report.turn, report::count(done, "path"));
    std::iter::once(done).chain(left).chain(failed).collect::<Vec<_>>().join(", ")
}

/// Returns the exit code of a report.
pub(crate) fn exit(report: &UndoReport) -> Exit {
    if report.is_whole() { Exit::Done } else { Exit::Failed }
}

/// Builds the question that asks for confirmation of a previewed undo.
pub(crate) fn question(session_id: SessionId, preview: &UndoReport) -> Interrupt {
    Interrupt {
        id: InterruptId::generate(),
        session_id,
        turn_id: preview.turn_id,
        call_id: None,
        asked_by: AskedBy::default(),
        ask: Ask::Question {
            secret: false,
            question: format!("Undo turn {}? y/n", preview.turn),
            context: None,
            default: Some("n".to_owned()),
            required: false,
            choices: Vec::new(),
        },
        raised_at: Timestamp::now(),
        deadline: None,
        on_deadline: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, change: FileChangeKind, outcome: UndoOutcome) -> UndoneFile {
        let is_left = matches!(outcome, UndoOutcome::Conflict);
        UndoneFile {
            path: path.to_owned(),
            change,
            outcome,
            reason: is_left.then(|| "it has been changed since".to_owned()),
            diff: Some("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-new\n+old\n".to_owned()),
        }
    }

    fn report(preview: bool) -> UndoReport {
        UndoReport {
            turn_id: "0193a5b2-7c1d-7000-8000-000000000003".parse().unwrap(),
            turn: 3,
            redo: false,
            preview,
            files: vec![
                file("outputs/a.txt", FileChangeKind::Modified, UndoOutcome::Done),
                file("outputs/b\u{1b}[2J.txt", FileChangeKind::Deleted, UndoOutcome::Done),
                file("outputs/c.txt", FileChangeKind::Created, UndoOutcome::Already),
                file("outputs/d.txt", FileChangeKind::Modified, UndoOutcome::Conflict),
            ],
        }
    }

    #[test]
    fn undo_report_shows_diffs_of_previews_and_conflicts() {
        insta::assert_snapshot!(lines(&report(false), None, false).join("\n"), @r"
        ✓ outputs/a.txt: restored
        ✓ outputs/b\u{1b}[2J.txt: removed
        · outputs/c.txt: already restored
        ✗ outputs/d.txt: left alone, it has been changed since
            --- a/x
            +++ b/x  +1 −1
            @@ -1 +1 @@
          1 -new
          1 +old
        turn 3: 2 paths undone, 1 conflict left alone
        ");
        let foreseen = lines(&report(true), Some(Room::WITHOUT_END), false);
        assert_eq!(foreseen[0], "✓ outputs/a.txt: will be restored");
        assert_eq!(foreseen[1], "    --- a/x");
        assert_eq!(foreseen.last().unwrap(), "turn 3: 2 paths would be undone, 1 conflict left alone");
    }

    #[test]
    fn preview_above_a_question_is_cut() {
        let added: String = (1..=400).map(|number| format!("+line {number}\n")).collect();
        let shown = |files: usize| {
            let long = UndoneFile {
                diff: Some(format!("--- a/x\n+++ b/x\n@@ -0,0 +1,400 @@\n{added}")),
                ..file("outputs/a.txt", FileChangeKind::Modified, UndoOutcome::Done)
            };
            short_lines(&UndoReport { files: vec![long; files], ..report(true) }, false)
        };
        for (files, last) in [(1, "… 385 more lines"), (4, "… 400 more lines"), (5, "… 401 more lines")] {
            let shown = shown(files);
            assert_eq!(shown.len(), 21, "{shown:?}");
            assert!(shown[19].contains(last), "{shown:?}");
        }
        assert_eq!(shown(10).len(), 11, "without diffs");
        let many = shown(30);
        assert_eq!((many.len(), many[20].as_str()), (22, "… 10 more paths"));
        assert_eq!(many[21], "turn 3: 30 paths would be undone");
    }

    #[test]
    fn turns_are_named_by_number_or_id() {
        assert_eq!(turn("12"), Ok(TurnChoice::Number(12)));
        assert!(matches!(turn("0193a5b2-7c1d-7000-8000-000000000003"), Ok(TurnChoice::Id(_))));
        for text in ["0", "-1", "last", ""] {
            assert!(turn(text).is_err(), "{text}");
        }
    }
}
