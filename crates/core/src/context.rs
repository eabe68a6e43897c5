//! The context: what a model sees of a session, how full its window is, and what was done to make room.

use serde::{Deserialize, Serialize};

use crate::ids::ItemId;

/// Which part of a session's history a model sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The number of an event: no model sees the items that were completed up to there. 0 where it sees all.
    pub after: u64,
    /// The number of the event that completed the [`Compaction`] whose summary stands in front of the rest; 0 where none
    /// does.
    pub summary: u64,
    /// The messages that were seen when a compaction was taken back; 0 where none was. The history is not compacted by
    /// itself then until it no longer fits, or has really grown: whoever takes one back wants to see all of it.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub held: u64,
}

/// A prefix of the history, replaced by a summary. Nothing is removed from the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Stand-in for the prefix.
    pub summary: String,
    /// The number of the last event that it replaces.
    #[serde(default)]
    pub through: u64,
    /// The window as it was before, so that this can be undone.
    #[serde(default)]
    pub before: Window,
    /// Report of what was done, for people.
    #[serde(default)]
    pub report: CompactionReport,
    /// The file that holds what this and those before it replaced.
    #[serde(default, flatten)]
    pub file: HistoryFile,
    /// Results of calls that stay in their place, each as a line that names the file which holds it. Such a compaction has no
    /// summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offloaded: Vec<OffloadedResult>,
    /// The compaction whose offloaded results are seen again, where this one takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<ItemId>,
}

/// A result of a call that was moved to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadedResult {
    /// The item of the result.
    pub item: ItemId,
    /// The file under which tools find all of it.
    pub path: String,
}

/// The file that holds what compactions replaced, as one of them left it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFile {
    /// Its name; empty in older journals, where [`CompactionReport::path`] ends with it.
    #[serde(default, rename = "kept_in", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The bytes of it that are known. What stands behind them was left there by a compaction that came to no end, or was
    /// taken back. None where that is not known.
    #[serde(default, rename = "kept_bytes", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The number of the last event that the file holds, where it could not be written: what was replaced since is missing
    /// in it. None where it holds all.
    #[serde(default, rename = "kept_missing_after", skip_serializing_if = "Option::is_none")]
    pub missing_after: Option<u64>,
}

/// Report on what a compaction kept and dropped.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionReport {
    /// Why it was done.
    pub cause: CompactionCause,
    /// Way in which the summary was written.
    pub strategy: CompactionStrategy,
    /// The messages that the model saw before.
    pub messages_before: u32,
    /// The messages that it sees now, the summary included.
    pub messages_after: u32,
    /// About how many tokens the history took before.
    pub tokens_before: u64,
    /// About how many it takes now.
    pub tokens_after: u64,
    /// The part of the window that the next request would have taken, in percent; 0 where that is not known.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub percent_before: u64,
    /// Number of results that were moved to files.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub offloaded: u32,
    /// The person's messages that are kept verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// Where tools find what was replaced.
    pub path: Option<String>,
    /// The model that wrote the summary; none where it was put together without one.
    pub model: Option<String>,
    /// The failure, where the summary is less than was asked for.
    pub problem: Option<String>,
}

/// Why a history was compacted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The window was about to be full.
    #[default]
    Critical,
    /// The server said that the request did not fit.
    Overflow,
    /// There were more messages than the history may have.
    Limit,
    /// The model asked for it.
    Model,
    /// A person asked for it.
    Person,
}

/// Way in which a summary is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStrategy {
    /// In detail, or short where the window is too small for that.
    #[default]
    Auto,
    /// In detail: seven parts, with paths, commands and results.
    Compact,
    /// Short: only what is needed to go on.
    Summarize,
    /// Without a model: what is known for certain.
    Truncate,
    /// Nothing is replaced but old results of calls, which are moved to files.
    Offload,
}

names! {
    /// Fill level of a window.
    #[derive(Default, PartialOrd, Ord)]
    pub enum TokenLevel {
        /// Below three quarters.
        #[default]
        Info = "info",
        /// From three quarters on.
        Warning = "warning",
        /// From 95 percent on: the history is compacted before the next call.
        Critical = "critical",
    }
}

impl TokenLevel {
    /// The level of so many tokens in a window of that size.
    pub fn of(tokens: u64, window: u64) -> Self {
        let percent = u128::from(tokens) * 100;
        let window = u128::from(window.max(1));
        if percent >= 95 * window {
            Self::Critical
        } else if percent >= 75 * window {
            Self::Warning
        } else {
            Self::Info
        }
    }
}

