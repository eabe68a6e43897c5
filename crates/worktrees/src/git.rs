//! Runs git in the command sandbox. Git only uses the repository's own settings, except those that name a program, and
//! can only access the folders that a call needs. Settings that name programs are detected and overridden. Output is
//! treated as bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    policy::Confinement,
    ports::CallProgress,
};
use agentd_sandbox::{
    host::Sandbox,
    process::{self, CommandEnd, OutputForm, RunError, Script},
};
use agentd_workspace::{failure::refused, private};
use tokio_util::sync::CancellationToken;

use crate::record::{GitPlace, Result, accessible, conflict, missing, storage};

/// Time limit for a git call.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for a call that writes a tree, because writing a large tree is slow.
const TREE_TIMEOUT: Duration = Duration::from_secs(600);
/// Commands that write a tree.
const TREE_COMMANDS: [&str; 3] = ["worktree", "merge", "checkout-index"];
/// Oldest version of git with all features used here.
const MIN_VERSION: (u32, u32) = (2, 38);
/// Maximum number of output bytes that are read.
pub(super) const MAX_OUTPUT: usize = 16 << 20;
/// Folder in which git is started. All paths are passed explicitly.
const START: &str = "/usr";
/// Subfolder for git's temporary files.
const TEMP: &str = "temp";

/// Settings that override those of the repository. All settings that name a program are disabled. Settings with
/// variable names, such as filters, are detected by [`Git::override_programs`].
const SETTINGS: [&str; 24] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.sparseCheckout=false",
    "core.trustctime=true",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=true",
    "core.sshCommand=false",
    "core.askPass=false",
    "commit.gpgSign=false",
    "gpg.program=false",
    "merge.verifySignatures=false",
    "merge.renormalize=false",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=dirty",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Runs git with restricted settings.
#[derive(Debug)]
pub(super) struct Git {
    pub(super) scratch: PathBuf,
    pub(super) sandbox: Option<Arc<Sandbox>>,
    /// Folders with programs, as in `PATH`.
    pub(super) path: OsString,
    /// The user's own settings; only the name and the mail address are read.
    pub(super) config: Option<PathBuf>,
}

