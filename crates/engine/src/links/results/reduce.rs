//! A long output, reduced to the lines that decide: by words for failures, and by the words of the person's input and of the
//! current todo. Pure.
//!
//! In the order in which they get their places: the first line, which says how it ended; the first that says that
//! something went wrong; the last lines and the first; what stands around each line that went wrong; around keywords;
//! around doubts; then more of the end and of the beginning, as long as there is room.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use agentd_context::{text::grouped, tokens::estimate};
use regex::Regex;

use crate::turn::rounds::fingerprint;

/// Lines that are shown first of the beginning and the end, and later, if there is room.
const FIRST: usize = 6;
const LAST: usize = 12;
const MORE_FIRST: usize = 20;
const MORE_LAST: usize = 60;
/// Characters of a line that are shown around what is of interest in it.
const BEFORE: usize = 120;
const AFTER: usize = 280;
/// Above so many lines a text is not taken apart: what is known of each takes more room than a short line itself.
const MOST_LINES: usize = 1_000_000;
/// The tokens that a gap between two shown lines takes.
const GAP: u64 = 14;

/// The lines of the text that decide, in about so many tokens, with the gaps between them said.
pub(super) fn reduce(patterns: &Patterns, text: &str, keywords: Option<&Regex>, tokens: u64) -> Option<String> {
    let ends = text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    if ends > MOST_LINES {
        return None;
    }
    // What a progress bar wrote over another is a line, too.
    let numbered = (1..).zip(text.lines());
    let lines: Vec<(usize, &str)> =
        numbered.flat_map(|(number, line)| line.split('\r').map(move |part| (number, part))).collect();
    let mut marker = Marker::new(patterns, keywords);
    let found = lines.iter().enumerate().filter_map(|(at, (_, line))| Some((at, marker.mark(line)?)));
    let marks: Vec<(usize, (Mark, usize))> = found.collect();
    let (shown, focus) = (vec![false; lines.len()], vec![0; lines.len()]);
    let mut page = Page { lines: &lines, shown, focus, left: tokens };
    for (at, (_, place)) in &marks {
        page.focus[*at] = *place;
    }
    let of_mark = |mark: Mark| marks.iter().filter(move |(_, (found, _))| *found == mark).map(|(at, _)| *at);
    page.insist(0);
    of_mark(Mark::Wrong).take(1).for_each(|at| page.insist(at));
    page.add(lines.len().saturating_sub(LAST)..lines.len());
    page.add(0..FIRST);
    for (mark, before, after) in [(Mark::Wrong, 1, 6), (Mark::Wanted, 1, 2), (Mark::Doubtful, 1, 2)] {
        for at in of_mark(mark) {
            // The line itself first: if there is no room for more, it says the most.
            page.add(at..at + 1 + after);
            page.add(at.saturating_sub(before)..at);
        }
    }
    page.add((lines.len().saturating_sub(MORE_LAST)..lines.len()).rev());
    page.add(0..MORE_FIRST);
    let shown = page.render();
    (shown.len() < text.len()).then_some(shown)
}

/// The lines that get a place.
struct Page<'a> {
    /// Each with the number of its line in the text, from 1.
    lines: &'a [(usize, &'a str)],
    shown: Vec<bool>,
    /// Where in each line the reason stands for which it is shown.
    focus: Vec<usize>,
    left: u64,
}

impl<'a> Page<'a> {
    /// Shows a line, whatever it takes.
    fn insist(&mut self, at: usize) {
        if !self.try_add(at) {
            (self.left, self.shown[at]) = (0, true);
        }
    }

    /// Shows lines while there is room.
    fn add(&mut self, mut lines: impl Iterator<Item = usize>) {
        lines.all(|at| self.try_add(at));
    }

