//! An in-memory journal, for tests of code that uses a journal.
//!
//! The store only contains the events, and derives all other data from them on each query. That is slow, but simple
//! enough that the contract suite ([`crate::store_contract`]) can compare two independent implementations.

mod forking;
mod spending;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentd_core::{
    Timestamp,
    context::Window,
    error::{ErrorKind, StoreError},
    event::{Event, EventKind, StateChange},
    grant::{Grant, GrantScope, ScopedGrant},
    ids::{InterruptId, SessionId},
    interrupt::Interrupt,
    item::{Item, ItemBody},
    ports::{Store, StoredInterrupt},
    search::{SearchHit, SearchQuery, SearchResult, searchable},
    session::{
        EndedTurn, EndedTurns, NewFork, SessionPage, SessionSettings, SessionStatus, SessionSummary, StoredSession,
        TurnSpan,
    },
    spending::{SideUsage, UsageQuery, UsageReport},
    state_files::{StateFileChange, StateFiles},
    turn::StopReason,
    usage::Usage,
};
use futures_util::{FutureExt, future::BoxFuture};

/// An in-memory journal. It behaves like the real one and is lost when dropped.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, (Timestamp, SessionSettings)>,
    /// The events of all sessions, in storage order.
    log: Vec<Arc<Event>>,
    /// Numbers of items that a cancellation has withdrawn.
    withdrawn: HashSet<(SessionId, u64)>,
    /// Permanent grants, which outlive the events of the session in which they were given.
    grants: Vec<Grant>,
    /// Number of a session's events that are copies of another session's events.
    copied: BTreeMap<SessionId, u64>,
    /// Counter value of the last use of each session.
    used: BTreeMap<SessionId, u64>,
    /// Deleted sessions whose files may still exist.
    files_left: BTreeSet<SessionId>,
    /// Model calls that were counted. They outlive their sessions.
    calls: Vec<spending::CountedCall>,
    failures: usize,
    /// True if deletions of sessions fail.
    keeps_all: bool,
    /// Number of appends that still succeed before all others hang.
    passes: Option<usize>,
}

impl State {
    /// Counts an append, and returns true if it is stored.
    fn allows_append(&mut self) -> bool {
        let Some(passes) = &mut self.passes else { return true };
        let left = passes.checked_sub(1);
        *passes = left.unwrap_or_default();
        left.is_some()
    }
}

impl MemoryStore {
    /// Creates an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next `count` appends fail as if the disk were full.
    pub fn fail_next_appends(&self, count: usize) {
        self.state().failures = count;
    }

    /// Makes deletions of sessions fail from now on, or succeed again.
    pub fn fail_deletions(&self, keeps_all: bool) {
        self.state().keeps_all = keeps_all;
    }

    /// Makes all appends after the next `count` hang forever, as if the disk were broken.
    pub fn hang_appends_after(&self, count: usize) {
        self.state().passes = Some(count);
    }

    /// Returns all stored events of one session.
    pub fn events_of(&self, session: SessionId) -> Vec<Arc<Event>> {
        self.state().events_of(session).cloned().collect()
    }

