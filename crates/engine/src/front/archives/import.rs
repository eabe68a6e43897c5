//! Imports a session from an untrusted archive.
//!
//! An import brings no permissions: no grants, no mode that allows more, no user folders. It also adds no text on the
//! user's behalf, so pinned rules are only reported. Open turns and questions are ended, so that nothing runs by
//! itself. The import stays invisible until [`SessionImport::finish`] publishes it, and is removed if it is never
//! published.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    archive::{ArchivedSession, DraftId, ImportReport, SessionDraft, TreeFile},
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::FilesCopied,
    ids::{SessionId, TurnId},
    import_origin::ImportOrigin,
    interrupt::AnsweredBy,
    item::ItemBody,
    ports::{JournalImports, StagedTree},
    session::{MAX_PIN, MAX_PINS, SessionMode, SessionSettings},
};

use crate::{
    error::{EngineError, Result},
    front::{
        Engine,
        archives::{self, OpenTurns},
    },
    session::registry::shared::SessionNews,
};

/// Maximum length of a model ID, in bytes.
const MAX_MODEL: usize = 200;
/// Maximum length of a name in the audit log, in characters.
const MAX_ORIGIN: usize = 100;

/// An import in progress. An import that is neither finished nor abandoned is removed at the next start.
pub struct SessionImport {
    engine: Engine,
    sessions: Vec<IncomingSession>,
    /// New session IDs by their IDs in the archive.
    ids: HashMap<SessionId, SessionId>,
    as_new: bool,
    counts_usage: bool,
    /// Program that wrote the archive, as stated in the archive, and the importing client.
    source: String,
    client: String,
    at: Timestamp,
    tree: Option<Box<dyn StagedTree>>,
}

struct IncomingSession {
    draft: DraftId,
    archived: ArchivedSession,
    last_seq: u64,
    turns: u64,
    open: OpenTurns,
}

impl Engine {
    /// Starts importing a session followed by its subagents. With `as_new`, all sessions get new IDs.
    ///
    /// # Errors
    /// Fails if the descriptions are inconsistent, one of the sessions already exists, or the journal cannot be
    /// written.
    pub async fn begin_import(&self, archived: Vec<ArchivedSession>, as_new: bool) -> Result<SessionImport> {
        check(&archived)?;
        let new_id = |id: SessionId| if as_new { SessionId::generate() } else { id };
        let ids: HashMap<_, _> = archived.iter().map(|session| (session.id, new_id(session.id))).collect();
        let store = &self.shared.ports.store;
        for id in ids.values() {
            if store.session(*id).await?.is_some() {
                return Err(EngineError::new(ErrorKind::Conflict, format!("session {id} already exists"))
                    .with_hint("import it under a new id with --as-new"));
            }
        }
        let at = self.shared.ports.clock.now();
        let mut import = SessionImport {
            engine: self.clone(),
            sessions: Vec::new(),
            ids,
            as_new,
            counts_usage: !as_new,
            source: String::new(),
            client: String::new(),
            at,
            tree: None,
        };
        for archived in archived {
            let draft = DraftId(SessionId::generate());
            let begin_result = import.journal()?.begin(draft).await;
            let open = OpenTurns::default();
            import.sessions.push(IncomingSession { draft, archived, last_seq: 0, turns: 0, open });
            if let Err(error) = begin_result {
                import.abandon().await;
                return Err(error.into());
            }
        }
        Ok(import)
    }
}

/// Rejects sessions that do not belong together or exceed limits.
fn check(archived: &[ArchivedSession]) -> Result<()> {
    let invalid = |reason: &str| Err(invalid_archive(reason.to_owned()));
    let mut ids = HashSet::new();
    for session in archived {
        let parent = session.settings.parent.as_ref().map(|parent| parent.session);
        if !parent.map_or(ids.is_empty(), |parent| ids.contains(&parent)) {
            return invalid("its sessions are unrelated");
        }
        if !ids.insert(session.id) {
            return invalid("it lists a session twice");
        }
        let SessionSettings { pins, model, .. } = &session.settings;
        if pins.len() > MAX_PINS || pins.iter().any(|pin| pin.chars().count() > MAX_PIN) {
            return invalid("its pinned rules exceed the limits of a session");
        }
        if model.as_ref().is_some_and(|model| model.len() > MAX_MODEL) {
            return invalid("the name of its model is too long");
        }
        if session.context.as_ref().is_some_and(|view| !view.is_bounded()) {
            return invalid("its context window statistics exceed their limits");
        }
    }
    if ids.is_empty() { invalid("it contains no session") } else { Ok(()) }
}

impl SessionImport {
    /// Excludes the import's model calls from this daemon's usage.
    #[must_use]
    pub fn without_usage(self) -> Self {
        Self { counts_usage: false, ..self }
    }

    /// Sets the source program and the importing client for the audit log.
    #[must_use]
    pub fn with_origin(self, source: &str, client: &str) -> Self {
        let bounded = |text: &str| text.chars().filter(|c| !c.is_control()).take(MAX_ORIGIN).collect();
        Self { source: bounded(source), client: bounded(client), ..self }
    }

