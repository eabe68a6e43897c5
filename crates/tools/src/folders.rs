//! Creates, empties and removes session folders, and stores uploads.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use agentd_core::{
    Timestamp,
    code::MapFile,
    context::HistoryFile,
    error::{ErrorKind, WorkspaceError},
    files::{FileListing, FilePiece, FileWritten, FilesCopied, FilesRemoved, SessionTree},
    folder::{AddedFolder, Mounts},
    guide::{GuideFile, GuideLimits, Guides},
    ids::SessionId,
    knowledge::DocumentPage,
    ports::{
        Artifact, ArtifactDir, CodeReader, ProjectStanding, Projects, Skills, TreeTransport, Workspace, WorkspaceArea,
        Workspaces, Worktrees,
    },
    session::Mount,
    state_files::StateFiles,
    surroundings::MachineFacts,
    worktree::WorktreeAccess,
};
use agentd_extensions::{
    files::disk::DiskAccess, guides::GuideReader, project::ProjectStore, skills::SkillStore, surroundings,
};
use agentd_workspace::{
    backend::Files,
    browse, code_map, documents, drafts,
    failure::storage,
    jail,
    job::Job,
    layout::{SessionLocks, make, make_shared},
    limits::Limits,
    remove, stored_files,
    transport::{self, SessionTrees},
};
use agentd_worktrees::WorktreeFolders;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::mount::{self, PrivateFolders, check_mounts};

/// Workspaces of all sessions, each in `{base}/{session}/`.
#[derive(Debug, Clone)]
pub struct WorkspaceFolders {
    base: PathBuf,
    /// Folders that no session may use as its project.
    private: PrivateFolders,
    /// Folder that is mounted as `/memories` in all sessions.
    memories: Option<PathBuf>,
    /// Reader for the user's notes (guides) to models.
    guides: Option<GuideReader>,
    /// Reader for code, which generates maps.
    pub code: Option<Arc<dyn CodeReader>>,
    /// Real paths of the base and of the shared folder, once resolved.
    real: Arc<OnceLock<RealFolders>>,
    /// Import and export of session files.
    trees: SessionTrees,
    locks: SessionLocks,
}

#[derive(Debug, Clone)]
struct RealFolders {
    base: PathBuf,
    memories: Option<PathBuf>,
}

impl RealFolders {
    fn workspace(&self, session: SessionId, mounts: Mounts, worktree: Option<WorktreeAccess>) -> Workspace {
        let Mounts { project, folders } = mounts;
        let root = self.base.join(session.to_string());
        Workspace { root, project, folders, memories: self.memories.clone(), worktree }
    }
}

impl WorkspaceFolders {
    /// Creates the workspaces below `base`. The folder is created with the first workspace.
    pub fn new(base: PathBuf) -> Self {
        let (real, locks) = (Arc::default(), SessionLocks::default());
        let private = PrivateFolders { paths: vec![base.clone()], worktrees: None };
        let trees = SessionTrees { base: base.clone() };
        Self { private, base, memories: None, guides: None, code: None, real, trees, locks }
    }

    /// Adds a folder that is mounted as `/memories` in all sessions. The folder is created with the first workspace.
    #[must_use]
    pub fn with_memories(mut self, memories: PathBuf) -> Self {
        self.private.paths.push(memories.clone());
        self.memories = Some(memories);
        self
    }

    /// Adds the sources of the user's notes to models: their configuration folder, the folders from the project up to
    /// their home folder, these skills, and trusted projects.
    #[must_use]
    pub fn with_guides(
        mut self,
        config: &Path,
        home: Option<&Path>,
        skills: SkillStore,
        projects: Option<ProjectStore>,
    ) -> Self {
        let mut guides = GuideReader::new(config, home);
        (guides.skill_store, guides.projects) = (skills, projects);
        self.guides = Some(guides);
        self
    }

    /// Adds worktrees as projects of sessions.
    #[must_use]
    pub fn with_worktrees(mut self, worktrees: WorktreeFolders) -> Self {
        self.private.worktrees = Some(worktrees);
        self
    }