impl Git {
    /// Checks that git is installed.
    pub(super) fn check(&self) -> Result<()> {
        let is_program = |path: PathBuf| {
            fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        if std::env::split_paths(&self.path).any(|folder| folder.is_absolute() && is_program(folder.join("git"))) {
            return Ok(());
        }
        Err(missing(
            "worktrees need git, which is not installed",
            "install git, and make sure that it is in the daemon's PATH",
        ))
    }

    /// Checks that git is new enough to merge without a work tree.
    pub(super) async fn check_version(&self, place: &GitPlace) -> Result<()> {
        let version = self.run(place, &["version"]).await?.line();
        let mut numbers = version.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
        let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) if (major, minor) < MIN_VERSION => {
                let message =
                    format!("worktrees need git {}.{} or newer, found {version}", MIN_VERSION.0, MIN_VERSION.1);
                Err(missing(message, "install a newer git"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path of a temporary file.
    pub(super) fn scratch_file(&self, name: &str) -> Result<PathBuf> {
        Ok(self.scratch_folder().map_err(broken)?.join(TEMP).join(name))
    }

    /// Returns the folder for the files of a merge from the named worktree.
    pub(super) fn merge_folder(&self, name: &str) -> Result<PathBuf> {
        self.fresh_folder(&format!("{name}.merge"), broken)
    }

    /// Returns the folder for temporary objects of the named worktree.
    pub(super) fn objects_folder(&self, name: &str) -> Result<PathBuf> {
        self.fresh_folder(&format!("{name}.objects"), |error| storage("create a folder for git", error))
    }

    fn fresh_folder(&self, name: &str, failed: fn(io::Error) -> WorkspaceError) -> Result<PathBuf> {
        let folder = self.scratch_file(name)?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }

    fn scratch_folder(&self) -> io::Result<PathBuf> {
        private::folder(&self.scratch.join(TEMP))?;
        self.scratch.canonicalize()
    }

    /// Runs git. Returns an error if the exit code is not zero.
    pub(super) async fn succeeds<A: AsRef<OsStr> + Sync>(
        &self,
        place: &GitPlace,
        args: &[A],
        doing: &str,
    ) -> Result<GitOutput> {
        let output = self.run(place, args).await?;
        if output.code == 0 {
            return Ok(output);
        }
        let message = format!("git could not {doing}: {}", output.last_lines());
        Err(conflict(message, "check `git status` in the repository, and try again"))
    }

    /// Resolves a name to a commit. Returns `None` if the name does not exist.
    pub(super) async fn commit(&self, place: &GitPlace, name: &str) -> Result<Option<String>> {
        let found = self.run(place, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).await?;
        Ok(Some(found.line()).filter(|_| found.code == 0))
    }

    pub(super) async fn is_ancestor(&self, main: &GitPlace, of: &str, commit: &str) -> Result<bool> {
        Ok(self.run(main, &["merge-base", "--is-ancestor", of, commit]).await?.code == 0)
    }

    /// Runs git. Any exit code is accepted.
    pub(super) async fn run<A: AsRef<OsStr> + Sync>(&self, place: &GitPlace, args: &[A]) -> Result<GitOutput> {
        self.check()?;
        let scratch = self.scratch_folder().map_err(broken)?;
        let mut command: Vec<OsString> = ["git", "--no-pager", "--no-replace-objects"].map(OsString::from).into();
        for setting in SETTINGS {
            command.extend(["-c".into(), OsString::from(setting)]);
        }
        command.extend(["-C".into(), place.work_tree.as_os_str().to_owned()]);
        command.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let writes_tree =
            args.first().is_some_and(|first| TREE_COMMANDS.iter().any(|command| first.as_ref() == *command));
        let timeout = if writes_tree { TREE_TIMEOUT } else { TIMEOUT };
        let script = Script {
            command,
            folder: fs::File::open(START).map_err(broken)?.into(),
            environment: self.environment(place, &scratch),
            timeout,
            output_cap: MAX_OUTPUT,
            output: OutputForm::Bytes,
            confinement: Confinement::Usual,
            closed: Default::default(),
            progress: CallProgress::default(),
        };
        let outcome =
            process::run(script, &accessible(place, scratch), self.sandbox.as_deref(), &CancellationToken::new()).await;
        let outcome = outcome.map_err(|error| match error {
            RunError::Io(error) => broken(error),
            RunError::Refused(reason) => {
                WorkspaceError::new(ErrorKind::Configuration, format!("git could not be run: {reason}"))
                    .with_hint("`agentctl doctor` shows what the sandbox lacks")
            }
        })?;
        let code = match outcome.ended {
            CommandEnd::Code(code) => code,
            CommandEnd::TimedOut => {
                let message = format!("git timed out after {} seconds", timeout.as_secs());
                return Err(WorkspaceError::new(ErrorKind::Timeout, message)
                    .with_hint("check for a slow disk, or a pipe in place of a git file, and try again"));
            }
            CommandEnd::Signal(_) | CommandEnd::Cancelled | CommandEnd::Lost => -1,
        };
        let is_cut = outcome.stdout.total > MAX_OUTPUT as u64;
        Ok(GitOutput { code, bytes: outcome.stdout.bytes, is_cut, stderr: outcome.stderr.text })
    }

    fn environment(&self, place: &GitPlace, scratch: &Path) -> BTreeMap<OsString, OsString> {
        let temp = scratch.join(TEMP);
        let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut set = |name: &str, value: &dyn AsRef<OsStr>| {
            all.insert(name.into(), value.as_ref().to_owned());
        };
        set("PATH", &self.path);
        set("HOME", &temp);
        set("TMPDIR", &temp);
        set("LANG", &"C.UTF-8");
        set("LC_ALL", &"C.UTF-8");
        set("GIT_CONFIG_NOSYSTEM", &"1");
        set("GIT_CONFIG_GLOBAL", &"/dev/null");
        set("GIT_ATTR_NOSYSTEM", &"1");
        set("GIT_TERMINAL_PROMPT", &"0");
        set("GIT_NO_LAZY_FETCH", &"1");
        set("GIT_OPTIONAL_LOCKS", &"0");
        set("GIT_LITERAL_PATHSPECS", &"1");
        set("GIT_MERGE_AUTOEDIT", &"no");
        set("GIT_EDITOR", &"true");
        set("GIT_PAGER", &"cat");
        set("GIT_DIR", &place.git_dir);
        set("GIT_COMMON_DIR", &place.common);
        set("GIT_WORK_TREE", &place.work_tree);
        if let Some(index) = &place.index {
            set("GIT_INDEX_FILE", index);
        }
        if let Some(objects) = &place.objects {
            set("GIT_OBJECT_DIRECTORY", objects);
            set("GIT_ALTERNATE_OBJECT_DIRECTORIES", &place.common.join("objects"));
        }
        // Passed in the environment, where names may contain any character.
        set("GIT_CONFIG_COUNT", &place.settings.len().to_string());
        for (number, (name, value)) in place.settings.iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{number}"), name);
            set(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        let default_author = ("agentd".to_owned(), "agentd@localhost".to_owned());
        let (name, address) = place.author.as_ref().unwrap_or(&default_author);
        for role in ["AUTHOR", "COMMITTER"] {
            set(&format!("GIT_{role}_NAME"), name);
            set(&format!("GIT_{role}_EMAIL"), address);
        }
        all
    }

    /// Returns the author for commits: from the repository, the user's settings, or the daemon's default.
    pub(super) async fn author(&self, place: &GitPlace) -> Result<(String, String)> {
        let mut found = Vec::new();
        for (key, otherwise) in [("user.name", "agentd"), ("user.email", "agentd@localhost")] {
            let own = self.run(place, &["config", "--get", key]).await?.line();
            let value = match &self.config {
                Some(config) if own.is_empty() => {
                    let file = config.to_string_lossy();
                    self.run(place, &["config", "--file", &file, "--get", key]).await?.line()
                }
                _ => own,
            };
            found.push(if value.is_empty() { otherwise.to_owned() } else { value });
        }
        let address = found.pop().unwrap_or_default();
        Ok((found.pop().unwrap_or_default(), address))
    }
}

fn broken(error: io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("git could not be started: {error}"))
        .with_hint("check the folder `worktrees` in the daemon's data folder")
        .with_source(error)
}

/// Settings with a variable part in their names that name or require a program, with their replacements.
const OVERRIDES: [(&str, &[&str], &str); 7] = [
    ("filter.", &[".clean", ".smudge", ".process"], ""),
    ("filter.", &[REQUIRED], "false"),
    // A driver without a command is an error, so it is replaced by the default merge.
    ("merge.", &[".driver"], "git merge-file --quiet %A %O %B"),
    ("diff.", &[".command", ".textconv"], ""),
    ("remote.", &[".uploadpack", ".receivepack", ".promisor", ".vcs"], ""),
    ("hook.", &[".command", ".event"], "false"),
    // These options do not name programs, but would change the kind of merge, such as to a squash.
    ("branch.", &[".mergeoptions"], ""),
];
pub(super) const REQUIRED: &str = ".required";

impl Git {
    /// Adds overrides for all programs that the repository names.
    ///
    /// # Errors
    /// Fails if the repository's settings cannot be read, or could differ in the next call.
    pub(super) async fn override_programs(&self, place: GitPlace) -> Result<GitPlace> {
        let listed = self.succeeds(&place, &["config", "--list", "--name-only", "-z"], "read the settings").await?;
        let mut settings = BTreeSet::new();
        for name in listed.parts()? {
            let shown = String::from_utf8_lossy(name);
            // Conditional settings depend on the branch and folder, which may change before the next call.
            if shown.starts_with("includeif.") {
                return Err(unsafe_settings(&place, &shown));
            }
            let Some((name, value)) = override_for(&shown) else { continue };
            if shown.contains(char::REPLACEMENT_CHARACTER) {
                return Err(unsafe_settings(&place, &shown));
            }
            settings.insert((name, value));
        }
        Ok(GitPlace { settings: settings.into_iter().collect(), ..place })
    }
}

/// Returns the override for a setting of this name, if the setting names a program.
fn override_for(name: &str) -> Option<(String, &'static str)> {
    let matches_name = |(start, ends, _): &&(&str, &[&str], &str)| {
        name.starts_with(start) && ends.iter().any(|end| name.ends_with(end)) && name.matches('.').count() > 1
    };
    let (start, _, value) = OVERRIDES.iter().find(matches_name)?;
    let name = match name.rsplit_once('.') {
        Some((hook, _)) if *start == "hook." => format!("{hook}.enabled"),
        _ => name.to_owned(),
    };
    Some((name, *value))
}

fn unsafe_settings(place: &GitPlace, name: &str) -> WorkspaceError {
    let message = format!("the settings of the repository {} contain {name:?}", place.common.display());
    refused(message, "remove this setting from .git/config: worktrees do not allow settings that run programs")
}

/// Maximum number of lines from git's messages in an error.
const MAX_LINES: usize = 6;

/// Result of a git call.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: i32,
    pub(super) bytes: Vec<u8>,
    /// True if the output was truncated.
    pub(super) is_cut: bool,
    pub(super) stderr: String,
}

impl GitOutput {
    /// Returns the output as a single line.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }

    /// Splits a NUL-separated output.
    ///
    /// # Errors
    /// Fails if the output was truncated, because missing parts would look like missing files.
    pub(super) fn parts(&self) -> Result<Vec<&[u8]>> {
        if self.is_cut {
            let hint = "the repository has too many files or settings for worktrees: use a clone";
            return Err(conflict("the output of git is too long", hint));
        }
        Ok(self.bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect())
    }

    /// Returns the parts of the output as paths.
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>> {
        Ok(self.parts()?.into_iter().map(path).collect())
    }

    /// Returns the first lines of git's messages that match one of the patterns.
    pub(super) fn matching_messages(&self, patterns: &[&str]) -> String {
        let lines = self.stderr.lines().filter(|line| patterns.iter().any(|pattern| line.contains(pattern)));
        lines.take(MAX_LINES).collect::<Vec<_>>().join("; ")
    }

    /// Returns the last lines of git's messages.
    pub(super) fn last_lines(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last_lines = lines[lines.len().saturating_sub(MAX_LINES)..].join("; ");
        if last_lines.is_empty() { format!("exit code {}", self.code) } else { last_lines }
    }
}

/// Converts a path in git's output, in any encoding.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// File that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    pub(super) initial: TreeEntry,
    pub(super) wanted: TreeEntry,
}

/// File in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    mode: String,
    pub(super) object: String,
}

impl TreeEntry {
    /// Returns true if the file does not exist in the tree.
    pub(super) fn is_none(&self) -> bool {
        self.mode == "000000"
    }

