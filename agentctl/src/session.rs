//! The session of a turn: finds or prepares the session, and sets its mode, model, folders and uploaded files.

use std::path::{Path, PathBuf};

use agentd_core::{
    error::ErrorKind,
    files::UploadReceipt,
    folder::{AddedFolder, Mounts},
    ids::SessionId,
    session::{Mount, SessionMode, SessionSettings, SessionSummary},
};
use agentd_proto::{
    MAX_UPLOAD_BYTES,
    client::{ClientError, NewSession, SessionChoice as WireChoice, upload_too_large},
};
use clap::Args;

use crate::{
    daemon::{self, Daemon},
    failure::Failure,
    flags::{Choice, one_of},
    model_name::{ModelChoice, ModelName},
    mount::{self, FolderChanges, ProjectChoice},
    terminal::note_lines,
};

/// Which session a turn belongs to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionChoice {
    /// Resume this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION", conflicts_with = "resume")]
    pub(crate) session: Option<String>,
    /// Resume the last session of this folder
    #[arg(long = "continue", short = 'c')]
    pub(crate) resume: bool,
}

/// Choices about a turn that `chat` and `run` share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnChoice {
    /// Model: a slot (base, reasoning, vision, code or chat), or a model of the slot's server, by its id or a part of
    /// it; the session keeps it until another model or `default` is set
    #[arg(long, value_name = "SLOT_OR_ID")]
    pub(crate) model: Option<ModelName>,
    /// Folder that the tools see as /project, read-only unless it ends in :rw, or `none` [default for a new session:
    /// the current folder, read-only, unless it is your home]
    #[arg(short = 'C', long = "project", value_name = "DIR[:ro|:rw]", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<ProjectChoice>,
    /// Further folder that the tools see below /folders, read-only unless it ends in :rw; may be repeated. The session
    /// keeps them; `none` removes the existing ones
    #[arg(long = "add-dir", value_name = "DIR[:ro|:rw]", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folders: Vec<ProjectChoice>,
    /// Create a writable git worktree and branch (agentd/NAME) for the new session, from the last commit of the
    /// project's repository, without uncommitted changes. `agentctl worktree` shows, merges and removes it
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "",
          conflicts_with_all = ["session", "resume"])]
    pub(crate) worktree: Option<String>,
    /// Mode: how much runs without asking; /mode and Shift-Tab change it [default for a new session: ask]
    #[arg(long, value_name = "MODE", value_parser = one_of(&MODES))]
    pub(crate) mode: Option<SessionMode>,
    /// Store requests to models and their answers as sent, from now on in this session, for `agentctl trace --request`;
    /// they contain the whole conversation
    #[arg(long)]
    pub(crate) trace: bool,
}

/// Values of the option `--mode`.
const MODES: [Choice<SessionMode>; 4] = {
    const fn choice(mode: SessionMode) -> Choice<SessionMode> {
        (mode.as_str(), mode.description(), mode)
    }
    let [ask, accept_edits, plan, auto] = SessionMode::ALL;
    [choice(ask), choice(accept_edits), choice(plan), choice(auto)]
};

/// A session that exists or is created with the turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionTarget {
    /// A session created with the turn.
    New(NewSession),
    /// An existing session by id or prefix as typed. The daemon resolves it, which saves a round trip.
    Named(String),
    /// An existing session by its full id.
    Known(SessionId),
}

impl SessionTarget {
    /// Finds the session. Folders are added to an existing session for this and all later turns.
    ///
    /// # Errors
    /// Fails if the session or a folder does not exist.
    pub(crate) async fn find(daemon: &Daemon, choice: &SessionChoice, turn: &TurnChoice) -> Result<Self, Failure> {
        let host = daemon.client.host();
        let project = turn.project.as_ref().map(|project| project.resolve(host)).transpose()?;
        let folders = FolderChanges::resolve(&turn.folders, host)?;
        let target = match &choice.session {
            Some(session) if session.trim().is_empty() => {
                return Err(Failure::usage("--session requires an id or the start of one")
                    .hint("`agentctl sessions list` shows them"));
            }
            Some(session) => Self::Named(session.clone()),
            None if choice.resume => {
                Self::Known(last_of_folder(daemon, project.as_ref().and_then(Option::as_ref)).await?)
            }
            None => {
                let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
                // The current folder is one of this machine.
                let current_folder = || if host.is_none() { mount::current_folder(of_daemon) } else { None };
                let project = project.unwrap_or_else(current_folder);
                let worktree = turn.worktree.clone();
                return Ok(Self::New(NewSession {
                    project,
                    folders: folders.added,
                    worktree,
                    trace: turn.trace.then_some(true),
                    ..NewSession::default()
                }));
            }
        };
        let target = if turn.trace { target.with_trace(daemon).await? } else { target };
        if project.is_none() && folders == FolderChanges::default() {
            return Ok(target);
        }
        target.show(daemon, project, &folders).await
    }