    /// Creates the shared folders if they are missing, and returns their real paths. Commands print these real paths,
    /// and the jail recognises them.
    fn shared(base: &Path, memories: Option<&PathBuf>) -> Result<RealFolders, WorkspaceError> {
        let base = make_shared(base).map_err(|error| storage("create the workspaces folder", error))?;
        let memories = memories.map(|path| make_shared(path)).transpose();
        let memories = memories.map_err(|error| storage("create the memories folder", error))?;
        Ok(RealFolders { base, memories })
    }

    /// Adds folders that no session may use as its project.
    #[must_use]
    pub fn with_private(mut self, private: &[&Path]) -> Self {
        self.private.paths.extend(private.iter().map(|path| path.to_path_buf()));
        self
    }

    /// Removes the drafts left by previous runs. Must run before any other write. Blocks on disk access.
    pub fn sweep(&self) {
        if let Err(error) = drafts::sweep(&self.base) {
            tracing::warn!(%error, "could not remove drafts of the previous run");
        }
    }

    /// Runs work on files on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        doing: impl Into<String>,
        work: impl FnOnce(&Path) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let (base, doing) = (self.base.clone(), doing.into());
        async move {
            tokio::task::spawn_blocking(move || work(&base)).await.unwrap_or_else(|error| {
                Err(WorkspaceError::new(ErrorKind::Internal, format!("could not {doing}")).with_source(error))
            })
        }
        .boxed()
    }

    /// Runs work on a blocking thread. The work is cancelled if the future is dropped.
    fn work_awaited<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let cancel = CancellationToken::new();
        let abandoned = cancel.clone().drop_guard();
        self.work(doing, move |_| work(cancel)).inspect(|_| drop(abandoned)).boxed()
    }

    /// Runs work on a session's files. Work that removes files must be `exclusive`.
    fn work_on<T: Send + 'static>(
        &self,
        session: SessionId,
        exclusive: bool,
        doing: impl Into<String>,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let (name, doing) = (session.to_string().into(), doing.into());
        let failed = doing.clone();
        let work = move |base: &Path| work(base).map_err(|error| storage(&failed, error));
        self.work(doing, self.locks.with_lock(name, exclusive, work))
    }
}

