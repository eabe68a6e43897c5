//! Messages to the model about a hunk that does not fit: which one, why, and the lines found instead.

use agentd_workspace::text;

use super::{
    Hunk,
    place::{FileLines, Likeness, NoPlace},
};

/// A hunk that does not fit.
pub(super) struct Misfit<'h> {
    /// Its number among all hunks, counted from 1.
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) hunk: &'h Hunk,
    /// The first line, counted from 0, that the hunks before it left.
    pub(super) from: usize,
    /// Expected position.
    pub(super) expected: Option<usize>,
    pub(super) why: NoPlace,
}

impl Misfit<'_> {
    /// A sentence and, where it helps, the lines found there.
    pub(super) fn told(&self, file: &FileLines<'_>) -> String {
        let header = if self.hunk.header.is_empty() {
            String::new()
        } else {
            format!(" ({})", text::first_chars(&self.hunk.header, 80).0)
        };
        let name = format!("hunk {} of {}{header}", self.number, self.of);
        match &self.why {
            NoPlace::Missing => format!("{name} {}", self.missing(file)),
            NoPlace::Above { at } => format!(
                "{name} stands at line {}, above the previous hunk; put the hunks in the order of the file",
                at + 1
            ),
            NoPlace::Several { at } => {
                const SHOWN: usize = 10;
                let shown: Vec<String> = at.iter().take(SHOWN).map(|at| (at + 1).to_string()).collect();
                let more = if at.len() > SHOWN { ", …" } else { "" };
                format!(
                    "{name} fits {} times (lines {}{more}); add lines around the one you mean, or the right line number",
                    at.len(),
                    shown.join(", ")
                )
            }
            NoPlace::NoAnchor { anchor } => format!(
                "{name}: no line {}is {}",
                if self.from > 0 { format!("below {} ", self.from) } else { String::new() },
                text::quoted(anchor)
            ),
            NoPlace::Nowhere => {
                format!("{name} only adds lines, and nothing says where; put lines around them that are in the file")
            }
        }
    }

    fn missing(&self, file: &FileLines<'_>) -> String {
        const MAX_SHOWN: usize = 10;
        if file.lines.is_empty() {
            return "does not fit: the file is empty".to_owned();
        }
        if self.is_applied(file) {
            return "does not fit, and its new lines are there already: it seems to have been applied before"
                .to_owned();
        }
        let old: Vec<&str> = self.hunk.old().collect();
        let Some(at) = self.nearest(file, &old) else {
            let first = old.iter().find(|line| !line.trim().is_empty()).unwrap_or(&"");
            return format!(
                "does not fit: neither {} nor anything like it is in the file; read the file again",
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
            None => "a line of it differs".to_owned(),
        };
        // The line that differs is shown, however long the hunk.
        let skip = differs.map_or(0, |(number, ..)| (number - at).saturating_sub(MAX_SHOWN / 2));
        let shown: String = file.lines[at + skip..]
            .iter()
            .take(old.len().clamp(1, MAX_SHOWN))
            .map(|line| format!("\n{}", text::first_chars(line, 200).0))
            .collect();
        format!("does not fit: {first}. From line {} on the file has:{shown}", at + skip + 1)
    }

    /// Returns whether what it makes is there already.
    fn is_applied(&self, file: &FileLines<'_>) -> bool {
        let new: Vec<&str> = self.hunk.new_lines().map(|line| Likeness::Tail.of(line)).collect();
        let worth = new.iter().any(|line| !line.is_empty()) && new.len() <= 200;
        worth
            && file
                .lines
                .windows(new.len())
                .take(100_000)
                .any(|lines| lines.iter().zip(&new).all(|(line, new)| Likeness::Tail.of(line) == *new))
    }

    /// Returns the line where most of its lines are found, or the first meaningful one.
    fn nearest(&self, file: &FileLines<'_>, old: &[&str]) -> Option<usize> {
        /// Number of lines of the file and of the hunk that are compared.
        const MAX_LINES: usize = 20_000;
        const MAX_OLD: usize = 40;
        let expected = self.expected.unwrap_or(self.from);
        let old = &old[..old.len().min(MAX_OLD)];
        let begin = if file.lines.len() > MAX_LINES { expected.saturating_sub(MAX_LINES / 2) } else { 0 };
        let places = begin..file.lines.len().min(begin + MAX_LINES);
        let alike = |at: usize| {
            let pairs = old.iter().zip(&file.lines[at..]);
            pairs.filter(|(old, line)| !old.trim().is_empty() && old.trim() == line.trim()).count()
        };
        let best = places.clone().map(|at| (alike(at), std::cmp::Reverse(at.abs_diff(expected)), at)).max()?;
        if best.0 > 0 {
            return Some(best.2);
        }
        let (skipped, first) = old.iter().enumerate().find(|(_, line)| !line.trim().is_empty())?;
        let shorten = |line: &str| text::first_chars(line.trim(), 200).0.to_owned();
        let first = shorten(first);
        places
            .filter(|at| !file.lines[*at].trim().is_empty())
            .map(|at| (strsim::sorensen_dice(&first, &shorten(file.lines[at])), at))
            .filter(|(score, _)| *score >= 0.5)
            .max_by(|left, right| left.0.total_cmp(&right.0).then_with(|| right.1.cmp(&left.1)))
            .map(|(_, at)| at.saturating_sub(skipped))
    }
}
