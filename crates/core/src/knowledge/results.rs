//! Results of searching documents. Pure types.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Method used to search for a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchedBy {
    /// Index search by words.
    #[default]
    Words,
    /// Index search by a phrase.
    Phrase,
    /// Regular expression search in the candidates from the index.
    NarrowedRegex,
    /// Regular expression search in the text of every document.
    Scan,
}

/// Results of a document search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentFinds {
    /// Method used for the query.
    pub by: SearchedBy,
    /// Hits in documents, best first.
    pub hits: Vec<DocumentHit>,
    /// Number of searched documents, including those that are only partly readable.
    pub searched: usize,
    /// Number of documents that were skipped because of the time limit.
    #[serde(default)]
    pub not_searched: usize,
    /// Documents that could not be searched completely, with reasons.
    pub broken: Vec<(String, String)>,
    /// Notes on the interpretation of the query. Each is a sentence without a final full stop.
    pub notes: Vec<String>,
    /// True if the time limit ended the search early.
    pub late: bool,
    /// True if a regular expression has more matches than are returned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// True if no document contains the quoted phrase. The hits then contain only some of its words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loose: bool,
    /// Names of documents that were skipped because they need a password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked: Vec<String>,
}

impl DocumentFinds {
    /// Note on hits that contain only some words of a phrase.
    pub const LOOSE: &str = "no exact match; these match some of the words";

    /// Returns true if all documents were searched completely and all matches of a regular expression are returned.
    pub fn is_complete(&self) -> bool {
        !self.late && !self.more && self.not_searched == 0 && self.broken.is_empty()
    }

    /// Records that there are more matches than `limit`.
    pub fn note_more_matches(&mut self, limit: usize) {
        self.more = self.is_regex();
        let matches = if limit == 1 { "match" } else { "matches" };
        self.note(format!("more than {limit} {matches}: narrow the search, or raise its limit (--limit, max_results)"));
    }

    /// Adds a note unless it is already present.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    const fn is_regex(&self) -> bool {
        matches!(self.by, SearchedBy::NarrowedRegex | SearchedBy::Scan)
    }

    /// Merges the hits for the same query in other documents, and keeps the best `limit` hits.
    pub fn add(&mut self, mut other: Self, limit: usize) {
        // Hits with only some of the words are only returned if no hit contains all words.
        if !self.hits.is_empty() && !other.hits.is_empty() && self.is_loose != other.is_loose {
            if self.is_loose { self.drop_partial_hits() } else { other.drop_partial_hits() }
        }
        self.is_loose |= other.is_loose;
        self.by = other.by;
        self.more |= other.more;
        self.hits.extend(other.hits);
        // Scores from one index are comparable. The sort is stable, so matches of a regular expression stay in document
        // order.
        if !self.is_regex() {
            self.hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        }
        // A word search only returns the best hits by design, so only exact searches report further matches.
        let is_exact = self.is_regex() || self.by == SearchedBy::Phrase && !self.is_loose;
        if self.hits.len() > limit && is_exact {
            self.note_more_matches(limit);
        }
        self.hits.truncate(limit);
        self.searched += other.searched;
        self.not_searched += other.not_searched;
        self.broken.extend(other.broken);
        other.notes.into_iter().for_each(|note| self.note(note));
        self.late |= other.late;
        self.locked.extend(other.locked);
    }

    fn drop_partial_hits(&mut self) {
        self.is_loose = false;
        self.hits.clear();
        self.notes.retain(|note| note != Self::LOOSE);
    }
}

/// Search hit in a document.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentHit {
    /// Name of the document in the request.
    pub document: String,
    /// Location for citations: `p. 12`, `Sales!A2:F20`, `slide 7`, or `:120-134` for lines. Empty if the document only
    /// has one location.
    pub place: String,
    /// Score, only comparable within the same search.
    pub score: f32,
    /// Text around the match.
    pub snippet: String,
    /// Byte ranges of the matches in the snippet.
    pub marks: Vec<Range<usize>>,
    /// Preceding text, if requested.
    pub before: Option<String>,
    /// Following text, if requested.
    pub after: Option<String>,
}

impl DocumentHit {
    /// Formats a citation such as `report.pdf p. 12`.
    pub fn citation(&self) -> String {
        let name = self.document.rsplit('/').next().unwrap_or(&self.document);
        self.behind(name, " ")
    }

