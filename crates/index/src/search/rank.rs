//! The best chunks for some words: which of them a chunk has counts before all else, each as much as it is rare. Those that it lacks
//! and the chunk before or behind it on the page has count in part.
//!
//! Chunks are about equally long, so how often a word stands in one says little, and so does a heading. What cannot be among the best
//! any more is not looked at: the rarest words come first, and once enough chunks have them, the more frequent ones are looked up in
//! those and in the chunks beside them alone.

use std::{cmp::Reverse, collections::BinaryHeap};

use tantivy::{
    DocAddress, DocId, DocSet, SegmentOrdinal, SegmentReader, TERMINATED,
    fieldnorm::FieldNormReader,
    postings::{Postings as _, SegmentPostings},
    schema::IndexRecordOption,
};

use super::{
    collect::{AllowedDocuments, Candidate},
    concept::{Alternative, Concept},
};
use crate::index::{error::IndexError, schema::split_key, view::View};

/// Share by which the second and later places of a word in a chunk can add to the first.
const REPEATED: f32 = 0.3;
/// Share of the length of a chunk that counts against it.
const LENGTH: f32 = 0.2;
/// Bonus of a word in the text that is in the heading, too: no more than any number of repetitions adds.
const HEADING: f32 = 0.25;
/// Share of the worth of words that a chunk lacks and one beside it on the page has. A page says in one paragraph what it is about, and
/// in the next what is asked.
const BESIDE: f32 = 0.4;
/// More than all words together are worth, so that what was asked for to the letter comes first.
const WHOLE_PHRASE: f32 = 1000.0;
/// Chunks that are looked up without a look at which of them still matter.
const FEW: usize = 64;
/// Chunks with a word, in a segment, from which on it is worth the while to look whether they all matter.
const MANY: u32 = 1024;

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
    for (segment, reader) in (0..).zip(view.searcher.segment_readers()) {
        Board::new(view, segment, reader, average)?.fill(wanted, &mut best)?;
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
struct Best<'a> {
    allowed: &'a AllowedDocuments,
    most: usize,
    heap: BinaryHeap<Reverse<RankedChunk>>,
}

impl Best<'_> {
    /// A score that is not among the best.
    fn beaten(&self) -> f32 {
        match self.heap.peek() {
            Some(Reverse(worst)) if self.heap.len() == self.most => worst.0.score,
            _ => 0.0,
        }
    }

    fn add(&mut self, candidate: Candidate) {
        self.heap.push(Reverse(RankedChunk(candidate)));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }
}

/// Score of a chunk, and the concepts that it has.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    score: f32,
    /// A bit for each of the first concepts that it has.
    concepts: u32,
}

/// The scores of the chunks of a segment.
struct Board<'a> {
    view: &'a View,
    segment: SegmentOrdinal,
    reader: &'a SegmentReader,
    lengths: FieldNormReader,
    average: f32,
    tallies: Vec<Tally>,
    /// Those that are looked at further: with a score, or beside one that has it.
    touched: Vec<DocId>,
    /// Those that are left out, in order.
    without: Vec<DocId>,
}

impl<'a> Board<'a> {
    fn new(
        view: &'a View,
        segment: SegmentOrdinal,
        reader: &'a SegmentReader,
        average: f32,
    ) -> Result<Self, IndexError> {
        let lengths = reader.get_fieldnorms_reader(view.fields.words)?;
        let tallies = vec![Tally::default(); reader.max_doc() as usize];
        Ok(Self { view, segment, reader, lengths, average, tallies, touched: Vec::new(), without: Vec::new() })
    }

    fn fill(mut self, wanted: &RankQuery, best: &mut Best<'_>) -> Result<(), IndexError> {
        let of_segment = |docs: &Vec<Vec<DocId>>| docs.get(self.segment as usize).cloned().unwrap_or_default();
        let mut is_closed = wanted.within.is_some();
        if let Some(within) = &wanted.within {
            self.touched = of_segment(within);
            if self.touched.is_empty() {
                return Ok(());
            }
        }
        let whole = wanted.whole.as_ref().map(of_segment).unwrap_or_default();
        self.without = wanted.without.iter().flat_map(of_segment).collect();
        self.without.sort_unstable();
        let may_narrow = !is_closed && whole.is_empty();
        let (mut rest, mut done) = (wanted.concepts.iter().map(Concept::most).sum::<f32>(), 0.0_f32);
        for (concept, bit) in wanted.concepts.iter().zip(bits()) {
            let mut lists = self.lists(concept)?;
            let many: u32 = lists.iter().map(List::size).sum();
            let is_worthwhile = if is_closed { self.touched.len() > FEW } else { rest < done.max(best.beaten()) };
            if may_narrow && many > MANY && is_worthwhile {
                let beaten = self.beaten(best)?;
                is_closed |= rest < beaten;
                if is_closed {
                    self.narrow(&wanted.concepts, rest, beaten);
                }
            }
            // Rounding must not make it less than nothing: of chunks with equal scores none would be left.
            rest = (rest - concept.most()).max(0.0);
            done += concept.most();
            if is_closed {
                self.look_up(&mut lists, concept.weight, bit);
            } else {
                self.add_all(&mut lists, concept.weight, bit);
            }
        }
        for doc in whole {
            if self.score(doc) > 0.0 {
                self.raise(doc, WHOLE_PHRASE, 0);
            }
        }
        for doc in &self.without {
            if let Some(tally) = self.tallies.get_mut(*doc as usize) {
                *tally = Tally::default();
            }
        }
        self.harvest(&wanted.concepts, best)
    }

