//! `agentctl mcp serve`: the daemon's sessions as tools for other agents, over standard input and output. The end of standard input
//! ends the calls that are under way: the protocol's own loop waits for them before it tells it, and a turn takes longer than
//! anybody wants to wait who has gone.
//!
//! - [`tools`]: what callers are told of the tools, and what they send.
//! - [`turns`]: `ask` and `answer`, from the start of a turn to what came of it. [`person`]: who may say yes.
//! - [`shown`]: which sessions callers get at, which turns wait, and from where they are followed again; results, bounded and
//!   without what a terminal would obey; `search_documents` and `list_sessions`.

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
    shown::{Reach, Sessions, WaitingTurns},
};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    mount::MountArg,
    report,
    terminal::sanitize::clean_line,
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
    /// Person who approves: the one at the calling agent, or at agentctl
    #[arg(long, value_name = "WHO", default_value = "person")]
    approvals: Approvals,
    /// Which sessions callers can resume, search and list
    #[arg(long, value_name = "WHICH", default_value = "own")]
    sessions: Sessions,
}

/// Serves until standard input ends or a signal comes.
pub(super) async fn handle(global: &Global, args: ServeArgs) -> anyhow::Result<Exit> {
    let project = args.project.as_ref().map(MountArg::resolve).transpose()?;
    if std::io::stdin().is_terminal() {
        crate::terminal::note(
            "waiting for an MCP client on standard input; Ctrl-C ends it (for a chat use `agentctl chat`)",
        );
    }
    let over = CancellationToken::new();
    let mut signals = Signals::listen(AtEnd::Cancel)?;
    let mut told_to_end = std::pin::pin!(async {
        signals.next().await;
        signals.set_stopping(true);
    });

    let server = AgentServer {
        global: global.clone(),
        project,
        approvals: args.approvals,
        reach: Reach::new(args.sessions),
        over: over.clone(),
        told: WaitingTurns::default(),
    };
    let transport = (Input { inner: tokio::io::stdin(), over: over.clone() }, tokio::io::stdout());
    let service = tokio::select! {
        service = server.serve(transport) => match service {
            Ok(service) => service,
            // Whoever started us wanted nothing after all.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
            Err(error) => {
                let words = format!("what came on standard input is not how an MCP client begins: {error}");
                let hint = "this command is for other agents to start; for a person there is `agentctl chat`";
                return Err(Failure::usage(words).hint(hint).into());
            }
        },
        () = &mut told_to_end => return Ok(Exit::Done),
    };
    let stop = service.cancellation_token();
    let mut serving = std::pin::pin!(service.waiting());
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = &mut told_to_end => {
            over.cancel();
            stop.cancel();
            serving.await
        }
    };
    match ended {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(error.into()),
        Ok(_) => Ok(Exit::Done),
    }
}

/// The characters of a caller's name at the most.
const LONGEST_NAME: usize = 40;

/// The sessions of the daemon, for other agents: state that all calls share.
#[derive(Debug)]
struct AgentServer {
    global: Global,
    /// The folder that new sessions see, and above which no caller gets.
    project: Option<Mount>,
    approvals: Approvals,
    /// Which sessions callers get at.
    reach: Reach,
    /// Cancelled when nobody listens any more.
    over: CancellationToken,
    told: WaitingTurns,
}

impl AgentServer {
    /// Does what a tool is called for. The daemon is reached anew for each call, and started where it has gone.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> anyhow::Result<CallToolResponse> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        if let (Some(asked), "ask" | "answer") = (&request_state, name.as_ref()) {
            return self.resume(asked, input_responses, context).await;
        }
        match name.as_ref() {
            "ask" => self.ask(tools::read(&name, arguments)?, context).await,
            "answer" => self.answer(tools::read(&name, arguments)?, context).await,
            "search_documents" => {
                let args: tools::Search = tools::read(&name, arguments)?;
                // Where nobody waits the search is dropped, and the daemon ends it.
                tokio::select! {
                    found = async { shown::search(&self.daemon().await?, &self.reach, &args).await } => {
                        Ok(found?.into())
                    }
                    () = self.nobody_waits(context) => Err(gone().into()),
                }
            }
            "list_sessions" => {
                let args = tools::read(&name, arguments)?;
                Ok(shown::sessions(&self.daemon().await?, &self.reach, &args).await?.into())
            }
            other => Err(Failure::usage(format!("there is no tool {other}")).into()),
        }
    }

    /// Waits until the caller has cancelled the call or has gone.
    async fn nobody_waits(&self, context: &RequestContext<RoleServer>) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = self.over.cancelled() => {}
        }
    }

    /// The daemon, started if none runs.
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            let name = report::cut(&clean_line(&request.name), LONGEST_NAME);
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        }
        let outcome = self.call(request, &context).await;
        Ok(outcome.unwrap_or_else(|error| shown::failed(&error).into()))
    }
}