    /// Appends the location to a document's name, separated by `gap` unless the location is a line range.
    pub fn behind(&self, name: &str, gap: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            lines if lines.starts_with(':') => format!("{name}{lines}"),
            place => format!("{name}{gap}{place}"),
        }
    }

    /// Returns the snippet with `open` and `close` around each match.
    pub fn marked(&self, open: &str, close: &str) -> String {
        let (mut shown, mut from) = (String::new(), 0);
        for mark in &self.marks {
            let (Some(before), Some(hit)) = (self.snippet.get(from..mark.start), self.snippet.get(mark.clone())) else {
                continue;
            };
            shown.push_str(before);
            shown.push_str(open);
            shown.push_str(hit);
            shown.push_str(close);
            from = mark.end;
        }
        shown.push_str(self.snippet.get(from..).unwrap_or_default());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(document: &str, place: &str, score: f32, marks: Vec<Range<usize>>) -> DocumentHit {
        DocumentHit {
            document: document.to_owned(),
            place: place.to_owned(),
            score,
            snippet: "纳税 is due".to_owned(),
            marks,
            before: None,
            after: None,
        }
    }

    fn document_finds(by: SearchedBy, is_loose: bool, scores: &[f32]) -> DocumentFinds {
        let notes = if is_loose { vec![DocumentFinds::LOOSE.to_owned()] } else { Vec::new() };
        let hits = scores.iter().map(|score| hit("a.pdf", "p. 1", *score, Vec::new())).collect();
        DocumentFinds { by, hits, is_loose, notes, searched: 1, ..DocumentFinds::default() }
    }

    fn scores(document_finds: &DocumentFinds) -> Vec<f32> {
        document_finds.hits.iter().map(|hit| hit.score).collect()
    }

    #[test]
    fn phrase_hits_replace_partial_word_hits() {
        let loose = || document_finds(SearchedBy::Phrase, true, &[9.0, 8.0]);
        let exact = || document_finds(SearchedBy::Phrase, false, &[1.0]);
        for (mut first, second) in [(loose(), exact()), (exact(), loose())] {
            first.add(second, 10);
            assert_eq!((scores(&first), first.is_loose, first.searched), (vec![1.0], false, 2));
            assert_eq!(first.notes, [""; 0]);
        }
        // Documents without hits do not change the result.
        let mut all = loose();
        all.add(document_finds(SearchedBy::Phrase, false, &[]), 10);
        all.add(loose(), 3);
        assert_eq!((scores(&all), all.is_loose, all.notes.len()), (vec![9.0, 9.0, 8.0], true, 1));
        all.add(exact(), 10);
        assert_eq!((scores(&all), all.is_loose, all.notes.len()), (vec![1.0], false, 0));
        all.add(exact(), 1);
        assert!(all.notes == ["more than 1 match: narrow the search, or raise its limit (--limit, max_results)"]);
        assert!(all.is_complete());
    }

    #[test]
    fn merged_hits_keep_document_order_and_flag_overflow() {
        let mut all = document_finds(SearchedBy::Scan, false, &[1.0, 2.0]);
        all.add(document_finds(SearchedBy::Scan, false, &[3.0]), 3);
        assert_eq!((scores(&all), all.more, all.is_complete()), (vec![1.0, 2.0, 3.0], false, true));
        all.add(document_finds(SearchedBy::NarrowedRegex, false, &[4.0]), 3);
        assert_eq!((scores(&all), all.more, all.late, all.is_complete()), (vec![1.0, 2.0, 3.0], true, false, false));
        all.add(document_finds(SearchedBy::Scan, false, &[5.0]), 3);
        assert!(all.notes.len() == 1 && all.notes[0].contains("more than 3 matches"), "{:?}", all.notes);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
    fn hits_are_shown_with_place_and_marks() {
        let check = |document: &str, place: &str, marks: Vec<Range<usize>>, cited: &str, marked: &str| {
            let hit = hit(document, place, 1.0, marks);
            assert_eq!((hit.citation().as_str(), hit.marked("**", "**").as_str()), (cited, marked));
        };
        check("uploads/report.pdf", "p. 12", vec![0..6], "report.pdf p. 12", "**纳税** is due");
        check("notes.md", "", Vec::new(), "notes.md", "纳税 is due");
        check("a/b.xlsx", "Sales!A2:F20", vec![0..3, 10..13], "b.xlsx Sales!A2:F20", "**纳**税 is **due**");
        check("uploads/notes.md", ":120-134", Vec::new(), "notes.md:120-134", "纳税 is due");
        // Marks outside the text are ignored.
        check("a", "", vec![1..2, 9..99], "a", "纳税 is due");
    }
}
