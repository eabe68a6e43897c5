//! Converts hunks to text edits.

use std::ops::Range;

use agentd_workspace::text;

use super::{
    Hunk, LineKind,
    place::{FileLines, HunkPlace, Likeness, PlaceError},
};

/// Result of applying hunks to text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Edits {
    /// Byte ranges of the original text with their replacements, in order.
    pub(crate) edits: Vec<(Range<usize>, String)>,
    /// Number of added and removed lines.
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// True if differences in white space had to be ignored.
    pub(crate) inexact: bool,
}

/// Range of lines in the file, with its replacement.
struct Block {
    lines: Range<usize>,
    added: Vec<String>,
}

/// Applies hunks to text whose lines end with `\n`.
///
/// # Errors
/// Returns descriptions of the hunks that do not fit.
pub(crate) fn apply(text: &str, hunks: &[Hunk]) -> Result<Edits, Vec<String>> {
    let file = FileLines::of(text);
    let mut blocks: Vec<Block> = Vec::new();
    let mut misfits = Vec::new();
    let (mut from, mut drift) = (0, 0_isize);
    let mut result = Edits::default();
    let mut open_end = None;
    for (number, hunk) in hunks.iter().enumerate() {
        let expected = hunk.start.map(|start| start.saturating_add_signed(drift));
        let place = match file.place(hunk, from, expected) {
            Ok(place) => place,
            Err(reason) => {
                misfits
                    .push(Misfit { number: number + 1, of: hunks.len(), hunk, from, expected, reason }.describe(&file));
                continue;
            }
        };
        if let Some(start) = hunk.start {
            drift = place.at.cast_signed() - start.cast_signed();
        }
        result.inexact |= place.likeness != Likeness::Exact;
        from = add_blocks(&file, hunk, place, &mut blocks);
        if from == file.lines.len() && hunk.open_end.0 != hunk.open_end.1 {
            open_end = Some(hunk.open_end.1);
        }
        if file.lines.is_empty() {
            open_end = Some(hunk.open_end.1);
        }
    }
    if !misfits.is_empty() {
        return Err(misfits);
    }
    result.added = blocks.iter().map(|block| block.added.len()).sum();
    result.removed = blocks.iter().map(|block| block.lines.len()).sum();
    result.edits = edits(text, &file, blocks, open_end);
    Ok(result)
}

/// Adds the changes of a hunk, and returns the number of the line after the hunk.
fn add_blocks(file: &FileLines<'_>, hunk: &Hunk, place: HunkPlace, blocks: &mut Vec<Block>) -> usize {
    let mut indents = Indents::of(file, hunk, place);
    let mut at = place.at;
    for line in &hunk.lines {
        if line.kind == LineKind::Context {
            indents.pass(file.lines[at], &line.text);
            at += 1;
            continue;
        }
        // A change adjacent to the previous block belongs to that block, even if it comes from another hunk.
        if blocks.last().is_none_or(|block| block.lines.end != at) {
            blocks.push(Block { lines: at..at, added: Vec::new() });
        }
        let Some(block) = blocks.last_mut() else { continue };
        if line.kind == LineKind::Removed {
            indents.pass(file.lines[at], &line.text);
            at += 1;
            block.lines.end = at;
        } else {
            block.added.push(indents.map_indentation(&line.text));
        }
    }
    at
}

/// Mapping from the patch's indentation to the file's. Without the mapping, a line added to code whose indentation the
/// model got wrong would also be indented wrongly, which changes the meaning in some languages.
struct Indents<'l> {
    /// Pairs of indentation in the patch and in the file, most recent last.
    mappings: Vec<(&'l str, &'l str)>,
}

impl<'l> Indents<'l> {
    fn of(file: &FileLines<'l>, hunk: &'l Hunk, place: HunkPlace) -> Self {
        let mut indents = Self { mappings: Vec::new() };
        if place.likeness == Likeness::Indentation {
            let pairs: Vec<_> = hunk.old().zip(&file.lines[place.at..]).collect();
            for (patch, line) in pairs.into_iter().rev() {
                indents.note(line, patch);
            }
        }
        indents
    }