    /// Turns on request logging for an existing session.
    async fn with_trace(self, daemon: &Daemon) -> Result<Self, Failure> {
        let stored = daemon.client.session(&self.name()).await?.session;
        let id = stored.summary.id;
        if stored.settings.trace != Some(true) {
            // An empty list leaves the session's folders unchanged.
            let settings = SessionSettings { trace: Some(true), folders: Vec::new(), ..stored.settings };
            daemon.client.configure_session(&id.to_string(), &settings, false).await?;
        }
        Ok(Self::Known(id))
    }

    /// Sets the session's mode, if one is given. An existing session uses it from its next call on.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub(crate) async fn with_mode(self, daemon: &Daemon, mode: Option<SessionMode>) -> Result<Self, Failure> {
        let Some(mode) = mode else { return Ok(self) };
        if let Self::New(new) = self {
            return Ok(Self::New(NewSession { mode: Some(mode), ..new }));
        }
        daemon.client.set_mode(&self.name(), mode, daemon::CLIENT).await?;
        Ok(self)
    }

    /// Sets the session's model, if one is given.
    ///
    /// # Errors
    /// Fails if the session or the model does not exist.
    pub(crate) async fn with_model(self, daemon: &Daemon, model: Option<&ModelName>) -> Result<Self, Failure> {
        let Some(name) = model else { return Ok(self) };
        let slot = match (&self, name) {
            (Self::New(new), _) => new.slot,
            (_, ModelName::Default | ModelName::Slot(_)) => None,
            _ => daemon.client.session(&self.name()).await?.session.settings.slot,
        };
        let ModelChoice { slot, id } = name.resolve(&daemon.client, slot.unwrap_or_default()).await?;
        if let Self::New(new) = self {
            return Ok(Self::New(NewSession { slot, model: id, ..new }));
        }
        daemon.client.set_model(&self.name(), slot, id.as_deref()).await?;
        Ok(self)
    }

    /// Sets the title of a new session.
    pub(crate) fn with_title(self, title: Option<String>) -> Self {
        match self {
            Self::New(new) if title.is_some() => Self::New(NewSession { title, ..new }),
            target => target,
        }
    }

    /// Adds folders to an existing session or removes them. If `project` is `None`, the project is unchanged.
    ///
    /// # Errors
    /// Fails if the session does not exist or cannot use the folders.
    pub(crate) async fn show(
        self,
        daemon: &Daemon,
        project: Option<Option<Mount>>,
        folders: &FolderChanges,
    ) -> Result<Self, Failure> {
        let stored = daemon.client.session(&self.name()).await?.session;
        let (id, old) = (stored.summary.id, stored.settings);
        let mut settings = SessionSettings { project: project.unwrap_or_else(|| old.project.clone()), ..old.clone() };
        folders.apply(&mut settings);
        if settings != old {
            if !folders.only_these {
                // Only added folders are sent. Sending existing folders could restore one that another client has just
                // removed.
                settings.folders = folders.added.iter().cloned().map(AddedFolder::unnamed).collect();
            }
            daemon.client.configure_session(&id.to_string(), &settings, folders.only_these).await?;
        }
        Ok(Self::Known(id))
    }

    /// Uploads files to the session and names them in the prompt. Creates a new session first if needed.
    ///
    /// # Errors
    /// Fails if a file cannot be read or uploaded.
    pub(crate) async fn with_uploads(
        self,
        daemon: &Daemon,
        uploads: Vec<Upload>,
        prompt: Option<String>,
    ) -> Result<(Self, Option<String>), Failure> {
        if uploads.is_empty() {
            return Ok((self, prompt));
        }
        let origins: Vec<PathBuf> = uploads.iter().map(|upload| upload.origin.clone()).collect();
        let (target, receipts) = self.take(daemon, uploads).await?;
        note_lines(receipts.iter().filter_map(|file| file.problem.as_deref()));
        let paths = receipts.into_iter().map(|file| file.path).zip(origins).collect::<Vec<_>>();
        Ok((target, prompt.map(|prompt| name_files(&prompt, &paths))))
    }

    /// Uploads files to the session and returns a receipt for each. Creates a new session first if needed.
    ///
    /// # Errors
    /// Fails if a file cannot be uploaded.
    pub(crate) async fn take(
        self,
        daemon: &Daemon,
        uploads: Vec<Upload>,
    ) -> Result<(Self, Vec<UploadReceipt>), Failure> {
        let id = match self {
            Self::New(new) => daemon.client.create_session(&new).await?.session.summary.id,
            Self::Named(name) => daemon.client.find_session(&name).await?,
            Self::Known(id) => id,
        };
        let mut receipts = Vec::new();
        for upload in uploads {
            receipts.push(upload.put(daemon, id).await?);
        }
        Ok((Self::Known(id), receipts))
    }

    /// Returns the new session, if it does not exist yet.
    fn as_new(&self) -> Option<&NewSession> {
        if let Self::New(new) = self { Some(new) } else { None }
    }

    /// Returns the settings of an existing session, or `None` if they cannot be loaded.
    async fn settings(&self, daemon: &Daemon) -> Option<SessionSettings> {
        Some(daemon.client.session(&self.name()).await.ok()?.session.settings)
    }

    /// Returns the project folder of a new session.
    pub(crate) fn project(&self) -> Option<&Mount> {
        self.as_new()?.project.as_ref()
    }

    /// Returns the session's setting for request logging, or `None` if it is unset or unknown.
    pub(crate) async fn current_trace(&self, daemon: &Daemon) -> Option<bool> {
        match self.as_new() {
            Some(new) => new.trace,
            None => self.settings(daemon).await?.trace,
        }
    }

    /// Returns the folders that the session has or will have. Returns no folders if they are unknown.
    pub(crate) async fn current_mounts(&self, daemon: &Daemon) -> Mounts {
        match self.as_new() {
            Some(_) => self.mounts(),
            None => self.settings(daemon).await.map(|settings| settings.mounts()).unwrap_or_default(),
        }
    }

    /// Returns the folders of a new session, under the names that the daemon will assign.
    pub(crate) fn mounts(&self) -> Mounts {
        let Some(new) = self.as_new() else { return Mounts::default() };
        let project = Mounts::from(new.project.clone());
        // Invalid folders are reported when the daemon rejects them.
        let folders = project.with(new.folders.clone()).unwrap_or_default();
        Mounts { folders, ..project }
    }

    /// Returns the initial mode of a new session.
    pub(crate) fn first_mode(&self) -> SessionMode {
        self.as_new().and_then(|new| new.mode).unwrap_or_default()
    }

    /// Returns the initial model of a new session.
    pub(crate) fn first_model(&self) -> ModelChoice {
        let model = |new: &NewSession| ModelChoice { slot: new.slot, id: new.model.clone() };
        self.as_new().map(model).unwrap_or_default()
    }

    /// Returns the id of the session, if known.
    pub(crate) fn id(&self) -> Option<SessionId> {
        if let Self::Known(id) = self { Some(*id) } else { None }
    }

    /// Converts the target to the form used in requests to the daemon.
    pub(crate) fn into_choice(self) -> WireChoice {
        match self {
            Self::New(new) => WireChoice::New(new),
            Self::Named(name) => WireChoice::Existing(name),
            Self::Known(id) => WireChoice::Existing(id.to_string()),
        }
    }

    /// Returns the name or id of the session; empty for a new one.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Known(id) => id.to_string(),
            Self::New(_) => String::new(),
        }
    }
}

