//! Acknowledgements of a daemon, recorded outside the daemon, with checks that each of them still holds.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use agentd_core::{
    event::{Event, EventKind},
    ids::InterruptId,
    interrupt::Answer,
    item::ItemStatus,
};
use agentd_proto::client::Client;
use agentd_testkit::daemon::{TempDaemon, until};
use fastrand::Rng;
use serde_json::Value;

use super::holdings;

/// Period of silence after which a stream may be waiting for an answer.
const SILENCE: Duration = Duration::from_millis(300);

/// A restarted daemon with a connected client.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) daemon: &'a TempDaemon,
    pub(super) client: &'a Client,
}

/// Acknowledgements that one client has received.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    sessions: BTreeSet<String>,
    events: Vec<(String, u64, Value)>,
    answers: Vec<(String, InterruptId, Value)>,
    uploads: Vec<(String, String, Vec<u8>)>,
    deleting: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Acknowledged {
    pub(super) fn session(&mut self, session: &str) {
        self.sessions.insert(session.to_owned());
    }

    pub(super) fn event(&mut self, event: &Event) {
        if event.kind.is_stored() {
            self.events.push((event.session_id.to_string(), event.seq, json_of(event)));
        }
    }

    /// Records an accepted answer to the question in this event.
    pub(super) fn answered(&mut self, event: &Event, answer: &Answer) {
        if let EventKind::InterruptRaised { interrupt } = &event.kind {
            let answer = serde_json::to_value(answer).expect("JSON");
            self.answers.push((interrupt.session_id.to_string(), interrupt.id, answer));
        }
    }

    pub(super) fn uploaded(&mut self, session: &str, path: String, content: Vec<u8>) {
        self.uploads.push((session.to_owned(), path, content));
    }

    /// Records that a deletion was requested. The session may be deleted even if the client receives no
    /// acknowledgement.
    pub(super) fn deleting(&mut self, session: &str) {
        self.deleting.insert(session.to_owned());
    }

    pub(super) fn deleted(&mut self, session: &str) {
        self.deleted.insert(session.to_owned());
    }
}

/// All acknowledgements so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sessions: BTreeSet<String>,
    events: HashMap<String, BTreeMap<u64, Value>>,
    answers: HashMap<String, Vec<(InterruptId, Value)>>,
    uploads: Vec<(String, String, Vec<u8>)>,
    /// Sessions whose deletion was requested. They may still exist, unlike those in `deleted`.
    deleting: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Marks whose command is known to have succeeded.
    finished: HashSet<String>,
    pub(super) counts: Counts,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    events: usize,
    answers: usize,
    uploads: usize,
    checks: usize,
    completed: usize,
    interrupted: usize,
    forks: usize,
    compactions: usize,
    undone: usize,
}

fn json_of(event: &Event) -> Value {
    serde_json::to_value(event).expect("JSON")
}