impl Workspaces for WorkspaceFolders {
    fn open(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>> {
        let (private, memories) = (self.private.clone(), self.memories.clone());
        let open = self.locks.with_lock(session.to_string().into(), false, move |base| {
            let real = Self::shared(base, memories.as_ref())?;
            make(base, session).map_err(|error| storage("create the session's workspace", error))?;
            let (mounts, worktree) = check_mounts(&private, mounts)?;
            Ok(real.workspace(session, mounts, worktree))
        });
        self.work("open the workspace", open)
    }

    fn locate(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>> {
        if let Some(real) = self.real.get().filter(|_| mounts == Mounts::default()) {
            return std::future::ready(Ok(real.workspace(session, mounts, None))).boxed();
        }
        let (private, cache, memories) = (self.private.clone(), Arc::clone(&self.real), self.memories.clone());
        self.work("find the workspace", move |base| {
            let found = Self::shared(base, memories.as_ref())?;
            let (mounts, worktree) = check_mounts(&private, mounts)?;
            Ok(cache.get_or_init(|| found).workspace(session, mounts, worktree))
        })
    }

    fn add_folders(
        &self,
        mounts: Mounts,
        added: Vec<Mount>,
    ) -> BoxFuture<'_, Result<Vec<AddedFolder>, WorkspaceError>> {
        let private = self.private.clone();
        self.work("add the folders", move |_| mount::add_folders(&private, mounts, added))
    }

    fn copy(
        &self,
        from: SessionId,
        to: SessionId,
        history: Option<HistoryFile>,
    ) -> BoxFuture<'_, Result<FilesCopied, WorkspaceError>> {
        self.work_on(from, false, "copy the session's files", move |base| {
            let source = match jail::session_root(&base.join(from.to_string())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FilesCopied::default()),
                opened => opened?,
            };
            transport::copy(&source, &jail::own_root(&make(base, to)?)?, history.as_ref())
        })
    }

    fn clear_temp(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        self.work_on(session, true, "empty the session's temp/", move |base| {
            let emptied = jail::session_root(&base.join(session.to_string()))
                .and_then(|root| jail::open_real_folder(&root, "temp"))
                .and_then(|temp| remove::empty(&temp));
            remove::ignore_missing(emptied)
        })
    }

    fn clean(
        &self,
        session: SessionId,
        areas: Vec<(WorkspaceArea, Timestamp)>,
        trial: bool,
    ) -> BoxFuture<'_, Result<Vec<(WorkspaceArea, FilesRemoved)>, WorkspaceError>> {
        self.work_on(session, true, "clean the session's workspace", move |base| {
            remove::clean(base, session, areas, trial)
        })
    }

    fn clean_leftovers(&self, trial: bool) -> BoxFuture<'_, Result<FilesRemoved, WorkspaceError>> {
        self.work("remove workspace leftovers", move |base| {
            remove::leftovers(base, trial).map_err(|error| storage("remove workspace leftovers", error))
        })
    }

    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        self.work_on(session, true, "remove the session's workspace", move |base| {
            remove::ignore_missing(remove::remove_session(base, session))
        })
    }

    fn add_upload(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        let name = stored_files::upload_name(&name);
        self.work_on(session, false, format!("store the upload {name}"), move |base| {
            stored_files::add_upload(base, session, &name, &content, false)
        })
    }

    fn remove_upload(&self, session: SessionId, path: String) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        self.work_on(session, false, format!("remove the upload {path}"), move |base| {
            stored_files::remove_upload(base, session, &path)
        })
    }

    fn store_input(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        let name = stored_files::upload_name(&name);
        self.work_on(session, false, format!("store the input as {name}"), move |base| {
            stored_files::add_upload(base, session, &name, &content, true)
        })
    }

    fn keep(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        if let Err(wrong) = ArtifactDir::check_name(&name) {
            return std::future::ready(Err(wrong)).boxed();
        }
        let path = format!("{}/{name}", area.as_str());
        self.work_on(session, false, format!("store {path}"), move |base| {
            stored_files::keep(base, session, area, &name, &content).map(|()| path)
        })
    }

    fn append_artifact(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        from: Option<u64>,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Artifact, WorkspaceError>> {
        if let Err(wrong) = ArtifactDir::check_name(&name) {
            return std::future::ready(Err(wrong)).boxed();
        }
        let path = format!("{}/{name}", area.as_str());
        self.work_on(session, false, format!("store {path}"), move |base| {
            stored_files::append_artifact(base, session, area, &name, from, &content)
                .map(|bytes| Artifact { path, bytes })
        })
    }

    fn list_files(&self, tree: SessionTree, path: String) -> BoxFuture<'_, Result<FileListing, WorkspaceError>> {
        self.work("list files", move |_| browse::list(&tree, &path))
    }

    fn open_documents(
        &self,
        tree: SessionTree,
        path: String,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'_, Result<DocumentPage, WorkspaceError>> {
        let range = documents::Range { skip, limit };
        self.work_awaited("open documents", move |cancel| documents::open(&tree, &path, range, cancel))
    }

    fn read_file(
        &self,
        tree: SessionTree,
        path: String,
        offset: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<FilePiece, WorkspaceError>> {
        self.work("read a file", move |_| browse::read(&tree, &path, offset, limit))
    }

    fn read_text(&self, tree: SessionTree, path: String, limit: usize) -> BoxFuture<'_, Option<String>> {
        self.work("read a text file", move |_| Ok(browse::text(&tree, &path, limit)))
            .map(|read| read.ok().flatten())
            .boxed()
    }

    fn write_file(
        &self,
        tree: SessionTree,
        path: String,
        content: Vec<u8>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<FileWritten, WorkspaceError>> {
        let folder = tree.workspace.root.file_name().unwrap_or_default().to_owned();
        self.work(
            "write a file",
            self.locks.with_lock(folder, false, move |_| browse::write(&tree, &path, &content, now)),
        )
    }

    fn guides<'a>(&'a self, workspace: &'a Workspace, limits: GuideLimits) -> BoxFuture<'a, Guides> {
        let Some(reader) = self.guides.clone() else { return std::future::ready(Guides::default()).boxed() };
        if let Ok(guides) = reader.load(workspace, limits, DiskAccess::CachedOnly) {
            return std::future::ready(guides).boxed();
        }
        let workspace = workspace.clone();
        let load = move |_: &Path| Ok(reader.load(&workspace, limits, DiskAccess::Blocking).unwrap_or_default());
        self.work("look for instruction files", load).map(Result::unwrap_or_default).boxed()
    }

    fn folder_guides(&self, at: &Workspace, limits: GuideLimits, paths: Vec<String>) -> BoxFuture<'_, Vec<GuideFile>> {
        let (reader, project) = (self.guides.clone(), at.project.clone());
        let load = move || Some(reader?.in_folders(&project?.path, limits, &paths));
        let facts = self.work("look for instruction files of folders", move |_| Ok(load().unwrap_or_default()));
        facts.map(Result::unwrap_or_default).boxed()
    }

    fn facts<'a>(&'a self, workspace: &'a Workspace, client: Option<&'a Path>) -> BoxFuture<'a, Option<MachineFacts>> {
        let (workspace, client) = (workspace.clone(), client.map(Path::to_owned));
        let facts = self.work("inspect the project", move |_| Ok(surroundings::facts(&workspace, client.as_deref())));
        facts.map(Result::ok).boxed()
    }

    fn map<'a>(&'a self, workspace: &'a Workspace, max_tokens: usize) -> BoxFuture<'a, Option<Vec<MapFile>>> {
        let (Some(code), Some(project)) = (&self.code, &workspace.project) else {
            return std::future::ready(Some(Vec::new())).boxed();
        };
        async move { code_map::draw(&**code, &project.path, max_tokens).await }.boxed()
    }

    fn skills(&self) -> Option<&dyn Skills> {
        self.guides.as_ref().map(|guides| &guides.skill_store as &dyn Skills)
    }

    fn project<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, ProjectStanding> {
        let projects = self.guides.as_ref().and_then(|guides| guides.projects.clone());
        let (Some(projects), Some(mount)) = (projects, &workspace.project) else {
            return std::future::ready(ProjectStanding::default()).boxed();
        };
        if let Ok(standing) = projects.standing(&mount.path, DiskAccess::CachedOnly) {
            return std::future::ready(standing).boxed();
        }
        let project = mount.path.clone();
        let facts = self.work("inspect the project", move |_| {
            Ok(projects.standing(&project, DiskAccess::Blocking).unwrap_or_default())
        });
        facts.map(Result::unwrap_or_default).boxed()
    }

    fn projects(&self) -> Option<&dyn Projects> {
        self.guides.as_ref()?.projects.as_ref().map(|projects| projects as &dyn Projects)
    }

    fn transport(&self) -> Option<&dyn TreeTransport> {
        Some(&self.trees)
    }

    fn worktrees(&self) -> Option<&dyn Worktrees> {
        self.private.worktrees.as_ref().map(|worktrees| worktrees as &dyn Worktrees)
    }

    fn paths<'a>(
        &'a self,
        workspace: &'a Workspace,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, WorkspaceError>> {
        let (session_root, workspace) = (workspace.root.clone(), Arc::new(workspace.clone()));
        self.work_awaited("list the workspace", move |cancel| {
            let files = Files::new(workspace, &StateFiles::default(), Timestamp::UNIX_EPOCH);
            let job = Job::new(files, Limits::default(), cancel);
            documents::paths(&job, session_root.exists(), limit)
                .map_err(|failure| WorkspaceError::new(ErrorKind::Storage, format!("could not list files: {failure}")))
        })
    }
}
