//! The tools that a turn shows its model. The turn adds to them what its model finds, and changes nothing else.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::{
    catalogue::{CatalogueTool, Foreign},
    tool::ToolSpec,
};

use super::{brief, footprint::Fingerprint, tokens};

/// The visible tools, and what they take of a request. They are sorted by name, but for those that were mentioned or found:
/// these stand behind all others, in the order in which they came, so that a request repeats the one before it.
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

    /// The same with these behind it, in this order.
    pub fn followed_by(&self, added: &[&CatalogueTool]) -> Self {
        let mut others = (*self.others).clone();
        others.extend(added.iter().filter_map(|tool| of_other(tool)));
        Self { others: Arc::new(others), ..self.with_specs(added.iter().map(|tool| tool.spec.clone()).collect()) }
    }

    /// The same with these behind it, of which nothing else is known.
    fn with_specs(&self, added: Vec<ToolSpec>) -> Self {
        let print = added.iter().map(print).fold(self.print, Fingerprint::and);
        let specs = self.specs.iter().cloned().chain(added).collect();
        Self { specs, print, others: Arc::clone(&self.others), ..*self }
    }

    /// Those of these tools that `keep` returns, changed as it says, and `more` among those that are sorted.
    pub fn rewritten(&self, keep: impl Fn(&ToolSpec) -> Option<ToolSpec>, more: Vec<ToolSpec>) -> Self {
        let (sorted, added) = self.specs.split_at(self.sorted);
        let set = Self::new(sorted.iter().filter_map(&keep).chain(more).collect());
        Self { others: Arc::clone(&self.others), ..set.with_specs(added.iter().filter_map(&keep).collect()) }
    }

    /// The same in a few words. What was mentioned or found stays as it is: somebody wants just that.
    #[must_use]
    pub fn brief(&self) -> Self {
        let (sorted, added) = self.specs.split_at(self.sorted);
        let set = Self::new(sorted.iter().map(brief::brief).collect());
        Self { others: Arc::clone(&self.others), ..set.with_specs(added.to_vec()) }
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
        let (sorted, added) = self.specs.split_at(self.sorted);
        match sorted.binary_search_by(|tool| tool.name.as_str().cmp(name)) {
            Ok(index) => Some(&sorted[index]),
            Err(_) => added.iter().find(|tool| tool.name == name),
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
