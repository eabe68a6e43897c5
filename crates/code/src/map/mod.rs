//! Map of a folder: the definitions that the rest of the code leans on, within a number of tokens.

mod graph;
mod rank;
mod render;
mod spread;

use agentd_core::code::MapFile;

use crate::{index::CodeIndex, symbols::ReadFile};

/// Draws the map: paths with the lines of their most important definitions, the most important file first.
pub(crate) fn map(index: &CodeIndex, max_tokens: usize, read: ReadFile<'_>) -> Vec<MapFile> {
    let graph = graph::Graph::new(index);
    let ranks = rank::page_rank(&graph);
    let definitions = spread::spread(index, graph.definition_ranks(&ranks, render::MAX_SHOWN));
    render::render(index, &definitions, max_tokens, read)
}
