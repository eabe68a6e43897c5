//! Programs that run unasked, inside walls.

use std::{collections::BTreeMap, ffi::OsString, os::fd::OwnedFd, path::PathBuf};

use futures_util::future::BoxFuture;

/// Starts programs inside the walls of commands: no network, a clean environment, nothing to be written but temporary files
/// of their own.
pub trait Confiner: Send + Sync {
    /// Starts a program. It reads its input and writes its output until it ends.
    ///
    /// # Errors
    /// The walls cannot be had, and nothing runs without them.
    fn start(&self, program: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>>;

    /// Files of secrets and folders of them below a folder, as they are now.
    ///
    /// # Errors
    /// The folder has too many files to be searched.
    fn secrets(&self, folder: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>>;
}

/// A file or folder that holds secrets. One that took the place of another one at its path is a different one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its device and its number there.
    pub inode: (u64, u64),
}

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedProgram {
    /// Absolute path of its file, or its name, which is looked for inside the walls.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Absolute path of the folder that it may read.
    pub folder: PathBuf,
    /// Files and folders in it that it may not read.
    pub hidden: Vec<PathBuf>,
    /// Further variables of its environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Memory that each of its processes may write to, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A program that runs. Dropping `ended` kills it with all that it started.
pub struct ConfinedProcess {
    /// The folder under the name by which the program knows it.
    pub folder: PathBuf,
    /// Write end of its standard input.
    pub input: OwnedFd,
    /// Read end of its standard output.
    pub output: OwnedFd,
    /// Resolves when it has ended.
    pub ended: BoxFuture<'static, ProgramEnd>,
}

/// End of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Manner of it, in words: `exit code 1`.
    pub how: String,
    /// Set if it never ran, and no later try can help while the settings stay.
    pub lasting: bool,
}

/// Reason why a program did not start, in one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfineError {
    /// The sentence.
    pub message: String,
    /// Set if no later try can help while the settings stay.
    pub lasting: bool,
}
