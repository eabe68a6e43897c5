//! Positions of hits in a chunk, and snippets around them.

use std::{collections::HashSet, ops::Range};

use super::{
    parse::{ParsedQuery, Unit},
    plan::phrase_terms,
};
use crate::analyze::{Form, Language, Token, exact::tokens, stem, stems, words::language};

#[derive(Debug, Default)]
pub(crate) struct HighlightTerms {
    stems: HashSet<String>,
    prefixes: Vec<String>,
    /// Terms of each phrase, with their positions.
    phrases: Vec<Vec<Token>>,
}

impl HighlightTerms {
    /// Collects the terms of a query and of the words that correct its typos.
    pub(crate) fn new(parsed: &ParsedQuery, corrections: &[String]) -> Self {
        let mut needles = Self::default();
        for unit in &parsed.units {
            match unit {
                Unit::Word { stems, .. } => needles.stems.extend(stems.iter().cloned()),
                Unit::Prefix(prefix) => needles.prefixes.push(prefix.clone()),
                Unit::Letters(text) | Unit::Chain(text) | Unit::Phrase(text) => {
                    needles.phrases.push(phrase_terms(text))
                }
            }
        }
        needles.stems.extend(corrections.iter().flat_map(|word| stems(word)));
        // If a phrase does not occur literally, its words are highlighted instead, see `marks`.
        needles
    }

    /// Returns the byte ranges of hits in a text, in order and without overlaps.
    pub(crate) fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let tokens = tokens(text);
        let language = language(text);
        let mut marks = Vec::new();
        for token in &tokens {
            let is_word = matches!(token.form, Form::Word | Form::Part);
            if is_word
                && (self.is_stem_of(&token.text, language)
                    || self.prefixes.iter().any(|prefix| token.text.starts_with(prefix)))
            {
                marks.push(token.range.clone());
            }
        }
        let whole: Vec<&Token> = tokens.iter().filter(|token| token.form != Form::Part).collect();
        let mut has_phrase = false;
        for phrase in &self.phrases {
            let found = phrase_marks(phrase, &whole, text);
            has_phrase |= !found.is_empty();
            marks.extend(found);
        }
        if !has_phrase {
            self.word_marks(&whole, language, &mut marks);
        }
        merged_ranges(marks)
    }

    /// Returns true if the word has one of the stems. A word starts with the same character as its stem, except for
    /// accents, so most words need not be stemmed.
    fn is_stem_of(&self, word: &str, language: Language) -> bool {
        let first = word.chars().next();
        let may_match =
            first.is_some_and(|first| !first.is_ascii()) || self.stems.iter().any(|stem| stem.chars().next() == first);
        may_match && self.stems.contains(&stem(word, language))
    }

    fn word_marks(&self, whole: &[&Token], language: Language, marks: &mut Vec<Range<usize>>) {
        for needle in self.phrases.iter().flatten() {
            let needle_stem = stem(&needle.text, language);
            let has_same_start = |token: &Token| token.text.chars().next() == needle_stem.chars().next();
            let is_needle = |token: &&&Token| match needle.form {
                Form::Word => {
                    token.form == Form::Word && has_same_start(token) && stem(&token.text, language) == needle_stem
                }
                Form::Pair => token.text == needle.text,
                Form::Part | Form::Last => false,
            };
            marks.extend(whole.iter().filter(is_needle).map(|token| token.range.clone()));
        }
    }
}

fn phrase_marks(phrase: &[Token], whole: &[&Token], text: &str) -> Vec<Range<usize>> {
    let Some(first) = phrase.first() else { return Vec::new() };
    if let [Token { form: Form::Last, text: letter, .. }] = phrase {
        return letter_marks(letter, whole, text);
    }
    let distance = |of: &Token, from: &Token| of.position.wrapping_sub(from.position);
    let is_phrase = |here: &[&Token]| {
        let mut pairs = phrase.iter().zip(here);
        pairs.all(|(needle, token)| {
            needle.text == token.text
                && here.first().is_some_and(|start| distance(token, start) == distance(needle, first))
        })
    };
    let range = |here: &[&Token]| Some(here.first()?.range.start..here.last()?.range.end);
    whole.windows(phrase.len()).filter(|here| is_phrase(here)).filter_map(range).collect()
}

/// Returns the positions of a single character that is the first of a pair or the last of a run.
fn letter_marks(letter: &str, whole: &[&Token], text: &str) -> Vec<Range<usize>> {
    let found = whole.iter().filter(|token| token.form != Form::Word && token.text.starts_with(letter));
    let range = |token: &&Token| {
        let first = text.get(token.range.clone())?.chars().next()?;
        Some(token.range.start..token.range.start + first.len_utf8())
    };
    found.filter_map(range).collect()
}

/// Sorts the ranges and merges overlapping ones.
pub(crate) fn merged_ranges(mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.retain(|mark| !mark.is_empty());
    marks.sort_by_key(|mark| (mark.start, mark.end));
    let mut merged_ranges: Vec<Range<usize>> = Vec::with_capacity(marks.len());
    for mark in marks {
        match merged_ranges.last_mut() {
            Some(last) if mark.start < last.end => last.end = last.end.max(mark.end),
            _ => merged_ranges.push(mark),
        }
    }
    merged_ranges
}