/// Cancels turns that ask a question until no turn is open.
async fn end_turns(client: &Client, session: &str, context: &str) {
    until("no turn of the session is open", || async {
        let waiting = client.interrupts(Some(session)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        if !waiting.is_empty() {
            let _ = client.cancel_turn(session, None).await;
        }
        let view = client.session(session).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        view.session.open_turn.is_none().then_some(())
    })
    .await;
}

impl Ledger {
    /// Merges the acknowledgements that clients received, and returns the affected sessions.
    pub(super) fn merge(&mut self, all: Vec<Acknowledged>) -> Vec<String> {
        let mut touched = BTreeSet::new();
        for one in all {
            touched.extend(one.sessions.iter().cloned());
            self.sessions.extend(one.sessions);
            self.counts.events += one.events.len();
            self.counts.answers += one.answers.len();
            self.counts.uploads += one.uploads.len();
            for (session, seq, event) in one.events {
                touched.insert(session.clone());
                self.sessions.insert(session.clone());
                let stored = self.events.entry(session).or_default();
                if let Some(before) = stored.insert(seq, event.clone()) {
                    assert_eq!(before, event, "two readers received different events");
                }
            }
            for (session, id, answer) in one.answers {
                self.answers.entry(session).or_default().push((id, answer));
            }
            self.uploads.extend(one.uploads);
            self.deleting.extend(one.deleting);
            self.deleted.extend(one.deleted);
        }
        touched.extend(self.deleted.iter().cloned());
        touched.into_iter().collect()
    }

    pub(super) fn known_sessions(&self) -> Vec<String> {
        self.sessions.difference(&self.deleted).cloned().collect()
    }

    pub(super) fn some_of(&self, random: &mut Rng, count: usize) -> Vec<String> {
        random.choose_multiple(self.known_sessions(), count)
    }

    /// Returns true if enough actions have completed for a run without failures to be meaningful.
    pub(super) fn is_meaningful(&self, kills: u64) -> bool {
        self.counts.events as u64 > kills * 10 && !self.finished.is_empty() && self.counts.completed > 0
    }

    /// Checks one session after a restart: everything that was acknowledged exists, and the session is consistent.
    pub(super) async fn check(&mut self, at: At<'_>, session: &str, random: &mut Rng, context: &str) {
        let client = at.client;
        let context = format!("{context}, session {session}");
        if let Err(error) = client.session(session).await {
            assert!(self.deleting.contains(session), "{context}: {error}");
            self.sessions.remove(session);
            return;
        }
        assert!(!self.deleted.contains(session), "{context}: the deleted session exists again");
        self.settle(client, session, random, &context).await;
        let mut stream = client.subscribe(session, 0, true).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut events = Vec::new();
        loop {
            // A queued turn may start after the last question is answered, and may then ask another one.
            let Ok(next) = tokio::time::timeout(SILENCE, stream.next()).await else {
                self.settle(client, session, random, &context).await;
                continue;
            };
            match next.unwrap_or_else(|error| panic!("{context}: {error}")) {
                Some(event) if event.kind.is_stored() => events.push(event),
                Some(_) => {}
                None => break,
            }
        }
        self.counts.checks += 1;
        self.compare(session, &events, &context);
        check_order(&events, &context);
        for event in &events {
            self.note_outcome(event);
        }
        self.check_holdings(at, session, &events, random, &context).await;
    }

    /// Checks the data outside the session's events.
    async fn check_holdings(&mut self, at: At<'_>, session: &str, events: &[Event], random: &mut Rng, context: &str) {
        let At { daemon, client } = at;
        self.counts.forks += usize::from(holdings::check_fork(client, session, events, context).await);
        self.counts.compactions += usize::from(holdings::check_compaction(daemon, client, session, events).await);
        if let Some(written) = random.choice(holdings::written(events)) {
            // A queued turn may have started after the last event was read.
            end_turns(client, session, context).await;
            holdings::check_undo(client, session, &written, context).await;
            self.counts.undone += 1;
        }
    }

    /// Answers some of the pending questions and cancels the rest, so that the session becomes idle.
    async fn settle(&mut self, client: &Client, session: &str, random: &mut Rng, context: &str) {
        let waiting = client.interrupts(Some(session)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        for interrupt in waiting {
            if random.bool() {
                continue;
            }
            let answer = Answer::Text { text: "yes, after the kill".to_owned() };
            if client.answer(interrupt.id, &answer, "a test").await.is_ok() {
                let answer = serde_json::to_value(&answer).expect("JSON");
                self.answers.entry(session.to_owned()).or_default().push((interrupt.id, answer));
                self.counts.answers += 1;
            }
        }
        // Queued turns start after the cancellation, and may ask questions too.
        until("the session has no pending question", || async {
            let waiting = client.interrupts(Some(session)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            if !waiting.is_empty() {
                let _ = client.cancel_turn(session, None).await;
            }
            waiting.is_empty().then_some(())
        })
        .await;
    }

    fn compare(&self, session: &str, events: &[Event], context: &str) {
        let stored: BTreeMap<u64, Value> = events.iter().map(|event| (event.seq, json_of(event))).collect();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{context}: numbers");
        for (seq, event) in self.events.get(session).into_iter().flatten() {
            assert_eq!(Some(event), stored.get(seq), "{context}: event {seq}");
        }
        for (id, answer) in self.answers.get(session).into_iter().flatten() {
            let resolved = events.iter().find_map(|event| match &event.kind {
                EventKind::InterruptResolved { interrupt_id, answer, .. } if interrupt_id == id => Some(answer),
                _ => None,
            });
            let resolved = resolved.map(|answer| serde_json::to_value(answer).expect("JSON"));
            assert_eq!(resolved.as_ref(), Some(answer), "{context}: the answer to {id}");
        }
    }

    /// Records the commands that succeeded, and how turns ended.
    fn note_outcome(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, status: ItemStatus::Done } => {
                let item = serde_json::to_value(item).expect("JSON");
                let text = item.to_string();
                if item["kind"] == "tool_result" && item["name"] == "run_bash_command" {
                    let marks = text.split("appended ").skip(1);
                    let marks = marks.filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next());
                    self.finished.extend(marks.map(str::to_owned));
                }
            }
            EventKind::TurnEnded { result } => match result.stop_reason {
                agentd_core::turn::StopReason::Completed => self.counts.completed += 1,
                agentd_core::turn::StopReason::Interrupted => self.counts.interrupted += 1,
                _ => {}
            },
            _ => {}
        }
    }

    /// Checks the files: every command ran at most once, successful commands ran exactly once, and uploads are
    /// complete.
    pub(super) async fn check_files(&mut self, client: &Client, daemon: &TempDaemon, context: &str) {
        let log = daemon.read("project/log.txt");
        let mut lines: HashMap<&str, usize> = HashMap::new();
        for line in log.lines() {
            *lines.entry(line).or_default() += 1;
        }
        for (mark, count) in &lines {
            assert_eq!(*count, 1, "{context}: {mark} ran again");
        }
        for mark in &self.finished {
            assert!(lines.contains_key(mark.as_str()), "{context}: {mark} is reported as done, but did not run");
        }
        let (sessions, deleting) = (&self.sessions, &self.deleting);
        self.uploads.retain(|(session, ..)| sessions.contains(session) && !deleting.contains(session));
        for (session, path, content) in &self.uploads {
            let mut whole = Vec::new();
            while whole.len() < content.len() {
                let piece = client.read_file(session, path, whole.len() as u64).await;
                let piece = piece.unwrap_or_else(|error| panic!("{context}: {path} of {session}: {error}"));
                assert!(!piece.content.is_empty(), "{context}: {path} of {session} is truncated");
                whole.extend_from_slice(&piece.content);
            }
            assert!(whole == *content, "{context}: {path} of {session} has different content");
        }
    }
}

/// Checks that each item ends only once, and that no event of a turn follows the turn's end.
fn check_order(events: &[Event], context: &str) {
    let mut open = HashSet::new();
    let mut items = HashSet::new();
    let mut ended = HashSet::new();
    for event in events {
        if let Some(turn) = event.turn_id {
            assert!(!ended.contains(&turn), "{context}: event {} of turn {turn} is after its end", event.seq);
        }
        match &event.kind {
            EventKind::ItemStarted { item } => {
                assert!(open.insert(item.id), "{context}: item {} starts twice", item.id)
            }
            EventKind::ItemCompleted { item, .. } => {
                assert!(open.remove(&item.id), "{context}: item {} ends without a start", item.id);
                assert!(items.insert(item.id), "{context}: item {} ends twice", item.id);
            }
            EventKind::TurnEnded { .. } => {
                ended.extend(event.turn_id);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{context}: items without an end: {open:?}");
}
