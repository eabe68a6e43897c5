//! Search by words. The rank of a chunk mainly depends on the query words that the chunk contains, weighted by rarity.
//! Missing words count partly if the previous or next chunk on the same page contains them.
//!
//! Chunks have about the same length, so repetitions of a word add little, and so does an occurrence in the heading.

use std::{cmp::Ordering, collections::HashSet};

use agentd_core::{embedding::rank_weight, knowledge::SearchedBy};
use tantivy::{
    DocAddress, DocId, DocSet as _, SegmentOrdinal, TERMINATED, postings::Postings as _, schema::IndexRecordOption,
};

use super::{
    Answer, Hit, MAX_HITS, hit,
    marks::HighlightTerms,
    parse::{ParsedQuery, Unit, parse},
    plan::{Alternative, Candidate, Concept, Concepts, FoundChunks, Planner},
};
use crate::{
    analyze::{Dictionary, exact::tokens},
    chunk::Chunk,
    document::DocumentPlace,
    index::{IndexError, schema::key, view::View},
};

/// Maximum number of words in a query that is also searched as one exact phrase. Longer queries are mostly questions,
/// which occur in no text.
const MAX_PHRASE_WORDS: usize = 10;
/// Number of chunks that are examined per hit, so that chunks on other pages can be preferred to further chunks on the
/// same page.
const CHUNKS_PER_HIT: usize = 3;

/// Returns the chunks that match the most words.
pub(crate) fn search(planner: &Planner<'_>, dictionary: &Dictionary, text: &str) -> Result<Answer, IndexError> {
    let parsed = parse(text, dictionary);
    let mut answer = Answer::of(SearchedBy::Words);
    if parsed.units.is_empty() {
        answer.notes.push("the query has no words".to_owned());
    }
    if parsed.left_out > 0 {
        let (searched, left_out) = (parsed.units.len() + parsed.excluded.len(), parsed.left_out);
        let note =
            format!("the query has too many words: only the first {searched} were used, and {left_out} were ignored");
        answer.notes.push(note);
    }
    if planner.allowed.chunks == 0 {
        return Ok(answer);
    }
    let limit = planner.request.limit.clamp(1, MAX_HITS);
    let (concepts, corrections) = Concepts::of(&parsed, planner)?;
    let (mut candidates, is_loose) = candidates(planner, concepts, &parsed, limit * CHUNKS_PER_HIT)?;
    // A chunk that is only similar may lack what the query demands, or have what it excludes.
    if !planner.request.similar.is_empty() && !has_phrase(&parsed) && parsed.excluded.is_empty() {
        add_similar(planner, &mut candidates, limit * CHUNKS_PER_HIT)?;
    }
    answer.hits = hits(planner, &candidates, limit, &HighlightTerms::new(&parsed, &corrections))?;
    answer.is_loose = is_loose;
    // With several words, nearly every chunk contains one of them, so the number of matches is only meaningful if each
    // match contains all words.
    let has_all = parsed.units.len() == 1 || has_phrase(&parsed);
    answer.more = has_all && !is_loose && candidates.len() > answer.hits.len();
    Ok(answer)
}

/// Fuses the ranking by words with that by meaning. Exact matches stay first. The best fused score is
/// about that of the best chunk by words, so that hits of several searches can be merged.
fn add_similar(planner: &Planner<'_>, candidates: &mut Vec<Candidate>, most: usize) -> Result<(), IndexError> {
    let Planner { view, request, allowed } = planner;
    let best = candidates.iter().map(|candidate| candidate.score).find(|score| *score < EXACT_BONUS).unwrap_or(1.0);
    for (position, candidate) in candidates.iter_mut().enumerate().filter(|(_, it)| it.score < EXACT_BONUS) {
        candidate.score = best * rank_weight(position);
    }
    for (position, (id, text_key)) in request.similar.iter().take(most).enumerate() {
        let (ordinal, score) = ((text_key >> 32) as u32, best * rank_weight(position));
        let Some(owner) = view.entries.get(id).map(|entry| entry.owner) else { continue };
        let Some(address) = view.address_of(owner, ordinal)? else { continue };
        // The document may have been split differently when its texts were embedded.
        if view.chunk(address)?.to_embed(ordinal).0 != *text_key {
            continue;
        }
        match candidates.iter_mut().find(|candidate| candidate.address == address) {
            Some(candidate) => candidate.score += score,
            None => candidates.extend(allowed.candidate(key(owner, ordinal), address, score)),
        }
    }
    candidates.sort_by(order);
    Ok(())
}

/// Orders candidates by score. Ties are in document order.
fn order(one: &Candidate, other: &Candidate) -> Ordering {
    other.score.total_cmp(&one.score).then_with(|| one.place().cmp(&other.place()))
}

/// Returns true if the query has a quoted phrase that chunks must contain.
fn has_phrase(parsed: &ParsedQuery) -> bool {
    !parsed.any && parsed.units.iter().any(|unit| matches!(unit, Unit::Phrase(_)))
}

