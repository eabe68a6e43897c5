//! Items in progress: the received part of a text and the part that can be shown, the progress of a running call, and the
//! announced retry of a model call.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use agentd_core::{
    ids::{CallId, ItemId},
    tool::ToolCall,
};

use crate::terminal::sanitize::clean_line;

/// Maximum number of lines below a running call.
const LIVE_LINES: usize = 3;

/// State of the running turn that ends with it.
#[derive(Debug, Default)]
pub(super) struct LiveTurn {
    pub(super) is_running: bool,
    /// Texts in progress.
    pub(super) items: HashMap<ItemId, PartialItem>,
    /// Calls without a result, for the argument in their line.
    pub(super) calls: HashMap<CallId, ToolCall>,
    /// Running calls, in the order in which they started.
    pub(super) running: Vec<RunningCall>,
    /// Retry that is counted down.
    pub(super) retry: Option<PendingRetry>,
    /// Preview of the last question.
    pub(super) previewed: Option<String>,
}

/// A call that has no result yet.
#[derive(Debug)]
pub(super) struct RunningCall {
    pub(super) item: ItemId,
    pub(super) call: CallId,
    /// Name and subject of the call.
    pub(super) title: String,
    /// The last lines of its progress.
    pub(super) lines: VecDeque<String>,
}

impl RunningCall {
    /// Adds progress, and drops all but the last lines.
    pub(super) fn progress(&mut self, text: &str) {
        self.lines.extend(text.lines().map(clean_line).filter(|line| !line.is_empty()));
        let surplus = self.lines.len().saturating_sub(LIVE_LINES);
        self.lines.drain(..surplus);
    }
}

/// Time of the announced retry of a model call.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRetry(pub(super) Instant);

impl PendingRetry {
    /// Returns the remaining time in words, or `None` after the delay.
    pub(super) fn line(self, now: Instant) -> Option<String> {
        let left = self.0.saturating_duration_since(now).as_millis().div_ceil(1000);
        (left > 0).then(|| format!("retrying in {left} s"))
    }
}

/// The received part of an item's text.
#[derive(Debug)]
pub(super) struct PartialItem {
    pub(super) reasoning: bool,
    /// Number of bytes of the text received so far.
    pub(super) taken: usize,
    /// Last part of the received reasoning, for the spinner.
    pub(super) tail: String,
    /// Number of newlines that are shown only if text follows them.
    pub(super) held: usize,
    pub(super) begun: bool,
}

impl PartialItem {
    pub(super) fn new(reasoning: bool) -> Self {
        Self { reasoning, taken: 0, tail: String::new(), held: 0, begun: false }
    }

    /// Returns the new text of a delta, if it continues the received text. Deltas may be lost or repeated.
    pub(super) fn take<'a>(&mut self, offset: u64, text: &'a str) -> Option<&'a str> {
        let offset = usize::try_from(offset).ok()?;
        let new = text.get(self.taken.checked_sub(offset)?..).filter(|new| !new.is_empty())?;
        self.taken += new.len();
        Some(new)
    }

    /// Returns the part of new text that can be shown. Newlines before the first word are dropped, and later newlines are
    /// held back until a word follows.
    pub(super) fn grow(&mut self, new: &str) -> String {
        let body = new.trim_end_matches(['\n', '\r']);
        let mut visible = String::with_capacity(self.held + body.len());
        if !body.is_empty() {
            let body = if self.begun { body } else { body.trim_start_matches(['\n', '\r']) };
            visible.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.held)));
            visible.push_str(body);
            self.begun |= !body.is_empty();
        }
        if self.begun {
            self.held += new[new.trim_end_matches(['\n', '\r']).len()..].matches('\n').count();
        }
        visible
    }

    /// Adds to a reasoning, and returns its last words. The text is stored unchanged, because a chunk may end with a blank,
    /// or within an escape sequence.
    pub(super) fn think(&mut self, new: &str) -> String {
        self.tail.push_str(&new.replace(['\n', '\r', '\t'], " "));
        if self.tail.len() > 400 {
            let cut = self.tail.char_indices().rev().nth(60).map_or(0, |(at, _)| at);
            self.tail.drain(..cut);
        }
        let clean = clean_line(&self.tail);
        let start = clean.char_indices().rev().nth(50).map_or(0, |(at, _)| at);
        clean[start..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_reasoning_keeps_blanks_between_chunks() {
        #[track_caller]
        fn check(chunks: &[&str], expected: &str) {
            let (mut item, mut shown) = (PartialItem::new(true), String::new());
            for chunk in chunks {
                shown = item.think(chunk);
            }
            assert_eq!(shown, expected, "{chunks:?}");
        }
        check(&["The ", "person", " wants\n", "a", "\t", "thing"], "The person wants a thing");
        check(&["a ", "\u{1b}[3", "1mred"], "a red");
        check(&["x".repeat(500).as_str(), " ", "end"], &format!("{} end", "x".repeat(47)));
    }
}
