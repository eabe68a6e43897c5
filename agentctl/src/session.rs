//! Where a turn takes place: the session that was asked for, its folder and its files.

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
    /// The model: a slot (base, reasoning, vision, code or chat), or one that the slot's server lists, by its id or a part of
    /// it; the session keeps a model of the server until it is set to another one, or to `default`
    #[arg(long, value_name = "SLOT_OR_ID")]
    pub(crate) model: Option<ModelName>,
    /// The folder that the tools see as /project, read-only unless it ends in :rw, or `none` [default for a new session:
    /// the current folder, read-only, unless it is your home]
    #[arg(short = 'C', long = "project", value_name = "DIR[:ro|:rw]", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<ProjectChoice>,
    /// A further folder that the tools see below /folders, read-only unless it ends in :rw; give it again for more. The session
    /// keeps them; `none` takes away those that it has
    #[arg(long = "add-dir", value_name = "DIR[:ro|:rw]", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folders: Vec<ProjectChoice>,
    /// Give the new session a git worktree and a branch of its own (agentd/NAME), made from the last commit of the project's
    /// repository and writable; changes that are not committed stay out. `agentctl worktree` shows, merges and removes it
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "",
          conflicts_with_all = ["session", "resume"])]
    pub(crate) worktree: Option<String>,
    /// Mode: how much runs without asking; /mode and Shift-Tab change it [default for a new session: ask]
    #[arg(long, value_name = "MODE", value_parser = one_of(&MODES))]
    pub(crate) mode: Option<SessionMode>,
    /// Keep requests to models and their answers as they are on the wire, from now on in this session, for `agentctl trace
    /// --request`; they hold all that is said
    #[arg(long)]
    pub(crate) trace: bool,
}

/// The modes of a session.
const MODES: [Choice<SessionMode>; 4] = {
    const fn choice(mode: SessionMode) -> Choice<SessionMode> {
        (mode.as_str(), mode.description(), mode)
    }
    let [ask, accept_edits, plan, auto] = SessionMode::ALL;
    [choice(ask), choice(accept_edits), choice(plan), choice(auto)]
};

/// A session to be, or one that is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionTarget {
    /// One that is made with the turn.
    New(NewSession),
    /// One by id or prefix, as the person wrote it: the daemon finds it, without another way there and back.
    Named(String),
    /// One that is known.
    Known(SessionId),
}

