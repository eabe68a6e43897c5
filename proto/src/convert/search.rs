//! What was found.

use agentd_core::search::{SearchHit, SearchKind, SearchResult};

use super::{WireError, all, enum_to_wire, id, mirrored, moment, required_enum, to_moment};
use crate::v1;

mirrored!(SearchKind, "the kind of a find", [Person, Model, Call, Result, Notice]);

impl From<&SearchResult> for v1::SearchResponse {
    fn from(found: &SearchResult) -> Self {
        Self { hits: found.hits.iter().map(Into::into).collect(), unsearched: found.unsearched }
    }
}

impl TryFrom<v1::SearchResponse> for SearchResult {
    type Error = WireError;

    fn try_from(found: v1::SearchResponse) -> Result<Self, WireError> {
        Ok(Self { hits: all(found.hits)?, unsearched: found.unsearched })
    }
}

impl From<&SearchHit> for v1::SearchHit {
    fn from(hit: &SearchHit) -> Self {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let mark =
            |mark: &std::ops::Range<usize>| v1::search_hit::Mark { start: place(mark.start), end: place(mark.end) };
        Self {
            session_id: hit.session_id.to_string(),
            title: hit.title.clone(),
            seq: hit.seq,
            at: Some(to_moment(hit.at)),
            kind: enum_to_wire(hit.kind),
            excerpt: hit.excerpt.clone(),
            marks: hit.marks.iter().map(mark).collect(),
        }
    }
}

impl TryFrom<v1::SearchHit> for SearchHit {
    type Error = WireError;

    fn try_from(hit: v1::SearchHit) -> Result<Self, WireError> {
        let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        // What is no place in the excerpt marks nothing.
        let marks = hit.marks.iter().map(|mark| place(mark.start)..place(mark.end));
        let marks = marks.filter(|mark| hit.excerpt.get(mark.clone()).is_some()).collect();
        Ok(Self {
            session_id: id(&hit.session_id)?,
            title: hit.title,
            seq: hit.seq,
            at: moment(hit.at, "the time of a find")?,
            kind: required_enum(hit.kind)?,
            excerpt: hit.excerpt,
            marks,
        })
    }
}
