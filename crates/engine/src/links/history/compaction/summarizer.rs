//! The model that sums up: asked behind the conversation itself, so that it sees all of it and its server has computed
//! nearly all of it; where that cannot be, about a transcript. A summary that was cut is none.

use std::sync::Arc;

use agentd_context::{
    compaction::summary::{self, Length},
    tokens::estimate,
};
use agentd_core::{
    context::{CompactionCause, CompactionStrategy, PromptReport},
    error::{ErrorKind, ModelError},
    exchange::ExchangePurpose,
    item::Item,
    model::{Finish, Message, ModelChunk, ModelRequest, Slot},
    ports::Model,
};

use crate::turn::{TurnContext, TurnExit, TurnState, request, sample, stopwatch::CallStream};

/// Bytes of a model's summary that are read: many times what it is asked for.
const MAX_WRITTEN: usize = 100_000;

/// A model's summary, and the id of the model. The error is the model's, and ends nothing.
type WrittenSummary = Result<(String, String), ModelError>;

/// Asks for a summary of what is replaced, an earlier summary included.
pub(super) async fn ask(
    context: &TurnContext,
    state: &mut TurnState,
    (cause, strategy): (CompactionCause, CompactionStrategy),
    earlier: Option<&str>,
    replaced: &[Arc<Item>],
) -> Result<WrittenSummary, TurnExit> {
    let (slot, model) = match &context.models.summary {
        Some((slot, model)) => (*slot, model),
        None => (context.models.slot, &context.models.model),
    };
    if model.info().embedded {
        return Ok(Err(ModelError::new(ErrorKind::Configuration, "the built-in model is too small for that")));
    }
    if context.models.summary.is_none()
        && cause != CompactionCause::Overflow
        && let Some((request, report)) = behind_conversation(context, state, strategy)
    {
        let written = written(context, state, (slot, &**model), request, Some(report)).await?;
        // A model that calls tools though it must not, or has no room behind all of it, may do better without both.
        let again = written
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::ContextOverflow) || error.to_string() == NO_WORDS);
        if !again {
            return Ok(written);
        }
    }
    let window = context.models.windows.of(model.info());
    let (prompt, now) = (&context.config.compact_prompt, context.ports.clock.now());
    match summary::request(context.ids.session, prompt, earlier, replaced, strategy, window, now) {
        Some(request) => written(context, state, (slot, &**model), request, None).await,
        None => {
            Ok(Err(ModelError::new(ErrorKind::ContextOverflow, "its window has no room for what is to be summed up")))
        }
    }
}

/// The conversation as the next request would have it, and one more input behind it. None where the window has no room for
/// the answer.
fn behind_conversation(
    context: &TurnContext,
    state: &TurnState,
    strategy: CompactionStrategy,
) -> Option<(ModelRequest, PromptReport)> {
    let (model, window) = (&context.models.model, context.window());
    let length = Length::of(strategy, window);
    let input = summary::input(&context.config.compact_prompt, length);
    let expected = request::expected(context, state, model.info());
    if expected.saturating_add(estimate(&input)).saturating_add(length.tokens()) > window {
        return None;
    }
    let mut draft = request::assemble(context, state, context.tools.finds.tools());
    draft.may_call = false;
    context.tools.chain.before_model(context, state, &mut draft);
    draft.messages.push(Message::User { text: input });
    let (request, footprint) = draft.seal(context.ids.session);
    let report = state.meter.sending(footprint, &context.models.scales, &model.info().id).report;
    Some((request, report))
}

/// Said of an answer without words.
const NO_WORDS: &str = "it had no words for it";

async fn written(
    context: &TurnContext,
    state: &mut TurnState,
    (slot, model): (Slot, &dyn Model),
    request: ModelRequest,
    prompt: Option<PromptReport>,
) -> Result<WrittenSummary, TurnExit> {
    let info = model.info();
    let tap = context.tap(state.steps, ExchangePurpose::Summary);
    let mut chunks = CallStream::open(model, ModelRequest { tap, ..request });
    let (mut text, mut calls) = (String::new(), false);
    let end = loop {
        if text.len() > MAX_WRITTEN {
            break Err(ModelError::new(ErrorKind::Protocol, "it wrote without end"));
        }
        match context.or_cancelled(chunks.next()).await {
            Ok(Ok(ModelChunk::Text(more))) => text.push_str(&more),
            Ok(Ok(ModelChunk::WasReasoning | ModelChunk::Discarded)) => text.clear(),
            Ok(Ok(ModelChunk::End(finish))) => break whole(finish),
            Ok(Ok(ModelChunk::ToolCall { .. } | ModelChunk::UnrunCall { .. })) => calls = true,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break Err(error),
            Err(exit) => {
                sample::count(context, state, slot, info, chunks.close(true), None).await?;
                return Err(exit);
            }
        }
    };
    let cost = chunks.close(end.is_ok() || !text.is_empty());
    sample::count(context, state, slot, info, cost, prompt).await?;
    // Words beside a call are about the call.
    let has_words = !calls && !text.trim().is_empty();
    let no_words = || ModelError::new(ErrorKind::Protocol, NO_WORDS);
    let end = end.and_then(|()| has_words.then(|| (text, info.id.clone())).ok_or_else(no_words));
    if let Err(error) = &end
        && context.models.summary.is_none()
    {
        // What was to be summed up is a part of it.
        sample::learn(context, model, request::expected(context, state, info), error).await?;
    }
    Ok(end)
}

/// A part of a summary would stand for what it does not name.
fn whole(finish: Finish) -> Result<(), ModelError> {
    let why = match finish {
        Finish::Stop => return Ok(()),
        Finish::Length => "it was longer than the model may write",
        Finish::Filtered => "the provider withheld the rest",
        Finish::Runaway => "it repeated itself without end",
    };
    Err(ModelError::new(ErrorKind::Protocol, format!("its summary was cut: {why}")))
}
