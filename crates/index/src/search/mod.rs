//! Finding chunks: from what somebody or some model wrote to places that can be cited.
//!
//! - [`request`]: what is asked and answered.
//! - [`parse`]: makes words and phrases of whatever was written; nothing is refused.
//! - [`plan`]: makes queries of phrases and the like. [`concept`]: what words stand for in the index, and their worth.
//! - [`rank`]: the best chunks for them, by a [`board`] of the scores in each segment. [`lists`]: the chunks that have a word;
//!   [`bounds`]: what words can add, and so when enough was seen.
//! - [`frequencies`]: in how many chunks a term stands, looked up once for each search.
//! - [`collect`]: the chunks that may be seen, and no others.
//! - [`pattern`]: regular expressions: [`narrow`] tells which chunks can match at all, and those are read.
//! - [`marks`] and [`snippet`]: where the hits are, and as much around them as one looks at.
//!
//! Exact phrases come first, then the chunks with the most of the words, each counted by how rare it is.

pub(crate) mod board;
pub(crate) mod bounds;
pub(crate) mod collect;
pub(crate) mod concept;
pub(crate) mod frequencies;
pub(crate) mod lists;
pub mod marks;
pub(crate) mod narrow;
pub mod parse;
pub(crate) mod pattern;
pub(crate) mod plan;
pub(crate) mod rank;
pub mod request;
pub mod snippet;
pub(crate) mod words;

pub use request::{Answer, Hit, How, Query, Request, Visible};
pub use snippet::Snippet;

pub(crate) use pattern::Stop;
pub(crate) use request::MOST_HITS;

use crate::{
    analyze::Dictionary,
    index::{error::IndexError, view::View},
};
use collect::{AllowedDocuments, Candidate};
use request::{CITED, citation};

/// Searches what the request names. Blocks.
pub(crate) fn search(
    view: &View,
    dictionary: &Dictionary,
    request: &Request,
    stop: &Stop,
) -> Result<Answer, IndexError> {
    let allowed = AllowedDocuments::new(view, &request.documents);
    let mut answer = match &request.query {
        Query::Words(text) => words::search(view, dictionary, request, &allowed, text)?,
        Query::Regex { pattern, case_sensitive } => match pattern::Pattern::new(pattern, *case_sensitive) {
            Ok(pattern) => pattern::search(view, request, &allowed, &pattern, stop)?,
            Err(why) => {
                let mut answer = words::search(view, dictionary, request, &allowed, pattern)?;
                let note =
                    format!("the pattern is no regular expression that is known here ({why}); searched for its words");
                answer.notes.insert(0, note);
                answer
            }
        },
    };
    answer.missing = allowed.missing;
    if request.context {
        add_neighbours(view, &mut answer.hits)?;
    }
    Ok(answer)
}

/// A candidate with its text, as it is told.
fn hit(view: &View, request: &Request, candidate: &Candidate, found: FoundChunk) -> Option<Hit> {
    let visible = request.documents.get(candidate.position)?;
    let title = view.entries.get(&visible.id).and_then(|entry| entry.title.clone());
    let citation = citation(&visible.name, &found.chunk.place);
    Some(Hit {
        document: visible.id,
        owner: candidate.owner,
        ordinal: candidate.ordinal,
        title,
        citation,
        score: candidate.score,
        snippet: snippet::around(&found.chunk.text, &found.marks, CITED),
        chunk: found.chunk,
        before: None,
        after: None,
    })
}

/// A chunk and where in it the hits are.
struct FoundChunk {
    chunk: crate::chunk::Chunk,
    marks: Vec<std::ops::Range<usize>>,
}

/// Adds the chunks beside each hit. One of another page or sheet would be cited by the place of the hit, so it is left out.
fn add_neighbours(view: &View, hits: &mut [Hit]) -> Result<(), IndexError> {
    for hit in hits {
        let (owner, place) = (hit.owner, &hit.chunk.place);
        let beside = |ordinal| -> Result<Option<String>, IndexError> {
            let chunk = view.chunk_of(owner, ordinal)?;
            Ok(chunk.filter(|chunk| chunk.place.is_same(place)).map(|chunk| chunk.text))
        };
        let before = hit.ordinal.checked_sub(1).map(beside).transpose()?.flatten();
        let after = beside(hit.ordinal.saturating_add(1))?;
        (hit.before, hit.after) = (before, after);
    }
    Ok(())
}