/// Result of a call that no caller waits for.
pub(super) fn gone() -> Failure {
    Failure::new(ErrorKind::Conflict, "the caller no longer waits for this call")
}

/// The caller's name for the daemon: it stands in the audit log and in questions.
pub(super) fn caller(context: &RequestContext<RoleServer>) -> String {
    let name = context.client_info().map(|client| report::cut(&clean_line(&client.name), LONGEST_NAME));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("mcp: {name}"),
        None => "mcp".to_owned(),
    }
}

/// A reader that says when there is nothing more to read.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    over: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        if read.is_err() || (room > 0 && buf.filled().len() == before) {
            self.over.cancel();
        }
        Poll::Ready(read)
    }
}

/// Messages that may wait to be sent; more are dropped, for the next says more.
const QUEUE: usize = 16;
/// Between two words about text that is being written.
const PAUSE: Duration = Duration::from_millis(250);
/// A sign of life is given after this long at the latest, so that nobody gives a slow model up.
const BEAT: Duration = Duration::from_secs(10);
/// Characters that are shown of a text that is being written.
const TAIL: usize = 100;

/// Follows the events of a turn: what there is to tell is told, and its end is kept.
#[derive(Debug)]
pub(super) struct Progress {
    tell: mpsc::Sender<String>,
    turn: TurnId,
    /// The number of the last event that came.
    pub(super) seen: u64,
    /// Result of the turn.
    pub(super) result: Option<TurnResult>,
    /// The end of the text that is being written.
    tail: String,
    told_at: Option<Instant>,
    /// Set once the turn is left to wait: what is said then is for a person at a terminal.
    left: bool,
}

impl Progress {
    /// Of a turn, and what of it is to be sent.
    pub(super) fn of(turn: TurnId, seen: u64) -> (Self, mpsc::Receiver<String>) {
        let (tell, told) = mpsc::channel(QUEUE);
        (Self { tell, turn, seen, result: None, tail: String::new(), told_at: None, left: false }, told)
    }

    fn tell(&mut self, message: String) {
        // Of a caller that takes nothing nobody waits to be heard.
        let _ = self.tell.try_send(message);
        self.told_at = Some(Instant::now());
    }

    fn text(&mut self, text: &str) {
        self.tail.push_str(text);
        let cut = self.tail.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
        self.tail.drain(..cut);
        if self.told_at.is_none_or(|at| at.elapsed() >= PAUSE) {
            let line = clean_line(&self.tail);
            if !line.is_empty() {
                self.tell(line);
            }
        }
    }
}

impl Renderer for Progress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        (self.seen, self.left) = (self.seen.max(event.seq), false);
        match &event.kind {
            EventKind::ItemStarted { item: Item { body: ItemBody::ToolResult(result), .. } } => {
                self.tell(format!("runs {}", clean_line(&result.name)));
            }
            EventKind::ItemStarted { .. } => self.tail.clear(),
            EventKind::ItemDelta { text, .. } => self.text(text),
            EventKind::InterruptRaised { .. } => self.tell("waits for a person".to_owned()),
            EventKind::Warning { message, .. } => self.tell(clean_line(message)),
            EventKind::TurnEnded { result } if result.turn_id == self.turn => self.result = Some((**result).clone()),
            _ => {}
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.left = true;
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        if !self.left {
            self.tell(clean_line(text));
        }
        Ok(())
    }
}

/// Sends what there is to tell, and a sign of life where there is nothing. It has no end of its own: it ends with the call.
async fn send_progress(
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut told: mpsc::Receiver<String>,
) -> Infallible {
    let Some(token) = token else { return std::future::pending().await };
    let begun = Instant::now();
    let mut beat = tokio::time::interval(BEAT);
    let mut number = 0_u32;
    loop {
        let message = tokio::select! {
            message = told.recv() => match message {
                Some(message) => message,
                None => return std::future::pending().await,
            },
            _ = beat.tick() => match begun.elapsed().as_secs() {
                0 => "the turn begins".to_owned(),
                seconds => format!("at work for {seconds} s"),
            },
        };
        number = number.saturating_add(1);
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(number)).with_message(message);
        // Where it cannot be sent, the answer cannot either, and the protocol's loop finds that out.
        let _ = peer.notify_progress(progress).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_by_its_end_now_and_then() {
        let (mut progress, mut told) = Progress::of(TurnId::generate(), 0);
        progress.text("one\u{1b}[2J ");
        progress.text("two");
        assert_eq!(told.try_recv().unwrap(), "one");
        assert!(told.try_recv().is_err(), "the next word comes later");
        progress.told_at = None;
        progress.text(&"é".repeat(TAIL + 5));
        assert_eq!(told.try_recv().unwrap(), "é".repeat(TAIL));
        // A caller that takes nothing holds nothing up.
        (0..QUEUE + 10).for_each(|number| progress.tell(number.to_string()));
        assert_eq!(std::iter::from_fn(|| told.try_recv().ok()).count(), QUEUE);
    }
}
