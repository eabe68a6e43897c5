//! Search in past sessions: queries, searchable content, and hits for display. Pure types.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::SessionId,
    item::{Item, ItemBody, NoticeTopic},
    tool::{ToolCall, ToolResult},
};

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Hits in order, best first.
    pub hits: Vec<SearchHit>,
    /// Number of stored events that were not searched because the index is still being built. 0 if everything was
    /// searched. Later searches find their content.
    pub unsearched: u64,
}

/// Tool by which a model searches its session.
pub const TOOL: &str = "search_history";
/// Length of the search index's n-grams in characters. Shorter terms are searched for in the texts.
const TRIGRAM: usize = 3;
/// Maximum number of terms in a query; further terms are ignored.
const MAX_TERMS: usize = 32;
/// Maximum number of characters read from a query.
const MAX_QUERY: usize = 400;
/// Approximate length of an excerpt, in characters.
const EXCERPT: usize = 240;
/// Maximum number of occurrences of a term that are considered for an excerpt.
const MAX_OCCURRENCES: usize = 16;
/// Punctuation at the end of a word that does not belong to the word.
const END_MARKS: [char; 14] = ['?', '!', '.', ',', ';', ':', '…', '？', '！', '。', '，', '、', '；', '：'];
/// Marks around a word, which its other occurrences do not have.
const ENCLOSING: [char; 13] = ['(', ')', '[', ']', '{', '}', '<', '>', '`', '\'', '‘', '’', '*'];

/// Query for words and phrases, in any order, ignoring case. Texts with all of them match best; texts with any of them
/// also match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<String>,
    parts: Vec<String>,
}

impl SearchQuery {
    /// Parses a query of words, and phrases in double quotes. There are no operators, and any text is valid. `None` if
    /// the text has neither a letter nor a digit.
    pub fn parse(text: &str) -> Option<Self> {
        let text: String =
            text.chars().take(MAX_QUERY).map(|letter| if is_quote(letter) { '"' } else { letter }).collect();
        let (mut terms, mut parts) = (Vec::new(), Vec::new());
        for (index, part) in text.split('"').enumerate() {
            let is_quoted = index % 2 == 1;
            let words = part.split(|letter: char| letter.is_whitespace() || letter.is_control());
            let words = words.filter(|word| !word.is_empty());
            if is_quoted {
                let phrase = words.collect::<Vec<_>>().join(" ");
                parts.push(phrase.clone());
                terms.push(phrase);
            } else {
                for word in words.map(|word| word.trim_end_matches(END_MARKS)) {
                    parts.extend(runs(word));
                    terms.push(word.to_owned());
                }
            }
        }
        for list in [&mut terms, &mut parts] {
            let mut seen = HashSet::new();
            list.retain(|term| term.chars().any(char::is_alphanumeric) && seen.insert(term.to_lowercase()));
        }
        // Beside longer words, short ones such as "we" or "of" match nearly every text. In scripts without spaces, two
        // characters are often a word.
        let has_indexed = parts.iter().any(|part| is_indexed(part));
        let is_short_word = |part: &str| part.chars().count() > 1 && part.chars().all(is_unspaced);
        parts.retain(|part| !has_indexed || is_indexed(part) || is_short_word(part));
        terms.truncate(MAX_TERMS);
        parts.truncate(MAX_TERMS);
        if terms.len() == 1 && parts == terms {
            parts.clear();
        }
        (!terms.is_empty()).then_some(Self { terms, parts })
    }

    /// Restricts the matches to texts in which all terms occur.
    #[must_use]
    pub fn requiring_all(self) -> Self {
        Self { parts: Vec::new(), ..self }
    }

