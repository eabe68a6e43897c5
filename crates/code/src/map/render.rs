//! Files and lines of a map.

use std::collections::{BTreeSet, HashMap};

use agentd_core::code::MapFile;

use super::graph::RankedDefinition;
use crate::{index::CodeIndex, symbols::ReadFile, text::start_of};

/// Bytes of a line that are shown.
const MAX_LINE: usize = 100;
/// Bytes of a token of code, on average.
const BYTES_PER_TOKEN: usize = 4;
/// Definitions that are shown at most.
pub(super) const MAX_SHOWN: usize = 2000;

/// Renders as many definitions as fit, in the order of their ranks. Found by halves, since neighbours share a path.
pub(super) fn render(
    index: &CodeIndex,
    ranked: &[RankedDefinition],
    max_tokens: usize,
    read: ReadFile<'_>,
) -> Vec<MapFile> {
    let room = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    // A line with its share of a path is seldom shorter, and each that is tried may cost the reading of a file.
    let most = ranked.len().min(room / 24 + 1);
    let mut texts: HashMap<u32, Vec<String>> = HashMap::new();
    let (mut fits, mut too_many) = (0, most + 1);
    let mut drawn = Vec::new();
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        let files = draw(index, ranked.get(..middle).unwrap_or_default(), &mut texts, read);
        if MapFile::render(&files).len() <= room {
            (fits, drawn) = (middle, files);
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
) -> Vec<MapFile> {
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
    let mut drawn = Vec::new();
    for slot in order {
        let Some(file) = index.file(slot) else { continue };
        let text = texts.entry(slot).or_insert_with(|| {
            let text = read(&file.path).unwrap_or_default();
            text.lines().map(|line| start_of(line.trim_end(), MAX_LINE).to_owned()).collect()
        });
        let row = |line: u32| (line, text.get(line as usize - 1).cloned().unwrap_or_default());
        let lines = shown.remove(&slot).unwrap_or_default().into_iter().map(row).collect();
        drawn.push(MapFile { path: file.path.to_string(), lines });
    }
    drawn
}
