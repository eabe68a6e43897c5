//! Searching by words: the index knows all.

use std::collections::HashSet;

use super::{
    Answer, Hit, How, MOST_HITS, Request,
    concept::{Alternative, Concepts, FoundChunks, found},
    hit,
    marks::HighlightTerms,
    parse::{ParsedQuery, Unit, parse},
    plan::{AllowedDocuments, Candidate, Planner},
    rank::{RankQuery, best},
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
    let planner = Planner { fields: &view.fields, allowed };
    let (concepts, meant) = Concepts::of(parsed, view, &planner)?;
    let mut without = FoundChunks::new();
    for unit in &parsed.excluded {
        without.extend(found(view, planner.excluded(unit))?);
    }
    let is_short = parsed.units.len() > 1 && tokens(&parsed.whole).len() <= MOST_WHOLE;
    let whole = found(view, planner.phrase(&parsed.whole).filter(|_| is_short))?;
    let required = concepts.iter().filter(|concept| concept.is_required && !parsed.any);
    let required = required.flat_map(|concept| &concept.alternatives).filter_map(|form| match form {
        Alternative::Chunks(found) => Some(found.clone()),
        Alternative::Term(..) => None,
    });
    let within = required.reduce(|one, other| one.intersection(&other).copied().collect());
    let mut wanted = RankQuery { concepts, within, without, whole };
    let mut candidates = best(view, allowed, &wanted, most)?;
    // Who writes quotes wants nothing else, unless there is nothing of the kind.
    let mut is_loose = false;
    if candidates.is_empty() && wanted.within.take().is_some() {
        candidates = best(view, allowed, &wanted, most)?;
        is_loose = has_phrase(parsed) && !candidates.is_empty();
    }
    Ok(FoundCandidates { candidates, meant, is_loose })
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
        hit(view, request, candidate, chunk, &marks)
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
