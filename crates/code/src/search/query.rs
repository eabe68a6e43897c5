//! Queries: terms, and the symbols that are named.

use super::Ranking;
use crate::terms::{is_stop_word, terms, words};

/// Longest query that is read, in bytes.
const MAX_QUERY: usize = 2000;
/// Different terms of a query at most.
const MAX_TERMS: usize = 48;

/// Query for code.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    terms: Vec<(String, f32)>,
    /// Names that are written like symbols.
    symbols: Vec<String>,
    is_symbol: bool,
    ranking: Ranking,
    below: String,
}

impl SearchQuery {
    /// Reads a query: words, symbols or a plain question.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = crate::text::start_of(text.trim(), MAX_QUERY);
        let mut all = Vec::new();
        words(text, &mut |word| all.push(word));
        let is_symbol = !text.contains(char::is_whitespace) && !all.is_empty();
        let telling: Vec<&str> = all.iter().copied().filter(|word| !is_stop_word(&word.to_lowercase())).collect();
        let used = if telling.is_empty() { &all } else { &telling };
        let mut query_terms: Vec<(String, f32)> = Vec::new();
        for word in used {
            for term in terms(word) {
                if let Some((_, weight)) = query_terms.iter_mut().find(|(known, _)| *known == term) {
                    *weight += 0.5;
                } else if query_terms.len() < MAX_TERMS {
                    query_terms.push((term, 1.0));
                }
            }
        }
        let written_as_symbol = |word: &&&str| {
            is_symbol
                || word.contains('_')
                || word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
                || word.starts_with(|letter: char| letter.is_ascii_uppercase())
        };
        let symbols = used.iter().filter(written_as_symbol).map(|word| (*word).to_owned()).collect();
        Self { terms: query_terms, symbols, is_symbol, ranking: Ranking::Full, below: String::new() }
    }

    /// Changes the order of the results.
    #[must_use]
    pub fn with_ranking(mut self, ranking: Ranking) -> Self {
        self.ranking = ranking;
        self
    }

    /// Looks below a file or folder only.
    #[must_use]
    pub fn within(mut self, below: &str) -> Self {
        below.clone_into(&mut self.below);
        self
    }

    /// Returns whether the query is one symbol, or a path of some: `Type::method`.
    #[must_use]
    pub fn is_symbol(&self) -> bool {
        self.is_symbol
    }

    pub(crate) fn terms(&self) -> &[(String, f32)] {
        &self.terms
    }

    pub(super) fn symbols(&self) -> &[String] {
        &self.symbols
    }

    pub(super) fn below(&self) -> &str {
        &self.below
    }

    pub(super) fn ranking(&self) -> Ranking {
        self.ranking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_lose_the_words_that_say_nothing() {
        let query = SearchQuery::new("how does the Router match routes?");
        let terms: Vec<&str> = query.terms().iter().map(|(term, _)| term.as_str()).collect();
        assert_eq!(terms, ["router", "match", "rout"]);
        assert_eq!(query.symbols(), ["Router"]);
        assert!(!query.is_symbol());
    }

    #[test]
    fn a_single_name_is_a_symbol() {
        for text in ["Router", "join_set", "Router::new", "app.use"] {
            assert!(SearchQuery::new(text).is_symbol(), "{text}");
        }
        assert!(!SearchQuery::new("").is_symbol() && SearchQuery::new("").terms().is_empty());
        assert!(!SearchQuery::new("what is it").terms().is_empty(), "better than nothing");
    }
}