    /// Keeps the chunks that may still be among the best where the words to come are worth so much, with those beside them. Each of the
    /// others has too little of the words so far, and so have those beside it.
    fn narrow(&mut self, concepts: &[Concept], rest: f32, beaten: f32) {
        let may_reach = |doc: &DocId| {
            let beside = self.beside(*doc, |_| true);
            self.score(*doc) + BESIDE * worth(concepts, beside) + rest >= beaten
        };
        let end = self.reader.max_doc();
        let possible = self.touched.iter().flat_map(|doc| with_neighbours(*doc, end)).filter(may_reach).collect();
        let possible = in_order(possible);
        self.touched = in_order(possible.into_iter().flat_map(|doc| with_neighbours(doc, end)).collect());
    }

    /// A score that is beaten by enough chunks already.
    fn beaten(&self, best: &Best<'_>) -> Result<f32, IndexError> {
        let known = best.beaten();
        if self.touched.len() < best.most {
            return Ok(known);
        }
        let keys = self.view.keys(self.segment)?;
        let is_seen = |doc: &&DocId| {
            let is_wanted = self.without.binary_search(doc).is_err() && !self.reader.is_deleted(**doc);
            is_wanted && best.allowed.has(split_key(keys.get_val(**doc)).0)
        };
        let mut scores: Vec<f32> = self.touched.iter().filter(is_seen).map(|doc| self.score(*doc)).collect();
        let Some(last) = best.most.checked_sub(1).filter(|last| *last < scores.len()) else { return Ok(known) };
        let (_, least, _) = scores.select_nth_unstable_by(last, |one, other| other.total_cmp(one));
        Ok(known.max(*least))
    }

    fn lists<'l>(&self, concept: &'l Concept) -> Result<Vec<List<'l>>, IndexError> {
        let mut lists = Vec::with_capacity(concept.alternatives.len());
        for alternative in &concept.alternatives {
            match alternative {
                Alternative::Term(term, quality) | Alternative::Heading(term, quality) => {
                    let index = self.reader.inverted_index(term.field())?;
                    let is_heading = matches!(alternative, Alternative::Heading(..));
                    if let Some(postings) = index.read_postings(term, IndexRecordOption::WithFreqs)? {
                        lists.push(List {
                            source: Source::Postings(Box::new(postings)),
                            quality: *quality,
                            is_heading,
                        });
                    }
                }
                Alternative::Chunks(docs, quality) => {
                    let docs = docs.get(self.segment as usize).map_or(&[][..], Vec::as_slice);
                    if !docs.is_empty() {
                        lists.push(List { source: Source::Chunks(docs), quality: *quality, is_heading: false });
                    }
                }
            }
        }
        Ok(lists)
    }

    /// Adds to the scores of all chunks that have it.
    fn add_all(&mut self, lists: &mut [List<'_>], weight: f32, bit: u32) {
        loop {
            let next = lists.iter().map(List::doc).min().unwrap_or(TERMINATED);
            if next == TERMINATED {
                return;
            }
            let factor = self.take(lists, next);
            if self.score(next) == 0.0 {
                self.touched.push(next);
            }
            self.raise(next, weight * factor, bit);
        }
    }

    /// Adds to the scores of those that are touched.
    fn look_up(&mut self, lists: &mut [List<'_>], weight: f32, bit: u32) {
        for index in 0..self.touched.len() {
            let Some(doc) = self.touched.get(index).copied() else { return };
            for list in &mut *lists {
                list.seek(doc);
            }
            let factor = self.take(lists, doc);
            self.raise(doc, weight * factor, bit);
        }
    }

    /// The worth of the best of the lists that are at this chunk, which are moved on.
    fn take(&self, lists: &mut [List<'_>], doc: DocId) -> f32 {
        let (mut factor, mut heading): (f32, f32) = (0.0, 0.0);
        for list in lists.iter_mut().filter(|list| list.doc() == doc) {
            if list.is_heading {
                heading = heading.max(list.quality);
                list.advance();
                continue;
            }
            let times = f32::from(u16::try_from(list.times()).unwrap_or(u16::MAX));
            let length = f32::from(u16::try_from(self.lengths.fieldnorm(doc)).unwrap_or(u16::MAX)) / self.average;
            let length = (1.0 - LENGTH + LENGTH * length).max(1.0);
            factor = factor.max(list.quality * times * (1.0 + REPEATED) / (times + REPEATED * length));
            list.advance();
        }
        match (factor > 0.0, heading > 0.0) {
            (true, true) => factor + HEADING,
            (true, false) => factor,
            (false, _) => heading,
        }
    }

    fn tally(&self, doc: DocId) -> Tally {
        self.tallies.get(doc as usize).copied().unwrap_or_default()
    }

    fn score(&self, doc: DocId) -> f32 {
        self.tally(doc).score
    }

    fn raise(&mut self, doc: DocId, by: f32, bit: u32) {
        if let Some(tally) = self.tallies.get_mut(doc as usize).filter(|_| by > 0.0) {
            tally.score += by;
            tally.concepts |= bit;
        }
    }

    fn harvest(self, concepts: &[Concept], best: &mut Best<'_>) -> Result<(), IndexError> {
        let keys = self.view.keys(self.segment)?;
        for doc in &self.touched {
            let score = self.score(*doc);
            if score <= 0.0 {
                continue;
            }
            let may_have = |bits| score + BESIDE * worth(concepts, bits) >= best.beaten();
            let beside = self.beside(*doc, |_| true);
            if !may_have(beside) || self.reader.is_deleted(*doc) {
                continue;
            }
            let key = keys.get_val(*doc);
            let beside =
                if beside == 0 { 0 } else { self.beside(*doc, |other| keys.get_val(other).abs_diff(key) == 1) };
            if !may_have(beside) {
                continue;
            }
            let (address, score) = (DocAddress::new(self.segment, *doc), score + BESIDE * worth(concepts, beside));
            if let Some(candidate) = best.allowed.candidate(key, address, score) {
                best.add(candidate);
            }
        }
        Ok(())
    }

    /// The concepts that a chunk lacks and one beside it has. Chunks of a page are written together, up to
    /// 64 of them, so they mostly stand side by side; where they do not, they count nothing.
    fn beside(&self, doc: DocId, is_beside: impl Fn(DocId) -> bool) -> u32 {
        let own = self.tally(doc).concepts;
        let of_others = [doc.checked_sub(1), doc.checked_add(1)].into_iter().flatten().map(|other| {
            let lacking = self.tally(other).concepts & !own;
            if lacking != 0 && is_beside(other) { lacking } else { 0 }
        });
        of_others.fold(0, |all, lacking| all | lacking)
    }
}

/// A bit for each of the first concepts; none for those behind them.
fn bits() -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).chain(std::iter::repeat(0))
}

