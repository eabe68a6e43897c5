//! The tools that a turn shows its model. The turn adds to them what its model finds, and changes nothing else.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::{
    catalogue::{CatalogueTool, Foreign},
    tool::ToolSpec,
};

use super::{footprint::Fingerprint, tokens};

/// The visible tools, and what they take of a request. They are sorted by name, but for those that were found: these stand
/// behind all others, in the order in which they were found, so that a request repeats the one before it.
#[derive(Debug, Clone)]
pub struct ToolSet {
    /// Tools in the order in which they are shown.
    pub specs: Arc<[ToolSpec]>,
    /// Fingerprint of all of them.
    pub print: Fingerprint,
    /// Number of them that are sorted.
    sorted: usize,
    /// Properties of foreign tools, by the names of these.
    others: Arc<BTreeMap<String, OfOther>>,
}

/// Properties of a foreign tool.
#[derive(Debug, Clone, Default)]
struct OfOther {
    /// Meaning of its name, if that can change.
    stands_for: Option<Arc<str>>,
    foreign: Option<Arc<Foreign>>,
}

impl ToolSet {
    /// Sorts these tools by name.
    pub fn new(mut specs: Vec<ToolSpec>) -> Self {
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let print = specs.iter().map(print).fold(Fingerprint::default(), Fingerprint::and);
        Self { sorted: specs.len(), specs: specs.into(), print, others: Arc::default() }
    }

    /// The set of these tools.
    pub fn of(tools: &[&CatalogueTool]) -> Self {
        let others = tools.iter().filter_map(|tool| of_other(tool)).collect();
        let set = Self::new(tools.iter().map(|tool| tool.spec.clone()).collect());
        Self { others: Arc::new(others), ..set }
    }

    /// The same with what was found behind it.
    pub fn with_found(&self, found: &[&CatalogueTool]) -> Self {
        if found.is_empty() {
            return self.clone();
        }
        let added = found.iter().map(|tool| &tool.spec);
        let print = added.clone().map(print).fold(self.print, Fingerprint::and);
        let mut others = (*self.others).clone();
        others.extend(found.iter().filter_map(|tool| of_other(tool)));
        let specs = self.specs.iter().chain(added).cloned().collect();
        Self { specs, print, others: Arc::new(others), ..*self }
    }

    /// The same, where names stand for what they do in the other set.
    pub fn standing_as_in(self, other: &Self) -> Self {
        Self { others: Arc::clone(&other.others), ..self }
    }

    /// Meaning of a name, if that can change.
    pub fn stands_for(&self, name: &str) -> Option<&Arc<str>> {
        self.others.get(name)?.stands_for.as_ref()
    }

    /// Whose the tool of that name is, where it is somebody else's.
    pub fn foreign(&self, name: &str) -> Option<&Arc<Foreign>> {
        self.others.get(name)?.foreign.as_ref()
    }

    /// No tools: for a model that calls some where it must not.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        let (sorted, found) = self.specs.split_at(self.sorted);
        match sorted.binary_search_by(|tool| tool.name.as_str().cmp(name)) {
            Ok(index) => Some(&sorted[index]),
            Err(_) => found.iter().find(|tool| tool.name == name),
        }
    }
}

fn of_other(tool: &CatalogueTool) -> Option<(String, OfOther)> {
    let (stands_for, foreign) = (tool.stands_for.clone(), tool.foreign.clone());
    let is_known = stands_for.is_some() || foreign.is_some();
    is_known.then(|| (tool.spec.name.clone(), OfOther { stands_for, foreign }))
}

/// Fingerprint of one tool.
pub fn print(tool: &ToolSpec) -> Fingerprint {
    let schema = tool.parameters.to_string();
    let texts = [tool.name.as_str(), &tool.description, &schema];
    Fingerprint::of(&texts, texts.iter().map(|text| tokens::estimate(text)).sum())
}
