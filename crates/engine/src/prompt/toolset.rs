//! The tools that a turn shows its model, frozen for the turn.

use std::sync::Arc;

use agentd_core::tool::ToolSpec;

use super::{footprint::Print, tokens};

/// The visible tools, sorted by name, and what they take of a request.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    pub(crate) specs: Arc<[ToolSpec]>,
    pub(crate) print: Print,
}

impl ToolSet {
    pub(crate) fn new(mut specs: Vec<ToolSpec>) -> Self {
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let print = specs.iter().map(print).fold(Print::default(), Print::and);
        Self { specs: specs.into(), print }
    }

    /// No tools: for a model that calls some where it must not.
    pub(crate) fn none() -> Self {
        Self::new(Vec::new())
    }

    /// The tool of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok().map(|index| &self.specs[index])
    }
}

/// What one tool takes of a request.
pub(crate) fn print(tool: &ToolSpec) -> Print {
    let schema = tool.parameters.to_string();
    let texts = [tool.name.as_str(), &tool.description, &schema];
    Print::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum())
}