    /// Returns true for a reference to a commit in another repository.
    pub(super) fn is_repository(&self) -> bool {
        self.mode == "160000"
    }
}

/// Parses the output of `diff-tree --raw -z`.
pub(super) fn changes(output: &GitOutput) -> Result<Vec<FileChange>> {
    let parts = output.parts()?;
    let read = |pair: &[&[u8]]| {
        let [modes, name] = pair else { return None };
        let modes = std::str::from_utf8(modes).ok()?.strip_prefix(':')?;
        let mut fields = modes.split(' ').map(str::to_owned);
        let (before, after) = (fields.next()?, fields.next()?);
        let initial = TreeEntry { mode: before, object: fields.next()? };
        let wanted = TreeEntry { mode: after, object: fields.next()? };
        Some(FileChange { path: path(name), initial, wanted })
    };
    parts.chunks(2).map(read).collect::<Option<_>>().ok_or_else(|| {
        WorkspaceError::new(ErrorKind::Internal, "git printed an unknown diff format")
            .with_hint("check which git is in the daemon's PATH")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_settings_that_name_programs_are_recognised() {
        let check = |name: &str, expected: Option<(&str, &str)>| {
            assert_eq!(override_for(name).as_ref().map(|(name, value)| (name.as_str(), *value)), expected, "{name}");
        };
        check("filter.evil.smudge", Some(("filter.evil.smudge", "")));
        check("filter.a.b.required", Some(("filter.a.b.required", "false")));
        check("filter.clean", None);
        check("merge.tool", None);
        check("merge.x.driver", Some(("merge.x.driver", "git merge-file --quiet %A %O %B")));
        check("hook.lint.command", Some(("hook.lint.enabled", "false")));
        check("branch.main.mergeoptions", Some(("branch.main.mergeoptions", "")));
        check("branch.main.remote", None);
    }

    fn output(bytes: &[u8], is_cut: bool) -> GitOutput {
        GitOutput { code: 0, bytes: bytes.to_vec(), is_cut, stderr: String::new() }
    }

    #[test]
    fn git_paths_keep_their_bytes_and_truncated_output_is_rejected() {
        assert_eq!(output(b"a\0b c\0", false).paths().unwrap(), [PathBuf::from("a"), "b c".into()]);
        let latin = output(b"caf\xe9\0", false).paths().unwrap();
        assert_eq!(latin[0].as_os_str().as_bytes(), b"caf\xe9");
        assert!(output(b"a\0b", true).parts().unwrap_err().hint().is_some());
    }

    #[test]
    fn raw_git_diffs_are_parsed() {
        let found = changes(&output(b":100644 160000 aa bb M\0x y\0:000000 100644 00 cc A\0z\0", false)).unwrap();
        assert_eq!((found[0].path.to_str(), found[0].wanted.is_repository()), (Some("x y"), true));
        assert_eq!((found[1].initial.is_none(), found[1].wanted.object.as_str()), (true, "cc"));
        assert!(changes(&output(b"odd\0", false)).is_err());
    }
}
