//! Context of a session: the part of the history that a model sees, the fill level of its window, and compaction.

use serde::{Deserialize, Serialize};

use crate::ids::ItemId;

/// Part of a session's history that a model sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Event number. Items completed up to this event are hidden from models. 0 if the model sees all items.
    pub after: u64,
    /// Number of the event that completed the [`Compaction`] whose summary precedes the visible history, or 0 without a
    /// summary.
    pub summary: u64,
    /// Number of messages that were visible when the user undid a compaction, or 0 if none was undone. While set, the
    /// history is only compacted automatically if it no longer fits or has grown considerably, because the user wants
    /// to see the whole history.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub held: u64,
}

/// Replacement of a prefix of the history by a summary. Nothing is removed from the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Summary that replaces the prefix.
    pub summary: String,
    /// Number of the last event that the summary replaces.
    #[serde(default)]
    pub through: u64,
    /// Context before the compaction, used to undo the compaction.
    #[serde(default)]
    pub before: Window,
    /// Report on the compaction, for users.
    #[serde(default)]
    pub report: CompactionReport,
    /// File that contains the history replaced by this compaction and earlier ones.
    #[serde(default, flatten)]
    pub file: HistoryFile,
    /// Offloaded call results. Each keeps its position but is reduced to a line that names the file with the full
    /// result. A compaction with offloaded results has no summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offloaded: Vec<OffloadedResult>,
    /// Compaction that this compaction undoes, so that its offloaded results are visible again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<ItemId>,
}

/// Call result that was moved to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadedResult {
    /// ID of the result's item.
    pub item: ItemId,
    /// Path of the file in the form that tools use.
    pub path: String,
}

/// State of the file with the replaced history after a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFile {
    /// Name of the file. Empty in older journals, where [`CompactionReport::path`] ends with the name.
    #[serde(default, rename = "kept_in", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of valid bytes in the file, or `None` if unknown. Bytes after them were written by a compaction that was
    /// interrupted or undone.
    #[serde(default, rename = "kept_bytes", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of the last event in the file if a later write failed. The file then lacks history that was replaced
    /// after this event. `None` if the file is complete.
    #[serde(default, rename = "kept_missing_after", skip_serializing_if = "Option::is_none")]
    pub missing_after: Option<u64>,
}

/// Effects of a compaction, for users.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionReport {
    /// Reason for the compaction.
    pub cause: CompactionCause,
    /// Method that produced the summary.
    pub strategy: CompactionStrategy,
    /// Number of messages that the model saw before the compaction.
    pub messages_before: u32,
    /// Number of messages that the model sees now, including the summary.
    pub messages_after: u32,
    /// Approximate number of tokens of the history before the compaction.
    pub tokens_before: u64,
    /// Approximate number of tokens of the history now.
    pub tokens_after: u64,
    /// Percentage of the window that the next request would have used, or 0 if unknown.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub percent_before: u64,
    /// Number of results that were moved to files.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub offloaded: u32,
    /// User messages that are preserved verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// Path under which tools find the replaced history.
    pub path: Option<String>,
    /// Model that wrote the summary. `None` if the summary was assembled without a model.
    pub model: Option<String>,
    /// Problems of the compaction, such as a failed model call or a history file that could not be written.
    pub problem: Option<String>,
}

/// Reason for a compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The window was almost full.
    #[default]
    Critical,
    /// The server rejected the request because it did not fit into the window.
    Overflow,
    /// The number of messages exceeded the limit.
    Limit,
    /// The model requested the compaction.
    Model,
    /// The user requested the compaction.
    Person,
}

/// Method for producing a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStrategy {
    /// A detailed summary, or a short one if the window is too small for a detailed one.
    #[default]
    Auto,
    /// A detailed summary with seven sections, including paths, commands and results.
    Compact,
    /// A short summary with only the information needed to continue.
    Summarize,
    /// A summary without a model, from facts that are certain.
    Truncate,
    /// No summary. Only old call results are moved to files.
    Offload,
}

names! {
    /// Fill level of a window.
    #[derive(Default, PartialOrd, Ord)]
    pub enum TokenLevel {
        /// The window is less than 75 percent full.
        #[default]
        Info = "info",
        /// The window is at least 75 percent full.
        Warning = "warning",
        /// The window is at least 95 percent full. The history is compacted before the next call.
        Critical = "critical",
    }
}

