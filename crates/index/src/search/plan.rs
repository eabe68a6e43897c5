//! Translation of parsed queries to index queries, restricted to visible documents: the index terms for each word, and
//! the weight of the word.

use std::collections::{HashMap, HashSet, hash_map::Entry::Vacant};

use tantivy::{
    DocAddress, DocSet as _, Score, TERMINATED, Term,
    collector::DocSetCollector,
    query::{BooleanQuery, FuzzyTermQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use super::{
    Request, VisibleDocument,
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

/// Builds queries for the documents that the caller may see.
pub(crate) struct Planner<'a> {
    pub(crate) view: &'a View,
    pub(crate) request: &'a Request,
    pub(crate) allowed: AllowedDocuments,
}

impl Planner<'_> {
    /// Returns the query for all visible chunks.
    pub(crate) fn seen(&self) -> Part {
        let one = |owner: &u32| -> (Occur, Part) {
            let term = Term::from_field_u64(self.view.fields.owner, u64::from(*owner));
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        };
        Box::new(BooleanQuery::new(self.allowed.positions.keys().map(one).collect()))
    }

    pub(super) fn found(&self, query: Option<Part>) -> Result<FoundChunks, IndexError> {
        query.map_or_else(|| Ok(FoundChunks::new()), |query| Ok(self.view.searcher.search(&query, &DocSetCollector)?))
    }

    /// Returns the query for chunks that contain an excluded unit.
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

    /// Returns the query for chunks that contain this term.
    pub(crate) fn term(&self, field: Field, text: &str) -> Part {
        Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::WithFreqs))
    }

    /// Returns the query for an exact text, or `None` if the text has no terms.
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

    /// Returns the query for chunks with a term that matches the whole expression, or `None` if the expression is too
    /// large.
    pub(crate) fn matching(&self, expression: &str) -> Option<Part> {
        RegexQuery::from_pattern(expression, self.view.fields.exact).ok().map(|query| Box::new(query) as Part)
    }
}

/// Returns the terms of a phrase with their positions in the phrase.
pub(crate) fn phrase_terms(text: &str) -> Vec<Token> {
    let mut terms = tokens(text);
    terms.retain(|token| token.form != Form::Part);
    // The text may continue after the last character of the phrase.
    if terms.len() > 1 && terms.last().is_some_and(|token| token.form == Form::Last) {
        terms.pop();
    }
    terms
}

/// Visible documents that are indexed.
#[derive(Debug, Default)]
pub(crate) struct AllowedDocuments {
    /// Position in the request, by document number.
    pub(super) positions: HashMap<u32, usize>,
    /// Total number of chunks of these documents.
    pub(crate) chunks: u64,
}

impl AllowedDocuments {
    pub(crate) fn new(view: &View, documents: &[VisibleDocument]) -> Self {
        let mut allowed = Self::default();
        for (position, document) in documents.iter().enumerate() {
            let Some(entry) = view.entries.get(&document.id) else { continue };
            // A document listed under two names is cited by the first.
            if let Vacant(empty) = allowed.positions.entry(entry.owner) {
                empty.insert(position);
                allowed.chunks += u64::from(entry.chunks);
            }
        }
        allowed
    }

    /// Builds a candidate from a chunk's key, or returns `None` if the document is not visible or the key belongs to an
    /// entry.
    pub(crate) fn candidate(&self, key: u64, address: DocAddress, score: Score) -> Option<Candidate> {
        let (owner, ordinal) = split_key(key);
        let position = *self.positions.get(&owner)?;
        (ordinal != ENTRY_ORDINAL).then_some(Candidate { position, owner, ordinal, address, score })
    }
}

/// Matching chunk whose text has not been loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    /// Position of the candidate's document in the request.
    pub(crate) position: usize,
    pub(crate) owner: u32,
    pub(crate) ordinal: u32,
    pub(crate) address: DocAddress,
    pub(crate) score: Score,
}

impl Candidate {
    /// Returns the sort key for document order.
    pub(crate) const fn place(&self) -> (usize, u32) {
        (self.position, self.ordinal)
    }
}

