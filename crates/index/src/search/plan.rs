//! Makes queries of words and phrases.

use tantivy::{
    Term,
    query::{BooleanQuery, ConstScoreQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{collect::AllowedDocuments, parse::Unit};
use crate::{
    analyze::{Form, Token, exact::tokens},
    index::schema::Fields,
};

/// With so few documents it is faster to look at nothing else than to look at all and leave out most.
const FEW: usize = 32;

type Part = Box<dyn Query>;

/// Makes queries for the documents that may be seen.
pub(crate) struct Planner<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) allowed: &'a AllowedDocuments,
    /// Chunks of all documents, seen and unseen.
    pub(crate) all_chunks: u64,
}

impl Planner<'_> {
    /// Returns whether so few of all chunks may be seen that it is faster to look at nothing else.
    pub(crate) fn is_few(&self) -> bool {
        self.allowed.owners().len() <= FEW && self.allowed.chunks < self.all_chunks / 8
    }

    /// All chunks that may be seen, without a score.
    pub(crate) fn seen(&self) -> Part {
        let one = |owner| -> (Occur, Part) {
            let term = Term::from_field_u64(self.fields.owner, u64::from(owner));
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        };
        Box::new(ConstScoreQuery::new(Box::new(BooleanQuery::new(self.allowed.owners().map(one).collect())), 0.0))
    }

    /// Chunks that have what is left out.
    pub(crate) fn excluded(&self, unit: &Unit) -> Option<Part> {
        Some(match unit {
            Unit::Word { stems, .. } => one_of(stems.iter().map(|stem| self.term(self.fields.words, stem)).collect()),
            Unit::Letters(text) | Unit::Chain(text) | Unit::Phrase(text) => self.phrase(text)?,
            Unit::Prefix(prefix) => self.matching(&format!("{prefix}.*"))?,
        })
    }

    fn term(&self, field: Field, text: &str) -> Part {
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

    /// Chunks with this term.
    pub(crate) fn exact_term(&self, term: &str) -> Part {
        self.term(self.fields.exact, term)
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

fn one_of(parts: Vec<Part>) -> Part {
    Box::new(BooleanQuery::union(parts))
}
