//! Runs prompts: each becomes a turn, or the answer to an open question. This module also replays the history of a
//! loaded session with bounded size: results are truncated in the middle, old results more strongly, and pictures are
//! omitted.

use std::{collections::HashSet, path::Path, sync::Arc};

use agent_client_protocol_schema::v1::{PromptRequest, PromptResponse, SessionUpdate, StopReason};
use agentd_core::{
    error::ErrorKind,
    event::{EventKind, StateChange},
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    item::ItemBody,
    session::SessionSummary,
    turn::IfBusy,
};
use agentd_proto::client::{ClientError, SessionChoice, SessionView, StartRequest};
use tokio_util::sync::CancellationToken;

use super::{
    bridge::{self, Bridge},
    content::{self, FileContent, Part},
    follow::Follow,
    message::Result,
    session::{self, OpenSession},
    updates::{self, Limits, Updates},
};
use crate::{
    daemon::Daemon, failure::Failure, report::short_id, session::Upload, terminal::clean_line, turn::SocketLine,
};

/// Runs a prompt to its end, or until the editor disconnects.
///
/// # Errors
/// Fails if the prompt is invalid, the daemon refuses it or cannot be reached, or the turn failed.
pub(super) async fn run(
    bridge: &Arc<Bridge>,
    session: &Arc<OpenSession>,
    request: PromptRequest,
    cancel: CancellationToken,
) -> Result<PromptResponse> {
    // An earlier cancel must not apply to this prompt.
    drop(session.cancelling.lock().await);
    tokio::select! {
        () = session.take_over() => {}
        () = cancel.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
    }
    let (daemon, view) = load_session(bridge, session).await?;
    session::register_servers_again(&daemon, session).await;
    let roots = bridge::session_roots(&daemon, session.id, &view.session.settings);
    let parts = content::read(request.prompt, &roots)?;
    refresh(bridge, session, &daemon, &view).await?;

    let paths = upload_files(bridge, session, &daemon, &parts).await?;
    let (text, typed) = content::text(&parts, &paths);
    let text = text + &content::mentioned_files(bridge, session, &daemon, &parts, &roots).await?;
    if cancel.is_cancelled() {
        return Ok(PromptResponse::new(StopReason::Cancelled));
    }
    let folder = roots.project.clone();
    let mut follow = Follow::new(bridge.clone(), session.clone(), daemon.clone(), roots, cancel);
    follow.updates.spent = view.session.summary.usage.cost_microusd;
    let mut pending: Vec<&Interrupt> = view.pending.iter().collect();
    let mut suspended = session.state().suspended.take();
    if let Some(ended) = suspended.take_if(|_| view.live_turn.is_none()) {
        // Another client answered the question; events since then have not been sent to the editor yet.
        follow.catch_up(*ended).await?;
    }
    let own_text = text.clone();
    let started_turn = async {
        match question(session, &view) {
            Some(asked) if try_answer(bridge, &daemon, asked, &text).await? => {
                pending.retain(|interrupt| interrupt.id != asked.id);
                Ok(None)
            }
            _ => Ok(Some(begin(bridge, session, &daemon, folder.as_deref(), (text, typed)).await?)),
        }
    };
    let started_turn: Result<Option<SocketLine>> = started_turn.await;
    let line = match (started_turn, &mut suspended) {
        (Err(error), _) => {
            // The next prompt can still resume the turn.
            session.state().suspended = suspended;
            return Err(error);
        }
        // The text is added to the suspended turn, or starts another one.
        (Ok(Some(line)), Some(known)) if known.line.turn().is_none_or(|turn| line.turn() == Some(turn)) => {
            known.updates.own_text = Some(own_text);
            None
        }
        (Ok(Some(line)), _) => {
            follow.updates.own_text = Some(own_text);
            Some(line)
        }
        (Ok(None), _) => None,
    };
    let line = match (line, suspended) {
        (Some(line), Some(ended)) => {
            follow.catch_up(*ended).await?;
            line.with_children()
        }
        (Some(line), None) => line.with_children(),
        (None, Some(known)) => follow.resume(*known),
        (None, None) => SocketLine::attach(&daemon, session.id, view.session.summary.last_seq).await?.with_children(),
    };
    let slots = daemon.client.models().await.unwrap_or_default();
    // Models with an unknown context window are left out.
    let windows = slots.iter().map(|info| (info.slot, info.model.context_window));
    follow.updates.windows = windows.filter(|(_, window)| *window > 0).collect();
    follow.builtin = slots.into_iter().map(|info| info.model).filter(|model| model.embedded).collect();
    // The daemon names a session after its first input. Later title changes arrive through the watch.
    if view.session.summary.title.is_empty()
        && let Ok(named) = daemon.client.session(&session.id.to_string()).await
        && !clean_line(&named.session.summary.title).is_empty()
    {
        let SessionSummary { title, updated_at, .. } = named.session.summary;
        bridge.update(session, vec![bridge::title(&title, updated_at)]).await;
    }
    // A running turn may have raised questions since the session was loaded.
    let raised = match view.live_turn {
        Some(_) => daemon.client.interrupts(Some(&session.id.to_string())).await?,
        None => Vec::new(),
    };
    let known: HashSet<InterruptId> = view.pending.iter().map(|interrupt| interrupt.id).collect();
    pending.extend(raised.iter().filter(|interrupt| !known.contains(&interrupt.id)));
    follow.run(line, &pending).await
}

