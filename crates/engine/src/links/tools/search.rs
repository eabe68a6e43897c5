//! `search_history`: searches this session, including everything that compactions replaced.
//!
//! `find_tool`: finds tools of MCP servers that a turn hides because there are too many tools or because the user hid
//! them. Found tools can be called from the next step on. If a server's tools are not yet known when a turn begins, the
//! turn waits briefly for the server, and picks up the tools of slower servers later.

use agentd_core::{
    catalogue::CatalogueTool,
    search::{SearchHit, SearchQuery, SearchResult, TOOL},
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    catalog::{FIND_TOOL, ToolFinder},
    turn::{
        Flow, TurnContext, TurnExit, TurnState,
        hooks::{Hook, Invocation, Link, Next, done},
    },
};

/// Default number of hits.
const DEFAULT_HITS: usize = 8;
/// Maximum number of hits.
const MAX_HITS: usize = 30;

pub(crate) struct Search;

/// Searches the earlier messages and results of this session, including those that you no longer see. Texts with all words
/// come first, then texts with some; "quoted words" match as a phrase.
#[derive(Deserialize, JsonSchema)]
struct SearchArguments {
    /// A few words, as originally written.
    query: String,
    #[schemars(range(min = 1, max = MAX_HITS))]
    limit: Option<usize>,
}

impl Link for Search {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<SearchArguments>(TOOL, Effect::Read)]
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name == TOOL { call.context.or_cancelled(search(call)).boxed() } else { next.run(call) }
    }
}

async fn search(call: &Invocation<'_>) -> ToolOutput {
    let SearchArguments { query, limit } = match serde_json::from_str(&call.call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was searched: {error}")),
    };
    let Some(query) = SearchQuery::parse(&query) else {
        return ToolOutput::error(ToolErrorCode::InvalidArgs, "the query is empty; use a few words from the history");
    };
    let limit = limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
    let context = call.context;
    match context.ports.store.search(query, Some(context.ids.session), limit).await {
        Ok(SearchResult { hits, unsearched }) => {
            let line = |SearchHit { at, kind, excerpt, .. }: &SearchHit| {
                format!("[{}, {}] {excerpt}", at.strftime("%Y-%m-%d %H:%M UTC"), kind.as_str())
            };
            let mut lines: Vec<String> = hits.iter().map(line).collect();
            if unsearched > 0 {
                lines.push(
                    "not all of the history is searched: its index is being built; search again later".to_owned(),
                );
            } else if lines.is_empty() {
                lines.push("nothing found; try fewer or other words".to_owned());
            }
            ToolOutput::ok(lines.join("\n"))
        }
        Err(error) => ToolOutput::error(ToolErrorCode::Tool, format!("the history could not be searched: {error}")),
    }
}

/// Maximum length of a tool's description, in characters, and of its schema, in bytes.
const MAX_DESCRIPTION: usize = 200;
const MAX_SCHEMA: usize = 2000;
/// Maximum number of servers to name if no tool was found.
const MAX_SERVERS: usize = 24;

pub(crate) struct FindTool;

/// Finds tools of MCP servers that are not listed, by words from their names and descriptions. You may call the tools
/// found from your next step on.
#[derive(Deserialize, JsonSchema)]
struct FindArguments {
    /// A few words: the task, or the server's name.
    query: String,
}

impl Link for FindTool {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<FindArguments>(FIND_TOOL, Effect::Read)]
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name == FIND_TOOL { done(find(call)) } else { next.run(call) }
    }
}

