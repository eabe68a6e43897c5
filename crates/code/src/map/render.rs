//! Text of a map.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
};

use super::graph::RankedDefinition;
use crate::{index::CodeIndex, symbols::ReadFile, text::start_of};

/// Bytes of a line that are shown.
const MAX_LINE: usize = 100;
/// Bytes of a token of code, on average.
const BYTES_PER_TOKEN: usize = 4;
/// Definitions that are shown at most.
pub(super) const MAX_SHOWN: usize = 2000;

/// Renders as many definitions as fit, in the order of their ranks. Found by halves, since neighbours share a path.
pub(super) fn render(index: &CodeIndex, ranked: &[RankedDefinition], max_tokens: usize, read: ReadFile<'_>) -> String {
    let room = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    // A line with its share of a path is seldom shorter, and each that is tried may cost the reading of a file.
    let most = ranked.len().min(room / 24 + 1);
    let mut texts: HashMap<u32, Vec<String>> = HashMap::new();
    let (mut fits, mut too_many) = (0, most + 1);
    let mut drawn = String::new();
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        let text = draw(index, ranked.get(..middle).unwrap_or_default(), &mut texts, read);
        if text.len() <= room {
            (fits, drawn) = (middle, text);
        } else {
            too_many = middle;
        }
    }
    drawn
}

fn draw(
    index: &CodeIndex,
    ranked: &[RankedDefinition],
    texts: &mut HashMap<u32, Vec<String>>,
    read: ReadFile<'_>,
) -> String {
    let mut order: Vec<u32> = Vec::new();
    let mut shown: HashMap<u32, BTreeSet<u32>> = HashMap::new();
    for definition in ranked {
        let Some(file) = index.file(definition.file) else { continue };
        let Some(found) = file.definitions.get(definition.definition as usize) else { continue };
        let lines = shown.entry(definition.file).or_insert_with(|| {
            order.push(definition.file);
            BTreeSet::new()
        });
        lines.insert(found.first_line);
    }
    let mut drawn = String::new();
    for slot in order {
        let Some(file) = index.file(slot) else { continue };
        let text = texts.entry(slot).or_insert_with(|| {
            let text = read(&file.path).unwrap_or_default();
            text.lines().map(|line| start_of(line.trim_end(), MAX_LINE).to_owned()).collect()
        });
        let _ = writeln!(drawn, "{}:", file.path);
        for line in shown.remove(&slot).unwrap_or_default() {
            let row = text.get(line as usize - 1).map_or("", String::as_str);
            let _ = writeln!(drawn, "{line:>5}  {row}");
        }
    }
    drawn
}
