//! Recording and replaying sessions. Each replay has its own engine, whose journal and files are discarded: a replay
//! does not appear in the user's sessions or usage, and contacts no model or network unless requested.
//!
//! - This module: the player, the engine of a replay, and the collection of a session's events for a recording.
//! - `drive`: the turns of a replay, the ports and the files.

mod drive;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_audit::redact::scrub;
use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    import_origin::ImportOrigin,
    interrupt::{Answer, Ask},
    model::{Slot, SlotInfo},
    ports::{Audit, Languages, Models, NoExchanges, NoLanguages, Store as _, Toolbox},
    session::{Mount, SessionSettings},
};
use agentd_engine::{Engine, EngineConfig, EngineError, Ports};
use agentd_replay::{
    CapturedSession, Play, PlayProblem, PlayedModels, PlayedToolbox, RecordedProject, Recording, RecordingError,
    Redaction, Script, TurnFact,
};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_tools::WorkspaceFolders;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::replay::drive::{NoAudit, NoSnapshots, ReplayClock, ReplayFolder};

/// Maximum number of simultaneous replays. Each has its own journal.
pub const MAX_REPLAYS: usize = 8;

/// Number of events read at a time.
const PAGE: usize = 1000;

/// Maximum number of events in a recording, including events of subagents.
const MAX_EVENTS: usize = 1_000_000;

/// Replays recordings and creates them, using components of the daemon.
pub struct Player {
    /// Folder for replay files. Emptied when the daemon starts.
    pub folder: PathBuf,
    /// The models, for [`Play::LiveModel`].
    pub models: Arc<dyn Models>,
    /// The tools of the daemon.
    pub toolbox: Arc<dyn Toolbox>,
    /// Creates the workspaces of sessions in a folder.
    pub workspaces: Box<dyn Fn(&Path) -> WorkspaceFolders + Send + Sync>,
    /// Limits of the undo store.
    pub snapshots: SnapshotConfig,
    /// The language servers, for live tools.
    pub languages: Arc<dyn Languages>,
    /// The audit log, for live tools.
    pub audit: Arc<dyn Audit>,
    /// Redacts secrets in a text.
    pub redact: Redaction,
    /// Permits for [`MAX_REPLAYS`] simultaneous replays.
    pub permits: Semaphore,
}

/// Options of a replay.
#[derive(Debug, Clone)]
pub struct PlayOptions {
    /// Components that run live instead of being replayed.
    pub play: Play,
    /// Folder of the project, required if the session has one.
    pub project: Option<PathBuf>,
    /// True if live tools may change the project.
    pub writable: bool,
    /// True if calls that require approval are run. Only relevant with live tools.
    pub approve: bool,
}

/// Result of a replay.
#[derive(Debug)]
pub struct PlayOutcome {
    /// Deviations from the recording.
    pub problems: Vec<PlayProblem>,
    /// Number of replayed turns.
    pub turns: usize,
    /// The recording updated with the requests of this replay, if an update was requested.
    pub learned: Option<Recording>,
}

