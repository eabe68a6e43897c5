//! The tools that a turn shows its model, frozen for the turn.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::tool::ToolSpec;

use super::{footprint::Print, tokens};

/// The visible tools, sorted by name, and what they take of a request.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    pub(crate) specs: Arc<[ToolSpec]>,
    pub(crate) print: Print,
    /// What names stand for that can come to stand for something else.
    stand_for: Arc<BTreeMap<String, Arc<str>>>,
}

impl ToolSet {
    pub(crate) fn new(mut specs: Vec<ToolSpec>) -> Self {
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let print = specs.iter().map(print).fold(Print::default(), Print::and);
        Self { specs: specs.into(), print, stand_for: Arc::default() }
    }

    /// The same, where these names stand for this.
    pub(crate) fn standing_for(self, stand_for: BTreeMap<String, Arc<str>>) -> Self {
        Self { stand_for: Arc::new(stand_for), ..self }
    }

    /// The same, where names stand for what they do in the other set.
    pub(crate) fn standing_as_in(self, other: &Self) -> Self {
        Self { stand_for: Arc::clone(&other.stand_for), ..self }
    }

    /// What a name stands for, if it can come to stand for something else.
    pub(crate) fn stands_for(&self, name: &str) -> Option<&Arc<str>> {
        self.stand_for.get(name)
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
