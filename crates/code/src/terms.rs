//! Terms for code search, derived from identifiers and plain questions.
//!
//! Splits text into identifiers and their parts, stems words, and counts the terms of each chunk in a file.

use std::{collections::HashMap, hash::BuildHasher};

use frostem::{Algorithm, Stemmer};
use hashbrown::{DefaultHashBuilder, HashTable};

/// Returns the terms of a text in order: the stemmed lowercase parts of each identifier, and the whole identifier if it
/// has several parts.
pub fn terms(text: &str) -> Vec<String> {
    let mut stems = Stems::default();
    let mut terms = Vec::new();
    stems.terms(text, &mut |term| terms.push(term.to_owned()));
    terms
}

impl Stems {
    /// Calls `emit` with the terms of a text in order.
    pub(crate) fn terms(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        words(text, &mut |word| parts(word, self, emit));
    }
}

/// Maximum length of an identifier that is indexed as a whole, in characters.
const MAX_WHOLE: usize = 64;
/// Maximum number of indexed parts per identifier. Base64 data would have hundreds.
const MAX_PARTS: usize = 24;

/// Returns true if the byte may be part of an identifier, including bytes of non-ASCII characters.
pub(crate) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Calls `emit` with each identifier, number and word of a text.
pub(crate) fn words<'text>(text: &'text str, emit: &mut dyn FnMut(&'text str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if !is_identifier_byte(*byte) {
            at += 1;
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| is_identifier_byte(*byte)) {
            at += 1;
        }
        // Each end is next to an ASCII byte or at an end of the text, so both are character boundaries.
        if let Some(word) = text.get(start..at) {
            emit(word);
        }
    }
}

/// Calls `emit` with the terms of an identifier.
pub(super) fn parts(word: &str, stems: &mut Stems, emit: &mut dyn FnMut(&str)) {
    if !word.is_ascii() {
        return other_scripts(word, stems, emit);
    }
    let bytes = word.as_bytes();
    let mut whole = String::new();
    let mut count = 0;
    let mut start = 0;
    for at in 1..=bytes.len() {
        if at < bytes.len() && !starts_part(bytes, at) {
            continue;
        }
        let part = word.get(start..at).unwrap_or_default().trim_matches('_');
        start = at;
        if part.is_empty() {
            continue;
        }
        count += 1;
        if count > MAX_PARTS {
            return;
        }
        if whole.len() + part.len() <= MAX_WHOLE {
            whole.push_str(&part.to_ascii_lowercase());
        }
        // Single letters are skipped unless they are the whole identifier.
        if part.len() > 1 && part.len() <= MAX_WHOLE {
            emit(stems.stem(part));
        }
    }
    if count > 1 || whole.len() == 1 {
        emit(&whole);
    }
}

/// Returns true if a new part starts at this byte, which must not be the first byte.
fn starts_part(bytes: &[u8], at: usize) -> bool {
    let (Some(before), Some(byte)) = (bytes.get(at - 1), bytes.get(at)) else { return false };
    match (before, byte) {
        (b'_', _) | (_, b'_') => *before != *byte,
        (before, byte) if before.is_ascii_digit() != byte.is_ascii_digit() => true,
        (before, byte) if byte.is_ascii_uppercase() => {
            // In `HTTPServer`, the last capital letter belongs to the next word.
            !before.is_ascii_uppercase() || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)
        }
        _ => false,
    }
}

/// Emits the terms of a non-ASCII word without stemming. In scripts without spaces, each pair of characters is a term.
fn other_scripts(word: &str, stems: &mut Stems, emit: &mut dyn FnMut(&str)) {
    let is_spaced = |letter: char| letter < '\u{2e80}';
    let mut rest = word;
    for _ in 0..MAX_PARTS {
        let Some(first) = rest.chars().next() else { return };
        let of_kind = |letter: char| {
            letter.is_alphanumeric() == first.is_alphanumeric()
                && letter.is_ascii() == first.is_ascii()
                && is_spaced(letter) == is_spaced(first)
        };
        // A Latin word with accents is one run, including its ASCII letters.
        let of_run = |letter: char| {
            if is_spaced(first) { is_spaced(letter) && letter.is_alphanumeric() } else { of_kind(letter) }
        };
        let end = rest.find(|letter| !of_run(letter)).unwrap_or(rest.len()).max(first.len_utf8());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !first.is_alphanumeric() {
            continue;
        }
        if is_spaced(first) {
            let lowercase: String = run.chars().take(MAX_WHOLE).flat_map(char::to_lowercase).collect();
            emit(if lowercase.is_ascii() { stems.stem(&lowercase) } else { &lowercase });
        } else {
            pairs(run, emit);
        }
    }
}

fn pairs(run: &str, emit: &mut dyn FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).take(MAX_WHOLE).collect();
    if let [first, last] = starts.as_slice() {
        return emit(run.get(*first..*last).unwrap_or_default());
    }
    for pair in starts.windows(3) {
        if let [first, _, last] = pair {
            emit(run.get(*first..*last).unwrap_or_default());
        }
    }
}

/// Maximum number of cached words. Code mostly repeats a small set of words.
const MAX_CACHED: usize = 50_000;

/// Stemmer with a cache.
pub(crate) struct Stems {
    stemmer: Stemmer,
    cache: HashMap<Box<str>, Box<str>, hashbrown::DefaultHashBuilder>,
    lowercase: String,
    unknown: String,
}

impl Default for Stems {
    fn default() -> Self {
        Self {
            stemmer: Stemmer::new(Algorithm::English),
            cache: HashMap::default(),
            lowercase: String::new(),
            unknown: String::new(),
        }
    }
}