/// Finds the named session, or the last used one.
///
/// # Errors
/// Fails if there is no such session.
pub(crate) async fn named_or_last(daemon: &Daemon, name: Option<&str>) -> Result<SessionId, Failure> {
    match name {
        Some(name) => Ok(daemon.client.find_session(name).await?),
        None => {
            let last = daemon.client.sessions(1).await?.into_iter().next();
            last.map(|session| session.id).ok_or_else(nothing_to_resume)
        }
    }
}

/// Finds the last used session with the given folder (by default the current one) or without any folder. On another
/// machine, where no folder is the current one, any session is found by default.
///
/// # Errors
/// Fails if there is no such session.
async fn last_of_folder(daemon: &Daemon, project: Option<&Mount>) -> Result<SessionId, Failure> {
    let is_anywhere = project.is_none() && daemon.client.host().is_some();
    let here = match project {
        Some(mount) => Some(mount.path.clone()),
        // If the current folder was removed, its path is unknown.
        None => std::env::current_dir().and_then(std::fs::canonicalize).ok(),
    };
    let sessions = daemon.client.sessions(MAX_SEARCHED).await?;
    let is_in_folder = |session: &&SessionSummary| {
        let worktree = session.worktree.as_ref().map(|worktree| &worktree.project);
        let session_folder = session.project.as_ref().map(|mount| &mount.path);
        is_anywhere
            || session_folder.is_none()
            || [session_folder, worktree].into_iter().flatten().any(|path| here.as_ref() == Some(path))
    };
    let last = sessions.iter().find(is_in_folder);
    last.map(|session| session.id).ok_or_else(|| {
        if sessions.is_empty() {
            return nothing_to_resume();
        }
        Failure::new(ErrorKind::NotFound, "no session sees this folder")
            .hint("`agentctl sessions list` shows those of other folders; --session ID resumes one")
    })
}

