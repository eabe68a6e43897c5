//! Graph of files: an edge leads from a file that uses a name to each that defines it.

use crate::{
    index::{CodeIndex, IndexedFile, count},
    language::Language,
    tags::SymbolKind,
};

/// A name with more definitions than this is no sign of anything: `new`, `main`, `fmt`.
const MAX_DEFINERS: usize = 10;
/// From so many definitions on a name counts little.
const MANY_DEFINERS: usize = 5;
/// Letters from which on a name of several words is telling.
const TELLING: usize = 8;
/// Factor on the uses of a file of which neither a type nor the file's own name is used: most of them are methods of the
/// standard library that somebody named a method after.
const DOUBTFUL: f32 = 0.05;
/// Factor where several names of a file are used: not all of them can be chance.
const PROBABLE: f32 = 0.5;
/// Weight that each file keeps to itself, so that one with few and doubtful uses does not pass all its rank along those.
const KEPT: f32 = 10.0;
/// So many are several.
const SEVERAL: u32 = 3;

/// Definition of a name, for the graph.
#[derive(Debug, Clone, Copy)]
struct Definer {
    file: u32,
    /// Index in the definitions of the file.
    definition: u32,
    language: Option<Language>,
    is_type: bool,
}

/// Definitions that other files can use, by the numbers of their names.
fn definers(index: &CodeIndex) -> Vec<Vec<Definer>> {
    let mut definers = vec![Vec::new(); index.names().len()];
    each_definition(index, &mut |name, definer| {
        if let Some(definers) = definers.get_mut(name as usize) {
            definers.push(definer);
        }
    });
    definers
}

/// Calls back with each definition that another file can use. Blocks have the names of their types, and define nothing;
/// what is inside of a function is its own.
fn each_definition(index: &CodeIndex, tell: &mut dyn FnMut(u32, Definer)) {
    for (slot, file) in index.live_files() {
        let mut function_end = 0;
        for (at, definition) in (0..).zip(&file.definitions) {
            let is_function = matches!(definition.kind, SymbolKind::Function | SymbolKind::Method);
            let is_local = definition.depth > 0 && definition.last_line <= function_end;
            if is_function {
                function_end = function_end.max(definition.last_line);
            }
            if is_local || definition.kind == SymbolKind::Impl {
                continue;
            }
            let (language, is_type) = (file.language, definition.kind.is_type());
            tell(definition.name, Definer { file: slot, definition: at, language, is_type });
        }
    }
}

/// Weight of a use of a name with so many definitions.
fn name_weight(index: &CodeIndex, name: u32, definers: usize) -> f32 {
    if definers == 0 || definers > MAX_DEFINERS {
        return 0.0;
    }
    let mut weight = 1.0;
    let text = index.names().text(name);
    let has = |is_of: fn(&u8) -> bool| text.as_bytes().iter().any(is_of);
    let is_camel = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    if text.len() >= TELLING && (is_camel || text.trim_matches('_').contains('_')) {
        weight *= 10.0;
    }
    if text.starts_with('_') {
        weight *= 0.1;
    }
    if definers > MANY_DEFINERS {
        weight *= 0.1;
    }
    // Each definition gets its share, since a use means one of them.
    weight / definers as f32
}

/// Definition with its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedDefinition {
    pub(super) file: u32,
    pub(super) definition: u32,
    pub(super) rank: f32,
}

/// Edge of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Slot of the file that defines.
    pub(super) to: u32,
    /// Weight of all uses together.
    pub(super) weight: f32,
    /// Factor on each use, by how sure it is that the file is meant.
    trust: f32,
}

/// Graph of files with weighted edges.
pub(super) struct Graph<'index> {
    index: &'index CodeIndex,
    definers: Vec<Vec<Definer>>,
    /// Edges of each slot.
    pub(super) edges: Vec<Vec<Edge>>,
    /// Weight of each slot that its rank is shared by: that of its edges, and what it keeps.
    pub(super) totals: Vec<f32>,
}

/// Uses of one file's definitions by another.
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
                    _ if evidence.names >= SEVERAL => PROBABLE,
                    _ => DOUBTFUL,
                };
                Some(Edge { to, weight: evidence.weight * trust, trust })
            };
            let edges: Vec<Edge> = touched.drain(..).filter_map(edge).collect();
            if let (Some(own), Some(total)) = (self.edges.get_mut(slot as usize), self.totals.get_mut(slot as usize)) {
                *total = KEPT + edges.iter().map(|edge| edge.weight).sum::<f32>();
                *own = edges;
            }
        }
    }

    /// Number of the name of a file, by which others import it.
    fn stem(&self, slot: u32) -> Option<u32> {
        let path = &self.index.file(slot)?.path;
        let name = path.rsplit('/').next()?;
        self.index.names().get(name.split_once('.').map_or(name, |(stem, _)| stem))
    }

    /// Calls back with each definition in another file of what a file uses, and the weight of the use.
    fn uses(&self, slot: u32, file: &IndexedFile, tell: &mut impl FnMut(Definer, f32)) {
        for (name, count) in &file.uses {
            let Some(definers) = self.definers.get(*name as usize) else { continue };
            let weight = name_weight(self.index, *name, definers.len()) * f32::from(*count).sqrt();
            // A file that defines what it uses means its own.
            if weight <= 0.0 || definers.iter().any(|definer| definer.file == slot) {
                continue;
            }
            let is_kin = |definer: &&Definer| match (file.language, definer.language) {
                (Some(own), Some(other)) => own.is_kin(other),
                _ => false,
            };
            for definer in definers.iter().filter(is_kin) {
                tell(*definer, weight);
            }
        }
    }

    /// Passes the rank of each file on to the definitions that it uses; the highest first, and not more than `most`.
    pub(super) fn definition_ranks(&self, ranks: &[f32], most: usize) -> Vec<RankedDefinition> {
        let mut found = self.pass_on(ranks);
        found.retain(|ranked| ranked.rank > 0.0);
        for ranked in &mut found {
            ranked.rank *= self.file_weight(ranked.file);
        }
        let place = |ranked: &RankedDefinition| self.index.file(ranked.file).map(|file| &*file.path);
        let order = |a: &RankedDefinition, b: &RankedDefinition| {
            b.rank.total_cmp(&a.rank).then_with(|| (place(a), a.definition).cmp(&(place(b), b.definition)))
        };
        if found.len() > most && most > 0 {
            found.select_nth_unstable_by(most - 1, order);
        }
        found.truncate(most);
        found.sort_unstable_by(order);
        found
    }

    fn pass_on(&self, ranks: &[f32]) -> Vec<RankedDefinition> {
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
                if let Some(place) = trust.get_mut(edge.to as usize) {
                    *place = edge.trust;
                }
            }
            self.uses(slot, file, &mut |definer, weight| {
                let trust = trust.get(definer.file as usize).copied().unwrap_or_default();
                let ranks = found.get_mut(definer.file as usize);
                if let Some(place) = ranks.and_then(|ranks| ranks.get_mut(definer.definition as usize)) {
                    *place += rank * weight * trust / total;
                }
            });
        }
        let ranked = |(file, ranks): (u32, Vec<f32>)| {
            (0..).zip(ranks).map(move |(definition, rank)| RankedDefinition { file, definition, rank })
        };
        (0..).zip(found).flat_map(ranked).collect()
    }

    /// Weight of the file of a slot by its kind; 0 for a free slot.
    pub(super) fn file_weight(&self, slot: u32) -> f32 {
        self.index.file(slot).map_or(0.0, |file| file.weight)
    }
}
