//! The chunks that have a concept, by the forms in which they have it.

use tantivy::{
    DocId, DocSet as _, SegmentOrdinal, SegmentReader, TERMINATED,
    postings::{Postings as _, SegmentPostings},
    schema::IndexRecordOption,
};

use super::concept::{Alternative, Concept};

/// Chunks of a segment that have a concept in one of its forms, in order.
pub(super) struct ChunkList<'a> {
    source: Source<'a>,
    pub(super) quality: f32,
    pub(super) is_heading: bool,
}

enum Source<'a> {
    Postings(Box<SegmentPostings>),
    Chunks(&'a [DocId]),
}

/// A list for each form that is in the segment.
pub(super) fn lists<'a>(
    reader: &SegmentReader,
    segment: SegmentOrdinal,
    concept: &'a Concept,
) -> tantivy::Result<Vec<ChunkList<'a>>> {
    let mut lists = Vec::with_capacity(concept.alternatives.len());
    for alternative in &concept.alternatives {
        let is_heading = matches!(alternative, Alternative::Heading(..));
        let (source, quality) = match alternative {
            Alternative::Term(term, quality) | Alternative::Heading(term, quality) => {
                let index = reader.inverted_index(term.field())?;
                let postings = index.read_postings(term, IndexRecordOption::WithFreqs)?;
                (postings.map(|postings| Source::Postings(Box::new(postings))), *quality)
            }
            Alternative::Chunks(docs, quality) => {
                let docs = docs.get(segment as usize).filter(|docs| !docs.is_empty());
                (docs.map(|docs| Source::Chunks(docs)), *quality)
            }
        };
        lists.extend(source.map(|source| ChunkList { source, quality, is_heading }));
    }
    Ok(lists)
}

impl ChunkList<'_> {
    pub(super) fn doc(&self) -> DocId {
        match &self.source {
            Source::Postings(postings) => postings.doc(),
            Source::Chunks(docs) => docs.first().copied().unwrap_or(TERMINATED),
        }
    }

    pub(super) fn advance(&mut self) {
        match &mut self.source {
            Source::Postings(postings) => drop(postings.advance()),
            Source::Chunks(docs) => *docs = docs.get(1..).unwrap_or_default(),
        }
    }

    /// Goes to this chunk, or to the first one behind it.
    pub(super) fn seek(&mut self, doc: DocId) {
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

    pub(super) fn times(&self) -> u32 {
        match &self.source {
            Source::Postings(postings) => postings.term_freq(),
            Source::Chunks(_) => 1,
        }
    }

    pub(super) fn size(&self) -> u32 {
        match &self.source {
            Source::Postings(postings) => postings.doc_freq(),
            Source::Chunks(docs) => u32::try_from(docs.len()).unwrap_or(u32::MAX),
        }
    }
}