fn find(call: &Invocation<'_>) -> ToolOutput {
    let finder = &call.context.tools.finder;
    let FindArguments { query } = match serde_json::from_str(&call.call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was searched: {error}")),
    };
    let (best, more) = finder.search(&query);
    if best.is_empty() {
        return ToolOutput::ok(nothing_found(finder));
    }
    let left = finder.show(&best);
    let is_over_limit = |tool: &CatalogueTool| left.contains(&tool.spec.name);
    let (shown, left): (Vec<_>, Vec<_>) = best.into_iter().partition(|tool| !is_over_limit(tool));
    let mut lines: Vec<String> = shown.iter().map(|tool| summary(tool)).collect();
    if more > 0 {
        lines.push(format!("{more} more match; be more specific if none of these fits"));
    }
    if !left.is_empty() {
        lines.push(
            "this session cannot load more tools: use the tools already found, or ask the user to mention others"
                .to_owned(),
        );
    }
    call.record.entries().effects.found = shown.into_iter().map(|tool| tool.spec.name.clone()).collect();
    ToolOutput::ok(lines.join("\n"))
}

/// Describes the tool in one line, and its arguments. Both texts were written by a server.
fn summary(tool: &CatalogueTool) -> String {
    let ToolSpec { name, description, parameters, .. } = &tool.spec;
    let about: String = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let about = match about.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{} […]", &about[..end]),
        None => about,
    };
    let schema = parameters.to_string();
    let arguments = if schema.len() <= MAX_SCHEMA { schema } else { "see its schema in your tool list".to_owned() };
    format!("{name}: {about}\n  arguments: {arguments}")
}

fn nothing_found(finder: &ToolFinder) -> String {
    let servers = finder.servers();
    let named = servers.iter().take(MAX_SERVERS).map(|(server, tools)| format!("{server} ({tools})"));
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return format!("nothing to find: all known tools are already listed{}", finder.unlisted_note());
    }
    let more = servers.len().saturating_sub(MAX_SERVERS);
    let more = if more > 0 { format!(", and {more} more servers") } else { String::new() };
    format!(
        "nothing found; try other words, or the name of a server. Tools to find: {}{more}{}",
        named.join(", "),
        finder.unlisted_note()
    )
}

/// Maximum number of servers named in warnings.
const MAX_NAMED: usize = 8;

pub(crate) struct UnlistedServers;

impl Link for UnlistedServers {
    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // A subagent does not wait, because its parent's turn has already waited.
        let should_wait = state.steps == 0 && !state.only_compacts() && context.settings.parent.is_none();
        async move { if should_wait { wait(context, state).await } else { Ok(()) } }.boxed()
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        let can_restart = state.pending_calls.is_empty() && state.answer.is_none() && !state.only_compacts();
        let has_new_tools = can_restart && has_new_servers(context);
        std::future::ready(if has_new_tools { Err(TurnExit::Handoff) } else { Ok(()) }).boxed()
    }
}

async fn wait(context: &TurnContext, state: &TurnState) -> Flow {
    let names: Vec<String> = context.tools.finder.unlisted_or_unusable().map(|server| server.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let user = context.tool_user();
    let unlisted = tokio::select! {
        unlisted = context.or_cancelled(context.ports.toolbox.list_servers(&user, &names)) => unlisted?,
        () = context.control.stopwatch.reaches(context.limits.time) => Vec::new(),
    };
    if has_new_servers(context) {
        return Err(TurnExit::Handoff);
    }
    // An unchanged problem is reported once per session.
    let is_new = state.history.iter().all(|item| item.turn_id == context.ids.turn);
    for server in unlisted.into_iter().filter(|server| is_new || server.is_late).take(MAX_NAMED) {
        let message = format!("the MCP server {} offers no tools: {}", server.name, server.why);
        context.recorder.warn("mcp_server", message).await?;
    }
    Ok(())
}

/// Returns true if a server has listed its tools since the turn got its tools.
fn has_new_servers(context: &TurnContext) -> bool {
    let unlisted: Vec<&str> = context.tools.finder.unlisted().map(|server| server.name.as_str()).collect();
    if unlisted.is_empty() {
        return false;
    }
    let toolbox = &context.ports.toolbox;
    let session = context.settings.parent.as_ref().map_or(context.ids.session, |parent| parent.session);
    let now = toolbox.session_catalogue(session).unwrap_or_else(|| toolbox.catalogue());
    now.servers.iter().any(|server| !server.is_unlisted && unlisted.contains(&server.name.as_str()))
}
