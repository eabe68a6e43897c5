//! Search in past sessions: queries, searchable content, and hits for display. Pure types.

use std::ops::Range;

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
/// Maximum number of terms in a query; further terms are ignored.
const MAX_TERMS: usize = 16;
/// Maximum number of characters read from a query.
const MAX_QUERY: usize = 400;
/// Approximate length of an excerpt, in characters.
const EXCERPT: usize = 240;

/// Query for words and phrases that must all occur, in any order, ignoring case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<String>,
}

impl SearchQuery {
    /// Parses a query of words, and phrases in double quotes. There are no operators, and any text is valid. `None` if
    /// the text has neither a letter nor a digit.
    pub fn parse(text: &str) -> Option<Self> {
        let text: String =
            text.chars().take(MAX_QUERY).map(|letter| if is_quote(letter) { '"' } else { letter }).collect();
        let mut terms: Vec<String> = Vec::new();
        for (index, part) in text.split('"').enumerate() {
            let is_quoted = index % 2 == 1;
            let words: Vec<&str> = part.split(|letter: char| letter.is_whitespace() || letter.is_control()).collect();
            let words = words.into_iter().filter(|word| !word.is_empty());
            if is_quoted {
                terms.push(words.collect::<Vec<_>>().join(" "));
            } else {
                terms.extend(words.map(str::to_owned));
            }
        }
        terms.retain(|term| term.chars().any(char::is_alphanumeric));
        terms.dedup();
        terms.truncate(MAX_TERMS);
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// Returns the terms that must all occur.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Returns true if all terms occur in `text`.
    pub fn fits(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.terms.iter().all(|term| text.contains(&term.to_lowercase()))
    }

    /// Returns an excerpt around the first matching term, on one line, and the byte ranges of the terms in the excerpt.
    pub fn excerpt(&self, text: &str) -> (String, Vec<Range<usize>>) {
        let first = self.terms.iter().filter_map(|term| find(text, term, 0)).map(|found| found.start).min();
        let start = first.unwrap_or(0);
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

    /// Returns the byte ranges of the terms in `text`, in order and without overlaps.
    fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let mut marks: Vec<Range<usize>> = Vec::new();
        for term in &self.terms {
            let mut from = 0;
            while let Some(found) = find(text, term, from) {
                from = found.end;
                marks.push(found);
            }
        }
        marks.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
        let mut end = 0;
        marks.retain(|mark| {
            let is_separate = mark.start >= end;
            end = end.max(mark.end);
            is_separate
        });
        marks
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '“' | '”' | '„' | '«' | '»' | '「' | '」')
}

/// Finds a term at or after the byte offset `from`, ignoring case.
fn find(text: &str, term: &str, from: usize) -> Option<Range<usize>> {
    let folded = |letter: char| letter.to_lowercase();
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
    text[from..].char_indices().find_map(|(at, _)| ends(from + at).map(|end| from + at..end))
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
        check("\" ' * () \u{0}", &[]);
        check("", &[]);
        assert!(SearchQuery::parse(&"word ".repeat(10_000)).unwrap().terms.len() <= MAX_TERMS);
    }

    #[test]
    fn excerpts_contain_the_search_terms() {
        let query = SearchQuery::parse("KEY \"the door\"").unwrap();
        let long = format!("{} The key\nof THE  DOOR. {}", "before ".repeat(100), "after ".repeat(100));
        let (shown, marks) = query.excerpt(&long);
        let marked: Vec<&str> = marks.iter().map(|mark| &shown[mark.clone()]).collect();
        assert_eq!(marked, ["key", "THE DOOR"], "{shown}");
        assert!(shown.chars().count() < 2 * EXCERPT && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        let (shown, marks) = SearchQuery::parse("straße").unwrap().excerpt("Die STRAßE, İstanbul 报告");
        assert_eq!(&shown[marks[0].clone()], "STRAßE");
        assert_eq!(query.excerpt("nothing of it"), ("nothing of it".to_owned(), Vec::new()));
    }
}