/// Number of recent sessions that are searched for the folder.
const MAX_SEARCHED: usize = 1000;

fn nothing_to_resume() -> Failure {
    Failure::new(ErrorKind::NotFound, "no session to resume").hint("leave --continue out to start one")
}

/// A file to upload.
#[derive(Debug)]
pub(crate) struct Upload {
    name: String,
    /// Path as typed by the user.
    origin: PathBuf,
    file: std::fs::File,
}

impl Upload {
    /// Opens a file, so that problems are reported before any request is sent.
    ///
    /// # Errors
    /// Fails if the path is not a regular file, or the file cannot be read or exceeds the upload limit.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: std::io::Error| {
            Failure::usage(format!("could not read the file {shown}: {error}")).hint("name an existing file")
        };
        // Checked before opening, because opening a pipe would block until its other end is opened.
        let metadata = path.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::usage(format!("{shown} is not a file")).hint("pass a whole folder with -C"));
        }
        let name = PathBuf::from(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| Failure::usage(format!("the file {shown} has no name")))?;
        if metadata.len() > MAX_UPLOAD_BYTES as u64 {
            return Err(upload_too_large(&name).into());
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        Ok(Self { name, origin: path.to_owned(), file })
    }

    /// Uploads the file and returns a receipt with its path for tools and, for a picture, the picture for models.
    ///
    /// # Errors
    /// Fails if the session does not exist, or the file cannot be stored.
    pub(crate) async fn put(self, daemon: &Daemon, session: SessionId) -> Result<UploadReceipt, ClientError> {
        let file = tokio::fs::File::from_std(self.file);
        daemon.client.upload(&session.to_string(), &self.name, file).await
    }
}

/// Appends the files' tool paths to the prompt. Files with the same name are listed with their origins.
fn name_files(prompt: &str, files: &[(String, PathBuf)]) -> String {
    let is_alike =
        |origin: &Path| files.iter().filter(|(_, other)| other.file_name() == origin.file_name()).count() > 1;
    let named = files.iter().map(|(path, origin)| match is_alike(origin) {
        true => format!("{path} ({})", agentd_core::path::shown(&origin.display().to_string())),
        false => path.clone(),
    });
    let word = if files.len() == 1 { "file" } else { "files" };
    format!("{}\n\nUploaded {word}: {}", prompt.trim_end(), named.collect::<Vec<_>>().join(", "))
}
