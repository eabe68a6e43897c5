//! `search_history`: what a compaction replaced, and all else of this session, found by its words.

use agentd_core::{
    search::{SearchHit, SearchQuery, SearchResult, TOOL},
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::turn::hooks::{Hook, Invocation, Link, Next};

/// Finds that are told where the model names no number.
const FINDS: usize = 8;
/// Finds that are told at the most.
const MAX_FINDS: usize = 30;

pub(crate) struct Search;

/// Finds what was said and done earlier in this session, also what you no longer see. All words must be there; "quoted
/// words" stand together.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// A few words, as they were written.
    query: String,
    #[schemars(range(min = 1, max = MAX_FINDS))]
    limit: Option<usize>,
}

impl Link for Search {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(TOOL, Effect::Read)]
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name != TOOL {
            return next.run(call);
        }
        async move { call.context.or_cancelled(search(call)).await }.boxed()
    }
}

async fn search(call: &Invocation<'_>) -> ToolOutput {
    let Arguments { query, limit } = match serde_json::from_str(&call.call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was searched: {error}")),
    };
    let Some(query) = SearchQuery::parse(&query) else {
        return ToolOutput::error(ToolErrorCode::InvalidArgs, "the query has no word; give a few that were used");
    };
    let limit = limit.unwrap_or(FINDS).clamp(1, MAX_FINDS);
    let context = call.context;
    match context.ports.store.search(query, Some(context.ids.session), limit).await {
        Ok(SearchResult { hits, unsearched }) => {
            let mut lines: Vec<String> = hits.iter().map(line).collect();
            if unsearched > 0 {
                lines.push(
                    "not all of the history is searched: its index is being built; search again later".to_owned(),
                );
            } else if lines.is_empty() {
                lines.push("nothing was found; try fewer or other words".to_owned());
            }
            ToolOutput::ok(lines.join("\n"))
        }
        Err(error) => ToolOutput::error(ToolErrorCode::Tool, format!("the history could not be searched: {error}")),
    }
}

fn line(hit: &SearchHit) -> String {
    format!("[{}, {}] {}", hit.at.strftime("%Y-%m-%d %H:%M UTC"), hit.kind.as_str(), hit.excerpt)
}
