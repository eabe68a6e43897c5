//! Reduces a long output to its relevant lines, which are found by words that indicate failures and by keywords from
//! the user's input and the current todo. No side effects.
//!
//! Lines are added in this order until the budget is used up: the first line, which contains the exit status; the first
//! failure; the last and the first lines; the surroundings of each failure, of keywords and of possible failures; more
//! lines from the end and the start.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use agentd_context::{text::grouped, tokens::estimate};
use regex::Regex;

use crate::turn::rounds::fingerprint;

/// Numbers of lines shown from the start and from the end: initially, and later if there is space.
const FIRST_LINES: usize = 6;
const LAST_LINES: usize = 12;
const MORE_FIRST_LINES: usize = 20;
const MORE_LAST_LINES: usize = 60;
/// Number of characters shown before and after the match in a long line.
const CHARS_BEFORE: usize = 120;
const CHARS_AFTER: usize = 280;
/// Maximum number of lines in a text to be reduced. The data stored per line takes more memory than a short line
/// itself.
const MAX_LINES: usize = 1_000_000;
/// Tokens of a marker for a gap between two shown lines.
const GAP_TOKENS: u64 = 14;

/// Returns the relevant lines in about `tokens` tokens, with markers for gaps. `None` if the text has too many lines or
/// would not become shorter.
pub(super) fn reduce(patterns: &Patterns, text: &str, keywords: Option<&Regex>, tokens: u64) -> Option<String> {
    let line_breaks = text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    if line_breaks > MAX_LINES {
        return None;
    }
    // Text that a progress bar overwrote also counts as a line.
    let numbered = (1..).zip(text.lines());
    let lines: Vec<(usize, &str)> =
        numbered.flat_map(|(number, line)| line.split('\r').map(move |part| (number, part))).collect();
    let mut marker = Marker::new(patterns, keywords);
    let found = lines.iter().enumerate().filter_map(|(at, (_, line))| Some((at, marker.mark(line)?)));
    let marks: Vec<(usize, (Mark, usize))> = found.collect();
    let (shown, focus) = (vec![false; lines.len()], vec![0; lines.len()]);
    let mut page = Page { lines: &lines, shown, focus, left: tokens };
    for (at, (_, offset)) in &marks {
        page.focus[*at] = *offset;
    }
    let of_mark = |mark: Mark| marks.iter().filter(move |(_, (found, _))| *found == mark).map(|(at, _)| *at);
    page.force_add(0);
    of_mark(Mark::Wrong).take(1).for_each(|at| page.force_add(at));
    page.add(lines.len().saturating_sub(LAST_LINES)..lines.len());
    page.add(0..FIRST_LINES);
    for (mark, before, after) in [(Mark::Wrong, 1, 6), (Mark::Wanted, 1, 2), (Mark::Doubtful, 1, 2)] {
        for at in of_mark(mark) {
            // The line itself comes first, because it is the most relevant.
            page.add(at..at + 1 + after);
            page.add(at.saturating_sub(before)..at);
        }
    }
    page.add((lines.len().saturating_sub(MORE_LAST_LINES)..lines.len()).rev());
    page.add(0..MORE_FIRST_LINES);
    let shown = page.render();
    (shown.len() < text.len()).then_some(shown)
}

/// Selection of lines to show.
struct Page<'a> {
    /// Lines with their line numbers in the text, from 1.
    lines: &'a [(usize, &'a str)],
    shown: Vec<bool>,
    /// Byte offset of the match within each line.
    focus: Vec<usize>,
    left: u64,
}

impl<'a> Page<'a> {
    /// Shows a line even if it exceeds the budget.
    fn force_add(&mut self, at: usize) {
        if !self.try_add(at) {
            (self.left, self.shown[at]) = (0, true);
        }
    }

    /// Shows lines until the budget is used up.
    fn add(&mut self, mut lines: impl Iterator<Item = usize>) {
        lines.all(|at| self.try_add(at));
    }

    fn try_add(&mut self, at: usize) -> bool {
        if self.shown.get(at) != Some(&false) {
            return true;
        }
        let is_shown = |at: Option<usize>| at.and_then(|at| self.shown.get(at)) == Some(&true);
        let gap = if is_shown(at.checked_sub(1)) || is_shown(Some(at + 1)) { 0 } else { GAP_TOKENS };
        let left = self.left.checked_sub(estimate(&self.clipped(at)) + 1 + gap);
        if let Some(left) = left {
            (self.left, self.shown[at]) = (left, true);
        }
        left.is_some()
    }

