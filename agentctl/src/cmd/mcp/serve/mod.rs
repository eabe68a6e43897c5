//! `agentctl mcp serve`: offers sessions of the daemon as tools for other agents, over standard input and output. The
//! end of standard input cancels running calls, because the transport loop of `rmcp` would wait for the calls to
//! finish, and a turn can run for a long time after its caller has disconnected.
//!
//! - [`tools`]: names, descriptions and schemas of the tools, and parsing of their arguments.
//! - [`turns`]: `ask` and `answer`, from the start of a turn to its result. [`person`]: approvals by a user.
//! - [`shown`]: sessions that callers can access, and pending turns; bounded and sanitized results; `search_documents`
//!   and `list_sessions`.

mod person;
mod shown;
mod tools;
mod turns;

use std::{
    convert::Infallible,
    io::{self, IsTerminal as _},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::TurnId,
    item::{Item, ItemBody},
    session::Mount,
    turn::TurnResult,
};
use clap::Args;
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
    },
    service::{QuitReason, RequestContext, ServerInitializeError},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use self::{
    person::Approvals,
    shown::{SessionAccess, Sessions, WaitingTurns},
};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    mount::MountArg,
    report,
    terminal::{clean_line, note},
    turn::{AtEnd, Renderer, Signals},
};

/// The arguments of `mcp serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl mcp serve                       sessions without a project folder
  agentctl mcp serve -C ~/src/shop         new sessions see it as /project
  agentctl mcp serve -C ~/src/shop:rw --approvals agentctl

For the configuration of another agent (Claude Desktop, VS Code, …):
  {\"mcpServers\": {\"agentd\": {\"command\": \"agentctl\", \"args\": [\"mcp\", \"serve\"]}}}

Speaks the Model Context Protocol on standard input and output, and offers the tools ask, answer, search_documents and \
list_sessions. The first call starts the daemon. When standard input ends, running calls are cancelled.")]
pub(crate) struct ServeArgs {
    /// Folder that new sessions see as /project, read-only unless it ends in :rw; callers may name a folder below it
    #[arg(short = 'C', value_name = "DIR[:ro|:rw]", value_hint = clap::ValueHint::DirPath)]
    project: Option<MountArg>,
    /// Approver: the user of the calling agent, or of agentctl
    #[arg(long, value_name = "WHO", default_value = "person")]
    approvals: Approvals,
    /// Sessions that callers can resume, search and list
    #[arg(long, value_name = "WHICH", default_value = "own")]
    sessions: Sessions,
}

/// Runs `agentctl mcp serve` until standard input ends or a signal arrives.
pub(super) async fn handle(global: &Global, args: ServeArgs) -> anyhow::Result<Exit> {
    let host = daemon::named_host(global);
    let project = args.project.as_ref().map(|project| project.resolve(host.as_deref())).transpose()?;
    if std::io::stdin().is_terminal() {
        note("waiting for an MCP client on standard input; Ctrl-C ends it (for a chat use `agentctl chat`)");
    }
    let shutdown = CancellationToken::new();
    let mut signals = Signals::listen(AtEnd::Cancel)?;
    let mut end_signal = std::pin::pin!(async {
        signals.next().await;
        signals.set_stopping(true);
    });

    let server = AgentServer {
        global: global.clone(),
        project,
        approvals: args.approvals,
        access: SessionAccess::new(args.sessions),
        shutdown: shutdown.clone(),
        waiting_turns: WaitingTurns::default(),
    };
    let transport = (Input { inner: tokio::io::stdin(), shutdown: shutdown.clone() }, tokio::io::stdout());
    let service = tokio::select! {
        service = server.serve(transport) => match service {
            Ok(service) => service,
            // The client disconnected before initialization, which is not an error.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
            Err(error) => {
                let message = format!("standard input does not start like an MCP client: {error}");
                let hint = "this command is started by other agents; to chat, use `agentctl chat`";
                anyhow::bail!(Failure::usage(message).hint(hint));
            }
        },
        () = &mut end_signal => return Ok(Exit::Done),
    };
    let stop = service.cancellation_token();
    let mut serving = std::pin::pin!(service.waiting());
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = &mut end_signal => {
            shutdown.cancel();
            stop.cancel();
            serving.await
        }
    };
    match ended {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(error.into()),
        Ok(_) => Ok(Exit::Done),
    }
}