/// Weight of a word that only occurs in a chunk's heading, relative to a word in its text.
const HEADING_WEIGHT: f32 = 0.5;
/// Weight of part of a unit: a pair of characters, or a word in a phrase.
const PART_WEIGHT: f32 = 0.3;
/// Weight of a word that corrects a typo.
const CORRECTION_WEIGHT: f32 = 0.8;
/// Maximum number of chunks that contain a possible typo. More frequent words are not corrected.
const MAX_TYPO_CHUNKS: u64 = 3;
/// Minimum length of a possible typo. Shorter words are not corrected.
const MIN_TYPO_LETTERS: usize = 4;
/// First term in scripts without spaces. This term and later ones are not considered as corrections, since each of them
/// differs by one character from many others.
const FIRST_UNSPACED_TERM: &str = "\u{2e80}";
/// Maximum number of corrections for one word.
const MAX_CORRECTIONS: usize = 8;

/// Maximum number of corrections whose visible chunks are counted, and the count above which frequencies are not
/// distinguished.
const MAX_COUNTED_CORRECTIONS: usize = 64;
const FREQUENCY_CAP: u64 = 100;
/// Maximum number of chunks that are checked when counting visible chunks that contain a word.
const MAX_CHECKED_CHUNKS: usize = 20_000;

/// Addresses of matching chunks.
pub(super) type FoundChunks = HashSet<DocAddress>;

/// One unit of a query, with the forms in which a chunk may contain it.
pub(super) struct Concept {
    pub(super) weight: f32,
    pub(super) alternatives: Vec<Alternative>,
    /// True if chunks without the concept are not hits, as long as there are chunks with it.
    pub(super) is_required: bool,
}

/// Form in which a chunk may contain a concept.
pub(super) enum Alternative {
    /// Term in the text or heading, with its weight.
    Term(Term, f32),
    /// Chunks that contain the form.
    Chunks(FoundChunks),
}

/// Builds the concepts of a query.
pub(super) struct Concepts<'a> {
    planner: &'a Planner<'a>,
    collected: Vec<Concept>,
    /// Corrections of possible typos.
    corrections: Vec<String>,
}