/// Connects to the daemon and loads the session. A lost connection is detected here, by the first request.
async fn load_session(bridge: &Bridge, session: &OpenSession) -> Result<(Daemon, SessionView)> {
    let id = session.id.to_string();
    let mut daemon = bridge.daemon().await?;
    let mut view = daemon.client.session(&id).await;
    if view.as_ref().is_err_and(ClientError::is_unreachable) && bridge.forget_daemon() {
        daemon = bridge.daemon().await?;
        view = daemon.client.session(&id).await;
    }
    Ok((daemon, view?))
}

/// Sends changes that the editor has missed, and notices that waited for a turn.
async fn refresh(bridge: &Arc<Bridge>, session: &Arc<OpenSession>, daemon: &Daemon, view: &SessionView) -> Result<()> {
    if !session.is_watched() {
        bridge::send_settings(bridge, &daemon.client, session).await?;
        bridge::ensure_watched(bridge, session, daemon, view.session.summary.last_seq).await;
    }
    let notices = std::mem::take(&mut session.state().notices);
    bridge.send_messages(session, &notices).await;
    Ok(())
}

/// Uploads the files of a prompt, and returns their paths. The files are not sent as input parts for three reasons: a
/// running turn that the prompt may join accepts none, a part has at most 8 MiB, and an invalid picture would fail the
/// whole prompt.
async fn upload_files(bridge: &Bridge, session: &OpenSession, daemon: &Daemon, parts: &[Part]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for part in parts {
        let Part::File { name, content } = part else { continue };
        let receipt = match content {
            FileContent::Bytes(bytes) => daemon.client.upload(&session.id.to_string(), name, bytes.as_slice()).await?,
            FileContent::OnDisk(path) => Upload::open(path)?.put(daemon, session.id).await?,
        };
        if let Some(problem) = receipt.problem {
            bridge.send_notice(session, &clean_line(&problem)).await;
        }
        paths.push(receipt.path);
    }
    Ok(paths)
}

/// Returns the question that the prompt answers: one that was asked here as text and is still pending.
fn question<'a>(session: &OpenSession, view: &'a SessionView) -> Option<&'a Interrupt> {
    let sent: HashSet<InterruptId> = std::mem::take(&mut session.state().questions);
    let is_question = |interrupt: &&Interrupt| matches!(interrupt.ask, Ask::Question { secret: false, .. });
    view.pending.iter().filter(is_question).find(|interrupt| sent.contains(&interrupt.id))
}

