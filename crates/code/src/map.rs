//! Map of a folder: the definitions on which the rest of the code depends, within a token budget.
//!
//! Files are ranked with PageRank. Additional files of the same package or folder get a lower rank, so that the map
//! covers the whole folder.

use std::collections::{BTreeSet, HashMap, HashSet};

use agentd_core::code::MapFile;

use crate::{
    index::{CodeIndex, IndexedFile, count},
    language::Language,
    symbols::ReadFile,
    tags::SymbolKind,
    text::start_of,
};

/// Returns the lines of the most important definitions per file, most important file first.
pub(crate) fn map(index: &CodeIndex, max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
    let graph = Graph::new(index);
    let ranks = page_rank(&graph);
    let definitions = diversify(index, graph.definition_ranks(&ranks, MAX_SHOWN));
    render(index, &definitions, max_tokens, read)
}

/// Damping factor of PageRank.
const DAMPING: f32 = 0.85;
/// Number of PageRank iterations. Ranks hardly change afterwards.
const ITERATIONS: usize = 10;

/// Returns the rank of each slot. The ranks add up to 1.
fn page_rank(graph: &Graph<'_>) -> Vec<f32> {
    let slots = graph.edges.len();
    // All files have an initial rank, which is lower for test files.
    let mut start: Vec<f32> = (0..count(slots)).map(|slot| graph.file_weight(slot)).collect();
    let sum: f32 = start.iter().sum();
    start.iter_mut().for_each(|start| *start /= sum.max(f32::MIN_POSITIVE));
    let mut ranks = start.clone();
    for _ in 0..ITERATIONS {
        let mut next = vec![0.0_f32; slots];
        let mut passed = 0.0;
        for ((rank, edges), total) in ranks.iter().zip(&graph.edges).zip(&graph.totals) {
            let factor = DAMPING * rank / total;
            for edge in edges {
                if let Some(rank) = next.get_mut(edge.to as usize) {
                    let share = factor * edge.weight;
                    *rank += share;
                    passed += share;
                }
            }
        }
        // Rank that is not passed on is distributed in proportion to the initial rank.
        let back = 1.0 - passed;
        for (rank, start) in next.iter_mut().zip(&start) {
            *rank += back * start;
        }
        ranks = next;
    }
    ranks
}

/// Maximum length of a shown line in bytes.
const MAX_LINE: usize = 100;
/// Average number of bytes per token of code.
pub(crate) const BYTES_PER_TOKEN: usize = 4;
/// Maximum number of shown definitions.
const MAX_SHOWN: usize = 2000;

/// Renders as many definitions as fit, in rank order. Uses a binary search, because definitions in the same file share
/// a path line.
fn render(index: &CodeIndex, ranked: &[RankedDefinition], max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
    let budget = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    // Lines are rarely shorter than 24 bytes, and every attempt may read files.
    let limit = ranked.len().min(budget / 24 + 1);
    let mut texts: HashMap<u32, Vec<String>> = HashMap::new();
    let (mut fits, mut too_many) = (0, limit + 1);
    let mut rendered = Vec::new();
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        let files = render_files(index, ranked.get(..middle).unwrap_or_default(), &mut texts, read);
        if MapFile::render(&files).len() <= budget {
            (fits, rendered) = (middle, files);
        } else {
            too_many = middle;
        }
    }
    rendered
}

fn render_files(
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
    let mut rendered = Vec::new();
    for slot in order {
        let Some(file) = index.file(slot) else { continue };
        let text = texts.entry(slot).or_insert_with(|| {
            let text = read(&file.path).unwrap_or_default();
            text.lines().map(|line| start_of(line.trim_end(), MAX_LINE).to_owned()).collect()
        });
        let row = |line: u32| (line, text.get(line as usize - 1).cloned().unwrap_or_default());
        let lines = shown.remove(&slot).unwrap_or_default().into_iter().map(row).collect();
        rendered.push(MapFile { path: file.path.to_string(), lines });
    }
    rendered
}

