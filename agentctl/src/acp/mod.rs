//! `agentctl acp`: sessions of the daemon for editors, over the Agent Client Protocol (version 1) on standard input and
//! output. Each request runs in a separate task.
//!
//! - [`message`]: reads lines, sends responses, updates and requests, and builds errors.
//! - [`bridge`]: state shared by all requests; modes, models and their options, and changes by other clients.
//!   [`session`]: a session open in the editor, and MCP servers named by the editor.
//! - [`open_session`]: capabilities; new, load, resume, list, close, delete.
//! - [`prompt`]: a turn, from its input ([`content`]) to its end ([`follow`]), and the history of a session.
//!   [`updates`] translates events, with [`tool_call`], and depends on neither editor nor daemon.
//! - [`questions`]: questions to the user with their answers, and files that tools access through the editor.

mod bridge;
mod content;
mod follow;
mod message;
mod open_session;
mod prompt;
mod questions;
mod session;
mod tool_call;
mod updates;

use std::{
    collections::HashMap,
    io::IsTerminal as _,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CancelRequestNotification, Error, ErrorCode, PromptRequest, PromptResponse, RequestId,
    StopReason,
};
use clap::Args;
use futures_util::FutureExt as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{io::BufReader, sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    bridge::Bridge,
    follow::Follow,
    message::{Frame, Message, Peer, RequestError, Result, lock},
    open_session::OpenedSession,
};
use crate::{
    exit::Exit,
    flags::Global,
    terminal::note,
    turn::{AtEnd, Signals},
};

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 256;
/// Time limit for running requests after the editor has disconnected, and for writing their responses.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);
/// Size of the input buffer in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Serves an editor until the end of standard input or a signal. Running turns continue without the editor.
///
/// # Errors
/// Fails if signal handlers cannot be installed.
pub(crate) async fn handle(global: &Global, _: AcpArgs) -> anyhow::Result<Exit> {
    if std::io::stdin().is_terminal() {
        note("waiting for an editor on standard input; Ctrl-C ends it (for a chat use `agentctl chat`)");
    }
    let shutdown = CancellationToken::new();
    let (peer, lines) = Peer::new();
    let writer = tokio::spawn(message::write_lines(lines, tokio::io::stdout(), shutdown.clone()));
    let mut signals = Signals::listen(AtEnd::Cancel)?;
    let mut frames = read(shutdown.clone());
    let bridge = Arc::new(Bridge::new(global.clone(), peer, shutdown.clone()));
    let mut requests = Requests { bridge, running: JoinSet::new(), cancels: Arc::default() };
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => requests.take(&frame).await,
                None => break,
            },
            _ = requests.running.join_next(), if !requests.running.is_empty() => {}
            () = shutdown.cancelled() => break,
            _ = signals.next() => break,
        }
    }
    signals.set_stopping(true);
    // Prompts stop here, because the editor has disconnected; quick requests are still answered.
    shutdown.cancel();
    let rest = async { while requests.running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(SHUTDOWN_LIMIT, rest).await;
    drop(requests);
    let _ = tokio::time::timeout(SHUTDOWN_LIMIT, writer).await;
    Ok(Exit::Done)
}

/// Reads lines in a separate task, because cancelling a read in a `select!` could lose a partial line.
fn read(shutdown: CancellationToken) -> mpsc::Receiver<Frame> {
    let (sender, frames) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, tokio::io::stdin());
        while let Ok(Some(frame)) = message::next_frame(&mut input).await {
            tokio::select! {
                sent = sender.send(frame) => if sent.is_err() { return },
                () = shutdown.cancelled() => return,
            }
        }
    });
    frames
}

/// Running requests with their cancellation tokens.
struct Requests {
    bridge: Arc<Bridge>,
    running: JoinSet<()>,
    cancels: Arc<Mutex<HashMap<RequestId, CancellationToken>>>,
}

impl Requests {
    async fn take(&mut self, frame: &Frame) {
        match message::read(frame) {
            Err(invalid) if invalid.is_answer => {
                let error = json!({"code": invalid.error.code, "message": invalid.error.message});
                self.bridge.peer.deliver(&invalid.id, Err(error));
            }
            Err(invalid) => self.bridge.peer.answer(invalid.id, Err(invalid.error)).await,
            Ok(Message::Answer { id, outcome }) => self.bridge.peer.deliver(&id, outcome),
            Ok(Message::Notification { method, params }) => self.handle_notification(&method, params),
            Ok(Message::Request { id, method, params }) => {
                if let Err(error) = self.begin(id.clone(), method, params) {
                    self.bridge.peer.answer(id, Err(error)).await;
                }
            }
        }
    }

    /// Handles a notification. Unknown notifications are ignored.
    fn handle_notification(&mut self, method: &str, params: Value) {
        if method == AGENT_METHOD_NAMES.session_cancel {
            if let Ok(notification) = serde_json::from_value(params)
                && let Some(cancel) = open_session::cancel(&self.bridge, &notification)
            {
                self.running.spawn(cancel);
            }
        } else if method == "$/cancel_request"
            && let Ok(notification) = serde_json::from_value::<CancelRequestNotification>(params)
            && let Some(cancel) = lock(&self.cancels).get(&notification.request_id)
        {
            cancel.cancel();
        }
    }