/// Sends an answer. Returns false if another client answered first.
async fn try_answer(bridge: &Bridge, daemon: &Daemon, asked: &Interrupt, text: &str) -> Result<bool> {
    let answer = Answer::Text { text: asked.ask.chosen(text).to_owned() };
    match daemon.client.answer(asked.id, &answer, &bridge.editor().name).await {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.answered(), Some(ErrorKind::Conflict | ErrorKind::NotFound)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Starts a turn with the text of the prompt, or with the command in it.
async fn begin(
    bridge: &Bridge,
    session: &OpenSession,
    daemon: &Daemon,
    folder: Option<&Path>,
    (text, typed): (String, usize),
) -> Result<SocketLine, Failure> {
    let typed_bytes = (typed < text.len()).then_some(typed as u64);
    let mut start = bridge.turn(daemon, session, Some(text));
    start.typed_bytes = typed_bytes;
    content::apply_command(&mut start, &daemon.client, folder).await?;
    if start.compact.is_some() {
        start.if_busy = IfBusy::Refuse;
    }
    let session = SessionChoice::Existing(session.id.to_string());
    SocketLine::start_with_files(daemon, StartRequest { session, start }, bridge.editor().files).await
}

/// Maximum number of replayed events. Only the newest events are replayed.
const MAX_EVENTS: u64 = 60_000;
/// Number of newest events with larger limits.
const RECENT_EVENTS: u64 = 2_000;

const LIMITS: Limits = Limits { text: 64 * 1024, result: 4 * 1024 };
const OLD_LIMITS: Limits = Limits { text: 4 * 1024, result: 512 };

/// Replays the session's events since its history was last cleared. Events are streamed at the editor's pace instead of
/// being collected.
pub(super) async fn replay(
    bridge: &Arc<Bridge>,
    session: &OpenSession,
    daemon: &Daemon,
    view: &SessionView,
) -> Result<()> {
    let (last, cleared) = (view.session.summary.last_seq, view.session.reset_seq);
    let first = cleared.max(last.saturating_sub(MAX_EVENTS));
    if first >= last {
        return Ok(());
    }
    if first > cleared {
        let id = short_id(session.id);
        let text = format!("> Earlier history is not shown here: `agentctl attach {id} --after 0` shows it.\n\n");
        bridge.update(session, vec![updates::message(&text)]).await;
    }
    let roots = bridge::session_roots(daemon, session.id, &view.session.settings);
    let mut updates = Updates::replay(session.id, roots, bridge.editor().features, OLD_LIMITS);
    let mut events = daemon.client.subscribe(&session.id.to_string(), first, false).await?;
    let (mut usage, mut unanswered) = (None, Vec::new());
    while let Some(event) = events.next().await? {
        updates.limits = if event.seq + RECENT_EVENTS > last { LIMITS } else { OLD_LIMITS };
        let item = match &event.kind {
            EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => Some(&item.body),
            _ => None,
        };
        // An input may have been withdrawn by a cancellation, so it is sent only once a reply follows.
        let is_input = matches!(item, Some(ItemBody::UserMessage { .. }));
        match (item, &event.kind) {
            (_, EventKind::StateChanged { change: StateChange::Withdrawn { items, .. } }) => {
                unanswered.retain(|(seq, _)| !items.contains(seq));
            }
            (Some(ItemBody::Notice { .. }), _) => {}
            (Some(_), _) | (_, EventKind::TurnStarted { .. }) if !is_input => {
                bridge.update(session, unanswered.drain(..).map(|(_, update)| update).collect()).await;
            }
            _ => {}
        }
        for update in updates.event(&event) {
            match update {
                // Only the final plan is sent, after all other events.
                SessionUpdate::Plan(_) => {}
                SessionUpdate::UsageUpdate(_) => usage = Some(update),
                update if is_input => unanswered.push((event.seq, update)),
                update => bridge.update(session, vec![update]).await,
            }
        }
        if event.seq >= last {
            break;
        }
    }
    bridge.update(session, unanswered.into_iter().map(|(_, update)| update).collect()).await;
    if view.live_turn.is_none() {
        bridge.update(session, updates.finish()).await;
    }
    let plan = (!view.session.todos.is_empty()).then(|| updates::plan(&view.session.todos));
    bridge.update(session, plan.into_iter().chain(usage).collect()).await;
    Ok(())
}
