//! Runs git. It sees no settings but the repository's own, of which none that names a program counts, and reaches only the
//! folders that the call needs, in the sandbox of commands. Programs that a repository's settings name are found, and turned off.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
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
    environment,
    host::Sandbox,
    process::{self, CommandEnd, OutputForm, RunError, Script},
};
use agentd_workspace::{failure::refused, private};
use tokio_util::sync::CancellationToken;

use crate::{
    output::GitOutput,
    record::{GitPlace, reached},
};

/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit of a call that writes a tree. A large one takes a while.
const TREE_PATIENCE: Duration = Duration::from_secs(600);
/// Commands that write a tree.
const OF_TREES: [&str; 3] = ["worktree", "merge", "checkout-index"];
/// The oldest git that has all that is used here.
const OLDEST: (u32, u32) = (2, 38);
/// Bytes of output that are read.
pub(super) const MAX_OUTPUT: usize = 16 << 20;
/// Folder in which git is started; it is told where everything is.
const START: &str = "/usr";
/// Folder for files of git's work, in that of the scratch.
const TEMP: &str = "temp";

/// Settings that stand above those of the repository. All that names a program is turned off; where names are free, as of filters,
/// they are looked for (see [`Git::own_programs`]).
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

/// Runs git.
#[derive(Debug)]
pub(super) struct Git {
    scratch: PathBuf,
    sandbox: Option<Arc<Sandbox>>,
    /// Folders of programs.
    path: OsString,
    /// The person's own settings, of which only name and address are read.
    config: Option<PathBuf>,
}

impl Git {
    pub(super) fn new(
        scratch: PathBuf,
        sandbox: Option<Arc<Sandbox>>,
        path: Option<OsString>,
        config: Option<PathBuf>,
    ) -> Self {
        Self { scratch, sandbox, path: path.unwrap_or_else(|| environment::PATH.into()), config }
    }

