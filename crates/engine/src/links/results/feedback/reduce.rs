//! A long output, reduced to the lines that decide. Pure.
//!
//! In the order in which they get their places: the first line, which says how it ended; the first that says that
//! something went wrong; the last lines and the first; what stands around each line that went wrong; around keywords;
//! around doubts; then more of the end and of the beginning, as long as there is room.

use std::{borrow::Cow, ops::Range};

use agentd_context::{text::grouped, tokens::estimate};
use regex::Regex;

use crate::links::results::feedback::lines::{Mark, Marker, Patterns};

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
    let lines = lines(text);
    let mut marker = Marker::new(patterns, keywords);
    let marks: Vec<(usize, Mark, usize)> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| marker.mark(line.text).map(|(mark, place)| (at, mark, place)))
        .collect();
    let mut page = Page::new(&lines, tokens);
    for (at, _, place) in &marks {
        page.focus[*at] = *place;
    }
    let wrong = |(_, mark, _): &&(usize, Mark, usize)| *mark == Mark::Wrong;
    let first_wrong = marks.iter().find(wrong).map(|(at, ..)| *at);
    page.insist(0);
    first_wrong.into_iter().for_each(|at| page.insist(at));
    page.add(lines.len().saturating_sub(LAST)..lines.len());
    page.add(0..FIRST);
    for (mark, before, after) in [(Mark::Wrong, 1, 6), (Mark::Wanted, 1, 2), (Mark::Doubtful, 1, 2)] {
        for (at, ..) in marks.iter().filter(|(_, found, _)| *found == mark) {
            // The line itself first: if there is no room for more, it says the most.
            page.add(*at..at + 1);
            page.add(*at..at + 1 + after);
            page.add(at.saturating_sub(before)..*at);
        }
    }
    page.add_from_the_end(lines.len().saturating_sub(MORE_LAST)..lines.len());
    page.add(0..MORE_FIRST);
    let shown = page.render();
    (shown.len() < text.len()).then_some(shown)
}

/// A line, or what a progress bar wrote over another, and the number of its line in the text, from 1.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let numbered = text.lines().enumerate();
    numbered.flat_map(|(at, line)| line.split('\r').map(move |text| Line { number: at + 1, text })).collect()
}

/// The lines that get a place.
struct Page<'a> {
    lines: &'a [Line<'a>],
    shown: Vec<bool>,
    /// Where in each line the reason stands for which it is shown.
    focus: Vec<usize>,
    left: u64,
}

impl<'a> Page<'a> {
    fn new(lines: &'a [Line<'a>], tokens: u64) -> Self {
        Self { lines, shown: vec![false; lines.len()], focus: vec![0; lines.len()], left: tokens }
    }

    /// Shows a line, whatever it takes.
    fn insist(&mut self, at: usize) {
        if at < self.lines.len() && !self.shown[at] {
            self.left = self.left.saturating_sub(self.cost(at));
            self.shown[at] = true;
        }
    }

    /// Shows lines while there is room.
    fn add(&mut self, range: Range<usize>) {
        for at in range.start..range.end.min(self.lines.len()) {
            if !self.try_add(at) {
                return;
            }
        }
    }

    fn add_from_the_end(&mut self, range: Range<usize>) {
        for at in range.rev() {
            if !self.try_add(at) {
                return;
            }
        }
    }

    fn try_add(&mut self, at: usize) -> bool {
        if self.shown[at] {
            return true;
        }
        let cost = self.cost(at);
        if cost > self.left {
            return false;
        }
        self.left -= cost;
        self.shown[at] = true;
        true
    }

    fn cost(&self, at: usize) -> u64 {
        let beside = |at: Option<usize>| at.and_then(|at| self.shown.get(at)).copied().unwrap_or(false);
        let gap = if beside(at.checked_sub(1)) || beside(Some(at + 1)) { 0 } else { GAP };
        estimate(&self.clipped(at)) + 1 + gap
    }

    /// The line, or the part of a long one that counts.
    fn clipped(&self, at: usize) -> Cow<'a, str> {
        let line = self.lines[at].text;
        if line.len() <= BEFORE + AFTER {
            return Cow::Borrowed(line);
        }
        let start = line[..self.focus[at]].char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
        let end = line[start..].char_indices().nth(BEFORE + AFTER).map_or(line.len(), |(end, _)| start + end);
        if start == 0 && end == line.len() {
            return Cow::Borrowed(line);
        }
        let mark = |left_out: usize| {
            if left_out > 0 { format!("[… {} bytes …]", grouped(left_out)) } else { String::new() }
        };
        Cow::Owned(format!("{}{}{}", mark(start), &line[start..end], mark(line.len() - end)))
    }

    fn render(&self) -> String {
        let mut text = String::new();
        let mut gap: Option<Range<usize>> = None;
        for (at, line) in self.lines.iter().enumerate() {
            if self.shown[at] {
                say_gap(&mut text, gap.take());
                text.push_str(&self.clipped(at));
                text.push('\n');
            } else {
                let start = gap.map_or(line.number, |gap| gap.start);
                gap = Some(start..line.number + 1);
            }
        }
        say_gap(&mut text, gap);
        text
    }
}

fn say_gap(text: &mut String, gap: Option<Range<usize>>) {
    let Some(gap) = gap else { return };
    let (first, last) = (gap.start, gap.end - 1);
    text.push_str(&match gap.len() {
        1 => format!("[… line {first} left out …]\n"),
        count => format!("[… {} lines left out, {first} to {last} …]\n", grouped(count)),
    });
}

#[cfg(test)]
mod tests;
