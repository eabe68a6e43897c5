//! The contract of every [`Store`], as a suite that runs against both the fake and the real store, so that both behave
//! the same.

#![expect(clippy::unwrap_used, reason = "a suite fails by panicking")]

use std::{ops::AsyncFn, sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    agent::Parent,
    context::{Compaction, Window},
    error::{ErrorKind, StoreError},
    event::{Event, EventKind, StateChange},
    files::Picture,
    grant::{Grant, GrantScope, ScopedGrant},
    ids::{CallId, InterruptId, ItemId, SessionId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    policy::Risk,
    ports::{Store, StoredInterrupt},
    search::{SearchKind, SearchQuery},
    session::{EndedTurn, NewFork, SessionSettings, SessionStatus, SessionSummary, Todo, TodoPriority, TodoStatus},
    spending::{SideUsage, UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    state_files::StateFileChange,
    surroundings::Surroundings,
    tool::ToolCall,
    turn::{IfBusy, OnInterrupt, QueuedTurn, StartTurn, StopReason, TurnResult},
    usage::Usage,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// Runs the whole suite, each case with a new store.
///
/// # Panics
///
/// Panics if the store violates the contract. The name of the case is printed to standard error.
pub async fn check_store<S: Store>(fresh: impl AsyncFn() -> S) {
    macro_rules! cases {
        ($($case:ident)*) => {
            $(
                eprintln!("store contract: {}", stringify!($case));
                $case(&fresh().await).await;
            )*
        };
    }
    cases! {
        new_session_is_empty_and_created_once
        new_session_can_start_with_events
        waiting_turns_are_stored_until_they_leave_the_queue
        events_are_returned_unchanged_in_pages
        sequence_numbers_have_no_gaps
        append_is_atomic
        impossible_events_are_rejected
        state_is_derived_from_events
        request_preamble_is_stored_until_a_reset
        state_files_follow_their_changes
        handed_over_files_are_stored_until_a_turn_takes_them
        status_follows_turns_and_interrupts
        turn_that_never_ran_leaves_the_open_turn_unchanged
        usage_sums_do_not_overflow
        usage_is_grouped_by_model_session_day_and_slot
        usage_outlives_its_session_without_its_name
        usage_of_any_size_is_summed
        interrupts_are_answered_once
        permanent_rules_are_stored_and_revoked
        permanent_rule_is_stored_with_its_answer
        rules_of_sessions_are_listed
        interrupts_are_listed_in_the_order_they_were_raised
        too_deeply_nested_arguments_are_rejected
        recent_items_are_the_last_ones_in_order
        messages_are_found_by_text
        reset_hides_earlier_items
        window_follows_compactions_resets_and_withdrawals
        sessions_are_listed_by_last_use
        subagents_are_listed_wait_and_are_deleted_with_their_session
        sessions_are_found_by_name
        deleted_session_leaves_no_data
        sessions_are_independent
        turns_are_listed_with_their_first_and_last_events
        ended_turns_are_listed_in_the_order_of_their_ends
        fork_continues_from_a_copy
    }
}

/// Generates the events of one session, with consecutive numbers and increasing times.
#[derive(Debug, Clone)]
pub struct EventScript {
    /// ID of the session.
    pub session: SessionId,
    /// Turn to which new events belong.
    pub turn: TurnId,
    /// Number of the last event.
    pub seq: u64,
    start: Timestamp,
}

impl EventScript {
    /// Creates a script for a session without events that was created at `start`.
    pub fn new(session: SessionId, start: Timestamp) -> Self {
        Self { session, turn: TurnId::generate(), seq: 0, start }
    }

    /// Returns the next event.
    pub fn next(&mut self, kind: EventKind) -> Arc<Event> {
        self.seq += 1;
        let turn_id = match kind {
            EventKind::StateChanged { .. } => None,
            _ => Some(self.turn),
        };
        Arc::new(Event { session_id: self.session, turn_id, seq: self.seq, at: self.now(), kind })
    }

    /// Returns the time of the last event. Each event is one microsecond and one nanosecond after the previous one.
    pub fn now(&self) -> Timestamp {
        let nanoseconds = self.start.as_nanosecond() + i128::from(self.seq) * 1001;
        Timestamp::from_nanosecond(nanoseconds).unwrap_or(self.start)
    }

    /// Starts a new turn.
    pub fn turn_started(&mut self) -> Arc<Event> {
        self.turn_begins(TurnId::generate())
    }

    /// Starts the turn with this ID. The turn may have been queued.
    pub fn turn_begins(&mut self, turn: TurnId) -> Arc<Event> {
        self.turn = turn;
        self.next(EventKind::TurnStarted {
            trace_id: TraceId::generate(),
            slot: Slot::Base,
            model: "small".into(),
            reason: "the base model".into(),
            rule: Default::default(),
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: None,
            options: None,
            max_steps: 100,
            compacts: false,
        })
    }

    /// Ends the current turn.
    pub fn turn_ended(&mut self, stop_reason: StopReason) -> Arc<Event> {
        let result = TurnResult {
            turn_id: self.turn,
            trace_id: TraceId::generate(),
            text: "done".into(),
            tool_used: false,
            stop_reason,
            error: None,
            steps: 1,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 1,
            only_compacted: false,
        };
        self.next(EventKind::TurnEnded { result: Box::new(result) })
    }

    /// Adds a user input.
    pub fn input(&mut self, text: &str) -> Arc<Event> {
        self.completed(user(text))
    }

    /// Adds a completed item.
    pub fn completed(&mut self, body: ItemBody) -> Arc<Event> {
        let item = Item::new(self.turn, body);
        self.next(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }

    /// Adds a change to the session's state.
    pub fn changed(&mut self, change: StateChange) -> Arc<Event> {
        self.next(EventKind::StateChanged { change })
    }

    /// Adds a question for approval.
    pub fn approval(&mut self, id: InterruptId, args: Value) -> Arc<Event> {
        let interrupt = Interrupt {
            id,
            session_id: self.session,
            turn_id: self.turn,
            call_id: None,
            asked_by: AskedBy::default(),
            ask: Ask::Approval {
                tool: "write_file".into(),
                args,
                risk: Risk::Medium,
                reason: "it changes a file".into(),
                preview: Some("+ one line\n".into()),
                layer: None,
                rule: None,
                grants: vec!["write_file".into(), "run_bash_command: make".into()],
                wider: vec!["mcp_lab_*".into()],
                for_good: Vec::new(),
                owner: None,
            },
            raised_at: self.now(),
            deadline: None,
            on_deadline: None,
        };
        self.next(EventKind::InterruptRaised { interrupt: Box::new(interrupt) })
    }

    /// Adds an answer to an interrupt.
    pub fn answered(&mut self, id: InterruptId, answer: Answer) -> Arc<Event> {
        let by = AnsweredBy::Client("contract".into());
        self.next(EventKind::InterruptResolved { interrupt_id: id, call_id: None, answer, by })
    }

    /// Adds a paid model call.
    pub fn paid(&mut self, usage: Usage) -> Arc<Event> {
        self.next(EventKind::UsageUpdated {
            step: 1,
            slot: Slot::Base,
            model: "small".into(),
            usage,
            turn: usage,
            prompt: None,
            delegated: false,
            timing: None,
        })
    }

    fn warning(&mut self) -> Arc<Event> {
        self.next(EventKind::Warning {
            code: "model_retry".into(),
            message: "The model is asked again.".into(),
            retry_in_ms: None,
        })
    }
}

fn start() -> Timestamp {
    "2026-01-02T03:04:05.000000006Z".parse().unwrap()
}

async fn session(store: &impl Store) -> EventScript {
    let script = EventScript::new(SessionId::generate(), start());
    store.create_session(script.session, start(), SessionSettings::default(), Vec::new()).await.unwrap();
    script
}

/// Creates a session whose parent is the given session.
async fn child_of(store: &impl Store, parent: SessionId, agent: Option<String>) -> EventScript {
    let script = EventScript::new(SessionId::generate(), start());
    let parent = Some(Parent { session: parent, agent, tools: Vec::new() });
    let settings = SessionSettings { parent, ..SessionSettings::default() };
    store.create_session(script.session, start(), settings, Vec::new()).await.unwrap();
    script
}

/// Returns a change that writes a state file.
fn write(path: &str, content: &str) -> StateChange {
    StateChange::File(StateFileChange { path: path.into(), content: Some(content.into()) })
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, kind: ErrorKind) {
    assert_eq!(outcome.unwrap_err().kind(), kind);
}

async fn status(store: &impl Store, id: SessionId) -> SessionStatus {
    let status = store.session(id).await.unwrap().unwrap().summary.status;
    let listed = store.sessions(usize::MAX).await.unwrap();
    assert_eq!(listed.iter().find(|summary| summary.id == id).unwrap().status, status);
    status
}

fn user(text: &str) -> ItemBody {
    ItemBody::UserMessage { text: text.into(), steered: false, typed_bytes: None, stored: None }
}

async fn new_session_is_empty_and_created_once(store: &impl Store) {
    let id = SessionId::generate();
    assert_eq!(store.session(id).await.unwrap(), None);
    let settings = SessionSettings { confirm_exec: false, grants: vec!["bash:ls".into()], ..Default::default() };
    store.create_session(id, start(), settings.clone(), Vec::new()).await.unwrap();
    let stored = store.session(id).await.unwrap().unwrap();
    assert_eq!(stored.settings, settings);
    assert_eq!((stored.summary.id, stored.summary.title.as_str()), (id, ""));
    assert_eq!((stored.summary.created_at, stored.summary.updated_at), (start(), start()));
    assert_eq!((stored.summary.turns, stored.summary.last_seq, stored.reset_seq), (0, 0, 0));
    assert_eq!((stored.summary.status, stored.open_turn), (SessionStatus::Idle, None));
    assert_eq!((stored.summary.usage, stored.todos), (Usage::default(), Vec::new()));
    assert!(store.events(id, 0, 10).await.unwrap().is_empty());
    refused(store.create_session(id, start(), SessionSettings::default(), Vec::new()).await, ErrorKind::Conflict);
    assert_eq!(store.session(id).await.unwrap().unwrap().settings, settings);
}

async fn new_session_can_start_with_events(store: &impl Store) {
    let mut script = EventScript::new(SessionId::generate(), start());
    let (id, settings) = (script.session, SessionSettings::default());
    let foreign = EventScript::new(SessionId::generate(), start()).turn_started();
    let gap = EventScript { seq: 1, ..script.clone() }.turn_started();
    for bad in [foreign, gap] {
        store.create_session(id, start(), settings.clone(), vec![bad]).await.unwrap_err();
        assert_eq!(store.session(id).await.unwrap(), None, "a rejected session does not exist");
    }
    let first = vec![script.turn_started(), script.input("Hello")];
    store.create_session(id, start(), settings, first.clone()).await.unwrap();
    assert_eq!(store.events(id, 0, 10).await.unwrap(), first);
    let stored = store.session(id).await.unwrap().unwrap();
    assert_eq!((stored.summary.title.as_str(), stored.summary.last_seq), ("Hello", 2));
    assert_eq!(stored.open_turn, Some((script.turn, 1)));
    assert_eq!(store.open_turns().await.unwrap(), [id]);
}

async fn waiting_turns_are_stored_until_they_leave_the_queue(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    let [first, second] = ["one", "two"].map(|text| QueuedTurn {
        turn_id: TurnId::generate(),
        start: StartTurn {
            text: Some(text.to_owned()),
            slot: Some(Slot::Code),
            max_steps: Some(7),
            on_interrupt: OnInterrupt::Deny,
            if_busy: IfBusy::Queue,
            client: "contract".to_owned(),
            ..StartTurn::default()
        },
    });
    for turn in [&first, &second] {
        let change = StateChange::Queue { length: 1, added: Some(Box::new(turn.clone())) };
        store.append(vec![script.changed(change)]).await.unwrap();
    }
    assert_eq!(store.session(id).await.unwrap().unwrap().queue, [first.clone(), second.clone()]);
    assert_eq!(store.open_turns().await.unwrap(), [id], "a waiting turn is resumed at the next start");
    store.append(vec![script.turn_begins(first.turn_id)]).await.unwrap();
    assert_eq!(store.session(id).await.unwrap().unwrap().queue, std::slice::from_ref(&second));
    let end = script.turn_ended(StopReason::Completed);
    let second = script.turn_begins(second.turn_id);
    store.append(vec![end, second, script.turn_ended(StopReason::Cancelled)]).await.unwrap();
    assert!(store.session(id).await.unwrap().unwrap().queue.is_empty());
    assert!(store.open_turns().await.unwrap().is_empty());
}

async fn events_are_returned_unchanged_in_pages(store: &impl Store) {
    let mut script = session(store).await;
    let id = InterruptId::generate();
    let item = Item::new(script.turn, user(""));
    let events = vec![
        script.turn_started(),
        script.next(EventKind::ItemStarted { item }),
        script.input("naïve \u{1b}[0m \0 \"quoted\" 漢字 🦀"),
        script.warning(),
        script.paid(Usage { prompt_tokens: 7, cost_microusd: Some(9), ..Usage::default() }),
        script.approval(id, serde_json::json!({ "z": 1, "a": [1.5, null, "x"], "m": { "k": -3 } })),
        script.answered(id, Answer::Reject { reason: Some("no".into()) }),
        script.changed(StateChange::Queue { length: 2, added: None }),
        script.turn_ended(StopReason::Completed),
    ];
    store.append(events[..4].to_vec()).await.unwrap();
    store.append(events[4..].to_vec()).await.unwrap();
    assert_eq!(store.events(script.session, 0, usize::MAX).await.unwrap(), events);
    assert_eq!(store.events(script.session, 2, 3).await.unwrap(), events[2..5]);
    assert_eq!(store.events(script.session, 8, 3).await.unwrap(), events[8..]);
    assert!(store.events(script.session, 0, 0).await.unwrap().is_empty());
    assert!(store.events(script.session, 9, 3).await.unwrap().is_empty());
    assert!(store.events(script.session, u64::MAX, 3).await.unwrap().is_empty());
    assert!(store.events(SessionId::generate(), 0, 3).await.unwrap().is_empty());
    // The user saw the keys of an object in this order. The comparison of values ignores the order.
    let stored = serde_json::to_string(&store.events(script.session, 5, 1).await.unwrap()[0]).unwrap();
    assert_eq!(stored, serde_json::to_string(&events[5]).unwrap());
}

async fn sequence_numbers_have_no_gaps(store: &impl Store) {
    let mut script = session(store).await;
    let events: Vec<_> = (0..5).map(|_| script.warning()).collect();
    let id = script.session;
    let check = async |numbers: &[usize], stored: usize| {
        let append = numbers.iter().map(|number| Arc::clone(&events[number - 1])).collect();
        refused(store.append(append).await, ErrorKind::Conflict);
        assert_eq!(store.events(id, 0, 10).await.unwrap(), events[..stored]);
    };
    check(&[2], 0).await;
    check(&[1, 3], 0).await;
    store.append(events[..2].to_vec()).await.unwrap();
    check(&[2], 2).await;
    check(&[1, 2, 3], 2).await;
    check(&[4], 2).await;
    check(&[3, 4, 4], 2).await;
    let zero = Arc::new(Event { seq: 0, ..events[0].as_ref().clone() });
    refused(store.append(vec![zero]).await, ErrorKind::Conflict);
    let last = Arc::new(Event { seq: u64::MAX, ..events[0].as_ref().clone() });
    refused(store.append(vec![last]).await, ErrorKind::Conflict);
    store.append(events[2..].to_vec()).await.unwrap();
    assert_eq!(store.events(id, 0, 10).await.unwrap(), events);
}

async fn append_is_atomic(store: &impl Store) {
    let mut script = session(store).await;
    store.append(vec![script.turn_started(), script.input("first")]).await.unwrap();
    let before = store.session(script.session).await.unwrap();
    let saved = script.clone();
    let raised = InterruptId::generate();
    let doomed = vec![
        script.changed(StateChange::Title { title: "lost".into() }),
        script.changed(StateChange::Todos { todos: vec![todo("lost")] }),
        script
            .changed(StateChange::Settings { settings: SessionSettings { confirm_exec: false, ..Default::default() } }),
        script.input("lost"),
        script.approval(raised, Value::Null),
        script.answered(InterruptId::generate(), Answer::Approve),
    ];
    refused(store.append(doomed).await, ErrorKind::Conflict);
    assert_eq!(store.session(script.session).await.unwrap(), before);
    assert_eq!(store.events(script.session, 0, 10).await.unwrap().len(), 2);
    assert_eq!(store.recent_items(script.session, 0, 10).await.unwrap().len(), 1);
    assert_eq!(store.interrupt(raised).await.unwrap(), None);
    let mut script = saved;
    store.append(vec![script.warning()]).await.unwrap();
}

async fn impossible_events_are_rejected(store: &impl Store) {
    let mut script = session(store).await;
    let mut other = session(store).await;
    store.append(Vec::new()).await.unwrap();
    refused(store.append(vec![script.warning(), other.warning()]).await, ErrorKind::InvalidInput);
    let delta = EventKind::ItemDelta { item_id: ItemId::generate(), offset: 0, text: "a".into() };
    let event = Event { session_id: script.session, turn_id: None, seq: 1, at: start(), kind: delta };
    refused(store.append(vec![Arc::new(event)]).await, ErrorKind::InvalidInput);
    script.seq = 0;
    let nameless = Event { turn_id: None, ..script.turn_started().as_ref().clone() };
    refused(store.append(vec![Arc::new(nameless)]).await, ErrorKind::InvalidInput);
    let mut stranger = EventScript::new(SessionId::generate(), start());
    refused(store.append(vec![stranger.warning()]).await, ErrorKind::NotFound);
    for id in [script.session, other.session, stranger.session] {
        assert!(store.events(id, 0, 10).await.unwrap().is_empty());
    }
}

fn todo(content: &str) -> Todo {
    Todo { id: "1".into(), content: content.into(), status: TodoStatus::Pending, priority: TodoPriority::High }
}

async fn state_is_derived_from_events(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    let read = async || store.session(id).await.unwrap().unwrap();

    store.append(vec![script.turn_started(), script.input(" \n ")]).await.unwrap();
    assert_eq!(read().await.summary.title, "");
    store.append(vec![script.completed(ItemBody::AgentMessage { text: "not me".into() })]).await.unwrap();
    assert_eq!(read().await.summary.title, "");
    let long = format!("Tidy\n\tthe \u{1b}[1m{}", "house ".repeat(30));
    store.append(vec![script.input(&long), script.input("later")]).await.unwrap();
    let title = read().await.summary.title;
    assert!(title.starts_with("Tidy the [1mhouse house") && title.ends_with('…'), "{title:?}");
    assert!(title.chars().count() <= 60, "{title:?}");

    let settings = SessionSettings { confirm_write: false, slot: Some(Slot::Code), ..Default::default() };
    let changes = vec![
        script.changed(StateChange::Title { title: "A name".into() }),
        script.changed(StateChange::Todos { todos: vec![todo("old")] }),
        script.changed(StateChange::Settings { settings: settings.clone() }),
        script.changed(StateChange::Todos { todos: vec![todo("new"), todo("newer")] }),
        script.input("this input is not the title"),
    ];
    store.append(changes).await.unwrap();
    let state = read().await;
    assert_eq!(state.summary.title, "A name");
    assert_eq!(state.todos, [todo("new"), todo("newer")]);
    assert_eq!(state.settings, settings);
    assert_eq!(state.open_turn, Some((script.turn, 1)));

    store.append(vec![script.turn_ended(StopReason::Completed), script.turn_started()]).await.unwrap();
    let state = read().await;
    assert_eq!((state.summary.turns, state.summary.last_seq), (2, script.seq));
    assert_eq!(state.open_turn, Some((script.turn, script.seq)));
    assert_eq!((state.summary.created_at, state.summary.updated_at), (start(), script.now()));
    assert_eq!(store.sessions(1).await.unwrap(), [state.summary]);
}

async fn request_preamble_is_stored_until_a_reset(store: &impl Store) {
    let mut script = session(store).await;
    let of = async |id| {
        let stored = store.session(id).await.unwrap().unwrap();
        (stored.tools, stored.surroundings)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    assert_eq!(of(script.session).await, (Vec::new(), None));
    let surroundings =
        Surroundings { text: "Here.".to_owned(), project: Some("/shop".into()), ..Surroundings::default() };
    let changes = vec![
        script.changed(StateChange::Tools { names: names(&["b"]) }),
        script.changed(StateChange::Surroundings(surroundings.clone())),
        script.changed(StateChange::Tools { names: names(&["b", "a"]) }),
    ];
    store.append(changes).await.unwrap();
    assert_eq!(of(script.session).await, (names(&["b", "a"]), Some(surroundings.clone())), "in insertion order");
    let fork = SessionId::generate();
    let copy = NewFork { id: fork, at: start(), from: script.session, through: script.seq, first: Vec::new() };
    store.fork_session(copy).await.unwrap();
    store.append(vec![script.changed(StateChange::Reset)]).await.unwrap();
    assert_eq!(of(script.session).await, (Vec::new(), None));
    assert_eq!(of(fork).await, (names(&["b", "a"]), Some(surroundings)), "a fork has the preamble of its origin");
}

async fn handed_over_files_are_stored_until_a_turn_takes_them(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    let next = async || store.session(id).await.unwrap().unwrap().handed_over.next();
    let hand = |script: &mut EventScript, path: &str| {
        script
            .next(EventKind::StateChanged { change: StateChange::HandedOver { path: path.to_owned(), picture: None } })
    };
    let takes = |event: Arc<Event>, files: &[&str]| {
        let mut event = Event::clone(&event);
        if let EventKind::TurnStarted { handed_over, .. } = &mut event.kind {
            *handed_over = files.iter().map(|file| (*file).to_owned()).collect();
        }
        Arc::new(event)
    };
    assert!(next().await.is_empty());
    store.append(vec![hand(&mut script, "a"), hand(&mut script, "b"), hand(&mut script, "a")]).await.unwrap();
    assert_eq!(next().await, ["b", "a"]);
    // A turn that reports no files does not consume any.
    store.append(vec![script.turn_started(), script.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(next().await, ["b", "a"]);
    // The files are stored with the start of the turn, so they are consumed even if the turn is interrupted. Files that
    // are added later wait for the next turn.
    let started = takes(script.turn_started(), &["b", "a"]);
    store.append(vec![started, hand(&mut script, "c")]).await.unwrap();
    store.append(vec![script.turn_ended(StopReason::Interrupted)]).await.unwrap();
    assert_eq!(next().await, ["c"]);
    let started = takes(script.turn_started(), &["c"]);
    store.append(vec![started, hand(&mut script, "d"), script.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(next().await, ["d"]);
    // The preview of a picture is consumed together with the picture's file.
    let picture = Picture { path: "k/p.png".into(), media_type: "image/png".into(), width: 2, height: 1, bytes: 9 };
    let change = StateChange::HandedOver { path: "p".to_owned(), picture: Some(picture.clone()) };
    store.append(vec![script.next(EventKind::StateChanged { change })]).await.unwrap();
    let handed_over = async || store.session(id).await.unwrap().unwrap().handed_over;
    assert_eq!(handed_over().await.picture("p"), Some(&picture));
    store.append(vec![takes(script.turn_started(), &["d", "p"])]).await.unwrap();
    assert_eq!((handed_over().await.picture("p"), next().await.len()), (None, 0));
    let many: Vec<_> = (0..150).map(|number| hand(&mut script, &format!("n{number}"))).collect();
    store.append(many).await.unwrap();
    assert_eq!((next().await.len(), next().await.pop().as_deref()), (100, Some("n149")));
    // Files are consumed once a turn starts with them, regardless of how the turn ends.
    let paths = next().await;
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let started = takes(script.turn_started(), &paths);
    store.append(vec![started, script.turn_ended(StopReason::Cancelled)]).await.unwrap();
    store.append((0..50).map(|number| hand(&mut script, &format!("m{number}"))).collect()).await.unwrap();
    let next = next().await;
    assert_eq!((next.len(), next[0].as_str(), next[49].as_str()), (50, "m0", "m49"));
}

async fn state_files_follow_their_changes(store: &impl Store) {
    let mut script = session(store).await;
    let other = session(store).await;
    let remove = |path: &str| StateChange::File(StateFileChange { path: path.into(), content: None });
    let read = async |id| {
        let files = store.state_files(id).await.unwrap();
        files.iter().map(|(path, file)| (path.to_owned(), file.content.clone())).collect::<Vec<_>>()
    };
    let pair = |path: &str, content: &str| (path.to_owned(), content.to_owned());

    assert!(store.state_files(SessionId::generate()).await.unwrap().is_empty());
    let events = vec![
        script.changed(write("notes/plan.md", "one")),
        script.changed(write("b", "报告\r\n\u{1f600}")),
        script.changed(write("notes/plan.md", "two")),
    ];
    let last = events[2].at;
    store.append(events).await.unwrap();
    assert_eq!(read(script.session).await, [pair("b", "报告\r\n\u{1f600}"), pair("notes/plan.md", "two")]);
    let files = store.state_files(script.session).await.unwrap();
    assert_eq!(files.get("notes/plan.md").unwrap().changed, last);
    assert!(read(other.session).await.is_empty());

    // A change in a rejected append has no effect.
    let doomed = vec![script.changed(write("c", "lost")), script.answered(InterruptId::generate(), Answer::Approve)];
    script.seq -= 2;
    refused(store.append(doomed).await, ErrorKind::Conflict);
    store.append(vec![script.changed(remove("b")), script.changed(remove("never"))]).await.unwrap();
    assert_eq!(read(script.session).await, [pair("notes/plan.md", "two")]);
    store.append(vec![script.changed(StateChange::Reset), script.changed(write("new", ""))]).await.unwrap();
    assert_eq!(read(script.session).await, [pair("new", "")]);

    // Stored changes are listed newest first, including changes before a reset. Other events do not affect the list.
    store.append(vec![script.changed(StateChange::Title { title: r#"{"state":"file"}"#.into() })]).await.unwrap();
    let changes = async |before, limit| {
        let changes = store.state_file_changes(script.session, before, limit).await.unwrap();
        changes.into_iter().map(|(seq, change)| (seq, change.path, change.content)).collect::<Vec<_>>()
    };
    let change = |seq, path: &str, content: Option<&str>| (seq, path.to_owned(), content.map(str::to_owned));
    let all = changes(u64::MAX, 10).await;
    let first = all[5].0;
    assert_eq!(
        all,
        [
            change(first + 6, "new", Some("")),
            change(first + 4, "never", None),
            change(first + 3, "b", None),
            change(first + 2, "notes/plan.md", Some("two")),
            change(first + 1, "b", Some("报告\r\n\u{1f600}")),
            change(first, "notes/plan.md", Some("one")),
        ]
    );
    assert_eq!(changes(first + 4, 2).await, all[2..4]);
    assert!(changes(first, 10).await.is_empty() && changes(0, 10).await.is_empty());
    assert!(store.state_file_changes(other.session, u64::MAX, 10).await.unwrap().is_empty());
    assert!(store.state_file_changes(SessionId::generate(), u64::MAX, 10).await.unwrap().is_empty());
    store.delete_session(script.session).await.unwrap();
    assert!(read(script.session).await.is_empty());
}

async fn status_follows_turns_and_interrupts(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    let interrupt = InterruptId::generate();
    let mut steps = vec![
        (script.turn_started(), SessionStatus::Running),
        (script.approval(interrupt, Value::Null), SessionStatus::Waiting),
        (script.warning(), SessionStatus::Waiting),
        (script.answered(interrupt, Answer::Approve), SessionStatus::Running),
        (script.turn_ended(StopReason::Completed), SessionStatus::Idle),
    ];
    for (reason, after) in [
        (StopReason::Interrupted, SessionStatus::Interrupted),
        (StopReason::Suspended, SessionStatus::Interrupted),
        (StopReason::Cancelled, SessionStatus::Idle),
        (StopReason::Failed, SessionStatus::Idle),
        (StopReason::Suspended, SessionStatus::Interrupted),
    ] {
        steps.push((script.turn_started(), SessionStatus::Running));
        steps.push((script.turn_ended(reason), after));
    }
    steps.push((script.changed(StateChange::Title { title: "new".into() }), SessionStatus::Interrupted));
    steps.push((script.changed(StateChange::Reset), SessionStatus::Idle));
    for (event, expected) in steps {
        let kind = event.kind.name();
        store.append(vec![event]).await.unwrap();
        assert_eq!(status(store, id).await, expected, "after {kind}");
        let open = matches!(expected, SessionStatus::Running | SessionStatus::Waiting);
        assert_eq!(store.open_turns().await.unwrap(), if open { vec![id] } else { vec![] });
        assert_eq!(store.session(id).await.unwrap().unwrap().open_turn.is_some(), open);
    }
}

async fn turn_that_never_ran_leaves_the_open_turn_unchanged(store: &impl Store) {
    let mut script = session(store).await;
    let open = script.turn_started();
    let running = script.turn;
    // A queued turn that is cancelled begins and ends during the running turn.
    let mut events = vec![open, script.turn_started(), script.input("never mind")];
    events.push(script.turn_ended(StopReason::Suspended));
    store.append(events).await.unwrap();
    assert_eq!(store.session(script.session).await.unwrap().unwrap().open_turn, Some((running, 1)));
    assert_eq!(status(store, script.session).await, SessionStatus::Running);
    assert_eq!(store.open_turns().await.unwrap(), [script.session]);
    script.turn = running;
    store.append(vec![script.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(store.session(script.session).await.unwrap().unwrap().open_turn, None);
    assert_eq!(status(store, script.session).await, SessionStatus::Idle);
}

async fn usage_sums_do_not_overflow(store: &impl Store) {
    let mut script = session(store).await;
    let small =
        Usage { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 3, reasoning_tokens: 1, ..Usage::default() };
    let paid = Usage { cost_microusd: Some(5), ..small };
    store.append(vec![script.paid(small), script.paid(paid), script.paid(paid)]).await.unwrap();
    let total = store.session(script.session).await.unwrap().unwrap().summary.usage;
    let expected = Usage {
        prompt_tokens: 30,
        cached_tokens: 12,
        cache_write_tokens: 0,
        completion_tokens: 9,
        reasoning_tokens: 3,
        cost_microusd: Some(10),
        calls: 0,
        unpriced_calls: 0,
    };
    assert_eq!(total, expected);
    let huge = Usage { prompt_tokens: u64::MAX, ..Usage::default() };
    store.append(vec![script.paid(huge)]).await.unwrap();
    let total = store.session(script.session).await.unwrap().unwrap().summary.usage;
    assert_eq!(total, Usage { prompt_tokens: u64::MAX, ..expected });
}

/// Returns a model call in a slot, `days` days after the start.
fn call(script: &mut EventScript, days: i64, slot: Slot, model: &str, usage: Usage) -> Arc<Event> {
    let (model, turn, prompt, delegated, timing) = (model.to_owned(), usage, None, false, None);
    let event = script.next(EventKind::UsageUpdated { step: 1, slot, model, usage, turn, prompt, delegated, timing });
    let at = Timestamp::from_second(start().as_second() + days * 86_400).unwrap();
    Arc::new(Event { at, ..(*event).clone() })
}

fn tokens(prompt_tokens: u64, cost_microusd: Option<u64>) -> Usage {
    Usage::of_call(Some(Usage { prompt_tokens, completion_tokens: 1, cost_microusd, ..Usage::default() }))
}

async fn usage_by(store: &impl Store, by: UsageGrouping, since: Option<&str>) -> UsageReport {
    let since = since.map(|day| day.parse().unwrap());
    let now = Timestamp::from_second(start().as_second() + 10 * 86_400).unwrap();
    store.usage(UsageQuery { last_days: None, since, until: None, by }, now).await.unwrap()
}

/// Returns the names, calls, unpriced calls, prompt tokens and costs of the groups.
fn usage_rows(report: &UsageReport) -> Vec<(&str, u64, u64, u64, Option<u64>)> {
    let groups = report.groups.iter().map(|UsageGroup { name, usage, .. }| {
        (name.as_str(), usage.calls, usage.unpriced_calls, usage.prompt_tokens, usage.cost_microusd)
    });
    groups.collect()
}

async fn usage_is_grouped_by_model_session_day_and_slot(store: &impl Store) {
    let report = usage_by(store, UsageGrouping::Model, None).await;
    assert_eq!((report.groups.len(), report.total, report.since), (0, Usage::default(), None));
    let mut first = session(store).await;
    store.append(vec![first.input("Tidy up")]).await.unwrap();
    let mut child = child_of(store, first.session, None).await;
    let mut second = session(store).await;

    store.append(vec![call(&mut first, 0, Slot::Base, "dear", tokens(10, Some(500)))]).await.unwrap();
    store.append(vec![call(&mut first, 0, Slot::Base, "dear", tokens(20, Some(700)))]).await.unwrap();
    store.append(vec![call(&mut child, 1, Slot::Code, "free", tokens(30, Some(0)))]).await.unwrap();
    store.append(vec![call(&mut second, 2, Slot::Base, "local", tokens(40, None))]).await.unwrap();
    // The parent's report contains the cost of a child, which has already been counted for the child.
    let sum = EventKind::UsageUpdated {
        step: 1,
        slot: Slot::Base,
        model: "dear".into(),
        usage: tokens(30, Some(0)),
        turn: tokens(30, Some(0)),
        prompt: None,
        delegated: true,
        timing: None,
    };
    store.append(vec![first.next(sum)]).await.unwrap();
    let side = SideUsage { at: start(), slot: Slot::Chat, model: "dear".into(), usage: tokens(1, Some(1)) };
    store.count_usage(side).await.unwrap();

    let report = usage_by(store, UsageGrouping::Model, None).await;
    let models = [("dear", 3, 0, 31, Some(1201)), ("free", 1, 0, 30, Some(0)), ("local", 1, 1, 40, None)];
    assert_eq!(usage_rows(&report), models);
    let total = Usage { reasoning_tokens: 0, ..report.total };
    assert_eq!((total.calls, total.unpriced_calls, total.cost_microusd), (5, 1, Some(1201)));
    assert_eq!((total.prompt_tokens, total.completion_tokens), (101, 5));
    assert_eq!(
        (report.since.unwrap().to_string(), report.until.to_string()),
        ("2026-01-02".into(), "2026-01-12".into())
    );

    let report = usage_by(store, UsageGrouping::Session, None).await;
    let (one, two) = (first.session.to_string(), second.session.to_string());
    let sessions = [(one.as_str(), 3, 0, 60, Some(1200)), ("", 1, 0, 1, Some(1)), (two.as_str(), 1, 1, 40, None)];
    assert_eq!(usage_rows(&report), sessions);
    assert_eq!((report.groups[0].title.as_str(), report.groups[0].session()), ("Tidy up", Some(first.session)));

    let days =
        [("2026-01-02", 3, 0, 31, Some(1201)), ("2026-01-03", 1, 0, 30, Some(0)), ("2026-01-04", 1, 1, 40, None)];
    assert_eq!(usage_rows(&usage_by(store, UsageGrouping::Day, None).await), days);
    assert_eq!(usage_rows(&usage_by(store, UsageGrouping::Day, Some("2026-01-03")).await), days[1..]);
    let slots = [("base", 3, 1, 70, Some(1200)), ("chat", 1, 0, 1, Some(1)), ("code", 1, 0, 30, Some(0))];
    assert_eq!(usage_rows(&usage_by(store, UsageGrouping::Slot, None).await), slots);

    let query = UsageQuery { last_days: Some(1), since: None, until: None, by: UsageGrouping::Model };
    let now = "2026-01-04T23:59:59Z".parse().unwrap();
    assert_eq!(usage_rows(&store.usage(query.clone(), now).await.unwrap()), [("local", 1, 1, 40, None)]);
    let until = Some("2026-01-03".parse().unwrap());
    let query = UsageQuery { last_days: None, until, ..query };
    assert_eq!(store.usage(query.clone(), now).await.unwrap().total.calls, 4);
    let query = UsageQuery { since: Some("2026-01-04".parse().unwrap()), ..query };
    refused(store.usage(query, now).await, ErrorKind::InvalidInput);
}

async fn usage_outlives_its_session_without_its_name(store: &impl Store) {
    let (mut remaining, mut gone) = (session(store).await, session(store).await);
    store.append(vec![gone.input("A secret")]).await.unwrap();
    for script in [&mut remaining, &mut gone] {
        store.append(vec![call(script, 0, Slot::Base, "m", tokens(10, Some(5)))]).await.unwrap();
    }
    // The calls in a copy have already been counted for the original.
    let (id, at, first) = (SessionId::generate(), start(), Vec::new());
    store.fork_session(NewFork { id, at, from: gone.session, through: gone.seq, first }).await.unwrap();
    let before = usage_by(store, UsageGrouping::Model, None).await;
    store.delete_session(gone.session).await.unwrap();
    // A new session may reuse the row of a deleted session.
    let mut new = session(store).await;
    store.append(vec![call(&mut new, 0, Slot::Base, "m", tokens(1, Some(1)))]).await.unwrap();
    let after = usage_by(store, UsageGrouping::Model, None).await;
    assert_eq!((before.total.calls, before.total.cost_microusd), (2, Some(10)));
    assert_eq!((after.total.calls, after.total.cost_microusd), (3, Some(11)));
    let report = usage_by(store, UsageGrouping::Session, None).await;
    let of = |name: String| report.groups.iter().find(|group| group.name == name).unwrap();
    assert_eq!(of(remaining.session.to_string()).usage.cost_microusd, Some(5));
    assert_eq!(of(new.session.to_string()).usage.cost_microusd, Some(1));
    let nobody = of(String::new());
    assert_eq!((nobody.usage.cost_microusd, nobody.title.as_str(), report.groups.len()), (Some(5), "", 3));
}

async fn usage_of_any_size_is_summed(store: &impl Store) {
    let mut script = session(store).await;
    let huge = Usage { prompt_tokens: u64::MAX, cost_microusd: Some(u64::MAX), ..tokens(0, None) };
    for model in ["a", "a", "b"] {
        store.append(vec![call(&mut script, 0, Slot::Base, model, huge)]).await.unwrap();
    }
    let report = usage_by(store, UsageGrouping::Session, None).await;
    let max = u64::try_from(i64::MAX).unwrap();
    assert!(report.total.prompt_tokens >= max && report.total.cost_microusd >= Some(max));
    assert_eq!(report.total.calls, 3);
}

async fn interrupts_are_answered_once(store: &impl Store) {
    let mut script = session(store).await;
    let mut other = session(store).await;
    let id = InterruptId::generate();
    assert_eq!(store.interrupt(id).await.unwrap(), None);
    let raised = script.approval(id, serde_json::json!({ "path": "a.txt" }));
    let EventKind::InterruptRaised { interrupt } = raised.kind.clone() else { unreachable!("built by `approval`") };
    store.append(vec![raised]).await.unwrap();
    let pending = StoredInterrupt { interrupt: *interrupt, answer: None };
    assert_eq!(store.interrupt(id).await.unwrap(), Some(pending.clone()));

    refused(store.append(vec![other.approval(id, Value::Null)]).await, ErrorKind::Conflict);
    other.seq = 0;
    refused(store.append(vec![other.answered(id, Answer::Approve)]).await, ErrorKind::Conflict);
    let saved = script.clone();
    refused(store.append(vec![script.answered(InterruptId::generate(), Answer::Approve)]).await, ErrorKind::Conflict);
    let mut script = saved;
    let saved = script.clone();
    let double_answer =
        vec![script.answered(id, Answer::Approve), script.answered(id, Answer::Always { scope: GrantScope::ForGood })];
    refused(store.append(double_answer).await, ErrorKind::Conflict);
    assert_eq!(store.interrupt(id).await.unwrap(), Some(pending.clone()));
    assert!(store.grants().await.unwrap().is_empty(), "a rejected answer stores no grant");

    let mut script = saved;
    let answer = Answer::Edit { args: serde_json::json!({ "path": "b.txt" }) };
    store.append(vec![script.answered(id, answer.clone())]).await.unwrap();
    let answered = StoredInterrupt { answer: Some(answer), ..pending };
    assert_eq!(store.interrupt(id).await.unwrap(), Some(answered.clone()));
    assert!(store.pending_interrupts(None).await.unwrap().is_empty());
    refused(store.append(vec![script.answered(id, Answer::Approve)]).await, ErrorKind::Conflict);
    assert_eq!(store.interrupt(id).await.unwrap(), Some(answered));
}

async fn permanent_rules_are_stored_and_revoked(store: &impl Store) {
    assert!(store.grants().await.unwrap().is_empty());
    let grant = Grant { rule: "write_file".into(), at: Some(start()), by: Some("contract".into()) };
    let unknown = Grant::from("run_bash_command: echo 'ä\n'");
    store.store_grant(grant.clone()).await.unwrap();
    store.store_grant(unknown.clone()).await.unwrap();
    // Storing a grant again leaves the first one unchanged.
    store.store_grant("write_file".into()).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), [grant.clone(), unknown.clone()]);
    store.revoke_grant("write_fil%".into()).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), [grant.clone(), unknown.clone()]);
    store.revoke_grant(grant.rule.clone()).await.unwrap();
    store.revoke_grant(grant.rule.clone()).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), std::slice::from_ref(&unknown));
    store.store_grant(grant.clone()).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), [unknown, grant]);
}

async fn permanent_rule_is_stored_with_its_answer(store: &impl Store) {
    let mut script = session(store).await;
    let [once, session_only, for_good, gone] = std::array::from_fn(|_| InterruptId::generate());
    let raised = [once, session_only, for_good, gone].map(|id| script.approval(id, Value::Null));
    store.append(raised.into()).await.unwrap();
    store.append(vec![script.answered(once, Answer::Approve)]).await.unwrap();
    let always = |scope| Answer::Always { scope };
    store.append(vec![script.answered(session_only, always(GrantScope::Session))]).await.unwrap();
    assert!(store.grants().await.unwrap().is_empty());
    let answered = script.answered(for_good, always(GrantScope::ForGood));
    let at = Some(answered.at);
    store.append(vec![answered]).await.unwrap();
    let grants = ["write_file", "run_bash_command: make"].map(|rule| Grant {
        rule: rule.into(),
        at,
        by: Some("contract".into()),
    });
    assert_eq!(store.grants().await.unwrap(), grants);
    // A rejected append does not store its grant. Stored grants outlive the session.
    store.revoke_grant("write_file".into()).await.unwrap();
    let double_answer =
        vec![script.answered(gone, always(GrantScope::ForGood)), script.answered(once, Answer::Approve)];
    refused(store.append(double_answer).await, ErrorKind::Conflict);
    store.delete_session(script.session).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), grants[1..]);
}

async fn rules_of_sessions_are_listed(store: &impl Store) {
    assert!(store.session_grants().await.unwrap().is_empty());
    let (mut first, second) = (session(store).await, SessionId::generate());
    let grant = Grant { rule: "write_file".into(), at: Some(start()), by: Some("contract".into()) };
    let settings = |grants| SessionSettings { grants, ..SessionSettings::default() };
    store.create_session(second, start(), settings(vec!["edit_file".into()]), Vec::new()).await.unwrap();
    let change = StateChange::Settings { settings: settings(vec![grant.clone()]) };
    store.append(vec![first.changed(change)]).await.unwrap();
    let held = |id, grant| ScopedGrant { session_id: Some(id), grant };
    let listed = [held(first.session, grant), held(second, "edit_file".into())];
    assert_eq!(store.session_grants().await.unwrap(), listed);
    store.delete_session(first.session).await.unwrap();
    let change = StateChange::Settings { settings: settings(Vec::new()) };
    let mut second = EventScript { session: second, ..EventScript::new(second, start()) };
    store.append(vec![second.changed(change)]).await.unwrap();
    assert!(store.session_grants().await.unwrap().is_empty());
}

async fn interrupts_are_listed_in_the_order_they_were_raised(store: &impl Store) {
    let mut a = session(store).await;
    let mut b = session(store).await;
    // The order differs from ID order, so that sorting by ID is detected.
    let mut ids: Vec<_> = (0..4).map(|_| InterruptId::generate()).collect();
    ids.reverse();
    store.append(vec![b.approval(ids[0], Value::Null)]).await.unwrap();
    store.append(vec![a.approval(ids[1], Value::Null), a.approval(ids[2], Value::Null)]).await.unwrap();
    store.append(vec![b.approval(ids[3], Value::Null)]).await.unwrap();
    let pending = async |session| -> Vec<InterruptId> {
        store.pending_interrupts(session).await.unwrap().into_iter().map(|interrupt| interrupt.id).collect()
    };
    assert_eq!(pending(None).await, ids);
    assert_eq!(pending(Some(a.session)).await, ids[1..3]);
    assert_eq!(pending(Some(b.session)).await, [ids[0], ids[3]]);
    assert!(pending(Some(SessionId::generate())).await.is_empty());
    store.append(vec![a.answered(ids[1], Answer::Approve)]).await.unwrap();
    assert_eq!(pending(None).await, [ids[0], ids[2], ids[3]]);
}

async fn too_deeply_nested_arguments_are_rejected(store: &impl Store) {
    let mut script = session(store).await;
    let nested = |depth: usize| (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let saved = script.clone();
    let id = InterruptId::generate();
    refused(store.append(vec![script.approval(id, nested(127))]).await, ErrorKind::InvalidInput);
    assert_eq!(store.interrupt(id).await.unwrap(), None);
    let mut script = saved;
    store.append(vec![script.approval(id, nested(100))]).await.unwrap();
    assert!(store.interrupt(id).await.unwrap().is_some());
    assert_eq!(store.events(script.session, 0, 10).await.unwrap().len(), 1);
}

async fn texts(store: &impl Store, session: SessionId, after: u64, limit: usize) -> Vec<(u64, String)> {
    let items = store.recent_items(session, after, limit).await.unwrap();
    let text = |item: Item| match item.body {
        ItemBody::UserMessage { text, .. } => text,
        other => other.kind().into(),
    };
    items.into_iter().map(|(seq, item)| (seq, text(item))).collect()
}

async fn recent_items_are_the_last_ones_in_order(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    let started = Item::new(script.turn, user(""));
    let events = vec![
        script.turn_started(),
        script.next(EventKind::ItemStarted { item: started }),
        script.input("a"),
        script.warning(),
        script.input("b"),
        script.completed(ItemBody::notice("n")),
        script.input("c"),
        script.turn_ended(StopReason::Completed),
    ];
    store.append(events).await.unwrap();
    let all = [(3, "a".to_owned()), (5, "b".into()), (6, "notice".into()), (7, "c".into())];
    assert_eq!(texts(store, id, 0, usize::MAX).await, all);
    assert_eq!(texts(store, id, 0, 4).await, all);
    assert_eq!(texts(store, id, 0, 2).await, all[2..]);
    assert_eq!(texts(store, id, 3, 10).await, all[1..]);
    assert_eq!(texts(store, id, 3, 1).await, all[3..]);
    assert!(texts(store, id, 7, 10).await.is_empty());
    assert!(texts(store, id, 0, 0).await.is_empty());
    assert!(texts(store, SessionId::generate(), 0, 10).await.is_empty());
    let before = async |after, before, limit| -> Vec<u64> {
        let items = store.items_between(id, after, Some(before), limit).await.unwrap();
        items.into_iter().map(|(seq, _)| seq).collect()
    };
    assert_eq!(before(0, 7, 2).await, [5, 6]);
    assert_eq!(before(0, 5, 2).await, [3]);
    assert_eq!(before(3, u64::MAX, 9).await, [5, 6, 7]);
    let change = StateChange::Withdrawn { items: vec![5, 6], input: Some("b".into()), added: Vec::new() };
    store.append(vec![script.next(EventKind::StateChanged { change })]).await.unwrap();
    assert_eq!(
        texts(store, id, 0, 2).await,
        [(3, "a".to_owned()), (7, "c".into())],
        "withdrawn items do not count towards the limit"
    );
    assert_eq!(before(3, 7, 9).await, [0u64; 0]);
    for (after, end) in [(0, 3), (0, 0), (7, 5)] {
        assert!(before(after, end, 9).await.is_empty());
    }
}

/// Returns the sorted event numbers of the results, because each store ranks results differently.
async fn found(store: &impl Store, query: &str, session: Option<SessionId>) -> Vec<u64> {
    let query = SearchQuery::parse(query).unwrap();
    let mut numbers: Vec<u64> =
        store.search(query, session, 100).await.unwrap().hits.into_iter().map(|hit| hit.seq).collect();
    numbers.sort_unstable();
    numbers
}

async fn messages_are_found_by_text(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    assert!(found(store, "papers", None).await.is_empty());
    let texts = ["The tax papers are in the DRAWER", "100% of a_b \"quoted\" 'x' -y", "税务报告在抽屉里"];
    store.append(texts.iter().map(|text| script.input(text)).collect()).await.unwrap();
    let call = ToolCall {
        call_id: CallId::from("c1".to_owned()),
        name: "read_file".to_owned(),
        arguments: r#"{"path":"drawer.txt"}"#.to_owned(),
    };
    store.append(vec![script.completed(ItemBody::ToolCall(call)), script.warning()]).await.unwrap();
    for (query, expected) in [
        ("tax", vec![1]),
        ("drawer", vec![1, 4]),
        ("Drawer PAPERS", vec![1, 4]),
        ("Where are the tax papers?", vec![1]),
        ("\"papers are\"", vec![1]),
        ("\"are papers\"", vec![]),
        ("rawe", vec![1, 4]),
        ("nowhere", vec![]),
        ("报告", vec![3]),
        ("税务报告", vec![3]),
        ("税务报告在哪个抽屉？", vec![3]),
        ("\"税务抽屉\"", vec![]),
        ("抽屉 nowhere", vec![3]),
        ("100%", vec![2]),
        ("a_b", vec![2]),
        ("axb", vec![]),
        ("tax OR nowhere", vec![1]),
        ("\"are papers\" tax", vec![1]),
        ("-y", vec![2]),
        ("x", vec![1, 2, 4]),
        ("tax NEAR( * ^ :", vec![1]),
    ] {
        assert_eq!(found(store, query, None).await, expected, "{query:?}");
    }
    let all = SearchQuery::parse("Drawer PAPERS").unwrap().requiring_all();
    assert_eq!(store.search(all, None, 10).await.unwrap().hits.len(), 1);
    // The newer text has only one of the words.
    let best = store.search(SearchQuery::parse("drawer papers").unwrap(), None, 1).await.unwrap();
    assert_eq!(best.hits[0].seq, 1);
    let found_there = store.search(SearchQuery::parse("papers").unwrap(), Some(id), 10).await.unwrap();
    assert_eq!(found_there.unsearched, 0);
    let hit = &found_there.hits[0];
    assert_eq!((hit.session_id, hit.kind, hit.title.as_str()), (id, SearchKind::Person, texts[0]));
    assert_eq!(&hit.excerpt[hit.marks[0].clone()], "papers");
    // New texts are found, also by session. Deleted texts are not found.
    store.append(vec![script.input("more papers")]).await.unwrap();
    let mut other = session(store).await;
    store.append(vec![other.input("other papers")]).await.unwrap();
    assert_eq!(found(store, "papers", Some(id)).await, [1, 6]);
    assert_eq!(found(store, "papers", Some(other.session)).await, [1]);
    assert_eq!(found(store, "papers", None).await, [1, 1, 6]);
    assert_eq!(store.search(SearchQuery::parse("papers").unwrap(), None, 2).await.unwrap().hits.len(), 2);
    store.delete_session(id).await.unwrap();
    assert_eq!(found(store, "papers", None).await, [1]);
    assert!(found(store, "papers", Some(id)).await.is_empty());
    assert!(found(store, "报告", None).await.is_empty());
}

async fn reset_hides_earlier_items(store: &impl Store) {
    let mut script = session(store).await;
    let id = script.session;
    store.append(vec![script.input("before"), script.changed(StateChange::Reset)]).await.unwrap();
    let reset = store.session(id).await.unwrap().unwrap().reset_seq;
    assert_eq!(reset, 2);
    assert!(texts(store, id, reset, 10).await.is_empty());
    store.append(vec![script.input("after")]).await.unwrap();
    assert_eq!(texts(store, id, reset, 10).await, [(3, "after".to_owned())]);
    assert_eq!(store.events(id, 0, 10).await.unwrap().len(), 3, "the events stay in the journal");
    store.append(vec![script.changed(StateChange::Reset)]).await.unwrap();
    assert_eq!(store.session(id).await.unwrap().unwrap().reset_seq, 4);
}

async fn window_follows_compactions_resets_and_withdrawals(store: &impl Store) {
    let mut script = session(store).await;
    let mut other = session(store).await;
    let id = script.session;
    let window = async || store.session(id).await.unwrap().unwrap().window;
    let compaction = |summary: &str, through: u64, before: Window| {
        ItemBody::Compaction(Compaction { summary: summary.into(), through, before, ..Compaction::default() })
    };
    store.append(vec![script.input("a"), script.input("b"), script.input("c")]).await.unwrap();
    assert_eq!(window().await, Window::default());

    // An interrupted compaction does not replace any items.
    store.append(vec![script.completed(compaction("", 0, Window::default()))]).await.unwrap();
    assert_eq!(window().await, Window::default());
    store.append(vec![script.completed(compaction("a and b", 2, Window::default()))]).await.unwrap();
    let first = Window { after: 2, summary: 5, held: 0 };
    assert_eq!(window().await, first);
    // The journal retains the replaced items, but reads of the window skip them.
    assert_eq!(texts(store, id, 0, 10).await.len(), 5);
    let seen = [(3, "c".to_owned()), (4, "compaction".into()), (5, "compaction".into())];
    assert_eq!(texts(store, id, first.after, 10).await, seen);
    let items = store.recent_items(id, first.after, 10).await.unwrap();
    assert!(matches!(&items[2].1.body, ItemBody::Compaction(kept) if kept.summary == "a and b" && kept.through == 2));

    store.append(vec![script.input("d"), script.completed(compaction("all", 6, first))]).await.unwrap();
    assert_eq!(window().await, Window { after: 6, summary: 7, held: 0 });
    // Compactions are undone one by one.
    let held = Window { held: 12, ..first };
    store.append(vec![script.changed(StateChange::Window { window: held })]).await.unwrap();
    assert_eq!(window().await, held);
    store.append(vec![script.changed(StateChange::Window { window: Window::default() })]).await.unwrap();
    assert_eq!(window().await, Window::default());

    // The events in one append are applied in order.
    let both = vec![script.completed(compaction("again", 6, Window::default())), script.changed(StateChange::Reset)];
    store.append(both).await.unwrap();
    assert_eq!(window().await, Window { after: 11, summary: 0, held: 0 });
    store.append(vec![script.input("e"), script.completed(compaction("e", 12, window().await))]).await.unwrap();
    assert_eq!(window().await, Window { after: 12, summary: 13, held: 0 });

    // Other sessions are not affected. A session that is deleted and created again starts with an empty window.
    store.append(vec![other.input("mine")]).await.unwrap();
    assert_eq!(store.session(other.session).await.unwrap().unwrap().window, Window::default());
    store.delete_session(id).await.unwrap();
    store.create_session(id, start(), SessionSettings::default(), Vec::new()).await.unwrap();
    assert_eq!(window().await, Window::default());
}

async fn sessions_are_listed_by_last_use(store: &impl Store) {
    let mut scripts = Vec::new();
    for _ in 0..4 {
        scripts.push(session(store).await);
    }
    let ids: Vec<_> = scripts.iter().map(|script| script.session).collect();
    let listed = async |limit| -> Vec<SessionId> {
        store.sessions(limit).await.unwrap().into_iter().map(|summary| summary.id).collect()
    };
    assert_eq!(listed(10).await, [ids[3], ids[2], ids[1], ids[0]], "unused sessions are listed newest first");
    store.append(vec![scripts[1].turn_started(), scripts[1].warning()]).await.unwrap();
    store.append(vec![scripts[0].turn_started()]).await.unwrap();
    assert_eq!(listed(10).await, [ids[0], ids[1], ids[3], ids[2]]);
    assert_eq!(listed(2).await, [ids[0], ids[1]]);
    assert!(listed(0).await.is_empty());
    // Each session appears on exactly one page.
    let (mut paged, mut next) = (Vec::new(), None);
    loop {
        let page = store.session_page(next, 3).await.unwrap();
        paged.extend(page.sessions.into_iter().map(|summary| summary.id));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(paged, [ids[0], ids[1], ids[3], ids[2]]);
    assert!(store.session_page(Some(0), 3).await.unwrap().sessions.is_empty());

    // The clock was set back. Sessions used afterwards still count as the most recently used.
    let earlier = start() - Duration::from_secs(3600);
    let used = Event { at: earlier, ..Event::clone(&scripts[2].turn_started()) };
    store.append(vec![Arc::new(used)]).await.unwrap();
    assert_eq!(listed(10).await, [ids[2], ids[0], ids[1], ids[3]]);
    assert_eq!(store.sessions(1).await.unwrap()[0].updated_at, earlier, "the listed time is the clock's time");
    let new = SessionId::generate();
    store.create_session(new, earlier, SessionSettings::default(), Vec::new()).await.unwrap();
    assert_eq!(listed(2).await, [new, ids[2]]);
    // The position of a deleted session in the order of use is not reused.
    store.delete_session(new).await.unwrap();
    store.append(vec![scripts[3].turn_started()]).await.unwrap();
    store.append(vec![scripts[0].turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(listed(10).await, [ids[0], ids[3], ids[2], ids[1]]);
    let fork = SessionId::generate();
    let through = scripts[0].seq;
    let first = vec![EventScript { seq: through, ..EventScript::new(fork, earlier) }.changed(StateChange::Reset)];
    store.fork_session(NewFork { id: fork, at: earlier, from: ids[0], through, first }).await.unwrap();
    assert_eq!(listed(2).await, [fork, ids[0]]);
}

async fn subagents_are_listed_wait_and_are_deleted_with_their_session(store: &impl Store) {
    let mut parent = session(store).await;
    let mut child = child_of(store, parent.session, Some("reader".into())).await;
    let second = child_of(store, parent.session, Some("reader".into())).await;
    let ids = |listed: Vec<SessionSummary>| listed.into_iter().map(|summary| summary.id).collect::<Vec<_>>();
    assert_eq!(ids(store.sessions(10).await.unwrap()), [parent.session]);
    assert_eq!(ids(store.children(parent.session).await.unwrap()), [child.session, second.session]);
    assert!(store.children(child.session).await.unwrap().is_empty());
    assert_eq!(store.session(child.session).await.unwrap().unwrap().summary.parent, Some(parent.session));

    // The child's questions are pending both for the child and for its parent, whose journal may report them.
    let id = InterruptId::generate();
    store.append(vec![parent.turn_started()]).await.unwrap();
    let question_events = [child.turn_started(), child.approval(id, json!({}))];
    let EventKind::InterruptRaised { interrupt } = question_events[1].kind.clone() else { unreachable!() };
    store.append(question_events.into()).await.unwrap();
    store.append(vec![parent.next(EventKind::InterruptRaised { interrupt })]).await.unwrap();
    for of in [None, Some(parent.session), Some(child.session)] {
        let pending = store.pending_interrupts(of).await.unwrap();
        assert_eq!(
            pending.iter().map(|pending| (pending.id, pending.session_id)).collect::<Vec<_>>(),
            [(id, child.session)]
        );
    }
    assert!(store.pending_interrupts(Some(second.session)).await.unwrap().is_empty());
    assert_eq!(status(store, parent.session).await, SessionStatus::Waiting);
    store.append(vec![child.answered(id, Answer::Approve)]).await.unwrap();
    store.append(vec![parent.answered(id, Answer::Approve)]).await.unwrap();
    assert!(store.pending_interrupts(None).await.unwrap().is_empty());
    assert_eq!(status(store, parent.session).await, SessionStatus::Running);

    assert!(store.files_left().await.unwrap().is_empty());
    store.delete_session(parent.session).await.unwrap();
    for gone in [child.session, second.session] {
        assert!(store.session(gone).await.unwrap().is_none());
    }
    let mut family = vec![parent.session, child.session, second.session];
    family.sort();
    assert_eq!(store.files_left().await.unwrap(), family, "the files of all three are pending removal");
    let last = family.split_off(1);
    store.record_files_removed(family).await.unwrap();
    assert_eq!(store.files_left().await.unwrap(), last);
    store.record_files_removed(last).await.unwrap();
    assert!(store.files_left().await.unwrap().is_empty());
    let orphan = SessionSettings {
        parent: Some(Parent { session: parent.session, agent: None, tools: Vec::new() }),
        ..Default::default()
    };
    refused(store.create_session(SessionId::generate(), start(), orphan, Vec::new()).await, ErrorKind::NotFound);
}

async fn sessions_are_found_by_name(store: &impl Store) {
    let texts = [
        "01900000-0000-7000-8000-000000000001",
        "01900000-0000-7000-8000-0000000000ff",
        "01900000-abcd-7000-8000-000000000002",
        "02000000-0000-7000-8000-000000000003",
    ];
    let ids: Vec<SessionId> = texts.iter().map(|text| text.parse().unwrap()).collect();
    for id in &ids {
        store.create_session(*id, start(), SessionSettings::default(), Vec::new()).await.unwrap();
    }
    let check = async |prefix: &str, expected: &[usize]| {
        let expected: Vec<_> = expected.iter().map(|index| ids[*index]).collect();
        assert_eq!(store.find_sessions(prefix.into(), 10).await.unwrap(), expected, "{prefix:?}");
    };
    check("", &[3, 2, 1, 0]).await;
    check("0", &[3, 2, 1, 0]).await;
    check("019", &[2, 1, 0]).await;
    check("01900000-a", &[2]).await;
    check("01900000A", &[2]).await;
    check("01900000-ABCD-7", &[2]).await;
    check("0190000000007", &[1, 0]).await;
    check(texts[1], &[1]).await;
    check(&texts[1].replace('-', "").to_uppercase(), &[1]).await;
    check(&format!("{}0", texts[1]), &[]).await;
    for nothing in ["03", "%", "01900000_", "0190%", "*", "[0]", "' OR 1=1 --", "latest", "é", "019 ", "\0"] {
        check(nothing, &[]).await;
    }
    check("000003", &[3]).await;
    check("8000-0000000000FF", &[1]).await;
    check("00003", &[]).await;
    let name = async |index: usize, title: &str| {
        let mut script = EventScript::new(ids[index], start());
        store.append(vec![script.changed(StateChange::Title { title: title.into() })]).await.unwrap();
    };
    name(0, "Schöne Straße").await;
    name(2, "100%").await;
    check(" schÖne straße", &[0]).await;
    check("Schöne", &[]).await;
    check("100%", &[2]).await;
    check("100_", &[]).await;
    name(3, "schöne straße").await;
    check("Schöne Straße", &[3, 0]).await;
    assert_eq!(store.find_sessions("schöne straße".into(), 1).await.unwrap(), [ids[3]]);
    assert_eq!(store.find_sessions("019".into(), 2).await.unwrap(), [ids[2], ids[1]]);
    assert!(store.find_sessions("019".into(), 0).await.unwrap().is_empty());
}

async fn deleted_session_leaves_no_data(store: &impl Store) {
    let mut doomed = session(store).await;
    let mut remaining = session(store).await;
    let (lost, held) = (InterruptId::generate(), InterruptId::generate());
    store.append(vec![doomed.turn_started(), doomed.input("a"), doomed.approval(lost, Value::Null)]).await.unwrap();
    store
        .append(vec![remaining.turn_started(), remaining.input("b"), remaining.approval(held, Value::Null)])
        .await
        .unwrap();
    let id = doomed.session;
    store.delete_session(id).await.unwrap();
    assert_eq!(store.session(id).await.unwrap(), None);
    assert!(store.events(id, 0, 10).await.unwrap().is_empty());
    assert!(store.recent_items(id, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.interrupt(lost).await.unwrap(), None);
    assert!(store.pending_interrupts(Some(id)).await.unwrap().is_empty());
    assert!(store.find_sessions(id.to_string(), 10).await.unwrap().is_empty());
    assert_eq!(store.open_turns().await.unwrap(), [remaining.session]);
    assert_eq!(store.sessions(10).await.unwrap().len(), 1);
    refused(store.delete_session(id).await, ErrorKind::NotFound);
    refused(store.append(vec![doomed.warning()]).await, ErrorKind::NotFound);

    assert_eq!(store.events(remaining.session, 0, 10).await.unwrap().len(), 3);
    assert_eq!(store.pending_interrupts(None).await.unwrap().len(), 1);
    store.create_session(id, start(), SessionSettings::default(), Vec::new()).await.unwrap();
    assert!(store.events(id, 0, 10).await.unwrap().is_empty(), "a recreated session has no events");
    assert_eq!(store.session(id).await.unwrap().unwrap().summary.last_seq, 0);
}

/// Twenty sessions append concurrently in several rounds. In each round, some appends are rejected.
async fn sessions_are_independent(store: &impl Store) {
    let mut scripts = Vec::new();
    for _ in 0..20 {
        scripts.push(session(store).await);
    }
    for round in 0..5 {
        let appends = scripts.iter_mut().enumerate().map(|(index, script)| {
            let bad = index % 4 == round % 4;
            let mut ahead = script.clone();
            let event = if bad {
                ahead.seq += 1;
                ahead.warning()
            } else {
                script.input(&format!("{index} in {round}"))
            };
            async move { (bad, store.append(vec![event]).await) }
        });
        for (bad, outcome) in join_all(appends).await {
            if bad { refused(outcome, ErrorKind::Conflict) } else { outcome.unwrap() }
        }
    }
    for (index, script) in scripts.iter().enumerate() {
        let expected: Vec<_> =
            (0..5).filter(|round| index % 4 != round % 4).map(|round| format!("{index} in {round}")).collect();
        let stored: Vec<_> = texts(store, script.session, 0, 10).await.into_iter().map(|(_, text)| text).collect();
        assert_eq!(stored, expected);
        assert_eq!(store.session(script.session).await.unwrap().unwrap().summary.last_seq, expected.len() as u64);
    }
}

async fn turns_are_listed_with_their_first_and_last_events(store: &impl Store) {
    let script = session(store).await;
    let spans = async || {
        let turns = store.turns(script.session).await.unwrap();
        turns.iter().map(|turn| (turn.began, turn.ended)).collect::<Vec<_>>()
    };
    assert_eq!(spans().await, []);
    let mut script = script.clone();
    let events = vec![script.turn_started(), script.input("a"), script.turn_ended(StopReason::Completed)];
    store.append(events).await.unwrap();
    let mut running = vec![script.warning(), script.turn_started()];
    let open = script.turn;
    // A turn that never ran is nested in the running turn.
    running.extend([script.turn_started(), script.turn_ended(StopReason::Cancelled)]);
    script.turn = open;
    store.append(running).await.unwrap();
    assert_eq!(spans().await, [(1, Some(3)), (5, None), (6, Some(7))]);
    store.append(vec![script.turn_ended(StopReason::Failed)]).await.unwrap();
    assert_eq!(spans().await, [(1, Some(3)), (5, Some(8)), (6, Some(7))]);
    assert_eq!(store.turns(SessionId::generate()).await.unwrap(), []);
}

async fn ended_turns_are_listed_in_the_order_of_their_ends(store: &impl Store) {
    let (mut first, mut second) = (session(store).await, session(store).await);
    let mut child = child_of(store, first.session, None).await;
    let before = store.ended_turns(0, 10).await.unwrap();
    assert_eq!(before.turns, []);
    store.append(vec![first.turn_started(), first.input("a")]).await.unwrap();
    store.append(vec![second.turn_started(), second.turn_ended(StopReason::Completed)]).await.unwrap();
    store.append(vec![child.turn_started(), child.turn_ended(StopReason::Completed)]).await.unwrap();
    store.append(vec![first.turn_ended(StopReason::Failed), first.warning()]).await.unwrap();
    let all = store.ended_turns(0, 10).await.unwrap();
    let ids = |turns: &[EndedTurn]| turns.iter().map(|turn| (turn.session_id, turn.turn_id)).collect::<Vec<_>>();
    let expected = [(second.session, second.turn), (first.session, first.turn)];
    assert_eq!(ids(&all.turns), expected);
    assert!(all.end > all.turns[1].place && all.turns[1].place > all.turns[0].place && all.turns[0].place > before.end);
    assert_eq!(ids(&store.ended_turns(0, 1).await.unwrap().turns), expected[..1]);
    assert_eq!(ids(&store.ended_turns(all.turns[0].place, 10).await.unwrap().turns), expected[1..]);
    assert_eq!(store.ended_turns(all.end, 10).await.unwrap().turns, []);
    let fork = SessionId::generate();
    let mark = StateChange::Forked { from: first.session, turn: 1 };
    let mut copy = EventScript { session: fork, ..first.clone() };
    let new =
        NewFork { id: fork, at: start(), from: first.session, through: first.seq, first: vec![copy.changed(mark)] };
    store.fork_session(new).await.unwrap();
    assert_eq!(ids(&store.ended_turns(0, 10).await.unwrap().turns), expected, "copied turns are not listed");
    store.append(vec![copy.turn_started(), copy.turn_ended(StopReason::Completed)]).await.unwrap();
    assert_eq!(ids(&store.ended_turns(all.end, 10).await.unwrap().turns), [(fork, copy.turn)]);
    store.delete_session(fork).await.unwrap();
    store.delete_session(second.session).await.unwrap();
    assert_eq!(ids(&store.ended_turns(0, 10).await.unwrap().turns), expected[1..]);
}

async fn fork_continues_from_a_copy(store: &impl Store) {
    let mut script = session(store).await;
    let from = script.session;
    let question_events = InterruptId::generate();
    let todo = todo("Dig");
    let settings_with_grant = SessionSettings { grants: vec!["write_file".into()], ..SessionSettings::default() };
    let first = vec![
        script.turn_started(),
        script.input("the old house"),
        script.approval(question_events, json!({"path": "a"})),
        script.answered(question_events, Answer::Always { scope: GrantScope::ForGood }),
        script.paid(Usage { prompt_tokens: 7, ..Usage::default() }),
        script.changed(StateChange::Todos { todos: vec![todo.clone()] }),
        script.changed(write("plan.md", "one")),
        script.changed(write("gone.md", "gone")),
        script.changed(StateChange::File(StateFileChange { path: "gone.md".into(), content: None })),
        script.changed(StateChange::Settings { settings: settings_with_grant }),
        script.changed(StateChange::HandedOver { path: "uploads/a.pdf".into(), picture: None }),
        script.turn_ended(StopReason::Interrupted),
    ];
    let through = first.len() as u64;
    store.append(first).await.unwrap();
    let second = vec![
        script.turn_started(),
        script.input("the new house"),
        script.changed(StateChange::Todos { todos: Vec::new() }),
        script.changed(write("plan.md", "two")),
        script.turn_ended(StopReason::Completed),
    ];
    store.append(second).await.unwrap();
    let origin = store.session(from).await.unwrap().unwrap();

    let id = SessionId::generate();
    let mut own = EventScript::new(id, start());
    own.seq = through;
    let settings = SessionSettings { confirm_write: false, ..SessionSettings::default() };
    let begins = vec![
        own.changed(StateChange::Forked { from, turn: 1 }),
        own.changed(StateChange::Settings { settings: settings.clone() }),
    ];
    let fork = |id, through, first| NewFork { id, at: start(), from, through, first };
    store.fork_session(fork(id, through, begins.clone())).await.unwrap();
    let stored = store.session(id).await.unwrap().unwrap();
    let summary = &stored.summary;
    assert_eq!((summary.title.as_str(), summary.turns, summary.last_seq), ("the old house", 1, through + 2));
    assert_eq!((summary.status, summary.usage), (SessionStatus::Interrupted, Usage::default()));
    assert_eq!((&stored.settings, &stored.todos), (&settings, &vec![todo]));
    assert_eq!((stored.handed_over.next(), stored.open_turn), (vec!["uploads/a.pdf".to_owned()], None));
    let files = store.state_files(id).await.unwrap();
    assert_eq!(
        files.iter().map(|(path, file)| (path, file.content.as_str())).collect::<Vec<_>>(),
        [("plan.md", "one")]
    );
    assert_eq!(texts(store, id, 0, 10).await, [(2, "the old house".to_owned())]);
    assert_eq!(store.state_file_changes(id, 100, 10).await.unwrap().len(), 3);
    // The events equal those of the origin, except for the session ID.
    let (copies, originals) = (store.events(id, 0, 100).await.unwrap(), store.events(from, 0, 100).await.unwrap());
    assert_eq!(copies[through as usize..], begins);
    for (copy, original) in copies.iter().zip(&originals[..through as usize]) {
        assert_eq!(
            (copy.seq, copy.at, copy.turn_id, copy.session_id),
            (original.seq, original.at, original.turn_id, id)
        );
        match &copy.kind {
            EventKind::InterruptRaised { interrupt } => {
                assert_eq!((interrupt.id, interrupt.session_id), (question_events, id))
            }
            kind => assert_eq!(kind, &original.kind),
        }
    }
    // The question belongs to the origin, and the permanent grant in its answer only exists once.
    assert_eq!(store.interrupt(question_events).await.unwrap().unwrap().interrupt.session_id, from);
    assert_eq!(store.grants().await.unwrap().len(), 2);
    assert_eq!(store.session_grants().await.unwrap().len(), 1);
    assert_eq!(found(store, "house", Some(id)).await, [2]);

    // Both sessions continue independently.
    store
        .append(vec![own.changed(write("plan.md", "three")), own.turn_started(), own.input("the fork")])
        .await
        .unwrap();
    store.append(vec![script.input("the origin")]).await.unwrap();
    let plan = async |id| store.state_files(id).await.unwrap().get("plan.md").unwrap().content.clone();
    assert_eq!((plan(id).await.as_str(), plan(from).await.as_str()), ("three", "two"));
    assert_eq!(store.session(id).await.unwrap().unwrap().open_turn, Some((own.turn, through + 4)));
    assert_eq!(store.session(from).await.unwrap().unwrap().summary.turns, origin.summary.turns);

    // A rejected fork does not store any data.
    let other = SessionId::generate();
    refused(store.fork_session(fork(other, 3, Vec::new())).await, ErrorKind::Conflict);
    refused(store.fork_session(fork(other, 100, Vec::new())).await, ErrorKind::NotFound);
    refused(store.fork_session(fork(other, through, begins)).await, ErrorKind::InvalidInput);
    refused(store.fork_session(fork(id, through, Vec::new())).await, ErrorKind::Conflict);
    assert_eq!(store.session(other).await.unwrap(), None);
    store.delete_session(from).await.unwrap();
    refused(store.fork_session(fork(other, through, Vec::new())).await, ErrorKind::NotFound);
    assert_eq!(texts(store, id, 0, 10).await.len(), 2);
}
