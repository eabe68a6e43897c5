//! Graph of files: an edge leads from a file that uses a name to each that defines it.

use std::collections::{HashMap, HashSet};

use hashbrown::DefaultHashBuilder;

use crate::{
    index::{CodeIndex, IndexedFile},
    tags::SymbolKind,
};

/// A name with more definitions than this is no sign of anything: `new`, `main`, `fmt`.
const MAX_DEFINERS: usize = 40;
/// From so many definitions on a name counts little.
const MANY_DEFINERS: usize = 5;
/// Letters from which on a name of several words is telling.
const TELLING: usize = 8;

/// Definition of a name, for the graph.
#[derive(Debug, Clone, Copy)]
struct Definer {
    file: u32,
    /// Index in the definitions of the file.
    definition: u32,
}

/// Definition with its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedDefinition {
    pub(super) file: u32,
    pub(super) definition: u32,
    pub(super) rank: f32,
}

/// Graph of files with weighted edges.
pub(super) struct Graph<'index> {
    index: &'index CodeIndex,
    focus: &'index HashSet<u32>,
    mentioned: &'index HashSet<u32>,
    definers: HashMap<u32, Vec<Definer>, DefaultHashBuilder>,
    /// Edges of each slot: the file that defines, and the sum of the weights.
    pub(super) edges: Vec<Vec<(u32, f32)>>,
    /// Sum of the weights of the edges of each slot.
    pub(super) totals: Vec<f32>,
}

impl<'index> Graph<'index> {
    pub(super) fn new(index: &'index CodeIndex, focus: &'index HashSet<u32>, mentioned: &'index HashSet<u32>) -> Self {
        let mut definers: HashMap<u32, Vec<Definer>, DefaultHashBuilder> = HashMap::default();
        for (slot, file) in index.live_files() {
            for (at, definition) in (0_u32..).zip(&file.definitions) {
                // Tests define what nobody else uses, and blocks have the names of their types.
                if definition.kind != SymbolKind::Impl {
                    definers.entry(definition.name).or_default().push(Definer { file: slot, definition: at });
                }
            }
        }
        definers.retain(|_, definers| definers.len() <= MAX_DEFINERS);
        let edges = vec![Vec::new(); index.slots()];
        let totals = vec![0.0; index.slots()];
        let mut graph = Self { index, focus, mentioned, definers, edges, totals };
        graph.connect();
        graph
    }

    fn connect(&mut self) {
        let mut sums = vec![0.0_f32; self.index.slots()];
        let mut touched = Vec::new();
        for (slot, file) in self.index.live_files() {
            self.uses(slot, file, &mut |definer, weight| {
                if let Some(sum) = sums.get_mut(definer.file as usize) {
                    if *sum == 0.0 {
                        touched.push(definer.file);
                    }
                    *sum += weight;
                }
            });
            let take = |to: u32| sums.get_mut(to as usize).map(|sum| (to, std::mem::take(sum)));
            let edges: Vec<(u32, f32)> = touched.drain(..).filter_map(take).collect();
            if let (Some(own), Some(total)) = (self.edges.get_mut(slot as usize), self.totals.get_mut(slot as usize)) {
                *total = edges.iter().map(|(_, weight)| weight).sum();
                *own = edges;
            }
        }
    }

    /// Calls back with each definition in another file of what a file uses, and the weight of the use.
    fn uses(&self, slot: u32, file: &IndexedFile, tell: &mut dyn FnMut(Definer, f32)) {
        let from_focus = if self.focus.contains(&slot) { 50.0 } else { 1.0 };
        for (name, count) in &file.uses {
            let Some(definers) = self.definers.get(name) else { continue };
            // A file that defines what it uses means its own.
            if definers.iter().any(|definer| definer.file == slot) {
                continue;
            }
            let weight = self.name_weight(*name, definers.len()) * from_focus * f32::from(*count).sqrt() * file.weight;
            for definer in definers {
                tell(*definer, weight / definers.len() as f32);
            }
        }
    }

    fn name_weight(&self, name: u32, definers: usize) -> f32 {
        let mut weight = if self.mentioned.contains(&name) { 10.0 } else { 1.0 };
        let text = self.index.names().text(name);
        let is_camel =
            text.bytes().any(|byte| byte.is_ascii_uppercase()) && text.bytes().any(|byte| byte.is_ascii_lowercase());
        if text.len() >= TELLING && (is_camel || text.trim_matches('_').contains('_')) {
            weight *= 10.0;
        }
        if text.starts_with('_') {
            weight *= 0.1;
        }
        if definers > MANY_DEFINERS {
            weight *= 0.1;
        }
        weight
    }

    /// Passes the rank of each file on to the definitions that it uses; the highest first.
    pub(super) fn definition_ranks(&self, ranks: &[f32]) -> Vec<RankedDefinition> {
        let mut found: HashMap<(u32, u32), f32, DefaultHashBuilder> = HashMap::default();
        for (slot, file) in self.index.live_files() {
            let rank = ranks.get(slot as usize).copied().unwrap_or_default();
            let total = self.totals.get(slot as usize).copied().unwrap_or_default();
            if total > 0.0 {
                self.uses(slot, file, &mut |definer, weight| {
                    *found.entry((definer.file, definer.definition)).or_default() += rank * weight / total;
                });
            }
        }
        let mut ranked: Vec<RankedDefinition> =
            found.into_iter().map(|((file, definition), rank)| RankedDefinition { file, definition, rank }).collect();
        for ranked in &mut ranked {
            ranked.rank *= self.index.file(ranked.file).map_or(0.0, |file| file.weight);
        }
        let place = |ranked: &RankedDefinition| self.index.file(ranked.file).map(|file| &*file.path);
        ranked.sort_unstable_by(|a, b| {
            b.rank.total_cmp(&a.rank).then_with(|| (place(a), a.definition).cmp(&(place(b), b.definition)))
        });
        ranked
    }

    /// Returns whether a slot has a file.
    pub(super) fn is_file(&self, slot: u32) -> bool {
        self.index.file(slot).is_some()
    }
}
