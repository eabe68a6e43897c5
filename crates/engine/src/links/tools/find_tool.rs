//! `find_tool`: tools of MCP servers that a turn does not show, because there are too many or a person wants it so. What is
//! found may be called from the next step on.

use agentd_core::{
    catalogue::CatalogueTool,
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    catalog::{FIND_TOOL as NAME, Finds},
    turn::{
        TurnExit,
        hooks::{Invocation, Link, Next},
    },
};

/// Maximum length of a tool's description, in characters, and of its arguments, in bytes.
const LONGEST_LINE: usize = 200;
const LONGEST_SCHEMA: usize = 2000;
/// Servers that are named where nothing was found.
const MOST_SERVERS: usize = 24;

pub(crate) struct FindTool;

/// Finds tools of MCP servers that are not among yours, by words of their names and of what they do. You may call what it
/// finds from your next step on.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// A few words: the task, or the server's name.
    query: String,
}

impl Link for FindTool {
    fn name(&self) -> &'static str {
        "find_tool"
    }

    fn description(&self) -> &'static str {
        "lets a model find tools of MCP servers that it is not shown, and call them from there on"
    }

    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(NAME, Effect::Read)]
    }

    fn can_be_disabled(&self) -> bool {
        true
    }

    fn around_tool<'a>(
        &'a self,
        call: &'a Invocation<'a>,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, TurnExit>> {
        if call.call.name != NAME {
            return next.run(call);
        }
        std::future::ready(Ok(find(call))).boxed()
    }
}

fn find(call: &Invocation<'_>) -> ToolOutput {
    let finds = &call.context.tools.finds;
    let Arguments { query } = match serde_json::from_str(&call.call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was looked for: {error}")),
    };
    let hits = finds.search(&query);
    if hits.best.is_empty() {
        return ToolOutput::ok(nothing(finds));
    }
    let left = finds.show(&hits.best);
    let is_left = |tool: &CatalogueTool| left.contains(&tool.spec.name);
    let (shown, left): (Vec<_>, Vec<_>) = hits.best.into_iter().partition(|tool| !is_left(tool));
    let mut lines: Vec<String> = shown.iter().map(|tool| told(tool)).collect();
    if hits.more > 0 {
        lines.push(format!("{} more match: be more specific if none of these fits", hits.more));
    }
    if !left.is_empty() {
        lines.push(
            "there is no room for more tools in this session: use those that were found, or ask the person to mention what \
             else is needed"
                .to_owned(),
        );
    }
    call.record.affect(|effects| effects.found = shown.into_iter().map(|tool| tool.spec.name.clone()).collect());
    ToolOutput::ok(lines.join("\n"))
}

/// The tool in a line, and what it takes. A server wrote both.
fn told(tool: &CatalogueTool) -> String {
    let ToolSpec { name, description, parameters, .. } = &tool.spec;
    let about: String = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let about = match about.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{} […]", &about[..end]),
        None => about,
    };
    let schema = parameters.to_string();
    let takes = if schema.len() <= LONGEST_SCHEMA { schema } else { "see its schema among your tools".to_owned() };
    format!("{name}: {about}\n  arguments: {takes}")
}

fn nothing(finds: &Finds) -> String {
    let servers = finds.servers();
    let named = servers.iter().take(MOST_SERVERS).map(|(server, tools)| format!("{server} ({tools})"));
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return format!("there is nothing to find: all known tools are among yours already{}", finds.not_known_yet());
    }
    let more = servers.len().saturating_sub(MOST_SERVERS);
    let more = if more > 0 { format!(", and {more} more servers") } else { String::new() };
    format!(
        "nothing fits; try other words, or the name of a server. Tools to be found: {}{more}{}",
        named.join(", "),
        finds.not_known_yet()
    )
}