    /// Copies the first events of a session to another journal, as if the process had been killed immediately after
    /// storing them.
    pub fn copy_prefix(&self, session: SessionId, events: usize) -> Arc<Self> {
        let state = self.state();
        let mut copy = State { sessions: state.sessions.clone(), used: state.used.clone(), ..State::default() };
        for event in state.events_of(session).take(events) {
            copy.log.push(Arc::clone(event));
            copy.withdraw(event);
            copy.keep_answered(event);
            copy.count(event);
        }
        Arc::new(Self { state: Mutex::new(copy) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn events_of(&self, session: SessionId) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.log.iter().filter(move |event| event.session_id == session)
    }

    fn is_withdrawn(&self, event: &Event) -> bool {
        self.withdrawn.contains(&(event.session_id, event.seq))
    }

    fn create(
        &mut self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> Result<(), StoreError> {
        if self.sessions.contains_key(&id) {
            return Err(StoreError::new(ErrorKind::Conflict, format!("session {id} already exists")));
        }
        if let Some(parent) = &settings.parent
            && !self.sessions.contains_key(&parent.session)
        {
            return Err(unknown(parent.session));
        }
        self.sessions.insert(id, (at, settings));
        self.note_use(id);
        if first.iter().any(|event| event.session_id != id) {
            self.sessions.remove(&id);
            return Err(invalid("the first events belong to another session"));
        }
        let stored = self.append(first);
        if stored.is_err() {
            self.sessions.remove(&id);
        }
        stored
    }

    fn append(&mut self, events: Vec<Arc<Event>>) -> Result<(), StoreError> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(StoreError::new(ErrorKind::Storage, "could not store events: the disk is full")
                .with_hint("free some space on the disk"));
        }
        let length = self.log.len();
        let outcome = events.into_iter().try_fold(None, |session, event| {
            let id = event.session_id;
            if session.is_some_and(|session| session != id) {
                return Err(invalid("one append cannot contain events of several sessions"));
            }
            self.check(&event)?;
            self.withdraw(&event);
            self.log.push(event);
            Ok(Some(id))
        });
        if outcome.is_err() {
            self.log.truncate(length);
        }
        let stored: Vec<_> = self.log.iter().skip(length).cloned().collect();
        for event in &stored {
            self.keep_answered(event);
            self.count(event);
            self.note_use(event.session_id);
        }
        outcome.map(|_| ())
    }

    /// Checks that the event can be the next event in its session.
    fn check(&self, event: &Event) -> Result<(), StoreError> {
        let id = event.session_id;
        if !self.sessions.contains_key(&id) {
            return Err(unknown(id));
        }
        let next = self.events_of(id).count() as u64 + 1;
        match &event.kind {
            _ if event.seq != next => Err(conflict(format!("the next number of session {id} is {next}"))),
            kind if !kind.is_stored() => Err(invalid("deltas are not stored")),
            EventKind::TurnStarted { .. } if event.turn_id.is_none() => {
                Err(invalid("a turn cannot start without an id"))
            }
            EventKind::InterruptRaised { .. } | EventKind::InterruptResolved { .. } if !can_be_read_back(event) => {
                Err(invalid("the arguments are nested too deeply for the journal"))
            }
            EventKind::InterruptRaised { interrupt }
                if interrupt.session_id == id && self.interrupt(interrupt.id).is_some() =>
            {
                Err(conflict(format!("interrupt {} already exists", interrupt.id)))
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                let waits = self.pending(Some(id)).any(|interrupt| interrupt.id == *interrupt_id);
                let asking_session = self.interrupt(*interrupt_id).map(|stored| stored.interrupt.session_id);
                let is_from_parent =
                    asking_session.is_some_and(|asking_session| self.parent(asking_session) == Some(id));
                if waits || is_from_parent {
                    Ok(())
                } else {
                    Err(conflict(format!("interrupt {interrupt_id} is not pending")))
                }
            }
            _ => Ok(()),
        }
    }

    fn interrupt(&self, id: InterruptId) -> Option<StoredInterrupt> {
        let interrupt = self.originals().find_map(|event| match &event.kind {
            EventKind::InterruptRaised { interrupt } if interrupt.id == id => Some(interrupt.as_ref().clone()),
            _ => None,
        })?;
        let answer = self.originals().find_map(|event| match &event.kind {
            EventKind::InterruptResolved { interrupt_id, answer, .. } if *interrupt_id == id => Some(answer.clone()),
            _ => None,
        });
        Some(StoredInterrupt { interrupt, answer })
    }

    /// Records the items that an event withdraws.
    fn withdraw(&mut self, event: &Event) {
        if let EventKind::StateChanged { change: StateChange::Withdrawn { items, .. } } = &event.kind {
            self.withdrawn.extend(items.iter().map(|seq| (event.session_id, *seq)));
        }
    }

    fn keep_answered(&mut self, event: &Event) {
        let EventKind::InterruptResolved { interrupt_id, answer, by, .. } = &event.kind else { return };
        let Some(stored) = self.interrupt(*interrupt_id) else { return };
        let Some((rules, GrantScope::ForGood)) = answer.kept(&stored.interrupt.ask) else { return };
        for rule in rules.iter().cloned() {
            self.keep(Grant { rule, at: Some(event.at), by: by.client().map(str::to_owned) });
        }
    }

    fn keep(&mut self, grant: Grant) {
        if !self.grants.iter().any(|stored| stored.rule == grant.rule) {
            self.grants.push(grant);
        }
    }

    fn pending(&self, session: Option<SessionId>) -> impl Iterator<Item = Interrupt> {
        let is_meant =
            move |id: SessionId| session.is_none_or(|session| id == session || self.parent(id) == Some(session));
        let raised = self.originals().filter(move |event| is_meant(event.session_id));
        raised.filter_map(|event| match &event.kind {
            EventKind::InterruptRaised { interrupt } if interrupt.session_id == event.session_id => {
                self.interrupt(interrupt.id).filter(|stored| stored.answer.is_none()).map(|stored| stored.interrupt)
            }
            _ => None,
        })
    }

    /// Returns the parent of a subagent's session.
    fn parent(&self, id: SessionId) -> Option<SessionId> {
        self.sessions.get(&id)?.1.parent.as_ref().map(|parent| parent.session)
    }

    fn session(&self, id: SessionId) -> Option<StoredSession> {
        let (created_at, settings) = self.sessions.get(&id)?;
        let mut session = StoredSession {
            summary: SessionSummary {
                id,
                title: String::new(),
                created_at: *created_at,
                updated_at: *created_at,
                turns: 0,
                last_seq: 0,
                status: SessionStatus::Idle,
                usage: Usage::default(),
                parent: self.parent(id),
                project: settings.project.clone(),
                folders: settings.folders.clone(),
                worktree: settings.worktree.clone(),
            },
            settings: settings.clone(),
            todos: Vec::new(),
            open_turn: None,
            queue: Vec::new(),
            reset_seq: 0,
            window: Window::default(),
            handed_over: Default::default(),
            agents: Vec::new(),
            tools: Vec::new(),
            surroundings: None,
        };
        for event in self.events_of(id) {
            add(&mut session, event);
        }
        if session.open_turn.is_some() && self.pending(Some(id)).next().is_some() {
            session.summary.status = SessionStatus::Waiting;
        }
        Some(session)
    }

    fn summaries(&self) -> Vec<SessionSummary> {
        let mut summaries: Vec<_> =
            self.sessions.keys().filter_map(|id| self.session(*id)).map(|session| session.summary).collect();
        summaries.sort_by_key(|summary| std::cmp::Reverse(self.used.get(&summary.id)));
        summaries
    }

    fn note_use(&mut self, id: SessionId) {
        let next = self.used.values().max().map_or(0, |last| last + 1);
        self.used.insert(id, next);
    }

    fn delete(&mut self, id: SessionId) -> Result<(), StoreError> {
        if self.keeps_all {
            return Err(StoreError::new(ErrorKind::Storage, "the disk is full"));
        }
        let mut gone: Vec<SessionId> =
            self.sessions.keys().copied().filter(|child| self.parent(*child) == Some(id)).collect();
        self.sessions.remove(&id).ok_or_else(|| unknown(id))?;
        gone.push(id);
        for id in &gone {
            self.sessions.remove(id);
            self.copied.remove(id);
            self.files_left.insert(*id);
        }
        self.remove_calls(&gone);
        self.log.retain(|event| !gone.contains(&event.session_id));
        Ok(())
    }
}

fn add(session: &mut StoredSession, event: &Event) {
    let summary = &mut session.summary;
    summary.last_seq = event.seq;
    summary.updated_at = event.at;
    session.handed_over.apply(&event.kind);
    match &event.kind {
        EventKind::TurnStarted { .. } => {
            summary.turns += 1;
            session.queue.retain(|queued| Some(queued.turn_id) != event.turn_id);
            if session.open_turn.is_none() {
                summary.status = SessionStatus::Running;
                session.open_turn = event.turn_id.map(|turn| (turn, event.seq));
            }
        }
        EventKind::TurnEnded { result } if session.open_turn.is_none_or(|(open, _)| Some(open) == event.turn_id) => {
            session.open_turn = None;
            summary.status = match result.stop_reason {
                StopReason::Interrupted | StopReason::Suspended => SessionStatus::Interrupted,
                _ => SessionStatus::Idle,
            };
        }
        EventKind::ItemCompleted { item: Item { body: ItemBody::UserMessage { text, .. }, .. }, .. }
            if summary.title.is_empty() =>
        {
            summary.title = title_of(text);
        }
        EventKind::ItemCompleted { item: Item { body: ItemBody::Compaction(compaction), .. }, .. }
            if !compaction.summary.is_empty() =>
        {
            session.window = Window { after: compaction.through, summary: event.seq, held: 0 };
        }
        EventKind::UsageUpdated { usage, .. } => summary.usage += *usage,
        EventKind::StateChanged { change } => match change {
            StateChange::Todos { todos } => session.todos.clone_from(todos),
            StateChange::Title { title } => summary.title.clone_from(title),
            StateChange::Settings { settings } => session.settings.clone_from(settings),
            StateChange::Queue { added, .. } => session.queue.extend(added.as_deref().cloned()),
            StateChange::Undone { .. }
            | StateChange::Withdrawn { .. }
            | StateChange::File(_)
            | StateChange::HandedOver { .. }
            | StateChange::Subagent(_)
            | StateChange::TokenLevel { .. } => {}
            StateChange::Window { window } => session.window = *window,
            StateChange::Agent { stack } => session.agents.clone_from(stack),
            StateChange::Tools { names } => session.tools.clone_from(names),
            StateChange::Surroundings(found) => session.surroundings = Some(found.clone()),
            StateChange::Reset => {
                session.surroundings = None;
                session.tools.clear();
                session.reset_seq = event.seq;
                session.agents.clear();
                session.window = Window { after: event.seq, summary: 0, held: 0 };
                if session.open_turn.is_none() {
                    summary.status = SessionStatus::Idle;
                }
            }
            StateChange::Forked { .. } => {
                session.queue.clear();
                summary.usage = Usage::default();
            }
        },
        _ => {}
    }
}

/// Returns the first input as one line of at most sixty characters.
fn title_of(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 60 {
        return line;
    }
    let start: String = line.chars().take(59).collect();
    format!("{}…", start.trim_end())
}

fn can_be_read_back(event: &Event) -> bool {
    serde_json::to_string(&event.kind).is_ok_and(|json| serde_json::from_str::<EventKind>(&json).is_ok())
}

fn conflict(message: String) -> StoreError {
    StoreError::new(ErrorKind::Conflict, message)
}

fn invalid(message: &str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, message)
}