/// Returns the best candidates. Also returns true if a quoted phrase does not occur, so that the candidates only
/// contain some of its words.
fn candidates(
    planner: &Planner<'_>,
    concepts: Vec<Concept>,
    parsed: &ParsedQuery,
    most: usize,
) -> Result<(Vec<Candidate>, bool), IndexError> {
    let mut excluded_chunks = FoundChunks::new();
    for unit in &parsed.excluded {
        excluded_chunks.extend(planner.found(planner.excluded(unit))?);
    }
    let is_short = parsed.units.len() > 1 && tokens(&parsed.whole).len() <= MAX_PHRASE_WORDS;
    let whole = planner.found(planner.phrase(&parsed.whole).filter(|_| is_short))?;
    let required = concepts.iter().filter(|concept| concept.is_required && !parsed.any);
    let required = required.flat_map(|concept| &concept.alternatives).filter_map(|form| match form {
        Alternative::Chunks(found) => Some(found.clone()),
        Alternative::Term(..) => None,
    });
    let allowed_chunks = required.reduce(|one, other| one.intersection(&other).copied().collect());
    let mut wanted = RankQuery { concepts, allowed_chunks, excluded_chunks, whole };
    let mut candidates = best(planner, &wanted, most)?;
    // A quoted phrase is required, unless no chunk contains it.
    let mut is_loose = false;
    if candidates.is_empty() && wanted.allowed_chunks.take().is_some() {
        candidates = best(planner, &wanted, most)?;
        is_loose = has_phrase(parsed) && !candidates.is_empty();
    }
    Ok((candidates, is_loose))
}

/// Selects the best chunk of each page first, followed by other chunks of the same pages if the limit allows.
fn hits(
    planner: &Planner<'_>,
    candidates: &[Candidate],
    limit: usize,
    needles: &HighlightTerms,
) -> Result<Vec<Hit>, IndexError> {
    let (mut chosen, mut others, mut pages) = (Vec::with_capacity(limit), Vec::new(), HashSet::new());
    for candidate in candidates {
        if chosen.len() == limit {
            break;
        }
        let chunk = planner.view.chunk(candidate.address)?;
        let page = page_of(&chunk.place).map(|(path, number)| (candidate.owner, path.map(str::to_owned), number));
        let is_new = page.is_none_or(|page| pages.insert(page));
        if is_new { &mut chosen } else { &mut others }.push((candidate, chunk));
    }
    others.truncate(limit.saturating_sub(chosen.len()));
    chosen.append(&mut others);
    chosen.sort_by(|(one, _), (other, _)| other.score.total_cmp(&one.score));
    // Only highlight the selected chunks, since highlighting tokenizes their text.
    let marked = |(candidate, chunk): (&Candidate, Chunk)| {
        let marks = needles.marks(&chunk.text);
        hit(planner, candidate, chunk, &marks)
    };
    Ok(chosen.into_iter().filter_map(marked).collect())
}

/// Returns the page or slide of a location, with the path of its document in an archive, or `None` for other locations.
fn page_of(place: &DocumentPlace) -> Option<(Option<&str>, u32)> {
    match place {
        DocumentPlace::Page(number) | DocumentPlace::ScannedPage(number) | DocumentPlace::Slide(number) => {
            Some((None, *number))
        }
        DocumentPlace::Inner { path, place } => page_of(place).map(|(_, number)| (Some(path.as_str()), number)),
        _ => None,
    }
}

/// Maximum bonus for repetitions of a word in a chunk, as a share of its weight.
const REPETITION_BONUS: f32 = 0.3;
/// Share of a chunk's length in the length normalisation.
const LENGTH_SHARE: f32 = 0.2;
/// Bonus for a word in the text that also occurs in the heading. At most as much as repetitions can add.
const HEADING_BONUS: f32 = 0.25;
/// Factor for words that the chunk does not contain but a neighbour on the same page does. A page may introduce its
/// subject in one paragraph and give the answer in the next one.
const NEIGHBOUR_FACTOR: f32 = 0.4;
/// Bonus for the exact query, larger than the weight of all words, so that exact matches come first.
const EXACT_BONUS: f32 = 1000.0;

/// Ranking criteria of a query.
struct RankQuery {
    /// Concepts, the rarest one first.
    concepts: Vec<Concept>,
    /// Chunks to which the search is restricted, or `None` for all chunks.
    allowed_chunks: Option<FoundChunks>,
    excluded_chunks: FoundChunks,
    /// Chunks that contain the exact query.
    whole: FoundChunks,
}

/// Score of a chunk and the concepts that it contains.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkScore {
    score: f32,
    /// Bit set of the first concepts that the chunk contains.
    concepts: u32,
    /// Weight of the current concept in the chunk's text, and in its heading.
    text: f32,
    heading: f32,
}

