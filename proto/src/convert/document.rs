//! Documents: what they are, what they say, and where.

use agentd_core::knowledge::{
    DocumentFinds, DocumentHit, DocumentListing, DocumentProgress, DocumentQuery, DocumentState, Extent, ExtentUnit,
    KnowledgeStats, PartCursor, PartKind, PartRange, ReadPart, Reading, SearchedBy,
};

use super::{WireError, all, enum_to_wire, mirrored, required_enum};
use crate::v1;

mirrored!(PartKind, "the kind of a document's parts", [Page, Sheet, Slide, Section]);

mirrored!(ExtentUnit, "the unit of an extent", [Row, Character]);

mirrored!(SearchedBy, "the way of a search", [Words, Phrase, NarrowedRegex, Scan]);

/// Default number of finds.
const USUAL: usize = 10;

/// A number for the wire; more than fits is as many as fit.
fn number(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn size(of: u32) -> usize {
    usize::try_from(of).unwrap_or(usize::MAX)
}

impl From<&DocumentProgress> for v1::DocumentProgress {
    fn from(step: &DocumentProgress) -> Self {
        Self { document: step.document.clone(), parts: step.parts, total: step.total }
    }
}

impl TryFrom<v1::DocumentProgress> for DocumentProgress {
    type Error = WireError;

    fn try_from(step: v1::DocumentProgress) -> Result<Self, WireError> {
        Ok(Self { document: step.document, parts: step.parts, total: step.total })
    }
}

impl From<&DocumentState> for v1::DocumentState {
    fn from(state: &DocumentState) -> Self {
        Self {
            name: state.name.clone(),
            format: state.format.clone(),
            title: state.title.clone(),
            parts: state.parts,
            chunks: state.chunks,
            problem: state.problem.clone(),
        }
    }
}

impl TryFrom<v1::DocumentState> for DocumentState {
    type Error = WireError;

    fn try_from(state: v1::DocumentState) -> Result<Self, WireError> {
        let v1::DocumentState { name, format, title, parts, chunks, problem } = state;
        Ok(Self { name, format, title, parts, chunks, problem })
    }
}

impl From<&[DocumentState]> for v1::ListDocumentsResponse {
    fn from(states: &[DocumentState]) -> Self {
        Self { documents: states.iter().map(Into::into).collect(), notes: Vec::new() }
    }
}

impl TryFrom<v1::ListDocumentsResponse> for DocumentListing {
    type Error = WireError;

    fn try_from(listing: v1::ListDocumentsResponse) -> Result<Self, WireError> {
        Ok(Self { documents: all(listing.documents)?, notes: listing.notes })
    }
}

impl From<&v1::ReadDocumentRequest> for PartRange {
    fn from(request: &v1::ReadDocumentRequest) -> Self {
        let count = Some(request.count).filter(|count| *count > 0);
        Self { first: request.first.max(1), count, from: request.from.map(Into::into).unwrap_or_default() }
    }
}

impl From<PartCursor> for v1::PartCursor {
    fn from(PartCursor { row, column }: PartCursor) -> Self {
        Self { row, column }
    }
}

impl From<v1::PartCursor> for PartCursor {
    fn from(v1::PartCursor { row, column }: v1::PartCursor) -> Self {
        Self { row, column }
    }
}

impl From<Extent> for v1::Extent {
    fn from(Extent { unit, first, last, total }: Extent) -> Self {
        Self { unit: enum_to_wire(unit), first, last, total }
    }
}

impl TryFrom<v1::Extent> for Extent {
    type Error = WireError;

    fn try_from(v1::Extent { unit, first, last, total }: v1::Extent) -> Result<Self, WireError> {
        Ok(Self { unit: required_enum(unit)?, first, last, total })
    }
}

impl From<ReadPart> for v1::ReadPart {
    fn from(ReadPart { number, label, text, cut, shown, next }: ReadPart) -> Self {
        Self { number, label, text, cut, shown: shown.map(Into::into), next: next.map(Into::into) }
    }
}

impl TryFrom<v1::ReadPart> for ReadPart {
    type Error = WireError;

    fn try_from(v1::ReadPart { number, label, text, cut, shown, next }: v1::ReadPart) -> Result<Self, WireError> {
        let shown = shown.map(TryInto::try_into).transpose()?;
        Ok(Self { number, label, text, cut, shown, next: next.map(Into::into) })
    }
}

impl From<Reading> for v1::ReadDocumentResponse {
    fn from(reading: Reading) -> Self {
        let Reading { format, title, parts_are, total, parts, broken, locked } = reading;
        let parts = parts.into_iter().map(Into::into).collect();
        Self { format, title, parts_are: enum_to_wire(parts_are), total, parts, broken, locked }
    }
}

impl TryFrom<v1::ReadDocumentResponse> for Reading {
    type Error = WireError;

    fn try_from(reading: v1::ReadDocumentResponse) -> Result<Self, WireError> {
        let v1::ReadDocumentResponse { format, title, parts_are, total, parts, broken, locked } = reading;
        Ok(Self { format, title, parts_are: required_enum(parts_are)?, total, parts: all(parts)?, broken, locked })
    }
}

impl From<&v1::SearchDocumentsRequest> for DocumentQuery {
    fn from(request: &v1::SearchDocumentsRequest) -> Self {
        let limit = if request.limit == 0 { USUAL } else { size(request.limit) };
        let (text, regex, neighbours) = (request.query.clone(), request.regex, request.neighbours);
        Self { text, regex, limit, neighbours, begin_by: None }
    }
}

impl From<&DocumentFinds> for v1::SearchDocumentsResponse {
    fn from(finds: &DocumentFinds) -> Self {
        let broken = |(name, why): &(String, String)| v1::BrokenDocument { name: name.clone(), why: why.clone() };
        Self {
            by: enum_to_wire(finds.by),
            hits: finds.hits.iter().map(Into::into).collect(),
            searched: number(finds.searched),
            broken: finds.broken.iter().map(broken).collect(),
            notes: finds.notes.clone(),
            late: finds.late,
            not_searched: number(finds.not_searched),
            more: finds.more,
            locked: finds.locked.clone(),
        }
    }
}

impl TryFrom<v1::SearchDocumentsResponse> for DocumentFinds {
    type Error = WireError;

    fn try_from(finds: v1::SearchDocumentsResponse) -> Result<Self, WireError> {
        Ok(Self {
            locked: finds.locked,
            // It counts where pages are joined, and that was done.
            is_loose: false,
            by: required_enum(finds.by)?,
            hits: all(finds.hits)?,
            searched: size(finds.searched),
            broken: finds.broken.into_iter().map(|broken| (broken.name, broken.why)).collect(),
            notes: finds.notes,
            late: finds.late,
            more: finds.more,
            not_searched: size(finds.not_searched),
        })
    }
}

impl From<&DocumentHit> for v1::DocumentHit {
    fn from(hit: &DocumentHit) -> Self {
        let mark =
            |mark: &std::ops::Range<usize>| v1::document_hit::Mark { start: number(mark.start), end: number(mark.end) };
        Self {
            document: hit.document.clone(),
            place: hit.place.clone(),
            score: hit.score,
            snippet: hit.snippet.clone(),
            marks: hit.marks.iter().map(mark).collect(),
            before: hit.before.clone(),
            after: hit.after.clone(),
        }
    }
}

impl TryFrom<v1::DocumentHit> for DocumentHit {
    type Error = WireError;

    fn try_from(hit: v1::DocumentHit) -> Result<Self, WireError> {
        let v1::DocumentHit { document, place, score, snippet, marks, before, after } = hit;
        // What is no place in the snippet marks nothing.
        let marks = marks.iter().map(|mark| size(mark.start)..size(mark.end));
        let marks = marks.filter(|mark| snippet.get(mark.clone()).is_some()).collect();
        Ok(Self { document, place, score, snippet, marks, before, after })
    }
}

impl From<&KnowledgeStats> for v1::DocumentStatsResponse {
    fn from(stats: &KnowledgeStats) -> Self {
        Self {
            documents: stats.documents,
            chunks: stats.chunks,
            bytes: stats.bytes,
            stale: stats.stale,
            folder: stats.folder.display().to_string(),
        }
    }
}

impl From<v1::DocumentStatsResponse> for KnowledgeStats {
    fn from(stats: v1::DocumentStatsResponse) -> Self {
        let v1::DocumentStatsResponse { documents, chunks, bytes, stale, folder } = stats;
        Self { documents, chunks, bytes, stale, folder: folder.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_no_places_in_the_snippet_mark_nothing() {
        let mark = |start, end| v1::document_hit::Mark { start, end };
        let wire = v1::DocumentHit {
            snippet: "纳税".to_owned(),
            marks: vec![mark(0, 3), mark(1, 3), mark(3, 99)],
            ..v1::DocumentHit::default()
        };
        #[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
        let expected = [0..3];
        assert_eq!(DocumentHit::try_from(wire).unwrap().marks, expected);
    }
}
