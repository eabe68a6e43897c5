//! Completions of the word at the cursor, in a menu that opens while the word is typed.

use std::fmt::Debug;

/// Completion of the text before the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// Offset in bytes at which the completed word starts.
    pub(crate) start: usize,
    /// Word that replaces the text from there up to the cursor.
    pub(crate) word: String,
    /// Description; may be empty.
    pub(crate) about: String,
}

/// Source of completions for the menu.
pub(crate) trait Completer: Debug + Send {
    /// Returns the completions of the text before the cursor.
    fn complete(&self, before: &str) -> Vec<Suggestion>;
}

/// Menu of completions, which is closed if it has none.
#[derive(Debug, Default)]
pub(crate) struct Menu {
    suggestions: Vec<Suggestion>,
    selected: Option<usize>,
}

impl Menu {
    /// Opens the menu with these completions. A word that is already complete needs no menu.
    pub(crate) fn open(&mut self, suggestions: Vec<Suggestion>, before: &str) {
        let is_complete = |suggestion: &Suggestion| before.get(suggestion.start..) == Some(suggestion.word.trim_end());
        let is_done = matches!(suggestions.as_slice(), [one] if is_complete(one));
        *self = Self { suggestions: if is_done { Vec::new() } else { suggestions }, selected: None };
    }

    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.suggestions.is_empty()
    }

    pub(crate) fn select_next(&mut self) {
        self.selected = Some(self.selected.map_or(0, |at| (at + 1) % self.suggestions.len().max(1)));
    }

    pub(crate) fn select_previous(&mut self) {
        let last = self.suggestions.len().saturating_sub(1);
        self.selected = Some(self.selected.and_then(|at| at.checked_sub(1)).unwrap_or(last));
    }

    /// Returns the selected completion, or the only one.
    pub(crate) fn choice(&self) -> Option<&Suggestion> {
        match (self.selected, self.suggestions.as_slice()) {
            (Some(at), suggestions) => suggestions.get(at),
            (None, [one]) => Some(one),
            (None, _) => None,
        }
    }

    pub(crate) fn has_selection(&self) -> bool {
        self.selected.is_some()
    }

    /// Returns the text that all completions start with, and the offset at which it starts.
    pub(crate) fn common_start(&self) -> Option<(usize, &str)> {
        let (first, others) = self.suggestions.split_first()?;
        let mut common = first.word.as_str();
        for other in others {
            let same = common.char_indices().zip(other.word.chars()).find(|((_, left), right)| left != right);
            let end = same.map_or(common.len().min(other.word.len()), |((at, _), _)| at);
            common = &common[..common.floor_char_boundary(end)];
        }
        Some((first.start, common))
    }

    /// Returns up to `count` completions around the selected one, each with whether it is selected, and the number of
    /// the others.
    pub(crate) fn rows(&self, count: usize) -> (impl Iterator<Item = (&Suggestion, bool)>, usize) {
        let selected = self.selected.unwrap_or(0);
        let start = selected.saturating_sub(count.saturating_sub(1));
        let shown = self.suggestions.iter().enumerate().skip(start).take(count);
        let rows = shown.map(move |(at, suggestion)| (suggestion, self.selected == Some(at)));
        (rows, self.suggestions.len().saturating_sub(count))
    }
}
