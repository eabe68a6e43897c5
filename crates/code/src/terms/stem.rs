//! Words without their endings.

use std::collections::HashMap;

use frostem::{Algorithm, Stemmer};

/// Words that are remembered: code repeats few of them very often.
const MAX_REMEMBERED: usize = 50_000;

/// Stemmer that remembers what it has stemmed.
pub(crate) struct Stems {
    stemmer: Stemmer,
    known: HashMap<Box<str>, Box<str>, hashbrown::DefaultHashBuilder>,
    small: String,
    unknown: String,
}

impl Default for Stems {
    fn default() -> Self {
        Self {
            stemmer: Stemmer::new(Algorithm::English),
            known: HashMap::default(),
            small: String::new(),
            unknown: String::new(),
        }
    }
}

impl Stems {
    /// The word in small letters without its ending. Only for ASCII.
    pub(crate) fn stem(&mut self, word: &str) -> &str {
        self.small.clear();
        self.small.push_str(word);
        self.small.make_ascii_lowercase();
        if self.small.len() < 4 || self.small.bytes().any(|byte| !byte.is_ascii_alphabetic()) {
            return &self.small;
        }
        if !self.known.contains_key(self.small.as_str()) {
            let stem = self.stemmer.stem(&self.small).into_owned();
            if self.known.len() >= MAX_REMEMBERED {
                self.unknown = stem;
                return &self.unknown;
            }
            self.known.insert(self.small.as_str().into(), stem.into());
        }
        self.known.get(self.small.as_str()).map_or("", |stem| stem)
    }
}

impl std::fmt::Debug for Stems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stems").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// Words of questions that say nothing about what is looked for.
const STOP_WORDS: [&str; 78] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "code", "could", "did", "do", "does", "done", "during", "each", "file", "find", "for", "from", "get", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "must", "my", "not", "of", "on", "only", "or",
    "our", "please", "show", "so", "some", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "used", "uses", "using", "was", "we", "were", "what", "when", "where", "which", "while", "who",
    "why", "will", "with",
];

/// Returns whether a word, in small letters, says nothing in a question where others do.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("how") && !is_stop_word("mutex"));
    }
}
