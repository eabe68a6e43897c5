//! The best chunks for some words: which of them a chunk has counts before all else, each as much as it is rare. Those that it lacks
//! and the chunk before or behind it on the page has count in part.
//!
//! Chunks are about equally long, so how often a word stands in one says little, and so does a heading.

use std::{cmp::Reverse, collections::BinaryHeap};

use tantivy::DocId;

use super::{
    board::Board,
    collect::{AllowedDocuments, Candidate},
    concept::Concept,
};
use crate::index::{error::IndexError, view::View};

/// Chunks that are looked for.
pub(super) struct RankQuery {
    /// The rarest first.
    pub(super) concepts: Vec<Concept>,
    /// Chunks that are looked at, by segment; none for all.
    pub(super) within: Option<Vec<Vec<DocId>>>,
    /// Chunks that are left out, by segment.
    pub(super) without: Vec<Vec<Vec<DocId>>>,
    /// Chunks that have the query to the letter, by segment.
    pub(super) whole: Option<Vec<Vec<DocId>>>,
}

/// The best chunks of those that may be seen, at most so many; the best first.
pub(super) fn best(
    view: &View,
    allowed: &AllowedDocuments,
    wanted: &RankQuery,
    most: usize,
) -> Result<Vec<Candidate>, IndexError> {
    let mut best = Best { allowed, most, heap: BinaryHeap::with_capacity(most + 1) };
    let average = average_length(view)?;
    for (segment, _) in (0..).zip(view.searcher.segment_readers()) {
        Board::new(view, segment, average, wanted)?.fill(&mut best)?;
    }
    let mut found: Vec<Candidate> = best.heap.into_iter().map(|Reverse(ranked)| ranked.0).collect();
    found.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.place().cmp(&other.place())));
    Ok(found)
}

#[expect(clippy::cast_precision_loss, reason = "it is an average")]
fn average_length(view: &View) -> Result<f32, IndexError> {
    let tokens = view
        .searcher
        .segment_readers()
        .iter()
        .map(|reader| reader.inverted_index(view.fields.words).map(|index| index.total_num_tokens()));
    let tokens: u64 = tokens.sum::<tantivy::Result<u64>>()?;
    Ok((tokens as f32 / view.searcher.num_docs().max(1) as f32).max(1.0))
}

/// Ordered by score; of equal ones the first in the order of the documents is the better one.
#[derive(PartialEq)]
struct RankedChunk(Candidate);

impl Eq for RankedChunk {}

impl Ord for RankedChunk {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.score.total_cmp(&other.0.score).then_with(|| other.0.place().cmp(&self.0.place()))
    }
}

impl PartialOrd for RankedChunk {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The best of the segments that were looked through.
pub(super) struct Best<'a> {
    pub(super) allowed: &'a AllowedDocuments,
    pub(super) most: usize,
    heap: BinaryHeap<Reverse<RankedChunk>>,
}

impl Best<'_> {
    /// A score that is not among the best.
    pub(super) fn beaten(&self) -> f32 {
        match self.heap.peek() {
            Some(Reverse(worst)) if self.heap.len() == self.most => worst.0.score,
            _ => 0.0,
        }
    }

    pub(super) fn add(&mut self, candidate: Candidate) {
        self.heap.push(Reverse(RankedChunk(candidate)));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }
}
