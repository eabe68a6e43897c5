//! The scores of the chunks of a segment.
//!
//! Chunks that cannot be among the best any more are not looked at: the rarest words come first, and once enough have them, the more
//! frequent ones are looked up in those and in the chunks beside them alone.

use tantivy::{DocAddress, DocId, SegmentOrdinal, SegmentReader, TERMINATED, fieldnorm::FieldNormReader};

use super::{
    bounds::Bounds,
    concept::Concept,
    lists::{ChunkList, lists},
    rank::{Best, RankQuery},
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

/// Score of a chunk, and the concepts that it has.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    score: f32,
    /// A bit for each of the first concepts that it has.
    concepts: u32,
}

/// The scores of the chunks of a segment, concept by concept.
pub(super) struct Board<'a> {
    view: &'a View,
    segment: SegmentOrdinal,
    reader: &'a SegmentReader,
    concepts: &'a [Concept],
    lengths: FieldNormReader,
    average: f32,
    tallies: Vec<Tally>,
    /// Those that are looked at further: with a score, or beside one that has it.
    touched: Vec<DocId>,
    /// Set if no others are looked at.
    is_closed: bool,
    /// Those that are left out, in order.
    without: Vec<DocId>,
    /// Those that have the query to the letter.
    whole: Vec<DocId>,
}

impl<'a> Board<'a> {
    /// An empty board; `average` is the length of a chunk in words.
    pub(super) fn new(
        view: &'a View,
        segment: SegmentOrdinal,
        average: f32,
        wanted: &'a RankQuery,
    ) -> Result<Self, IndexError> {
        let of_segment = |docs: &Vec<Vec<DocId>>| docs.get(segment as usize).cloned().unwrap_or_default();
        let reader = view.searcher.segment_reader(segment);
        let mut without: Vec<DocId> = wanted.without.iter().flat_map(of_segment).collect();
        without.sort_unstable();
        Ok(Self {
            view,
            segment,
            reader,
            concepts: &wanted.concepts,
            lengths: reader.get_fieldnorms_reader(view.fields.words)?,
            average,
            tallies: vec![Tally::default(); reader.max_doc() as usize],
            touched: wanted.within.as_ref().map(of_segment).unwrap_or_default(),
            is_closed: wanted.within.is_some(),
            without,
            whole: wanted.whole.as_ref().map(of_segment).unwrap_or_default(),
        })
    }

    /// Counts all concepts, and adds what may be among the best.
    pub(super) fn fill(mut self, best: &mut Best<'_>) -> Result<(), IndexError> {
        if self.is_closed && self.touched.is_empty() {
            return Ok(());
        }
        // What has the query to the letter is above any bound, and what is given from outside stays what is looked at.
        let may_narrow = !self.is_closed && self.whole.is_empty();
        let mut bounds = Bounds::before(self.concepts.iter().map(most));
        for (concept, bit) in self.concepts.iter().zip(bits()) {
            let mut lists = lists(self.reader, self.segment, concept)?;
            if may_narrow && lists.iter().map(ChunkList::size).sum::<u32>() > MANY {
                self.narrow(&bounds, best)?;
            }
            if self.is_closed {
                self.look_up(&mut lists, concept.weight, bit);
            } else {
                self.add_all(&mut lists, concept.weight, bit);
            }
            bounds.pass(most(concept));
        }
        self.raise_whole();
        self.leave_out();
        self.harvest(best)
    }

    /// Looks no further at chunks that cannot be among the best any more, if there are such.
    fn narrow(&mut self, bounds: &Bounds, best: &Best<'_>) -> Result<(), IndexError> {
        let is_worthwhile = if self.is_closed { self.touched.len() > FEW } else { bounds.may_close(best.beaten()) };
        if !is_worthwhile {
            return Ok(());
        }
        let beaten = self.beaten(best)?;
        self.is_closed |= bounds.to_come < beaten;
        if self.is_closed {
            self.keep_possible(bounds.to_come, beaten);
        }
        Ok(())
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

    /// Keeps the chunks that may still be among the best where the words to come are worth so much, with those beside them. Each of the
    /// others has too little of the words so far, and so have those beside it.
    fn keep_possible(&mut self, to_come: f32, beaten: f32) {
        let may_reach = |doc: &DocId| {
            let beside = self.worth(self.beside(*doc, |_| true));
            self.score(*doc) + BESIDE * beside + to_come >= beaten
        };
        let end = self.reader.max_doc();
        let possible = self.touched.iter().flat_map(|doc| with_neighbours(*doc, end)).filter(may_reach).collect();
        let possible = in_order(possible);
        self.touched = in_order(possible.into_iter().flat_map(|doc| with_neighbours(doc, end)).collect());
    }

    /// Adds to the scores of all chunks that have it.
    fn add_all(&mut self, lists: &mut [ChunkList<'_>], weight: f32, bit: u32) {
        loop {
            let next = lists.iter().map(ChunkList::doc).min().unwrap_or(TERMINATED);
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
    fn look_up(&mut self, lists: &mut [ChunkList<'_>], weight: f32, bit: u32) {
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
    fn take(&self, lists: &mut [ChunkList<'_>], doc: DocId) -> f32 {
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

    fn raise_whole(&mut self) {
        for doc in std::mem::take(&mut self.whole) {
            if self.score(doc) > 0.0 {
                self.raise(doc, WHOLE_PHRASE, 0);
            }
        }
    }

    fn leave_out(&mut self) {
        for doc in &self.without {
            if let Some(tally) = self.tallies.get_mut(*doc as usize) {
                *tally = Tally::default();
            }
        }
    }

    fn harvest(self, best: &mut Best<'_>) -> Result<(), IndexError> {
        let keys = self.view.keys(self.segment)?;
        for doc in &self.touched {
            let score = self.score(*doc);
            if score <= 0.0 {
                continue;
            }
            let may_have = |beside| score + BESIDE * self.worth(beside) >= best.beaten();
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
            let (address, score) = (DocAddress::new(self.segment, *doc), score + BESIDE * self.worth(beside));
            if let Some(candidate) = best.allowed.candidate(key, address, score) {
                best.add(candidate);
            }
        }
        Ok(())
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

    fn worth(&self, of: u32) -> f32 {
        let (mut rest, mut worth) = (of, 0.0);
        while rest != 0 {
            worth += self.concepts.get(rest.trailing_zeros() as usize).map_or(0.0, |concept| concept.weight);
            rest &= rest - 1;
        }
        worth
    }
}

/// The most that a concept can add to a score.
fn most(concept: &Concept) -> f32 {
    concept.weight * (1.0 + REPEATED + HEADING)
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
