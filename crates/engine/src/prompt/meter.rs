//! How full the window is: what the server counted last, and what has come since.

use agentd_core::{
    context::{PromptReport, TokenLevel},
    item::{Item, ItemBody},
    usage::Usage,
};

use super::{
    footprint::{Footprint, Print},
    tokens,
    tokens::Scales,
};

/// What a session remembers of its requests, from call to call and from turn to turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// The last request.
    before: Option<Footprint>,
    /// The tokens of the last request and its answer, as the server counted them, or about as many.
    counted: Option<u64>,
    /// About how many tokens came into the history since, by the unscaled guess.
    since: u64,
    /// The level that was told last.
    level: TokenLevel,
}

/// A request that was sent, and what is known of its size.
#[derive(Debug)]
pub(crate) struct Sent {
    footprint: Footprint,
    pub(crate) report: PromptReport,
}

impl Meter {
    /// Takes note of an item that came into the history.
    pub(crate) fn add(&mut self, item: &Item) {
        self.since = self.since.saturating_add(guess(item));
    }

    /// Forgets what was counted: the history is another one now.
    pub(crate) fn start_over(&mut self) {
        self.counted = None;
        self.since = 0;
    }

    /// About how many tokens the next request has. `whole` guesses all of it, where nothing was counted yet.
    pub(crate) fn expected(&self, scales: &Scales, model: &str, whole: impl FnOnce() -> u64) -> u64 {
        match self.counted {
            Some(counted) => counted.saturating_add(scales.apply(model, self.since)),
            None => scales.apply(model, whole()),
        }
    }

    /// Compares a request with the one before it.
    pub(crate) fn sending(&self, footprint: Footprint, scales: &Scales, model: &str) -> Sent {
        let mut report = footprint.report(self.before.as_ref());
        report.tokens = scales.apply(model, report.tokens);
        report.repeated_tokens = scales.apply(model, report.repeated_tokens);
        Sent { footprint, report }
    }

    /// Takes in what the server counted; it is the truth. Where it counted nothing, the guess has to do.
    pub(crate) fn answered(&mut self, sent: Sent, usage: Usage, answer: &[&str], scales: &Scales, model: &str) {
        scales.learn(model, sent.footprint.tokens(), usage.prompt_tokens);
        let request = if usage.prompt_tokens > 0 { usage.prompt_tokens } else { sent.report.tokens };
        let said = if usage.completion_tokens > 0 {
            usage.completion_tokens
        } else {
            scales.apply(model, answer.iter().map(|text| tokens::estimate(text)).sum())
        };
        self.counted = Some(request.saturating_add(said));
        self.since = 0;
        self.before = Some(sent.footprint);
    }

    /// The tokens of the last request and its answer.
    pub(crate) fn counted(&self) -> Option<u64> {
        self.counted
    }

    /// What was said at the end of the last request only.
    pub(crate) fn reminders(&self) -> Print {
        self.before.as_ref().map(Footprint::end).unwrap_or_default()
    }

    /// The level that was told last.
    pub(crate) fn level(&self) -> TokenLevel {
        self.level
    }

    /// Takes in how full the window is, and says whether that is another level than was told last.
    pub(crate) fn moved_to(&mut self, level: TokenLevel) -> bool {
        std::mem::replace(&mut self.level, level) != level
    }
}

/// About how many tokens an item takes of a request.
pub(crate) fn guess(item: &Item) -> u64 {
    let texts: [&str; 2] = match &item.body {
        ItemBody::UserMessage { text, .. } | ItemBody::AgentMessage { text } | ItemBody::Notice { text, .. } => {
            [text, ""]
        }
        // Not all providers want it back; those that do not have room left over.
        ItemBody::Reasoning { text } => [text, ""],
        ItemBody::ToolCall(call) => [&call.name, &call.arguments],
        ItemBody::ToolResult(result) => [&result.name, &result.text],
        ItemBody::Compaction(compaction) => [&compaction.summary, ""],
    };
    texts.iter().map(|text| tokens::estimate(text)).sum()
}