    fn try_add(&mut self, at: usize) -> bool {
        if self.shown.get(at) != Some(&false) {
            return true;
        }
        let beside = |at: Option<usize>| at.and_then(|at| self.shown.get(at)) == Some(&true);
        let gap = if beside(at.checked_sub(1)) || beside(Some(at + 1)) { 0 } else { GAP };
        let left = self.left.checked_sub(estimate(&self.clipped(at)) + 1 + gap);
        if let Some(left) = left {
            (self.left, self.shown[at]) = (left, true);
        }
        left.is_some()
    }

    /// The line, or the part of a long one that counts.
    fn clipped(&self, at: usize) -> Cow<'a, str> {
        let (_, line) = self.lines[at];
        if line.len() <= BEFORE + AFTER {
            return Cow::Borrowed(line);
        }
        let start = line[..self.focus[at]].char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
        let end = line[start..].char_indices().nth(BEFORE + AFTER).map_or(line.len(), |(end, _)| start + end);
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

/// Words for a failure. Words end where letters of ASCII do, which is much faster to look for.
const WRONG: &str = r"(?x-u)
    (?i: \b (?:
        errors? | err! | fail (?: s | ed | ing | ures? )? | panic (?: s | ked | king )? | fatal | exceptions? | traceback
      | segfault (?: s | ed )? | assert (?: s | ed | ion )? | abort (?: s | ed | ing )? | killed | core\ dumped
      | segmentation\ fault | undefined\ reference | out\ of\ memory
    ) (?: \b | $ | \s ) )
  | [a-z0-9] (?: Error | Exception | Panic ) \b
  | ^ E \s{2,}
  | (?u: ✗ | ✘ | ✖ | 错误 | 失败 | 異常 | 异常 | 崩溃 | エラー | 失敗 | 例外 | 오류 | 실패 )";
/// Words that may mean a failure.
const DOUBTFUL: &str = r"(?x-u)
    (?i: \b (?:
        warn (?: ings? )? | deprecated | denied | refused | rejected | unresolved | conflicts? | timed\ out | timeout
      | cannot | can't | could\ not | couldn't | unable\ to | not\ found | no\ such | missing | invalid
    ) \b )
  | (?u: 警告 | 超时 | 找不到 | 无法 | 拒绝 | 見つかりません | 경고 )";
/// Words that deny a failure though its words are there.
const NOTHING: &str = r"(?x-u)
    (?i: \b (?: 0 | no | zero | without ) \s+ (?: [a-z]+ \s+ )?
        (?: errors? | fail (?: ed | ing | ures? ) | warnings? | panics? | exceptions? ) \b
      | \b (?: errors? | fail (?: ed | ures? ) | warnings? ) \s* [:=] \s* 0 \b )";
/// Marks of tests that passed, whatever their names.
const PASSED: &str = r"(?x-u)
    (?: \.\.\. | \s ) \s* (?: ok | OK | PASSED | PASS ) (?: \s* [\[(] [\x20-\x7e]* [\])] )? \s* $
  | ^ \s* (?: ok \s | PASS \s | ---\ PASS )
  | ^ \s* (?u: ✓ | ✔ | √ )";
/// Number of places for lines that differ in their numbers only.
const MOST_ALIKE: u32 = 2;

/// Why a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// It says that something went wrong.
    Wrong,
    /// It has to do with what is being worked on.
    Wanted,
    /// It may say that something went wrong.
    Doubtful,
}

/// Patterns of a search, compiled once.
pub(super) struct Patterns {
    wrong: Regex,
    doubtful: Regex,
    nothing: Regex,
    passed: Regex,
}

impl Patterns {
    pub(super) fn read() -> Option<Self> {
        let read = |pattern| Regex::new(pattern).ok();
        let (wrong, doubtful) = (read(WRONG)?, read(DOUBTFUL)?);
        Some(Self { wrong, doubtful, nothing: read(NOTHING)?, passed: read(PASSED)? })
    }
}

/// Tells the lines of one text apart.
struct Marker<'a> {
    patterns: &'a Patterns,
    wanted: Option<&'a Regex>,
    /// Lines without their numbers.
    alike: HashMap<u64, u32>,
}