    /// Returns the line, or the relevant part of a long line.
    fn clipped(&self, at: usize) -> Cow<'a, str> {
        let (_, line) = self.lines[at];
        if line.len() <= CHARS_BEFORE + CHARS_AFTER {
            return Cow::Borrowed(line);
        }
        let start = line[..self.focus[at]].char_indices().rev().nth(CHARS_BEFORE).map_or(0, |(start, _)| start);
        let end =
            line[start..].char_indices().nth(CHARS_BEFORE + CHARS_AFTER).map_or(line.len(), |(end, _)| start + end);
        let mark = |left_out: usize| {
            if left_out > 0 { format!("[… {} bytes …]", grouped(left_out)) } else { String::new() }
        };
        Cow::Owned(format!("{}{}{}", mark(start), &line[start..end], mark(line.len() - end)))
    }

    fn render(&self) -> String {
        let (mut text, mut at) = (String::new(), 0);
        for run in self.shown.chunk_by(|one, next| one == next) {
            let (first, last) = (self.lines[at].0, self.lines[at + run.len() - 1].0);
            match run {
                [true, ..] => (at..at + run.len()).for_each(|at| text.extend([&*self.clipped(at), "\n"])),
                _ if first == last => text.push_str(&format!("[… line {first} left out …]\n")),
                _ => {
                    let count = grouped(last - first + 1);
                    text.push_str(&format!("[… {count} lines left out, {first} to {last} …]\n"));
                }
            }
            at += run.len();
        }
        text
    }
}

/// Words that indicate a failure. Word boundaries are ASCII-only, which is much faster to match.
const WRONG: &str = r"(?x-u)
    (?i: \b (?:
        errors? | err! | fail (?: s | ed | ing | ures? )? | panic (?: s | ked | king )? | fatal | exceptions? | traceback
      | segfault (?: s | ed )? | assert (?: s | ed | ion )? | abort (?: s | ed | ing )? | killed | core\ dumped
      | segmentation\ fault | undefined\ reference | out\ of\ memory
    ) (?: \b | $ | \s ) )
  | [a-z0-9] (?: Error | Exception | Panic ) \b
  | ^ E \s{2,}
  | (?u: ✗ | ✘ | ✖ | 错误 | 失败 | 異常 | 异常 | 崩溃 | エラー | 失敗 | 例外 | 오류 | 실패 )";
/// Words that may indicate a failure.
const DOUBTFUL: &str = r"(?x-u)
    (?i: \b (?:
        warn (?: ings? )? | deprecated | denied | refused | rejected | unresolved | conflicts? | timed\ out | timeout
      | cannot | can't | could\ not | couldn't | unable\ to | not\ found | no\ such | missing | invalid
    ) \b )
  | (?u: 警告 | 超时 | 找不到 | 无法 | 拒绝 | 見つかりません | 경고 )";
/// Phrases that contain a word for a failure but negate it.
const NEGATED: &str = r"(?x-u)
    (?i: \b (?: 0 | no | zero | without ) \s+ (?: [a-z]+ \s+ )?
        (?: errors? | fail (?: ed | ing | ures? ) | warnings? | panics? | exceptions? ) \b
      | \b (?: errors? | fail (?: ed | ures? ) | warnings? ) \s* [:=] \s* 0 \b )";
/// Markers of passed tests, regardless of the tests' names.
const PASSED: &str = r"(?x-u)
    (?: \.\.\. | \s ) \s* (?: ok | OK | PASSED | PASS ) (?: \s* [\[(] [\x20-\x7e]* [\])] )? \s* $
  | ^ \s* (?: ok \s | PASS \s | ---\ PASS )
  | ^ \s* (?u: ✓ | ✔ | √ )";
/// Maximum number of shown lines that differ only in digits.
const MAX_ALIKE: u32 = 2;

/// Reason for showing a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// The line reports a failure.
    Wrong,
    /// The line contains a keyword of the current work.
    Wanted,
    /// The line may report a failure.
    Doubtful,
}

/// Compiled patterns, built once.
pub(super) struct Patterns {
    wrong: Regex,
    doubtful: Regex,
    negated: Regex,
    passed: Regex,
}

impl Patterns {
    pub(super) fn compile() -> Option<Self> {
        let regex = |pattern| Regex::new(pattern).ok();
        let (wrong, doubtful) = (regex(WRONG)?, regex(DOUBTFUL)?);
        Some(Self { wrong, doubtful, negated: regex(NEGATED)?, passed: regex(PASSED)? })
    }
}

/// Classifies the lines of one text.
struct Marker<'a> {
    patterns: &'a Patterns,
    wanted: Option<&'a Regex>,
    /// Number of lines so far, by fingerprint without digits.
    alike: HashMap<u64, u32>,
}

