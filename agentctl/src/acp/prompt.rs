//! A prompt: the words of the person become a turn, or the answer to the question that was put before.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use agent_client_protocol_schema::v1::{PromptRequest, PromptResponse, SessionInfoUpdate, SessionUpdate, StopReason};
use agentd_core::{
    error::ErrorKind,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    model::{Slot, SlotInfo},
    turn::IfBusy,
};
use agentd_proto::client::{SessionChoice, SessionView, StartRequest};
use tokio_util::sync::CancellationToken;

use super::{
    bridge::{self, Bridge},
    commands,
    content::{self, FileContent, Part},
    follow::Follow,
    mentioned,
    refusal::Trouble,
    servers,
    session::OpenSession,
    settings, watch,
};
use crate::{daemon::Daemon, failure::Failure, session::Upload, terminal::sanitize::clean_line, turn::SocketLine};

/// Runs a prompt to its end, or until the editor has gone; then nobody is there for the answer.
///
/// # Errors
/// When the prompt makes no sense, the daemon refuses it or cannot be reached, or the turn failed.
pub(super) async fn run(
    bridge: &Arc<Bridge>,
    session: &Arc<OpenSession>,
    request: PromptRequest,
    cancel: CancellationToken,
) -> Result<PromptResponse, Trouble> {
    // A cancel before it does not mean this one.
    drop(session.cancelling.lock().await);
    tokio::select! {
        () = session.take_over() => {}
        () = cancel.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
    }
    let (daemon, view) = look(bridge, session).await?;
    servers::bring_again(&daemon, session).await;
    let places = bridge::places(&daemon, session.id, &view.session.settings);
    let parts = content::read(request.prompt, &places)?;
    refresh(bridge, session, &daemon, &view).await?;

    let paths = hand_over(bridge, session, &daemon, &parts).await?;
    let (text, typed) = content::text(&parts, &paths);
    let text = text + &mentioned::behind(bridge, session, &daemon, &parts, &places).await?;
    if cancel.is_cancelled() {
        return Ok(PromptResponse::new(StopReason::Cancelled));
    }
    let folder = places.project.clone();
    let mut follow = Follow::new(bridge.clone(), session.clone(), daemon.clone(), places, cancel);
    follow.updates().spent = view.session.summary.usage.cost_microusd;
    let mut pending: Vec<&Interrupt> = view.pending.iter().collect();
    let mut suspended = session.state().suspended.take();
    if let Some(ended) = suspended.take_if(|_| view.live_turn.is_none()) {
        // It was answered elsewhere, and what it said then was told to nobody.
        follow.catch_up(*ended).await?;
    }
    let own_words = text.clone();
    let begun = async {
        match question(session, &view) {
            Some(asked) if answered(bridge, &daemon, asked, &text).await? => {
                pending.retain(|interrupt| interrupt.id != asked.id);
                Ok(None)
            }
            _ => Ok(Some(begin(bridge, session, &daemon, folder.as_deref(), (text, typed)).await?)),
        }
    };
    let begun: Result<Option<SocketLine>, Trouble> = begun.await;
    let line = match (begun, &mut suspended) {
        (Err(trouble), _) => {
            // It goes on with the next prompt all the same.
            session.state().suspended = suspended;
            return Err(trouble);
        }
        // The words are added to the turn that is known, or begin another one.
        (Ok(Some(line)), Some(known)) if known.line.turn().is_none_or(|turn| line.turn() == Some(turn)) => {
            known.updates.own_words = Some(own_words);
            None
        }
        (Ok(Some(line)), _) => {
            follow.updates().own_words = Some(own_words);
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
    follow.updates().windows = windows(&slots);
    follow.builtin = slots.into_iter().map(|info| info.model).filter(|model| model.embedded).collect();
    if view.session.summary.title.is_empty() {
        tell_title(bridge, session, &daemon).await;
    }
    // A turn that runs may have asked between the look at it and the line to it.
    let raised = match view.live_turn {
        Some(_) => daemon.client.interrupts(Some(&session.id.to_string())).await?,
        None => Vec::new(),
    };
    let known: HashSet<InterruptId> = view.pending.iter().map(|interrupt| interrupt.id).collect();
    pending.extend(raised.iter().filter(|interrupt| !known.contains(&interrupt.id)));
    let reason = follow.run(line, &pending).await?;
    Ok(PromptResponse::new(reason))
}

/// The daemon, and the session as it is. The first request after a restart finds out that the daemon has gone.
async fn look(bridge: &Bridge, session: &OpenSession) -> Result<(Daemon, SessionView), Trouble> {
    let id = session.id.to_string();
    let daemon = bridge.daemon().await?;
    let view = match daemon.client.session(&id).await {
        Err(error) if error.is_unreachable() && bridge.forget_daemon() => {
            let daemon = bridge.daemon().await?;
            let view = daemon.client.session(&id).await?;
            return Ok((daemon, view));
        }
        view => view?,
    };
    Ok((daemon, view))
}

/// Tells what the editor has missed, and words that have waited for a turn.
async fn refresh(
    bridge: &Arc<Bridge>,
    session: &Arc<OpenSession>,
    daemon: &Daemon,
    view: &SessionView,
) -> Result<(), Trouble> {
    if !session.is_watched() {
        settings::tell(bridge, &daemon.client, session).await?;
        watch::ensure(bridge, session, daemon, view.session.summary.last_seq).await;
    }
    let notices = std::mem::take(&mut session.state().notices);
    bridge.say(session, &notices).await;
    Ok(())
}

/// Puts the files of a prompt into the session, and returns their paths. They are no parts of the start: a running turn, which
/// the prompt may join, takes none; a part has 8 MiB at the most; and one that is no picture would end the whole prompt.
async fn hand_over(
    bridge: &Bridge,
    session: &OpenSession,
    daemon: &Daemon,
    parts: &[Part],
) -> Result<Vec<String>, Trouble> {
    let mut paths = Vec::new();
    for part in parts {
        let Part::File { name, content } = part else { continue };
        let receipt = match content {
            FileContent::Bytes(bytes) => daemon.client.upload(&session.id.to_string(), name, bytes.as_slice()).await?,
            FileContent::OnDisk(path) => Upload::open(path)?.put(daemon, session.id).await?,
        };
        if let Some(problem) = receipt.problem {
            bridge.tell(session, &clean_line(&problem)).await;
        }
        paths.push(receipt.path);
    }
    Ok(paths)
}

/// The question in words that the prompt answers: one that was told here, and still waits.
fn question<'a>(session: &OpenSession, view: &'a SessionView) -> Option<&'a Interrupt> {
    let told: HashSet<InterruptId> = std::mem::take(&mut session.state().questions);
    let is_question = |interrupt: &&Interrupt| matches!(interrupt.ask, Ask::Question { secret: false, .. });
    view.pending.iter().filter(is_question).find(|interrupt| told.contains(&interrupt.id))
}

