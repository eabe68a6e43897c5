//! Creates worktrees: first a record, then a branch and a checkout of the repository's last commit.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    mutex::lock,
    worktree::{BRANCH_PREFIX, MadeWorktree, NewWorktree, SessionWorktree, check_name},
};
use agentd_sandbox::repository::{self, Repository, create_branch_folders};
use agentd_workspace::failure::refused;

use crate::{
    Inner,
    record::{GitPlace, Result, Stage, WorktreeRecord, conflict, storage},
};

/// Numbers of leading characters of a session's ID to try as the worktree's name, shortest first.
const OF_SESSION: [usize; 3] = [8, 12, 32];

impl Inner {
    pub(super) async fn create(&self, new: NewWorktree) -> Result<MadeWorktree> {
        if !new.name.is_empty() {
            check_name(&new.name)?;
        }
        self.git.check()?;
        let project = new.project.canonicalize().map_err(|error| {
            WorkspaceError::new(ErrorKind::NotFound, format!("could not open the project {}", new.project.display()))
                .with_hint("pass an existing folder to -C")
                .with_source(error)
        })?;
        let repository = repository::find(&project)?;
        let folder = self.records.real_base()?;
        if folder.starts_with(&repository.top) {
            let message = format!("the repository {} contains the daemon's data", repository.top.display());
            return Err(refused(message, "choose a project in another repository"));
        }
        if repository.common.join("reftable").is_dir() {
            let message = format!("the repository {} uses the reftable format", repository.top.display());
            return Err(refused(message, "clone it with `--ref-format=files`: worktrees require the files format"));
        }
        refuse_borrowed(&repository)?;
        let _lock = self.lock_repository(&repository.common).await?;
        let main = self.git.override_programs(GitPlace::main(&repository)).await?;
        self.git.check_version(&main).await?;
        let Some(base) = self.git.commit(&main, "HEAD").await?.filter(|base| !base.is_empty()) else {
            let message = format!("the repository {} has no commit to start from", repository.top.display());
            return Err(refused(message, "commit something first, or omit --worktree"));
        };
        let name = self.free_name(&new, &main).await?;
        let left_out = self.dirty(&main).await?.len() as u64;
        let top = folder.join(&name);
        let record = WorktreeRecord {
            name: name.clone(),
            session: new.session,
            project: project.clone(),
            repository: repository.clone(),
            admin: None,
            base,
            at: Timestamp::now(),
            stage: Stage::Making,
        };
        {
            // A worktree of this name may have been created for another repository in the meantime.
            let _naming = lock(&self.naming);
            if self.records.find(&name)?.is_some() {
                return Err(conflict(format!("the name {name} was just taken"), "try again"));
            }
            self.records.store(&record)?;
        }
        match self.check_out(record, &main, &top).await {
            Ok(folder) => {
                let branch = format!("{BRANCH_PREFIX}{name}");
                Ok(MadeWorktree { worktree: SessionWorktree { name, branch, project, left_out }, folder })
            }
            Err(error) => {
                if let Err(left) = self.clear(&name).await {
                    tracing::warn!("a worktree that could not be created is removed later: {left}");
                }
                Err(error)
            }
        }
    }

    /// Lets git create the worktree, and returns the folder in it that corresponds to the session's project.
    async fn check_out(&self, mut record: WorktreeRecord, main: &GitPlace, top: &Path) -> Result<PathBuf> {
        let Repository { top: main_top, common, .. } = record.repository.clone();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(top)
            .map_err(|error| storage("create the folder of a worktree", error))?;
        let (branch, path) = (record.branch(), top.to_string_lossy().into_owned());
        let add = ["worktree", "add", "--quiet", "--lock", "--no-track", "-b", &branch, "--", &path, &record.base];
        self.git.succeeds(&main.clone().writing(&[top, &common]), &add, "create the worktree").await?;
        let admin = repository::admin_of(top, &common).ok_or_else(|| {
            WorkspaceError::new(ErrorKind::Internal, "git created a worktree in an unexpected place")
                .with_hint("check `git worktree list` in the repository")
        })?;
        // The index can be trusted at this point; later the session can change it.
        let _ = fs::copy(admin.join("index"), self.git.scratch_file(&index_name(&record.name))?);
        // Creates the worktree's own settings file, because otherwise a command could create it.
        let settings = fs::OpenOptions::new().append(true).create(true).open(admin.join("config.worktree"));
        settings.map_err(|error| storage("create the settings of a worktree", error))?;
        record.admin = Some(admin);
        let below = record.project.strip_prefix(&main_top).unwrap_or(Path::new(""));
        let folder = if below.as_os_str().is_empty() { top.to_owned() } else { top.join(below) };
        if !folder.is_dir() {
            let message = format!("the last commit of {} has no folder {}", main_top.display(), below.display());
            return Err(refused(message, "commit the folder first, or choose another one with -C"));
        }
        create_branch_folders(&common).map_err(|error| storage("create the folders of branches", error))?;
        record.stage = Stage::Ready;
        self.records.store(&record)?;
        Ok(folder)
    }

    /// Returns the requested name, or a free name derived from the session's ID.
    async fn free_name(&self, new: &NewWorktree, main: &GitPlace) -> Result<String> {
        let id = new.session.to_string().replace('-', "");
        let of_session = || OF_SESSION.iter().map(|length| id[id.len().saturating_sub(*length)..].to_owned());
        let wanted = if new.name.is_empty() { of_session().collect() } else { vec![new.name.clone()] };
        for name in &wanted {
            if self.name_conflict(name, main).await?.is_none() {
                return Ok(name.clone());
            }
        }
        let name = wanted.into_iter().next().unwrap_or_default();
        let reason = self.name_conflict(&name, main).await?.unwrap_or_default();
        Err(conflict(
            format!("the name {name} is taken: {reason}"),
            "choose another name, or see `agentctl worktree list`; `--session ID` continues a session that has one",
        ))
    }

    async fn name_conflict(&self, name: &str, main: &GitPlace) -> Result<Option<String>> {
        if let Some(record) = self.records.find(name)? {
            let place = record.repository.top.display().to_string();
            return Ok(Some(format!("a worktree of {place} has this name")));
        }
        if self.records.top(name).symlink_metadata().is_ok() {
            return Ok(Some(format!("there is a folder {}", self.records.top(name).display())));
        }
        let branch = format!("{BRANCH_PREFIX}{name}");
        // Branches whose names are a prefix or an extension of this name conflict as well.
        let above = BRANCH_PREFIX.trim_end_matches('/');
        let found =
            self.git.run(main, &["show-ref", "--verify", "--quiet", "--", &format!("refs/heads/{above}")]).await?;
        if found.code == 0 {
            return Ok(Some(format!("there is a branch {above}")));
        }
        let args = ["for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", &format!("refs/heads/{branch}")];
        let found = self.git.succeeds(main, &args, "look for branches").await?.line();
        Ok(Some(format!("there is a branch {found}")).filter(|_| !found.is_empty()))
    }
}

/// Returns the name of the daemon's own index for a worktree.
pub(super) fn index_name(name: &str) -> String {
    format!("{name}.index")
}

/// Rejects a repository that borrows objects, as after a clone with `--shared` or `--reference`, because git cannot
/// access other folders in this sandbox.
fn refuse_borrowed(repository: &Repository) -> Result<()> {
    let alternates = repository.common.join("objects/info/alternates");
    if !fs::metadata(&alternates).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let (top, alternates) = (repository.top.display(), alternates.display());
    let message = format!("the repository {top} borrows objects from another one ({alternates})");
    Err(refused(message, "make it self-contained: `git repack -a -d`, then remove that file"))
}
