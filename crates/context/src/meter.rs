//! How full the window is: what the server counted last, and what has come since.

use std::collections::BTreeSet;

use agentd_core::{
    context::{PromptReport, TokenLevel},
    event::StateChange,
    item::{Item, ItemBody},
    model::ModelInfo,
    usage::Usage,
};

use crate::{
    footprint::{Fingerprint, Footprint},
    tokens::{self, TokenCalibration},
    windows::CountedRequest,
};

/// Pictures that one request shows at most.
pub const MAX_SHOWN_PICTURES: usize = 20;
/// Pictures that are left out at once, where there are more: each time all behind the first is computed anew.
const LEFT_OUT_AT_ONCE: usize = MAX_SHOWN_PICTURES / 2;

/// Number of the oldest of so many pictures that are not shown any more.
pub fn pictures_left_out(pictures: usize) -> usize {
    pictures.saturating_sub(MAX_SHOWN_PICTURES).div_ceil(LEFT_OUT_AT_ONCE) * LEFT_OUT_AT_ONCE
}
/// Models whose last request is remembered: one for each slot.
const MODELS: usize = 5;

/// Memory of a session's requests, from call to call and from turn to turn.
#[derive(Debug, Clone, Default)]
pub struct ContextMeter {
    /// The last request to each model, the newest last: a server keeps what it computed of its own requests, and knows
    /// nothing of another's.
    before: Vec<(String, Footprint)>,
    /// The last count.
    counted: Option<CountedTokens>,
    /// The last request to each model that was counted, the newest last.
    counts: Vec<(String, CountedRequest)>,
    /// Tokens that came into the history since.
    since: UncountedTokens,
    /// The level that was told last; none where that is not known.
    level: Option<TokenLevel>,
    /// Sizes of requests that a person was warned of, since they become dearer there.
    borders: BTreeSet<u64>,
}

/// The tokens of a request and its answer, as the server counted them, or about as many. They say something of the next
/// request where that goes to the same model, with the same tools.
#[derive(Debug, Clone)]
struct CountedTokens {
    model: String,
    tools: Fingerprint,
    tokens: u64,
}

/// Where the next request goes, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Next<'a> {
    /// Model that is asked.
    pub model: &'a ModelInfo,
    /// Fingerprint of the tools that are shown.
    pub tools: Fingerprint,
}

/// A request that was sent, and what is known of its size.
#[derive(Debug)]
pub struct SentRequest {
    footprint: Footprint,
    /// Parts of its prompt, and how much of them repeats the request before.
    pub report: PromptReport,
    /// Tokens that had come into the history by then.
    since: UncountedTokens,
    /// About how many tokens of it were not in the request before, by the unscaled guess.
    fresh: u64,
}

/// About how many tokens came into the history, by the unscaled guess.
#[derive(Debug, Clone, Copy, Default)]
struct UncountedTokens {
    /// Words, calls and results.
    said: u64,
    /// Thoughts, which only some models get back.
    thought: u64,
}

impl UncountedTokens {
    /// The part of it that stands in the next request to a model.
    fn sent_to(self, model: &ModelInfo) -> u64 {
        if model.echo_reasoning { self.said.saturating_add(self.thought) } else { self.said }
    }

    /// The part that came after that.
    fn after(self, before: Self) -> Self {
        Self { said: self.said.saturating_sub(before.said), thought: self.thought.saturating_sub(before.thought) }
    }
}

impl SentRequest {
    /// Number of tokens that it surely had: as the server counted, or half of the guess.
    pub fn tokens(&self, usage: Usage) -> u64 {
        if usage.prompt_tokens > 0 { usage.prompt_tokens } else { self.report.tokens / 2 }
    }

    /// The request with its count.
    fn counted(&self, usage: Usage) -> CountedRequest {
        let (guess, fixed) = (self.footprint.tokens(), self.footprint.fixed());
        CountedRequest { guess, fresh: self.fresh, beyond_fixed: guess.saturating_sub(fixed), usage }
    }
}

impl ContextMeter {
    /// Of a session without requests, whose window is empty.
    pub fn newborn() -> Self {
        Self { level: Some(TokenLevel::Info), ..Self::default() }
    }

    /// Takes note of an item that came into the history.
    pub fn add(&mut self, item: &Item) {
        let of = if matches!(item.body, ItemBody::Reasoning { .. }) {
            &mut self.since.thought
        } else {
            &mut self.since.said
        };
        *of = of.saturating_add(guess(item, true));
    }

    /// Forgets what was counted: the history is another one now.
    pub fn start_over(&mut self) {
        self.counted = None;
        self.since = UncountedTokens::default();
    }

    /// About how many tokens the next request has. `whole` guesses all of it, where nothing was counted that is like it.
    pub fn expected(&self, scales: &TokenCalibration, next: Next<'_>, whole: impl FnOnce() -> u64) -> u64 {
        let id = next.model.id.as_str();
        match &self.counted {
            Some(counted) if counted.model == id && counted.tools == next.tools => {
                counted.tokens.saturating_add(scales.apply(id, self.since.sent_to(next.model)))
            }
            _ => scales.apply(id, whole()),
        }
    }

