//! Runs git. It sees no settings but the repository's own, of which none that names a program counts, and reaches only the
//! folders that the call needs, in the sandbox of commands.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    folder::{AddedFolder, FOLDERS},
    policy::Confinement,
    ports::{CallProgress, Workspace},
};
use tokio_util::sync::CancellationToken;

use super::{record::WorktreeRecord, repository::Repository};
use crate::{
    agreed_files,
    process::{self, CommandEnd, RunError, Script, environment},
    sandbox::Sandbox,
};

/// Time limit of one call. A large tree takes a while to be written.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of output that are read.
pub(super) const MAX_OUTPUT: usize = 16 << 20;
/// Lines of git's own words that are told.
const TOLD_LINES: usize = 6;
/// Folder in which git is started; it is told where everything is.
const START: &str = "/usr";
/// Folder for files of git's work, in that of the scratch.
const TEMP: &str = "temp";

/// Settings that stand above those of the repository. All that names a program is turned off; where names are free, as of filters,
/// they are looked for (see [`Git::own_programs`]).
const SETTINGS: [&str; 23] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
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

/// Where a call works.
#[derive(Debug, Clone)]
pub(super) struct GitPlace {
    git_dir: PathBuf,
    common: PathBuf,
    work_tree: PathBuf,
    index: Option<PathBuf>,
    /// New objects go there, and are not kept.
    objects: Option<PathBuf>,
    /// Folders that it may change.
    writes: Vec<PathBuf>,
    /// Name and address of the author of a commit.
    author: Option<(String, String)>,
    /// Settings that turn programs off which the repository names.
    settings: Vec<(String, &'static str)>,
}

impl GitPlace {
    /// The main tree. Nothing of it may be changed.
    pub(super) fn main(repository: &Repository) -> Self {
        Self {
            git_dir: repository.git_dir.clone(),
            common: repository.common.clone(),
            work_tree: repository.top.clone(),
            index: None,
            objects: None,
            writes: Vec::new(),
            author: None,
            settings: Vec::new(),
        }
    }

    /// A worktree. Nothing of it may be changed.
    pub(super) fn worktree(record: &WorktreeRecord, top: &Path) -> Result<Self, WorkspaceError> {
        let (git_dir, work_tree) = (record.admin()?.to_owned(), top.to_owned());
        Ok(Self { git_dir, work_tree, ..Self::main(&record.repository) })
    }

    pub(super) fn writing(mut self, folders: &[&Path]) -> Self {
        self.writes.extend(folders.iter().map(|folder| folder.to_path_buf()));
        self
    }

    pub(super) fn with_index(self, index: PathBuf) -> Self {
        Self { index: Some(index), ..self }
    }

    /// New objects go to this folder, which is not kept.
    pub(super) fn trying(self, objects: PathBuf) -> Self {
        Self { objects: Some(objects), ..self }
    }

    /// Files of git's work are in this folder, and none of the tree is seen.
    pub(super) fn apart_in(self, folder: PathBuf) -> Self {
        Self { work_tree: folder.clone(), ..self }.writing(&[&folder])
    }

    pub(super) fn by(self, author: (String, String)) -> Self {
        Self { author: Some(author), ..self }
    }
}

/// Outcome of a call.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: i32,
    pub(super) text: String,
    /// True if the text lacks its middle.
    pub(super) is_cut: bool,
    said: String,
}

impl GitOutput {
    /// The only line.
    pub(super) fn line(&self) -> String {
        self.text.trim().to_owned()
    }