impl<'a> Marker<'a> {
    /// A marker that looks for these keywords too.
    fn new(patterns: &'a Patterns, wanted: Option<&'a Regex>) -> Self {
        Self { patterns, wanted, alike: HashMap::new() }
    }

    /// Why the line is worth a place, if it is, and where in it the reason stands. Lines like earlier ones are not.
    fn mark(&mut self, line: &str) -> Option<(Mark, usize)> {
        let found = self.look(line)?;
        let shape = fingerprint(&line.trim().replace(|letter: char| letter.is_ascii_digit(), ""));
        let seen = self.alike.entry(shape).or_default();
        *seen += 1;
        (*seen <= MOST_ALIKE).then_some(found)
    }

    fn look(&self, line: &str) -> Option<(Mark, usize)> {
        let Patterns { wrong, doubtful, nothing, passed } = self.patterns;
        let nothing: Vec<_> = nothing.find_iter(line).map(|found| found.range()).collect();
        let real = |pattern: &Regex| {
            let mut found = pattern.find_iter(line).map(|found| found.start());
            found.find(|at| !nothing.iter().any(|range| range.contains(at)))
        };
        let failed = || {
            let wrong = real(wrong).map(|at| (Mark::Wrong, at));
            wrong.or_else(|| real(doubtful).map(|at| (Mark::Doubtful, at)))
        };
        let failed = if passed.is_match(line) { None } else { failed() };
        failed.or_else(|| self.wanted?.find(line).map(|found| (Mark::Wanted, found.start())))
    }
}

/// Keywords that are looked for at the most.
const MOST: usize = 32;
/// Characters of the input that are looked at: a pasted document is not what is asked.
const LONGEST_INPUT: usize = 4_000;
/// Words that stand in every request.
const EVERYWHERE: [&str; 60] = [
    "about", "after", "again", "agent", "also", "before", "check", "code", "command", "could", "does", "each", "every",
    "file", "files", "find", "first", "folder", "from", "give", "have", "here", "into", "just", "line", "lines",
    "list", "look", "make", "more", "most", "need", "only", "other", "output", "please", "project", "read", "result",
    "should", "show", "some", "tell", "than", "that", "them", "then", "there", "these", "this", "until", "want",
    "what", "when", "where", "which", "with", "work", "would", "write",
];

/// Pattern of the keywords, or none.
pub(super) fn pattern<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Regex> {
    let escaped: Vec<String> = of(texts).iter().map(|word| regex::escape(word)).collect();
    let pattern = (!escaped.is_empty()).then(|| format!("(?i){}", escaped.join("|")))?;
    Regex::new(&pattern).ok()
}

/// The keywords: words and names of at least four letters, or of three with a digit or a mark in them; of scripts
/// without spaces, each two neighbouring characters.
fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for text in texts {
        let end = text.char_indices().nth(LONGEST_INPUT).map_or(text.len(), |(end, _)| end);
        for word in text[..end].split(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter)) {
            for part in by_script(word) {
                add(&mut words, part);
                if words.len() >= MOST {
                    return words;
                }
            }
        }
    }
    words
}

fn add(words: &mut BTreeSet<String>, part: &str) {
    if part.chars().next().is_some_and(is_dense) {
        let characters: Vec<char> = part.chars().collect();
        let left = MOST.saturating_sub(words.len());
        words.extend(characters.windows(2).take(left).map(|pair| pair.iter().collect()));
        return;
    }
    let word = part.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
    let least = if word.chars().any(|character| !character.is_alphabetic()) { 3 } else { 4 };
    let is_number = word.chars().all(|character| !character.is_alphabetic());
    if word.chars().count() >= least && !is_number && !EVERYWHERE.contains(&word.as_str()) {
        words.insert(word);
    }
}

/// Han, kana and hangul: a word is there no longer than a few characters, and nothing stands between two words.
fn is_dense(character: char) -> bool {
    matches!(u32::from(character),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// The runs of a word that are all of dense script, or all of another.
fn by_script(word: &str) -> impl Iterator<Item = &str> {
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