    /// Compares a request with the one before it.
    pub fn sending(&self, footprint: Footprint, scales: &TokenCalibration, model: &str) -> SentRequest {
        let before = self.before.iter().find(|(id, _)| id == model).map(|(_, before)| before);
        let mut report = footprint.report(before);
        let fresh = report.tokens.saturating_sub(report.repeated_tokens);
        report.tokens = scales.apply(model, report.tokens);
        report.repeated_tokens = scales.apply(model, report.repeated_tokens);
        SentRequest { footprint, report, since: self.since, fresh }
    }

    /// The same for a request that went without its tools after all.
    pub fn sent_without_tools(&self, sent: SentRequest, scales: &TokenCalibration, model: &str) -> SentRequest {
        let mut footprint = sent.footprint;
        footprint.tools = Fingerprint::default();
        SentRequest { since: sent.since, ..self.sending(footprint, scales, model) }
    }

    /// The window that shows in the server's count, where it has read only a part of the request; see [`CountedRequest::cut`].
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

    /// Takes in what the server counted; it is the truth. Where it counted nothing, the guess has to do. What came into
    /// the history since the request was sent is the answer.
    pub fn answered(&mut self, sent: SentRequest, usage: Usage, scales: &TokenCalibration, model: &ModelInfo) {
        let SentRequest { footprint, report, since, .. } = sent;
        let id = model.id.as_str();
        let answer = self.since.after(since);
        // The embedded model counts what it read to weigh tools and to sum up: that is no part of the conversation.
        self.counted = (!model.embedded).then(|| {
            scales.learn(id, footprint.tokens(), usage.prompt_tokens);
            let request = if usage.prompt_tokens > 0 { usage.prompt_tokens } else { report.tokens };
            let tokens = request.saturating_add(sent_again(answer, usage, scales, model));
            CountedTokens { model: id.to_owned(), tools: footprint.tools, tokens }
        });
        self.since = UncountedTokens::default();
        replace(&mut self.before, id, footprint);
    }

    /// Takes note of the level that was told last, where the session was read from its journal.
    pub fn told(&mut self, level: Option<TokenLevel>) {
        self.level = level;
    }

    /// Returns true the first time that a request comes near this size.
    pub fn comes_near(&mut self, border: u64) -> bool {
        self.borders.insert(border)
    }

    /// Takes in how full the window is, and returns what is to be told where that is another level than was told last.
    pub fn moved(&mut self, tokens: u64, window: u64) -> Option<StateChange> {
        let level = TokenLevel::of(tokens, window);
        let moved = self.level.replace(level) != Some(level);
        moved.then_some(StateChange::TokenLevel { level, tokens, window })
    }
}

/// Puts what is known of a model behind all others, and returns what was known of it before.
fn replace<T>(known: &mut Vec<(String, T)>, model: &str, now: T) -> Option<T> {
    let before = known.iter().position(|(id, _)| id == model).map(|at| known.remove(at).1);
    if known.len() == MODELS {
        known.remove(0);
    }
    known.push((model.to_owned(), now));
    before
}

/// Number of tokens of an answer that stand in the next request: its count, without thoughts that are not sent back.
fn sent_again(answer: UncountedTokens, usage: Usage, scales: &TokenCalibration, model: &ModelInfo) -> u64 {
    let about = scales.apply(&model.id, answer.sent_to(model));
    let Usage { completion_tokens, reasoning_tokens, .. } = usage;
    match completion_tokens {
        0 => about,
        _ if model.echo_reasoning => completion_tokens,
        // Some servers count reasoning beside the answer: what is more than the answer cannot be a part of it.
        _ if reasoning_tokens > completion_tokens => completion_tokens,
        _ if reasoning_tokens > 0 => completion_tokens - reasoning_tokens,
        // Thoughts were counted, and nobody says how many.
        _ if answer.thought > 0 => about.min(completion_tokens),
        _ => completion_tokens,
    }
}

/// About how many tokens an item takes of a request; thoughts only where they are sent back.
pub fn guess(item: &Item, echo_reasoning: bool) -> u64 {
    let texts: [&str; 2] = match &item.body {
        ItemBody::Notice { text, pictures, .. } => {
            // No request shows more of them.
            let shown = pictures.iter().rev().take(MAX_SHOWN_PICTURES);
            let shown = shown.map(|picture| tokens::of_picture(picture.width, picture.height));
            return tokens::estimate(text) + shown.sum::<u64>();
        }
        ItemBody::UserMessage { text, .. } | ItemBody::AgentMessage { text } => [text, ""],
        ItemBody::Reasoning { text } => [if echo_reasoning { text } else { "" }, ""],
        ItemBody::ToolCall(call) => [&call.name, &call.arguments],
        ItemBody::ToolResult(result) => [&result.name, &result.text],
        ItemBody::Compaction(compaction) => [&compaction.summary, ""],
    };
    texts.iter().map(|text| tokens::estimate(text)).sum()
}
