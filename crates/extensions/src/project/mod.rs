//! Instructions, agents, skills and commands in a project's `.agentd/` folder, used only if the user trusts the
//! project.
//!
//! - `folder`: the files, read completely and only once, and the hash over them.
//! - `agents`, `content`: parses the files.
//!
//! Trust applies to a hash over all files that are used. Each use checks that the files still have this hash. The
//! daemon then uses its own copy, made from the same bytes that were hashed, so files written into the project
//! between the check and the use have no effect.

mod agents;
mod content;
mod folder;

use std::{
    borrow::Cow,
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    ports::{ProjectStanding, Projects},
    project::{PROJECT_FOLDER, ProjectCommand, ProjectFile, ProjectReport, ProjectTrust},
};
use agentd_workspace::private;
use agentd_worktrees::WorktreeFolders;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};

pub(crate) use self::{agents::FoundAgents, content::ProjectContent, folder::SKILLS};
use self::{
    content::FolderParts,
    folder::{FolderStamps, ProjectFolder},
};
use crate::files::{
    agreed_folder::{Agreement, Agreements, DRAFT, lock, of_bytes, remove_below, storage},
    disk::{self, DiskAccess, NotCached},
};

/// Maximum number of projects whose state is cached.
const MAX_CACHED: usize = 128;
/// Maximum number of characters stored of a client's name.
const MAX_NAME: usize = 100;

/// Trust in one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrustRecord {
    /// Real path of the project.
    path: PathBuf,
    /// Hash of the trusted files.
    hash: String,
    /// Time at which the user trusted the project.
    at: Timestamp,
    /// Client through which the user trusted the project.
    by: String,
    /// Files at the time of trust, to list later changes.
    files: Vec<ProjectFile>,
}

impl Agreement for TrustRecord {
    const FILE: [&'static str; 2] = ["trusted.json", "projects"];
    type Key = Path;

    fn key(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> &str {
        &self.hash
    }

    fn files(&self) -> &[ProjectFile] {
        &self.files
    }
}

/// Projects trusted by the user. Clones share one store.
#[derive(Debug, Clone)]
pub struct ProjectStore(pub(crate) Arc<Store>);

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Folder for the records and copies.
    folder: PathBuf,
    /// Worktrees. Each worktree shares the trust of its main worktree.
    worktrees: Option<WorktreeFolders>,
    /// Records, or `None` until they are loaded.
    records: Mutex<Option<Arc<Agreements<TrustRecord>>>>,
    /// Last known state of projects, by path.
    cached: Mutex<HashMap<PathBuf, Arc<CachedProject>>>,
    /// Parsed content of trusted projects, by hash.
    contents: Mutex<HashMap<String, Arc<ProjectContent>>>,
    /// Serialises changes to trust.
    changing: Mutex<()>,
}

/// Last known state of a project.
#[derive(Debug)]
struct CachedProject {
    hash: String,
    stamps: FolderStamps,
}

/// Current trust in a project, and its usable content.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProjectNow {
    pub(crate) trust: ProjectTrust,
    /// Content, if the project is trusted.
    pub(crate) content: Option<Arc<ProjectContent>>,
}

impl ProjectStore {
    /// Creates the store. Trust in a project also applies to its worktrees, provided that their files are the same.
    pub fn new(folder: PathBuf, worktrees: Option<WorktreeFolders>) -> Self {
        Self(Arc::new(Store { folder, worktrees, ..Store::default() }))
    }

    /// Returns the trust in a project and the project's agents, for the engine.
    pub fn standing(&self, project: &Path, access: DiskAccess) -> Result<ProjectStanding, NotCached> {
        let ProjectNow { trust, content } = self.0.now(project, access)?;
        let agents = content.map(|content| Arc::clone(&content.agents)).filter(|agents| !agents.is_empty());
        Ok(ProjectStanding { trust, agents })
    }

    /// Runs file work on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let store = Arc::clone(&self.0);
        let failed =
            |error| WorkspaceError::new(ErrorKind::Internal, "could not inspect the project").with_source(error);
        async move { tokio::task::spawn_blocking(move || work(&store)).await.map_err(failed).flatten() }.boxed()
    }
}

