//! Placing of a hunk in a file.
//!
//! All of its old lines have to be there, one after the other: to the letter; else but for white space at the end of
//! lines; else but for indentation too. Of several places the one that is nearest to the line number is meant. Where no
//! number tells, the hunk is refused rather than put somewhere.

use std::{
    cell::OnceCell,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::Hunk;

/// Required likeness of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Exact,
    /// But for white space at the end.
    Tail,
    /// But for white space at both ends.
    Indentation,
}

impl Likeness {
    const ALL: [Self; 3] = [Self::Exact, Self::Tail, Self::Indentation];

    pub(super) fn of(self, line: &str) -> &str {
        match self {
            Self::Exact => line,
            Self::Tail => line.trim_end(),
            Self::Indentation => line.trim(),
        }
    }
}

/// The lines of a file, without their ends.
#[derive(Debug)]
pub(super) struct FileLines<'t> {
    pub(super) lines: Vec<&'t str>,
    /// Keys by which lines are compared, for each likeness that was needed.
    keys: [OnceCell<Vec<u64>>; 3],
}

/// Position of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HunkPlace {
    /// The first of its lines, counted from 0.
    pub(super) at: usize,
    pub(super) likeness: Likeness,
}

/// Reason why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// Its lines are nowhere.
    Missing,
    /// Its lines are there, but above those of the hunk before it.
    Above { at: usize },
    /// Its lines are at all of these, and nothing tells which is meant.
    Several { at: Vec<usize> },
    /// The line after `@@` is nowhere.
    NoAnchor { anchor: String },
    /// It only adds lines, and nothing tells where.
    Nowhere,
}

impl<'t> FileLines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { lines: text.split_terminator('\n').collect(), keys: Default::default() }
    }

    /// Finds the place of a hunk, not above the line `from`. `expected` is where it should be.
    pub(super) fn place(&self, hunk: &Hunk, from: usize, expected: Option<usize>) -> Result<HunkPlace, NoPlace> {
        let old: Vec<&str> = hunk.old().collect();
        let anchored = self.anchored(&hunk.anchors, from)?;
        if old.is_empty() {
            let at = self.place_of_addition(hunk, from, expected, anchored.as_deref())?;
            return Ok(HunkPlace { at, likeness: Likeness::Exact });
        }
        for likeness in Likeness::ALL {
            let all = self.occurrences(&old, likeness);
            let mut places: Vec<usize> = all.iter().copied().filter(|at| *at >= from).collect();
            if let Some(anchors) = &anchored {
                let after = |anchor: &usize| places.iter().copied().find(|at| at >= anchor);
                let mut first: Vec<usize> = anchors.iter().filter_map(after).collect();
                first.dedup();
                places = first;
            }
            if hunk.at_end && places.contains(&(self.lines.len() - old.len())) {
                places = vec![self.lines.len() - old.len()];
            }
            match nearest(&places, expected) {
                Some(Ok(at)) => return Ok(HunkPlace { at, likeness }),
                Some(Err(at)) => return Err(NoPlace::Several { at }),
                None => match all.last() {
                    Some(at) if anchored.is_none() => return Err(NoPlace::Above { at: *at }),
                    _ => {}
                },
            }
        }
        Err(NoPlace::Missing)
    }

    fn place_of_addition(
        &self,
        hunk: &Hunk,
        from: usize,
        expected: Option<usize>,
        anchored: Option<&[usize]>,
    ) -> Result<usize, NoPlace> {
        let end = self.lines.len();
        match (expected, anchored) {
            (_, Some([anchor])) => Ok(anchor + 1),
            (_, Some(anchors)) => Err(NoPlace::Several { at: anchors.to_vec() }),
            _ if hunk.at_end || end == 0 => Ok(end),
            (Some(at), None) if (from..=end).contains(&at) => Ok(at),
            _ => Err(NoPlace::Nowhere),
        }
    }

    /// The lines at which the innermost anchor may be, or nothing if there is no anchor.
    fn anchored(&self, anchors: &[String], from: usize) -> Result<Option<Vec<usize>>, NoPlace> {
        let mut places: Option<Vec<usize>> = None;
        for anchor in anchors {
            let wanted = anchor.trim();
            let whole = |line: &str| line.trim() == wanted;
            let start = |line: &str| line.trim_start().starts_with(wanted);
            let all = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
                (from..self.lines.len()).filter(|at| fits(self.lines[*at])).collect()
            };
            let mut found = all(&whole);
            if found.is_empty() {
                found = all(&start);
            }
            if let Some(outer) = &places {
                found = outer.iter().filter_map(|outer| found.iter().copied().find(|at| at > outer)).collect();
                found.dedup();
            }
            if found.is_empty() {
                return Err(NoPlace::NoAnchor { anchor: anchor.clone() });
            }
            places = Some(found);
        }
        Ok(places)
    }

    /// Every line at which `wanted` begins, in time that does not depend on how often lines repeat.
    fn occurrences(&self, wanted: &[&str], likeness: Likeness) -> Vec<usize> {
        let wanted_keys: Vec<u64> = wanted.iter().map(|line| key(likeness.of(line))).collect();
        let keys =
            self.keys[likeness as usize].get_or_init(|| self.lines.iter().map(|line| key(likeness.of(line))).collect());
        // How much of the beginning also ends each beginning (Knuth, Morris and Pratt).
        let mut borders = vec![0; wanted_keys.len()];
        for at in 1..wanted_keys.len() {
            let mut border = borders[at - 1];
            while border > 0 && wanted_keys[at] != wanted_keys[border] {
                border = borders[border - 1];
            }
            borders[at] = border + usize::from(wanted_keys[at] == wanted_keys[border]);
        }
        let mut found = Vec::new();
        let mut matched = 0;
        for (at, key) in keys.iter().enumerate() {
            while matched > 0 && (matched == wanted_keys.len() || *key != wanted_keys[matched]) {
                matched = borders[matched - 1];
            }
            matched += usize::from(*key == wanted_keys[matched]);
            if matched == wanted_keys.len() {
                found.push(at + 1 - matched);
            }
        }
        // Two lines with one key are not impossible, only never seen; and comparing all places could take for ever.
        const COMPARED: usize = 64;
        let is_there = |at: &usize| {
            self.lines[*at..].iter().zip(wanted).all(|(line, wanted)| likeness.of(line) == likeness.of(wanted))
        };
        if found.len() <= COMPARED {
            found.retain(is_there);
        }
        found
    }
}

/// The one place that is meant, several if nothing tells which, or none if there is none.
fn nearest(places: &[usize], expected: Option<usize>) -> Option<Result<usize, Vec<usize>>> {
    let several = || Some(Err(places.to_vec()));
    match (places, expected) {
        ([], _) => None,
        ([only], _) => Some(Ok(*only)),
        (_, None) => several(),
        (_, Some(expected)) => {
            let least = places.iter().map(|at| at.abs_diff(expected)).min()?;
            let mut near = places.iter().filter(|at| at.abs_diff(expected) == least);
            match (near.next(), near.next()) {
                (Some(only), None) => Some(Ok(*only)),
                _ => several(),
            }
        }
    }
}

fn key(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}
