//! The reviewed change: its diff as git prints it, and the files of its new and old state, in which the places of
//! findings must exist.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    path::{Component, Path},
    process::{Command, Stdio},
};

use agentd_core::session::Mount;
use agentd_proto::MAX_UPLOAD_BYTES;

use crate::{failure::Failure, mount::MountArg, report::count, session::Upload, terminal::note};

/// Name of the diff in the session's uploads.
const FILE_NAME: &str = "review.diff";

/// Settings of git for every call: names are readable, and no program of the repository's configuration runs.
const SETTINGS: [&str; 6] =
    ["-c", "core.quotePath=false", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];

/// Variables of git for every call. Missing objects are not fetched: the repository names the programs for that.
const VARIABLES: [(&str, &str); 4] =
    [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", ""), (NO_FILTER, "")];

/// Variable with the value of the settings of filters.
const NO_FILTER: &str = "AGENTD_NO_FILTER";

/// Arguments of `git diff`. The form of the diff does not depend on the configuration, and no program of it runs. In
/// the folder of a submodule, git would run with the configuration there.
const DIFF: [&str; 10] = [
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--submodule=short",
    "--ignore-submodules=dirty",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "-O/dev/null",
];

/// A change in a git repository.
#[derive(Debug)]
pub(super) struct Change {
    /// Root of the repository's files.
    pub(super) mount: Mount,
    /// Description of the change in words.
    pub(super) name: String,
    /// Prefixes of git's names for the files of the change: first of the new state, last of the old one.
    states: Vec<String>,
    /// True if the new state consists of the files on disk.
    is_on_disk: bool,
    diff: Vec<u8>,
}

impl Change {
    /// Finds the change between two revisions, of the staged files, or of all uncommitted files.
    ///
    /// # Errors
    /// Fails if the current folder is not in a repository with own files, a revision is unknown, or git cannot be run.
    pub(super) fn find(range: Option<&str>, staged: bool) -> Result<Self, Failure> {
        let root = line(git(Path::new("."), &["rev-parse", "--show-toplevel"])?);
        if !Path::new(&root).join(".git").exists() {
            // Its settings could name the home folder.
            return Err(Failure::usage(format!("the repository names a folder of files that is not its own: {root}"))
                .hint("see `git config core.worktree`; run it in a clone"));
        }
        // Without a mode, a colon in the path could be read as one.
        let mount = format!("{root}:ro").parse::<MountArg>().map_err(Failure::usage)?.resolve(None)?;
        let folder = &mount.path;
        let (name, states, revisions) = match (range, staged) {
            (Some(range), _) => {
                let (old, new) = ends(folder, range)?;
                (range.to_owned(), vec![format!("{new}:"), format!("{old}:")], vec![old, new])
            }
            (None, true) => {
                ("staged changes".to_owned(), vec![":0:".to_owned(), "HEAD:".to_owned()], vec!["--cached".to_owned()])
            }
            (None, false) => {
                let head = commit(folder, "HEAD")?;
                ("uncommitted changes".to_owned(), vec![format!("{head}:")], vec![head])
            }
        };
        let filters = without_filters(folder)?;
        let arguments =
            filters.iter().map(String::as_str).chain(DIFF).chain(revisions.iter().map(String::as_str)).chain(["--"]);
        let diff = git(folder, &arguments.collect::<Vec<_>>())?;
        let is_on_disk = range.is_none() && !staged;
        Ok(Self { mount, name, states, is_on_disk, diff })
    }

    /// Notes files that the change does not contain because git does not track them.
    pub(super) fn note_untracked(&self) {
        let list = ["ls-files", "--others", "--exclude-standard", "-z"];
        let untracked = if self.is_on_disk { git(&self.mount.path, &list).unwrap_or_default() } else { Vec::new() };
        let number = untracked.iter().filter(|byte| **byte == 0).count();
        if number > 0 {
            note(&format!("without {}; `git add` and --staged include them", count(number as u64, "untracked file")));
        }
    }

    /// Returns true if nothing has changed.
    pub(super) fn is_empty(&self) -> bool {
        self.diff.is_empty()
    }

    /// Returns the diff as a file for the session.
    ///
    /// # Errors
    /// Fails if the diff is too large, or the temporary file cannot be written.
    pub(super) fn upload(&self) -> Result<Upload, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::of_file("create a folder in", &std::env::temp_dir()))?;
        let path = folder.path().join(FILE_NAME);
        fs::write(&path, &self.diff).map_err(Failure::of_file("write", &path))?;
        Upload::open(&path)
    }

    /// Returns the number of lines of a file in the new state, or in the old one if the change deletes the file. `path`
    /// comes from a model.
    pub(super) fn lines(&self, path: &str) -> Option<u64> {
        let on_disk = if self.is_on_disk { self.read(path) } else { None };
        let folder = &self.mount.path;
        let in_git =
            || self.states.iter().find_map(|at| git(folder, &["cat-file", "blob", &format!("{at}{path}")]).ok());
        let content = on_disk.or_else(in_git)?;
        let ends = content.iter().filter(|byte| **byte == b'\n').count();
        Some((ends + usize::from(!content.ends_with(b"\n"))) as u64)
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let (root, path) = (&self.mount.path, Path::new(path));
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then_some(())?;
        let file = fs::canonicalize(root.join(path)).ok().filter(|file| file.starts_with(root) && file.is_file())?;
        let mut content = Vec::new();
        File::open(file).ok()?.take(MAX_UPLOAD_BYTES as u64).read_to_end(&mut content).ok()?;
        Some(content)
    }
}

