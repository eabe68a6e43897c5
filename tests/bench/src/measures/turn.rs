//! Runs and times one turn as a client.

use agentd_core::{
    event::EventKind,
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use agentd_proto::client::{NewSession, SessionChoice, StartRequest};

use super::*;

/// Measurements of a turn.
pub(crate) struct TurnRecord {
    pub(crate) session: SessionId,
    /// Time from the request to the first text.
    pub(crate) first_text: Duration,
    /// Time from the request to the end of the stream.
    pub(crate) whole: Duration,
    /// Concatenated text of all messages.
    pub(crate) words: String,
    /// Number of messages with text.
    pub(crate) messages: u64,
    /// Bytes of text that were skipped while streaming because this reader was too slow.
    pub(crate) missed: u64,
    /// The answer in the turn's result.
    pub(crate) answer: String,
}

/// Returns a request to start a turn in this session and slot.
pub(crate) fn request(session: Option<SessionId>, slot: Option<Slot>) -> StartRequest {
    StartRequest {
        session: match session {
            Some(id) => SessionChoice::Existing(id.to_string()),
            None => SessionChoice::New(NewSession::default()),
        },
        start: StartTurn {
            compact: None,
            typed_bytes: None,
            whole: false,
            answer_schema: None,
            text: Some("Hello".to_owned()),
            slot,
            max_steps: None,
            planning: None,
            on_interrupt: OnInterrupt::Deny,
            while_connected: false,
            if_busy: IfBusy::Refuse,
            client: "agentd-bench".to_owned(),
            environment: Default::default(),
            ..StartTurn::default()
        },
    }
}

/// Runs a turn to its end. `on_text` is called once, when the first text arrives.
pub(crate) async fn run(client: &Client, request: StartRequest, on_text: impl FnOnce()) -> anyhow::Result<TurnRecord> {
    let begun = Instant::now();
    let mut stream = client.turn(request).await?;
    let (mut words, mut messages, mut missed) = (String::new(), 0, 0);
    let (mut first_text, mut on_text, mut result) = (None, Some(on_text), None);
    while let Some(event) = stream.next().await? {
        match event.kind {
            EventKind::ItemDelta { offset, text, .. } => {
                first_text.get_or_insert_with(|| begun.elapsed());
                on_text.take().into_iter().for_each(|call| call());
                missed = offset - (words.len() as u64).min(offset);
                messages += 1;
                words.push_str(&text);
            }
            EventKind::TurnEnded { result: outcome } => result = Some(outcome),
            _ => {}
        }
    }
    let whole = begun.elapsed();
    let result = result.context("the stream ended before the turn")?;
    if result.stop_reason != StopReason::Completed {
        bail!("the turn ended with stop reason {:?}: {:?}", result.stop_reason, result.error);
    }
    let session = stream.session_id();
    let first_text = first_text.context("the turn sent no text")?;
    Ok(TurnRecord { session, first_text, whole, words, messages, missed, answer: result.text })
}
