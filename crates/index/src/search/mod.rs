//! Search: from a query by a user or a model to locations that can be cited.
//!
//! - [`parse`]: splits a query into words and phrases; accepts any input.
//! - [`plan`]: translates words and phrases to index queries with weights, restricted to visible documents.
//! - [`words`]: ranks chunks by these queries.
//! - [`pattern`]: regular expressions. The index selects the chunks that can match, and these chunks are scanned.
//! - [`marks`]: positions of hits, and snippets.
//!
//! Exact phrases come first, followed by the chunks that contain the most query words, weighted by rarity.

pub mod marks;
pub mod parse;
pub(crate) mod pattern;
pub(crate) mod plan;
pub(crate) mod words;

use std::{ops::Range, time::Duration};

use agentd_core::knowledge::SearchedBy;

pub use self::marks::Snippet;
pub(crate) use self::pattern::StopConditions;
use self::plan::{AllowedDocuments, Candidate, Planner};
use crate::{
    analyze::Dictionary,
    chunk::Chunk,
    index::{DocumentId, IndexError, view::View},
};

/// Searches the documents that the request names. Blocks.
pub(crate) fn search(
    view: &View,
    dictionary: &Dictionary,
    request: &Request,
    stop: &StopConditions,
) -> Result<Answer, IndexError> {
    let planner = Planner { view, request, allowed: AllowedDocuments::new(view, &request.documents) };
    let mut answer = match &request.query {
        Query::Words(text) => words::search(&planner, dictionary, text)?,
        Query::Regex(pattern) => match pattern::Pattern::new(pattern) {
            Ok(pattern) => pattern::search(&planner, &pattern, stop)?,
            Err(reason) => {
                let mut answer = words::search(&planner, dictionary, pattern)?;
                let note =
                    format!("the pattern is not a supported regular expression ({reason}); searched as plain words");
                answer.notes.insert(0, note);
                answer
            }
        },
    };
    if request.context {
        add_neighbours(view, &mut answer.hits)?;
    }
    Ok(answer)
}

/// Builds a hit from a candidate and its text.
fn hit(planner: &Planner<'_>, candidate: &Candidate, chunk: Chunk, marks: &[Range<usize>]) -> Option<Hit> {
    let visible = planner.request.documents.get(candidate.position)?;
    let Candidate { owner, ordinal, score, .. } = *candidate;
    let citation = chunk.place.citation(&visible.name);
    let snippet = marks::around(&chunk.text, marks, SNIPPET_LETTERS);
    Some(Hit { owner, ordinal, citation, score, snippet, chunk, before: None, after: None })
}

/// Adds the neighbouring chunks to each hit. A chunk on another page or sheet is omitted, because it would be cited
/// with the location of the hit.
fn add_neighbours(view: &View, hits: &mut [Hit]) -> Result<(), IndexError> {
    for hit in hits {
        let (owner, place) = (hit.owner, &hit.chunk.place);
        let neighbour = |ordinal| -> Result<Option<String>, IndexError> {
            let chunk = view.chunk_of(owner, ordinal)?;
            Ok(chunk.filter(|chunk| chunk.place.is_same(place)).map(|chunk| chunk.text))
        };
        let before = hit.ordinal.checked_sub(1).map(neighbour).transpose()?.flatten();
        let after = neighbour(hit.ordinal.saturating_add(1))?;
        (hit.before, hit.after) = (before, after);
    }
    Ok(())
}

/// Number of characters shown around the hits of a chunk.
pub(crate) const SNIPPET_LETTERS: usize = 240;

/// Maximum number of hits, regardless of the request.
pub(crate) const MAX_HITS: usize = 200;

/// Search request with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Documents that the caller may see. No other documents are searched.
    pub documents: Vec<VisibleDocument>,
    /// Words or regular expression to search for.
    pub query: Query,
    /// Maximum number of hits.
    pub limit: usize,
    /// True to include the chunks before and after each hit.
    pub context: bool,
    /// Time limit for scanning texts. Hits found within the limit are returned.
    pub within: Duration,
    /// Chunks that are similar in meaning, as keys of their texts, most similar first.
    pub similar: Vec<(DocumentId, u64)>,
}

impl Request {
    /// Creates a request for the ten best hits.
    pub const fn new(documents: Vec<VisibleDocument>, query: Query) -> Self {
        Self { documents, query, limit: 10, context: false, within: Duration::from_secs(5), similar: Vec::new() }
    }
}

/// Document that the caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleDocument {
    /// Key of the document.
    pub id: DocumentId,
    /// Name for citations, as used by the caller.
    pub name: String,
}

/// Query of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Words with `"phrases in quotes"`, `word*`, `OR` and `NOT`. Any text is valid.
    Words(String),
    /// Regular expression, case-insensitive by default, whose `^` and `$` match at line ends. An invalid expression is
    /// searched as words, with a note.
    Regex(String),
}

/// Answer to a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Hits, best first. Hits of a regular expression are in document order.
    pub hits: Vec<Hit>,
    /// False if scanning timed out, so that hits may be missing.
    pub complete: bool,
    /// True if there are more matches than requested, as far as is known without extra work.
    pub more: bool,
    /// True if a quoted phrase does not occur, so that the hits only contain some of its words.
    pub is_loose: bool,
    /// Notes for the caller, each a sentence without its full stop.
    pub notes: Vec<String>,
    /// Search method that found the hits.
    pub searched_by: SearchedBy,
}

impl Answer {
    /// Creates an empty answer.
    pub(crate) const fn of(searched_by: SearchedBy) -> Self {
        Self { hits: Vec::new(), complete: true, more: false, is_loose: false, notes: Vec::new(), searched_by }
    }
}

/// Chunk that matches the query.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Ordinal of the chunk in the document, starting at 0. One ordinal is skipped after each page.
    pub ordinal: u32,
    /// Citation such as `report.pdf p. 12`, `data.xlsx Sales!A2:F20` or `deck.pptx slide 7`.
    pub citation: String,
    /// Score relative to the other hits of the same answer. Higher is better.
    pub score: f32,
    /// Excerpt with the hits.
    pub snippet: Snippet,
    /// Complete chunk with its location.
    pub chunk: Chunk,
    /// Text of the previous chunk, if requested.
    pub before: Option<String>,
    /// Text of the next chunk, if requested.
    pub after: Option<String>,
    pub(crate) owner: u32,
}
