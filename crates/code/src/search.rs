//! Ranked search for words, symbols and plain questions.

use std::{cmp::Ordering, collections::HashMap};

use agentd_core::{
    code::{HitSymbol, SymbolKind},
    embedding::rank_weight,
};
use hashbrown::DefaultHashBuilder;

use crate::{
    index::{CodeIndex, IndexedChunk, IndexedFile, NO_SYMBOL, Scores},
    symbols::is_within,
    terms::{is_stop_word, terms, words},
    text,
    text::start_of,
};

/// Maximum number of results of a search.
pub const MAX_HITS: usize = 100;

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Path relative to the folder, with slashes.
    pub path: String,
    /// First line, starting at 1.
    pub first_line: u32,
    /// Last line, starting at 1.
    pub last_line: u32,
    /// Symbol that is defined in these lines or encloses them.
    pub symbol: Option<HitSymbol>,
    /// Score, comparable within one search.
    pub score: f32,
}

impl CodeIndex {
    /// Finds chunks, best first.
    pub fn search(&self, query: &SearchQuery, limit: usize) -> Vec<Hit> {
        let mut scores = self.scores(&query.terms);
        if !query.below.is_empty() {
            self.keep_within(&mut scores, &query.below);
        }
        let limit = limit.min(MAX_HITS);
        let ranked = rank(self, query, scores, limit);
        let ranked = if query.similar.is_empty() { ranked } else { fuse(self, query, ranked, limit) };
        let named: Vec<u32> = query.symbols.iter().filter_map(|name| self.names().get(name)).collect();
        ranked.into_iter().filter_map(|(number, score)| self.hit(number, score, &named)).collect()
    }

    /// Drops the scores of chunks outside `below`.
    fn keep_within(&self, scores: &mut Scores, below: &str) {
        let is_in_scope = |number: u32| {
            let file = self.chunk(number).and_then(|chunk| self.file(chunk.file));
            file.is_some_and(|file| is_within(&file.path, below))
        };
        let Scores { by_chunk, touched } = scores;
        touched.retain(|number| {
            let is_retained = is_in_scope(*number);
            if let Some(score) = by_chunk.get_mut(*number as usize).filter(|_| !is_retained) {
                *score = 0.0;
            }
            is_retained
        });
    }

    pub(crate) fn hit(&self, number: u32, score: f32, named: &[u32]) -> Option<Hit> {
        let chunk = self.chunk(number)?;
        let file = self.file(chunk.file)?;
        let symbol = self.symbol(file, chunk, named);
        let (first_line, last_line) = (chunk.first_line, chunk.last_line);
        Some(Hit { path: file.path.to_string(), first_line, last_line, symbol, score })
    }

    /// Returns the symbol of a chunk. Prefers a symbol that the query names.
    fn symbol(&self, file: &IndexedFile, chunk: &IndexedChunk, named: &[u32]) -> Option<HitSymbol> {
        let queried = file.definitions.iter().find(|definition| {
            (chunk.first_line..=chunk.last_line).contains(&definition.first_line)
                && definition.kind != SymbolKind::Impl
                && named.contains(&definition.name)
        });
        let own = || file.definitions.get(chunk.symbol as usize).filter(|_| chunk.symbol != NO_SYMBOL);
        let definition = queried.or_else(own)?;
        Some(HitSymbol { name: self.names().text(definition.name).to_owned(), kind: definition.kind })
    }
}

/// Maximum length of a query in bytes.
const MAX_QUERY: usize = 2000;
/// Maximum number of distinct terms in a query.
const MAX_TERMS: usize = 48;

/// Parsed query for a search.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    terms: Vec<(String, f32)>,
    /// Words of the query that are written like symbols.
    symbols: Vec<String>,
    is_symbol: bool,
    below: String,
    /// Digests of chunks to find as well, most similar first.
    similar: Vec<u64>,
}