/// Returns the commits that a range compares, the old one first.
fn ends(folder: &Path, range: &str) -> Result<(String, String), Failure> {
    let (old, new, from_base) = match (range.split_once("..."), range.split_once("..")) {
        (Some((old, new)), _) => (old, new, true),
        (None, Some((old, new))) => (old, new, false),
        (None, None) => {
            return Err(Failure::usage(format!("{range:?} does not name two revisions"))
                .hint("write main..HEAD, or HEAD~1..HEAD for the last commit"));
        }
    };
    let (old, new) = (commit(folder, old)?, commit(folder, new)?);
    if !from_base {
        return Ok((old, new));
    }
    let base = git(folder, &["merge-base", &old, &new]).map_err(|_| {
        Failure::usage(format!("the revisions of {range:?} have no common ancestor here"))
            .hint("a shallow clone lacks it: fetch the whole history, or compare with two dots")
    })?;
    Ok((line(base), new))
}

/// Returns the id of the commit that a revision names. An empty name means `HEAD`, as in git.
fn commit(folder: &Path, name: &str) -> Result<String, Failure> {
    let name = if name.is_empty() { "HEAD" } else { name };
    let id = git(folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
    id.map(line).map_err(|_| {
        Failure::usage(format!("unknown revision {name:?}"))
            .hint("name one that `git log` shows; a shallow clone has only its last commits")
    })
}

/// Returns the arguments of git that turn off all filters, which git would run on changed files.
fn without_filters(folder: &Path) -> Result<Vec<String>, Failure> {
    let names = String::from_utf8(git(folder, &["config", "--list", "--name-only", "-z"])?).map_err(|_| {
        Failure::usage("git's settings have names that are not UTF-8").hint("see `git config --list --show-origin`")
    })?;
    let names = names.split('\0').filter(|name| name.starts_with("filter."));
    Ok(names.map(|name| format!("--config-env={name}={NO_FILTER}")).collect())
}

/// Returns git's output without the line break at its end.
fn line(output: Vec<u8>) -> String {
    let text = String::from_utf8_lossy(&output).into_owned();
    text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
}

/// Runs git and returns its output, cut behind the largest size of a file that can be uploaded.
///
/// # Errors
/// Fails with git's message, or if git cannot be run.
fn git(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::usage(format!("could not run git: {error}")).hint("install git");
    // A pipe could fill up with warnings while the output is read.
    let mut errors = tempfile::tempfile().map_err(failed)?;
    let mut child = Command::new("git")
        .args(SETTINGS)
        .args(arguments)
        .current_dir(folder)
        .envs(VARIABLES)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        // Closing the pipe ends a git that would print more.
        stdout.take(MAX_UPLOAD_BYTES as u64 + 1).read_to_end(&mut output).map_err(failed)?;
    }
    if child.wait().map_err(failed)?.success() || output.len() > MAX_UPLOAD_BYTES {
        return Ok(output);
    }
    let mut message = Vec::new();
    errors.rewind().map_err(failed)?;
    errors.take(4096).read_to_end(&mut message).map_err(failed)?;
    let command = arguments.iter().find(|argument| !argument.starts_with('-')).copied().unwrap_or_default();
    Err(Failure::usage(format!("git {command}: {}", String::from_utf8_lossy(&message).trim()))
        .hint("run it in a clone of the repository that the change belongs to; a partial clone lacks files"))
}