/// Context of a tool call.
type CallContext = RequestContext<RoleServer>;

/// Maximum characters of a caller's name.
const MAX_NAME: usize = 40;

/// Server for other agents, with the state shared by all calls.
#[derive(Debug)]
struct AgentServer {
    global: Global,
    /// Folder for new sessions. Callers can choose only this folder or a folder inside it.
    project: Option<Mount>,
    approvals: Approvals,
    /// Sessions that callers can access.
    access: SessionAccess,
    /// Cancelled when standard input has ended.
    shutdown: CancellationToken,
    waiting_turns: WaitingTurns,
}

impl AgentServer {
    /// Runs a tool call. Connects to the daemon in each call, so that a stopped daemon is restarted.
    async fn call(&self, request: CallToolRequestParams, context: &CallContext) -> anyhow::Result<CallToolResponse> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        if let (Some(asked), "ask" | "answer") = (&request_state, name.as_ref()) {
            return self.resume(asked, input_responses, context).await;
        }
        match name.as_ref() {
            "ask" => self.ask(tools::read(&name, arguments)?, context).await,
            "answer" => self.answer(tools::read(&name, arguments)?, context).await,
            "search_documents" => {
                let args: tools::Search = tools::read(&name, arguments)?;
                // If the caller disconnects, the search is dropped, which also ends it in the daemon.
                tokio::select! {
                    found = async { shown::search(&self.daemon().await?, &self.access, &args).await } => {
                        Ok(found?.into())
                    }
                    () = self.caller_gone(context) => Err(caller_gone_error().into()),
                }
            }
            "list_sessions" => {
                let args = tools::read(&name, arguments)?;
                Ok(shown::sessions(&self.daemon().await?, &self.access, &args).await?.into())
            }
            other => Err(Failure::usage(format!("unknown tool {other}")).into()),
        }
    }

    /// Waits until the caller cancels the call or disconnects.
    async fn caller_gone(&self, context: &CallContext) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = self.shutdown.cancelled() => {}
        }
    }

    /// Connects to the daemon, starting it if none runs.
    pub(super) async fn daemon(&self) -> Result<Daemon, Failure> {
        daemon::connect(&self.global).await
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let own = Implementation::new("agentd", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(own).with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: CallContext,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: CallContext,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            let name = report::cut(&clean_line(&request.name), MAX_NAME);
            return Err(ErrorData::invalid_params(format!("unknown tool {name:?}"), None));
        }
        let outcome = self.call(request, &context).await;
        Ok(outcome.unwrap_or_else(|error| shown::failed(&error).into()))
    }
}

/// Returns the failure of a call whose caller has disconnected.
pub(super) fn caller_gone_error() -> Failure {
    Failure::new(ErrorKind::Conflict, "the caller no longer waits for this call")
}

/// Returns the name of the caller for the audit log and questions.
pub(super) fn caller(context: &CallContext) -> String {
    let name = context.client_info().map(|client| report::cut(&clean_line(&client.name), MAX_NAME));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("mcp: {name}"),
        None => "mcp".to_owned(),
    }
}

/// Reader that cancels a token at its end.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    shutdown: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, capacity) = (buf.filled().len(), buf.remaining());
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        if read.is_err() || (capacity > 0 && buf.filled().len() == before) {
            self.shutdown.cancel();
        }
        Poll::Ready(read)
    }
}

/// Capacity of the progress queue. When the queue is full, messages are dropped; later messages replace them.
const QUEUE_CAPACITY: usize = 16;
/// Minimum delay between messages about streamed text.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of heartbeat messages, which prevent client timeouts while a model is slow.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Maximum characters shown of streamed text.
const MAX_TAIL: usize = 100;

