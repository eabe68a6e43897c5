//! Terms of one file, numbered, and their counts in its chunks.

use std::collections::HashMap;

use hashbrown::{DefaultHashBuilder, HashMap as WordMap};

use super::{Stems, split};

/// Counts of terms of one chunk: the term's number in its file's [`TermTable`] and its weight.
pub(crate) type TermCounts = Vec<(u32, u32)>;

/// Terms of one file. Identifiers repeat, so each is split and stemmed once.
#[derive(Debug, Default)]
pub(crate) struct TermTable<'text> {
    terms: HashMap<Box<str>, u32, DefaultHashBuilder>,
    words: WordMap<&'text str, (u32, u32)>,
    /// Numbers of the terms of all words, one word after the other.
    of_words: Vec<u32>,
    /// Weight of each term in the chunk that is counted.
    counts: Vec<u32>,
    touched: Vec<u32>,
}

impl<'text> TermTable<'text> {
    /// Adds the words of a text to the chunk that is counted, each with a weight.
    pub(crate) fn add(&mut self, text: &'text str, weight: u32, stems: &mut Stems) {
        let mut found = Vec::new();
        split::words(text, &mut |word| found.push(word));
        for word in found {
            let (from, to) = self.word(word, stems);
            for at in from..to {
                let Some(term) = self.of_words.get(at as usize).copied() else { continue };
                if let Some(count) = self.counts.get_mut(term as usize) {
                    if *count == 0 {
                        self.touched.push(term);
                    }
                    *count += weight;
                }
            }
        }
    }

    fn word(&mut self, word: &'text str, stems: &mut Stems) -> (u32, u32) {
        if let Some(known) = self.words.get(word) {
            return *known;
        }
        let from = number(self.of_words.len());
        let (terms, of_words, counts) = (&mut self.terms, &mut self.of_words, &mut self.counts);
        split::parts(word, stems, &mut |term| {
            let next = number(terms.len());
            let term = match terms.get(term) {
                Some(term) => *term,
                None => *terms.entry(term.into()).or_insert(next),
            };
            if term == next {
                counts.push(0);
            }
            of_words.push(term);
        });
        let range = (from, number(self.of_words.len()));
        self.words.insert(word, range);
        range
    }

    /// Ends a chunk: its counts, by the numbers of the terms.
    pub(crate) fn finish_chunk(&mut self) -> TermCounts {
        self.touched.sort_unstable();
        let counts = &mut self.counts;
        let take = |term: u32| counts.get_mut(term as usize).map(|count| (term, std::mem::take(count)));
        self.touched.drain(..).filter_map(take).collect()
    }

    /// Terms by their numbers.
    pub(crate) fn into_terms(self) -> Vec<Box<str>> {
        let mut terms: Vec<(u32, Box<str>)> = self.terms.into_iter().map(|(term, number)| (number, term)).collect();
        terms.sort_unstable();
        terms.into_iter().map(|(_, term)| term).collect()
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