    /// Returns the ID that the imported session will have.
    pub fn id(&self) -> SessionId {
        self.sessions.first().map_or_else(SessionId::generate, |first| self.new_id(first.archived.id))
    }

    /// Maps a session ID of the archive to the ID used here.
    fn new_id(&self, id: SessionId) -> SessionId {
        self.ids.get(&id).copied().unwrap_or(id)
    }

    fn journal(&self) -> Result<&dyn JournalImports> {
        self.engine.shared.ports.store.imports().ok_or_else(|| {
            EngineError::new(ErrorKind::Configuration, "the journal of this daemon cannot import sessions")
        })
    }

    /// Adds the next events of a session.
    ///
    /// # Errors
    /// Fails if the events are out of order or belong to another session, or the journal cannot be written.
    pub async fn add(&mut self, session: SessionId, events: Vec<Event>) -> Result<()> {
        let at = self.sessions.iter().position(|incoming| incoming.archived.id == session);
        let at =
            at.ok_or_else(|| invalid_archive("it has events of a session that it does not describe".to_owned()))?;
        let mut converted = Vec::with_capacity(events.len());
        for event in events {
            converted.push(Arc::new(self.convert(at, event)?));
        }
        self.journal()?.add(self.sessions[at].draft, converted).await?;
        Ok(())
    }

    /// Converts an event to the form in which it is stored here.
    fn convert(&mut self, at: usize, event: Event) -> Result<Event> {
        let incoming = &mut self.sessions[at];
        let next = incoming.last_seq + 1;
        if event.session_id != incoming.archived.id || event.seq != next || !event.kind.is_stored() {
            return Err(invalid_archive(format!("event {next} of a session is out of order")));
        }
        let mut event = with_renamed_sessions(archives::without_private_data(event), &self.ids);
        incoming.last_seq = next;
        incoming.turns += u64::from(matches!(event.kind, EventKind::TurnStarted { .. }));
        incoming.open.record(&event).map_err(|reason| invalid_archive(reason.to_owned()))?;
        event.session_id = self.new_id(event.session_id);
        Ok(event)
    }