impl<'a> Concepts<'a> {
    /// Returns the concepts of a query, rarest first, and the corrections of possible typos.
    pub(super) fn of(
        parsed: &ParsedQuery,
        planner: &'a Planner<'a>,
    ) -> Result<(Vec<Concept>, Vec<String>), IndexError> {
        let mut concepts = Self { planner, collected: Vec::new(), corrections: Vec::new() };
        for unit in &parsed.units {
            concepts.add(unit, parsed.units.len() == 1)?;
        }
        let Self { mut collected, corrections, .. } = concepts;
        collected.retain(|concept| !concept.alternatives.is_empty());
        collected.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        Ok((collected, corrections))
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
                        // Single digits of a number such as 4.1 carry no meaning.
                        Form::Word if token.text.len() > 1 => {
                            self.word(&token.text, &stems(&token.text), PART_WEIGHT)?
                        }
                        Form::Pair => self.pair(&token.text)?,
                        Form::Word | Form::Part | Form::Last => {}
                    }
                }
                Ok(())
            }
        }
    }

    fn word(&mut self, exact: &str, stems: &[String], share: f32) -> Result<(), IndexError> {
        let (mut alternatives, mut frequency) = (Vec::new(), 0);
        for stem in stems {
            frequency += self.take(stem, 1.0, &mut alternatives)?;
        }
        let mut share = share;
        let may_be_wrong = exact.chars().count() >= MIN_TYPO_LETTERS && exact.chars().all(char::is_alphabetic);
        // Rarity is only measured in visible documents; other documents do not count.
        let mut seen = if may_be_wrong { 0 } else { u64::MAX };
        for stem in stems.iter().filter(|_| may_be_wrong) {
            seen += self.seen(&Term::from_field_text(self.planner.view.fields.words, stem), MAX_TYPO_CHUNKS + 1)?;
        }
        if seen <= MAX_TYPO_CHUNKS {
            let mut as_meant = 0;
            for word in self.similar_words(exact, seen)? {
                for stem in crate::analyze::stems(&word) {
                    as_meant += self.take(&stem, if seen == 0 { 1.0 } else { CORRECTION_WEIGHT }, &mut alternatives)?;
                }
                self.corrections.push(word);
            }
            if seen == 0 && as_meant > 0 {
                share *= CORRECTION_WEIGHT;
            }
            frequency += as_meant;
        }
        let weight = share * self.rarity(frequency);
        self.collected.push(Concept { weight, alternatives, is_required: false });
        Ok(())
    }

    /// Adds the term for a word in texts and headings. Returns the number of chunks whose text contains the word.
    fn take(&self, word: &str, quality: f32, into: &mut Vec<Alternative>) -> Result<u64, IndexError> {
        let fields = &self.planner.view.fields;
        let is_present =
            |term: &Term| into.iter().any(|other| matches!(other, Alternative::Term(other, _) if other == term));
        let (text, heading) = (Term::from_field_text(fields.words, word), Term::from_field_text(fields.heading, word));
        if is_present(&text) {
            return Ok(0);
        }
        let frequency = self.planner.view.searcher.doc_freq(&text)?;
        if frequency > 0 {
            into.push(Alternative::Term(text, quality));
        }
        if self.planner.view.searcher.doc_freq(&heading)? > 0 {
            into.push(Alternative::Term(heading, quality * HEADING_WEIGHT));
        }
        Ok(frequency)
    }

    fn letters(&mut self, letters: &str, is_alone: bool) -> Result<(), IndexError> {
        let mut alternatives = Vec::new();
        let frequency = self.take(letters, 1.0, &mut alternatives)?;
        let count = letters.chars().count();
        let found = self.planner.found(self.planner.phrase(letters))?;
        let size = found.len() as u64;
        if size > 0 {
            alternatives.push(Alternative::Chunks(found));
        }
        let weight = self.rarity(frequency.max(size));
        self.collected.push(Concept { weight, alternatives, is_required: false });
        // For a query that is a single word, parts only help if the whole word does not occur.
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
        let frequency = self.planner.view.searcher.doc_freq(&term)?;
        if frequency > 0 {
            let weight = PART_WEIGHT * self.rarity(frequency);
            let alternatives = vec![Alternative::Term(term, 1.0)];
            self.collected.push(Concept { weight, alternatives, is_required: false });
        }
        Ok(())
    }

    fn chunks(&mut self, query: Option<Box<dyn Query>>, is_required: bool) -> Result<(), IndexError> {
        let found = self.planner.found(query)?;
        let weight = self.rarity(found.len() as u64);
        self.collected.push(Concept { weight, alternatives: vec![Alternative::Chunks(found)], is_required });
        Ok(())
    }

    /// Counts the visible chunks that contain a term, up to `most`. At most [`MAX_CHECKED_CHUNKS`] chunks are checked.
    fn seen(&self, term: &Term, most: u64) -> Result<u64, IndexError> {
        let mut left =
            MAX_CHECKED_CHUNKS.min(usize::try_from(self.planner.view.searcher.doc_freq(term)?).unwrap_or(usize::MAX));
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

    /// Returns words that differ by one letter or by two transposed letters and are more frequent in the visible
    /// documents, most frequent first.
    fn similar_words(&self, word: &str, frequency: u64) -> Result<Vec<String>, IndexError> {
        let query = FuzzyTermQuery::new(Term::from_field_text(self.planner.view.fields.exact, word), 1, true);
        let automaton = query.automaton()?;
        let mut words: Vec<(u64, String)> = Vec::new();
        for reader in self.planner.view.searcher.segment_readers() {
            let index = reader.inverted_index(self.planner.view.fields.exact)?;
            let mut stream = index.terms().search(&automaton).lt(FIRST_UNSPACED_TERM).into_stream()?;
            while stream.advance() {
                let Ok(found) = std::str::from_utf8(stream.key()) else { continue };
                let chunks = u64::from(stream.value().doc_freq);
                match words.iter_mut().find(|(_, other)| other == found) {
                    Some((all, _)) => *all += chunks,
                    None => words.push((chunks, found.to_owned())),
                }
            }
        }
        // A word that is equally rare may also be a typo.
        words.retain(|(chunks, found)| found != word && *chunks > frequency && found.chars().all(char::is_alphabetic));
        words.sort_by(|one, other| other.cmp(one));
        words.truncate(MAX_COUNTED_CORRECTIONS);
        for (chunks, word) in &mut words {
            *chunks = self.seen(&Term::from_field_text(self.planner.view.fields.exact, word), FREQUENCY_CAP)?;
        }
        words.retain(|(chunks, _)| *chunks > frequency);
        words.sort_by(|one, other| other.cmp(one));
        words.truncate(MAX_CORRECTIONS);
        Ok(words.into_iter().map(|(_, word)| word).collect())
    }

    /// Returns the weight of a term that occurs in `chunks` chunks.
    fn rarity(&self, chunks: u64) -> f32 {
        let all = self.planner.view.searcher.num_docs().max(chunks) as f32;
        let chunks = chunks as f32;
        (1.0 + (all - chunks + 0.5) / (chunks + 0.5)).ln()
    }
}