/// The part of a request that repeats the one before it, which a server with a cache does not compute again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptReport {
    /// The size of the request's instructions, tools and messages, in bytes.
    pub bytes: u64,
    /// Number of them, from the first on, that equal the previous request to the same model.
    pub repeated_bytes: u64,
    /// The size of that request, in bytes; 0 where none is known.
    pub previous_bytes: u64,
    /// About how many tokens the request has.
    pub tokens: u64,
    /// About how many tokens of it are repeated.
    pub repeated_tokens: u64,
    /// The first segment that is not as it was, though it was not at the end: from there on all was computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by: Option<String>,
    /// Remarks of the server on that, where it makes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<ServerRemark>,
}

/// Remark of a server on a request: why it computed again what it had been sent before, or what it left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRemark {
    /// Its word for it, such as `tools_changed`.
    pub reason: String,
    /// About how many tokens were computed again for it; 0 where it does not say.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub tokens: u64,
}

impl ServerRemark {
    /// Remarks on one request at the most.
    pub const MAX_PER_REQUEST: usize = 8;

    /// Makes a remark of what a server said; none where that is no word.
    pub fn new(reason: &str, tokens: u64) -> Option<Self> {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.:".contains(letter);
        let is_word = !reason.is_empty() && reason.len() <= 96 && reason.chars().all(is_of_word);
        is_word.then(|| Self { reason: reason.to_owned(), tokens })
    }
}

/// Content of a window, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    /// The model that would be asked next.
    pub model: String,
    /// The tokens that request and answer may have together.
    pub window: u64,
    /// About how many tokens the next request has, before its input.
    pub tokens: u64,
    /// The level that follows.
    pub level: TokenLevel,
    /// Parts of the next request, in its order.
    pub segments: Vec<Segment>,
    /// The messages of the history.
    pub messages: u32,
    /// The messages that it may have; 0 where the window alone decides.
    pub max_messages: u32,
    /// Cuts that come next, and when, in a sentence each.
    pub next_cuts: Vec<String>,
    /// Set if these are the figures of the machine that the session was imported from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// Parts of a window that are told at the most.
const MAX_SEGMENTS: usize = 1000;
/// Cuts that are told at the most.
const MAX_CUTS: usize = 16;
/// Length of a text among the figures at the most, in bytes.
const MAX_FIGURE_TEXT: usize = 4096;

impl ContextView {
    /// Returns whether its size is that of a view which a daemon makes: one of a stranger may be larger.
    pub fn is_bounded(&self) -> bool {
        let Self { model, segments, next_cuts, .. } = self;
        let texts = segments.iter().map(|segment| &segment.source).chain(next_cuts).chain([model]);
        segments.len() <= MAX_SEGMENTS
            && next_cuts.len() <= MAX_CUTS
            && texts.into_iter().all(|text| text.len() <= MAX_FIGURE_TEXT)
    }
}

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its kind.
    pub kind: SegmentKind,
    /// Where it comes from, where that is a file or a tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// About how many tokens it has.
    pub tokens: u64,
    /// Number of messages or tools in it.
    pub count: u32,
}

names! {
    /// Kind of a part of a request.
    #[derive(Hash)]
    pub enum SegmentKind {
        /// The system message.
        Instructions = "instructions",
        /// The tools with their schemas.
        Tools = "tools",
        /// `AGENTS.md` files.
        Memory = "memory",
        /// The catalogue of skills.
        Skills = "skills",
        /// The summary of what was compacted.
        Summary = "summary",
        /// Messages and calls.
        History = "history",
        /// Results of calls.
        Results = "results",
        /// The daemon's reminders to the model, at the end.
        Reminders = "reminders",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_begin_at_75_and_95_percent() {
        let check = |tokens, level| assert_eq!(TokenLevel::of(tokens, 1000), level, "{tokens}");
        check(0, TokenLevel::Info);
        check(749, TokenLevel::Info);
        check(750, TokenLevel::Warning);
        check(949, TokenLevel::Warning);
        check(950, TokenLevel::Critical);
        check(u64::MAX, TokenLevel::Critical);
        assert_eq!(TokenLevel::of(1, 0), TokenLevel::Critical);
    }
}
