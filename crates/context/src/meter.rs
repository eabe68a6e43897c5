//! Measures how full the window is, using the server's last count and an estimate of the content added since.

use std::collections::BTreeSet;

use agentd_core::{
    context::{PromptReport, TokenLevel},
    event::StateChange,
    item::{Item, ItemBody},
    model::ModelInfo,
    tool::ToolResult,
    usage::Usage,
};

use crate::{
    footprint::{Fingerprint, Footprint},
    tokens::{self, TokenCalibration},
    windows::CountedRequest,
};

/// Maximum number of pictures in one request.
pub const MAX_SHOWN_PICTURES: usize = 20;
/// Number of pictures omitted at a time. Pictures are omitted in batches, because omitting a picture makes the server
/// recompute everything after it.
const PICTURE_BATCH: usize = MAX_SHOWN_PICTURES / 2;

/// Returns how many of `pictures` pictures are omitted, oldest first.
pub fn pictures_left_out(pictures: usize) -> usize {
    pictures.saturating_sub(MAX_SHOWN_PICTURES).div_ceil(PICTURE_BATCH) * PICTURE_BATCH
}
/// Number of models whose last request is remembered: one per slot.
const MODELS: usize = 5;

/// Measurements of a session's requests, across calls and turns.
#[derive(Debug, Clone, Default)]
pub struct ContextMeter {
    /// Last request to each model, newest last. A server only caches its own requests.
    before: Vec<(String, Footprint)>,
    /// Token count of the last request.
    counted: Option<CountedTokens>,
    /// Last counted request to each model, newest last.
    counts: Vec<(String, CountedRequest)>,
    /// Tokens added to the history since the last counted request.
    since: UncountedTokens,
    /// Level that was reported last. `None` if unknown.
    level: Option<TokenLevel>,
    /// Request sizes for which the user was already warned about higher costs.
    reported_thresholds: BTreeSet<u64>,
}

/// Tokens of a request and its answer, as counted by the server or estimated. Used to predict the size of the next
/// request to the same model with the same tools.
#[derive(Debug, Clone)]
struct CountedTokens {
    model: String,
    tools: Fingerprint,
    tokens: u64,
}

/// Model and tools of the next request.
#[derive(Debug, Clone, Copy)]
pub struct NextRequest<'a> {
    /// Model that is called.
    pub model: &'a ModelInfo,
    /// Fingerprint of the tools in the request.
    pub tools: Fingerprint,
}

/// Request that was sent, with its known or estimated size.
#[derive(Debug)]
pub struct SentRequest {
    footprint: Footprint,
    /// Report on the prompt, including the part that repeats the previous request.
    pub report: PromptReport,
    /// Tokens that had been added to the history when the request was sent.
    since: UncountedTokens,
    /// Estimated tokens that were not in the previous request, before calibration.
    fresh: u64,
}

/// Estimated tokens added to the history, before calibration.
#[derive(Debug, Clone, Copy, Default)]
struct UncountedTokens {
    /// Messages, calls and results.
    content: u64,
    /// Reasoning, which is only sent back to some models.
    reasoning: u64,
}

impl UncountedTokens {
    /// Returns the tokens that are included in the next request to a model.
    fn sent_to(self, model: &ModelInfo) -> u64 {
        if model.echo_reasoning { self.content.saturating_add(self.reasoning) } else { self.content }
    }

    /// Returns the tokens that were added after `before`.
    fn after(self, before: Self) -> Self {
        Self {
            content: self.content.saturating_sub(before.content),
            reasoning: self.reasoning.saturating_sub(before.reasoning),
        }
    }
}

impl SentRequest {
    /// Returns the minimum number of tokens of the request: the server's count, or half of the estimate.
    pub fn tokens(&self, usage: Usage) -> u64 {
        if usage.prompt_tokens > 0 { usage.prompt_tokens } else { self.report.tokens / 2 }
    }

    /// Combines the request with the server's count.
    fn counted(&self, usage: Usage) -> CountedRequest {
        let (guess, fixed_tokens) = (self.footprint.tokens(), self.footprint.fixed_tokens());
        CountedRequest { guess, fresh: self.fresh, beyond_fixed: guess.saturating_sub(fixed_tokens), usage }
    }
}

impl ContextMeter {
    /// Creates the meter of a new session with an empty window.
    pub fn new_session() -> Self {
        Self { level: Some(TokenLevel::Info), ..Self::default() }
    }

    /// Adds an item of the history to the estimate.
    pub fn add(&mut self, item: &Item) {
        let counter = if matches!(item.body, ItemBody::Reasoning { .. }) {
            &mut self.since.reasoning
        } else {
            &mut self.since.content
        };
        *counter = counter.saturating_add(guess(item, true));
    }

    /// Discards the counts, because the history was replaced.
    pub fn start_over(&mut self) {
        self.counted = None;
        self.since = UncountedTokens::default();
    }

    /// Estimates the tokens of the next request. Calls `whole` for a complete estimate if no similar request was
    /// counted.
    pub fn expected(&self, calibration: &TokenCalibration, next: NextRequest<'_>, whole: impl FnOnce() -> u64) -> u64 {
        let id = next.model.id.as_str();
        match &self.counted {
            Some(counted) if counted.model == id && counted.tools == next.tools => {
                counted.tokens.saturating_add(calibration.apply(id, self.since.sent_to(next.model)))
            }
            _ => calibration.apply(id, whole()),
        }
    }

