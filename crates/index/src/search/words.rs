//! Searching by words: the index knows all.

use std::collections::HashSet;

use super::{
    FoundChunk,
    collect::{AllowedDocuments, Candidate},
    concept::{Alternative, Concepts, found},
    frequencies::Frequencies,
    hit,
    marks::HighlightTerms,
    parse::{ParsedQuery, Unit, parse},
    plan::Planner,
    rank::{RankQuery, best},
    request::{Answer, Hit, How, Request},
};
use crate::{
    analyze::{Dictionary, exact::tokens},
    document::DocumentPlace,
    index::{error::IndexError, view::View},
};

/// Maximum number of hits, whatever is asked for.
const MOST: usize = 200;
/// Words of a query up to which it is looked for to the letter as a whole. A question is in no text.
const MOST_WHOLE: usize = 10;
/// Chunks that are looked at for each hit: several of a page are one hit where there are others.
const LOOKED_AT: usize = 3;

/// The chunks with the most of the words.
pub(crate) fn search(
    view: &View,
    dictionary: &Dictionary,
    request: &Request,
    allowed: &AllowedDocuments,
    text: &str,
) -> Result<Answer, IndexError> {
    let parsed = parse(text, dictionary);
    let mut answer =
        Answer { hits: Vec::new(), missing: Vec::new(), complete: true, notes: Vec::new(), how: How::Index };
    if parsed.units.is_empty() {
        answer.notes.push("there is no word in what was searched for".to_owned());
    }
    if allowed.chunks == 0 {
        return Ok(answer);
    }
    let limit = request.limit.clamp(1, MOST);
    let (candidates, meant) = candidates(view, allowed, &parsed, limit * LOOKED_AT, &mut answer.notes)?;
    let needles = HighlightTerms::new(&parsed, &meant);
    answer.hits = hits(view, request, &candidates, limit, &needles)?;
    Ok(answer)
}

/// Chunks that may be hits, the best first, and the words that were taken for what was meant.
fn candidates(
    view: &View,
    allowed: &AllowedDocuments,
    parsed: &ParsedQuery,
    most: usize,
    notes: &mut Vec<String>,
) -> Result<(Vec<Candidate>, Vec<String>), IndexError> {
    let planner = Planner { fields: &view.fields, allowed, all_chunks: view.searcher.num_docs() };
    let frequencies = Frequencies::new(&view.searcher);
    let (concepts, meant) = Concepts::new(view, &planner, &frequencies).of(parsed)?;
    let mut without = Vec::new();
    for query in parsed.excluded.iter().filter_map(|unit| planner.excluded(unit)) {
        without.push(found(view, &*query)?);
    }
    let is_short = parsed.units.len() > 1 && tokens(&parsed.whole).len() <= MOST_WHOLE;
    let whole = planner.phrase(&parsed.whole).filter(|_| is_short);
    let whole = whole.map(|query| found(view, &*query)).transpose()?;
    let within = if planner.is_few() { Some(found(view, &*planner.seen())?) } else { None };
    let mut wanted = RankQuery { concepts, within, without, whole };
    let required = wanted.concepts.iter().filter(|concept| concept.is_required);
    let required: Vec<&Vec<Vec<u32>>> = required
        .flat_map(|concept| &concept.alternatives)
        .filter_map(|form| if let Alternative::Chunks(docs, _) = form { Some(docs) } else { None })
        .collect();
    // Who writes quotes wants nothing else, unless there is nothing of the kind.
    if !parsed.any && !required.is_empty() {
        let with_all = common(&required, wanted.within.as_ref());
        let anywhere = wanted.within.replace(with_all);
        let found = best(view, allowed, &wanted, most)?;
        if !found.is_empty() {
            return Ok((found, meant));
        }
        wanted.within = anywhere;
    }
    let found = best(view, allowed, &wanted, most)?;
    let has_phrase = parsed.units.iter().any(|unit| matches!(unit, Unit::Phrase(_)));
    if has_phrase && !parsed.any && !found.is_empty() {
        notes.push("nothing has it word for word; these have some of its words".to_owned());
    }
    Ok((found, meant))
}

/// Chunks that are in all of them, by segment.
fn common(all: &[&Vec<Vec<u32>>], within: Option<&Vec<Vec<u32>>>) -> Vec<Vec<u32>> {
    let mut sets = all.iter().copied().chain(within);
    let Some(first) = sets.next() else { return Vec::new() };
    let mut common = first.clone();
    for set in sets {
        for (docs, other) in common.iter_mut().zip(set) {
            docs.retain(|doc| other.binary_search(doc).is_ok());
        }
    }
    common
}

/// The best chunk of each page first, and then others of the same pages, as far as there is room.
fn hits(
    view: &View,
    request: &Request,
    candidates: &[Candidate],
    limit: usize,
    needles: &HighlightTerms,
) -> Result<Vec<Hit>, IndexError> {
    let (mut hits, mut others, mut pages) = (Vec::with_capacity(limit), Vec::new(), HashSet::new());
    for candidate in candidates {
        if hits.len() == limit {
            break;
        }
        let chunk = view.chunk(candidate.address)?;
        let page = match &chunk.place {
            DocumentPlace::Page(number) | DocumentPlace::ScannedPage(number) | DocumentPlace::Slide(number) => {
                Some((candidate.owner, *number))
            }
            _ => None,
        };
        let is_new = page.is_none_or(|page| pages.insert(page));
        let into = if is_new { &mut hits } else { &mut others };
        let marks = needles.marks(&chunk.text);
        into.extend(hit(view, request, candidate, FoundChunk { chunk, marks }));
    }
    others.truncate(limit.saturating_sub(hits.len()));
    hits.append(&mut others);
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    Ok(hits)
}
