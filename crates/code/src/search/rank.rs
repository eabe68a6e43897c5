//! Ranking: from the scores of the terms to the order of the results.

use std::{cmp::Ordering, collections::HashMap};

use hashbrown::DefaultHashBuilder;

use super::SearchQuery;
use crate::{
    file_kind,
    index::{CodeIndex, IndexedFile, Scores},
    symbols::is_within,
};

/// Share of the best score that a file gets for the sum of its chunks.
const COHERENCE: f32 = 0.5;
/// Share of the best score for the definition of a symbol that is the query.
const DEFINED_QUERY: f32 = 2.0;
/// Share of the best score for the definition of a symbol that a question names.
const DEFINED_NAME: f32 = 0.5;
/// Share of the best score for a file's name whose words the query has.
const NAMED: f32 = 0.5;
/// Factor on each further result of one file.
const REPEATED: f32 = 0.5;
/// Results that are looked at for each one that is wanted.
const CANDIDATES: usize = 12;

type RankedChunks = Vec<(u32, f32)>;

/// Files of a search by their slots.
#[derive(Default, Clone, Copy)]
struct FileScore {
    sum: f32,
    best: f32,
    best_chunk: u32,
}

/// Orders by the terms alone.
pub(super) fn by_terms(index: &CodeIndex, scores: &Scores, limit: usize) -> RankedChunks {
    let all = scores.touched.iter().filter_map(|number| Some((*number, *scores.by_chunk.get(*number as usize)?)));
    best(index, all.collect(), limit)
}

/// Orders by all that is known.
pub(super) fn full(index: &CodeIndex, query: &SearchQuery, mut scores: Scores, limit: usize) -> RankedChunks {
    let defined = defining_chunks(index, query);
    let files = file_scores(index, &scores);
    let top = files.values().map(|file| file.best).fold(0.0, f32::max);
    let top_sum = files.values().map(|file| file.sum).fold(0.0, f32::max).max(f32::MIN_POSITIVE);
    let top = if top > 0.0 { top } else { 1.0 };
    let mut weights: HashMap<u32, (f32, f32), DefaultHashBuilder> = HashMap::default();
    let asked: Vec<u32> = query.terms.iter().filter_map(|(term, _)| index.term(term)).collect();
    for (slot, file) in &files {
        let Some(indexed) = index.file(*slot) else { continue };
        let bonus = COHERENCE * file.sum / top_sum + NAMED * name_match(indexed, &asked);
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
        let weight = if chunk.is_test { weight * file_kind::TEST } else { weight };
        ranked.push((*number, score * weight));
    }
    let candidates = best(index, ranked, limit * CANDIDATES);
    spread(index, candidates, limit)
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

/// Chunks that define what the query names, and the share of the best score that it is worth.
fn defining_chunks(index: &CodeIndex, query: &SearchQuery) -> Vec<(u32, f32)> {
    let names: Vec<u32> = query.symbols.iter().filter_map(|name| index.names().get(name)).collect();
    let mut chunks = Vec::new();
    if names.is_empty() {
        return chunks;
    }
    let last = query.symbols.last().and_then(|name| index.names().get(name));
    for (_, file) in index.live_files().filter(|(_, file)| is_within(&file.path, &query.below)) {
        for definition in file.definitions.iter().filter(|definition| names.contains(&definition.name)) {
            // Of `Type::method`, the method is meant.
            let is_meant = query.is_symbol && Some(definition.name) == last;
            let mut share = if is_meant { DEFINED_QUERY } else { DEFINED_NAME };
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

/// Share of the words of a file's name that the query has.
fn name_match(file: &IndexedFile, asked: &[u32]) -> f32 {
    let found = file.name_terms.iter().filter(|term| asked.contains(term)).count();
    found as f32 / file.name_terms.len().max(1) as f32
}

/// The best results; of equal ones, those that come first by path and line, so that an order never depends on the order in
/// which files were added.
fn best(index: &CodeIndex, mut ranked: RankedChunks, limit: usize) -> RankedChunks {
    let place = |number: &u32| {
        let chunk = index.chunk(*number);
        (chunk.and_then(|chunk| index.file(chunk.file)).map(|file| &*file.path), chunk.map(|chunk| chunk.first_line))
    };
    let order = |a: &(u32, f32), b: &(u32, f32)| match b.1.total_cmp(&a.1) {
        Ordering::Equal => place(&a.0).cmp(&place(&b.0)),
        order => order,
    };
    if ranked.len() > limit && limit > 0 {
        ranked.select_nth_unstable_by(limit - 1, order);
    }
    ranked.truncate(limit);
    ranked.sort_unstable_by(order);
    ranked
}

/// Lets each further result of a file count less.
fn spread(index: &CodeIndex, candidates: RankedChunks, limit: usize) -> RankedChunks {
    let mut seen: HashMap<u32, i32, DefaultHashBuilder> = HashMap::default();
    let lessened = candidates.into_iter().map(|(number, score)| {
        let seen = seen.entry(index.chunk(number).map_or(u32::MAX, |chunk| chunk.file)).or_default();
        let factor = REPEATED.powi(*seen);
        *seen += 1;
        (number, score * factor)
    });
    best(index, lessened.collect(), limit)
}
