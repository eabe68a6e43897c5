//! MCP servers whose tools are not known when a turn begins, because nobody has reached them yet: the turn waits for them a
//! little, and continues with the tools of those that come later.

use agentd_core::event::EventKind;
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::turn::{TurnContext, TurnExit, TurnState, hooks::Link};

/// Maximum number of servers named in warnings.
const MAX_NAMED: usize = 8;

pub(crate) struct UnlistedServers;

impl Link for UnlistedServers {
    fn name(&self) -> &'static str {
        "mcp_servers"
    }

    fn description(&self) -> &'static str {
        "waits a little for MCP servers whose tools are not known yet, before all that depends on the tools of a turn"
    }

    fn before_turn<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        // The turn that a subagent works for has waited.
        let waits = state.steps == 0 && !state.only_compacts() && context.settings.parent.is_none();
        async move { if waits { wait(context, state).await } else { Ok(()) } }.boxed()
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        let is_between = state.pending_calls.is_empty() && state.answer.is_none() && !state.only_compacts();
        let goes_on = is_between && have_come(context);
        std::future::ready(if goes_on { Err(TurnExit::Handoff) } else { Ok(()) }).boxed()
    }
}

async fn wait(context: &TurnContext, state: &TurnState) -> Result<(), TurnExit> {
    let names: Vec<String> = context.tools.finds.unusable().map(|server| server.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let user = context.tool_user();
    let unlisted = tokio::select! {
        unlisted = context.or_cancelled(context.tools.toolbox.list_servers(&user, &names)) => unlisted?,
        () = context.control.stopwatch.reaches(context.limits.time) => Vec::new(),
    };
    if have_come(context) {
        return Err(TurnExit::Handoff);
    }
    // What stays as it is is said once in a session.
    let is_new = state.history.iter().all(|item| item.turn_id == context.ids.turn);
    for server in unlisted.into_iter().filter(|server| is_new || server.is_late).take(MAX_NAMED) {
        let message = format!("the MCP server {} offers no tools: {}", server.name, server.why);
        context.recorder.fact(EventKind::Warning { code: "mcp_server".to_owned(), message }).await?;
    }
    Ok(())
}

/// Returns true if the tools of a server are known now that were not when the turn got its tools.
fn have_come(context: &TurnContext) -> bool {
    let unlisted: Vec<&str> = context.tools.finds.unlisted().map(|server| server.name.as_str()).collect();
    if unlisted.is_empty() {
        return false;
    }
    let toolbox = &context.tools.toolbox;
    let session = context.settings.parent.as_ref().map_or(context.ids.session, |parent| parent.session);
    let now = toolbox.session_catalogue(session).unwrap_or_else(|| toolbox.catalogue());
    now.servers.iter().any(|server| !server.is_unlisted && unlisted.contains(&server.name.as_str()))
}