    /// Compares a request with the previous one to the same model.
    pub fn sending(&self, footprint: Footprint, calibration: &TokenCalibration, model: &str) -> SentRequest {
        let before = self.before.iter().find(|(id, _)| id == model).map(|(_, before)| before);
        let mut report = footprint.report(before);
        let fresh = report.tokens.saturating_sub(report.repeated_tokens);
        report.tokens = calibration.apply(model, report.tokens);
        report.repeated_tokens = calibration.apply(model, report.repeated_tokens);
        SentRequest { footprint, report, since: self.since, fresh }
    }

    /// Corrects the measurements of a request that was sent without its tools.
    pub fn without_tools(&self, sent: SentRequest, calibration: &TokenCalibration, model: &str) -> SentRequest {
        let mut footprint = sent.footprint;
        footprint.tools = Fingerprint::default();
        SentRequest { since: sent.since, ..self.sending(footprint, calibration, model) }
    }

    /// Returns the window size that the server's count reveals if the server has read only a part of the request. See
    /// [`CountedRequest::cut`].
    pub fn cut(
        &mut self,
        sent: &SentRequest,
        usage: Usage,
        model: &ModelInfo,
        largest: u64,
        least: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let counted = sent.counted(usage);
        let before = replace(&mut self.counts, &model.id, counted);
        counted.cut(before.as_ref(), model, largest, least)
    }

    /// Records the server's count, or the estimate if there is no count. The count is authoritative. Items added since
    /// the request was sent belong to the answer.
    pub fn answered(&mut self, sent: SentRequest, usage: Usage, calibration: &TokenCalibration, model: &ModelInfo) {
        let SentRequest { footprint, report, since, .. } = sent;
        let id = model.id.as_str();
        let answer = self.since.after(since);
        // The embedded model's count includes text that it reads for ranking tools and summarising, which is not part
        // of the conversation.
        self.counted = (!model.embedded).then(|| {
            calibration.learn(id, footprint.tokens(), usage.prompt_tokens);
            let request = if usage.prompt_tokens > 0 { usage.prompt_tokens } else { report.tokens };
            let tokens = request.saturating_add(sent_again(answer, usage, calibration, model));
            CountedTokens { model: id.to_owned(), tools: footprint.tools, tokens }
        });
        self.since = UncountedTokens::default();
        replace(&mut self.before, id, footprint);
    }

    /// Restores the level that was reported last. Called after a session is loaded.
    pub fn restore_level(&mut self, level: Option<TokenLevel>) {
        self.level = level;
    }

    /// Returns true if this is the first time that a request approaches this size.
    pub fn note_threshold(&mut self, threshold: u64) -> bool {
        self.reported_thresholds.insert(threshold)
    }

    /// Updates the fill level. Returns the change to report if the level differs from the last reported one.
    pub fn moved(&mut self, tokens: u64, window: u64) -> Option<StateChange> {
        let level = TokenLevel::of(tokens, window);
        let moved = self.level.replace(level) != Some(level);
        moved.then_some(StateChange::TokenLevel { level, tokens, window })
    }
}

/// Stores a model's entry as the newest, and returns the model's previous entry.
fn replace<T>(entries: &mut Vec<(String, T)>, model: &str, now: T) -> Option<T> {
    let before = entries.iter().position(|(id, _)| id == model).map(|at| entries.remove(at).1);
    if entries.len() == MODELS {
        entries.remove(0);
    }
    entries.push((model.to_owned(), now));
    before
}

/// Returns the tokens of an answer that are included in the next request: the answer's count without reasoning that is
/// not sent back.
fn sent_again(answer: UncountedTokens, usage: Usage, calibration: &TokenCalibration, model: &ModelInfo) -> u64 {
    let estimate = calibration.apply(&model.id, answer.sent_to(model));
    let Usage { completion_tokens, reasoning_tokens, .. } = usage;
    match completion_tokens {
        0 => estimate,
        _ if model.echo_reasoning => completion_tokens,
        // Some servers count reasoning separately. If there is more reasoning than answer, the reasoning cannot be
        // included in the answer's count.
        _ if reasoning_tokens > completion_tokens => completion_tokens,
        _ if reasoning_tokens > 0 => completion_tokens - reasoning_tokens,
        // Reasoning was counted, but its share of the count is unknown.
        _ if answer.reasoning > 0 => estimate.min(completion_tokens),
        _ => completion_tokens,
    }
}

/// Returns the estimated tokens of an item in a request. Includes reasoning only if it is sent back.
pub fn guess(item: &Item, echo_reasoning: bool) -> u64 {
    let pictures = match &item.body {
        ItemBody::Notice { pictures, .. } | ItemBody::ToolResult(ToolResult { pictures, .. }) => pictures.as_slice(),
        _ => &[],
    };
    // A request contains at most this number of pictures.
    let shown = pictures.iter().rev().take(MAX_SHOWN_PICTURES);
    let shown: u64 = shown.map(|picture| tokens::of_picture(picture.width, picture.height)).sum();
    let texts: [&str; 2] = match &item.body {
        ItemBody::UserMessage { text, .. } | ItemBody::AgentMessage { text } | ItemBody::Notice { text, .. } => {
            [text, ""]
        }
        ItemBody::Reasoning { text } => [if echo_reasoning { text } else { "" }, ""],
        ItemBody::ToolCall(call) => [&call.name, &call.arguments],
        ItemBody::ToolResult(result) => [&result.name, &result.text],
        ItemBody::Compaction(compaction) => [&compaction.summary, ""],
    };
    shown + texts.iter().map(|text| tokens::estimate(text)).sum::<u64>()
}