/// Gives an answer, and tells whether it was taken: somebody else may have been first.
async fn answered(bridge: &Bridge, daemon: &Daemon, asked: &Interrupt, text: &str) -> Result<bool, Trouble> {
    let answer = Answer::Text { text: asked.ask.chosen(text).to_owned() };
    match daemon.client.answer(asked.id, &answer, &bridge.editor().name).await {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.answered(), Some(ErrorKind::Conflict | ErrorKind::NotFound)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Starts the turn.
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
    commands::apply(&mut start, &daemon.client, folder).await?;
    if start.compact.is_some() {
        start.if_busy = IfBusy::Refuse;
    }
    let session = SessionChoice::Existing(session.id.to_string());
    SocketLine::start_holding(daemon, StartRequest { session, start }, bridge.editor().files).await
}

/// Tells the name that the first input gave the session.
async fn tell_title(bridge: &Bridge, session: &OpenSession, daemon: &Daemon) {
    // It is one of many things that are told; the list of sessions has it, too.
    let Ok(view) = daemon.client.session(&session.id.to_string()).await else { return };
    let title = clean_line(&view.session.summary.title);
    if !title.is_empty() {
        let info = SessionInfoUpdate::new().title(title).updated_at(view.session.summary.updated_at.to_string());
        bridge.peer.update(&session.wire, SessionUpdate::SessionInfoUpdate(info)).await;
    }
}

/// Windows of the models, by slot; none where they are not known.
fn windows(slots: &[SlotInfo]) -> HashMap<Slot, u64> {
    let all = slots.iter().map(|info| (info.slot, info.model.context_window));
    all.filter(|(_, window)| *window > 0).collect()
}
