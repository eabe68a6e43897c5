//! Answers of git, as bytes: nothing is guessed of them.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use agentd_core::error::{ErrorKind, WorkspaceError};

/// Lines of git's own words that are told.
const TOLD_LINES: usize = 6;

/// Outcome of a call.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: i32,
    pub(super) bytes: Vec<u8>,
    /// True if the bytes are the beginning only.
    pub(super) is_cut: bool,
    pub(super) said: String,
}

impl GitOutput {
    /// The only line.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }

    /// The parts of an output that zeros end.
    ///
    /// # Errors
    /// When it was too long: what is missing would be taken for what is not there.
    pub(super) fn parts(&self) -> Result<Vec<&[u8]>, WorkspaceError> {
        if self.is_cut {
            return Err(WorkspaceError::new(ErrorKind::Conflict, "git lists too much to be read")
                .with_hint("the repository has too many files or settings for worktrees here: work in a clone"));
        }
        Ok(self.bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect())
    }

    /// The same, where they are paths.
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>, WorkspaceError> {
        Ok(self.parts()?.into_iter().map(path).collect())
    }

    /// The lines among git's own words with one of these in it, of which a few are told.
    pub(super) fn complaints(&self, words: &[&str]) -> String {
        let lines = self.said.lines().filter(|line| words.iter().any(|word| line.contains(word)));
        lines.take(TOLD_LINES).collect::<Vec<_>>().join("; ")
    }

    /// The last words of git.
    pub(super) fn told(&self) -> String {
        let lines: Vec<&str> = self.said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let told = lines[lines.len().saturating_sub(TOLD_LINES)..].join("; ");
        if told.is_empty() { format!("it ended with {}", self.code) } else { told }
    }
}

/// A path as git writes it, in whatever encoding.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// One file of a comparison of two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    pub(super) had: TreeEntry,
    pub(super) wanted: TreeEntry,
}

/// A file as a tree has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    mode: String,
    pub(super) object: String,
}

impl TreeEntry {
    /// True if the tree has no such file.
    pub(super) fn is_none(&self) -> bool {
        self.mode == "000000"
    }

    /// True for a reference to a commit of another repository.
    pub(super) fn is_repository(&self) -> bool {
        self.mode == "160000"
    }
}

/// The files of `diff-tree --raw -z`.
pub(super) fn changes(output: &GitOutput) -> Result<Vec<FileChange>, WorkspaceError> {
    let parts = output.parts()?;
    let read = |pair: &[&[u8]]| {
        let [about, name] = pair else { return None };
        let about = std::str::from_utf8(about).ok()?.strip_prefix(':')?;
        let mut words = about.split(' ').map(str::to_owned);
        let (before, after) = (words.next()?, words.next()?);
        let had = TreeEntry { mode: before, object: words.next()? };
        let wanted = TreeEntry { mode: after, object: words.next()? };
        Some(FileChange { path: path(name), had, wanted })
    };
    parts.chunks(2).map(read).collect::<Option<_>>().ok_or_else(|| {
        WorkspaceError::new(ErrorKind::Internal, "git compares in a form that is not known")
            .with_hint("is the git that the daemon finds a usual one?")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: &[u8], is_cut: bool) -> GitOutput {
        GitOutput { code: 0, bytes: bytes.to_vec(), is_cut, said: String::new() }
    }

    #[test]
    fn names_are_bytes_and_a_list_that_is_cut_is_none() {
        assert_eq!(output(b"a\0b c\0", false).paths().unwrap(), [PathBuf::from("a"), "b c".into()]);
        let latin = output(b"caf\xe9\0", false).paths().unwrap();
        assert_eq!(latin[0].as_os_str().as_bytes(), b"caf\xe9");
        assert!(output(b"a\0b", true).parts().unwrap_err().hint().is_some());
    }

    #[test]
    fn comparisons_are_read() {
        let found = changes(&output(b":100644 160000 aa bb M\0x y\0:000000 100644 00 cc A\0z\0", false)).unwrap();
        assert_eq!((found[0].path.to_str(), found[0].wanted.is_repository()), (Some("x y"), true));
        assert_eq!((found[1].had.is_none(), found[1].wanted.object.as_str()), (true, "cc"));
        assert!(changes(&output(b"odd\0", false)).is_err());
    }
}