/// Factor for each additional file in the same group.
const GROUP_FACTOR: f32 = 0.5;
/// Name of the folder that contains a package's sources.
const SOURCES: &str = "src";
/// Folder names that do not identify their content.
const GENERIC_FOLDERS: [&str; 4] = [SOURCES, "lib", "main", "java"];

/// Lowers the rank of additional files in the same group, and sorts again.
fn diversify(index: &CodeIndex, mut ranked: Vec<RankedDefinition>) -> Vec<RankedDefinition> {
    let mut group_counts: HashMap<String, i32> = HashMap::new();
    let mut factors: HashMap<u32, f32> = HashMap::new();
    let mut seen = HashSet::new();
    for definition in &ranked {
        if let Some(file) = index.file(definition.file).filter(|_| seen.insert(definition.file)) {
            let group_count = group_counts.entry(group_of(&file.path)).or_default();
            factors.insert(definition.file, GROUP_FACTOR.powi(*group_count));
            *group_count += 1;
        }
    }
    for definition in &mut ranked {
        definition.rank *= factors.get(&definition.file).copied().unwrap_or(1.0);
    }
    ranked.sort_by(|a, b| b.rank.total_cmp(&a.rank));
    ranked
}

/// Returns the group of a file: its package, or the first two meaningful folders of its path.
fn group_of(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    let folders = folders.split_last().map_or(&[][..], |(_, folders)| folders);
    let package = folders.iter().position(|folder| *folder == SOURCES).and_then(|at| folders.get(..at));
    if let Some(package) = package.filter(|package| !package.is_empty()) {
        return package.join("/");
    }
    let specific = folders.iter().filter(|folder| !GENERIC_FOLDERS.contains(folder));
    specific.take(2).copied().collect::<Vec<_>>().join("/")
}

/// Maximum number of definitions per name. More common names, such as `new`, `main` or `fmt`, are ignored.
const MAX_DEFINERS: usize = 10;
/// Number of definitions above which a name has little weight.
const MANY_DEFINERS: usize = 5;
/// Minimum length of a multi-word name that counts as specific.
const MIN_SPECIFIC_LEN: usize = 8;
/// Factor for a file if neither its types nor its file name are used elsewhere. Most apparent uses of such a file refer
/// to standard library methods with the same name as a method in the file.
const DOUBTFUL_FACTOR: f32 = 0.05;
/// Factor if at least [`MIN_PROBABLE_NAMES`] names from a file are used, which is unlikely to be a coincidence.
const PROBABLE_FACTOR: f32 = 0.5;
/// Weight that each file retains, so that a file with few and doubtful uses does not pass on its whole rank.
const RETAINED_WEIGHT: f32 = 10.0;
/// Minimum number of used names for [`PROBABLE_FACTOR`].
const MIN_PROBABLE_NAMES: u32 = 3;

/// Definition of a name in the graph.
#[derive(Debug, Clone, Copy)]
struct Definer {
    file: u32,
    /// Index in the file's definitions.
    definition: u32,
    language: Option<Language>,
    is_type: bool,
}

/// Returns the definitions that other files can use, by name number. Excludes `impl` blocks, which are named after
/// their types, and definitions inside functions.
fn definers(index: &CodeIndex) -> Vec<Vec<Definer>> {
    let mut definers = vec![Vec::new(); index.names().len()];
    for (slot, file) in index.live_files() {
        let mut function_end = 0;
        for (at, definition) in (0..).zip(&file.definitions) {
            let is_local = definition.depth > 0 && definition.last_line <= function_end;
            if matches!(definition.kind, SymbolKind::Function | SymbolKind::Method) {
                function_end = function_end.max(definition.last_line);
            }
            if is_local || definition.kind == SymbolKind::Impl {
                continue;
            }
            let (language, is_type) = (file.language, definition.kind.is_type());
            if let Some(definers) = definers.get_mut(definition.name as usize) {
                definers.push(Definer { file: slot, definition: at, language, is_type });
            }
        }
    }
    definers
}

