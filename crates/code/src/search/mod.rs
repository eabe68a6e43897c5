//! Search: chunks for words, symbols and plain questions, the best first.

mod rank;

use agentd_core::code::{HitSymbol, SymbolKind};

use crate::{
    index::{CodeIndex, IndexedChunk, IndexedFile, NO_SYMBOL, Scores},
    symbols::is_within,
    terms::{is_stop_word, terms, words},
    text::start_of,
};

/// Results that one search gives at most.
pub const MAX_HITS: usize = 100;

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Path below the folder, with slashes.
    pub path: String,
    /// First line, from 1.
    pub first_line: u32,
    /// Last line, from 1.
    pub last_line: u32,
    /// Symbol that is defined there, or that the lines are the middle of.
    pub symbol: Option<HitSymbol>,
    /// Score, comparable within one search.
    pub score: f32,
}

/// Order of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ranking {
    /// BM25 with all that is known of files and symbols.
    #[default]
    Full,
    /// BM25 alone, to compare with.
    TermsOnly,
}

impl CodeIndex {
    /// Finds chunks; the best first.
    pub fn search(&self, query: &SearchQuery, limit: usize) -> Vec<Hit> {
        let mut scores = self.scores(&query.terms);
        if !query.below.is_empty() {
            self.keep_within(&mut scores, &query.below);
        }
        let limit = limit.min(MAX_HITS);
        let ranked = match query.ranking {
            Ranking::TermsOnly => rank::by_terms(self, &scores, limit),
            Ranking::Full => rank::full(self, query, scores, limit),
        };
        let named: Vec<u32> = query.symbols.iter().filter_map(|name| self.names().get(name)).collect();
        ranked.into_iter().filter_map(|(number, score)| self.hit(number, score, &named)).collect()
    }

    /// Drops the scores of chunks elsewhere.
    fn keep_within(&self, scores: &mut Scores, below: &str) {
        let is_there = |number: u32| {
            let file = self.chunk(number).and_then(|chunk| self.file(chunk.file));
            file.is_some_and(|file| is_within(&file.path, below))
        };
        let Scores { by_chunk, touched } = scores;
        touched.retain(|number| {
            let keeps = is_there(*number);
            if let Some(score) = by_chunk.get_mut(*number as usize).filter(|_| !keeps) {
                *score = 0.0;
            }
            keeps
        });
    }

    fn hit(&self, number: u32, score: f32, named: &[u32]) -> Option<Hit> {
        let chunk = self.chunk(number)?;
        let file = self.file(chunk.file)?;
        let symbol = self.symbol(file, chunk, named);
        let (first_line, last_line) = (chunk.first_line, chunk.last_line);
        Some(Hit { path: file.path.to_string(), first_line, last_line, symbol, score })
    }

    /// Symbol of a chunk: what the query names, if it is defined there.
    fn symbol(&self, file: &IndexedFile, chunk: &IndexedChunk, named: &[u32]) -> Option<HitSymbol> {
        let asked = file.definitions.iter().find(|definition| {
            (chunk.first_line..=chunk.last_line).contains(&definition.first_line)
                && definition.kind != SymbolKind::Impl
                && named.contains(&definition.name)
        });
        let own = || file.definitions.get(chunk.symbol as usize).filter(|_| chunk.symbol != NO_SYMBOL);
        let definition = asked.or_else(own)?;
        Some(HitSymbol { name: self.names().text(definition.name).to_owned(), kind: definition.kind })
    }
}

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
    pub fn new(text: &str) -> Self {
        let text = start_of(text.trim(), MAX_QUERY);
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
    pub fn is_symbol(&self) -> bool {
        self.is_symbol
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_lose_the_words_that_say_nothing() {
        let query = SearchQuery::new("how does the Router match routes?");
        let terms: Vec<&str> = query.terms.iter().map(|(term, _)| term.as_str()).collect();
        assert_eq!(terms, ["router", "match", "rout"]);
        assert_eq!(query.symbols, ["Router"]);
        assert!(!query.is_symbol());
    }

    #[test]
    fn a_single_name_is_a_symbol() {
        for text in ["Router", "join_set", "Router::new", "app.use"] {
            assert!(SearchQuery::new(text).is_symbol(), "{text}");
        }
        assert!(!SearchQuery::new("").is_symbol() && SearchQuery::new("").terms.is_empty());
        assert!(!SearchQuery::new("what is it").terms.is_empty(), "better than nothing");
    }
}
