//! Small text files in a session's state, visible to tools in `/state`. State files are stored in the journal, one
//! event per change, and need no files on disk.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, WorkspaceError};

/// Maximum size of one file, in bytes.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// Maximum total size of a session's files, in bytes.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of files in a session.
pub const MAX_FILES: usize = 500;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 512;

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFileChange {
    /// Path relative to `/state`.
    pub path: String,
    /// Whole new content. `None` if the file was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// A file in a session's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// Text of the file.
    pub content: String,
    /// Time of the last write.
    pub changed: Timestamp,
}

/// The files of one session, by their paths relative to `/state`. Cheap to clone because contents are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateFiles {
    files: BTreeMap<String, Arc<StateFile>>,
    bytes: usize,
}

impl StateFiles {
    /// Returns the file at this path.
    pub fn get(&self, path: &str) -> Option<&Arc<StateFile>> {
        self.files.get(path)
    }

    /// Iterates over all files, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<StateFile>)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns true if there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Iterates over the files in a folder at any depth, with paths relative to the folder. An empty path means all
    /// files.
    pub fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &Arc<StateFile>)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let from = self.files.range::<String, _>(prefix.clone()..);
        from.map_while(move |(path, file)| Some((path.strip_prefix(&prefix)?, file)))
    }

    /// Returns true if the path is a folder. Except for the root, folders exist only if they contain a file.
    pub fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || self.below(path).next().is_some()
    }

    /// Applies a change without checking it, because changes in the journal have already happened.
    pub fn apply(&mut self, change: &StateFileChange, at: Timestamp) {
        let before = match &change.content {
            Some(content) => {
                self.bytes += content.len();
                let file = Arc::new(StateFile { content: content.clone(), changed: at });
                self.files.insert(change.path.clone(), file)
            }
            None => self.files.remove(&change.path),
        };
        self.bytes -= before.map_or(0, |file| file.content.len());
    }

    /// Checks a change before the file is changed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with a hint, if the path is invalid, the content is not text, or a limit would be
    /// exceeded.
    pub fn check(&self, change: &StateFileChange) -> Result<(), WorkspaceError> {
        let path = change.path.as_str();
        let refuse = |problem: String, hint: &str| {
            Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("could not write /state/{path}: {problem}"))
                .with_hint(hint))
        };
        let is_valid =
            |part: &str| !matches!(part, "" | "." | "..") && !part.contains(|c: char| c == '\\' || c.is_control());
        if path.len() > MAX_PATH || !path.split('/').all(is_valid) {
            return refuse("invalid path".to_owned(), "use plain names separated by slashes, at most 512 bytes");
        }
        let Some(content) = &change.content else { return Ok(()) };
        let is_below_a_file = path.match_indices('/').any(|(at, _)| self.files.contains_key(&path[..at]));
        if is_below_a_file || self.below(path).next().is_some() {
            return refuse("a file and a folder cannot have the same name".to_owned(), "choose another name");
        }
        if content.contains('\0') {
            return refuse(
                "it contains NUL characters".to_owned(),
                "only text is stored there; write other files to outputs/",
            );
        }
        if content.len() > MAX_FILE_BYTES {
            let problem = format!("it has {} bytes; the maximum is {MAX_FILE_BYTES}", content.len());
            return refuse(problem, "write larger files to outputs/");
        }
        let existing = self.files.get(path);
        if existing.is_none() && self.files.len() >= MAX_FILES {
            return refuse(format!("there are already {MAX_FILES} files"), "combine several notes in one file");
        }
        if self.bytes - existing.map_or(0, |file| file.content.len()) + content.len() > MAX_BYTES {
            let problem = format!("the files there would have more than {MAX_BYTES} bytes in total");
            return refuse(problem, "write some of them to outputs/");
        }
        Ok(())
    }
}

impl FromIterator<(String, StateFile)> for StateFiles {
    fn from_iter<T: IntoIterator<Item = (String, StateFile)>>(files: T) -> Self {
        let files: BTreeMap<_, _> = files.into_iter().map(|(path, file)| (path, Arc::new(file))).collect();
        Self { bytes: files.values().map(|file| file.content.len()).sum(), files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, content: &str) -> StateFileChange {
        StateFileChange { path: path.to_owned(), content: Some(content.to_owned()) }
    }

    fn state_with(files: &[(&str, &str)]) -> StateFiles {
        let mut all = StateFiles::default();
        for (path, content) in files {
            all.apply(&write(path, content), Timestamp::UNIX_EPOCH);
        }
        all
    }

    #[test]
    fn state_file_changes_accumulate() {
        let mut files = state_with(&[("a", "12345"), ("b/c", "1"), ("a", "12"), ("b-c", "x")]);
        assert_eq!((files.bytes, files.get("a").unwrap().content.as_str()), (4, "12"));
        assert_eq!(files.below("b").map(|(path, _)| path).collect::<Vec<_>>(), ["c"]);
        assert_eq!(files.below("").count(), 3);
        assert!(files.is_folder("b") && files.is_folder("") && !files.is_folder("a"));
        for path in ["a", "a", "b/c"] {
            files.apply(&StateFileChange { path: path.to_owned(), content: None }, Timestamp::UNIX_EPOCH);
        }
        assert_eq!((files.bytes, files.iter().count()), (1, 1));
        assert!(!files.is_folder("b"));
        let rebuilt: StateFiles = files.iter().map(|(path, file)| (path.to_owned(), file.as_ref().clone())).collect();
        assert_eq!(rebuilt, files);
    }

    #[test]
    fn invalid_state_writes_are_rejected_with_a_hint() {
        let some = state_with(&[("notes/plan.md", "x"), ("full", &"x".repeat(MAX_FILE_BYTES))]);
        let full_by_count: Vec<String> = (0..MAX_FILES).map(|number| number.to_string()).collect();
        let full_by_count = state_with(&full_by_count.iter().map(|path| (path.as_str(), "x")).collect::<Vec<_>>());
        let full_by_size: Vec<String> = (0..32).map(|number| number.to_string()).collect();
        let whole = "x".repeat(MAX_FILE_BYTES);
        let full_by_size =
            state_with(&full_by_size.iter().map(|path| (path.as_str(), whole.as_str())).collect::<Vec<_>>());
        #[track_caller]
        fn check(files: &StateFiles, path: &str, content: &str, part: Option<&str>) {
            match (files.check(&write(path, content)), part) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => {
                    assert!(error.to_string().contains(part), "{error}");
                    assert!(error.hint().is_some());
                }
                (checked, _) => panic!("{path}: {checked:?}"),
            }
        }
        for path in ["", "/a", "a/", "a//b", "../a", "a/..", "./a", "a\\b", "a\nb", &"x".repeat(513)] {
            check(&some, path, "x", Some("invalid path"));
        }
        check(&some, "notes", "x", Some("the same name"));
        check(&some, "notes/plan.md/a", "x", Some("the same name"));
        check(&some, "notes/plan.md", "y", None);
        check(&some, "a", "\0", Some("NUL"));
        check(&some, "a", &"x".repeat(MAX_FILE_BYTES), None);
        check(&some, "a", &"x".repeat(MAX_FILE_BYTES + 1), Some("bytes"));
        check(&full_by_count, "more", "x", Some("500 files"));
        check(&full_by_count, "7", "xyz", None);
        check(&full_by_size, "more", "x", Some("in total"));
        check(&full_by_size, "7", &whole, None);
        check(&full_by_size, "7", "", None);
    }
}
