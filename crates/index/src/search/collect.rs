//! The best chunks among those that may be seen, and no others.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, hash_map::Entry::Vacant},
    sync::{Mutex, PoisonError},
};

use tantivy::{
    DocAddress, DocId, Score, SegmentOrdinal, SegmentReader,
    collector::{Collector, SegmentCollector},
    query::Weight,
};

use super::request::Visible;
use crate::index::{
    id::DocumentId,
    schema::{ENTRY_ORDINAL, split_key},
    view::View,
};

/// The documents that may be seen, of those that are there.
#[derive(Debug, Default)]
pub(crate) struct AllowedDocuments {
    /// A bit for every number.
    bits: Vec<u64>,
    /// Where in the request a document stands, by its number.
    positions: HashMap<u32, usize>,
    /// Chunks of all of them.
    pub(crate) chunks: u64,
    /// Those that are not there.
    pub(crate) missing: Vec<DocumentId>,
}

impl AllowedDocuments {
    pub(crate) fn new(view: &View, documents: &[Visible]) -> Self {
        let mut allowed = Self { positions: HashMap::with_capacity(documents.len()), ..Self::default() };
        for (position, document) in documents.iter().enumerate() {
            let Some(entry) = view.entries.get(&document.id) else {
                allowed.missing.push(document.id);
                continue;
            };
            let word = entry.owner as usize / 64;
            if allowed.bits.len() <= word {
                allowed.bits.resize(word + 1, 0);
            }
            if let Some(bits) = allowed.bits.get_mut(word) {
                *bits |= 1 << (entry.owner % 64);
            }
            // The same document under two names is cited by the first.
            if let Vacant(empty) = allowed.positions.entry(entry.owner) {
                empty.insert(position);
                allowed.chunks += u64::from(entry.chunks);
            }
        }
        allowed
    }

    pub(crate) fn owners(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.positions.keys().copied()
    }

    fn has(&self, owner: u32) -> bool {
        self.bits.get(owner as usize / 64).is_some_and(|bits| bits & (1 << (owner % 64)) != 0)
    }

    /// A chunk with the place of its document in the request; none where it must not be seen, or is none.
    pub(crate) fn candidate(&self, key: u64, address: DocAddress, score: Score) -> Option<Candidate> {
        let (owner, ordinal) = split_key(key);
        let position = *self.positions.get(&owner)?;
        (ordinal != ENTRY_ORDINAL).then_some(Candidate { position, owner, ordinal, address, score })
    }
}

/// A chunk that was found, still without its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    /// Where in the request its document stands.
    pub(crate) position: usize,
    pub(crate) owner: u32,
    pub(crate) ordinal: u32,
    pub(crate) address: DocAddress,
    pub(crate) score: Score,
}

impl Candidate {
    /// In the order of the documents.
    pub(crate) const fn place(&self) -> (usize, u32) {
        (self.position, self.ordinal)
    }
}

/// The best of what a query finds. What must not be seen is left out before it can take a place, and what cannot be among the
/// best is skipped by the library.
pub(crate) struct Best<'a> {
    view: &'a View,
    allowed: &'a AllowedDocuments,
    limit: usize,
    /// The best scores of the segments that were looked through, sorted: what is worse than all of them is skipped in the
    /// next one.
    scores: Mutex<Vec<Score>>,
}

/// Ordered by score; where scores are the same, the one that was indexed first is the better one.
#[derive(PartialEq)]
struct RankedChunk {
    score: Score,
    key: u64,
    doc: DocId,
}

impl Eq for RankedChunk {}

impl Ord for RankedChunk {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.key.cmp(&self.key))
    }
}

