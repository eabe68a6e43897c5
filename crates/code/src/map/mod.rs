//! Map of a folder: the definitions that the rest of the code leans on, within a number of tokens.
//!
//! What all lean on comes first, by PageRank over the files, but one room of the folder does not fill the map.

mod graph;

use std::collections::{BTreeSet, HashMap, HashSet};

use agentd_core::code::MapFile;

use self::graph::{Graph, RankedDefinition};
use crate::{
    index::{CodeIndex, count},
    symbols::ReadFile,
    text::start_of,
};

/// Draws the map: paths with the lines of their most important definitions, the most important file first.
pub(crate) fn map(index: &CodeIndex, max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
    let graph = Graph::new(index);
    let ranks = page_rank(&graph);
    let definitions = spread(index, graph.definition_ranks(&ranks, MAX_SHOWN));
    render(index, &definitions, max_tokens, read)
}

/// Share of the rank that goes along the edges.
const DAMPING: f32 = 0.85;
/// Rounds; ranks differ little after them.
const ROUNDS: usize = 10;

/// Rank of each slot; all together 1.
fn page_rank(graph: &Graph<'_>) -> Vec<f32> {
    let slots = graph.edges.len();
    // Rank begins everywhere, and less in tests.
    let mut start: Vec<f32> = (0..count(slots)).map(|slot| graph.file_weight(slot)).collect();
    let sum: f32 = start.iter().sum();
    start.iter_mut().for_each(|start| *start /= sum.max(f32::MIN_POSITIVE));
    let mut ranks = start.clone();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0_f32; slots];
        let mut passed = 0.0;
        for ((rank, edges), total) in ranks.iter().zip(&graph.edges).zip(&graph.totals) {
            let factor = DAMPING * rank / total;
            for edge in edges {
                if let Some(place) = next.get_mut(edge.to as usize) {
                    let share = factor * edge.weight;
                    *place += share;
                    passed += share;
                }
            }
        }
        // What is not passed on goes back to where all begins.
        let back = 1.0 - passed;
        for (place, start) in next.iter_mut().zip(&start) {
            *place += back * start;
        }
        ranks = next;
    }
    ranks
}

/// Bytes of a line that are shown.
const MAX_LINE: usize = 100;
/// Bytes of a token of code, on average.
const BYTES_PER_TOKEN: usize = 4;
/// Definitions that are shown at most.
const MAX_SHOWN: usize = 2000;

/// Renders as many definitions as fit, in the order of their ranks. Found by halves, since neighbours share a path.
fn render(index: &CodeIndex, ranked: &[RankedDefinition], max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
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

/// Factor on each further file of one room.
const CROWDED: f32 = 0.5;
/// Folder of a package that holds its sources.
const SOURCES: &str = "src";
/// Folders that say nothing of what is in them.
const PLAIN: [&str; 4] = [SOURCES, "lib", "main", "java"];

/// Lets each further file of a room count less, and sorts again.
fn spread(index: &CodeIndex, mut ranked: Vec<RankedDefinition>) -> Vec<RankedDefinition> {
    let mut crowds: HashMap<String, i32> = HashMap::new();
    let mut factors: HashMap<u32, f32> = HashMap::new();
    let mut seen = HashSet::new();
    for definition in &ranked {
        if let Some(file) = index.file(definition.file).filter(|_| seen.insert(definition.file)) {
            let crowd = crowds.entry(room(&file.path)).or_default();
            factors.insert(definition.file, CROWDED.powi(*crowd));
            *crowd += 1;
        }
    }
    for definition in &mut ranked {
        definition.rank *= factors.get(&definition.file).copied().unwrap_or(1.0);
    }
    ranked.sort_by(|a, b| b.rank.total_cmp(&a.rank));
    ranked
}

/// Room of a file: its package, or else the first two folders on its path that say something.
fn room(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    let folders = folders.split_last().map_or(&[][..], |(_, folders)| folders);
    let package = folders.iter().position(|folder| *folder == SOURCES).and_then(|at| folders.get(..at));
    if let Some(package) = package.filter(|package| !package.is_empty()) {
        return package.join("/");
    }
    let telling = folders.iter().filter(|folder| !PLAIN.contains(folder));
    telling.take(2).copied().collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_packages_or_the_first_folders_that_say_something() {
        for (path, expected) in [
            ("crates/engine/src/session/load.rs", "crates/engine"),
            ("agentd/src/boot.rs", "agentd"),
            ("agentd/src/rpc/turns.rs", "agentd"),
            ("src/main/java/org/shop/Cart.java", "org/shop"),
            ("django/db/models/base.py", "django/db"),
            ("src/net/http/client.go", "net/http"),
            ("main.py", ""),
        ] {
            assert_eq!(room(path), expected, "{path}");
        }
    }
}
