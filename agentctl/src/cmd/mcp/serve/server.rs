//! The server: what the protocol asks of it, and which tool answers.

use std::sync::Arc;

use agentd_core::{error::ErrorKind, session::Mount};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use tokio_util::sync::CancellationToken;

use super::{arguments, lookups, person::Approvals, reach::Reach, shown, tools, waiting::WaitingTurns};
use crate::{
    daemon::{self, Daemon},
    failure::Failure,
    flags::Global,
    report,
    terminal::sanitize::clean_line,
};

/// The characters of a caller's name at the most.
const LONGEST_NAME: usize = 40;

/// The sessions of the daemon, for other agents.
#[derive(Debug, Clone)]
pub(super) struct AgentServer {
    pub(super) house: Arc<House>,
}

/// State that all calls share.
#[derive(Debug)]
pub(super) struct House {
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
                let args: arguments::Ask = arguments::read(&name, arguments)?;
                self.ask(args, context).await
            }
            "answer" => {
                let args: arguments::Answer = arguments::read(&name, arguments)?;
                self.answer(args, context).await
            }
            "search_documents" => {
                let args: arguments::Search = arguments::read(&name, arguments)?;
                // Where nobody waits the search is dropped, and the daemon ends it.
                tokio::select! {
                    found = async { lookups::search(&self.daemon().await?, &self.house.reach, &args).await } => {
                        Ok(found?.into())
                    }
                    () = self.nobody_waits(context) => Err(gone().into()),
                }
            }
            "list_sessions" => {
                let args: arguments::List = arguments::read(&name, arguments)?;
                Ok(lookups::sessions(&self.daemon().await?, &self.house.reach, &args).await?.into())
            }
            other => Err(Failure::usage(format!("there is no tool {other}")).into()),
        }
    }

    /// Waits until the caller has cancelled the call or has gone.
    pub(super) async fn nobody_waits(&self, context: &RequestContext<RoleServer>) {
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
