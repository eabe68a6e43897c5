//! Makes queries of words and phrases, for the chunks that may be seen.

use std::collections::{HashMap, hash_map::Entry::Vacant};

use tantivy::{
    DocAddress, Score, Term,
    query::{BooleanQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{Visible, parse::Unit};
use crate::{
    analyze::{Form, Token, exact::tokens},
    index::{
        id::DocumentId,
        schema::{ENTRY_ORDINAL, Fields, split_key},
        view::View,
    },
};

type Part = Box<dyn Query>;

/// Makes queries for the documents that may be seen.
pub(crate) struct Planner<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) allowed: &'a AllowedDocuments,
}

impl Planner<'_> {
    /// All chunks that may be seen.
    pub(crate) fn seen(&self) -> Part {
        let one = |owner: &u32| -> (Occur, Part) {
            let term = Term::from_field_u64(self.fields.owner, u64::from(*owner));
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        };
        Box::new(BooleanQuery::new(self.allowed.positions.keys().map(one).collect()))
    }

    /// Chunks that have what is left out.
    pub(crate) fn excluded(&self, unit: &Unit) -> Option<Part> {
        Some(match unit {
            Unit::Word { stems, .. } => {
                let terms = stems.iter().map(|stem| self.term(self.fields.words, stem));
                Box::new(BooleanQuery::union(terms.collect()))
            }
            Unit::Letters(text) | Unit::Chain(text) | Unit::Phrase(text) => self.phrase(text)?,
            Unit::Prefix(prefix) => self.matching(&format!("{prefix}.*"))?,
        })
    }

    /// Chunks with this term.
    pub(crate) fn term(&self, field: Field, text: &str) -> Part {
        Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::WithFreqs))
    }

    /// A text to the letter. None where it has no letters.
    pub(crate) fn phrase(&self, text: &str) -> Option<Part> {
        let terms = phrase_terms(text);
        Some(match terms.as_slice() {
            [] => return None,
            [Token { form: Form::Last, text, .. }] => self.matching(&format!("{text}.*"))?,
            [token] => self.term(self.fields.exact, &token.text),
            terms => {
                let exact = self.fields.exact;
                let at = |token: &Token| (token.position as usize, Term::from_field_text(exact, &token.text));
                Box::new(PhraseQuery::new_with_offset(terms.iter().map(at).collect()))
            }
        })
    }

    /// Chunks with a term that matches as a whole. None where the expression is too large.
    pub(crate) fn matching(&self, expression: &str) -> Option<Part> {
        RegexQuery::from_pattern(expression, self.fields.exact).ok().map(|query| Box::new(query) as Part)
    }
}

/// The terms by which a phrase is found, at the positions that they have in it.
pub(crate) fn phrase_terms(text: &str) -> Vec<Token> {
    let mut terms = tokens(text);
    terms.retain(|token| token.form != Form::Part);
    // After the last letter of the phrase the text may go on.
    if terms.len() > 1 && terms.last().is_some_and(|token| token.form == Form::Last) {
        terms.pop();
    }
    terms
}

/// The documents that may be seen, of those that are there.
#[derive(Debug, Default)]
pub(crate) struct AllowedDocuments {
    /// Where in the request a document stands, by its number.
    pub(super) positions: HashMap<u32, usize>,
    /// Chunks of all of them.
    pub(crate) chunks: u64,
    /// Those that are not there.
    pub(crate) missing: Vec<DocumentId>,
}

impl AllowedDocuments {
    pub(crate) fn new(view: &View, documents: &[Visible]) -> Self {
        let mut allowed = Self::default();
        for (position, document) in documents.iter().enumerate() {
            let Some(entry) = view.entries.get(&document.id) else {
                allowed.missing.push(document.id);
                continue;
            };
            // The same document under two names is cited by the first.
            if let Vacant(empty) = allowed.positions.entry(entry.owner) {
                empty.insert(position);
                allowed.chunks += u64::from(entry.chunks);
            }
        }
        allowed
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