impl Stems {
    /// Returns the lowercase stem of an ASCII word.
    pub(crate) fn stem(&mut self, word: &str) -> &str {
        self.lowercase.clear();
        self.lowercase.push_str(word);
        self.lowercase.make_ascii_lowercase();
        if self.lowercase.len() < 4 || self.lowercase.bytes().any(|byte| !byte.is_ascii_alphabetic()) {
            return &self.lowercase;
        }
        if !self.cache.contains_key(self.lowercase.as_str()) {
            let stem = self.stemmer.stem(&self.lowercase).into_owned();
            if self.cache.len() >= MAX_CACHED {
                self.unknown = stem;
                return &self.unknown;
            }
            self.cache.insert(self.lowercase.as_str().into(), stem.into());
        }
        self.cache.get(self.lowercase.as_str()).map_or("", |stem| stem)
    }
}

/// Words that are ignored in questions about code.
const STOP_WORDS: [&str; 78] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "code", "could", "did", "do", "does", "done", "during", "each", "file", "find", "for", "from", "get", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "must", "my", "not", "of", "on", "only", "or",
    "our", "please", "show", "so", "some", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "used", "uses", "using", "was", "we", "were", "what", "when", "where", "which", "while", "who",
    "why", "will", "with",
];

/// Returns true if the lowercase word is a stop word.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Set of interned strings, numbered from 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    bytes: String,
    /// End offset of each string.
    ends: Vec<u32>,
}

impl Interner {
    /// Returns the number of a string. Adds the string if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(number) = self.get(text) {
            return number;
        }
        let number = count(self.ends.len());
        self.bytes.push_str(text);
        self.ends.push(count(self.bytes.len()));
        let Self { hasher, table, bytes, ends } = self;
        let hash = hasher.hash_one(text);
        table.insert_unique(hash, number, |number| hasher.hash_one(text_of(bytes, ends, *number)));
        number
    }

    /// Returns the number of a stored string.
    pub(crate) fn get(&self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |number| self.text(*number) == text).copied()
    }

    /// Returns the string with this number, or an empty string if there is none.
    pub(crate) fn text(&self, number: u32) -> &str {
        text_of(&self.bytes, &self.ends, number)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn text_of<'all>(bytes: &'all str, ends: &[u32], number: u32) -> &'all str {
    let at = number as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(at).copied().unwrap_or(start);
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

/// Weights of the terms in a chunk, by term number in the file's [`TermTable`].
pub(crate) type TermCounts = Vec<(u32, u32)>;

/// Terms of one file. Identifiers repeat, so each is split and stemmed only once.
#[derive(Debug, Default)]
pub(crate) struct TermTable<'text> {
    /// Terms, numbered in order of occurrence.
    pub(crate) terms: Interner,
    /// Term numbers of each identifier or word.
    words: HashMap<&'text str, Vec<u32>, DefaultHashBuilder>,
    /// Weights of the terms in the current chunk.
    counts: HashMap<u32, u32, DefaultHashBuilder>,
}

impl<'text> TermTable<'text> {
    /// Adds the words of a text to the current chunk with this weight.
    pub(crate) fn add(&mut self, text: &'text str, weight: u32, stems: &mut Stems) {
        let Self { terms, words: numbers_by_word, counts } = self;
        words(text, &mut |word| {
            let numbers = numbers_by_word.entry(word).or_insert_with(|| {
                let mut numbers = Vec::new();
                parts(word, stems, &mut |term| numbers.push(terms.intern(term)));
                numbers
            });
            for term in numbers {
                *counts.entry(*term).or_default() += weight;
            }
        });
    }

    /// Finishes the current chunk and returns its weights, sorted by term number.
    pub(crate) fn finish_chunk(&mut self) -> TermCounts {
        let mut counts: TermCounts = self.counts.drain().collect();
        counts.sort_unstable();
        counts
    }
}

/// Converts a length to an index. The limits on files and terms keep lengths far below the maximum of `u32`.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text), expected, "{text}");
    }

    #[test]
    fn identifiers_yield_parts_and_the_whole() {
        check("getHTTPServer", &["get", "http", "server", "gethttpserver"]);
        check("JoinSet join_set", &["join", "set", "joinset", "join", "set", "joinset"]);
        check("MAX_RETRIES", &["max", "retri", "maxretries"]);
        check("sha256", &["sha", "256", "sha256"]);
        check("v4 x", &["v4", "x"]);
        check("__init__", &["init"]);
        check("foo.barBaz(qux)", &["foo", "bar", "baz", "barbaz", "qux"]);
    }

    #[test]
    fn questions_and_code_share_terms() {
        assert_eq!(terms("serialization"), terms("Serializer"));
        check("how connections are retried", &["how", "connect", "are", "retri"]);
        check("读取配置", &["读取", "取配", "配置"]);
        check("Größe", &["größe"]);
    }

    proptest::proptest! {
        #[test]
        fn terms_are_lowercase_and_bounded(text in ".{0,200}") {
            for term in terms(&text) {
                proptest::prop_assert!(!term.is_empty() && term.len() <= 4 * 64);
                proptest::prop_assert!(!term.bytes().any(|byte| byte.is_ascii_uppercase()));
            }
        }

        #[test]
        fn snake_and_camel_case_yield_equal_terms(parts in proptest::collection::vec("[a-z]{2,8}", 1..4)) {
            let snake = parts.join("_");
            let camel: String = parts.iter().map(|part| part[..1].to_uppercase() + &part[1..]).collect();
            proptest::prop_assert_eq!(terms(&snake), terms(&camel));
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("how") && !is_stop_word("mutex"));
    }
}
