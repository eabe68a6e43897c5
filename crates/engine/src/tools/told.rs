//! What turns were shown last. The tools are the most of what a short turn holds, and the same for nearly all of them: turns
//! that show the same share it, and adapters of models that know it again need not write it anew.

use tokio::sync::watch;

use super::{Mentioned, Reach};
use crate::{acting::Acting, prompt::ToolSet};

/// The sets that are kept: of the main agent and its subagents, and of a few that turns mention.
const KEPT: usize = 8;

/// What turns were shown last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct Told(watch::Sender<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    mentioned: Mentioned,
    reach: Reach,
    /// Held with its agents, so that no others can stand at their place in memory.
    acting: Acting,
    tools: ToolSet,
}

impl Told {
    /// What was shown to the same, or what is made for it now.
    pub(super) fn of(
        &self,
        mentioned: &Mentioned,
        reach: &Reach,
        acting: &Acting,
        make: impl FnOnce() -> ToolSet,
    ) -> ToolSet {
        let mut tools = None;
        self.0.send_modify(|kept| {
            let known = kept.iter().position(|entry| entry.is_for(mentioned, reach, acting));
            let entry = known.map(|index| kept.remove(index));
            tools = entry.as_ref().map(|entry| entry.tools.clone());
            kept.extend(entry);
        });
        tools.unwrap_or_else(|| {
            let tools = make();
            let (mentioned, reach, acting) = (mentioned.clone(), reach.clone(), acting.clone());
            self.0.send_modify(|kept| {
                if kept.len() == KEPT {
                    kept.remove(0);
                }
                kept.push(Entry { mentioned, reach, acting, tools: tools.clone() });
            });
            tools
        })
    }
}

impl Entry {
    fn is_for(&self, mentioned: &Mentioned, reach: &Reach, acting: &Acting) -> bool {
        self.mentioned == *mentioned && self.reach == *reach && self.acting.is_shown_as(acting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentd_core::{
        agent::{AgentCard, Agents, Parent},
        ids::SessionId,
        session::SessionSettings,
    };

    use super::*;

    fn agents(id: &str) -> Arc<Agents> {
        Arc::new(Agents::new([AgentCard::new(id)]))
    }

    fn main_among(agents: &Arc<Agents>) -> Acting {
        Acting::of(&SessionSettings::default(), &[], agents)
    }

    fn child_among(agents: &Arc<Agents>, agent: Option<&str>) -> Acting {
        let parent = Parent { session: SessionId::generate(), agent: agent.map(str::to_owned) };
        Acting::of(&SessionSettings { parent: Some(parent), ..SessionSettings::default() }, &[], agents)
    }

    /// The tools for this, as `Told` finds or makes them.
    fn told(told: &Told, mentioned: &Mentioned, reach: &Reach, acting: &Acting) -> ToolSet {
        told.of(mentioned, reach, acting, || acting.tools(ToolSet::none()))
    }

    fn is_shared(one: &ToolSet, other: &ToolSet) -> bool {
        Arc::ptr_eq(&one.specs, &other.specs)
    }

    #[test]
    fn turns_that_show_the_same_share_it() {
        let (kept, poet, any) = (Told::default(), agents("poet"), Reach::default());
        let none = Mentioned::new();
        let first = told(&kept, &none, &any, &main_among(&poet));
        let child = told(&kept, &none, &any, &child_among(&poet, None));
        assert_eq!((first.specs.len(), child.specs.len()), (1, 0));
        assert!(is_shared(&first, &told(&kept, &none, &any, &main_among(&poet))));
        assert!(is_shared(&child, &told(&kept, &none, &any, &child_among(&poet, None))));
    }

    #[test]
    fn nobody_is_shown_what_is_meant_for_others() {
        let (kept, poet, any) = (Told::default(), agents("poet"), Reach::default());
        let none = Mentioned::new();
        let first = told(&kept, &none, &any, &main_among(&poet));
        let others = [
            told(&kept, &Mentioned::from(["grep".to_owned()]), &any, &main_among(&poet)),
            told(&kept, &none, &Reach { sees: true, ..any.clone() }, &main_among(&poet)),
            // A configuration that was read again.
            told(&kept, &none, &any, &main_among(&agents("critic"))),
            told(&kept, &none, &any, &Acting::of(&SessionSettings::default(), &["poet".to_owned()], &poet)),
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
        let (kept, poet, any) = (Told::default(), agents("poet"), Reach::default());
        let tools = |name: usize| told(&kept, &Mentioned::from([name.to_string()]), &any, &main_among(&poet));
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
