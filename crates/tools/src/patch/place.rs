//! Finds the position of a hunk in a file.
//!
//! All old lines of the hunk must occur in the file in sequence: exactly, otherwise without trailing white space,
//! otherwise also without indentation. If there are several positions, the one nearest to the line number is used.
//! Without a line number, the hunk is rejected, because a wrong guess could damage the file.

use std::{
    cell::OnceCell,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::Hunk;

/// Required degree of similarity of compared lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Exact,
    /// Ignores white space at the end.
    Tail,
    /// Ignores white space at both ends.
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

/// Lines of a file, without their line ends.
#[derive(Debug)]
pub(super) struct FileLines<'t> {
    pub(super) lines: Vec<&'t str>,
    /// Hashes for comparing lines, by likeness. Computed on first use.
    keys: [OnceCell<Vec<u64>>; 3],
}

/// Position of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HunkPlace {
    /// First line of the hunk, counted from 0.
    pub(super) at: usize,
    pub(super) likeness: Likeness,
}

/// Reason why a hunk has no position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlaceError {
    /// The lines of the hunk do not occur in the file.
    Missing,
    /// The lines of the hunk only occur above the lines of the previous hunk.
    Above { at: usize },
    /// The lines of the hunk occur at all of these positions, and there is no criterion to choose one.
    Several { at: Vec<usize> },
    /// The line after `@@` does not occur in the file.
    NoAnchor { anchor: String },
    /// The hunk only adds lines, and its position is unknown.
    Nowhere,
}

impl<'t> FileLines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { lines: text.split_terminator('\n').collect(), keys: Default::default() }
    }

    /// Finds the position of a hunk at or after the line `from`. `expected` is the likely position.
    pub(super) fn place(&self, hunk: &Hunk, from: usize, expected: Option<usize>) -> Result<HunkPlace, PlaceError> {
        let old: Vec<&str> = hunk.old().collect();
        let anchored = self.anchor_lines(&hunk.anchors, from)?;
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
                Some(Err(at)) => return Err(PlaceError::Several { at }),
                None => match all.last() {
                    Some(at) if anchored.is_none() => return Err(PlaceError::Above { at: *at }),
                    _ => {}
                },
            }
        }
        Err(PlaceError::Missing)
    }

    fn place_of_addition(
        &self,
        hunk: &Hunk,
        from: usize,
        expected: Option<usize>,
        anchored: Option<&[usize]>,
    ) -> Result<usize, PlaceError> {
        let end = self.lines.len();
        match (expected, anchored) {
            (_, Some([anchor])) => Ok(anchor + 1),
            (_, Some(anchors)) => Err(PlaceError::Several { at: anchors.to_vec() }),
            _ if hunk.at_end || end == 0 => Ok(end),
            (Some(at), None) if (from..=end).contains(&at) => Ok(at),
            _ => Err(PlaceError::Nowhere),
        }
    }

    /// Finds the possible lines of the innermost anchor. Returns `None` if the hunk has no anchors.
    fn anchor_lines(&self, anchors: &[String], from: usize) -> Result<Option<Vec<usize>>, PlaceError> {
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
                return Err(PlaceError::NoAnchor { anchor: anchor.clone() });
            }
            places = Some(found);
        }
        Ok(places)
    }

    /// Finds every line at which `wanted` begins. Repeated lines do not increase the running time.
    fn occurrences(&self, wanted: &[&str], likeness: Likeness) -> Vec<usize> {
        let wanted_keys: Vec<u64> = wanted.iter().map(|line| key(likeness.of(line))).collect();
        let keys =
            self.keys[likeness as usize].get_or_init(|| self.lines.iter().map(|line| key(likeness.of(line))).collect());
        // Contains, for each prefix, the length of its longest proper prefix that is also its suffix (Knuth, Morris and
        // Pratt).
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
        // Hash collisions are possible but very unlikely, and comparing the lines at all positions could take too long.
        const COMPARED: usize = 64;
        let is_at = |at: &usize| {
            self.lines[*at..].iter().zip(wanted).all(|(line, wanted)| likeness.of(line) == likeness.of(wanted))
        };
        if found.len() <= COMPARED {
            found.retain(is_at);
        }
        found
    }
}

/// Selects the position nearest to `expected`. If two positions are equally near, or `expected` is missing, returns an
/// error with all positions. Returns `None` if there are no positions.
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