    /// Starts a request. A prompt reserves its session here, so that the next message finds the session busy.
    fn begin(&mut self, id: RequestId, method: String, params: Value) -> Result<(), Error> {
        if self.running.len() >= MAX_REQUESTS {
            return Err(message::invalid_request("too many concurrent requests; wait for earlier ones to finish"));
        }
        let (bridge, cancels) = (self.bridge.clone(), self.cancels.clone());
        if method == AGENT_METHOD_NAMES.session_prompt {
            let request: PromptRequest = parse(params)?;
            let session = bridge.session(&request.session_id)?;
            let cancel = session.begin().ok_or_else(|| {
                message::invalid_request("a prompt is already running in this session; wait for its end, or cancel it")
            })?;
            lock(&cancels).insert(id.clone(), cancel.clone());
            self.running.spawn(async move {
                let outcome = catch_panic(prompt::run(&bridge, &session, request, cancel.clone())).await;
                session.end();
                lock(&cancels).remove(&id);
                // The protocol requires the outcome "cancelled" for a cancelled prompt, even if the prompt also failed.
                let outcome = match outcome {
                    Err(_) if cancel.is_cancelled() => Ok(PromptResponse::new(StopReason::Cancelled)),
                    outcome => outcome,
                };
                let outcome = outcome.map_err(RequestError::into_error).and_then(|response| value(&response));
                bridge.peer.answer(id, outcome).await;
            });
            return Ok(());
        }
        let cancel = CancellationToken::new();
        lock(&cancels).insert(id.clone(), cancel.clone());
        self.running.spawn(async move {
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    Err(message::error_with_code(ErrorCode::RequestCancelled, "the request was cancelled"))
                }
                outcome = catch_panic(run_with_retry(&bridge, &method, params)) => {
                    outcome.map_err(RequestError::into_error)
                }
            };
            lock(&cancels).remove(&id);
            answer(&bridge, id, outcome).await;
        });
        Ok(())
    }
}

/// Result of a request, and the session that it opened, if any.
struct Reply {
    result: Value,
    session: Option<OpenedSession>,
}

async fn answer(bridge: &Arc<Bridge>, id: RequestId, outcome: Result<Reply, Error>) {
    let (result, opened) = outcome.map_or_else(|error| (Err(error), None), |reply| (Ok(reply.result), reply.session));
    bridge.peer.answer(id, result).await;
    let Some(OpenedSession { session, updates, notices, running, .. }) = opened else { return };
    bridge.update(&session, updates).await;
    for notice in notices {
        bridge.send_notice(&session, &notice).await;
    }
    if let Some((daemon, view)) = running {
        session.take_over().await;
        session.state().suspended = None;
        Follow::begin_guest(bridge, &session, &daemon, view);
    }
}

/// Runs a request and turns a panic into an error, so that the editor always gets a response.
async fn catch_panic<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let text = "the request failed because of a bug in agentctl; the session is unchanged";
    let panicked = |_| Err(message::error_with_code(ErrorCode::InternalError, text).into());
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(panicked)
}

/// Runs a request, and retries it once if the daemon was lost. `session/new` is not repeatable, so the connection is
/// checked before it is sent.
async fn run_with_retry(bridge: &Arc<Bridge>, method: &str, params: Value) -> Result<Reply> {
    if method == AGENT_METHOD_NAMES.session_new {
        if bridge.daemon().await?.client.status().await.is_err() {
            bridge.forget_daemon();
        }
        return dispatch(bridge, method, params).await;
    }
    match dispatch(bridge, method, params.clone()).await {
        Err(error) if error.is_unreachable() && bridge.forget_daemon() => dispatch(bridge, method, params).await,
        outcome => outcome,
    }
}

async fn dispatch(bridge: &Arc<Bridge>, method: &str, params: Value) -> Result<Reply> {
    let names = &AGENT_METHOD_NAMES;
    match method {
        _ if method == names.initialize => reply(&open_session::initialize(bridge, &parse(params)?)),
        _ if method == names.authenticate => reply(&open_session::authenticate(bridge, &parse(params)?).await?),
        _ if method == names.session_new => opened_reply(open_session::new(bridge, &parse(params)?).await?),
        _ if method == names.session_load => opened_reply(open_session::load(bridge, &parse(params)?).await?),
        _ if method == names.session_resume => opened_reply(open_session::resume(bridge, &parse(params)?).await?),
        _ if method == names.session_list => {
            reply(&open_session::list(bridge, &parse(if params.is_null() { json!({}) } else { params })?).await?)
        }
        _ if method == names.session_close => reply(&open_session::close(bridge, &parse(params)?).await?),
        _ if method == names.session_delete => reply(&open_session::delete(bridge, &parse(params)?).await?),
        _ if method == names.session_set_mode => reply(&bridge::set_mode(bridge, &parse(params)?).await?),
        _ if method == names.session_set_config_option => reply(&bridge::set_option(bridge, &parse(params)?).await?),
        _ => Err(message::error_with_code(ErrorCode::MethodNotFound, format!("unknown method {method:?}")).into()),
    }
}

fn reply(response: &impl Serialize) -> Result<Reply> {
    Ok(Reply { result: value(response)?, session: None })
}

fn opened_reply((response, session): (impl Serialize, OpenedSession)) -> Result<Reply> {
    Ok(Reply { result: value(&response)?, session: Some(session) })
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    serde_json::from_value(params).map_err(|error| message::invalid_params(format!("invalid parameters: {error}")))
}

fn value(response: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(response).map_err(|error| Error::internal_error().data(Value::from(error.to_string())))
}

/// The arguments of `acp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl acp                    serve an editor, which starts this command itself

For Zed, in settings.json:
  {\"agent_servers\": {\"agentd\": {\"type\": \"custom\", \"command\": \"agentctl\", \"args\": [\"acp\"]}}}

Speaks the Agent Client Protocol (version 1) on standard input and output. The first session starts the daemon. \
Sessions see the editor's folder as /project; file changes and commands need your approval in the editor. When the \
editor closes, running turns continue: `agentctl attach` follows them, `agentctl interrupts` shows their pending \
questions. docs/editors.md has the settings of other editors.")]
pub(crate) struct AcpArgs {}