impl<'a> Marker<'a> {
    /// Creates a marker that also searches for the keywords in `wanted`.
    fn new(patterns: &'a Patterns, wanted: Option<&'a Regex>) -> Self {
        Self { patterns, wanted, alike: HashMap::new() }
    }

    /// Classifies a line and returns the offset of the match. Returns `None` for irrelevant lines and for repetitions
    /// of earlier lines.
    fn mark(&mut self, line: &str) -> Option<(Mark, usize)> {
        let found = self.classify(line)?;
        let shape = fingerprint(&line.trim().replace(|letter: char| letter.is_ascii_digit(), ""));
        let seen = self.alike.entry(shape).or_default();
        *seen += 1;
        (*seen <= MAX_ALIKE).then_some(found)
    }

    fn classify(&self, line: &str) -> Option<(Mark, usize)> {
        let Patterns { wrong, doubtful, negated, passed } = self.patterns;
        let negated: Vec<_> = negated.find_iter(line).map(|found| found.range()).collect();
        let real = |pattern: &Regex| {
            let mut found = pattern.find_iter(line).map(|found| found.start());
            found.find(|at| !negated.iter().any(|range| range.contains(at)))
        };
        let failed = || {
            let wrong = real(wrong).map(|at| (Mark::Wrong, at));
            wrong.or_else(|| real(doubtful).map(|at| (Mark::Doubtful, at)))
        };
        let failed = if passed.is_match(line) { None } else { failed() };
        failed.or_else(|| self.wanted?.find(line).map(|found| (Mark::Wanted, found.start())))
    }
}

/// Maximum number of keywords.
const MAX_KEYWORDS: usize = 32;
/// Maximum length of the input that is searched for keywords, in characters, because a pasted document is not the
/// request.
const MAX_INPUT: usize = 4_000;
/// Words that are too common to be keywords.
const COMMON_WORDS: [&str; 60] = [
    "about", "after", "again", "agent", "also", "before", "check", "code", "command", "could", "does", "each", "every",
    "file", "files", "find", "first", "folder", "from", "give", "have", "here", "into", "just", "line", "lines",
    "list", "look", "make", "more", "most", "need", "only", "other", "output", "please", "project", "read", "result",
    "should", "show", "some", "tell", "than", "that", "them", "then", "there", "these", "this", "until", "want",
    "what", "when", "where", "which", "with", "work", "would", "write",
];

/// Returns a pattern that matches any keyword; `None` if there are no keywords.
pub(super) fn pattern<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Regex> {
    let escaped: Vec<String> = keywords(texts).iter().map(|word| regex::escape(word)).collect();
    let pattern = (!escaped.is_empty()).then(|| format!("(?i){}", escaped.join("|")))?;
    Regex::new(&pattern).ok()
}

/// Extracts keywords: words and names of at least four characters, or three if one is a digit or a symbol. In scripts
/// without spaces, each pair of adjacent characters is a keyword.
fn keywords<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        let end = text.char_indices().nth(MAX_INPUT).map_or(text.len(), |(end, _)| end);
        for word in text[..end].split(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter)) {
            for part in split_by_script(word) {
                add_keywords(&mut found, part);
                if found.len() >= MAX_KEYWORDS {
                    return found;
                }
            }
        }
    }
    found
}

fn add_keywords(keywords: &mut BTreeSet<String>, part: &str) {
    if part.chars().next().is_some_and(is_dense) {
        let characters: Vec<char> = part.chars().collect();
        let capacity = MAX_KEYWORDS.saturating_sub(keywords.len());
        keywords.extend(characters.windows(2).take(capacity).map(|pair| pair.iter().collect()));
        return;
    }
    let word = part.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
    let min_length = if word.chars().any(|character| !character.is_alphabetic()) { 3 } else { 4 };
    let is_number = word.chars().all(|character| !character.is_alphabetic());
    if word.chars().count() >= min_length && !is_number && !COMMON_WORDS.contains(&word.as_str()) {
        keywords.insert(word);
    }
}

/// Returns true for Han, kana and hangul, where words have only a few characters and are not separated.
fn is_dense(character: char) -> bool {
    matches!(u32::from(character),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Splits a word into runs of dense script and of other scripts.
fn split_by_script(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let dense = is_dense(rest.chars().next()?);
        let end = rest.find(|character| is_dense(character) != dense).unwrap_or(rest.len());
        let (run, left) = rest.split_at(end);
        rest = left;
        Some(run)
    })
}

#[cfg(test)]
mod tests;