/// Returns the weight for using a name with this number of definitions.
fn name_weight(index: &CodeIndex, name: u32, definers: usize) -> f32 {
    if definers == 0 || definers > MAX_DEFINERS {
        return 0.0;
    }
    let mut weight = 1.0;
    let text = index.names().text(name);
    let has = |is_of: fn(&u8) -> bool| text.as_bytes().iter().any(is_of);
    let is_camel = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    if text.len() >= MIN_SPECIFIC_LEN && (is_camel || text.trim_matches('_').contains('_')) {
        weight *= 10.0;
    }
    if text.starts_with('_') {
        weight *= 0.1;
    }
    if definers > MANY_DEFINERS {
        weight *= 0.1;
    }
    // Each definition gets an equal share, because a use only refers to one of them.
    weight / definers as f32
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RankedDefinition {
    pub(super) file: u32,
    pub(super) definition: u32,
    pub(super) rank: f32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Slot of the defining file.
    pub(super) to: u32,
    /// Total weight of all uses.
    pub(super) weight: f32,
    /// Factor for each use, by the likelihood that the use refers to the file.
    trust: f32,
}

/// Graph of files with weighted edges.
pub(super) struct Graph<'index> {
    index: &'index CodeIndex,
    definers: Vec<Vec<Definer>>,
    pub(super) edges: Vec<Vec<Edge>>,
    /// Divisor for the rank of each slot: the weight of the slot's edges plus the retained weight.
    pub(super) totals: Vec<f32>,
}

/// Uses of one file's definitions in another file.
#[derive(Clone, Copy, Default)]
struct Evidence {
    weight: f32,
    names: u32,
    has_type: bool,
}

impl<'index> Graph<'index> {
    pub(super) fn new(index: &'index CodeIndex) -> Self {
        let edges = vec![Vec::new(); index.slots()];
        let totals = vec![0.0; index.slots()];
        let mut graph = Self { index, definers: definers(index), edges, totals };
        graph.connect();
        graph
    }

    fn connect(&mut self) {
        let mut evidence = vec![Evidence::default(); self.index.slots()];
        let mut touched = Vec::new();
        let stems: Vec<Option<u32>> = (0..count(self.index.slots())).map(|slot| self.stem(slot)).collect();
        for (slot, file) in self.index.live_files() {
            self.uses(slot, file, &mut |definer, weight| {
                let Some(evidence) = evidence.get_mut(definer.file as usize) else { return };
                if evidence.names == 0 {
                    touched.push(definer.file);
                }
                evidence.weight += weight;
                evidence.names += 1;
                evidence.has_type |= definer.is_type;
            });
            let edge = |to: u32| {
                let evidence = std::mem::take(evidence.get_mut(to as usize)?);
                let stem = stems.get(to as usize).copied().flatten();
                let is_named =
                    || stem.is_some_and(|stem| file.uses.binary_search_by_key(&stem, |(name, _)| *name).is_ok());
                let trust = match evidence {
                    _ if evidence.has_type || is_named() => 1.0,
                    _ if evidence.names >= MIN_PROBABLE_NAMES => PROBABLE_FACTOR,
                    _ => DOUBTFUL_FACTOR,
                };
                Some(Edge { to, weight: evidence.weight * trust, trust })
            };
            let edges: Vec<Edge> = touched.drain(..).filter_map(edge).collect();
            if let (Some(own), Some(total)) = (self.edges.get_mut(slot as usize), self.totals.get_mut(slot as usize)) {
                *total = RETAINED_WEIGHT + edges.iter().map(|edge| edge.weight).sum::<f32>();
                *own = edges;
            }
        }
    }

    /// Returns the number of the name under which other files import this file.
    fn stem(&self, slot: u32) -> Option<u32> {
        let path = &self.index.file(slot)?.path;
        let name = path.rsplit('/').next()?;
        self.index.names().get(name.split_once('.').map_or(name, |(stem, _)| stem))
    }

