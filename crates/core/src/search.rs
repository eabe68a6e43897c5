//! Search in what was said and done: what is looked for, what can be found, and how a find is shown. Pure.

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
    /// The finds, the best first.
    pub hits: Vec<SearchHit>,
    /// The stored events that were not searched, because the index is being built and does not have them yet: what is in
    /// them is found later. 0 where all were searched.
    pub unsearched: u64,
}

/// The tool by which a model searches its session.
pub const TOOL: &str = "search_history";
/// Terms of a query that count; the rest are left out.
const MAX_TERMS: usize = 16;
/// Characters of a query that are read.
const MAX_QUERY: usize = 400;
/// Characters of an excerpt, about.
const EXCERPT: usize = 240;

/// Words and phrases that must all be there, in any order, in either case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<String>,
}

impl SearchQuery {
    /// Reads what a person or a model wrote: words, and phrases in double quotes. Nothing in it is an operator, and
    /// nothing is wrong. None where there is no letter and no digit.
    pub fn parse(text: &str) -> Option<Self> {
        let text: String =
            text.chars().take(MAX_QUERY).map(|letter| if is_quote(letter) { '"' } else { letter }).collect();
        let mut terms: Vec<String> = Vec::new();
        for (index, part) in text.split('"').enumerate() {
            let inside = index % 2 == 1;
            let words: Vec<&str> = part.split(|letter: char| letter.is_whitespace() || letter.is_control()).collect();
            let words = words.into_iter().filter(|word| !word.is_empty());
            if inside {
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

    /// Terms that must all be there.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Returns whether all of it is in the text.
    pub fn fits(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.terms.iter().all(|term| text.contains(&term.to_lowercase()))
    }

    /// The part of a text around the first term that is found in it, in one line, and where the terms are in that.
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

    /// Where the terms are, in order, none over another.
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
            let apart = mark.start >= end;
            end = end.max(mark.end);
            apart
        });
        marks
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '“' | '”' | '„' | '«' | '»' | '「' | '」')
}

/// Where a term begins at or behind a byte, in either case.
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

/// Searchable part of an item: its kind, and its words. None of what nobody would look for.
pub fn searchable(item: &Item) -> Option<(SearchKind, String)> {
    let found = match &item.body {
        // Or each search would find the one before.
        ItemBody::ToolCall(ToolCall { name, .. }) | ItemBody::ToolResult(ToolResult { name, .. }) if name == TOOL => {
            return None;
        }
        ItemBody::UserMessage { text, .. } => (SearchKind::Person, text.clone()),
        ItemBody::AgentMessage { text } => (SearchKind::Model, text.clone()),
        ItemBody::ToolCall(call) => (SearchKind::Call, format!("{} {}", call.name, call.arguments)),
        ItemBody::ToolResult(result) => (SearchKind::Result, result.text.clone()),
        ItemBody::Notice { text, topic: NoticeTopic::General, .. } => (SearchKind::Notice, text.clone()),
        // Said elsewhere, in other words.
        ItemBody::Reasoning { .. } | ItemBody::Compaction(_) | ItemBody::Notice { .. } => return None,
    };
    (!found.1.trim().is_empty()).then_some(found)
}

names! {
    /// Kind of a find.
    pub enum SearchKind {
        /// Words of a person.
        Person = "person",
        /// Words of a model.
        Model = "model",
        /// A call of a tool.
        Call = "call",
        /// Result of a call.
        Result = "result",
        /// Notice of the daemon.
        Notice = "notice",
    }
}

/// A find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHit {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub title: String,
    /// The number of the event.
    pub seq: u64,
    /// When it was.
    pub at: Timestamp,
    /// Its kind.
    pub kind: SearchKind,
    /// The part around what was looked for, in one line.
    pub excerpt: String,
    /// Ranges of the matches in it, in bytes.
    pub marks: Vec<Range<usize>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_is_a_query() {
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
    fn excerpts_show_what_was_looked_for() {
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
