//! Runs the calls of one step: independent read-only calls concurrently, and other calls in the model's order. Also
//! runs the tool itself, at the innermost end of the chain.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentd_context::compaction::plan::CompactionRequest;
use agentd_core::{
    context::CompactionCause,
    event::{EventKind, StateChange},
    ids::ItemId,
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    ports::ToolContext,
    tool::{AdaptedCall, Effect, ToolCall, ToolErrorCode, ToolOutput, ToolResult},
    turn::{Denial, StopReason},
    usage::Usage,
};
use agentd_policy::only_fetches;
use futures_util::{FutureExt as _, StreamExt as _, stream};

use crate::turn::{
    Flow, Phase, TurnContext, TurnExit, TurnState,
    call_record::{CallEntries, CallRecord, DelegatedWork, SideEffects},
    hooks::{Hook, Invocation},
    sampler::SamplingBudget,
};

/// Runs every call that has no result. Calls in flight since before a restart run first and alone, because their
/// subagents may be waiting for the user and no other call may start before the user has answered.
pub(crate) async fn dispatch(context: &TurnContext, state: &mut TurnState) -> Flow {
    context.make_folders().await?;
    let mut calls: Vec<DueCall> = state.pending_calls.iter().map(|written| DueCall::of(context, written)).collect();
    calls.sort_by_key(|due| !context.is_in_flight(&due.call));
    let mut rest = calls.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(concurrent_prefix_len(context, rest));
        run_batch(context, state, batch).await?;
        if context.control.cancel.is_cancelled() {
            return Err(TurnExit::Finished(StopReason::Cancelled));
        }
        rest = later;
    }
    if state.phase == Phase::HandingOff { Err(TurnExit::Handoff) } else { Ok(()) }
}

/// A pending call with its arguments adapted to its tool. From here on, only this form is judged, shown, audited and
/// run.
struct DueCall {
    call: ToolCall,
    /// Note for the model on how the call's arguments were adapted.
    note: Option<String>,
}

impl DueCall {
    fn of(context: &TurnContext, written: &ToolCall) -> Self {
        match context.ports.toolbox.adapt(written) {
            Some(AdaptedCall { arguments, note }) => Self { call: ToolCall { arguments, ..written.clone() }, note },
            None => Self { call: written.clone(), note: None },
        }
    }
}

/// Runs these calls concurrently, stores each result as it arrives, and applies all of them even if some fail.
async fn run_batch(context: &TurnContext, state: &mut TurnState, batch: &[DueCall]) -> Flow {
    let before: &TurnState = state;
    let (step, mut usage) = (before.steps, before.usage);
    let running: Vec<_> = batch.iter().map(|due| run_call(context, due, before).boxed()).collect();
    let mut running = stream::iter(running).buffer_unordered(context.config.parallel_calls.max(1));
    let mut outcomes = Vec::with_capacity(batch.len());
    // All calls run to their end even if one fails, so that no call is dropped without an audit entry.
    loop {
        let calls = &context.control.calls;
        let is_stopped = calls.is_cancelled();
        tokio::select! {
            biased;
            () = context.control.stopwatch.reaches(context.limits.time), if !is_stopped => calls.cancel(),
            ended = running.next() => match ended {
                Some(Ok(ended)) => outcomes.push(store(context, ended, step, &mut usage).await),
                Some(Err(stop)) => outcomes.push(Err(stop)),
                None => break,
            },
        }
    }
    drop(running);
    state.usage = usage;
    let mut stopped = None;
    for outcome in outcomes {
        let apply_result = match outcome {
            Ok(outcome) => apply_outcome(context, state, outcome).await,
            Err(stop) => Err(stop),
        };
        if let Err(stop) = apply_result {
            stopped.get_or_insert(stop);
        }
    }
    stopped.map_or(Ok(()), Err)
}

/// Returns the number of leading calls that may run concurrently: all calls in flight, or otherwise all calls that only
/// read or run in a subagent, or otherwise one.
fn concurrent_prefix_len(context: &TurnContext, calls: &[DueCall]) -> usize {
    let can_overlap = |DueCall { call, .. }: &&DueCall| {
        context.is_delegation(&call.name)
            || context.tool(&call.name).is_some_and(|tool| match tool.effect_of(&call.arguments) {
                Effect::Read => true,
                Effect::Network => only_fetches(&call.arguments),
                Effect::State | Effect::Write | Effect::Execute => false,
            })
    };
    let in_flight = calls.iter().take_while(|due| context.is_in_flight(&due.call)).count();
    if in_flight > 0 { in_flight } else { calls.iter().take_while(can_overlap).count().max(1) }
}