impl Projects for ProjectStore {
    fn show(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>> {
        self.work(move |store| Ok(store.report(&real(&project)?)))
    }

    fn trust(
        &self,
        project: PathBuf,
        hash: String,
        client: String,
    ) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>> {
        self.work(move |store| store.trust(&real(&project)?, &hash, &client))
    }

    fn distrust(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>> {
        // A missing project is identified by the given path.
        self.work(move |store| store.distrust(&project.canonicalize().unwrap_or(project)))
    }
}

impl Store {
    /// Maps a project in a worktree to its counterpart in the main worktree.
    fn main<'p>(&self, project: &'p Path) -> Cow<'p, Path> {
        let worktree = self.worktrees.as_ref().and_then(|worktrees| worktrees.of_folder(project));
        worktree.map_or(Cow::Borrowed(project), |worktree| Cow::Owned(worktree.project))
    }

    /// Returns the current trust in a project, and its usable content.
    pub(crate) fn now(&self, project: &Path, access: DiskAccess) -> Result<ProjectNow, NotCached> {
        let records = self.records(access)?;
        let cached = match self.cached_if_current(project, access)? {
            Some(cached) => cached,
            None if access == DiskAccess::CachedOnly => {
                // Most projects have no `.agentd/` folder.
                let exists = disk::stamp(&project.join(PROJECT_FOLDER), false, access)?.is_some();
                return if exists { Err(NotCached) } else { Ok(ProjectNow::default()) };
            }
            None => self.cache_project(project, ProjectFolder::read(project)).0,
        };
        let trust = trust(&cached.hash, records.of(&self.main(project)));
        if trust != ProjectTrust::Trusted {
            return Ok(ProjectNow { trust, content: None });
        }
        if let Some(content) = lock(&self.contents).get(&cached.hash) {
            return Ok(ProjectNow { trust, content: Some(Arc::clone(content)) });
        }
        if access == DiskAccess::CachedOnly {
            return Err(NotCached);
        }
        Ok(self.load_changed(project, records.of(&self.main(project))))
    }

    /// Determines the trust from a new read of the project, if the content is not cached.
    fn load_changed(&self, project: &Path, record: Option<&TrustRecord>) -> ProjectNow {
        let (cached, folder) = self.cache_project(project, ProjectFolder::read(project));
        let trust = trust(&cached.hash, record);
        if trust != ProjectTrust::Trusted {
            return ProjectNow { trust, content: None };
        }
        match self.load_copy(&folder, &cached.hash) {
            Ok(content) => ProjectNow { trust, content: Some(content) },
            Err(error) => {
                tracing::error!("the .agentd folder of {} is not used: could not copy it: {error}", project.display());
                ProjectNow { trust, content: None }
            }
        }
    }

    /// Makes the daemon's own copy of the files with this hash, once per process, and parses the copy.
    fn load_copy(&self, folder: &ProjectFolder, hash: &str) -> io::Result<Arc<ProjectContent>> {
        private::folder(&self.folder)?;
        let base = self.folder.canonicalize()?;
        let path = base.join(hash);
        let _guard = lock(&self.changing);
        if let Some(content) = lock(&self.contents).get(hash) {
            return Ok(Arc::clone(content));
        }
        let draft = format!("{DRAFT}{}", uuid::Uuid::new_v4().simple());
        let copied = copy(folder, &base.join(&draft)).and_then(|()| {
            remove_below(&base, hash);
            fs::rename(base.join(&draft), &path)
        });
        if let Err(error) = copied {
            remove_below(&base, &draft);
            return Err(error);
        }
        let content = Arc::new(ProjectContent::new(FolderParts::of(folder), path));
        lock(&self.contents).insert(hash.to_owned(), Arc::clone(&content));
        Ok(content)
    }

    /// Returns the last known state of a project, if it is still current.
    fn cached_if_current(&self, project: &Path, access: DiskAccess) -> Result<Option<Arc<CachedProject>>, NotCached> {
        let cached = lock(&self.cached).get(project).cloned();
        match cached {
            Some(cached) if cached.stamps.are_current(access)? => Ok(Some(cached)),
            _ => Ok(None),
        }
    }