/// A chunk and those before and behind it.
fn with_neighbours(doc: DocId, end: DocId) -> impl Iterator<Item = DocId> {
    doc.saturating_sub(1)..doc.saturating_add(2).min(end)
}

fn in_order(mut docs: Vec<DocId>) -> Vec<DocId> {
    docs.sort_unstable();
    docs.dedup();
    docs
}

fn worth(concepts: &[Concept], of: u32) -> f32 {
    let (mut rest, mut worth) = (of, 0.0);
    while rest != 0 {
        worth += concepts.get(rest.trailing_zeros() as usize).map_or(0.0, |concept| concept.weight);
        rest &= rest - 1;
    }
    worth
}

impl Concept {
    /// The most that it can add to a score.
    fn most(&self) -> f32 {
        self.weight * (1.0 + REPEATED + HEADING)
    }
}

/// Chunks that have a word in one of its forms, in order.
struct List<'a> {
    source: Source<'a>,
    quality: f32,
    is_heading: bool,
}

enum Source<'a> {
    Postings(Box<SegmentPostings>),
    Chunks(&'a [DocId]),
}

impl List<'_> {
    fn doc(&self) -> DocId {
        match &self.source {
            Source::Postings(postings) => postings.doc(),
            Source::Chunks(docs) => docs.first().copied().unwrap_or(TERMINATED),
        }
    }

    fn advance(&mut self) {
        match &mut self.source {
            Source::Postings(postings) => drop(postings.advance()),
            Source::Chunks(docs) => *docs = docs.get(1..).unwrap_or_default(),
        }
    }

    /// Goes to this chunk, or to the first one behind it.
    fn seek(&mut self, doc: DocId) {
        if self.doc() >= doc {
            return;
        }
        match &mut self.source {
            Source::Postings(postings) => drop(postings.seek(doc)),
            Source::Chunks(docs) => {
                let before = docs.partition_point(|other| *other < doc);
                *docs = docs.get(before..).unwrap_or_default();
            }
        }
    }

    fn times(&self) -> u32 {
        match &self.source {
            Source::Postings(postings) => postings.term_freq(),
            Source::Chunks(_) => 1,
        }
    }

    fn size(&self) -> u32 {
        match &self.source {
            Source::Postings(postings) => postings.doc_freq(),
            Source::Chunks(docs) => u32::try_from(docs.len()).unwrap_or(u32::MAX),
        }
    }
}
