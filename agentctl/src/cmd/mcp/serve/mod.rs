//! `agentctl mcp serve`: the daemon's sessions as tools for other agents, over standard input and output. The end of standard input
//! ends the calls that are under way: the protocol's own loop waits for them before it tells it, and a turn takes longer than
//! anybody wants to wait who has gone.
//!
//! - [`tools`]: what callers are told of the tools, and what they send.
//! - [`turns`]: `ask` and `answer`, from the start of a turn to what came of it. [`person`]: who may say yes.
//!   [`progress`]: what callers hear meanwhile.
//! - [`reach`]: which sessions callers get at, which turns wait, and from where they are followed again.
//! - [`shown`]: results, bounded and without what a terminal would obey; `search_documents` and `list_sessions`.

mod person;
mod progress;
mod reach;
mod shown;
mod tools;
mod turns;

use std::{
    io::{self, IsTerminal as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use agentd_core::{error::ErrorKind, session::Mount};
use clap::Args;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::{QuitReason, RequestContext, ServerInitializeError},
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use self::{
    person::Approvals,
    reach::{Reach, Sessions, WaitingTurns},
};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    mount::MountArg,
    report,
    terminal::sanitize::clean_line,
    turn::{AtEnd, Signals},
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
pub(super) struct ServeArgs {
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

    let server = AgentServer::new(global.clone(), project, args.approvals, Reach::new(args.sessions), over.clone());
    let transport = (Input::new(tokio::io::stdin(), over.clone()), tokio::io::stdout());
    let service = tokio::select! {
        service = server.serve(transport) => match service {
            Ok(service) => service,
            // Whoever started us wanted nothing after all.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
            Err(error) => return Err(misbegun(&error).into()),
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

fn misbegun(error: &ServerInitializeError) -> Failure {
    Failure::usage(format!("what came on standard input is not how an MCP client begins: {error}"))
        .hint("this command is for other agents to start; for a person there is `agentctl chat`")
}

/// The characters of a caller's name at the most.
const LONGEST_NAME: usize = 40;

/// The sessions of the daemon, for other agents.
#[derive(Debug, Clone)]
struct AgentServer {
    house: Arc<House>,
}

/// State that all calls share.
#[derive(Debug)]
struct House {
    global: Global,
    /// The folder that new sessions see, and above which no caller gets.
    pub(super) project: Option<Mount>,
    pub(super) approvals: Approvals,
    /// Which sessions callers get at.
    pub(super) reach: Reach,
    /// Cancelled when nobody listens any more.
    pub(super) over: CancellationToken,
    pub(super) told: WaitingTurns,
}

impl AgentServer {
    /// A server that ends the turns whose answers are waited for when `over` is cancelled.
    pub(super) fn new(
        global: Global,
        project: Option<Mount>,
        approvals: Approvals,
        reach: Reach,
        over: CancellationToken,
    ) -> Self {
        Self { house: Arc::new(House { global, project, approvals, reach, over, told: WaitingTurns::default() }) }
    }

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
            "ask" => {
                let args: tools::Ask = tools::read(&name, arguments)?;
                self.ask(args, context).await
            }
            "answer" => {
                let args: tools::Answer = tools::read(&name, arguments)?;
                self.answer(args, context).await
            }
            "search_documents" => {
                let args: tools::Search = tools::read(&name, arguments)?;
                // Where nobody waits the search is dropped, and the daemon ends it.
                tokio::select! {
                    found = async { shown::search(&self.daemon().await?, &self.house.reach, &args).await } => {
                        Ok(found?.into())
                    }
                    () = self.nobody_waits(context) => Err(gone().into()),
                }
            }
            "list_sessions" => {
                let args: tools::List = tools::read(&name, arguments)?;
                Ok(shown::sessions(&self.daemon().await?, &self.house.reach, &args).await?.into())
            }
            other => Err(Failure::usage(format!("there is no tool {other}")).into()),
        }
    }

    /// Waits until the caller has cancelled the call or has gone.
    async fn nobody_waits(&self, context: &RequestContext<RoleServer>) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = self.house.over.cancelled() => {}
        }
    }

    /// The daemon, started if none runs.
    pub(super) async fn daemon(&self) -> Result<Daemon, Failure> {
        daemon::connect(&self.house.global).await
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

impl<R> Input<R> {
    /// Around a reader. At its end, or where it fails, the token is cancelled.
    pub(super) fn new(inner: R, over: CancellationToken) -> Self {
        Self { inner, over }
    }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn the_end_is_told_and_nothing_else() {
        let over = CancellationToken::new();
        let mut input = Input::new(&b"ab"[..], over.clone());
        assert_eq!(input.read(&mut [0; 1]).await.unwrap(), 1);
        assert_eq!(input.read(&mut []).await.unwrap(), 0);
        assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 1);
        assert!(!over.is_cancelled());
        assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(over.is_cancelled());
    }
}
