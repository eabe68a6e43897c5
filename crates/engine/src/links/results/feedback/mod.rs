//! What a command says is reduced to what decides, long before it would be too long for the window: a model that reads
//! five thousand lines of a build to find one error reads them again in every later request.
//!
//! It is so only with what runs something. What a model reads or searches for is what it wants to see.
//!
//! - [`reduce`]: the lines that decide; [`lines`]: which those are, and what is being worked on.

mod lines;
mod reduce;

use std::sync::Arc;

use agentd_context::{
    text::{aside, sizes},
    tokens::estimate,
};
use agentd_core::{
    item::ItemBody,
    session::TodoStatus,
    tool::{Effect, ToolOutput},
};
use futures_util::FutureExt as _;

use crate::{
    links::results::{feedback::lines::Patterns, large_results::keep},
    turn::hooks::{Hook, Invocation, Link, Next},
};

pub(crate) struct Condense {
    patterns: Option<Arc<Patterns>>,
}

impl Default for Condense {
    fn default() -> Self {
        Self { patterns: Patterns::read().map(Arc::new) }
    }
}

impl Link for Condense {
    fn name(&self) -> &'static str {
        "feedback"
    }

    fn description(&self) -> &'static str {
        "reduces what programs print to what decides, and keeps the whole"
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        async move {
            let output = next.run(call).await?;
            let limit = call.context.prompt.results.feedback.filter(|_| runs_something(call));
            let (Some(limit), Some(patterns)) = (limit, &self.patterns) else { return Ok(output) };
            // No token has less than a byte.
            if output.text.len() as u64 <= limit {
                return Ok(output);
            }
            Ok(feedback(call, output, limit, Arc::clone(patterns)).await)
        }
        .boxed()
    }
}

fn runs_something(call: &Invocation<'_>) -> bool {
    call.context.tool(&call.call.name).is_some_and(|tool| tool.effect == Effect::Execute)
}

/// The result with its text reduced, when the whole is kept; the whole where it is not: nothing is lost without a need.
async fn feedback(call: &Invocation<'_>, mut output: ToolOutput, limit: u64, patterns: Arc<Patterns>) -> ToolOutput {
    let keywords = lines::pattern(at_work(call));
    let (text, reduced) = aside(output.text, move |text| {
        // Not all of the limit is used: a text that lost next to nothing would not be worth a file.
        (estimate(text) > limit).then(|| reduce::reduce(&patterns, text, keywords.as_ref(), limit * 3 / 4)).flatten()
    })
    .await;
    output.text = text;
    let Some(reduced) = reduced else { return output };
    match keep(call, &output.text).await {
        Ok(path) => {
            let shown = format!(
                "{reduced}\n[This is reduced to what may decide. The whole has {}; it is in {path}: read there with \
                 read_file and an offset, or search it with grep.]",
                sizes(&output.text)
            );
            if shown.len() < output.text.len() {
                output.text = shown;
                let details = output.details.get_or_insert_default();
                (details.stored, details.own_bytes) = (Some(path), Some(reduced.len() as u64));
            }
        }
        Err(error) => {
            tracing::warn!(call = %call.call.call_id, "a result could not be kept and is not reduced: {error}");
        }
    }
    output
}

/// The person's request in this turn, and the todo that is in progress.
fn at_work<'a>(call: &'a Invocation<'_>) -> impl Iterator<Item = &'a str> {
    let current =
        call.state.todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).map(|todo| todo.content.as_str());
    let said = call.state.history.iter().rev().filter(|item| item.turn_id == call.context.ids.turn);
    let said = said.filter_map(|item| match &item.body {
        ItemBody::UserMessage { text, .. } => Some(text.as_str()),
        _ => None,
    });
    current.chain(said)
}
