//! Search by regular expression. The index selects the chunks that contain what every match requires, and only these
//! chunks are scanned.

use std::{ops::Range, time::Instant};

use agentd_core::knowledge::SearchedBy;
use regex::{Regex, RegexBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};
use tantivy::query::{BooleanQuery, Occur, Query};
use tokio_util::sync::CancellationToken;
use unicode_normalization::char::canonical_combining_class;

use super::{
    Answer, MAX_HITS, hit,
    plan::{Candidate, Planner},
};
use crate::{
    analyze::{Form, exact::tokens},
    failure::fail_if,
    index::IndexError,
};

/// Maximum size of a compiled expression in bytes.
const MAX_COMPILED_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of highlighted hits in one chunk.
const MAX_MARKS: usize = 64;
/// Number of chunks between checks for cancellation and timeout.
const CHECK_INTERVAL: usize = 64;

/// Conditions that end a scan.
#[derive(Debug, Clone)]
pub(crate) struct StopConditions {
    pub(crate) deadline: Instant,
    pub(crate) cancel: CancellationToken,
}

/// Compiled regular expression. Matching takes time linear in the text for any expression.
pub(crate) struct Pattern {
    regex: Regex,
    requirement: Requirement,
}

impl Pattern {
    /// Compiles an expression. The error is a one-line message.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(true)
            .multi_line(true)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES)
            .nest_limit(64)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                // The last line is the message; the lines above it show the position.
                error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            })?;
        Ok(Self { regex, requirement: Requirement::of(pattern) })
    }

    fn marks(&self, text: &str) -> Vec<Range<usize>> {
        // Empty matches, such as those of `x*`, are not hits.
        let found = self.regex.find_iter(text).map(|found| found.range());
        found.filter(|range| !range.is_empty()).take(MAX_MARKS).collect()
    }
}

/// Returns matching chunks in document order.
pub(crate) fn search(planner: &Planner<'_>, pattern: &Pattern, stop: &StopConditions) -> Result<Answer, IndexError> {
    let Planner { view, request, allowed } = planner;
    let narrowed = pattern.requirement.query(planner);
    let method = if narrowed.is_some() { SearchedBy::NarrowedRegex } else { SearchedBy::Scan };
    let mut answer = Answer::of(method);
    if allowed.chunks == 0 {
        return Ok(answer);
    }
    let query = narrowed.unwrap_or_else(|| planner.seen());
    let mut candidates = Vec::new();
    for address in planner.found(Some(query))? {
        let key = view.keys(address.segment_ord)?.get_val(address.doc_id);
        candidates.extend(allowed.candidate(key, address, 0.0));
    }
    candidates.sort_by_key(Candidate::place);
    let limit = request.limit.clamp(1, MAX_HITS);
    for (read, candidate) in candidates.iter().enumerate() {
        if read % CHECK_INTERVAL == 0 {
            fail_if(stop.cancel.is_cancelled(), || IndexError::Cancelled)?;
            if Instant::now() >= stop.deadline {
                answer.complete = false;
                let all = candidates.len();
                answer.notes.push(format!("stopped after {read} of {all} chunks: the search took too long"));
                break;
            }
        }
        let chunk = view.chunk(candidate.address)?;
        let marks = pattern.marks(&chunk.text);
        if marks.is_empty() {
            continue;
        }
        if answer.hits.len() == limit {
            answer.more = true;
            break;
        }
        let candidate = Candidate { score: marks.len() as f32, ..*candidate };
        answer.hits.extend(hit(planner, &candidate, chunk, &marks));
    }
    Ok(answer)
}

/// Minimum number of characters in a partial word. Shorter literals occur in too many words.
const MIN_LITERAL: usize = 3;
/// Maximum number of characters in a partial word. Longer literals make the automaton too large.
const MAX_LITERAL: usize = 32;
/// Maximum number of alternatives that are looked up separately.
const MAX_ALTERNATIVES: usize = 32;

/// Matches the rest of a word in a script with spaces. Excluding other scripts skips most terms, which are character
/// pairs in these scripts.
const SPACED_SCRIPTS: &str = "[^\u{E00}-\u{EFF}\u{1000}-\u{109F}\u{1780}-\u{17FF}\u{3005}-\u{3007}\u{3041}-\u{30FF}\u{3131}-\u{318E}\u{31F0}-\u{31FF}\u{3400}-\u{9FFF}\u{AC00}-\u{D7FF}]*";

/// Condition that every match fulfils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// No condition is known.
    Nothing,
    /// Contains this lowercase text.
    Letters(String),
    /// Fulfils all these conditions.
    All(Vec<Requirement>),
    /// Fulfils one of these conditions.
    One(Vec<Requirement>),
}

impl Requirement {
    /// Derives the condition for matches of an expression, or [`Nothing`](Self::Nothing) if the expression cannot be
    /// parsed.
    pub(crate) fn of(pattern: &str) -> Self {
        // Parsed as case-sensitive, since the literals are compared in lower case anyway.
        let parsed = ParserBuilder::new().multi_line(true).nest_limit(64).build().parse(pattern);
        parsed.map_or(Self::Nothing, |hir| Self::of_hir(&hir))
    }