    fn note(&mut self, line: &'l str, patch: &'l str) {
        if !patch.trim().is_empty() {
            self.mappings.retain(|(known, _)| *known != indentation(patch));
            self.mappings.push((indentation(patch), indentation(line)));
        }
    }

    /// Records a line, which takes precedence over lines further away.
    fn pass(&mut self, line: &'l str, patch: &'l str) {
        if !self.mappings.is_empty() {
            self.note(line, patch);
        }
    }

    fn map_indentation(&self, added: &str) -> String {
        let indent = indentation(added);
        let fitting = self.mappings.iter().rev().filter(|(patch, _)| indent.starts_with(patch));
        match fitting.max_by_key(|(patch, _)| patch.len()) {
            Some((patch, file)) if !added.trim().is_empty() => format!("{file}{}", &added[patch.len()..]),
            _ => added.to_owned(),
        }
    }
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Converts blocks of lines to edits. `open_end` is true if the patch removes the final line end; `None` leaves the
/// line end unchanged.
fn edits(text: &str, file: &FileLines<'_>, blocks: Vec<Block>, open_end: Option<bool>) -> Vec<(Range<usize>, String)> {
    let mut starts = Vec::with_capacity(file.lines.len() + 1);
    let mut at = 0;
    for line in &file.lines {
        starts.push(at);
        at += line.len() + 1;
    }
    starts.push(text.len());
    let was_open = !text.is_empty() && !text.ends_with('\n');
    let opens = open_end.unwrap_or(was_open);
    blocks
        .into_iter()
        .map(|Block { lines, added }| {
            let mut range = starts[lines.start]..starts[lines.end];
            let mut new = added.join("\n");
            if lines.end < file.lines.len() {
                new.push_str(if added.is_empty() { "" } else { "\n" });
                return (range, new);
            }
            if added.is_empty() {
                // The previous line becomes the last line of the file.
                range.start -= usize::from(opens && lines.start > 0);
            } else {
                if was_open && lines.is_empty() {
                    new.insert(0, '\n');
                }
                new.push_str(if opens { "" } else { "\n" });
            }
            (range, new)
        })
        .collect()
}

/// Hunk that does not fit.
pub(super) struct Misfit<'h> {
    /// Number of the hunk, counted from 1.
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) hunk: &'h Hunk,
    /// First line after the previous hunks, counted from 0.
    pub(super) from: usize,
    /// Expected position of the hunk.
    pub(super) expected: Option<usize>,
    pub(super) reason: PlaceError,
}