/// A call that has ended.
struct EndedCall<'a> {
    call: &'a ToolCall,
    /// The item of the call's result, if the call was started.
    item: Option<ItemId>,
    output: ToolOutput,
    entries: CallEntries,
    duration_ms: u64,
}

/// Result of a call, its effects on the turn, and true if the call was blocked because the decision could not be
/// logged.
type Outcome = (Arc<Item>, SideEffects, bool);

async fn run_call<'a>(context: &TurnContext, due: &'a DueCall, state: &TurnState) -> Flow<EndedCall<'a>> {
    let DueCall { call, note } = due;
    let started = context.tools.in_flight.get(&call.call_id).map_or_else(OnceLock::new, |known| known.item.into());
    let record = CallRecord::of(call, note.as_deref());
    let invocation = Invocation { context, call, state, started: &started, record: &record };
    let output = if context.is_out_of_time() && started.get().is_none() {
        out_of_time(&started)
    } else {
        match context.tools.chain.around_tool(&invocation).await {
            Err(TurnExit::Finished(StopReason::TimeLimit)) => out_of_time(&started),
            output => output?,
        }
    };
    let duration_ms = record.duration_ms();
    let entries = std::mem::take(&mut *record.entries());
    Ok(EndedCall { call, item: started.get().copied(), output, entries, duration_ms })
}

/// Returns the output of a call that did not run, or got no answer, because the turn's time was over.
fn out_of_time(started: &OnceLock<ItemId>) -> ToolOutput {
    match started.get() {
        Some(_) => ToolOutput::error(ToolErrorCode::Timeout, "the turn's time limit was reached while the call waited"),
        None => ToolOutput::error(ToolErrorCode::NotRun, "the turn's time limit was reached before the call ran"),
    }
}

/// Stores the result of a call together with the usage spent on it.
async fn store(context: &TurnContext, ended: EndedCall<'_>, step: u32, turn: &mut Usage) -> Flow<Outcome> {
    let EndedCall { call, item, output, entries, duration_ms } = ended;
    let CallEntries { log_failed, ran_with, mut effects, .. } = entries;
    let ToolOutput { text, error, files, exit_code, details, state_files, .. } = output;
    // State changes are in the journal before the result. Therefore, a model is never shown a file that a crash has
    // lost, and the next call sees the change.
    let changes_state = !state_files.is_empty();
    for change in state_files {
        context.recorder.change(StateChange::File(change)).await?;
    }
    if changes_state {
        context.recorder.flush().await?;
    }
    let (call_id, name) = (call.call_id.clone(), call.name.clone());
    let (takes_back, found) = (effects.takes_back.take(), std::mem::take(&mut effects.found));
    let (user_text, unchanged) = (effects.user_text.take(), effects.unchanged);
    let pictures = std::mem::take(&mut effects.pictures);
    if !found.is_empty() {
        context.recorder.change(StateChange::Tools { names: context.tools.finder.names() }).await?;
    }
    let result = ToolResult {
        call_id,
        name,
        text,
        error,
        exit_code,
        details,
        files,
        ran_with,
        takes_back,
        found,
        pictures,
        said: user_text,
        unchanged,
        duration_ms,
    };
    let id = match item {
        Some(id) => id,
        None => start_result(context, call, result.ran_with.clone()).await?,
    };
    let status = if error == Some(ToolErrorCode::Cancelled) { ItemStatus::Cut } else { ItemStatus::Done };
    // Usage spent on the call by tools that called the model, by descriptions of pictures, and by subagents. This usage
    // counts toward the turn's limits.
    let mut counted = Vec::new();
    let (own, vision) = (&context.models.model, &context.ports.models.get(Slot::Vision));
    for (usage, slot, model, delegated) in [
        (effects.sampled, context.models.slot, own, false),
        (effects.described, Slot::Vision, vision, false),
        (effects.delegated.usage, context.models.slot, own, true),
    ] {
        if usage != Usage::default() {
            *turn += usage;
            let (model, turn) = (model.info().id.clone(), *turn);
            let (prompt, timing) = (None, None);
            counted.push(EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated, timing });
        }
    }
    let item = context.recorder.complete(id, ItemBody::ToolResult(result), status, None, counted).await?;
    Ok((item, effects, log_failed))
}

