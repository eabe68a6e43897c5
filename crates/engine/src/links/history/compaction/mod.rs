//! Compacts the history before the window is full: when it is nearly full, when there are too many messages, or at the
//! request of the model or the user.

mod files;
mod run;

use agentd_context::compaction::plan::{self, CompactionRequest, limit};
use agentd_core::{
    context::{CompactionCause, CompactionStrategy, TokenLevel},
    item::NoticeTopic,
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::turn::{
    Flow, Phase, TurnContext, TurnState,
    hooks::{Hook, Invocation, Link, Next, Reminder, done},
    request,
};

/// Tool with which a model requests a compaction. The tool is part of every request, although it has an effect only
/// once a reminder announces it. Tools come first in a request: adding one when the window fills up would invalidate
/// the server's prompt cache just when it is largest.
const COMPACT_TOOL: &str = "compact_context";

pub(crate) struct Compaction;

/// Replaces the older part of this conversation with a summary, to free context. The original stays readable in
/// /conversation_history/. Call it when a notice says so, between two tasks, not in the middle of one.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// compact keeps technical details, summarize is shorter, auto decides.
    #[schemars(with = "String", extend("enum" = ["auto", "compact", "summarize"]))]
    strategy: CompactionStrategy,
}

impl Link for Compaction {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(COMPACT_TOOL, Effect::State)]
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        match due(context, state) {
            Some(wanted) => make_room(context, state, wanted).boxed(),
            None => done(()),
        }
    }

    fn on_finish<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // Compacts now, after the answer: at the start of the next turn, the user would have to wait for the
        // compaction.
        if plan::count_answers(&state.history) > limit(max_messages(context), state.visible_at_undo)
            && !state.only_compacts()
        {
            let wanted = CompactionRequest { cause: CompactionCause::Limit, strategy: CompactionStrategy::Truncate };
            make_room(context, state, wanted).boxed()
        } else {
            done(())
        }
    }

    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let window = context.next_window(state);
        let tokens = request::expected(context, state, context.next_model(state));
        (TokenLevel::of(tokens, window) >= TokenLevel::Warning).then(|| {
            // A user who undid a compaction wants to keep the whole history. The final request allows no calls.
            let may_ask = state.visible_at_undo == 0 && state.phase != Phase::Finalizing;
            let call = if may_ask { format!(" Call {COMPACT_TOOL} when a task is done.") } else { String::new() };
            // The text has no exact number, since a number would change before each request.
            let text = format!(
                "More than 75 % of the context window is used. Be brief; do not read what you do not need.{call}"
            );
            Reminder::new(NoticeTopic::Level, text)
        })
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name != COMPACT_TOOL {
            return next.run(call);
        }
        let arguments = if call.call.arguments.trim().is_empty() { "{}" } else { &call.call.arguments };
        let output = match (serde_json::from_str::<Arguments>(arguments), refusal(call)) {
            (Ok(Arguments { strategy }), None) => {
                call.record.entries().effects.compact = Some(strategy);
                ToolOutput::ok("the older part of the history is compacted before your next message")
            }
            (Ok(_), Some(why)) => ToolOutput::ok(format!("nothing is compacted: {why}")),
            (Err(error), _) => ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was compacted: {error}")),
        };
        done(output)
    }
}

/// Returns the reason why a call to the tool has no effect, if there is one.
fn refusal(call: &Invocation<'_>) -> Option<String> {
    let state = call.state;
    if state.compact.is_some() {
        return Some("already requested; it is done before your next message".to_owned());
    }
    let steps_since = state.compacted_at.map(|step| state.steps - step);
    if let Some(steps) = steps_since.filter(|steps| *steps < PAUSE_STEPS) {
        return Some(format!("the history was compacted {steps} answers ago; continue the work"));
    }
    let window = call.context.window();
    let expected = request::expected(call.context, state, call.context.models.model.info());
    if TokenLevel::of(expected, window) < TokenLevel::Warning {
        return Some("there is enough room; a notice says when to compact".to_owned());
    }
    if state.visible_at_undo > 0 && expected <= window {
        return Some("the user undid the last compaction, to keep the whole history in view while it fits".to_owned());
    }
    run::refusal(call.context, state)
}

/// Returns the maximum number of messages in the history.
fn max_messages(context: &TurnContext) -> usize {
    plan::message_limit(context.config.max_message_history)
}

/// Number of steps after a compaction in which no model writes another summary.
const PAUSE_STEPS: u32 = 3;

/// Returns the compaction that is due now, if any. There is always a model call between two compactions, because
/// another compaction does not help if the window is full again at once.
fn due(context: &TurnContext, state: &mut TurnState) -> Option<CompactionRequest> {
    if !state.pending_calls.is_empty() || state.answer.is_some() {
        return None;
    }
    if let Some(wanted) = state.compact.take() {
        return Some(wanted);
    }
    if state.steps == 0 && plan::count_before_turn(&state.history) > limit(max_messages(context), state.visible_at_undo)
    {
        return Some(CompactionRequest { cause: CompactionCause::Limit, strategy: CompactionStrategy::Auto });
    }
    let (expected, window) = (request::expected(context, state, context.next_model(state)), context.next_window(state));
    let is_full = match state.visible_at_undo {
        0 => plan::is_relief_due(expected, window),
        _ => expected > window,
    };
    let steps_since = state.compacted_at.map(|step| state.steps - step);
    if !is_full || steps_since == Some(0) || state.offloaded_at == Some(state.steps) {
        return None;
    }
    let is_recent = steps_since.is_some_and(|steps| steps < PAUSE_STEPS);
    let strategy = if is_recent { CompactionStrategy::Truncate } else { CompactionStrategy::Auto };
    Some(CompactionRequest { cause: CompactionCause::Critical, strategy })
}

async fn make_room(context: &TurnContext, state: &mut TurnState, wanted: CompactionRequest) -> Flow {
    let is_automatic = !matches!(wanted.cause, CompactionCause::Model | CompactionCause::Person);
    let was_undone = is_automatic && state.visible_at_undo > 0;
    let is_full = matches!(wanted.cause, CompactionCause::Critical | CompactionCause::Overflow);
    if is_full && wanted.strategy == CompactionStrategy::Auto && run::offload(context, state, wanted.cause).await? {
        // If offloading does not free space for long, a model summarises next.
        state.offloaded_at = Some(state.steps);
        return Ok(());
    }
    let outcome = run::run(context, state, wanted).await?;
    if was_undone && state.visible_at_undo == 0 {
        let message = "the history was compacted again after an undone compaction: it no longer fits";
        context.recorder.warn("compacted_again", message).await?;
    }
    state.compacted_at = Some(state.steps);
    if state.only_compacts() {
        state.answer = Some(outcome);
    }
    Ok(())
}
