//! Signs in an input of code, of a change and of talk.

use std::collections::HashSet;

use super::words::{
    ABOUT_AGENT, BEFORE_VERB, CHANGES, CHANGES_ANYWHERE, CODE, CODE_ANYWHERE, COMPLEX, GREETINGS, GREETINGS_ANYWHERE,
    LOOKS, LOOKS_ANYWHERE, TRACES, WHOLE,
};

/// Endings of the names of source files.
const ENDINGS: &[&str] = &[
    "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "json", "jsx", "kt", "lock", "lua", "md",
    "php", "proto", "py", "rb", "rs", "scala", "sh", "sql", "swift", "toml", "ts", "tsx", "vue", "xml", "yaml", "yml",
    "zig",
];

/// Words of an input that can say anything at the least.
const FEW_WORDS: usize = 4;

/// Weight of nouns of code at the most: a text that only mentions many is not more about code than one with a path.
const MAX_NOUNS: u32 = 3;

/// Points with which a task is complex.
const COMPLEX_POINTS: usize = 2;

/// Signs of an input.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// Weight of what is about code.
    pub(super) code: u32,
    /// A sentence begins with a verb of change.
    pub(super) changes: bool,
    /// A sentence begins with a question, or with a verb of looking.
    pub(super) looks: bool,
    /// It begins with a greeting or with thanks.
    pub(super) greets: bool,
    /// It asks about the agent.
    pub(super) asks_about_agent: bool,
    /// It has the error of a program.
    pub(super) has_trace: bool,
    /// It has too few words to tell.
    pub(super) is_short: bool,
    /// Points for a task of many parts.
    points: usize,
}

impl Signs {
    pub(super) fn of(text: &str) -> Self {
        let (prose, has_fence) = without_fences(text);
        let lower = prose.to_lowercase();
        let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
        let words: Vec<&str> = words(&lower).collect();
        let verbs: Vec<&str> = sentences(&lower).filter_map(verb).collect();
        let paths: HashSet<&str> = prose.split_whitespace().map(bare).filter(|token| is_path(token)).collect();
        let nouns: HashSet<&str> = words.iter().copied().filter(|word| CODE.contains(word)).collect();
        let nouns = nouns.len() + CODE_ANYWHERE.iter().filter(|noun| lower.contains(*noun)).count();
        let has_names = prose.split_whitespace().any(is_name_of_code);
        let has_trace = TRACES.iter().any(|sign| lower.contains(sign) || text.to_lowercase().contains(sign));
        let code = u32::from(has_fence) * 3
            + u32::from(!paths.is_empty()) * 3
            + u32::from(has_trace) * 3
            + u32::from(has_names) * 2
            + u32::from(words.iter().any(|word| WHOLE.contains(word)))
            + u32::try_from(nouns).unwrap_or(MAX_NOUNS).min(MAX_NOUNS);
        let is_chinese = lower.chars().any(|char| ('\u{4e00}'..='\u{9fff}').contains(&char));
        Self {
            code,
            changes: verbs.iter().any(|verb| CHANGES.contains(verb)) || has_any(CHANGES_ANYWHERE),
            looks: verbs.iter().any(|verb| LOOKS.contains(verb)) || has_any(LOOKS_ANYWHERE),
            greets: words.first().is_some_and(|word| GREETINGS.contains(word)) || has_any(GREETINGS_ANYWHERE),
            asks_about_agent: has_any(ABOUT_AGENT),
            has_trace,
            is_short: words.len() < FEW_WORDS && !is_chinese,
            points: points(&prose, &lower, &verbs, paths.len()),
        }
    }

    /// Returns whether the task has many parts.
    pub(super) fn is_complex(&self) -> bool {
        self.points >= COMPLEX_POINTS
    }
}

/// Points for a task of many parts: its words, its lists, its length, its sentences and its files.
fn points(prose: &str, lower: &str, verbs: &[&str], paths: usize) -> usize {
    let listed = prose.lines().filter(|line| is_listed(line)).count();
    let changes = verbs.iter().filter(|verb| CHANGES.contains(verb)).count();
    let words = COMPLEX.iter().filter(|word| has_word(lower, word)).count();
    words
        + usize::from(listed >= 3)
        + usize::from(listed >= 5)
        + usize::from(prose.chars().count() > 1500)
        + usize::from(changes >= 4)
        + usize::from(paths >= 4)
}

/// Returns whether a text has a word, or words in that order, and not only as a part of others. Chinese ones have no ends.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |char: Option<char>| char.is_some_and(|char| char.is_ascii_alphanumeric());
    text.match_indices(word).any(|(at, found)| {
        let (before, behind) = (text[..at].chars().next_back(), text[at + found.len()..].chars().next());
        !word.is_ascii() || !(is_letter(before) || is_letter(behind))
    })
}

fn is_listed(line: &str) -> bool {
    let line = line.trim_start();
    let behind_number = line.trim_start_matches(|char: char| char.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (behind_number.len() < line.len() && behind_number.starts_with(['.', ')']))
}

/// The text without what stands in fences, and whether there was any.
fn without_fences(text: &str) -> (String, bool) {
    let (mut prose, mut inside, mut found) = (String::with_capacity(text.len()), false, false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            (inside, found) = (!inside, true);
        } else if !inside {
            prose.push_str(line);
        }
    }
    (prose, found)
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    // A dot ends a sentence only before a space: others stand in names.
    text.split(['\n', '!', '?', ';', ':']).flat_map(|line| line.split(". ")).flat_map(|part| part.split(", "))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && char != '_' && char != '\'').filter(|word| !word.is_empty())
}

/// The first word of a sentence that is not one of politeness.
fn verb(sentence: &str) -> Option<&str> {
    let listed = sentence.trim_start_matches(|char: char| !char.is_alphabetic());
    words(listed).find(|word| !BEFORE_VERB.contains(word)).or_else(|| words(listed).next())
}

fn bare(token: &str) -> &str {
    token.trim_matches(|char: char| !char.is_alphanumeric() && char != '/' && char != '_')
}

/// Returns whether a word names a source file.
fn is_path(token: &str) -> bool {
    let name = token.split(':').next().unwrap_or(token);
    name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending))
}

/// Returns whether a word is a name as they stand in code: `a_b`, `aB`, `a()`, `a::b`, or one in backticks.
fn is_name_of_code(token: &str) -> bool {
    let is_quoted = token.contains('`');
    let name = bare(token);
    let snake = name.trim_matches('_').contains('_');
    let camel = name.chars().zip(name.chars().skip(1)).any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    is_quoted || snake || camel || token.contains("()") || token.contains("::")
}
