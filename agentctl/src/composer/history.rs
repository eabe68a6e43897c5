//! Inputs of earlier conversations: a file with one input per line, to which each input is appended when it is sent.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Maximum number of inputs that are loaded.
const MAX_INPUTS: usize = 2_000;
/// Maximum number of bytes that are read from the end of the file.
const MAX_BYTES: u64 = 16 << 20;
/// Line break within an input, as stored in the file.
const LINE_BREAK: &str = "<\\n>";
/// Start of an input that is not stored.
const UNSTORED: char = ' ';

/// Inputs, oldest first, and the one that is shown.
#[derive(Debug, Default)]
pub(crate) struct History {
    inputs: Vec<String>,
    /// `None` if inputs are not stored.
    file: Option<PathBuf>,
    /// Input that is shown instead of the draft.
    shown: Option<usize>,
    draft: String,
}

impl History {
    /// Loads the history. If the file cannot be used, inputs are remembered for this conversation only.
    pub(crate) fn open(path: &Path) -> Self {
        let inputs = load(path).unwrap_or_default();
        let file = append(path, "").is_ok().then(|| path.to_owned());
        Self { inputs, file, ..Self::default() }
    }

    /// Stores an input, unless it starts with a space or repeats the last one.
    pub(crate) fn push(&mut self, input: &str) {
        self.shown = None;
        let is_stored = !(input.trim().is_empty() || input.starts_with(UNSTORED));
        if !is_stored || self.inputs.last().is_some_and(|last| last == input) {
            return;
        }
        // A full disk must not prevent the input from being sent.
        let _ = self.file.as_ref().map(|path| append(path, &format!("{}\n", input.replace('\n', LINE_BREAK))));
        self.inputs.push(input.to_owned());
        if self.inputs.len() > 2 * MAX_INPUTS {
            self.inputs.drain(..MAX_INPUTS);
        }
    }

    /// Returns the input before the shown one, or before the draft.
    pub(crate) fn older(&mut self, text: &str) -> Option<String> {
        let at = self.shown.unwrap_or(self.inputs.len()).checked_sub(1)?;
        if self.shown.is_none() {
            self.draft = text.to_owned();
        }
        self.shown = Some(at);
        Some(self.inputs[at].clone())
    }

    /// Returns the input after the shown one, or the draft after the last one.
    pub(crate) fn newer(&mut self) -> Option<String> {
        let at = self.shown? + 1;
        self.shown = (at < self.inputs.len()).then_some(at);
        Some(match self.shown {
            Some(at) => self.inputs[at].clone(),
            None => std::mem::take(&mut self.draft),
        })
    }

    /// Leaves the history: the next older input is the last one again.
    pub(crate) fn leave(&mut self) {
        self.shown = None;
    }

    /// Returns the input at a position.
    pub(crate) fn input(&self, at: usize) -> Option<&str> {
        self.inputs.get(at).map(String::as_str)
    }

    /// Returns the newest input before `end` that contains the text in any case, with its position.
    pub(crate) fn find(&self, text: &str, end: Option<usize>) -> Option<(usize, &str)> {
        let wanted = text.to_lowercase();
        let end = end.unwrap_or(self.inputs.len());
        let inputs = self.inputs[..end].iter().enumerate().rev();
        let mut found = inputs.filter(|(_, input)| input.to_lowercase().contains(&wanted));
        found.next().map(|(at, input)| (at, input.as_str()))
    }

    /// Returns the rest of the newest input of one line that starts with the text.
    pub(crate) fn hint(&self, text: &str) -> Option<&str> {
        let rests = self.inputs.iter().rev().filter_map(|input| input.strip_prefix(text));
        rests.filter(|rest| !rest.is_empty()).find(|rest| !rest.contains('\n'))
    }
}

/// Reads the newest inputs. Shortens a file that has grown far beyond them.
fn load(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let start = size.saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line is incomplete if the file was not read from its start.
    let lines: Vec<&str> = text.lines().skip(usize::from(start > 0)).collect();
    let newest = &lines[lines.len().saturating_sub(MAX_INPUTS)..];
    if start > 0 || lines.len() > 2 * MAX_INPUTS {
        let _ = shorten(path, newest);
    }
    Ok(newest.iter().map(|line| line.replace(LINE_BREAK, "\n")).collect())
}

fn shorten(path: &Path, newest: &[&str]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    for line in newest {
        writeln!(file, "{line}")?;
    }
    file.persist(path)?;
    Ok(())
}

/// Appends to the file, which only its owner may read. One write, so that inputs of several chats do not mix.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn inputs_are_stored_when_they_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/history");
        let mut history = History::open(&path);
        for input in ["first", "two\nrows", "two\nrows", " secret", "", "last"] {
            history.push(input);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // Read while the first conversation is still open, as after a hang-up.
        let mut later = History::open(&path);
        assert_eq!(later.inputs, ["first", "two\nrows", "last"]);
        later.push("later");
        assert_eq!(History::open(&path).inputs.len(), 4);
    }

    #[test]
    fn inputs_are_found_by_part_and_start() {
        let mut history = History::default();
        for input in ["git status", "Make tests", "git push", "git\nrows"] {
            history.push(input);
        }
        assert_eq!(history.find("GIT ", None), Some((2, "git push")));
        assert_eq!(history.find("git ", Some(2)), Some((0, "git status")));
        assert_eq!(history.find("git ", Some(0)), None);
        assert_eq!(
            (history.hint("git"), history.hint("git s"), history.hint("x")),
            (Some(" push"), Some("tatus"), None)
        );
    }

    #[test]
    fn overgrown_file_is_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let lines: String = (0..3 * MAX_INPUTS).map(|at| format!("input {at}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        assert_eq!(History::open(&path).inputs.len(), MAX_INPUTS);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&format!("input {}\n", 2 * MAX_INPUTS)));
    }
}
