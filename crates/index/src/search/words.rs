//! Searching by words: the index knows all.

use tantivy::query::Query as IndexQuery;

use super::{
    FoundChunk,
    collect::{AllowedDocuments, Best, Candidate},
    frequencies::Frequencies,
    hit,
    marks::HighlightTerms,
    parse::{ParsedQuery, Unit, parse},
    plan::Planner,
    request::{Answer, How, Request},
};
use crate::{
    analyze::Dictionary,
    index::{error::IndexError, view::View},
};

/// Maximum number of hits, whatever is asked for.
const MOST: usize = 200;

/// Chunks with all words first, then those with some.
pub(crate) fn search(
    view: &View,
    dictionary: &Dictionary,
    request: &Request,
    allowed: &AllowedDocuments,
    text: &str,
) -> Result<Answer, IndexError> {
    let parsed = parse(text, dictionary);
    let mut notes = Vec::new();
    let limit = request.limit.clamp(1, MOST);
    let mut found =
        if allowed.chunks == 0 { Vec::new() } else { candidates(view, allowed, &parsed, limit, &mut notes)? };
    found.truncate(limit);
    if parsed.units.is_empty() {
        notes.push("there is no word in what was searched for".to_owned());
    }
    let needles = HighlightTerms::new(&parsed);
    let mut hits = Vec::with_capacity(found.len());
    for candidate in &found {
        let chunk = view.chunk(candidate.address)?;
        let marks = needles.marks(&chunk.text);
        hits.extend(hit(view, request, candidate, FoundChunk { chunk, marks }));
    }
    Ok(Answer { hits, missing: Vec::new(), complete: true, notes, how: How::Index })
}

fn candidates(
    view: &View,
    allowed: &AllowedDocuments,
    parsed: &ParsedQuery,
    limit: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Candidate>, IndexError> {
    let planner = Planner { fields: &view.fields, allowed, all_chunks: view.searcher.num_docs() };
    let frequencies = Frequencies::new(&view.searcher);
    let best = |query: Option<Box<dyn IndexQuery>>| -> Result<Vec<Candidate>, IndexError> {
        let Some(query) = query else { return Ok(Vec::new()) };
        let best = Best::new(view, allowed, limit);
        Ok(view.searcher.search_with_statistics_provider(&query, &best, &frequencies)?)
    };
    let mut found = if parsed.any { Vec::new() } else { best(planner.all(parsed))? };
    let has_phrase = parsed.units.iter().any(|unit| matches!(unit, Unit::Phrase(_)));
    // Who writes quotes wants nothing else, unless there is nothing of the kind.
    let is_enough = found.len() >= limit || (has_phrase && !found.is_empty() && !parsed.any);
    let is_same = parsed.units.len() == 1 && !has_phrase && !found.is_empty();
    if is_enough || is_same {
        return Ok(found);
    }
    if has_phrase && !parsed.any {
        notes.push("nothing has it word for word; these have some of its words".to_owned());
    }
    // The scores of both go on a common scale: what has all words stays above what has some.
    let mut more = best(planner.any(parsed))?;
    more.retain(|candidate| !found.iter().any(|known| known.address == candidate.address));
    let least = found.last().map(|last| last.score);
    if let (Some(least), Some(most)) = (least, more.first().map(|first| first.score))
        && most > 0.0
    {
        let scale = (least / most).min(1.0);
        more.iter_mut().for_each(|candidate| candidate.score *= scale);
    }
    if more.is_empty() && found.is_empty() && has_phrase {
        notes.clear();
    }
    found.append(&mut more);
    Ok(found)
}
