//! Makes queries of words and phrases, for the chunks that may be seen: the terms of the index that each word stands for, and its weight.

use std::collections::{HashMap, HashSet, hash_map::Entry::Vacant};

use tantivy::{
    DocAddress, DocSet as _, Score, TERMINATED, Term,
    collector::DocSetCollector,
    query::{BooleanQuery, FuzzyTermQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{
    Request, Visible,
    parse::{ParsedQuery, Unit},
};
use crate::{
    analyze::{Form, Token, exact::tokens, stems, words::pairs},
    index::{
        IndexError,
        schema::{ENTRY_ORDINAL, split_key},
        view::View,
    },
};

type Part = Box<dyn Query>;

/// Makes queries for the documents that may be seen.
pub(crate) struct Planner<'a> {
    pub(crate) view: &'a View,
    pub(crate) request: &'a Request,
    pub(crate) allowed: AllowedDocuments,
}

impl Planner<'_> {
    /// All chunks that may be seen.
    pub(crate) fn seen(&self) -> Part {
        let one = |owner: &u32| -> (Occur, Part) {
            let term = Term::from_field_u64(self.view.fields.owner, u64::from(*owner));
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        };
        Box::new(BooleanQuery::new(self.allowed.positions.keys().map(one).collect()))
    }

    /// Chunks that a query finds; none where there is no query.
    pub(super) fn found(&self, query: Option<Part>) -> Result<FoundChunks, IndexError> {
        query.map_or_else(|| Ok(FoundChunks::new()), |query| Ok(self.view.searcher.search(&query, &DocSetCollector)?))
    }

    /// Chunks that have what is left out.
    pub(crate) fn excluded(&self, unit: &Unit) -> Option<Part> {
        Some(match unit {
            Unit::Word { stems, .. } => {
                let terms = stems.iter().map(|stem| self.term(self.view.fields.words, stem));
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
            [token] => self.term(self.view.fields.exact, &token.text),
            terms => {
                let exact = self.view.fields.exact;
                let at = |token: &Token| (token.position as usize, Term::from_field_text(exact, &token.text));
                Box::new(PhraseQuery::new_with_offset(terms.iter().map(at).collect()))
            }
        })
    }

    /// Chunks with a term that matches as a whole. None where the expression is too large.
    pub(crate) fn matching(&self, expression: &str) -> Option<Part> {
        RegexQuery::from_pattern(expression, self.view.fields.exact).ok().map(|query| Box::new(query) as Part)
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
}

impl AllowedDocuments {
    pub(crate) fn new(view: &View, documents: &[Visible]) -> Self {
        let mut allowed = Self::default();
        for (position, document) in documents.iter().enumerate() {
            let Some(entry) = view.entries.get(&document.id) else { continue };
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

/// Worth of a word that stands only in the heading of a chunk, beside one in its text.
const IN_HEADING: f32 = 0.5;
/// Worth of a part of something that belongs together: a pair of letters, or a word of a phrase.
const PART: f32 = 0.3;
/// Worth of a word that is written almost like the one that was asked for.
const ALMOST: f32 = 0.8;
/// Chunks with a word up to which it may be one that was typed wrong.
const RARE: u64 = 3;
/// Letters of a word from which on it may be one that was typed wrong.
const LEAST_LETTERS: usize = 4;
/// First term of scripts without spaces. Typos are not looked for from it on: each of those terms differs by one letter from many.
const UNSPACED: &str = "\u{2e80}";
/// Words that are taken for what was meant by one.
const MOST_MEANT: usize = 8;

/// Words of which it is counted in how many chunks they are, and the number from which on they are as frequent as any.
const MOST_COUNTED: usize = 64;
const ENOUGH: u64 = 100;
/// Chunks with a word that are looked at to tell how many of them may be seen.
const LOOKED_AT: usize = 20_000;

/// Chunks that a query finds.
pub(super) type FoundChunks = HashSet<DocAddress>;

/// Something that is asked for, and the forms in which a chunk may have it.
pub(super) struct Concept {
    pub(super) weight: f32,
    pub(super) alternatives: Vec<Alternative>,
    /// Set if chunks without it are no finds, where there are some with it.
    pub(super) is_required: bool,
}

/// A form of it.
pub(super) enum Alternative {
    /// A word in the text or in the heading, and what that is worth.
    Term(Term, f32),
    /// Chunks that have it.
    Chunks(FoundChunks),
}

/// Makes concepts of what was asked for.
pub(super) struct Concepts<'a> {
    planner: &'a Planner<'a>,
    made: Vec<Concept>,
    /// Words that were taken for what was meant.
    meant: Vec<String>,
}

impl<'a> Concepts<'a> {
    /// The concepts of a query, the rarest first, and the words that were taken for what was meant.
    pub(super) fn of(
        parsed: &ParsedQuery,
        planner: &'a Planner<'a>,
    ) -> Result<(Vec<Concept>, Vec<String>), IndexError> {
        let mut concepts = Self { planner, made: Vec::new(), meant: Vec::new() };
        for unit in &parsed.units {
            concepts.add(unit, parsed.units.len() == 1)?;
        }
        let Self { mut made, meant, .. } = concepts;
        made.retain(|concept| !concept.alternatives.is_empty());
        made.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        Ok((made, meant))
    }

    fn add(&mut self, unit: &Unit, is_alone: bool) -> Result<(), IndexError> {
        match unit {
            Unit::Word { exact, stems } => self.word(exact, stems, 1.0),
            Unit::Letters(letters) => self.letters(letters, is_alone),
            Unit::Prefix(prefix) => {
                let query = self.planner.matching(&format!("{prefix}.*"));
                self.chunks(query, false).map(drop)
            }
            Unit::Chain(text) | Unit::Phrase(text) => {
                let query = self.planner.phrase(text);
                self.chunks(query, matches!(unit, Unit::Phrase(_)))?;
                for token in tokens(text) {
                    match token.form {
                        // A number such as 4.1 is no four and no one.
                        Form::Word if token.text.len() > 1 => self.word(&token.text, &stems(&token.text), PART)?,
                        Form::Pair => self.pair(&token.text)?,
                        Form::Word | Form::Part | Form::Last => {}
                    }
                }
                Ok(())
            }
        }
    }

    fn word(&mut self, exact: &str, stems: &[String], share: f32) -> Result<(), IndexError> {
        let (mut alternatives, mut known) = (Vec::new(), 0);
        for stem in stems {
            known += self.take(stem, 1.0, &mut alternatives)?;
        }
        let mut share = share;
        let may_be_wrong = exact.chars().count() >= LEAST_LETTERS && exact.chars().all(char::is_alphabetic);
        // What others have says nothing about what is rare here.
        let mut seen = if may_be_wrong { 0 } else { u64::MAX };
        for stem in stems.iter().filter(|_| may_be_wrong) {
            seen += self.seen(&Term::from_field_text(self.planner.view.fields.words, stem), RARE + 1)?;
        }
        if seen <= RARE {
            let mut as_meant = 0;
            for word in self.almost(exact, seen)? {
                for stem in crate::analyze::stems(&word) {
                    as_meant += self.take(&stem, if seen == 0 { 1.0 } else { ALMOST }, &mut alternatives)?;
                }
                self.meant.push(word);
            }
            if seen == 0 && as_meant > 0 {
                share *= ALMOST;
            }
            known += as_meant;
        }
        let weight = share * self.rarity(known);
        self.made.push(Concept { weight, alternatives, is_required: false });
        Ok(())
    }

    /// Adds a word in text and headings, and says how many chunks have it in their text.
    fn take(&self, word: &str, quality: f32, into: &mut Vec<Alternative>) -> Result<u64, IndexError> {
        let fields = &self.planner.view.fields;
        let is_there =
            |term: &Term| into.iter().any(|other| matches!(other, Alternative::Term(known, _) if known == term));
        let (text, heading) = (Term::from_field_text(fields.words, word), Term::from_field_text(fields.heading, word));
        if is_there(&text) {
            return Ok(0);
        }
        let known = self.planner.view.searcher.doc_freq(&text)?;
        if known > 0 {
            into.push(Alternative::Term(text, quality));
        }
        if self.planner.view.searcher.doc_freq(&heading)? > 0 {
            into.push(Alternative::Term(heading, quality * IN_HEADING));
        }
        Ok(known)
    }

    fn letters(&mut self, letters: &str, is_alone: bool) -> Result<(), IndexError> {
        let mut alternatives = Vec::new();
        let known = self.take(letters, 1.0, &mut alternatives)?;
        let count = letters.chars().count();
        let found = self.planner.found(self.planner.phrase(letters))?;
        let size = found.len() as u64;
        if size > 0 {
            alternatives.push(Alternative::Chunks(found));
        }
        let weight = self.rarity(known.max(size));
        self.made.push(Concept { weight, alternatives, is_required: false });
        // Who asks for nothing else wants no parts of it, unless there is nothing of the kind.
        if count > 2 && !(is_alone && size > 0) {
            let mut all = Vec::new();
            pairs(letters, &mut |pair| all.push(pair));
            for pair in all {
                self.pair(&pair)?;
            }
        }
        Ok(())
    }

    fn pair(&mut self, pair: &str) -> Result<(), IndexError> {
        let term = Term::from_field_text(self.planner.view.fields.exact, pair);
        let known = self.planner.view.searcher.doc_freq(&term)?;
        if known > 0 {
            let weight = PART * self.rarity(known);
            self.made.push(Concept { weight, alternatives: vec![Alternative::Term(term, 1.0)], is_required: false });
        }
        Ok(())
    }

    fn chunks(&mut self, query: Option<Box<dyn Query>>, is_required: bool) -> Result<(), IndexError> {
        let found = self.planner.found(query)?;
        let weight = self.rarity(found.len() as u64);
        self.made.push(Concept { weight, alternatives: vec![Alternative::Chunks(found)], is_required });
        Ok(())
    }

    /// Number of chunks with a term that whoever asks may see, up to `most`. Of a term that very many others have not all are
    /// looked at.
    fn seen(&self, term: &Term, most: u64) -> Result<u64, IndexError> {
        let mut left = LOOKED_AT.min(usize::try_from(self.planner.view.searcher.doc_freq(term)?).unwrap_or(usize::MAX));
        let mut seen = 0;
        for (segment, reader) in (0..).zip(self.planner.view.searcher.segment_readers()) {
            let index = reader.inverted_index(term.field())?;
            let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else { continue };
            let keys = self.planner.view.keys(segment)?;
            while postings.doc() != TERMINATED && left > 0 && seen < most {
                let doc = postings.doc();
                let is_seen = self.planner.allowed.positions.contains_key(&split_key(keys.get_val(doc)).0)
                    && !reader.is_deleted(doc);
                seen += u64::from(is_seen);
                left -= 1;
                postings.advance();
            }
        }
        Ok(seen)
    }

    /// Words that differ by one letter, or by two that changed places, and are more frequent in what whoever asks may see; the most
    /// frequent first.
    fn almost(&self, word: &str, known: u64) -> Result<Vec<String>, IndexError> {
        let query = FuzzyTermQuery::new(Term::from_field_text(self.planner.view.fields.exact, word), 1, true);
        let automaton = query.automaton()?;
        let mut words: Vec<(u64, String)> = Vec::new();
        for reader in self.planner.view.searcher.segment_readers() {
            let index = reader.inverted_index(self.planner.view.fields.exact)?;
            let mut stream = index.terms().search(&automaton).lt(UNSPACED).into_stream()?;
            while stream.advance() {
                let Ok(found) = std::str::from_utf8(stream.key()) else { continue };
                let chunks = u64::from(stream.value().doc_freq);
                match words.iter_mut().find(|(_, other)| other == found) {
                    Some((all, _)) => *all += chunks,
                    None => words.push((chunks, found.to_owned())),
                }
            }
        }
        // What is as rare may be as wrong.
        words.retain(|(chunks, found)| found != word && *chunks > known && found.chars().all(char::is_alphabetic));
        words.sort_by(|one, other| other.cmp(one));
        words.truncate(MOST_COUNTED);
        for (chunks, word) in &mut words {
            *chunks = self.seen(&Term::from_field_text(self.planner.view.fields.exact, word), ENOUGH)?;
        }
        words.retain(|(chunks, _)| *chunks > known);
        words.sort_by(|one, other| other.cmp(one));
        words.truncate(MOST_MEANT);
        Ok(words.into_iter().map(|(_, word)| word).collect())
    }

    /// Worth of what so many chunks have.
    fn rarity(&self, chunks: u64) -> f32 {
        let all = self.planner.view.searcher.num_docs().max(chunks) as f32;
        let chunks = chunks as f32;
        (1.0 + (all - chunks + 0.5) / (chunks + 0.5)).ln()
    }
}