    fn of_hir(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::Nothing,
            HirKind::Literal(_) | HirKind::Class(_) => letters(hir).map_or(Self::Nothing, Self::Letters),
            HirKind::Repetition(repetition) if repetition.min > 0 => Self::of_hir(&repetition.sub),
            HirKind::Repetition(_) => Self::Nothing,
            HirKind::Capture(capture) => Self::of_hir(&capture.sub),
            HirKind::Concat(parts) => Self::of_sequence(parts),
            HirKind::Alternation(parts) => {
                let needs: Vec<Self> = parts.iter().take(MAX_ALTERNATIVES + 1).map(Self::of_hir).collect();
                if needs.len() > MAX_ALTERNATIVES || needs.contains(&Self::Nothing) {
                    Self::Nothing
                } else {
                    Self::One(needs)
                }
            }
        }
    }

    fn of_sequence(parts: &[Hir]) -> Self {
        let mut all = Vec::new();
        let mut run = String::new();
        for part in parts {
            if let Some(letters) = letters(part) {
                run.push_str(&letters);
                continue;
            }
            if !run.is_empty() {
                all.push(Self::Letters(std::mem::take(&mut run)));
            }
            match Self::of_hir(part) {
                Self::Nothing => {}
                requirement => all.push(requirement),
            }
        }
        if !run.is_empty() {
            all.push(Self::Letters(run));
        }
        match all.len() {
            0 => Self::Nothing,
            1 => all.pop().unwrap_or(Self::Nothing),
            _ => Self::All(all),
        }
    }

    /// Returns a query for the chunks that can match, or `None` if any chunk can match.
    pub(crate) fn query(&self, planner: &Planner<'_>) -> Option<Box<dyn Query>> {
        match self {
            Self::Nothing => None,
            Self::Letters(letters) => all_of(terms(letters).iter().filter_map(|term| term.query(planner)).collect()),
            Self::All(needs) => all_of(needs.iter().filter_map(|requirement| requirement.query(planner)).collect()),
            Self::One(needs) => {
                let queries: Option<Vec<_>> = needs.iter().map(|requirement| requirement.query(planner)).collect();
                queries.map(|queries| Box::new(BooleanQuery::union(queries)) as Box<dyn Query>)
            }
        }
    }
}

fn all_of(queries: Vec<Box<dyn Query>>) -> Option<Box<dyn Query>> {
    if queries.is_empty() {
        return None;
    }
    Some(Box::new(BooleanQuery::new(queries.into_iter().map(|query| (Occur::Must, query)).collect())))
}

/// Returns the text that the expression matches, in lower case, if the expression only matches that text in any case.
fn letters(hir: &Hir) -> Option<String> {
    match hir.kind() {
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).ok().map(str::to_lowercase),
        HirKind::Class(Class::Unicode(class)) => {
            let mut letters = class.iter().flat_map(|range| range.start()..=range.end());
            let first = normalised_letter(letters.next()?);
            // A letter has only a few case variants, so a larger class is not a single letter.
            let is_single = letters.by_ref().take(4).all(|letter| normalised_letter(letter) == first);
            (is_single && letters.next().is_none()).then_some(first)
        }
        HirKind::Capture(capture) => letters(&capture.sub),
        _ => None,
    }
}

/// Normalises a character as in the index.
fn normalised_letter(letter: char) -> String {
    crate::analyze::exact::small(crate::analyze::normal::Normal::new(letter.encode_utf8(&mut [0; 4])).text())
}

/// Term that occurs in every text that contains some literal.
#[derive(Debug, PartialEq, Eq)]
struct RequiredTerm {
    text: String,
    /// True if the word may start before the term.
    open_start: bool,
    /// True if the word may continue after the term.
    open_end: bool,
}

impl RequiredTerm {
    fn query(&self, planner: &Planner<'_>) -> Option<Box<dyn Query>> {
        if !self.open_start && !self.open_end {
            return Some(planner.term(planner.view.fields.exact, &self.text));
        }
        let length = self.text.chars().count();
        if !(MIN_LITERAL..=MAX_LITERAL).contains(&length) {
            return None;
        }
        let before = if self.open_start { SPACED_SCRIPTS } else { "" };
        let after = if self.open_end { SPACED_SCRIPTS } else { "" };
        planner.matching(&format!("{before}{}{after}", self.text))
    }
}

fn terms(letters: &str) -> Vec<RequiredTerm> {
    let required = |token: crate::analyze::Token| {
        let (open_start, open_end) = match token.form {
            // At the edges of the literal, the word may continue.
            Form::Word => (token.range.start == 0, token.range.end == letters.len()),
            // The index sorts combining marks, so neighbours may differ between the text and the index.
            Form::Pair if token.text.chars().any(|letter| canonical_combining_class(letter) > 0) => return None,
            Form::Pair => (false, false),
            Form::Part | Form::Last => return None,
        };
        Some(RequiredTerm { text: token.text, open_start, open_end })
    };
    tokens(letters).into_iter().filter_map(required).collect()
}