    /// Returns the terms. Texts with all of them match best.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Returns the parts of the query, each of which is sufficient for a match: phrases, words, and in scripts without
    /// spaces every three characters in a row. Empty if only texts with all terms match.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Returns an excerpt around the best passage, on one line, and the byte ranges of the matches in the excerpt.
    pub fn excerpt(&self, text: &str) -> (String, Vec<Range<usize>>) {
        let start = self.best_start(text);
        let begin = text[..start].char_indices().rev().nth(EXCERPT / 4).map_or(0, |(at, _)| at);
        let end = text[start..].char_indices().nth(EXCERPT).map_or(text.len(), |(at, _)| start + at);
        let words = text[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown = String::new();
        if begin > 0 {
            shown.push('…');
        }
        shown.push_str(&words);
        if end < text.len() {
            shown.push('…');
        }
        let marks = self.marks(&shown);
        (shown, marks)
    }

    /// Returns the words and phrases to show in a match.
    fn shown_terms(&self) -> &[String] {
        if self.parts.is_empty() { &self.terms } else { &self.parts }
    }

    /// Returns the start of the passage with the most terms, of which longer ones count more. The first such passage is
    /// chosen.
    fn best_start(&self, text: &str) -> usize {
        let terms = self.shown_terms();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            found.extend(occurrences(text, term).take(MAX_OCCURRENCES).map(|range| (range.start, index)));
        }
        found.sort_unstable();
        let mut best = (0, 0);
        for (at, (start, _)) in found.iter().enumerate() {
            let near = found[at..].iter().take_while(|(other, _)| other - start < EXCERPT);
            let distinct: BTreeSet<usize> = near.map(|(_, index)| *index).collect();
            let score: usize = distinct.into_iter().map(|index| terms[index].len()).sum();
            if score > best.0 {
                best = (score, *start);
            }
        }
        best.1
    }

    /// Returns the byte ranges of the matches in `text`, in order and without overlaps.
    fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let mut marks: Vec<Range<usize>> = self.shown_terms().iter().flat_map(|term| occurrences(text, term)).collect();
        marks.sort_by_key(|mark| (mark.start, mark.end));
        let mut merged: Vec<Range<usize>> = Vec::new();
        for mark in marks {
            match merged.last_mut() {
                Some(last) if mark.start < last.end => last.end = last.end.max(mark.end),
                _ => merged.push(mark),
            }
        }
        merged
    }
}

/// Splits a word where it changes between scripts with and without spaces, and the latter into every three characters
/// in a row, because such a word may be a whole sentence. Other words lose the marks around them.
fn runs(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let mut runs = Vec::new();
    for run in letters.chunk_by(|left, right| is_unspaced(*left) == is_unspaced(*right)) {
        if run.iter().copied().all(is_unspaced) {
            runs.extend(run.windows(run.len().min(TRIGRAM)).map(|part| part.iter().collect::<String>()));
            continue;
        }
        let run: String = run.iter().collect();
        let is_end = |letter: char| ENCLOSING.contains(&letter) || END_MARKS.contains(&letter);
        let bare = run.trim_start_matches(ENCLOSING).trim_end_matches(is_end);
        runs.push(if is_indexed(bare) { bare.to_owned() } else { run });
    }
    runs
}

/// Returns true if the term is long enough for the search index.
pub fn is_indexed(term: &str) -> bool {
    term.chars().count() >= TRIGRAM
}

/// Returns true for letters of scripts without spaces between words, and of Korean, whose words carry endings.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '“' | '”' | '„' | '«' | '»' | '「' | '」')
}

/// Returns the byte ranges of a term in a text, ignoring case.
fn occurrences(text: &str, term: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = find(text, term, from)?;
        from = found.end;
        Some(found)
    })
}

/// Finds a term at or after the byte offset `from`, ignoring case.
fn find(text: &str, term: &str, from: usize) -> Option<Range<usize>> {
    let folded = |letter: char| letter.to_lowercase();
    let first = term.chars().flat_map(folded).next();
    let ends = |start: usize| {
        let mut wanted = term.chars().flat_map(folded).peekable();
        for (at, letter) in text[start..].char_indices() {
            if wanted.peek().is_none() {
                return Some(start + at);
            }
            if !folded(letter).all(|letter| wanted.next() == Some(letter)) {
                return None;
            }
        }
        wanted.peek().is_none().then_some(text.len())
    };
    let starts = text[from..].char_indices().filter(|(_, letter)| folded(*letter).next() == first);
    starts.map(|(at, _)| from + at).find_map(|start| ends(start).map(|end| start..end))
}

/// Returns the kind and the text of an item for the search index. `None` for items that are not searchable.
pub fn searchable(item: &Item) -> Option<(SearchKind, String)> {
    let found = match &item.body {
        // Otherwise, each search would find the previous search.
        ItemBody::ToolCall(ToolCall { name, .. }) | ItemBody::ToolResult(ToolResult { name, .. }) if name == TOOL => {
            return None;
        }
        ItemBody::UserMessage { text, .. } => (SearchKind::Person, text.clone()),
        ItemBody::AgentMessage { text } => (SearchKind::Model, text.clone()),
        ItemBody::ToolCall(call) => (SearchKind::Call, format!("{} {}", call.name, call.arguments)),
        ItemBody::ToolResult(result) => (SearchKind::Result, result.text.clone()),
        ItemBody::Notice { text, topic: NoticeTopic::General, .. } => (SearchKind::Notice, text.clone()),
        // These kinds repeat other items in different words.
        ItemBody::Reasoning { .. } | ItemBody::Compaction(_) | ItemBody::Notice { .. } => return None,
    };
    (!found.1.trim().is_empty()).then_some(found)
}