async fn apply_outcome(context: &TurnContext, state: &mut TurnState, outcome: Outcome) -> Flow {
    let (item, effects, is_blocked) = outcome;
    if let ItemBody::ToolResult(ToolResult { call_id, name, text, error, .. }) = &item.body
        && (is_blocked || *error == Some(ToolErrorCode::Denied))
    {
        state.note_denial(call_id.clone(), name.clone(), text.clone());
    }
    let SideEffects { todos, compact, changes_agent, delegated, sampled, described, answered, .. } = effects;
    if answered {
        state.rounds.start_over();
    }
    state.note(item);
    state.delegated = state.delegated.saturating_add(sampled.tokens()).saturating_add(described.tokens());
    if changes_agent {
        state.phase = Phase::HandingOff;
        state.agent_changes += 1;
    }
    if let Some(strategy) = compact {
        state.compact = Some(CompactionRequest { cause: CompactionCause::Model, strategy });
    }
    if let Some(todos) = todos {
        state.todos.clone_from(&todos);
        context.recorder.change(StateChange::Todos { todos }).await?;
    }
    // Denials in a subagent count as denials of this turn.
    let DelegatedWork { usage, denials, fails } = delegated;
    state.delegated = state.delegated.saturating_add(usage.tokens());
    for Denial { call_id, tool, reason } in &denials {
        state.note_denial(call_id.clone(), tool.clone(), reason.clone());
    }
    match denials.into_iter().next_back() {
        Some(denial) if fails => Err(TurnExit::Denied(denial)),
        _ => Ok(()),
    }
}

/// Records that the tool starts to run, or that the call has an outcome without having run.
async fn start_result(context: &TurnContext, call: &ToolCall, ran_with: Option<String>) -> Flow<ItemId> {
    let result = ToolResult { ran_with, ..ToolResult::empty(call.call_id.clone(), call.name.clone()) };
    context.recorder.start(ItemBody::ToolResult(result)).await
}

/// Records that a call starts to take effect. The record is stored when this function returns, so that a crash can be
/// reported truthfully.
pub(crate) async fn begin(invocation: &Invocation<'_>) -> Flow {
    let Invocation { context, call, started, record, .. } = invocation;
    if context.control.cancel.is_cancelled() {
        return Err(TurnExit::Finished(StopReason::Cancelled));
    }
    if context.is_out_of_time() {
        return Err(TurnExit::Finished(StopReason::TimeLimit));
    }
    if started.get().is_none() {
        let ran_with = record.entries().ran_with.clone();
        let id = start_result(context, call, ran_with).await?;
        let _ = started.set(id);
    }
    context.recorder.flush().await
}

/// Grace period for a tool to end its processes after a stop, before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs the tool of a call, at the end of a chain.
pub(crate) fn runner<'a>(invocation: &'a Invocation<'a>) -> Hook<'a, ToolOutput> {
    execute(invocation).boxed()
}

/// Runs the tool. The tokens that the tool spent on the turn's model are added to the call's record.
async fn execute(invocation: &Invocation<'_>) -> Flow<ToolOutput> {
    begin(invocation).await?;
    let Invocation { context, call, started, record, .. } = invocation;
    let progress = started.get().map(|id| context.recorder.progress(*id)).unwrap_or_default();
    let budget = SamplingBudget::open(invocation);
    let confinement = record.entries().confinement;
    let closed = Arc::clone(&record.entries().closed);
    let tool_context = ToolContext {
        progress,
        sampler: budget.sampler(&context.models.model),
        confinement,
        closed,
        ..context.tool_context(call)
    };
    let grace_over = async {
        context.control.calls.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    let mut output = tokio::select! {
        biased;
        output = context.ports.toolbox.call(&tool_context, call) => output,
        () = grace_over => ToolOutput::error(ToolErrorCode::Cancelled, "the turn ended while the call ran"),
    };
    let sampled = budget.close().await;
    record.entries().effects.sampled += sampled;
    if output.error == Some(ToolErrorCode::Cancelled) && context.is_out_of_time() {
        output.error = Some(ToolErrorCode::Timeout);
        output.text.push_str("\n[the turn's time limit was reached]");
    }
    Ok(record.with_note(output))
}
