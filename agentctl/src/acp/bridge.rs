//! State that all requests of one editor share: the daemon, the editor's capabilities, and its open sessions.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use agent_client_protocol_schema::v1::{
    Error, InitializeRequest, Notice, NoticeSeverity, SessionId as WireId, SessionUpdate,
};
use agentd_core::{
    ids::SessionId,
    ports::ClientFileAccess,
    session::SessionSettings,
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use tokio_util::sync::CancellationToken;

use super::{
    message::Peer,
    refusal,
    session::{EditorFolder, OpenSession},
    tool_call::Places,
    updates::{self, Shows},
};
use crate::{
    daemon::{self, Daemon},
    failure::Failure,
    flags::Global,
    report,
    terminal::sanitize::{clean, clean_line},
};

/// Characters of an editor's name.
const LONGEST_NAME: usize = 40;

/// The bridge between an editor and the daemon.
#[derive(Debug)]
pub(super) struct Bridge {
    global: Global,
    pub(super) peer: Peer,
    /// Cancelled when the editor has gone.
    pub(super) over: CancellationToken,
    daemon: Mutex<Option<Daemon>>,
    editor: Mutex<Editor>,
    sessions: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
    /// Set once it was said that the built-in model answers.
    has_said_builtin: AtomicBool,
}

/// Facts about the editor.
#[derive(Debug, Clone)]
pub(super) struct Editor {
    /// Its name, for the audit log and in questions.
    pub(super) name: String,
    pub(super) shows: Shows,
    /// Set if it has forms.
    pub(super) has_forms: bool,
    /// Access to the files that it holds, if it gives any.
    pub(super) files: Option<ClientFileAccess>,
}

impl Default for Editor {
    fn default() -> Self {
        Self { name: "acp".to_owned(), shows: Shows::default(), has_forms: false, files: None }
    }
}

impl Editor {
    /// An editor as it introduces itself.
    pub(super) fn of(request: &InitializeRequest) -> Self {
        let can = &request.client_capabilities;
        let session = can.session.as_ref();
        let has_meta = |name: &str| can.meta.as_ref().is_some_and(|meta| meta.get(name) == Some(&true.into()));
        let name = request.client_info.as_ref().map(|info| info.title.as_ref().unwrap_or(&info.name));
        let name = name.map(|name| report::cut(&clean_line(name), LONGEST_NAME)).filter(|name| !name.is_empty());
        Self {
            name: name.map_or_else(|| "acp".to_owned(), |name| format!("acp: {name}")),
            shows: Shows {
                notices: session.is_some_and(|session| session.notices.is_some()),
                compaction: session.is_some_and(|session| session.compaction.is_some()),
                terminals: has_meta("terminal_output"),
                files: can.fs.read_text_file,
            },
            files: match (can.fs.read_text_file, can.fs.write_text_file) {
                (true, true) => Some(ClientFileAccess::ReadWrite),
                (true, false) => Some(ClientFileAccess::Read),
                // What cannot be read cannot be changed either.
                (false, _) => None,
            },
            has_forms: can.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some()),
        }
    }
}

impl Bridge {
    /// A bridge to a daemon that nobody has asked for yet.
    pub(super) fn new(global: Global, peer: Peer, over: CancellationToken) -> Self {
        Self {
            global,
            peer,
            over,
            daemon: Mutex::default(),
            editor: Mutex::default(),
            sessions: Mutex::default(),
            has_said_builtin: AtomicBool::new(false),
        }
    }

    /// The daemon, started if none runs. Once reached it is kept: its connection is made anew by itself after a restart.
    pub(super) async fn daemon(&self) -> Result<Daemon, Failure> {
        if let Some(daemon) = lock(&self.daemon).clone() {
            return Ok(daemon);
        }
        let daemon = daemon::connect(&self.global).await?;
        *lock(&self.daemon) = Some(daemon.clone());
        Ok(daemon)
    }

    /// Forgets a daemon that has gone, so that the next request looks for it. False where none was known.
    pub(super) fn forget_daemon(&self) -> bool {
        lock(&self.daemon).take().is_some()
    }

    /// The editor.
    pub(super) fn editor(&self) -> Editor {
        lock(&self.editor).clone()
    }

    /// Takes note of who the editor is.
    pub(super) fn introduce(&self, editor: Editor) {
        *lock(&self.editor) = editor;
    }

    /// The open session of that id.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn session(&self, id: &WireId) -> Result<Arc<OpenSession>, Error> {
        let found = id.0.parse().ok().and_then(|id: SessionId| lock(&self.sessions).get(&id).cloned());
        found.ok_or_else(|| refusal::unknown_session(&clean_line(&id.0)))
    }

    /// Opens a session. One that was open before keeps its state.
    pub(super) fn open(&self, id: SessionId, folder: EditorFolder) -> Arc<OpenSession> {
        lock(&self.sessions).entry(id).or_insert_with(|| Arc::new(OpenSession::new(id, folder))).clone()
    }

    /// Closes a session, and hands it back if it was open.
    pub(super) fn close(&self, id: SessionId) -> Option<Arc<OpenSession>> {
        lock(&self.sessions).remove(&id)
    }

    /// A turn of the editor's. Where one of another client's runs, or waits, the words are added to that one.
    pub(super) fn turn(&self, daemon: &Daemon, session: &OpenSession, text: Option<String>) -> StartTurn {
        StartTurn {
            on_interrupt: OnInterrupt::Wait,
            if_busy: IfBusy::Steer,
            client: self.editor().name,
            environment: daemon.environment_in(&session.folder),
            ..daemon.turn(text)
        }
    }

    /// Returns whether it is to be said now that the built-in model answers, which is once.
    pub(super) fn says_builtin(&self) -> bool {
        !self.has_said_builtin.swap(true, Ordering::Relaxed)
    }

    /// Tells of a session.
    pub(super) async fn update(&self, session: &OpenSession, updates: Vec<SessionUpdate>) {
        for update in updates {
            self.peer.update(&session.wire, update).await;
        }
    }

    /// Says something in a turn: as notices where the editor shows them, else in the place of the agent's words.
    pub(super) async fn say(&self, session: &OpenSession, words: &[String]) {
        if self.editor().shows.notices {
            self.update(session, words.iter().map(|words| notice(words)).collect()).await;
        } else if !words.is_empty() {
            let lines: Vec<String> = words.iter().map(|words| format!("> {}", words.replace('\n', "\n> "))).collect();
            self.update(session, vec![updates::message(&format!("{}\n\n", lines.join("\n>\n")))]).await;
        }
    }

    /// Tells something that the person should know: as a notice where the editor shows them, else with the next turn.
    pub(super) async fn tell(&self, session: &OpenSession, words: &str) {
        if self.editor().shows.notices {
            self.update(session, vec![notice(words)]).await;
        } else {
            session.state().notices.push(words.to_owned());
        }
    }
}

/// Folders of a session with these settings.
pub(super) fn places(daemon: &Daemon, id: SessionId, settings: &SessionSettings) -> Places {
    Places {
        project: settings.project.as_ref().map(|mount| mount.path.clone()),
        folders: settings.folders.clone(),
        workspace: daemon.client.hello().data_dir.join("workspace").join(settings.files_of(id).to_string()),
    }
}

fn notice(words: &str) -> SessionUpdate {
    let (title, rest) = words.split_once('\n').unwrap_or((words, ""));
    let rest = Some(clean(rest)).filter(|rest| !rest.is_empty());
    SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, clean_line(title)).description(rest))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