/// Error while replaying or creating a recording.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The engine returned an error.
    #[error(transparent)]
    Engine(#[from] agentd_engine::EngineError),
    /// The journal of the replay could not be created.
    #[error("could not create the journal of the replay")]
    Store(#[from] agentd_core::error::StoreError),
    /// The folder of the replay could not be created.
    #[error("could not create the folder of the replay: {0}")]
    Folder(#[from] std::io::Error),
    /// The recording could not be read back after redaction.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The recorded session has a project, but no folder was specified for the project.
    #[error("the recorded session has a project, but no folder was specified for it")]
    NoProject,
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Stopping,
}

impl Player {
    /// Removes the folders of interrupted replays. Blocks.
    pub fn sweep(&self) {
        let folder = &self.folder;
        if let Err(error) = std::fs::remove_dir_all(folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("could not remove leftover replays in {}: {error}", folder.display());
        }
    }

    /// Records a session together with the requests that the session produces under the current configuration. Secrets
    /// are redacted.
    ///
    /// # Errors
    /// Fails if the journal cannot be read, or if the session cannot be replayed.
    pub async fn record(&self, engine: &Engine, session: SessionId) -> Result<Recording, PlayError> {
        let captured = collect_events(engine, session).await?;
        let project = engine.session(session).await?.show().await?.session.settings.project;
        let recording = agentd_replay::capture(&captured, env!("CARGO_PKG_VERSION"));
        let recording = self.clean(recording)?;
        let folder = project.map(|mount| mount.path);
        let options = PlayOptions { play: Play::Learn, project: folder, writable: false, approve: false };
        let (events, mut receiver) = mpsc::channel(64);
        let discard = async { while receiver.recv().await.is_some() {} };
        let stop = CancellationToken::new();
        let (outcome, ()) = tokio::join!(self.play(engine, recording.clone(), options, events, &stop), discard);
        self.clean(outcome?.learned.unwrap_or(recording))
    }

    /// Redacts secrets: text that looks like a secret, and approval arguments with secret names.
    fn clean(&self, mut recording: Recording) -> Result<Recording, PlayError> {
        let clean = |text: &str| (self.redact)(text);
        for fact in recording.turns.iter_mut().flat_map(|turn| &mut turn.facts) {
            let TurnFact::Question(question) = fact else { continue };
            if let Ask::Approval { args, .. } = &mut question.ask {
                scrub(args, &clean);
            }
            if let Answer::Edit { args } = &mut question.answer {
                scrub(args, &clean);
            }
        }
        Ok(agentd_replay::redacted(&recording, &self.redact)?)
    }

    /// Replays a recording. Its events are sent to `events`. Closing `events` or cancelling `stop` ends the replay.
    ///
    /// # Errors
    /// Fails if the replay cannot start, or if the engine fails. Deviations from the recording are not errors.
    pub async fn play(
        &self,
        engine: &Engine,
        recording: Recording,
        options: PlayOptions,
        events: mpsc::Sender<Arc<Event>>,
        stop: &CancellationToken,
    ) -> Result<PlayOutcome, PlayError> {
        let _permit = self.permits.acquire().await.map_err(|_| PlayError::Stopping)?;
        let folder = ReplayFolder::create(&self.folder)?;
        let script = Arc::new(Script::new(recording, options.play, Arc::clone(&self.redact)));
        let clock = Arc::new(ReplayClock::new(options.play));
        let store = open_store(folder.path().join("journal.db")).await?;
        let played = self.engine(engine, &script, &folder, &store, &clock, options.play);
        let outcome = tokio::select! {
            outcome = self.play_in(&played, &store, &script, &clock, &options, &events) => outcome,
            () = stop.cancelled() => Err(PlayError::Stopping),
        };
        played.drain(std::time::Duration::ZERO).await;
        // The journal is discarded, so errors do not matter.
        let _ = store.close().await;
        drop(folder);
        outcome
    }

    async fn play_in(
        &self,
        played: &Engine,
        store: &SqliteStore,
        script: &Arc<Script>,
        clock: &ReplayClock,
        options: &PlayOptions,
        events: &mpsc::Sender<Arc<Event>>,
    ) -> Result<PlayOutcome, PlayError> {
        let head = script.head();
        let id = SessionId::generate();
        let settings = SessionSettings { project: mount(head.project, options)?, ..played.session_defaults() };
        let first = head.surroundings.map(|mut surroundings| {
            // The project's folder may differ from the recorded one.
            surroundings.project = settings.project.as_ref().map(|mount| mount.path.clone());
            let kind = EventKind::StateChanged { change: StateChange::Surroundings(surroundings) };
            Arc::new(Event { session_id: id, turn_id: None, seq: 1, at: head.began, kind })
        });
        clock.set(head.began);
        store.create_session(id, head.began, settings, first.into_iter().collect()).await?;
        let session = played.session(id).await?;
        let run = drive::ReplayRun { engine: played, session: &session, script, clock, options, events };
        let turns = run.run().await?;
        let learned = (options.play == Play::Learn).then(|| script.learned());
        Ok(PlayOutcome { problems: script.problems(), turns, learned })
    }

    /// Creates the engine of a replay.
    fn engine(
        &self,
        engine: &Engine,
        script: &Arc<Script>,
        folder: &ReplayFolder,
        store: &Arc<SqliteStore>,
        clock: &Arc<ReplayClock>,
        play: Play,
    ) -> Engine {
        let models: Arc<dyn Models> = match play {
            Play::LiveModel => Arc::clone(&self.models),
            Play::Learn | Play::Strict | Play::LiveTools => Arc::new(PlayedModels::new(script)),
        };
        let is_live = play == Play::LiveTools;
        let toolbox: Arc<dyn Toolbox> = match is_live {
            true => Arc::clone(&self.toolbox),
            false => Arc::new(PlayedToolbox::new(Arc::clone(&self.toolbox), Arc::clone(script))),
        };
        let ports = Ports {
            models,
            toolbox,
            store: store.clone(),
            workspaces: Arc::new((self.workspaces)(&folder.path().join("workspace"))),
            pictures: None,
            snapshots: match is_live {
                true => Arc::new(FileSnapshots::new(folder.path().join("undo"), self.snapshots.clone())),
                false => Arc::new(NoSnapshots),
            },
            languages: if is_live { Arc::clone(&self.languages) } else { Arc::new(NoLanguages) },
            exchanges: NoExchanges::port(),
            audit: if is_live { Arc::clone(&self.audit) } else { Arc::new(NoAudit) },
            clock: clock.clone(),
        };
        // Recordings do not contain the request that asks a model for the intent.
        Engine::new(ports, EngineConfig { ask_intent: false, ..(*engine.config()).clone() })
    }
}

/// Returns the project of a replay. With recorded results, tools change nothing, and the model receives the recorded
/// setting.
fn mount(recorded: Option<RecordedProject>, options: &PlayOptions) -> Result<Option<Mount>, PlayError> {
    match (recorded, &options.project) {
        (Some(recorded), Some(path)) => {
            let is_live = options.play == Play::LiveTools;
            let writable = if is_live { options.writable } else { recorded.writable };
            Ok(Some(Mount { path: path.clone(), writable }))
        }
        (Some(_), None) => Err(PlayError::NoProject),
        (None, _) => Ok(None),
    }
}

/// Opens a journal without durability, because the journal is discarded.
async fn open_store(path: PathBuf) -> Result<Arc<SqliteStore>, PlayError> {
    let config = StoreConfig { durable: false, readers: 1, ..StoreConfig::at(path) };
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(config)).await;
    Ok(Arc::new(opened.map_err(|_| PlayError::Stopping)??))
}

/// Collects the events of a session and of all its subagents.
async fn collect_events(engine: &Engine, session: SessionId) -> Result<CapturedSession, EngineError> {
    let view = engine.session(session).await?.show().await?;
    let mut remaining = MAX_EVENTS;
    let events = read(engine, session, &mut remaining).await?;
    let mut subagents = HashMap::new();
    let mut pending = children(&events);
    while let Some(child) = pending.pop() {
        if subagents.contains_key(&child) {
            continue;
        }
        // Only the result of a deleted subagent is left.
        let events = read(engine, child, &mut remaining).await.unwrap_or_default();
        pending.extend(children(&events));
        subagents.insert(child, events);
    }
    let summary = view.session.summary;
    Ok(CapturedSession {
        began: summary.created_at,
        title: summary.title,
        project: view.session.settings.project.map(|mount| RecordedProject { writable: mount.writable }),
        models: models(engine.ports().models.list(), &events, view.session.settings.imported.as_deref()),
        events,
        subagents,
    })
}

/// Adds the models of the session's last turns to the slots. An imported session may have used other models.
fn models(mut models: Vec<SlotInfo>, events: &[Arc<Event>], origin: Option<&ImportOrigin>) -> Vec<SlotInfo> {
    let context = origin.and_then(|origin| origin.context.as_ref());
    let mut reported: HashMap<Slot, &str> = HashMap::new();
    for event in events {
        if let EventKind::TurnStarted { slot, model, .. } = &event.kind {
            reported.insert(*slot, model);
        }
    }
    for info in &mut models {
        let Some(id) = reported.get(&info.slot).filter(|id| !id.is_empty()) else { continue };
        (*id).clone_into(&mut info.model.id);
        if let Some(view) = context.filter(|view| view.model == *id) {
            info.model.context_window = view.window;
        }
    }
    models
}

async fn read(engine: &Engine, session: SessionId, remaining: &mut usize) -> Result<Vec<Arc<Event>>, EngineError> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while *remaining > 0 {
        let after = events.last().map_or(0, |event| event.seq);
        let page = engine.ports().store.events(session, after, PAGE.min(*remaining)).await?;
        if page.is_empty() {
            break;
        }
        *remaining -= page.len();
        events.extend(page);
    }
    Ok(events)
}

fn children(events: &[Arc<Event>]) -> Vec<SessionId> {
    let child = |event: &Arc<Event>| match &event.kind {
        EventKind::StateChanged { change: StateChange::Subagent(subagent) } => Some(subagent.session_id),
        _ => None,
    };
    events.iter().filter_map(child).collect()
}