    fn cache_project(&self, project: &Path, mut folder: ProjectFolder) -> (Arc<CachedProject>, ProjectFolder) {
        let stamps = std::mem::take(&mut folder.stamps);
        let cached = Arc::new(CachedProject { hash: folder::hash(&folder.files), stamps });
        let mut all = lock(&self.cached);
        if all.len() >= MAX_CACHED {
            all.clear();
        }
        all.insert(project.to_path_buf(), Arc::clone(&cached));
        (cached, folder)
    }

    fn records(&self, access: DiskAccess) -> Result<Arc<Agreements<TrustRecord>>, NotCached> {
        let mut records = lock(&self.records);
        match &*records {
            Some(records) => Ok(Arc::clone(records)),
            None if access == DiskAccess::CachedOnly => Err(NotCached),
            None => {
                let loaded = Agreements::load(&self.folder).unwrap_or_else(|error| {
                    let path = self.folder.join(TrustRecord::FILE[0]);
                    tracing::error!("no project is trusted, because {} cannot be read: {error}", path.display());
                    Agreements::default()
                });
                Ok(Arc::clone(records.insert(Arc::new(loaded))))
            }
        }
    }

    /// Loads the records, blocking on the disk.
    fn blocking_records(&self) -> Arc<Agreements<TrustRecord>> {
        self.records(DiskAccess::Blocking).unwrap_or_default()
    }

    fn report(&self, project: &Path) -> ProjectReport {
        let (cached, folder) = self.cache_project(project, ProjectFolder::read(project));
        self.describe(project, &folder, &cached.hash)
    }

    fn trust(&self, project: &Path, hash: &str, client: &str) -> Result<ProjectReport, WorkspaceError> {
        let (cached, folder) = self.cache_project(project, ProjectFolder::read(project));
        if cached.hash.is_empty() {
            let message = format!("there is nothing to trust in {}/.agentd", project.display());
            return Err(WorkspaceError::new(ErrorKind::NotFound, message)
                .with_hint("list its files: agentctl project show DIR"));
        }
        if cached.hash != hash {
            let message = "the project has changed since it was shown: its hash differs";
            return Err(WorkspaceError::new(ErrorKind::Conflict, message)
                .with_hint("review it again: agentctl project show DIR"));
        }
        let by = client.chars().take(MAX_NAME).collect();
        let (path, at) = (self.main(project).into_owned(), Timestamp::now());
        let record = TrustRecord { path, hash: cached.hash.clone(), at, by, files: files(&folder) };
        self.change(|records| records.with(record)).map_err(|error| storage("store the trust", &error))?;
        self.load_copy(&folder, &cached.hash).map_err(|error| storage("copy the trusted files", &error))?;
        Ok(self.describe(project, &folder, &cached.hash))
    }

    fn distrust(&self, project: &Path) -> Result<ProjectReport, WorkspaceError> {
        if self.blocking_records().of(&self.main(project)).is_none() {
            let message = format!("the project {} is not trusted", project.display());
            return Err(WorkspaceError::new(ErrorKind::NotFound, message)
                .with_hint("show the state of a project: agentctl project show DIR"));
        }
        self.change(|records| records.without(&self.main(project)))
            .map_err(|error| storage("revoke the trust", &error))?;
        Ok(self.report(project))
    }

    fn describe(&self, project: &Path, folder: &ProjectFolder, hash: &str) -> ProjectReport {
        let (parts, files, records) = (FolderParts::of(folder), files(folder), self.blocking_records());
        let record = records.of(&self.main(project));
        let trust = trust(hash, record);
        let listed = |command: ProjectCommand| match trust {
            ProjectTrust::Trusted => command,
            _ => ProjectCommand { text: String::new(), ..command },
        };
        let record = record.filter(|_| trust != ProjectTrust::Empty);
        ProjectReport {
            path: project.to_path_buf(),
            trust,
            hash: hash.to_owned(),
            trusted_at: record.map(|record| record.at),
            instructions: parts.instructions.is_some(),
            agents: parts.agents,
            skills: parts.skills,
            commands: parts.commands.into_iter().map(listed).collect(),
            changes: record.map(|record| record.changes(&files)).unwrap_or_default(),
            ignored: folder.ignored.clone(),
            problems: folder.problems.iter().cloned().chain(parts.problems).collect(),
            files,
        }
    }

