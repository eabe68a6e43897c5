//! Clients that act until the daemon is killed, and a model that follows their inputs.
//!
//! Each input contains one mark, `[VERB MARK]`. The verb selects the tool that the model calls. The mark is unique, so
//! that effects can be counted.

use std::{path::PathBuf, time::Duration};

use agentd_core::{
    context::CompactionStrategy,
    error::ErrorKind,
    event::EventKind,
    interrupt::{Answer, Ask},
    turn::IfBusy,
    undo::UndoRequest,
};
use agentd_proto::client::{Client, ClientError, SessionChoice};
use agentd_testkit::{
    daemon::TempDaemon,
    model_server::{ModelServer, Recorded, Reply},
};
use fastrand::Rng;
use serde_json::json;

use super::{
    super::{trusting_session, turn},
    ledger::Acknowledged,
};

/// Time limit for a compaction.
const COMPACTION: Duration = Duration::from_secs(1);

/// Makes the model follow the inputs: it first calls the tool, and then sends text.
pub(super) fn answer(model: &ModelServer) {
    model.respond_with(|request| Reply { delay_ms: 2, ..reply(request) });
}

fn reply(request: &Recorded) -> Reply {
    // A summary request shows the conversation, but offers no tools.
    if request.body["tools"].as_array().is_none_or(Vec::is_empty) {
        return Reply::text("## What the person wants\n- that all of it is done\n");
    }
    let messages = request.messages();
    let input = messages.iter().rposition(|message| {
        message["role"] == "user" && message["content"].as_str().is_some_and(|text| verb_and_mark(text).is_some())
    });
    let Some((verb, mark)) = input.and_then(|at| verb_and_mark(messages[at]["content"].as_str()?)) else {
        return Reply::text("It is as I said, in many more words than before. ".repeat(8));
    };
    if messages[input.unwrap_or_default()..].iter().any(|message| message["role"] == "tool") {
        return Reply::text(format!("{mark} is done."));
    }
    let append = |mark: &str, pause: &str| {
        let command = format!(r#"echo {mark} >> "$PROJECT/log.txt"; sleep {pause}; echo appended {mark}"#);
        ("run_bash_command", json!({ "command": command }))
    };
    let (tool, args) = match verb {
        "append" => append(mark, "0.05"),
        "two" => {
            let (tool, first) = append(&format!("{mark}x"), "0.1");
            let (_, second) = append(&format!("{mark}y"), "0");
            return Reply::tool_call(tool, first).and_call(tool, second);
        }
        "write" => ("write_file", json!({"path": format!("outputs/{mark}.txt"), "content": content(mark)})),
        "ask" => ("ask_human", json!({"question": format!("Shall I do {mark}?")})),
        "delegate" => ("delegate_task", json!({"task": format!("[append {mark}]")})),
        _ => return Reply { delay_ms: 5, ..Reply::text(format!("{mark} in many words. ").repeat(30)) },
    };
    Reply::tool_call(tool, args)
}

/// Returns the content that is written for a mark.
pub(super) fn content(mark: &str) -> String {
    format!("{mark}\n").repeat(400)
}

/// Parses the verb and the mark of an input.
fn verb_and_mark(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.rsplit_once('[')?;
    rest.split_once(']')?.0.split_once(' ')
}

/// Acts until the daemon is killed, and returns the acknowledgements.
pub(super) async fn client(daemon: &TempDaemon, name: String, seed: u64, sessions: Vec<String>) -> Acknowledged {
    let project = daemon.path().join("project");
    let mut worker = Worker {
        random: Rng::with_seed(seed),
        project,
        name,
        marks: 0,
        known: sessions,
        seen: Acknowledged::default(),
    };
    let Ok(client) = Client::connect(&daemon.socket()).await else { return worker.seen };
    // If the daemon is killed in the middle of a response, the closed connection reveals it without a timeout.
    while worker.act(&client).await.is_ok() {}
    worker.seen
}

struct Worker {
    random: Rng,
    project: PathBuf,
    name: String,
    marks: usize,
    known: Vec<String>,
    seen: Acknowledged,
}

impl Worker {
    /// Performs one random action. An error means that the daemon was killed.
    async fn act(&mut self, client: &Client) -> Result<(), ClientError> {
        let done = match self.random.u8(..100) {
            0..64 => self.turn(client).await,
            64..71 => self.upload(client).await,
            71..78 => self.fork(client).await,
            78..83 => self.undo(client).await,
            83..91 => self.compact(client).await,
            91..96 => self.cancel(client).await,
            _ => self.delete(client).await,
        };
        match done {
            // The daemon answered with a rejection: the session is busy, deleted, or has nothing to undo.
            Err(error) if error.answered().is_some_and(|kind| kind != ErrorKind::ShuttingDown) => Ok(()),
            done => done,
        }
    }

    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("{}m{}", self.name, self.marks)
    }

    fn some_session(&mut self) -> Option<String> {
        self.random.choice(&self.known).cloned()
    }

    async fn turn(&mut self, client: &Client) -> Result<(), ClientError> {
        let verbs = ["append", "append", "two", "write", "ask", "delegate", "say", "say"];
        let verb = verbs[self.random.usize(..verbs.len())];
        let mark = self.mark();
        let session = match self.some_session() {
            Some(session) if self.random.u8(..10) < 7 => SessionChoice::Existing(session),
            _ => trusting_session(&self.project),
        };
        let mut request = turn(session, &format!("Please do this: [{verb} {mark}]"));
        request.start.on_interrupt =
            if verb == "ask" { agentd_core::turn::OnInterrupt::Wait } else { agentd_core::turn::OnInterrupt::Approve };
        request.start.if_busy = if self.random.bool() { IfBusy::Queue } else { IfBusy::Steer };
        let mut events = client.turn(request).await?;
        let session = events.session_id().to_string();
        self.seen.session(&session);
        if !self.known.contains(&session) {
            self.known.push(session);
        }
        let leaves_early = self.random.u8(..10) == 0;
        // A queued turn waits for earlier turns, which may themselves wait for an answer, so the wait is limited.
        let patience = Duration::from_millis(self.random.u64(300..1_200));
        let read = async {
            while let Some(event) = events.next().await? {
                self.seen.event(&event);
                if let EventKind::InterruptRaised { interrupt } = &event.kind {
                    if leaves_early || self.random.bool() {
                        return Ok(());
                    }
                    let answer = match interrupt.ask {
                        Ask::Approval { .. } => Answer::Approve,
                        _ => Answer::Text { text: format!("yes to {mark}") },
                    };
                    match client.answer(interrupt.id, &answer, "a test").await {
                        Ok(()) => self.seen.answered(&event, &answer),
                        Err(error) if error.answered().is_some() => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        };
        tokio::time::timeout(patience, read).await.unwrap_or(Ok(()))
    }

    async fn upload(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        let mark = self.mark();
        let content = format!("{mark}\n").repeat(self.random.usize(1..20_000)).into_bytes();
        let uploaded = client.upload(&session, &format!("{mark}.txt"), content.as_slice()).await?;
        self.seen.uploaded(&session, uploaded.path, content);
        Ok(())
    }

    async fn fork(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        let fork = client.fork_session(&session, None, None, false).await?;
        let fork = fork.session.session.summary.id.to_string();
        self.seen.session(&fork);
        self.known.push(fork);
        Ok(())
    }

    async fn undo(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        // All sessions share the project folder. Only a session's own files may be reverted, because the effects could
        // not be counted otherwise.
        let request = UndoRequest { turn: None, redo: false, preview: true, client: "a test".to_owned() };
        client.undo(&session, &request).await.map(drop)
    }

    async fn compact(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        let mut request = turn(SessionChoice::Existing(session), "");
        request.start.text = None;
        let (by_model, by_rules) = (CompactionStrategy::Compact, CompactionStrategy::Truncate);
        request.start.compact = Some(if self.random.bool() { by_model } else { by_rules });
        let mut events = client.turn(request).await?;
        let read = async {
            while let Some(event) = events.next().await? {
                self.seen.event(&event);
            }
            Ok(())
        };
        tokio::time::timeout(COMPACTION, read).await.unwrap_or(Ok(()))
    }

    async fn cancel(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        client.cancel_turn(&session, None).await
    }

    async fn delete(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some(session) = self.some_session() else { return Ok(()) };
        self.seen.deleting(&session);
        client.delete_session(&session).await?;
        self.seen.deleted(&session);
        self.known.retain(|id| *id != session);
        Ok(())
    }
}
