//! An item whose text is under way: the part of it that came, and the part that can be shown.

use crate::terminal::sanitize::clean_line;

/// An item's text as far as it is known.
#[derive(Debug)]
pub(super) struct PartialItem {
    pub(super) reasoning: bool,
    /// Bytes of the text that were taken in.
    pub(super) taken: usize,
    /// Last line of the reasoning, for the spinner.
    pub(super) tail: String,
    /// Newlines that are shown only if text follows them.
    pub(super) held: usize,
    pub(super) begun: bool,
}

impl PartialItem {
    pub(super) fn new(reasoning: bool) -> Self {
        Self { reasoning, taken: 0, tail: String::new(), held: 0, begun: false }
    }

    /// New text of a delta, if it joins on to what is there. Deltas may be lost or repeated.
    pub(super) fn take<'a>(&mut self, offset: u64, text: &'a str) -> Option<&'a str> {
        let offset = usize::try_from(offset).ok()?;
        let new = text.get(self.taken.checked_sub(offset)?..).filter(|new| !new.is_empty())?;
        self.taken += new.len();
        Some(new)
    }

    /// The part of new text that can be shown: newlines before the first word never, others once a word follows.
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

    /// The last words of a reasoning.
    pub(super) fn think(&mut self, new: &str) -> &str {
        self.tail.push_str(&new.replace(['\n', '\r', '\t'], " "));
        if self.tail.len() > 400 {
            let cut = self.tail.char_indices().rev().nth(60).map_or(0, |(at, _)| at);
            self.tail.drain(..cut);
        }
        let clean = clean_line(&self.tail);
        let start = clean.char_indices().rev().nth(50).map_or(0, |(at, _)| at);
        self.tail = clean;
        &self.tail[start..]
    }
}