impl Misfit<'_> {
    /// Describes the problem, and quotes lines of the file if they help.
    pub(super) fn describe(&self, file: &FileLines<'_>) -> String {
        let header = if self.hunk.header.is_empty() {
            String::new()
        } else {
            format!(" ({})", text::first_chars(&self.hunk.header, 80).0)
        };
        let name = format!("hunk {} of {}{header}", self.number, self.of);
        match &self.reason {
            PlaceError::Missing => format!("{name} {}", self.missing(file)),
            PlaceError::Above { at } => {
                format!("{name} matches at line {}, above the previous hunk; order the hunks as in the file", at + 1)
            }
            PlaceError::Several { at } => {
                let lines: Vec<usize> = at.iter().map(|at| at + 1).collect();
                format!(
                    "{name} matches {} times ({}); add surrounding lines, or the right line number",
                    at.len(),
                    line_list(&lines)
                )
            }
            PlaceError::NoAnchor { anchor } => format!(
                "{name}: no line {}is {}",
                if self.from > 0 { format!("below {} ", self.from) } else { String::new() },
                text::quoted(anchor)
            ),
            PlaceError::Nowhere => {
                format!("{name} only adds lines without context; add surrounding lines of the file")
            }
        }
    }

    fn missing(&self, file: &FileLines<'_>) -> String {
        const MAX_SHOWN: usize = 10;
        if file.lines.is_empty() {
            return "does not match: the file is empty".to_owned();
        }
        if self.is_applied(file) {
            return "does not match, but its new lines are in the file: it seems to be applied already".to_owned();
        }
        let old: Vec<&str> = self.hunk.old().collect();
        let Some(at) = self.nearest(file, &old) else {
            let first = old.iter().find(|line| !line.trim().is_empty()).unwrap_or(&"");
            return format!(
                "does not match: neither {} nor similar text is in the file; read the file again",
                text::quoted(first)
            );
        };
        let differs = old.iter().enumerate().find_map(|(index, wanted)| {
            let line = file.lines.get(at + index).copied();
            (line.map(str::trim) != Some(wanted.trim())).then_some((at + index, *wanted, line))
        });
        let first = match differs {
            Some((number, wanted, Some(line))) => {
                format!("it expects {} at line {}, but found {}", text::quoted(wanted), number + 1, text::quoted(line))
            }
            Some((_, wanted, None)) => format!("it expects {} after the last line", text::quoted(wanted)),
            None => "a line differs".to_owned(),
        };
        // The differing line is always shown, even if the hunk is long.
        let skip = differs.map_or(0, |(number, ..)| (number - at).saturating_sub(MAX_SHOWN / 2));
        let shown: String = file.lines[at + skip..]
            .iter()
            .take(old.len().clamp(1, MAX_SHOWN))
            .map(|line| format!("\n{}", text::first_chars(line, 200).0))
            .collect();
        format!("does not match: {first}. The file from line {}:{shown}", at + skip + 1)
    }

    /// Returns true if the file already contains the new lines of the hunk.
    fn is_applied(&self, file: &FileLines<'_>) -> bool {
        let new: Vec<&str> = self.hunk.new_lines().map(|line| Likeness::Tail.of(line)).collect();
        let is_significant = new.iter().any(|line| !line.is_empty()) && new.len() <= 200;
        is_significant
            && file
                .lines
                .windows(new.len())
                .take(100_000)
                .any(|lines| lines.iter().zip(&new).all(|(line, new)| Likeness::Tail.of(line) == *new))
    }

    /// Returns the position at which most lines of the hunk match, or the line most similar to the hunk's first
    /// meaningful line.
    fn nearest(&self, file: &FileLines<'_>, old: &[&str]) -> Option<usize> {
        /// Maximum number of compared lines in the file and in the hunk.
        const MAX_LINES: usize = 20_000;
        const MAX_OLD: usize = 40;
        let expected = self.expected.unwrap_or(self.from);
        let old = &old[..old.len().min(MAX_OLD)];
        let begin = if file.lines.len() > MAX_LINES { expected.saturating_sub(MAX_LINES / 2) } else { 0 };
        let places = begin..file.lines.len().min(begin + MAX_LINES);
        let matching_lines = |at: usize| {
            let pairs = old.iter().zip(&file.lines[at..]);
            pairs.filter(|(old, line)| !old.trim().is_empty() && old.trim() == line.trim()).count()
        };
        let best = places.clone().map(|at| (matching_lines(at), std::cmp::Reverse(at.abs_diff(expected)), at)).max()?;
        if best.0 > 0 {
            return Some(best.2);
        }
        let (skipped, first) = old.iter().enumerate().find(|(_, line)| !line.trim().is_empty())?;
        let (_, at) = most_alike(first, places.map(|at| (at, file.lines[at])))?;
        Some(at.saturating_sub(skipped))
    }
}

/// Returns the first characters of a line, without surrounding white space.
pub(crate) fn start_of(line: &str) -> &str {
    text::first_chars(line.trim(), 200).0
}

/// Returns the first of the most similar numbered lines, with a score up to 1, or `None` if all lines are dissimilar.
pub(crate) fn most_alike<'l>(wanted: &str, lines: impl Iterator<Item = (usize, &'l str)>) -> Option<(f64, usize)> {
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (strsim::sorensen_dice(start_of(wanted), start_of(line)), at))
        .filter(|(score, _)| *score >= 0.5)
        .max_by(|left, right| left.0.total_cmp(&right.0).then_with(|| right.1.cmp(&left.1)))
}

/// Formats at most the first ten line numbers.
pub(crate) fn line_list(lines: &[usize]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = lines.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if lines.len() > SHOWN { ", …" } else { "" };
    format!("{} {}{more}", if lines.len() == 1 { "line" } else { "lines" }, shown.join(", "))
}
