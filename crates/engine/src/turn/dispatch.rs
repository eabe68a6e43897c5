//! Runs the calls of one step: independent read-only ones at once, the rest in the model's order.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentd_core::{
    context::{CompactionCause, CompactionStrategy},
    event::{EventKind, StateChange},
    ids::ItemId,
    item::{Item, ItemBody, ItemStatus},
    ports::ToolContext,
    session::Todo,
    state_files::StateFileChange,
    tool::{Effect, ToolCall, ToolErrorCode, ToolOutput, ToolResult},
    turn::StopReason,
    usage::Usage,
};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::Instant;

use super::{Stop, TurnContext, TurnState};
use crate::{
    chain::{Invocation, Trail, delegation},
    compaction::Wanted,
    policy::only_fetches,
};

/// How long a tool has to end its processes after a cancel before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs every call that has no result.
pub(crate) async fn dispatch(context: &TurnContext, state: &mut TurnState) -> Result<(), Stop> {
    context.files.make(&context.workspace).await?;
    let calls = std::mem::take(&mut state.pending_calls);
    state.pending_calls.clone_from(&calls);
    let mut rest = calls.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(independent(context, rest));
        let known: &TurnState = state;
        let running: Vec<_> = batch.iter().map(|call| run_call(context, call, known).boxed()).collect();
        // All come to their end, also where one cannot: none is cut off without a word in the audit log.
        let outcomes: Vec<Result<Outcome, Stop>> =
            stream::iter(running).buffer_unordered(context.limits.parallel_calls.max(1)).collect().await;
        for outcome in outcomes {
            take_in(context, state, outcome?).await?;
        }
        if context.cancel.is_cancelled() {
            return Err(Stop::Ended(StopReason::Cancelled));
        }
        rest = later;
    }
    if state.changes_agent { Err(Stop::HandsOn) } else { Ok(()) }
}

/// How many calls from the front may run at once: all leading ones that only look, or that another session works for; or
/// the first alone.
fn independent(context: &TurnContext, calls: &[ToolCall]) -> usize {
    let looks = |call: &&ToolCall| {
        delegation::is_call(context, &call.name)
            || context.tool(&call.name).is_some_and(|tool| match tool.effect {
                Effect::Read => true,
                Effect::Network => only_fetches(&call.arguments),
                Effect::State | Effect::Write | Effect::Execute => false,
            })
    };
    calls.iter().take_while(looks).count().max(1)
}

/// What came of one call.
struct Outcome {
    item: Arc<Item>,
    todos: Option<Vec<Todo>>,
    compact: Option<CompactionStrategy>,
    usage: Option<Box<Usage>>,
    changes_agent: bool,
}

async fn run_call(context: &TurnContext, call: &ToolCall, state: &TurnState) -> Result<Outcome, Stop> {
    let begun = Instant::now();
    let started = context.under_way.get(&call.call_id).map_or_else(OnceLock::new, |known| known.item.into());
    let trail = Trail::of(call);
    let invocation = Invocation { context, call, state, started: &started, trail: &trail };
    let output = context.chain.around_tool(&invocation).await?;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let ToolOutput { text, error, files, todos, state_files, takes_back, compact, usage, changes_agent, .. } = output;
    remember(context, state_files).await?;
    let (call_id, name) = (call.call_id.clone(), call.name.clone());
    let takes_back = takes_back.map(|call| *call);
    let result = ToolResult { call_id, name, text, error, files, takes_back, duration_ms };
    let id = match started.get() {
        Some(id) => *id,
        None => start_result(context, call).await?,
    };
    let status = if error == Some(ToolErrorCode::Cancelled) { ItemStatus::Cut } else { ItemStatus::Done };
    let item = context.recorder.complete(id, ItemBody::ToolResult(result), status).await?;
    Ok(Outcome { item, todos, compact, usage, changes_agent })
}

/// Tells what a call changed of the files in the session's state. It is in the journal before the result is, so that no
/// model is told of a file that a crash has taken, and the next call sees it.
async fn remember(context: &TurnContext, changes: Vec<StateFileChange>) -> Result<(), Stop> {
    if changes.is_empty() {
        return Ok(());
    }
    for change in changes {
        context.recorder.fact(EventKind::StateChanged { change: StateChange::File(change) }).await?;
    }
    context.recorder.flush().await
}

async fn take_in(context: &TurnContext, state: &mut TurnState, outcome: Outcome) -> Result<(), Stop> {
    if let ItemBody::ToolResult(ToolResult { call_id, name, text, error: Some(ToolErrorCode::Denied), .. }) =
        &outcome.item.body
    {
        state.note_denial(call_id.clone(), name.clone(), text.clone());
    }
    state.note(outcome.item);
    if outcome.changes_agent {
        state.changes_agent = true;
        state.agent_changes += 1;
    }
    if let Some(usage) = outcome.usage {
        pay(context, state, *usage).await?;
    }
    if let Some(strategy) = outcome.compact {
        state.compact = Some(Wanted { cause: CompactionCause::Model, strategy });
    }
    if let Some(todos) = outcome.todos {
        state.todos.clone_from(&todos);
        let change = StateChange::Todos { todos };
        context.recorder.fact(EventKind::StateChanged { change }).await?;
    }
    Ok(())
}

/// Counts what other sessions took for a call: the turn's limits hold for all of it.
async fn pay(context: &TurnContext, state: &mut TurnState, usage: Usage) -> Result<(), Stop> {
    state.usage += usage;
    state.delegated = state.delegated.saturating_add(usage.tokens());
    let (slot, model) = (context.slot, context.model.info().id.clone());
    let paid = EventKind::UsageUpdated { step: state.steps, slot, model, usage, turn: state.usage, prompt: None };
    context.recorder.fact(paid).await
}

/// Tells that the tool starts to run, or that it has an outcome without having run.
async fn start_result(context: &TurnContext, call: &ToolCall) -> Result<ItemId, Stop> {
    let result = ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        text: String::new(),
        error: None,
        files: Vec::new(),
        takes_back: None,
        duration_ms: 0,
    };
    context.recorder.start(ItemBody::ToolResult(result)).await
}

/// Tells that a call starts to take effect. That is in the journal when this returns, so that a crash can be told
/// honestly.
pub(crate) async fn begin(invocation: &Invocation<'_>) -> Result<(), Stop> {
    let Invocation { context, call, started, .. } = invocation;
    if context.cancel.is_cancelled() {
        return Err(Stop::Ended(StopReason::Cancelled));
    }
    if started.get().is_none() {
        let id = start_result(context, call).await?;
        let _ = started.set(id);
    }
    context.recorder.flush().await
}

/// The innermost end of the chain: the tool itself.
pub(crate) async fn execute(invocation: &Invocation<'_>) -> Result<ToolOutput, Stop> {
    begin(invocation).await?;
    let Invocation { context, call, started, .. } = invocation;
    let progress = started.get().map(|id| context.recorder.progress(*id)).unwrap_or_default();
    let tool_context = ToolContext { progress, ..context.tool_context(call) };
    let given_up = async {
        context.cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        biased;
        output = context.toolbox.call(&tool_context, call) => Ok(output),
        () = given_up => Ok(ToolOutput::error(ToolErrorCode::Cancelled, "the turn was cancelled while this ran")),
    }
}