/// Excerpt of a chunk with the hits in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// Text of the excerpt, with `…` where it was cut.
    pub text: String,
    /// Byte ranges of the hits in the excerpt, in order.
    pub hits: Vec<Range<usize>>,
}

const ELLIPSIS: &str = "…";

/// Returns an excerpt of about `letters` characters around the most hits in a text.
pub fn around(text: &str, marks: &[Range<usize>], letters: usize) -> Snippet {
    let window = window(text, marks, letters);
    let part = text.get(window.clone()).unwrap_or_default();
    let before = if window.start > 0 { ELLIPSIS } else { "" };
    let after = if window.end < text.len() { ELLIPSIS } else { "" };
    let hits = marks
        .iter()
        .filter(|mark| mark.start < window.end && mark.end > window.start)
        .map(|mark| {
            let start = mark.start.max(window.start) - window.start;
            let end = mark.end.min(window.end) - window.start;
            before.len() + start..before.len() + end
        })
        .collect();
    Snippet { text: format!("{before}{part}{after}"), hits }
}

fn window(text: &str, marks: &[Range<usize>], letters: usize) -> Range<usize> {
    if text.chars().nth(letters + letters / 4).is_none() {
        return 0..text.len();
    }
    // Choose the hit with the most hits in its window. If there are several, choose the first.
    let reach = |from: usize| end_of(text, from, letters * 3 / 4);
    let best = marks.iter().enumerate().max_by_key(|(index, mark)| {
        let end = reach(mark.start);
        (marks.iter().skip(*index).take_while(|other| other.end <= end).count(), std::cmp::Reverse(*index))
    });
    let first = best.map_or(0, |(_, mark)| mark.start);
    let start = begin_before(text, first, letters / 4);
    let end = end_of(text, start, letters);
    start..whole_word_end(text, end)
}

/// Returns the byte offset `letters` characters after `from`.
fn end_of(text: &str, from: usize, letters: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.char_indices().nth(letters).map_or(text.len(), |(at, _)| from + at)
}

/// Returns a suitable start for the excerpt, at most `letters` characters before `at`.
fn begin_before(text: &str, at: usize, letters: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let Some((earliest, _)) = before.char_indices().rev().take(letters).last() else { return 0 };
    if before.chars().count() <= letters {
        return 0;
    }
    // Start after a sentence if possible, otherwise after a space.
    let lead = before.get(earliest..).unwrap_or_default();
    let after = |ends: &[char]| {
        lead.find(|letter| ends.contains(&letter)).map(|index| {
            let width = lead.get(index..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            earliest + index + width
        })
    };
    let start = after(&['.', '!', '?', '。', '！', '？', '\n']).or_else(|| after(&[' ', '，', '、', ',']));
    let start = start.filter(|start| *start <= at).unwrap_or(earliest);
    start + text.get(start..at).map_or(0, |skip| skip.len() - skip.trim_start().len())
}

/// Moves the end back to the previous space if there is one nearby.
fn whole_word_end(text: &str, end: usize) -> usize {
    let is_inside =
        text.get(end..).and_then(|rest| rest.chars().next()).is_some_and(|letter| letter.is_ascii_alphanumeric());
    if !is_inside {
        return end;
    }
    let tail_start = text.floor_char_boundary(end.saturating_sub(24));
    text.get(tail_start..end).and_then(|tail| tail.rfind(char::is_whitespace)).map_or(end, |space| tail_start + space)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
mod snippet_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn snippet_shows_short_text_whole_and_long_text_at_hits() {
        let snippet = around("one two", &[4..7], 100);
        assert_eq!((snippet.text.as_str(), snippet.hits), ("one two", vec![4..7]));

        let text =
            format!("needle first. {} Here is a needle with a needle. {}", "straw ".repeat(40), "straw ".repeat(40));
        let marks: Vec<Range<usize>> = text.match_indices("needle").map(|(at, word)| at..at + word.len()).collect();
        let snippet = around(&text, &marks, 60);
        let hits: Vec<&str> = snippet.hits.iter().map(|hit| &snippet.text[hit.clone()]).collect();
        assert_eq!(hits, ["needle", "needle"], "{}", snippet.text);
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with('…'), "{}", snippet.text);

        let text = format!("{}找到智能了{}", "草".repeat(300), "堆".repeat(300));
        let at = text.find("智能").unwrap();
        let snippet = around(&text, &[at..at + 6], 40);
        assert_eq!(&snippet.text[snippet.hits[0].clone()], "智能");
    }

    proptest! {
        #[test]
        fn snippet_hits_match_the_marks(text in "\\PC{0,400}", picks in prop::collection::vec((0usize..400, 1usize..9), 0..6), letters in 8usize..200) {
            let marks = picks.into_iter().map(|(from, len)| {
                let start = text.floor_char_boundary(from.min(text.len()));
                start..text.ceil_char_boundary((start + len).min(text.len()))
            }).collect();
            let marks = crate::search::marks::merged_ranges(marks);
            let snippet = around(&text, &marks, letters);
            prop_assert!(snippet.text.chars().count() <= letters + letters / 4 + 2);
            for hit in &snippet.hits {
                prop_assert!(snippet.text.get(hit.clone()).is_some_and(|hit| text.contains(hit)));
            }
        }
    }
}