/// Returns at most `most` visible chunks, best first. Ties are in document order.
fn best(planner: &Planner<'_>, wanted: &RankQuery, most: usize) -> Result<Vec<Candidate>, IndexError> {
    let Planner { view, allowed, .. } = planner;
    let tokens = view.searcher.segment_readers().iter().map(|reader| reader.inverted_index(view.fields.words));
    let tokens: u64 = tokens.map(|index| index.map(|index| index.total_num_tokens())).sum::<tantivy::Result<u64>>()?;
    let average = (tokens as f32 / view.searcher.num_docs().max(1) as f32).max(1.0);
    let mut found = Vec::new();
    for (segment, reader) in (0..).zip(view.searcher.segment_readers()) {
        let (chunk_scores, keys) = (chunk_scores(view, segment, average, wanted)?, view.keys(segment)?);
        for (doc, tally) in (0..).zip(&chunk_scores).filter(|(_, tally)| tally.score > 0.0) {
            if reader.is_deleted(doc) {
                continue;
            }
            let (address, key) = (DocAddress::new(segment, doc), keys.get_val(doc));
            // Chunks on a page are mostly neighbours, because up to 64 are written together. Other chunks are not
            // considered.
            let neighbours = |other: Option<DocId>| {
                let lacking = chunk_scores.get(other? as usize)?.concepts & !tally.concepts;
                (lacking != 0 && keys.get_val(other?).abs_diff(key) == 1).then_some(lacking)
            };
            let neighbours =
                [doc.checked_sub(1), doc.checked_add(1)].map(|other| neighbours(other).unwrap_or_default());
            let whole = if wanted.whole.contains(&address) { EXACT_BONUS } else { 0.0 };
            let score =
                tally.score + whole + NEIGHBOUR_FACTOR * total_weight(&wanted.concepts, neighbours[0] | neighbours[1]);
            found.extend(allowed.candidate(key, address, score));
        }
    }
    if found.len() > most {
        found.select_nth_unstable_by(most, order);
        found.truncate(most);
    }
    found.sort_by(order);
    Ok(found)
}

/// Scores the chunks in a segment. `average` is the mean length of a chunk in words.
fn chunk_scores(
    view: &View,
    segment: SegmentOrdinal,
    average: f32,
    wanted: &RankQuery,
) -> Result<Vec<ChunkScore>, IndexError> {
    let reader = view.searcher.segment_reader(segment);
    let lengths = reader.get_fieldnorms_reader(view.fields.words)?;
    let in_text = |doc: DocId, quality: f32, times: u32| {
        let number = |number: u32| f32::from(u16::try_from(number).unwrap_or(u16::MAX));
        let length = (1.0 - LENGTH_SHARE + LENGTH_SHARE * number(lengths.fieldnorm(doc)) / average).max(1.0);
        quality * number(times) * (1.0 + REPETITION_BONUS) / (number(times) + REPETITION_BONUS * length)
    };
    let mut chunk_scores = vec![ChunkScore::default(); reader.max_doc() as usize];
    // Concepts beyond the first 32 get no bit.
    let bits = (0..u32::BITS).map(|bit| 1 << bit).chain(std::iter::repeat(0));
    for (concept, bit) in wanted.concepts.iter().zip(bits) {
        for alternative in &concept.alternatives {
            let (term, quality) = match alternative {
                Alternative::Chunks(found) => {
                    for chunk in found.iter().filter(|chunk| chunk.segment_ord == segment) {
                        if let Some(tally) = chunk_scores.get_mut(chunk.doc_id as usize) {
                            tally.text = tally.text.max(in_text(chunk.doc_id, 1.0, 1));
                        }
                    }
                    continue;
                }
                Alternative::Term(term, quality) => (term, *quality),
            };
            let index = reader.inverted_index(term.field())?;
            let Some(mut postings) = index.read_postings(term, IndexRecordOption::WithFreqs)? else { continue };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if let Some(tally) = chunk_scores.get_mut(doc as usize) {
                    if term.field() == view.fields.heading {
                        tally.heading = tally.heading.max(quality);
                    } else {
                        tally.text = tally.text.max(in_text(doc, quality, postings.term_freq()));
                    }
                }
                postings.advance();
            }
        }
        for tally in &mut chunk_scores {
            let (text, heading) = (std::mem::take(&mut tally.text), std::mem::take(&mut tally.heading));
            let factor = if text > 0.0 && heading > 0.0 { text + HEADING_BONUS } else { text.max(heading) };
            if factor > 0.0 {
                tally.score += concept.weight * factor;
                tally.concepts |= bit;
            }
        }
    }
    let is_wanted = |chunk: DocAddress| {
        !wanted.excluded_chunks.contains(&chunk)
            && wanted.allowed_chunks.as_ref().is_none_or(|allowed_chunks| allowed_chunks.contains(&chunk))
    };
    for (doc, tally) in (0..).zip(&mut chunk_scores).filter(|(_, tally)| tally.score > 0.0) {
        if !is_wanted(DocAddress::new(segment, doc)) {
            *tally = ChunkScore::default();
        }
    }
    Ok(chunk_scores)
}

/// Returns the sum of the weights of the concepts whose bits are set.
fn total_weight(concepts: &[Concept], of: u32) -> f32 {
    let set = concepts.iter().take(u32::BITS as usize).enumerate().filter(|(bit, _)| of >> bit & 1 != 0);
    set.map(|(_, concept)| concept.weight).sum()
}