names! {
    /// Kind of a hit.
    pub enum SearchKind {
        /// Message of a user.
        Person = "person",
        /// Message of a model.
        Model = "model",
        /// Call to a tool.
        Call = "call",
        /// Result of a call.
        Result = "result",
        /// Notice from the daemon.
        Notice = "notice",
    }
}

/// A hit of a search in sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHit {
    /// Session of the hit.
    pub session_id: SessionId,
    /// Title of the session.
    pub title: String,
    /// Number of the event.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Kind of the hit.
    pub kind: SearchKind,
    /// Text around the match, on one line.
    pub excerpt: String,
    /// Byte ranges of the matches in the excerpt.
    pub marks: Vec<Range<usize>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_parses_as_a_query() {
        let check = |text: &str, expected: &[&str]| {
            let terms = SearchQuery::parse(text).map(|query| query.terms).unwrap_or_default();
            assert_eq!(terms, expected, "{text:?}");
        };
        check("tax papers", &["tax", "papers"]);
        check("\"tax  papers\" 2024", &["tax papers", "2024"]);
        check("an “odd phrase", &["an", "odd phrase"]);
        check("a AND (b OR *) NOT c^2 col:x -y", &["a", "AND", "(b", "OR", "NOT", "c^2", "col:x", "-y"]);
        check("报告 税", &["报告", "税"]);
        check("Where is it? Where, the .env!", &["Where", "is", "it", "the", ".env"]);
        check("\" ' * () \u{0}", &[]);
        check("", &[]);
        let many: String = (0..10_000).map(|number| format!("{number} ")).collect();
        assert!(SearchQuery::parse(&many).unwrap().terms.len() <= MAX_TERMS);
    }

    #[test]
    fn parts_are_words_and_sequences_without_spaces() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(SearchQuery::parse(text).unwrap().parts, expected, "{text:?}");
        };
        check("tax", &[]);
        check("of tax papers", &["tax", "papers"]);
        check("\"of tax\" x", &["of tax"]);
        check("is it", &["is", "it"]);
        check("税务报告", &["税务报", "务报告"]);
        check("\"税务报告\"", &[]);
        check("哪里改max_retries？", &["哪里改", "max_retries"]);
        check("报告 税 2024", &["报告", "2024"]);
        check("where is `max_retries` (set)?", &["where", "max_retries", "set"]);
        check("`max_retries`在哪里", &["max_retries", "在哪里"]);
        check("(a)", &[]);
        let long: String = ('\u{4e00}'..='\u{5000}').collect();
        assert!(SearchQuery::parse(&long).unwrap().parts.len() <= MAX_TERMS);
        assert!(SearchQuery::parse("tax papers").unwrap().requiring_all().parts.is_empty());
    }

    #[test]
    fn excerpts_contain_the_search_terms() {
        let query = SearchQuery::parse("KEY \"the door\"").unwrap();
        let long = format!("{} The key\nof THE  DOOR. {}", "before ".repeat(100), "after ".repeat(100));
        let (shown, marks) = query.excerpt(&long);
        let marked: Vec<&str> = marks.iter().map(|mark| &shown[mark.clone()]).collect();
        assert_eq!(marked, ["key", "THE DOOR"], "{shown}");
        assert!(shown.chars().count() < 2 * EXCERPT && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        // Common words at the start do not hide the passage with the rare ones.
        let question = SearchQuery::parse("where did we change the retry limit?").unwrap();
        let (shown, marks) = question.excerpt(&format!("the {}the retry limit is 5", "before ".repeat(100)));
        let marked: Vec<&str> = marks.iter().map(|mark| &shown[mark.clone()]).collect();
        assert_eq!(marked, ["the", "retry", "limit"], "{shown}");
        let (shown, marks) = SearchQuery::parse("哪里改了重试次数？").unwrap().excerpt("现在重试次数是五");
        assert_eq!(&shown[marks[0].clone()], "重试次数");
        let (shown, marks) = SearchQuery::parse("straße").unwrap().excerpt("Die STRAßE, İstanbul 报告");
        assert_eq!(&shown[marks[0].clone()], "STRAßE");
        assert_eq!(query.excerpt("nothing of it"), ("nothing of it".to_owned(), Vec::new()));
    }
}
