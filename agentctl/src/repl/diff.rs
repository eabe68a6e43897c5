//! `/diff`: the changes that the turns of a session made to files.
//!
//! The daemon previews how the changes would be undone. The reversed preview is the diff of the changes.

use agentd_core::{
    tool::FileChangeKind,
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile},
    visible,
};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    daemon,
    exit::Exit,
    render::diff::{self, Room},
    report::count,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, paint},
    },
};

impl Chat {
    /// Shows the changes of one turn, or of all turns together, in the pager.
    pub(super) async fn diff(&mut self, turn: TurnChoice) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let request = UndoRequest { turn: Some(turn), redo: false, preview: true, client: daemon::CLIENT.to_owned() };
        let report = self.daemon.client.undo(&id.to_string(), &request).await?;
        let lines = lines(&report, TerminalStyle::detect().out_color);
        self.page(lines.join("\n") + "\n").await?;
        let of = match turn {
            TurnChoice::All => "this session".to_owned(),
            TurnChoice::Number(_) | TurnChoice::Id(_) | TurnChoice::Since(_) => format!("turn {}", report.turn),
        };
        self.note(&format!("{of} changed {}", count(report.files.len() as u64, "path")));
        Ok(Exit::Done)
    }
}

fn lines(report: &UndoReport, color: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &report.files {
        let path = paint(color, STRONG, &visible::line(&file.path));
        lines.push(format!("{path}: {}", told(file)));
        if let Some(diff) = file.diff.as_deref().filter(|_| file.outcome == UndoOutcome::Done) {
            lines.extend(diff::preview(&forward(diff), Room::WITHOUT_END, color));
        }
        lines.push(String::new());
    }
    if report.files.iter().any(|file| file.outcome == UndoOutcome::Conflict) {
        lines.push(paint(color, QUIET, "What was changed since is not shown; /diff shows all turns together."));
    }
    lines
}

fn told(file: &UndoneFile) -> String {
    let reason = || file.reason.as_deref().map(visible::line).unwrap_or_default();
    let did = match file.change {
        FileChangeKind::Deleted => "created",
        FileChangeKind::Modified => "changed",
        FileChangeKind::Created => "removed",
    };
    match file.outcome {
        UndoOutcome::Done => did.to_owned(),
        UndoOutcome::Already => format!("{did}, and taken back since"),
        UndoOutcome::Conflict | UndoOutcome::Failed => format!("{did}; not shown: {}", reason()),
    }
}

/// Reverses a unified diff.
fn forward(diff: &str) -> String {
    let mut way = Way::default();
    let mut lines = diff.lines();
    while let Some(line) = lines.next() {
        if !way.is_in_hunk && line.starts_with("--- ") {
            let new = lines.next().and_then(|line| line.strip_prefix("+++ ")).unwrap_or_default();
            way.header(&line["--- ".len()..], new);
        } else {
            way.line(line);
        }
    }
    way.flush();
    way.text
}

/// Reversed diff, as far as it was read.
#[derive(Debug, Default)]
struct Way {
    text: String,
    is_in_hunk: bool,
    /// Changed lines in a row with the notes below them, each with true if it is added.
    changes: Vec<(bool, String)>,
}

impl Way {
    fn header(&mut self, old: &str, new: &str) {
        let as_old = new.strip_prefix("b/").map_or_else(|| new.to_owned(), |name| format!("a/{name}"));
        let as_new = old.strip_prefix("a/").map_or_else(|| old.to_owned(), |name| format!("b/{name}"));
        self.text.push_str(&format!("--- {as_old}\n+++ {as_new}\n"));
    }

    fn line(&mut self, line: &str) {
        match line.as_bytes() {
            [b'@', b'@', b' ', ..] => {
                self.flush();
                self.is_in_hunk = true;
                self.text.push_str(&(ranges_swapped(line).unwrap_or_else(|| line.to_owned()) + "\n"));
            }
            [b'+', ..] if self.is_in_hunk => self.changes.push((false, format!("-{}", &line[1..]))),
            [b'-', ..] if self.is_in_hunk => self.changes.push((true, format!("+{}", &line[1..]))),
            // A note is about the line above it.
            [b'\\', ..] if self.is_in_hunk && !self.changes.is_empty() => {
                let is_added = self.changes.last().is_some_and(|(is_added, _)| *is_added);
                self.changes.push((is_added, line.to_owned()));
            }
            _ => {
                self.flush();
                let line = match line {
                    "(an empty file goes)" => "(a new, empty file)",
                    "(a new, empty file)" => "(an empty file goes)",
                    // The rest is about the content that an undo would leave.
                    line if line.starts_with("(binary content: ") => "(binary content)",
                    line => line,
                };
                self.text.push_str(&(modes_swapped(line).unwrap_or_else(|| line.to_owned()) + "\n"));
            }
        }
    }

    fn flush(&mut self) {
        // Stable: removed lines come first, each part in its order.
        self.changes.sort_by_key(|(is_added, _)| *is_added);
        self.text.extend(self.changes.drain(..).map(|(_, line)| line + "\n"));
    }
}

/// Turns `@@ -1,2 +3,4 @@ name` into `@@ -3,4 +1,2 @@ name`.
fn ranges_swapped(line: &str) -> Option<String> {
    let (ranges, name) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    Some(format!("@@ -{new} +{old} @@{name}"))
}

/// Turns `mode 0644 → 0755` into `mode 0755 → 0644`.
fn modes_swapped(line: &str) -> Option<String> {
    let (old, new) = line.strip_prefix("mode ")?.split_once(" → ")?;
    Some(format!("mode {new} → {old}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_diff_is_the_reversed_undo_diff() {
        #[track_caller]
        fn check(back: &str, there: &str) {
            assert_eq!(forward(back), there);
            assert_eq!(forward(there), back, "and back again");
        }
        check(
            "--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,2 @@ fn a()\n same\n-new 1\n-new 2\n+old\n same\n@@ -9 +8 @@\n-b\n+a\n",
            "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,3 @@ fn a()\n same\n-old\n+new 1\n+new 2\n same\n@@ -8 +9 @@\n-a\n+b\n",
        );
        check("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n");
        check("--- a/x\n+++ /dev/null\n(an empty file goes)\n", "--- /dev/null\n+++ b/x\n(a new, empty file)\n");
        check("mode 0755 → 0644\n", "mode 0644 → 0755\n");
        let binary = forward("--- a/x\n+++ /dev/null\n(binary content: 0 bytes after; version 1a is replaced)\n");
        assert_eq!(binary, "--- /dev/null\n+++ b/x\n(binary content)\n");
        check(
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-new\n\\ No newline at end of file\n+old\n",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n\\ No newline at end of file\n",
        );
        // What looks like a header in a file is none.
        check("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a\n+++ b\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-++ b\n+-- a\n");
    }
}
