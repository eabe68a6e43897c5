//! Search: chunks for words, symbols and plain questions, the best first.

mod query;
mod rank;

pub use query::SearchQuery;

use agentd_core::code::{HitSymbol, SymbolKind};

use crate::{
    index::{CodeIndex, IndexedChunk, IndexedFile, NO_SYMBOL, scores::Scores},
    symbols::is_within,
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
    #[must_use]
    pub fn search(&self, query: &SearchQuery, limit: usize) -> Vec<Hit> {
        let mut scores = self.scores(query.terms());
        if !query.below().is_empty() {
            self.keep_within(&mut scores, query.below());
        }
        let limit = limit.min(MAX_HITS);
        let ranked = match query.ranking() {
            Ranking::TermsOnly => rank::by_terms(self, &scores, limit),
            Ranking::Full => rank::full(self, query, scores, limit),
        };
        let named: Vec<u32> = query.symbols().iter().filter_map(|name| self.names().get(name)).collect();
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
