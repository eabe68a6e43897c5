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
    request::{Answer, Hit, How, MOST_HITS, Request},
};
use crate::{
    analyze::{Dictionary, exact::tokens},
    chunk::Chunk,
    document::DocumentPlace,
    index::{error::IndexError, view::View},
};

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
    let mut answer = Answer::of(How::Index);
    if parsed.units.is_empty() {
        answer.notes.push("there is no word in what was searched for".to_owned());
    }
    if parsed.left_out > 0 {
        let (searched, left_out) = (parsed.units.len() + parsed.excluded.len(), parsed.left_out);
        let note = format!(
            "the query has too many words: its first {searched} were searched for, and {left_out} were left out"
        );
        answer.notes.push(note);
    }
    if allowed.chunks == 0 {
        return Ok(answer);
    }
    let limit = request.limit.clamp(1, MOST_HITS);
    let found = candidates(view, allowed, &parsed, limit * LOOKED_AT)?;
    let needles = HighlightTerms::new(&parsed, &found.meant);
    answer.hits = hits(view, request, &found.candidates, limit, &needles)?;
    answer.is_loose = found.is_loose;
    // Of several words nearly every chunk has one, and the best come first: that there are more says something where each has all.
    let has_all = parsed.units.len() == 1 || has_phrase(&parsed);
    answer.more = has_all && !found.is_loose && found.candidates.len() > answer.hits.len();
    Ok(answer)
}

/// Chunks that may be hits, the best first.
struct FoundCandidates {
    candidates: Vec<Candidate>,
    /// Words that were taken for what was meant.
    meant: Vec<String>,
    /// Set if a phrase in quotes stands nowhere, and they have some of its words.
    is_loose: bool,
}

/// Returns whether something is in quotes that chunks must have.
fn has_phrase(parsed: &ParsedQuery) -> bool {
    !parsed.any && parsed.units.iter().any(|unit| matches!(unit, Unit::Phrase(_)))
}

fn candidates(
    view: &View,
    allowed: &AllowedDocuments,
    parsed: &ParsedQuery,
    most: usize,
) -> Result<FoundCandidates, IndexError> {
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
            return Ok(FoundCandidates { candidates: found, meant, is_loose: false });
        }
        wanted.within = anywhere;
    }
    let candidates = best(view, allowed, &wanted, most)?;
    let is_loose = has_phrase(parsed) && !candidates.is_empty();
    Ok(FoundCandidates { candidates, meant, is_loose })
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
    let (mut chosen, mut others, mut pages) = (Vec::with_capacity(limit), Vec::new(), HashSet::new());
    for candidate in candidates {
        if chosen.len() == limit {
            break;
        }
        let chunk = view.chunk(candidate.address)?;
        let page = page_of(&chunk.place).map(|(path, number)| (candidate.owner, path.map(str::to_owned), number));
        let is_new = page.is_none_or(|page| pages.insert(page));
        if is_new { &mut chosen } else { &mut others }.push((candidate, chunk));
    }
    others.truncate(limit.saturating_sub(chosen.len()));
    chosen.append(&mut others);
    chosen.sort_by(|(one, _), (other, _)| other.score.total_cmp(&one.score));
    // Marks are looked for in those that are told only: a text is taken apart for them.
    let marked = |(candidate, chunk): (&Candidate, Chunk)| {
        let marks = needles.marks(&chunk.text);
        hit(view, request, candidate, FoundChunk { chunk, marks })
    };
    Ok(chosen.into_iter().filter_map(marked).collect())
}

/// The page or slide that a place is on, with the path of its document in an archive; none for places of other kinds.
fn page_of(place: &DocumentPlace) -> Option<(Option<&str>, u32)> {
    match place {
        DocumentPlace::Page(number) | DocumentPlace::ScannedPage(number) | DocumentPlace::Slide(number) => {
            Some((None, *number))
        }
        DocumentPlace::Inner { path, place } => page_of(place).map(|(_, number)| (Some(path.as_str()), number)),
        _ => None,
    }
}