    /// Refuses where git is not installed.
    pub(super) fn check(&self) -> Result<(), WorkspaceError> {
        let is_program = |path: PathBuf| {
            fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        if std::env::split_paths(&self.path).any(|folder| folder.is_absolute() && is_program(folder.join("git"))) {
            return Ok(());
        }
        Err(WorkspaceError::new(ErrorKind::NotFound, "worktrees need git, which is not installed")
            .with_hint("install git, and see that the daemon's PATH names its folder"))
    }

    /// Refuses a git that is too old to merge without a tree.
    pub(super) async fn check_version(&self, place: &GitPlace) -> Result<(), WorkspaceError> {
        let said = self.run(place, &["version"]).await?.line();
        let mut numbers = said.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
        let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) if (major, minor) < OLDEST => {
                let message = format!("worktrees need git {}.{} or newer, and this is {said}", OLDEST.0, OLDEST.1);
                Err(WorkspaceError::new(ErrorKind::NotFound, message).with_hint("install a newer git"))
            }
            _ => Ok(()),
        }
    }

    /// A file for git's work.
    pub(super) fn scratch_file(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        Ok(self.scratch_folder().map_err(broken)?.join(TEMP).join(name))
    }

    /// A folder in which a merge of the worktree of that name has its files.
    pub(super) fn merge_folder(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        let folder = self.scratch_file(&format!("{name}.merge"))?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(broken)?;
        Ok(folder)
    }

    fn scratch_folder(&self) -> io::Result<PathBuf> {
        private::folder(&self.scratch.join(TEMP))?;
        self.scratch.canonicalize()
    }

    /// Runs git, which has to succeed.
    pub(super) async fn succeeds<A: AsRef<OsStr> + Sync>(
        &self,
        place: &GitPlace,
        args: &[A],
        doing: &str,
    ) -> Result<GitOutput, WorkspaceError> {
        let output = self.run(place, args).await?;
        if output.code == 0 {
            return Ok(output);
        }
        let message = format!("git could not {doing}: {}", output.told());
        Err(WorkspaceError::new(ErrorKind::Conflict, message)
            .with_hint("see what `git status` says in the repository, and try again"))
    }

    /// Runs git, whatever comes of it.
    pub(super) async fn run<A: AsRef<OsStr> + Sync>(
        &self,
        place: &GitPlace,
        args: &[A],
    ) -> Result<GitOutput, WorkspaceError> {
        self.check()?;
        let scratch = self.scratch_folder().map_err(broken)?;
        let mut command: Vec<OsString> = ["git", "--no-pager", "--no-replace-objects"].map(OsString::from).into();
        for setting in SETTINGS {
            command.extend(["-c".into(), OsString::from(setting)]);
        }
        command.extend(["-C".into(), place.work_tree.as_os_str().to_owned()]);
        command.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let is_of_trees = args.first().is_some_and(|first| OF_TREES.iter().any(|known| first.as_ref() == *known));
        let timeout = if is_of_trees { TREE_PATIENCE } else { PATIENCE };
        let start: OwnedFd = fs::File::open(START).map_err(broken)?.into();
        let script = Script {
            command,
            folder: start,
            environment: self.environment(place, &scratch),
            timeout,
            output_cap: MAX_OUTPUT,
            output: OutputForm::Bytes,
            confinement: Confinement::Usual,
            closed: Default::default(),
            progress: CallProgress::default(),
        };
        let reached = reached(place, scratch);
        let finished = process::run(script, &reached, self.sandbox.as_deref(), &CancellationToken::new()).await;
        let finished = finished.map_err(|error| match error {
            RunError::Io(error) => broken(error),
            RunError::Refused(why) => {
                WorkspaceError::new(ErrorKind::Configuration, format!("git could not be run: {why}"))
                    .with_hint("`agentctl doctor` tells of the sandbox and what it lacks")
            }
        })?;
        let code = match finished.ended {
            CommandEnd::Code(code) => code,
            CommandEnd::TimedOut => {
                let message = format!("git did not end in {} seconds, and was stopped", timeout.as_secs());
                return Err(WorkspaceError::new(ErrorKind::Timeout, message)
                    .with_hint("is there a pipe in place of a file of git's, or a slow disk? look, and try again"));
            }
            CommandEnd::Signal(_) | CommandEnd::Cancelled | CommandEnd::Lost => -1,
        };
        let is_cut = finished.stdout.total > MAX_OUTPUT as u64;
        Ok(GitOutput { code, bytes: finished.stdout.bytes, is_cut, said: finished.stderr.text })
    }

    fn environment(&self, place: &GitPlace, scratch: &Path) -> BTreeMap<OsString, OsString> {
        let temp = scratch.join(TEMP);
        let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut set = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
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
        // In the environment, where a name may hold any sign.
        set("GIT_CONFIG_COUNT", &place.settings.len().to_string());
        for (number, (name, value)) in place.settings.iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{number}"), name);
            set(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        let nobody = ("agentd".to_owned(), "agentd@localhost".to_owned());
        let (name, address) = place.author.as_ref().unwrap_or(&nobody);
        for role in ["AUTHOR", "COMMITTER"] {
            set(&format!("GIT_{role}_NAME"), name);
            set(&format!("GIT_{role}_EMAIL"), address);
        }
        all
    }

    /// Name and address for commits: those of the repository, or of the person, or the daemon's.
    pub(super) async fn author(&self, place: &GitPlace) -> Result<(String, String), WorkspaceError> {
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
        .with_hint("look at the folder `worktrees` in the daemon's data folder")
        .with_source(error)
}

/// Settings with a free name in the middle that name a program, or have one be needed, and what stands in their place.
const FREE: [(&str, &[&str], &str); 7] = [
    ("filter.", &[".clean", ".smudge", ".process"], ""),
    ("filter.", &[REQUIRED], "false"),
    // A driver without a command is an error where it is needed: the usual way of merging takes its place.
    ("merge.", &[".driver"], "git merge-file --quiet %A %O %B"),
    ("diff.", &[".command", ".textconv"], ""),
    ("remote.", &[".uploadpack", ".receivepack", ".promisor", ".vcs"], ""),
    ("hook.", &[".command", ".event"], "false"),
    // They are no program, and would make another kind of merge.
    ("branch.", &[".mergeoptions"], ""),
];
const REQUIRED: &str = ".required";

impl Git {
    /// The same place, in which no program runs that the repository names.
    ///
    /// # Errors
    /// When its settings cannot be read, or may be others in the next call.
    pub(super) async fn own_programs(&self, place: GitPlace) -> Result<GitPlace, WorkspaceError> {
        let listed = self.succeeds(&place, &["config", "--list", "--name-only", "-z"], "read the settings").await?;
        let mut settings = BTreeSet::new();
        for name in listed.parts()? {
            let shown = String::from_utf8_lossy(name);
            // These depend on the branch and the folder, which may be others when git asks again.
            if shown.starts_with("includeif.") {
                return Err(unsafe_settings(&place, &shown));
            }
            let Some((name, value)) = replaced(&shown) else { continue };
            if shown.contains(char::REPLACEMENT_CHARACTER) {
                return Err(unsafe_settings(&place, &shown));
            }
            settings.insert((name, value));
        }
        Ok(GitPlace { settings: settings.into_iter().collect(), ..place })
    }
}

impl GitPlace {
    /// Filters that the repository names, without which it wants no file committed.
    pub(super) fn required_filters(&self) -> Vec<&str> {
        let names = self.settings.iter().map(|(name, _)| name);
        names.filter_map(|name| name.strip_prefix("filter.")?.strip_suffix(REQUIRED)).collect()
    }
}

/// The setting that turns off what one of this name would run.
fn replaced(name: &str) -> Option<(String, &'static str)> {
    let is_meant = |(start, ends, _): &&(&str, &[&str], &str)| {
        name.starts_with(start) && ends.iter().any(|end| name.ends_with(end)) && name.matches('.').count() > 1
    };
    let (start, _, value) = FREE.iter().find(is_meant)?;
    let name = match name.rsplit_once('.') {
        Some((hook, _)) if *start == "hook." => format!("{hook}.enabled"),
        _ => name.to_owned(),
    };
    Some((name, *value))
}

fn unsafe_settings(place: &GitPlace, name: &str) -> WorkspaceError {
    let message = format!("the settings of the repository {} have {name:?}", place.common.display());
    refused(message, "worktrees are only made where such settings cannot bring in programs: remove it from .git/config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_known() {
        let check = |name: &str, expected: Option<(&str, &str)>| {
            assert_eq!(replaced(name).as_ref().map(|(name, value)| (name.as_str(), *value)), expected, "{name}");
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
}
