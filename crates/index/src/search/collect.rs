//! The chunks that may be seen, and no others.

use std::collections::{HashMap, hash_map::Entry::Vacant};

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

    pub(crate) fn has(&self, owner: u32) -> bool {
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

/// The trait asks for one; the collector goes over segments by itself.
pub(crate) struct Nobody;

impl SegmentCollector for Nobody {
    type Fruit = Vec<Candidate>;

    fn collect(&mut self, _: DocId, _: Score) {}

    fn harvest(self) -> Vec<Candidate> {
        Vec::new()
    }
}
