//! Map of a folder: the definitions that the rest of the code leans on, within a number of tokens.

mod graph;
mod rank;
mod render;
mod spread;

use std::collections::HashSet;

use agentd_core::code::{MapFile, MapFocus};

use crate::{index::CodeIndex, symbols::ReadFile};

/// Draws the map: paths with the lines of their most important definitions, the most important file first.
pub(crate) fn map(index: &CodeIndex, focus: &MapFocus, max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
    let files: HashSet<u32> = focus.files.iter().filter_map(|path| index.slot_of(path)).collect();
    let mut mentioned = HashSet::new();
    crate::terms::words(&focus.mentions, &mut |word| mentioned.extend(index.names().get(word)));
    let graph = graph::Graph::new(index, &files, &mentioned);
    let ranks = rank::page_rank(&graph, &files);
    let definitions = spread::spread(index, graph.definition_ranks(&ranks, render::MAX_SHOWN));
    render::render(index, &definitions, max_tokens, read)
}