impl SearchQuery {
    /// Parses a query of words, symbols or a plain question.
    pub fn new(text: &str) -> Self {
        let text = start_of(text.trim(), MAX_QUERY);
        let mut all = Vec::new();
        words(text, &mut |word| all.push(word));
        let is_symbol = !text.contains(char::is_whitespace) && !all.is_empty();
        let specific: Vec<&str> = all.iter().copied().filter(|word| !is_stop_word(&word.to_lowercase())).collect();
        let used = if specific.is_empty() { &all } else { &specific };
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
        Self { terms: query_terms, symbols, is_symbol, below: String::new(), similar: Vec::new() }
    }

    /// Restricts the search to a file or folder.
    pub fn within(mut self, below: &str) -> Self {
        below.clone_into(&mut self.below);
        self
    }

    /// Adds chunks to find as well, by their digests, most similar first.
    pub(crate) fn with_similar(mut self, digests: &[u64]) -> Self {
        self.similar = digests.to_vec();
        self
    }
}

/// Bonus for the sum of the scores of a file's chunks, as a share of the best score.
const COHERENCE_BONUS: f32 = 0.5;
/// Bonus for the definition of a symbol that is the whole query, as a share of the best score.
const QUERY_SYMBOL_BONUS: f32 = 2.0;
/// Bonus for the definition of a symbol that the query mentions, as a share of the best score.
const SYMBOL_BONUS: f32 = 0.5;
/// Bonus for a file whose name matches the query, as a share of the best score.
const FILE_NAME_BONUS: f32 = 0.5;
/// Factor for each additional result from the same file.
const REPEATED_FILE_FACTOR: f32 = 0.5;
/// Number of candidates per requested result.
const CANDIDATES_PER_HIT: usize = 12;

type RankedChunks = Vec<(u32, f32)>;

#[derive(Default, Clone, Copy)]
struct FileScore {
    sum: f32,
    best: f32,
    best_chunk: u32,
}

/// Ranks chunks with all bonuses and factors.
pub(super) fn rank(index: &CodeIndex, query: &SearchQuery, mut scores: Scores, limit: usize) -> RankedChunks {
    let defined = defining_chunks(index, query);
    let files = file_scores(index, &scores);
    let top = files.values().map(|file| file.best).fold(0.0, f32::max);
    let top_sum = files.values().map(|file| file.sum).fold(0.0, f32::max).max(f32::MIN_POSITIVE);
    let top = if top > 0.0 { top } else { 1.0 };
    let mut weights: HashMap<u32, (f32, f32), DefaultHashBuilder> = HashMap::default();
    let queried: Vec<u32> = query.terms.iter().filter_map(|(term, _)| index.term(term)).collect();
    for (slot, file) in &files {
        let Some(indexed) = index.file(*slot) else { continue };
        let named = indexed.name_terms.iter().filter(|term| queried.contains(term)).count();
        let named = named as f32 / indexed.name_terms.len().max(1) as f32;
        let bonus = COHERENCE_BONUS * file.sum / top_sum + FILE_NAME_BONUS * named;
        weights.insert(*slot, (bonus, indexed.weight));
    }
    for (number, share) in &defined {
        if let Some(score) = scores.by_chunk.get_mut(*number as usize) {
            if *score == 0.0 {
                scores.touched.push(*number);
            }
            *score += share * top;
        }
    }
    let mut ranked = Vec::with_capacity(scores.touched.len());
    for number in &scores.touched {
        let Some(chunk) = index.chunk(*number) else { continue };
        let mut score = scores.by_chunk.get(*number as usize).copied().unwrap_or_default();
        let (bonus, weight) = weights.get(&chunk.file).copied().unwrap_or((0.0, 1.0));
        if files.get(&chunk.file).is_none_or(|file| file.best_chunk == *number) {
            score += bonus * top;
        }
        let weight = if chunk.is_test { weight * text::TEST_WEIGHT } else { weight };
        ranked.push((*number, score * weight));
    }
    let candidates = best(index, ranked, limit * CANDIDATES_PER_HIT);
    diversify(index, candidates, limit)
}