impl TokenLevel {
    /// Returns the level for `tokens` used tokens in a window of `window` tokens.
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

/// Comparison of a request with the previous one. A server with a cache does not recompute the repeated part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptReport {
    /// Size of the request's instructions, tools and messages, in bytes.
    pub bytes: u64,
    /// Number of leading bytes that are equal to those of the previous request to the same model.
    pub repeated_bytes: u64,
    /// Size of the previous request in bytes, or 0 if there is none.
    pub previous_bytes: u64,
    /// Approximate tokens of the request.
    pub tokens: u64,
    /// Approximate tokens of the repeated part.
    pub repeated_tokens: u64,
    /// First changed segment, unless it is the last one. The server recomputed everything from this segment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by: Option<String>,
    /// Remarks from the server on cache misses, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<ServerRemark>,
}

/// Remark from a server on a request, about a repeated part that was recomputed or a part that was omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRemark {
    /// Code of the server for the reason, such as `tools_changed`.
    pub reason: String,
    /// Approximate number of recomputed tokens, or 0 if unknown.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub tokens: u64,
}

impl ServerRemark {
    /// Maximum number of remarks on one request.
    pub const MAX_PER_REQUEST: usize = 8;

    /// Creates a remark from a server's reason. Returns `None` if the reason is not a short identifier.
    pub fn new(reason: &str, tokens: u64) -> Option<Self> {
        let is_word_character = |letter: char| letter.is_ascii_alphanumeric() || "_-.:".contains(letter);
        let is_word = !reason.is_empty() && reason.len() <= 96 && reason.chars().all(is_word_character);
        is_word.then(|| Self { reason: reason.to_owned(), tokens })
    }
}

/// Content of a context window, for display.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    /// Model that receives the next request.
    pub model: String,
    /// Maximum number of tokens of a request and its answer.
    pub window: u64,
    /// Approximate number of tokens of the next request, without new input.
    pub tokens: u64,
    /// Fill level of the window.
    pub level: TokenLevel,
    /// Parts of the next request, in order.
    pub segments: Vec<Segment>,
    /// Number of messages in the history.
    pub messages: u32,
    /// Maximum number of messages, or 0 if only the window limits the history.
    pub max_messages: u32,
    /// Upcoming reductions of the history with their conditions, one sentence each.
    pub next_cuts: Vec<String>,
    /// True if the figures were measured on the machine from which the session was imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// Maximum number of segments in a view.
const MAX_SEGMENTS: usize = 1000;
/// Maximum number of upcoming cuts in a view.
const MAX_CUTS: usize = 16;
/// Maximum length of each string in a view, in bytes.
const MAX_FIGURE_TEXT: usize = 4096;

impl ContextView {
    /// Returns true if the view is within the limits of views created by a daemon. A view from an untrusted source may
    /// exceed these limits.
    pub fn is_bounded(&self) -> bool {
        let Self { model, segments, next_cuts, .. } = self;
        let texts = segments.iter().map(|segment| &segment.source).chain(next_cuts).chain([model]);
        segments.len() <= MAX_SEGMENTS
            && next_cuts.len() <= MAX_CUTS
            && texts.into_iter().all(|text| text.len() <= MAX_FIGURE_TEXT)
    }
}

/// Part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Kind of the part.
    pub kind: SegmentKind,
    /// File or tool that is the source of the part, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Size of the part, in bytes.
    pub bytes: u64,
    /// Approximate number of tokens.
    pub tokens: u64,
    /// Number of messages or tools in the part.
    pub count: u32,
}

names! {
    /// Kind of a request part.
    #[derive(Hash)]
    pub enum SegmentKind {
        /// The system message with the instructions.
        Instructions = "instructions",
        /// The tools with their schemas.
        Tools = "tools",
        /// Content of `AGENTS.md` files.
        Memory = "memory",
        /// The catalogue of skills.
        Skills = "skills",
        /// The summary of the compacted history.
        Summary = "summary",
        /// Messages and calls of the history.
        History = "history",
        /// Results of earlier tool calls.
        Results = "results",
        /// The daemon's reminders to the model, at the end of the request.
        Reminders = "reminders",
    }
}
