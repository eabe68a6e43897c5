//! `agentctl mcp serve`: the daemon's sessions as tools for other agents, over standard input and output.
//!
//! - [`server`]: what the protocol asks, and which tool answers it. [`tools`]: what callers are told of the tools;
//!   [`arguments`]: what they send.
//! - [`turns`]: `ask` and `answer`, from the start of a turn to what came of it. [`person`]: who may say yes.
//!   [`progress`]: what callers hear meanwhile. [`waiting`]: which turns wait, and from where they are followed again.
//! - [`reach`]: which sessions callers get at. [`lookups`]: `search_documents` and `list_sessions`.
//! - [`shown`]: results, bounded and without what a terminal would obey.
//! - [`input`]: standard input, whose end ends the calls that are under way.

mod arguments;
mod input;
mod lookups;
mod person;
mod progress;
mod reach;
mod server;
mod shown;
mod tools;
mod turns;
mod waiting;

use std::io::IsTerminal as _;

use clap::Args;
use rmcp::{
    ServiceExt as _,
    service::{QuitReason, ServerInitializeError},
};
use tokio_util::sync::CancellationToken;

use self::{
    input::Input,
    person::Approvals,
    reach::{Reach, Sessions},
    server::AgentServer,
};
use crate::{
    exit::Exit,
    failure::Failure,
    flags::Global,
    mount::MountArg,
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