/// Fuses the ranking by words with that by meaning.
fn fuse(index: &CodeIndex, query: &SearchQuery, ranked: RankedChunks, limit: usize) -> RankedChunks {
    let positions: HashMap<u64, usize> = query.similar.iter().enumerate().map(|(at, digest)| (*digest, at)).collect();
    let by_words = ranked.into_iter().enumerate().map(|(position, (number, _))| (number, rank_weight(position)));
    let mut weights: HashMap<u32, f32> = by_words.collect();
    for (number, chunk) in index.chunks() {
        let Some(position) = positions.get(&chunk.digest) else { continue };
        if index.file(chunk.file).is_some_and(|file| is_within(&file.path, &query.below)) {
            *weights.entry(number).or_default() += rank_weight(*position);
        }
    }
    best(index, weights.into_iter().collect(), limit)
}

fn file_scores(index: &CodeIndex, scores: &Scores) -> HashMap<u32, FileScore, DefaultHashBuilder> {
    let mut files: HashMap<u32, FileScore, DefaultHashBuilder> = HashMap::default();
    for number in &scores.touched {
        let Some(chunk) = index.chunk(*number) else { continue };
        let score = scores.by_chunk.get(*number as usize).copied().unwrap_or_default();
        let file = files.entry(chunk.file).or_default();
        file.sum += score;
        if score > file.best {
            (file.best, file.best_chunk) = (score, *number);
        }
    }
    files
}

/// Returns the chunks that define symbols in the query, each with its bonus.
fn defining_chunks(index: &CodeIndex, query: &SearchQuery) -> Vec<(u32, f32)> {
    let names: Vec<u32> = query.symbols.iter().filter_map(|name| index.names().get(name)).collect();
    let mut chunks = Vec::new();
    if names.is_empty() {
        return chunks;
    }
    let last = query.symbols.last().and_then(|name| index.names().get(name));
    for (_, file) in index.live_files().filter(|(_, file)| is_within(&file.path, &query.below)) {
        for definition in file.definitions.iter().filter(|definition| names.contains(&definition.name)) {
            // `Type::method` only refers to the method.
            let is_meant = query.is_symbol && Some(definition.name) == last;
            let mut share = if is_meant { QUERY_SYMBOL_BONUS } else { SYMBOL_BONUS };
            if definition.kind == crate::tags::SymbolKind::Impl {
                share *= 0.25;
            } else if definition.depth > 0 && !definition.kind.is_type() {
                share *= 0.5;
            }
            let (first, end) = file.chunks;
            let chunk = (first..end)
                .find(|number| index.chunk(*number).is_some_and(|chunk| chunk.last_line >= definition.first_line));
            chunks.extend(chunk.map(|chunk| (chunk, share)));
        }
    }
    chunks
}

/// Returns the best results. Orders ties by path and line, so that the result does not depend on the order in which
/// files were added.
fn best(index: &CodeIndex, mut ranked: RankedChunks, limit: usize) -> RankedChunks {
    let location = |number: &u32| {
        let chunk = index.chunk(*number);
        (chunk.and_then(|chunk| index.file(chunk.file)).map(|file| &*file.path), chunk.map(|chunk| chunk.first_line))
    };
    let order = |a: &(u32, f32), b: &(u32, f32)| match b.1.total_cmp(&a.1) {
        Ordering::Equal => location(&a.0).cmp(&location(&b.0)),
        order => order,
    };
    if ranked.len() > limit && limit > 0 {
        ranked.select_nth_unstable_by(limit - 1, order);
    }
    ranked.truncate(limit);
    ranked.sort_unstable_by(order);
    ranked
}

/// Lowers the score of additional results from the same file.
fn diversify(index: &CodeIndex, candidates: RankedChunks, limit: usize) -> RankedChunks {
    let mut seen: HashMap<u32, i32, DefaultHashBuilder> = HashMap::default();
    let reduced_scores = candidates.into_iter().map(|(number, score)| {
        let seen = seen.entry(index.chunk(number).map_or(u32::MAX, |chunk| chunk.file)).or_default();
        let factor = REPEATED_FILE_FACTOR.powi(*seen);
        *seen += 1;
        (number, score * factor)
    });
    best(index, reduced_scores.collect(), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_match_if_the_query_has_no_other_words() {
        assert!(SearchQuery::new("").terms.is_empty() && !SearchQuery::new("what is it").terms.is_empty());
    }
}