fn unknown(id: SessionId) -> StoreError {
    StoreError::new(ErrorKind::NotFound, format!("no such session: {id}"))
}

/// Wraps a value in a future that is already complete.
fn ready<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    std::future::ready(answer).boxed()
}

impl Store for MemoryStore {
    fn create_session(
        &self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.state().create(id, at, settings, first) }.boxed()
    }

    fn fork_session(&self, fork: NewFork) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.state().fork(fork) }.boxed()
    }

    fn turns(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<TurnSpan>, StoreError>> {
        ready(Ok(self.state().turns(session)))
    }

    fn ended_turns(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<EndedTurns, StoreError>> {
        let state = self.state();
        let is_of_person =
            |event: &Event| state.sessions.contains_key(&event.session_id) && state.parent(event.session_id).is_none();
        let ended = |(position, event): (u64, &Arc<Event>)| {
            let turn_id = event.turn_id.filter(|_| matches!(event.kind, EventKind::TurnEnded { .. }))?;
            let ended =
                EndedTurn { place: position, session_id: event.session_id, turn_id, seq: event.seq, at: event.at };
            let is_copy = state.copied.get(&event.session_id).is_some_and(|copied| event.seq <= *copied);
            (position > after && is_of_person(event) && !is_copy).then_some(ended)
        };
        let turns = (1..).zip(&state.log).filter_map(ended).take(limit).collect();
        ready(Ok(EndedTurns { turns, end: state.log.len() as u64 }))
    }

    fn append(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if !self.state().allows_append() {
                std::future::pending::<()>().await;
            }
            self.state().append(events)
        }
        .boxed()
    }

    fn session(&self, id: SessionId) -> BoxFuture<'_, Result<Option<StoredSession>, StoreError>> {
        ready(Ok(self.state().session(id)))
    }

    fn session_page(&self, before: Option<u64>, limit: usize) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        let state = self.state();
        let used = |summary: &SessionSummary| state.used.get(&summary.id).copied().unwrap_or_default();
        let mut sessions = state.summaries();
        sessions.retain(|summary| summary.parent.is_none() && before.is_none_or(|before| used(summary) < before));
        sessions.truncate(limit);
        let next = sessions.last().map(used).filter(|_| sessions.len() == limit);
        ready(Ok(SessionPage { sessions, next }))
    }

    fn children(&self, parent: SessionId) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        let mut summaries = self.state().summaries();
        summaries.retain(|summary| summary.parent == Some(parent));
        summaries.sort_by_key(|summary| summary.id);
        ready(Ok(summaries))
    }

    fn find_sessions(&self, name: String, limit: usize) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        let part = name.replace('-', "").to_ascii_lowercase();
        let title = name.trim().to_lowercase();
        let state = self.state();
        let tops = state.summaries().into_iter().filter(|summary| summary.parent.is_none() && !title.is_empty());
        let titled: Vec<_> =
            tops.filter(|top| top.title.trim().to_lowercase() == title).map(|summary| summary.id).collect();
        let newest_first = |is_meant: &dyn Fn(&SessionId) -> bool| {
            state.sessions.keys().rev().copied().filter(is_meant).take(limit).collect::<Vec<_>>()
        };
        let text = |id: &SessionId| id.as_uuid().simple().to_string();
        let mut found = newest_first(&|id| text(id).starts_with(&part));
        if found.is_empty() && part.len() >= 6 {
            found = newest_first(&|id| text(id).ends_with(&part));
        }
        if found.is_empty() {
            found = newest_first(&|id| titled.contains(id));
        }
        ready(Ok(found))
    }

    fn open_turns(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        let state = self.state();
        let sessions = state.sessions.keys().filter_map(|id| state.session(*id));
        ready(Ok(sessions
            .filter(|session| session.open_turn.is_some() || !session.queue.is_empty())
            .map(|session| session.summary.id)
            .collect()))
    }

    fn events(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event>>, StoreError>> {
        let state = self.state();
        ready(Ok(state.events_of(session).filter(|event| event.seq > after).take(limit).cloned().collect()))
    }

    fn items_between(
        &self,
        session: SessionId,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>> {
        let state = self.state();
        let is_between = |seq: u64| seq > after && before.is_none_or(|before| seq < before);
        let completed = state.events_of(session).rev().filter(|event| is_between(event.seq));
        let newest_first = completed.filter_map(|event| match &event.kind {
            EventKind::ItemCompleted { item, .. } if !state.is_withdrawn(event) => Some((event.seq, item.clone())),
            _ => None,
        });
        let mut items: Vec<_> = newest_first.take(limit).collect();
        items.reverse();
        ready(Ok(items))
    }

    fn search(
        &self,
        query: SearchQuery,
        session: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<SearchResult, StoreError>> {
        let state = self.state();
        let events = state.log.iter().rev().filter(|event| session.is_none_or(|id| event.session_id == id));
        let events = events.filter(|event| !state.is_withdrawn(event));
        let hit = |event: &Arc<Event>| {
            let EventKind::ItemCompleted { item, .. } = &event.kind else { return None };
            let (kind, text) = searchable(item)?;
            let folded = text.to_lowercase();
            let occurs = |term: &String| folded.contains(&term.to_lowercase());
            let is_partial = !query.terms().iter().all(occurs);
            if is_partial && !query.parts().iter().any(occurs) {
                return None;
            }
            let title = state.session(event.session_id)?.summary.title;
            let (excerpt, marks) = query.excerpt(&text);
            let (session_id, seq, at) = (event.session_id, event.seq, event.at);
            Some((is_partial, SearchHit { session_id, title, seq, at, kind, excerpt, marks }))
        };
        let mut hits: Vec<(bool, SearchHit)> = events.filter_map(hit).collect();
        hits.sort_by_key(|(is_partial, _)| *is_partial);
        let hits = hits.into_iter().map(|(_, hit)| hit).take(limit).collect();
        drop(state);
        ready(Ok(SearchResult { hits, unsearched: 0 }))
    }

    fn usage(&self, query: UsageQuery, now: Timestamp) -> BoxFuture<'_, Result<UsageReport, StoreError>> {
        ready(self.state().report(&query, now))
    }

    fn count_usage(&self, usage: SideUsage) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state().calls.push((None, usage));
        ready(Ok(()))
    }

    fn state_files(&self, session: SessionId) -> BoxFuture<'_, Result<StateFiles, StoreError>> {
        let state = self.state();
        let mut files = StateFiles::default();
        for event in state.events_of(session) {
            match &event.kind {
                EventKind::StateChanged { change: StateChange::File(change) } => files.apply(change, event.at),
                EventKind::StateChanged { change: StateChange::Reset } => files = StateFiles::default(),
                _ => {}
            }
        }
        ready(Ok(files))
    }

    fn state_file_changes(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, StateFileChange)>, StoreError>> {
        let state = self.state();
        let newest_first = state.events_of(session).rev().filter(|event| event.seq < before);
        let changes = newest_first.filter_map(|event| match &event.kind {
            EventKind::StateChanged { change: StateChange::File(change) } => Some((event.seq, change.clone())),
            _ => None,
        });
        ready(Ok(changes.take(limit).collect()))
    }

    fn pending_interrupts(&self, session: Option<SessionId>) -> BoxFuture<'_, Result<Vec<Interrupt>, StoreError>> {
        ready(Ok(self.state().pending(session).collect()))
    }

    fn interrupt(&self, id: InterruptId) -> BoxFuture<'_, Result<Option<StoredInterrupt>, StoreError>> {
        ready(Ok(self.state().interrupt(id)))
    }

    fn grants(&self) -> BoxFuture<'_, Result<Vec<Grant>, StoreError>> {
        ready(Ok(self.state().grants.clone()))
    }

    fn store_grant(&self, grant: Grant) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state().keep(grant);
        ready(Ok(()))
    }

    fn revoke_grant(&self, rule: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state().grants.retain(|stored| stored.rule != rule);
        ready(Ok(()))
    }

    fn session_grants(&self) -> BoxFuture<'_, Result<Vec<ScopedGrant>, StoreError>> {
        let state = self.state();
        let sessions = state.sessions.keys().filter_map(|id| state.session(*id));
        let session_grants = sessions.flat_map(|session| {
            let session_id = Some(session.summary.id);
            session.settings.grants.into_iter().map(move |grant| ScopedGrant { session_id, grant })
        });
        ready(Ok(session_grants.collect()))
    }

    fn delete_session(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.state().delete(id) }.boxed()
    }

    fn files_left(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        ready(Ok(self.state().files_left.iter().copied().collect()))
    }

    fn record_files_removed(&self, ids: Vec<SessionId>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.state().files_left.retain(|id| !ids.contains(id));
        ready(Ok(()))
    }
}