impl SessionTarget {
    /// Finds the session. Folders are made known to a session that exists, for this turn and all later ones.
    ///
    /// # Errors
    /// When there is no such session or folder.
    pub(crate) async fn find(daemon: &Daemon, choice: &SessionChoice, turn: &TurnChoice) -> Result<Self, Failure> {
        let project = turn.project.as_ref().map(ProjectChoice::resolve).transpose()?;
        let folders = FolderChanges::resolve(&turn.folders)?;
        let place = match &choice.session {
            Some(session) if session.trim().is_empty() => {
                return Err(Failure::usage("--session needs an id or the start of one")
                    .hint("`agentctl sessions list` shows them"));
            }
            Some(session) => Self::Named(session.clone()),
            None if choice.resume => Self::Known(last_here(daemon, project.as_ref().and_then(Option::as_ref)).await?),
            None => {
                let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
                let project = project.unwrap_or_else(|| mount::current_folder(of_daemon));
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
        let place = if turn.trace { place.traced(daemon).await? } else { place };
        if project.is_none() && folders == FolderChanges::default() {
            return Ok(place);
        }
        place.show(daemon, project, &folders).await
    }

    /// Has requests of a session that exists kept from now on.
    async fn traced(self, daemon: &Daemon) -> Result<Self, Failure> {
        let stored = daemon.client.session(&self.name()).await?.session;
        let id = stored.summary.id;
        if stored.settings.trace != Some(true) {
            // Folders that it has stay where none is named.
            let settings = SessionSettings { trace: Some(true), folders: Vec::new(), ..stored.settings };
            daemon.client.configure_session(&id.to_string(), &settings, false).await?;
        }
        Ok(Self::Known(id))
    }

    /// Sets the session's mode, if one is wanted. One that exists has it from its next call on.
    ///
    /// # Errors
    /// When there is no such session.
    pub(crate) async fn in_mode(self, daemon: &Daemon, mode: Option<SessionMode>) -> Result<Self, Failure> {
        let Some(mode) = mode else { return Ok(self) };
        if let Self::New(new) = self {
            return Ok(Self::New(NewSession { mode: Some(mode), ..new }));
        }
        daemon.client.set_mode(&self.name(), mode, daemon::CLIENT).await?;
        Ok(self)
    }

    /// Sets the session's model, if one is wanted.
    ///
    /// # Errors
    /// When there is no such session or model.
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

    /// Gives a session to be made a title.
    pub(crate) fn titled(self, title: Option<String>) -> Self {
        match self {
            Self::New(new) if title.is_some() => Self::New(NewSession { title, ..new }),
            place => place,
        }
    }

    /// Makes folders known to a session that exists, or takes those away that it sees. No project leaves the one that it has.
    ///
    /// # Errors
    /// When there is no such session, or it cannot see them.
    pub(crate) async fn show(
        self,
        daemon: &Daemon,
        project: Option<Option<Mount>>,
        folders: &FolderChanges,
    ) -> Result<Self, Failure> {
        let stored = daemon.client.session(&self.name()).await?.session;
        let (id, had) = (stored.summary.id, stored.settings);
        let mut settings = SessionSettings { project: project.unwrap_or_else(|| had.project.clone()), ..had.clone() };
        folders.apply(&mut settings);
        if settings != had {
            if !folders.only_these {
                // Those that it has stay. Named here, they would come back where another client has just taken them away.
                settings.folders = folders.added.iter().cloned().map(AddedFolder::unnamed).collect();
            }
            daemon.client.configure_session(&id.to_string(), &settings, folders.only_these).await?;
        }
        Ok(Self::Known(id))
    }

    /// Puts files into the session and names them in the prompt. A new session is made for them.
    ///
    /// # Errors
    /// When a file cannot be read or taken.
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
        let (place, taken) = self.take(daemon, uploads).await?;
        note_lines(taken.iter().filter_map(|file| file.problem.as_deref()));
        let paths = taken.into_iter().map(|file| file.path).zip(origins).collect::<Vec<_>>();
        Ok((place, prompt.map(|prompt| name_files(&prompt, &paths))))
    }

    /// Puts files into the session, and tells what came of each. A new session is made for them.
    ///
    /// # Errors
    /// When a file cannot be taken.
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
        let mut taken = Vec::new();
        for upload in uploads {
            taken.push(upload.put(daemon, id).await?);
        }
        Ok((Self::Known(id), taken))
    }

    /// A session to be made.
    fn to_be(&self) -> Option<&NewSession> {
        if let Self::New(new) = self { Some(new) } else { None }
    }

    /// The settings of a session that is; none where they are not known.
    async fn settings(&self, daemon: &Daemon) -> Option<SessionSettings> {
        Some(daemon.client.session(&self.name()).await.ok()?.session.settings)
    }

    /// The folder that a session to be made sees.
    pub(crate) fn project(&self) -> Option<&Mount> {
        self.to_be()?.project.as_ref()
    }

    /// The setting of the session about its requests; none where it has none, or is not known.
    pub(crate) async fn trace_there(&self, daemon: &Daemon) -> Option<bool> {
        match self.to_be() {
            Some(new) => new.trace,
            None => self.settings(daemon).await?.trace,
        }
    }

    /// The folders that the session sees or will see; none where that is not known.
    pub(crate) async fn mounts_there(&self, daemon: &Daemon) -> Mounts {
        match self.to_be() {
            Some(_) => self.mounts(),
            None => self.settings(daemon).await.map(|settings| settings.mounts()).unwrap_or_default(),
        }
    }

    /// The folders that a session to be made sees, by the names that the daemon will give them.
    pub(crate) fn mounts(&self) -> Mounts {
        let Some(new) = self.to_be() else { return Mounts::default() };
        let project = Mounts::from(new.project.clone());
        // What the daemon refuses is told when it does.
        let folders = project.with(new.folders.clone()).unwrap_or_default();
        Mounts { folders, ..project }
    }

    /// The mode in which a session to be made begins.
    pub(crate) fn first_mode(&self) -> SessionMode {
        self.to_be().and_then(|new| new.mode).unwrap_or_default()
    }

