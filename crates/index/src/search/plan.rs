//! Makes queries of words and phrases.

use tantivy::{
    Term,
    query::{BooleanQuery, BoostQuery, ConstScoreQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{
    collect::AllowedDocuments,
    parse::{ParsedQuery, Unit},
};
use crate::{
    analyze::{Form, Token, exact::tokens, stem, words::pairs},
    index::schema::Fields,
};

/// More than all words together are worth, so that what was asked for to the letter comes first.
const WHOLE_PHRASE: f32 = 1000.0;
/// A word in a heading beside the one in the text.
const IN_HEADING: f32 = 2.0;
/// A word as it was written beside any with the same stem.
const AS_WRITTEN: f32 = 0.3;
/// Pairs of letters beside words of the dictionary, which may be cut in another way.
const PAIR: f32 = 0.3;
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
    /// Plan for chunks with all words. None where there is nothing to look for.
    pub(crate) fn all(&self, parsed: &ParsedQuery) -> Option<Part> {
        let mut parts: Vec<(Occur, Part)> = Vec::new();
        for unit in &parsed.units {
            parts.push((Occur::Must, self.required(unit)?));
            parts.extend(self.bonus(unit).into_iter().map(|part| (Occur::Should, part)));
        }
        if parts.is_empty() {
            return None;
        }
        if parsed.units.len() > 1
            && let Some(phrase) = self.phrase(&parsed.whole)
        {
            parts.push((Occur::Should, Box::new(ConstScoreQuery::new(phrase, WHOLE_PHRASE))));
        }
        Some(self.framed(parts, parsed))
    }

    /// Plan for chunks with any of the words, also those of phrases.
    pub(crate) fn any(&self, parsed: &ParsedQuery) -> Option<Part> {
        let parts: Vec<(Occur, Part)> =
            parsed.units.iter().flat_map(|unit| self.loose(unit)).map(|part| (Occur::Should, part)).collect();
        if parts.is_empty() {
            return None;
        }
        let is_framed = !parsed.excluded.is_empty() || self.is_few();
        let union: Part = Box::new(BooleanQuery::new(parts));
        Some(if is_framed { self.framed(vec![(Occur::Must, union)], parsed) } else { union })
    }

    /// Leaves out what is excluded and, where that is faster, what must not be seen.
    fn framed(&self, mut parts: Vec<(Occur, Part)>, parsed: &ParsedQuery) -> Part {
        for unit in &parsed.excluded {
            parts.extend(self.required(unit).map(|part| (Occur::MustNot, part)));
        }
        if self.is_few() {
            parts.push((Occur::Must, self.seen()));
        }
        Box::new(BooleanQuery::new(parts))
    }

    fn is_few(&self) -> bool {
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

    /// Without which a chunk is not found. A word may also stand in its heading.
    fn required(&self, unit: &Unit) -> Option<Part> {
        let in_heading = |word: &str| self.term(self.fields.heading, word);
        Some(match unit {
            Unit::Word { stem, .. } => one_of(vec![self.term(self.fields.words, stem), in_heading(stem)]),
            Unit::Letters(letters) => one_of(vec![self.phrase(letters)?, in_heading(letters)]),
            Unit::Prefix(prefix) => self.matching(&format!("{prefix}.*"))?,
            Unit::Chain(text) | Unit::Phrase(text) => self.phrase(text)?,
        })
    }

    /// Bonus of a better chunk.
    fn bonus(&self, unit: &Unit) -> Vec<Part> {
        let heading = |word: &str| boosted(self.term(self.fields.heading, word), IN_HEADING);
        match unit {
            Unit::Word { exact, stem } => {
                vec![heading(stem), boosted(self.term(self.fields.exact, exact), AS_WRITTEN)]
            }
            Unit::Letters(letters) => vec![heading(letters), self.term(self.fields.words, letters)],
            Unit::Prefix(_) | Unit::Chain(_) | Unit::Phrase(_) => Vec::new(),
        }
    }

    /// Its words, each for itself: terms only, as the library can skip what cannot be among the best of those.
    fn loose(&self, unit: &Unit) -> Vec<Part> {
        match unit {
            Unit::Word { stem, .. } => self.word_anywhere(stem),
            Unit::Letters(letters) => self.letters_anywhere(letters),
            Unit::Prefix(prefix) => self.matching(&format!("{prefix}.*")).into_iter().collect(),
            Unit::Chain(text) | Unit::Phrase(text) => {
                let mut parts = Vec::new();
                for token in tokens(text) {
                    match token.form {
                        // A number such as 4.1 is no four and no one.
                        Form::Word if token.text.len() > 1 => parts.extend(self.word_anywhere(&stem(&token.text))),
                        Form::Pair => parts.push(boosted(self.term(self.fields.exact, &token.text), PAIR)),
                        Form::Word | Form::Part | Form::Last => {}
                    }
                }
                parts
            }
        }
    }

    fn word_anywhere(&self, stem: &str) -> Vec<Part> {
        vec![self.term(self.fields.words, stem), boosted(self.term(self.fields.heading, stem), IN_HEADING)]
    }

    fn letters_anywhere(&self, letters: &str) -> Vec<Part> {
        let mut parts = self.word_anywhere(letters);
        if letters.chars().nth(1).is_some() {
            pairs(letters, &mut |pair| parts.push(boosted(self.term(self.fields.exact, &pair), PAIR)));
        }
        parts
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

fn boosted(part: Part, by: f32) -> Part {
    Box::new(BoostQuery::new(part, by))
}
