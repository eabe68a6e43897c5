//! Moves old results of calls to files, before anything of the history is replaced.

use std::sync::Arc;

use agentd_context::compaction::{
    offload,
    plan::{self, to_offload},
};
use agentd_core::{
    context::{Compaction, CompactionCause, CompactionReport, CompactionStrategy, OffloadedResult},
    item::{Item, ItemBody},
    ports::ArtifactDir,
};

use crate::{
    links::history::compaction::run::{count, percent_before, scaled},
    turn::{TurnContext, TurnExit, TurnState, level, request},
};

/// Moves results to files, where that makes room enough, and returns whether it did.
pub(super) async fn run(
    context: &TurnContext,
    state: &mut TurnState,
    cause: CompactionCause,
) -> Result<bool, TurnExit> {
    let model = context.next_model(state);
    let expected = request::expected(context, state, model).max(1);
    let mut needed = to_offload(expected, context.next_window(state));
    if cause == CompactionCause::Overflow {
        // It does not fit, whatever the count says.
        needed = needed.max(expected / 2);
    }
    // Where a server counts twice as many tokens as are guessed, half as many are to be freed.
    let guess = u128::from(request::guess(context, state, model));
    let needed = u64::try_from(u128::from(needed) * guess / u128::from(expected)).unwrap_or(u64::MAX);
    let Some(chosen) = offload::results(&state.history, context.ids.turn, needed) else { return Ok(false) };
    let Some(offloaded) = keep(context, &chosen).await else { return Ok(false) };
    let messages = count(plan::count(&state.history));
    let mut report = CompactionReport {
        cause,
        strategy: CompactionStrategy::Offload,
        messages_before: messages,
        messages_after: messages,
        tokens_before: scaled(context, &state.history),
        percent_before: percent_before(context, state),
        offloaded: count(offloaded.len()),
        ..CompactionReport::default()
    };
    let item = context.recorder.start(ItemBody::Compaction(Compaction::default())).await?;
    let mut after = state.history.clone();
    let body = ItemBody::Compaction(Compaction { offloaded: offloaded.clone(), ..Compaction::default() });
    after.push(Arc::new(Item { id: item, ..Item::new(context.ids.turn, body) }));
    offload::apply(&mut after);
    report.tokens_after = scaled(context, &after);
    let compaction = Compaction { report, offloaded, ..Compaction::default() };
    let stored = context.recorder.compact(item, Vec::new(), compaction).await?;
    after.pop();
    after.push(stored);
    state.history = after;
    state.meter.start_over();
    state.held = 0;
    level::tell(context, state).await?;
    Ok(true)
}

/// Writes each result to a file of its own. None where one cannot be written: then nothing is moved.
async fn keep(context: &TurnContext, chosen: &[Arc<Item>]) -> Option<Vec<OffloadedResult>> {
    let mut offloaded = Vec::with_capacity(chosen.len());
    for item in chosen {
        let ItemBody::ToolResult(result) = &item.body else { continue };
        // A result that was too long to be shown is kept whole under its plain name.
        let name = format!("{}-shown.txt", result.call_id);
        let content = result.text.clone().into_bytes();
        match context.files.session.keep(ArtifactDir::LargeToolResults, name, content).await {
            Ok(path) => offloaded.push(OffloadedResult { item: item.id, path }),
            Err(error) => {
                tracing::warn!("results are not moved to files: {error}");
                return None;
            }
        }
    }
    Some(offloaded)
}
