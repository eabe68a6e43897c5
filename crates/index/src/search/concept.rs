//! Words of a query: the terms of the index that each stands for, and its weight.

use std::collections::HashSet;

use tantivy::{
    DocAddress, DocSet as _, TERMINATED, Term,
    collector::DocSetCollector,
    query::{FuzzyTermQuery, Query},
    schema::IndexRecordOption,
};

use super::{
    parse::{ParsedQuery, Unit},
    plan::Planner,
};
use crate::{
    analyze::{Form, exact::tokens, stems, words::pairs},
    index::{error::IndexError, schema::split_key, view::View},
};

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
    view: &'a View,
    planner: &'a Planner<'a>,
    made: Vec<Concept>,
    /// Words that were taken for what was meant.
    meant: Vec<String>,
}

impl<'a> Concepts<'a> {
    /// The concepts of a query, the rarest first, and the words that were taken for what was meant.
    pub(super) fn of(
        parsed: &ParsedQuery,
        view: &'a View,
        planner: &'a Planner<'a>,
    ) -> Result<(Vec<Concept>, Vec<String>), IndexError> {
        let mut concepts = Self { view, planner, made: Vec::new(), meant: Vec::new() };
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
            seen += self.seen(&Term::from_field_text(self.planner.fields.words, stem), RARE + 1)?;
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
        let fields = self.planner.fields;
        let is_there =
            |term: &Term| into.iter().any(|other| matches!(other, Alternative::Term(known, _) if known == term));
        let (text, heading) = (Term::from_field_text(fields.words, word), Term::from_field_text(fields.heading, word));
        if is_there(&text) {
            return Ok(0);
        }
        let known = self.view.searcher.doc_freq(&text)?;
        if known > 0 {
            into.push(Alternative::Term(text, quality));
        }
        if self.view.searcher.doc_freq(&heading)? > 0 {
            into.push(Alternative::Term(heading, quality * IN_HEADING));
        }
        Ok(known)
    }

    fn letters(&mut self, letters: &str, is_alone: bool) -> Result<(), IndexError> {
        let mut alternatives = Vec::new();
        let known = self.take(letters, 1.0, &mut alternatives)?;
        let count = letters.chars().count();
        let found = found(self.view, self.planner.phrase(letters))?;
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
        let term = Term::from_field_text(self.planner.fields.exact, pair);
        let known = self.view.searcher.doc_freq(&term)?;
        if known > 0 {
            let weight = PART * self.rarity(known);
            self.made.push(Concept { weight, alternatives: vec![Alternative::Term(term, 1.0)], is_required: false });
        }
        Ok(())
    }

    fn chunks(&mut self, query: Option<Box<dyn Query>>, is_required: bool) -> Result<(), IndexError> {
        let found = found(self.view, query)?;
        let weight = self.rarity(found.len() as u64);
        self.made.push(Concept { weight, alternatives: vec![Alternative::Chunks(found)], is_required });
        Ok(())
    }

    /// Number of chunks with a term that whoever asks may see, up to `most`. Of a term that very many others have not all are
    /// looked at.
    fn seen(&self, term: &Term, most: u64) -> Result<u64, IndexError> {
        let mut left = LOOKED_AT.min(usize::try_from(self.view.searcher.doc_freq(term)?).unwrap_or(usize::MAX));
        let mut seen = 0;
        for (segment, reader) in (0..).zip(self.view.searcher.segment_readers()) {
            let index = reader.inverted_index(term.field())?;
            let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else { continue };
            let keys = self.view.keys(segment)?;
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
        let query = FuzzyTermQuery::new(Term::from_field_text(self.planner.fields.exact, word), 1, true);
        let automaton = query.automaton()?;
        let mut words: Vec<(u64, String)> = Vec::new();
        for reader in self.view.searcher.segment_readers() {
            let index = reader.inverted_index(self.planner.fields.exact)?;
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
            *chunks = self.seen(&Term::from_field_text(self.planner.fields.exact, word), ENOUGH)?;
        }
        words.retain(|(chunks, _)| *chunks > known);
        words.sort_by(|one, other| other.cmp(one));
        words.truncate(MOST_MEANT);
        Ok(words.into_iter().map(|(_, word)| word).collect())
    }

    /// Worth of what so many chunks have.
    #[expect(clippy::cast_precision_loss, reason = "it goes into a logarithm")]
    fn rarity(&self, chunks: u64) -> f32 {
        let all = self.view.searcher.num_docs().max(chunks) as f32;
        let chunks = chunks as f32;
        (1.0 + (all - chunks + 0.5) / (chunks + 0.5)).ln()
    }
}

/// Chunks that a query finds; none where there is no query.
pub(super) fn found(view: &View, query: Option<Box<dyn Query>>) -> Result<FoundChunks, IndexError> {
    query.map_or_else(|| Ok(FoundChunks::new()), |query| Ok(view.searcher.search(&query, &DocSetCollector)?))
}