    /// Adds a file. Blocks.
    ///
    /// # Errors
    /// Fails if the file's path leads outside of the tree, its name is in use, or the file cannot be written to disk.
    pub fn add_file(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<()> {
        if self.tree.is_none() {
            let transport =
                self.engine.shared.ports.workspaces.transport().ok_or_else(|| {
                    EngineError::new(ErrorKind::Configuration, "sessions of this daemon have no files")
                })?;
            self.tree = Some(transport.stage(self.id())?);
        }
        self.tree.as_mut().map_or(Ok(()), |tree| Ok(tree.add(file, content)?))
    }

    /// Ends open turns and publishes the whole import in one step. Blocks if it has files.
    ///
    /// # Errors
    /// Fails if events are missing, or the journal or the files cannot be written. In that case, the whole import is
    /// removed.
    pub async fn finish(mut self) -> Result<ImportReport> {
        let finished = self.try_finish().await;
        match &finished {
            Ok(report) => self.engine.shared.news.publish(SessionNews::Created(report.session_id)),
            Err(_) => self.abandon().await,
        }
        finished
    }

    async fn try_finish(&mut self) -> Result<ImportReport> {
        let mut interrupted = false;
        for at in 0..self.sessions.len() {
            let IncomingSession { archived, last_seq, .. } = &self.sessions[at];
            if *last_seq != archived.events {
                return Err(invalid_archive(format!("a session has {last_seq} events instead of {}", archived.events)));
            }
            interrupted |= self.end_open_turns(at).await?;
        }
        let files = match &mut self.tree {
            Some(tree) => tree.sync()?,
            None => FilesCopied::default(),
        };
        let draft = |incoming: &IncomingSession| SessionDraft {
            draft: incoming.draft,
            id: self.new_id(incoming.archived.id),
            created_at: incoming.archived.created_at,
            at: self.at,
            settings: self.settings(incoming),
            counts_usage: self.counts_usage,
        };
        let drafts = self.sessions.iter().map(draft).collect();
        // The import fails if it cannot be recorded in the audit log.
        let (session_id, events) = (self.id(), self.sessions.iter().map(|incoming| incoming.last_seq).sum());
        // ID in the archive, if the session gets a new one.
        let former_id = self.sessions.first().map(|first| first.archived.id).filter(|_| self.as_new);
        let (source, by) = (self.source.clone(), AnsweredBy::Client(self.client.clone()));
        let fact = AuditFact::SessionImported { source, former_id, events, by };
        let ports = Arc::clone(&self.engine.shared.ports);
        ports.audit.record(AuditEntry::of_session(self.at, session_id, fact)).await?;
        self.journal()?.finish(drafts).await?;
        if let Some(tree) = self.tree.take()
            && let Err(error) = tree.reveal()
        {
            // The tree is complete, and the next start publishes it.
            tracing::error!(session = %session_id, "the files of an imported session are not in place yet: {error}");
        }
        let stored = ports.store.session(session_id).await?;
        let first = self.sessions.first();
        Ok(ImportReport {
            session_id,
            title: stored.map(|stored| stored.summary.title).unwrap_or_default(),
            former_id,
            turns: first.map_or(0, |first| first.turns),
            events,
            subagents: self.sessions.len().saturating_sub(1) as u64,
            files,
            interrupted,
            left_out: Vec::new(),
            pins: first.map(|first| first.archived.settings.pins.clone()).unwrap_or_default(),
        })
    }

    /// Ends the open turns of a session, and returns true if there were any.
    async fn end_open_turns(&mut self, at: usize) -> Result<bool> {
        let (now, session_id) = (self.at, self.new_id(self.sessions[at].archived.id));
        let incoming = &mut self.sessions[at];
        let mut events = Vec::new();
        let mut facts: Vec<(Option<TurnId>, EventKind)> = std::mem::take(&mut incoming.open).endings(session_id, now);
        if facts.is_empty() {
            return Ok(false);
        }
        facts.push((None, EventKind::StateChanged { change: StateChange::Queue { length: 0, added: None } }));
        for (turn_id, kind) in facts {
            incoming.last_seq += 1;
            events.push(Arc::new(Event { session_id, turn_id, seq: incoming.last_seq, at: now, kind }));
        }
        let draft = incoming.draft;
        self.journal()?.add(draft, events).await?;
        Ok(true)
    }

    /// Returns the settings of an imported session, which allow no more than those of a new session and contain no
    /// rules that models would attribute to the user.
    fn settings(&self, incoming: &IncomingSession) -> SessionSettings {
        let archived = incoming.archived.settings.clone();
        let imported = ImportOrigin { events: incoming.last_seq, context: incoming.archived.context.clone() };
        let defaults = self.engine.session_defaults();
        let SessionSettings { confirm_write, confirm_exec, slot, model, project, parent, agent, mode, .. } = archived;
        let models = &self.engine.shared.ports.models;
        let is_known = |id: &String| slot.is_some_and(|slot| models.named(slot, id).is_some());
        let parent = parent.map(|mut parent| {
            parent.session = self.new_id(parent.session);
            parent
        });
        SessionSettings {
            confirm_write: confirm_write || defaults.confirm_write,
            confirm_exec: confirm_exec || defaults.confirm_exec,
            slot,
            model: model.filter(is_known),
            parent,
            agent,
            mode: if mode == SessionMode::Plan { SessionMode::Plan } else { SessionMode::Ask },
            former_project: project.map(|mount| Box::new(mount.path)).or(archived.former_project),
            imported: Some(Box::new(imported)),
            ..SessionSettings::default()
        }
    }

    /// Removes the whole import, including its drafts.
    pub async fn abandon(mut self) {
        drop(self.tree.take());
        let drafts = self.sessions.iter().map(|incoming| incoming.draft).collect();
        if let Ok(journal) = self.journal()
            && let Err(error) = journal.abandon(drafts).await
        {
            tracing::warn!("could not remove an aborted import; retrying at the next start: {error}");
        }
    }
}

fn invalid_archive(reason: String) -> EngineError {
    EngineError::new(ErrorKind::InvalidInput, format!("invalid archive: {reason}"))
        .with_hint("nothing was imported; export the session again")
}

/// Replaces session IDs in an event, including in the text of calls and results, because models name their subagents
/// there. A session that is not in the archive gets a fresh ID, so that it never refers to a session here.
fn with_renamed_sessions(mut event: Event, ids: &HashMap<SessionId, SessionId>) -> Event {
    let rename = |id: &mut SessionId| *id = ids.get(id).copied().unwrap_or_else(SessionId::generate);
    let rename_in = |text: &mut String| {
        if ids.iter().any(|(old, new)| old != new) {
            *text = with_new_ids(text, ids);
        }
    };
    match &mut event.kind {
        EventKind::InterruptRaised { interrupt } => rename(&mut interrupt.session_id),
        EventKind::StateChanged { change: StateChange::Subagent(subagent) } => rename(&mut subagent.session_id),
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => match &mut item.body {
            ItemBody::ToolCall(call) => rename_in(&mut call.arguments),
            ItemBody::ToolResult(result) => rename_in(&mut result.text),
            _ => {}
        },
        _ => {}
    }
    event
}

/// Replaces old IDs in a text by new ones, in one pass.
fn with_new_ids(text: &str, ids: &HashMap<SessionId, SessionId>) -> String {
    const LENGTH: usize = 36;
    let mut out = String::with_capacity(text.len());
    let mut rest = 0;
    // The first dash of an ID follows eight hex digits.
    for (dash, _) in text.match_indices('-') {
        let Some(start) = dash.checked_sub(8).filter(|start| *start >= rest) else { continue };
        let found = text.get(start..start + LENGTH);
        if let Some(new) = found.and_then(|id| id.parse().ok()).and_then(|old: SessionId| ids.get(&old)) {
            out.push_str(&text[rest..start]);
            out.push_str(&new.to_string());
            rest = start + LENGTH;
        }
    }
    out.push_str(&text[rest..]);
    out
}
