//! Makes room before the window is full: when it is nearly, when the history has too many messages, when the model or a
//! person asks for it.

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
    Phase, TurnContext, TurnExit, TurnState,
    hooks::{Hook, Invocation, Link, Next, Reminder, done},
    request,
};

/// The tool by which a model asks for it. It is named in every request, though it does something only from the warning on,
/// of which the model is told at the end of the request: tools stand in front, and one that came when the window fills
/// would make the server compute all of it anew, just when it is longest.
const TOOL: &str = "compact_context";

pub(crate) struct Compaction;

/// Replaces the older part of this conversation with a summary, to free context. The original stays readable in
/// /conversation_history/. A notice says when it is time: call it then, between two tasks, not in the middle of one.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// compact keeps technical detail, summarize is short, auto decides.
    #[schemars(with = "String", extend("enum" = ["auto", "compact", "summarize"]))]
    strategy: CompactionStrategy,
}

impl Link for Compaction {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(TOOL, Effect::State)]
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        match due(context, state) {
            Some(wanted) => make_room(context, state, wanted).boxed(),
            None => done(()),
        }
    }

    fn on_finish<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // The answer is there: what is done now keeps nobody waiting, as it would at the start of the next turn.
        if plan::count_answers(&state.history) > limit(most_messages(context), state.held) && !state.only_compacts() {
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
            // Whoever took a compaction back wants all of it to be seen. In the last request nothing can be called.
            let may_ask = state.held == 0 && state.phase != Phase::Finalizing;
            let call = if may_ask { format!(" Call {TOOL} when a piece of work is done.") } else { String::new() };
            // Without a number, which would be another before each request.
            let text = format!(
                "More than 75 % of the context window is taken. Be brief; do not read what you do not need.{call}"
            );
            Reminder::new(NoticeTopic::Level, text)
        })
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name != TOOL {
            return next.run(call);
        }
        let arguments = if call.call.arguments.trim().is_empty() { "{}" } else { &call.call.arguments };
        let output = match serde_json::from_str::<Arguments>(arguments) {
            Ok(Arguments { strategy }) => match refusal(call) {
                None => {
                    call.record.entries().effects.compact = Some(strategy);
                    ToolOutput::ok("the older part of the history is compacted before your next words")
                }
                Some(why) => ToolOutput::ok(format!("nothing is compacted: {why}")),
            },
            Err(error) => ToolOutput::error(ToolErrorCode::InvalidArgs, format!("nothing was compacted: {error}")),
        };
        done(output)
    }
}

/// Why a call of the tool comes to nothing, where it does.
fn refusal(call: &Invocation<'_>) -> Option<String> {
    let state = call.state;
    if state.compact.is_some() {
        return Some("it is asked for already, and done before your next words".to_owned());
    }
    let steps_since = state.compacted_at.map(|step| state.steps - step);
    if let Some(steps) = steps_since.filter(|steps| *steps < PAUSE) {
        return Some(format!("the history was compacted {steps} answers ago; continue the work"));
    }
    let window = call.context.window();
    let expected = request::expected(call.context, state, call.context.models.model.info());
    if TokenLevel::of(expected, window) < TokenLevel::Warning {
        return Some("there is enough room; a notice says when it is time".to_owned());
    }
    if state.held > 0 && expected <= window {
        return Some("a person undid the last compaction, to keep the whole history in view while it fits".to_owned());
    }
    run::refusal(call.context, state)
}

/// The messages that a history may have.
fn most_messages(context: &TurnContext) -> usize {
    plan::most_messages(context.config.max_message_history)
}

/// Steps after a compaction in which no model is asked for another one.
const PAUSE: u32 = 3;

/// Returns whether to make room now. Between two compactions a model has always been asked for something else: a window
/// that is full again at once cannot be helped so.
fn due(context: &TurnContext, state: &mut TurnState) -> Option<CompactionRequest> {
    if !state.pending_calls.is_empty() || state.answer.is_some() {
        return None;
    }
    if let Some(wanted) = state.compact.take() {
        return Some(wanted);
    }
    let auto = |cause| CompactionRequest { cause, strategy: CompactionStrategy::Auto };
    if state.steps == 0 && plan::count_before_turn(&state.history) > limit(most_messages(context), state.held) {
        return Some(auto(CompactionCause::Limit));
    }
    let (expected, window) = (request::expected(context, state, context.next_model(state)), context.next_window(state));
    let is_full = match state.held {
        0 => plan::is_relief_due(expected, window),
        _ => expected > window,
    };
    let steps_since = state.compacted_at.map(|step| state.steps - step);
    if !is_full || steps_since == Some(0) || state.offloaded_at == Some(state.steps) {
        return None;
    }
    let mut wanted = auto(CompactionCause::Critical);
    if steps_since.is_some_and(|steps| steps < PAUSE) {
        wanted.strategy = CompactionStrategy::Truncate;
    }
    Some(wanted)
}

async fn make_room(context: &TurnContext, state: &mut TurnState, wanted: CompactionRequest) -> Result<(), TurnExit> {
    let by_itself = !matches!(wanted.cause, CompactionCause::Model | CompactionCause::Person);
    let was_held = by_itself && state.held > 0;
    let is_full = matches!(wanted.cause, CompactionCause::Critical | CompactionCause::Overflow);
    if is_full && wanted.strategy == CompactionStrategy::Auto && run::offload(context, state, wanted.cause).await? {
        // Where that was not enough for long, a model sums up next.
        state.offloaded_at = Some(state.steps);
        return Ok(());
    }
    let said = run::run(context, state, wanted).await?;
    if was_held && state.held == 0 {
        let message = "the history was compacted again, though that had been taken back: all of it no longer fits";
        context.recorder.warn("compacted_again", message).await?;
    }
    state.compacted_at = Some(state.steps);
    if state.only_compacts() {
        state.answer = Some(said);
    }
    Ok(())
}