    /// The model with which a session to be made begins.
    pub(crate) fn first_model(&self) -> ModelChoice {
        let model = |new: &NewSession| ModelChoice { slot: new.slot, id: new.model.clone() };
        self.to_be().map(model).unwrap_or_default()
    }

    /// The session's id, where it is known.
    pub(crate) fn id(&self) -> Option<SessionId> {
        if let Self::Known(id) = self { Some(*id) } else { None }
    }

    /// The same for the daemon.
    pub(crate) fn into_choice(self) -> WireChoice {
        match self {
            Self::New(new) => WireChoice::New(new),
            Self::Named(name) => WireChoice::Existing(name),
            Self::Known(id) => WireChoice::Existing(id.to_string()),
        }
    }

    /// Name or id of the session; empty where it is still to be made.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Known(id) => id.to_string(),
            Self::New(_) => String::new(),
        }
    }
}

/// The session that was named, or the one that was used last.
///
/// # Errors
/// When there is none.
pub(crate) async fn named_or_last(daemon: &Daemon, name: Option<&str>) -> Result<SessionId, Failure> {
    match name {
        Some(name) => Ok(daemon.client.find_session(name).await?),
        None => {
            let last = daemon.client.sessions(1).await?.into_iter().next();
            last.map(|session| session.id).ok_or_else(nothing_to_resume)
        }
    }
}

/// The session that was used last in a folder, or in that of the shell: one that sees the folder, or none.
///
/// # Errors
/// When there is none.
async fn last_here(daemon: &Daemon, project: Option<&Mount>) -> Result<SessionId, Failure> {
    let here = match project {
        Some(mount) => Some(mount.path.clone()),
        // The path of a folder that was removed is not known.
        None => std::env::current_dir().and_then(std::fs::canonicalize).ok(),
    };
    let sessions = daemon.client.sessions(SEARCHED).await?;
    let is_here = |session: &&SessionSummary| {
        let worktree = session.worktree.as_ref().map(|worktree| &worktree.project);
        let own = session.project.as_ref().map(|mount| &mount.path);
        own.is_none() || [own, worktree].into_iter().flatten().any(|path| here.as_ref() == Some(path))
    };
    let last = sessions.iter().find(is_here);
    last.map(|session| session.id).ok_or_else(|| {
        if sessions.is_empty() {
            return nothing_to_resume();
        }
        Failure::new(ErrorKind::NotFound, "no session sees this folder")
            .hint("`agentctl sessions list` shows those of other folders; --session ID resumes one")
    })
}

/// The sessions among which that of a folder is looked for.
const SEARCHED: usize = 1000;

fn nothing_to_resume() -> Failure {
    Failure::new(ErrorKind::NotFound, "there is no session to resume").hint("leave --continue out to begin one")
}

/// A file to be put into a session.
#[derive(Debug)]
pub(crate) struct Upload {
    name: String,
    /// Its path, as the person wrote it.
    origin: PathBuf,
    file: std::fs::File,
}

impl Upload {
    /// Opens a file, before anything else is begun.
    ///
    /// # Errors
    /// When it is no file, cannot be read, or is larger than what can be uploaded.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: std::io::Error| {
            Failure::usage(format!("cannot read the file {shown}: {error}")).hint("name a file that exists")
        };
        // Asked before it is opened: opening a pipe would wait for its other end.
        let metadata = path.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::usage(format!("{shown} is not a file")).hint("show the model a whole folder with -C"));
        }
        let name = PathBuf::from(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| Failure::usage(format!("the file {shown} has no name")))?;
        if metadata.len() > MAX_UPLOAD_BYTES as u64 {
            return Err(upload_too_large(&name).into());
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        Ok(Self { name, origin: path.to_owned(), file })
    }

    /// Puts it into a session and returns the path that tools open, and what models are shown of it.
    ///
    /// # Errors
    /// When there is no such session, or the file cannot be kept there.
    pub(crate) async fn put(self, daemon: &Daemon, session: SessionId) -> Result<UploadReceipt, ClientError> {
        let file = tokio::fs::File::from_std(self.file);
        daemon.client.upload(&session.to_string(), &self.name, file).await
    }
}

/// The prompt with the files' paths as tools open them. Of files with one name it says which is which.
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
