//! Which tools a turn shows. All of it is pure.
//!
//! - [`Stock`]: every tool that there is, those of the chain's links included; made anew only where the toolbox hands out
//!   another catalogue.
//! - [`Reach`]: what a turn may use at the most, whatever is mentioned: by its agent, its depth, its model.
//! - `visible`: from these and from what is mentioned to what is shown, and why.
//! - `told`: what was shown last, shared by the turns that show the same.

mod reach;
mod told;
mod visible;

use std::{collections::BTreeSet, sync::Arc};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    tool::{Effect, ToolSpec},
};

pub(crate) use self::reach::{AgentReach, Reach};
use self::{told::Told, visible::Standing};
use crate::{acting::Acting, chain::Chain, prompt::ToolSet};

/// The tools that people or agents mention, by the names that calls use.
pub(crate) type Mentioned = BTreeSet<String>;

/// Every tool that there is.
#[derive(Debug)]
pub(crate) struct Stock {
    /// What it was made from, to know whether it still holds.
    source: Arc<Catalogue>,
    /// Sorted by name. Of those with one name the first is the one that calls mean.
    tools: Vec<CatalogueTool>,
    /// What a turn shows that mentions nothing and may use everything.
    plain: ToolSet,
    /// What turns were shown last.
    told: Told,
}

impl Stock {
    /// The tools of the catalogue, and those that links answer.
    pub(crate) fn new(source: Arc<Catalogue>, chain: &Chain) -> Self {
        let mut tools: Vec<CatalogueTool> = chain.tools().into_iter().map(|own| labelled(own, &source)).collect();
        tools.extend(source.tools.iter().cloned());
        // Links answer before the toolbox is asked, and what is built in before what others bring: nobody takes a call by
        // choosing the name of another's tool.
        tools.sort_by(|a, b| (&a.spec.name, rank(&a.origin)).cmp(&(&b.spec.name, rank(&b.origin))));
        let plain = visible::set(&tools, &Mentioned::new(), &Reach::default());
        Self { source, tools, plain, told: Told::default() }
    }

    /// Whether it was made from this catalogue.
    pub(crate) fn is_of(&self, catalogue: &Arc<Catalogue>) -> bool {
        Arc::ptr_eq(&self.source, catalogue)
    }

    /// What a turn shows its model: what it may use, with the tools by which whoever works in it hands work on.
    pub(crate) fn told(&self, mentioned: &Mentioned, reach: &Reach, acting: &Acting) -> ToolSet {
        self.told.of(mentioned, reach, acting, || acting.tools(self.shown(mentioned, reach)))
    }

    /// What a turn may use.
    fn shown(&self, mentioned: &Mentioned, reach: &Reach) -> ToolSet {
        if mentioned.is_empty() && *reach == Reach::default() {
            return self.plain.clone();
        }
        visible::set(&self.tools, mentioned, reach)
    }

    /// Every tool, and why a turn shows it or not.
    pub(crate) fn standings(&self, mentioned: &Mentioned, reach: &Reach) -> Vec<ToolStanding> {
        let told = |(tool, standing): (&CatalogueTool, Standing)| ToolStanding {
            tool: tool.clone(),
            visible: standing.is_shown(),
            why: standing.to_string(),
        };
        visible::judged(&self.tools, mentioned, reach).map(told).collect()
    }

    /// The tool of that name that calls mean, whether a turn shows it or not.
    pub(crate) fn get(&self, name: &str) -> Option<&CatalogueTool> {
        let first = self.tools.partition_point(|tool| tool.spec.name.as_str() < name);
        self.tools.get(first).filter(|tool| tool.spec.name == name)
    }

    /// The names of all tools, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec.name.as_str())
    }

    /// Why a turn does not show a tool, in a sentence; none where it does, or there is no such tool.
    pub(crate) fn why_not(&self, name: &str, mentioned: &Mentioned, reach: &Reach) -> Option<String> {
        let found = visible::judged(&self.tools, mentioned, reach).find(|(tool, _)| tool.spec.name == name);
        found.map(|(_, standing)| standing).filter(|standing| !standing.is_shown()).map(|standing| standing.to_string())
    }

    /// What models are told of all tools that calls can mean, sorted by name.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = self.tools.iter().map(|tool| tool.spec.clone()).collect();
        specs.dedup_by(|later, first| later.name == first.name);
        specs
    }
}

/// Which of two with one name stands before the other.
fn rank(origin: &ToolOrigin) -> u8 {
    match origin {
        ToolOrigin::Conversation => 0,
        ToolOrigin::BuiltIn => 1,
        ToolOrigin::Mcp { .. } => 2,
    }
}

/// A link's tool. It belongs to every session, unless its link lets people decide.
fn labelled((spec, may_be_hidden): (ToolSpec, bool), catalogue: &Catalogue) -> CatalogueTool {
    let told = catalogue.labels.get(&spec.name).cloned().unwrap_or_default();
    // An agent that names its tools changes no files without naming what does.
    let always_available = spec.effect != Effect::Write || told.always_available;
    let label = if may_be_hidden { told } else { ToolLabel { tier: ToolTier::Core, always_available, ..told } };
    CatalogueTool { spec, origin: ToolOrigin::Conversation, label, stands_for: None }
}
