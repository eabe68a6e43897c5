//! What turns were shown last. The tools are the most of what a short turn holds, and the same for nearly all of them: turns
//! that show the same share it, and adapters of models that know it again need not write it anew.

use std::sync::{Arc, Mutex, PoisonError};

use agentd_context::ToolSet;

use super::active::ActiveAgent;
use crate::catalog::{ToolCatalog, ToolScope};

/// The sets that are kept: of the main agent and its subagents, and of a few that turns mention.
const KEPT: usize = 8;

/// The sets of tools that turns were shown last, the latest at the end. A memo: its lock is held for no longer than a look.
#[derive(Debug, Default)]
pub(crate) struct ToolSetCache(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    stock: Arc<ToolCatalog>,
    loaded: Vec<String>,
    reach: ToolScope,
    /// Held with its agents, so that no others can stand at their place in memory.
    acting: ActiveAgent,
    tools: ToolSet,
}

impl ToolSetCache {
    /// The tools that an agent is shown of this stock: as they were shown to the same before, or made now.
    pub(crate) fn tools(
        &self,
        stock: &Arc<ToolCatalog>,
        loaded: &[String],
        reach: &ToolScope,
        acting: &ActiveAgent,
    ) -> ToolSet {
        self.get_or_make(stock, loaded, reach, acting, || toolset(stock, loaded, reach, acting))
    }

    fn get_or_make(
        &self,
        stock: &Arc<ToolCatalog>,
        loaded: &[String],
        reach: &ToolScope,
        acting: &ActiveAgent,
        make: impl FnOnce() -> ToolSet,
    ) -> ToolSet {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of an older stock nothing is shown again.
        kept.retain(|entry| Arc::ptr_eq(&entry.stock, stock));
        if let Some(index) = kept.iter().position(|entry| entry.is_for(loaded, reach, acting)) {
            let entry = kept.remove(index);
            let tools = entry.tools.clone();
            kept.push(entry);
            return tools;
        }
        let tools = make();
        if kept.len() == KEPT {
            kept.remove(0);
        }
        let (stock, loaded, reach, acting) = (Arc::clone(stock), loaded.to_vec(), reach.clone(), acting.clone());
        kept.push(Entry { stock, loaded, reach, acting, tools: tools.clone() });
        tools
    }
}

/// The tools that an agent is shown of this stock, made now.
pub(crate) fn toolset(stock: &ToolCatalog, loaded: &[String], reach: &ToolScope, acting: &ActiveAgent) -> ToolSet {
    let tools = acting.tools(stock.shown(loaded, reach), reach.only.as_ref());
    if reach.brief { tools.brief() } else { tools }
}

impl Entry {
    fn is_for(&self, loaded: &[String], reach: &ToolScope, acting: &ActiveAgent) -> bool {
        self.loaded == loaded && self.reach == *reach && self.acting.is_shown_as(acting)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        agent::{AgentCard, Agents, Parent},
        ids::SessionId,
        session::SessionSettings,
    };

    use super::*;

    fn agents(id: &str) -> Arc<Agents> {
        Arc::new(Agents::new([AgentCard::new(id)]))
    }

    fn main_among(agents: &Arc<Agents>) -> ActiveAgent {
        ActiveAgent::of(&SessionSettings::default(), &[], agents)
    }

    fn child_among(agents: &Arc<Agents>, agent: Option<&str>) -> ActiveAgent {
        let parent = Parent { session: SessionId::generate(), agent: agent.map(str::to_owned), tools: Vec::new() };
        ActiveAgent::of(&SessionSettings { parent: Some(parent), ..SessionSettings::default() }, &[], agents)
    }

    /// A cache, and the stock whose tools it keeps.
    struct Kept(ToolSetCache, Arc<ToolCatalog>);

    fn kept() -> Kept {
        Kept(ToolSetCache::default(), Arc::new(ToolCatalog::new(Arc::default(), Vec::new())))
    }

    fn told(kept: &Kept, loaded: &[String], reach: &ToolScope, acting: &ActiveAgent) -> ToolSet {
        kept.0.get_or_make(&kept.1, loaded, reach, acting, || acting.tools(ToolSet::none(), None))
    }

    fn is_shared(one: &ToolSet, other: &ToolSet) -> bool {
        Arc::ptr_eq(&one.specs, &other.specs)
    }

    #[test]
    fn turns_that_show_the_same_share_it() {
        let (kept, poet, any) = (kept(), agents("poet"), ToolScope::default());
        let none = Vec::new();
        let first = told(&kept, &none, &any, &main_among(&poet));
        let child = told(&kept, &none, &any, &child_among(&poet, None));
        assert_eq!((first.specs.len(), child.specs.len()), (1, 0));
        assert!(is_shared(&first, &told(&kept, &none, &any, &main_among(&poet))));
        assert!(is_shared(&child, &told(&kept, &none, &any, &child_among(&poet, None))));
        let newer = Kept(kept.0, self::kept().1);
        assert!(!is_shared(&first, &told(&newer, &none, &any, &main_among(&poet))), "of another stock");
    }

    #[test]
    fn nobody_is_shown_what_is_meant_for_others() {
        let (kept, poet, any) = (kept(), agents("poet"), ToolScope::default());
        let none = Vec::new();
        let first = told(&kept, &none, &any, &main_among(&poet));
        let others = [
            told(&kept, &["grep".to_owned()], &any, &main_among(&poet)),
            told(&kept, &none, &ToolScope { sees: true, ..any.clone() }, &main_among(&poet)),
            // A configuration that was read again.
            told(&kept, &none, &any, &main_among(&agents("critic"))),
            told(&kept, &none, &any, &ActiveAgent::of(&SessionSettings::default(), &["poet".to_owned()], &poet)),
            told(&kept, &none, &any, &child_among(&poet, None)),
            told(&kept, &none, &any, &child_among(&poet, Some("poet"))),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(!is_shared(&first, other), "{index}");
            assert!(others[..index].iter().all(|earlier| !is_shared(earlier, other)), "{index}");
        }
    }

    #[test]
    fn few_are_kept() {
        let (kept, poet, any) = (kept(), agents("poet"), ToolScope::default());
        let tools = |name: usize| told(&kept, &[name.to_string()], &any, &main_among(&poet));
        let (first, second) = (tools(0), tools(1));
        for name in 2..KEPT {
            tools(name);
        }
        assert!(is_shared(&first, &tools(0)), "all of them fit");
        tools(KEPT);
        assert!(is_shared(&first, &tools(0)), "it was shown since");
        assert!(!is_shared(&second, &tools(1)), "it was the longest ago");
    }
}