    /// Calls `visit` with each definition in another file that this file may use, and the weight of the use.
    fn uses(&self, slot: u32, file: &IndexedFile, visit: &mut impl FnMut(Definer, f32)) {
        for (name, count) in &file.uses {
            let Some(definers) = self.definers.get(*name as usize) else { continue };
            let weight = name_weight(self.index, *name, definers.len()) * f32::from(*count).sqrt();
            // A file that defines the name uses its own definition.
            if weight <= 0.0 || definers.iter().any(|definer| definer.file == slot) {
                continue;
            }
            let is_kin =
                |definer: &&Definer| file.language.zip(definer.language).is_some_and(|(own, other)| own.is_kin(other));
            for definer in definers.iter().filter(is_kin) {
                visit(*definer, weight);
            }
        }
    }

    /// Distributes the rank of each file to the definitions that the file uses. Returns at most `limit` definitions,
    /// highest rank first.
    pub(super) fn definition_ranks(&self, ranks: &[f32], limit: usize) -> Vec<RankedDefinition> {
        let mut found = self.propagate(ranks);
        found.retain(|ranked| ranked.rank > 0.0);
        for ranked in &mut found {
            ranked.rank *= self.file_weight(ranked.file);
        }
        let path_of = |ranked: &RankedDefinition| self.index.file(ranked.file).map(|file| &*file.path);
        let order = |a: &RankedDefinition, b: &RankedDefinition| {
            b.rank.total_cmp(&a.rank).then_with(|| (path_of(a), a.definition).cmp(&(path_of(b), b.definition)))
        };
        if found.len() > limit && limit > 0 {
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_unstable_by(order);
        found
    }

    fn propagate(&self, ranks: &[f32]) -> Vec<RankedDefinition> {
        let mut found = vec![Vec::new(); self.index.slots()];
        for (slot, file) in self.index.live_files() {
            if let Some(found) = found.get_mut(slot as usize) {
                *found = vec![0.0; file.definitions.len()];
            }
        }
        let mut trust = vec![0.0_f32; self.index.slots()];
        for (slot, file) in self.index.live_files() {
            let of = |numbers: &[f32]| numbers.get(slot as usize).copied().unwrap_or_default();
            let (rank, total) = (of(ranks), of(&self.totals));
            for edge in self.edges.get(slot as usize).into_iter().flatten() {
                if let Some(slot_trust) = trust.get_mut(edge.to as usize) {
                    *slot_trust = edge.trust;
                }
            }
            self.uses(slot, file, &mut |definer, weight| {
                let trust = trust.get(definer.file as usize).copied().unwrap_or_default();
                let ranks = found.get_mut(definer.file as usize);
                if let Some(total_rank) = ranks.and_then(|ranks| ranks.get_mut(definer.definition as usize)) {
                    *total_rank += rank * weight * trust / total;
                }
            });
        }
        let ranked = |(file, ranks): (u32, Vec<f32>)| {
            (0..).zip(ranks).map(move |(definition, rank)| RankedDefinition { file, definition, rank })
        };
        (0..).zip(found).flat_map(ranked).collect()
    }

    /// Returns the weight of a slot's file by file kind, or 0 for a free slot.
    pub(super) fn file_weight(&self, slot: u32) -> f32 {
        self.index.file(slot).map_or(0.0, |file| file.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_packages_or_first_meaningful_folders() {
        for (path, expected) in [
            ("crates/engine/src/session/load.rs", "crates/engine"),
            ("agentd/src/boot.rs", "agentd"),
            ("agentd/src/rpc/turns.rs", "agentd"),
            ("src/main/java/org/shop/Cart.java", "org/shop"),
            ("django/db/models/base.py", "django/db"),
            ("src/net/http/client.go", "net/http"),
            ("main.py", ""),
        ] {
            assert_eq!(group_of(path), expected, "{path}");
        }
    }
}