    /// Changes the records on disk, then in memory, and removes copies that are no longer needed.
    fn change(&self, change: impl FnOnce(Agreements<TrustRecord>) -> Agreements<TrustRecord>) -> io::Result<()> {
        let _guard = lock(&self.changing);
        let after = change(Agreements::clone(&self.blocking_records()));
        after.store(&self.folder)?;
        *lock(&self.records) = Some(Arc::new(after.clone()));
        lock(&self.contents).retain(|hash, _| after.uses_copy(hash));
        after.sweep(&self.folder);
        Ok(())
    }
}

fn trust(hash: &str, record: Option<&TrustRecord>) -> ProjectTrust {
    match record {
        _ if hash.is_empty() => ProjectTrust::Empty,
        None => ProjectTrust::Untrusted,
        Some(record) if record.hash == hash => ProjectTrust::Trusted,
        Some(_) => ProjectTrust::Changed,
    }
}

fn files(folder: &ProjectFolder) -> Vec<ProjectFile> {
    let file = |file: &folder::FolderFile| ProjectFile {
        path: file.path.clone(),
        bytes: file.content.len() as u64,
        sha256: of_bytes(&file.content),
    };
    folder.files.iter().map(file).collect()
}

/// Writes the files into a new folder.
fn copy(folder: &ProjectFolder, to: &Path) -> io::Result<()> {
    private::folder(to)?;
    for file in &folder.files {
        let path = to.join(&file.path);
        path.parent().map_or(Ok(()), private::folder)?;
        private::write(&path, &file.content, file.runs)?;
    }
    Ok(())
}

/// Resolves the real path of a project.
fn real(project: &Path) -> Result<PathBuf, WorkspaceError> {
    let shown = project.display();
    let path = project.canonicalize().map_err(|error| {
        WorkspaceError::new(ErrorKind::NotFound, format!("the project folder {shown} cannot be opened"))
            .with_hint("choose an existing folder")
            .with_source(error)
    })?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("the project {shown} is not a folder"))
        .with_hint("choose the folder that contains .agentd/"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    type TrustRecords = Agreements<TrustRecord>;
    const FILE: &str = "trusted.json";

    fn file(path: &str, sha256: &str) -> ProjectFile {
        ProjectFile { path: path.to_owned(), bytes: 1, sha256: sha256.to_owned() }
    }

    fn record(path: &str, hash: &str) -> TrustRecord {
        let files = vec![file("a", "1"), file("b", "1"), file("c", "1")];
        let (hash, by) = (hash.to_owned(), "agentctl".to_owned());
        TrustRecord { path: path.into(), hash, at: Timestamp::UNIX_EPOCH, by, files }
    }

    #[test]
    fn trust_records_are_private_and_survive_restart() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("projects");
        assert!(TrustRecords::load(&folder).unwrap_or_default().of(Path::new("/a")).is_none());
        let records = TrustRecords::default().with(record("/b", "2")).with(record("/a", "1")).with(record("/b", "3"));
        records.store(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(FILE))), (0o700, 0o600));
        let loaded = TrustRecords::load(&folder).unwrap();
        assert_eq!(loaded.of(Path::new("/b")), Some(&record("/b", "3")));
        assert!(loaded.uses_copy("1") && loaded.uses_copy("3") && !loaded.uses_copy("2"));
        assert!(loaded.of(Path::new("/b/c")).is_none(), "a subfolder is another project");
        loaded.without(Path::new("/b")).store(&folder).unwrap();
        assert!(TrustRecords::load(&folder).unwrap_or_default().of(Path::new("/b")).is_none());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        fs::write(folder.join(FILE), "{").unwrap();
        assert!(TrustRecords::load(&folder).is_err(), "an unreadable file trusts nothing");
    }
}