/// Renderer that reports a turn as progress messages and stores its result.
#[derive(Debug)]
pub(super) struct Progress {
    send: mpsc::Sender<String>,
    turn: TurnId,
    /// Number of the last event received.
    pub(super) seen: u64,
    /// Result of the turn, once it has ended.
    pub(super) result: Option<TurnResult>,
    /// The last characters of the text that is being streamed.
    tail: String,
    sent_at: Option<Instant>,
    /// True once the turn was left waiting. Notes after that are meant for a terminal, so they are not sent.
    is_left_waiting: bool,
}

impl Progress {
    /// Creates the renderer of a turn, and the receiver of its messages.
    pub(super) fn of(turn: TurnId, seen: u64) -> (Self, mpsc::Receiver<String>) {
        let (send, messages) = mpsc::channel(QUEUE_CAPACITY);
        (Self { send, turn, seen, result: None, tail: String::new(), sent_at: None, is_left_waiting: false }, messages)
    }

    fn send(&mut self, message: String) {
        // Does not block: the caller may not read the messages.
        let _ = self.send.try_send(message);
        self.sent_at = Some(Instant::now());
    }

    fn text(&mut self, text: &str) {
        self.tail.push_str(text);
        let cut = self.tail.char_indices().rev().nth(MAX_TAIL - 1).map_or(0, |(at, _)| at);
        self.tail.drain(..cut);
        if self.sent_at.is_none_or(|at| at.elapsed() >= MIN_INTERVAL) {
            let line = clean_line(&self.tail);
            if !line.is_empty() {
                self.send(line);
            }
        }
    }
}

impl Renderer for Progress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        (self.seen, self.is_left_waiting) = (self.seen.max(event.seq), false);
        match &event.kind {
            EventKind::ItemStarted { item: Item { body: ItemBody::ToolResult(result), .. } } => {
                self.send(format!("runs {}", clean_line(&result.name)));
            }
            EventKind::ItemStarted { .. } => self.tail.clear(),
            EventKind::ItemDelta { text, .. } => self.text(text),
            EventKind::InterruptRaised { .. } => self.send("waits for the user".to_owned()),
            EventKind::Warning { message, .. } => self.send(clean_line(message)),
            EventKind::TurnEnded { result } if result.turn_id == self.turn => self.result = Some((**result).clone()),
            _ => {}
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.is_left_waiting = true;
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        if !self.is_left_waiting {
            self.send(clean_line(text));
        }
        Ok(())
    }
}

/// Sends progress messages, and heartbeats in between. Never completes; the future is dropped with the call.
async fn send_progress(
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut messages: mpsc::Receiver<String>,
) -> Infallible {
    let Some(token) = token else { return std::future::pending().await };
    let started_at = Instant::now();
    let mut beat = tokio::time::interval(HEARTBEAT);
    let mut number = 0_u32;
    loop {
        let message = tokio::select! {
            message = messages.recv() => match message {
                Some(message) => message,
                None => return std::future::pending().await,
            },
            _ = beat.tick() => match started_at.elapsed().as_secs() {
                0 => "the turn starts".to_owned(),
                seconds => format!("working for {seconds} s"),
            },
        };
        number = number.saturating_add(1);
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(number)).with_message(message);
        // If sending fails, sending the response also fails, which ends the transport loop.
        let _ = peer.notify_progress(progress).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_end_of_the_text_at_intervals() {
        let (mut progress, mut messages) = Progress::of(TurnId::generate(), 0);
        progress.text("one\u{1b}[2J ");
        progress.text("two");
        assert_eq!(messages.try_recv().unwrap(), "one");
        assert!(messages.try_recv().is_err(), "the next message comes later");
        progress.sent_at = None;
        progress.text(&"é".repeat(MAX_TAIL + 5));
        assert_eq!(messages.try_recv().unwrap(), "é".repeat(MAX_TAIL));
        // Sending does not block while the caller does not read.
        (0..QUEUE_CAPACITY + 10).for_each(|number| progress.send(number.to_string()));
        assert_eq!(std::iter::from_fn(|| messages.try_recv().ok()).count(), QUEUE_CAPACITY);
    }
}
