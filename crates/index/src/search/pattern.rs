//! Searching by regular expressions: the index narrows, then the chunks that are left are read.

use std::{collections::HashMap, ops::Range, time::Instant};

use regex::{Regex, RegexBuilder};
use tantivy::store::StoreReader;
use tokio_util::sync::CancellationToken;

use super::{
    FoundChunk,
    collect::{All, AllowedDocuments, Candidate},
    hit,
    narrow::Need,
    plan::Planner,
    request::{Answer, How, MOST_HITS, Request},
};
use crate::index::{error::IndexError, view::View};

/// Bytes that an expression may take once it is compiled.
const COMPILED: usize = 2 * 1024 * 1024;
/// Maximum number of highlighted hits in one chunk.
const MARKS: usize = 64;
/// After how many chunks it is asked whether to go on.
const CHECK_EVERY: usize = 64;
/// Number of spans that are kept for the next chunk.
const KEPT: usize = 4;

/// When to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) deadline: Instant,
    pub(crate) cancel: CancellationToken,
}

/// A regular expression, which takes time in proportion to the text and no more, whatever it is.
pub(crate) struct Pattern {
    regex: Regex,
    need: Need,
}

impl Pattern {
    /// Reads an expression. The error says in a line what is wrong with it.
    pub(crate) fn new(pattern: &str, case_sensitive: bool) -> Result<Self, String> {
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(!case_sensitive)
            .multi_line(true)
            .size_limit(COMPILED)
            .dfa_size_limit(COMPILED)
            .nest_limit(64)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                // The last line says what, those above it show where.
                error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            })?;
        Ok(Self { regex, need: Need::of(pattern) })
    }

    fn marks(&self, text: &str) -> Vec<Range<usize>> {
        // What matches nothing at some place, such as `x*`, is no hit there.
        self.regex.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()).take(MARKS).collect()
    }
}

/// Chunks that match, in the order of the documents.
pub(crate) fn search(
    view: &View,
    request: &Request,
    allowed: &AllowedDocuments,
    pattern: &Pattern,
    stop: &Stop,
) -> Result<Answer, IndexError> {
    let planner = Planner { fields: &view.fields, allowed, all_chunks: view.searcher.num_docs() };
    let narrowed = pattern.need.query(&planner);
    let how = if narrowed.is_some() { How::Narrowed } else { How::Scan };
    let mut answer = Answer::of(how);
    if allowed.chunks == 0 {
        return Ok(answer);
    }
    let query = narrowed.unwrap_or_else(|| planner.seen());
    let mut candidates: Vec<Candidate> = view.searcher.search(&query, &All { view, allowed })?;
    candidates.sort_by_key(Candidate::place);
    let limit = request.limit.clamp(1, MOST_HITS);
    let mut texts = Texts { view, stores: HashMap::new() };
    for (read, candidate) in candidates.iter().enumerate() {
        if read % CHECK_EVERY == 0 {
            if stop.cancel.is_cancelled() {
                return Err(IndexError::Cancelled);
            }
            if Instant::now() >= stop.deadline {
                answer.complete = false;
                answer.notes.push(format!("stopped after {read} of {} chunks, as it took too long", candidates.len()));
                break;
            }
        }
        let chunk = texts.chunk(candidate)?;
        let marks = pattern.marks(&chunk.text);
        if marks.is_empty() {
            continue;
        }
        if answer.hits.len() == limit {
            answer.more = true;
            break;
        }
        #[expect(clippy::cast_precision_loss, reason = "there are few marks")]
        let candidate = Candidate { score: marks.len() as f32, ..*candidate };
        answer.hits.extend(hit(view, request, &candidate, FoundChunk { chunk, marks }));
    }
    Ok(answer)
}

/// Texts one after the other, of which those that lie side by side are unpacked together.
struct Texts<'a> {
    view: &'a View,
    stores: HashMap<u32, StoreReader>,
}

impl Texts<'_> {
    fn chunk(&mut self, candidate: &Candidate) -> Result<crate::chunk::Chunk, IndexError> {
        let segment = candidate.address.segment_ord;
        let store = match self.stores.entry(segment) {
            std::collections::hash_map::Entry::Occupied(store) => store.into_mut(),
            std::collections::hash_map::Entry::Vacant(empty) => {
                empty.insert(self.view.searcher.segment_reader(segment).get_store_reader(KEPT)?)
            }
        };
        self.view.chunk_through(store, candidate.address.doc_id)
    }
}