    /// The parts of an output that zeros end.
    pub(super) fn parts(&self) -> Vec<String> {
        self.text.split('\0').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// The last words of git.
    pub(super) fn told(&self) -> String {
        let lines: Vec<&str> = self.said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let told = lines[lines.len().saturating_sub(TOLD_LINES)..].join("; ");
        if told.is_empty() { format!("it ended with {}", self.code) } else { told }
    }
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

    /// A file for git's work.
    pub(super) fn scratch_file(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        Ok(self.scratch_folder().map_err(broken)?.join(TEMP).join(name))
    }

    /// A folder in which a merge has its files.
    pub(super) fn merge_folder(&self) -> Result<PathBuf, WorkspaceError> {
        let folder = self.scratch_file("merge")?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(broken)?;
        Ok(folder)
    }

    fn scratch_folder(&self) -> io::Result<PathBuf> {
        agreed_files::private_folder(&self.scratch.join(TEMP))?;
        self.scratch.canonicalize()
    }

    /// The same place, in which no program runs that the repository names.
    ///
    /// # Errors
    /// When its settings cannot be read.
    pub(super) async fn own_programs(&self, place: GitPlace) -> Result<GitPlace, WorkspaceError> {
        let listed = self.succeeds(&place, &["config", "--list", "--name-only", "-z"], "read the settings").await?;
        let is_driver = |name: &String| {
            let part = |prefix: &str, ends: &[&str]| {
                name.starts_with(prefix) && ends.iter().any(|end| name.ends_with(end)) && name.matches('.').count() > 1
            };
            part("filter.", &[".clean", ".smudge", ".process", ".required"])
                || part("merge.", &[".driver"])
                || part("diff.", &[".command", ".textconv"])
                || part("remote.", &[".uploadpack", ".receivepack", ".promisor", ".vcs"])
        };
        let value = |name: &str| match name {
            name if name.ends_with(".required") => "false",
            // A driver without a command is an error where it is needed: the usual way of merging takes its place.
            name if name.starts_with("merge.") => "git merge-file --quiet %A %O %B",
            _ => "",
        };
        let names = listed.parts().into_iter().filter(is_driver).collect::<std::collections::BTreeSet<_>>();
        let settings = names.into_iter().map(|name| (name.clone(), value(&name))).collect();
        Ok(GitPlace { settings, ..place })
    }

    /// Runs git, which has to succeed.
    pub(super) async fn succeeds(
        &self,
        place: &GitPlace,
        args: &[&str],
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
    pub(super) async fn run(&self, place: &GitPlace, args: &[&str]) -> Result<GitOutput, WorkspaceError> {
        self.check()?;
        let scratch = self.scratch_folder().map_err(broken)?;
        let mut command: Vec<OsString> = ["git", "--no-pager", "--no-replace-objects"].map(OsString::from).into();
        for setting in SETTINGS {
            command.extend(["-c".into(), OsString::from(setting)]);
        }
        command.extend(["-C".into(), place.work_tree.as_os_str().to_owned()]);
        command.extend(args.iter().map(OsString::from));
        let start: OwnedFd = fs::File::open(START).map_err(broken)?.into();
        let script = Script {
            command,
            folder: start,
            environment: self.environment(place, &scratch),
            timeout: PATIENCE,
            output_cap: MAX_OUTPUT,
            confinement: Confinement::Usual,
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
                let message = "git did not end in ten minutes, and was stopped";
                return Err(
                    WorkspaceError::new(ErrorKind::Timeout, message).with_hint("look at the disk, and try again")
                );
            }
            CommandEnd::Signal(_) | CommandEnd::Cancelled => -1,
        };
        let is_cut = finished.stdout.total > MAX_OUTPUT as u64;
        let bytes = finished.stdout.binary.and_then(|binary| binary.content);
        let text = bytes.map_or(finished.stdout.text, |bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(GitOutput { code, text, is_cut, said: finished.stderr.text })
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

/// The folders that a call reaches, as those of a workspace.
fn reached(place: &GitPlace, scratch: PathBuf) -> Workspace {
    let mut folders: Vec<(PathBuf, bool)> = Vec::new();
    for folder in [&place.work_tree, &place.common, &place.git_dir].into_iter().chain(&place.writes) {
        let writable = place.writes.contains(folder);
        if !folders.iter().any(|(known, _)| known == folder) {
            folders.push((folder.clone(), writable));
        }
    }
    let folders = folders.into_iter().enumerate().map(|(number, (path, writable))| AddedFolder {
        at: format!("{FOLDERS}/{number}"),
        path,
        writable,
    });
    Workspace { root: scratch, project: None, folders: folders.collect(), memories: None, worktree: None }
}

fn broken(error: io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("git could not be started: {error}"))
        .with_hint("look at the folder `worktrees` in the daemon's data folder")
        .with_source(error)
}