impl PartialOrd for RankedChunk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Best<'a> {
    pub(crate) fn new(view: &'a View, allowed: &'a AllowedDocuments, limit: usize) -> Self {
        Self { view, allowed, limit, scores: Mutex::default() }
    }

    /// Threshold of a score. One that is as good as the worst so far may stand before it, and the library adds up what
    /// a score can be in more than one order.
    fn least(&self) -> Score {
        let scores = self.scores.lock().unwrap_or_else(PoisonError::into_inner);
        let worst = self.limit.checked_sub(1).and_then(|last| scores.get(last));
        worst.map_or(Score::MIN, |worst| worst - worst.abs() * 1e-5)
    }

    fn note(&self, best: &BinaryHeap<Reverse<RankedChunk>>) {
        let mut scores = self.scores.lock().unwrap_or_else(PoisonError::into_inner);
        scores.extend(best.iter().map(|Reverse(ranked)| ranked.score));
        scores.sort_unstable_by(|one, other| other.total_cmp(one));
        scores.truncate(self.limit);
    }

    fn of_segment(
        &self,
        weight: &dyn Weight,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<Vec<Candidate>> {
        let keys = self.view.keys(segment)?;
        let alive = reader.alive_bitset();
        let mut best: BinaryHeap<Reverse<RankedChunk>> = BinaryHeap::with_capacity(self.limit + 1);
        let least = self.least();
        weight.for_each_pruning(least, reader, &mut |doc, score| {
            let key = keys.get_val(doc);
            let may_be_seen = self.allowed.has(split_key(key).0) && alive.is_none_or(|alive| alive.is_alive(doc));
            if may_be_seen {
                best.push(Reverse(RankedChunk { score, key, doc }));
                if best.len() > self.limit {
                    best.pop();
                }
            }
            match best.peek() {
                Some(Reverse(worst)) if best.len() == self.limit => worst.score.max(least),
                _ => least,
            }
        })?;
        self.note(&best);
        let candidate = |Reverse(ranked): Reverse<RankedChunk>| {
            self.allowed.candidate(ranked.key, DocAddress::new(segment, ranked.doc), ranked.score)
        };
        Ok(best.into_iter().filter_map(candidate).collect())
    }
}

impl Collector for Best<'_> {
    type Fruit = Vec<Candidate>;
    type Child = Nobody;

    fn for_segment(&self, _: SegmentOrdinal, _: &SegmentReader) -> tantivy::Result<Nobody> {
        Ok(Nobody)
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn collect_segment(
        &self,
        weight: &dyn Weight,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<Vec<Candidate>> {
        self.of_segment(weight, segment, reader)
    }

    fn merge_fruits(&self, fruits: Vec<Vec<Candidate>>) -> tantivy::Result<Vec<Candidate>> {
        let mut best: Vec<Candidate> = fruits.into_iter().flatten().collect();
        best.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.place().cmp(&other.place())));
        best.truncate(self.limit);
        Ok(best)
    }
}

/// All that a query finds, without an order.
pub(crate) struct All<'a> {
    pub(crate) view: &'a View,
    pub(crate) allowed: &'a AllowedDocuments,
}

impl Collector for All<'_> {
    type Fruit = Vec<Candidate>;
    type Child = Nobody;

    fn for_segment(&self, _: SegmentOrdinal, _: &SegmentReader) -> tantivy::Result<Nobody> {
        Ok(Nobody)
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn collect_segment(
        &self,
        weight: &dyn Weight,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<Vec<Candidate>> {
        let keys = self.view.keys(segment)?;
        let mut all = Vec::new();
        weight.for_each_no_score(reader, &mut |docs| {
            for doc in docs.iter().copied().filter(|doc| !reader.is_deleted(*doc)) {
                all.extend(self.allowed.candidate(keys.get_val(doc), DocAddress::new(segment, doc), 0.0));
            }
        })?;
        Ok(all)
    }

    fn merge_fruits(&self, fruits: Vec<Vec<Candidate>>) -> tantivy::Result<Vec<Candidate>> {
        Ok(fruits.into_iter().flatten().collect())
    }
}

/// The trait asks for one; both collectors go over segments by themselves.
pub(crate) struct Nobody;

impl SegmentCollector for Nobody {
    type Fruit = Vec<Candidate>;

    fn collect(&mut self, _: DocId, _: Score) {}

    fn harvest(self) -> Vec<Candidate> {
        Vec::new()
    }
}
