//! Agents that a session's project brings along, beside the configured ones. Pure.

use std::sync::Arc;

use agentd_core::{
    agent::{AgentCard, Agents},
    event::EventKind,
    ports::ProjectStanding,
    project::ProjectTrust,
};

use crate::agents::delegate_tool;

/// The code of the warning about a project that is not as it was trusted.
const CHANGED: &str = "project_changed";

/// Agents of a session's project.
#[derive(Debug, Default)]
pub(crate) struct ProjectAgents {
    standing: ProjectStanding,
    /// Configured agents, and those together with the project's: the same value as long as neither has changed.
    merged: Option<(Arc<Agents>, Arc<Agents>)>,
    /// A word to people, which the next turn tells.
    pub(crate) warning: Option<EventKind>,
}

impl ProjectAgents {
    /// All agents, where these are configured.
    pub(crate) fn and(&self, configured: &Arc<Agents>) -> Arc<Agents> {
        match (&self.merged, &self.standing.agents) {
            (_, None) => Arc::clone(configured),
            (Some((known, merged)), Some(_)) if Arc::ptr_eq(known, configured) => Arc::clone(merged),
            (_, Some(agents)) => merged(configured, agents),
        }
    }

    /// Takes in how the project stands now.
    pub(crate) fn follow(&mut self, standing: ProjectStanding, configured: &Arc<Agents>) {
        let was = std::mem::replace(&mut self.standing.trust, standing.trust);
        if was == ProjectTrust::Trusted && standing.trust != ProjectTrust::Trusted {
            self.warning = Some(lost(standing.trust));
        }
        let is_same = match (&self.standing.agents, &standing.agents) {
            (Some(known), Some(now)) => Arc::ptr_eq(known, now),
            (None, None) => true,
            _ => false,
        };
        let is_known = self.merged.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, configured));
        if !is_same || !is_known {
            let all = standing.agents.as_ref().map(|agents| merged(configured, agents));
            self.merged = all.map(|all| (Arc::clone(configured), all));
            self.standing.agents = standing.agents;
        }
    }
}

/// The project's agents beside the configured ones, of which they replace none. Names of tools are ours.
fn merged(configured: &Agents, of_project: &Agents) -> Arc<Agents> {
    let ours = |card: &AgentCard| {
        let mut card = card.clone();
        for name in card.tools.iter_mut().flatten() {
            *name = delegate_tool::canonical_name(name).to_owned();
        }
        card
    };
    Arc::new(configured.and(&Agents::new(of_project.iter().map(ours))))
}

fn lost(trust: ProjectTrust) -> EventKind {
    let why = match trust {
        ProjectTrust::Changed => "`.agentd/` of the project has changed since you trusted it",
        ProjectTrust::Empty => "`.agentd/` of the project, which you trusted, is gone",
        ProjectTrust::Untrusted | ProjectTrust::Trusted => "`.agentd/` of the project is trusted no longer",
    };
    let message = format!("{why}: nothing of it is used; `agentctl project show` tells more");
    EventKind::Warning { code: CHANGED.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(id: &str, prompt: &str) -> Arc<Agents> {
        Arc::new(Agents::new([AgentCard { prompt: prompt.to_owned(), ..AgentCard::new(id) }]))
    }

    fn standing(trust: ProjectTrust, agents: Option<&Arc<Agents>>) -> ProjectStanding {
        ProjectStanding { trust, agents: agents.cloned() }
    }

    #[test]
    fn a_projects_agent_replaces_no_configured_one_and_all_stay_the_same_value() {
        let configured = agents("poet", "configured");
        let of_project = Arc::new(agents("poet", "theirs").and(&agents("cook", "theirs")));
        let mut project = ProjectAgents::default();
        assert!(Arc::ptr_eq(&project.and(&configured), &configured));
        project.follow(standing(ProjectTrust::Trusted, Some(&of_project)), &configured);
        let all = project.and(&configured);
        let prompts: Vec<_> = all.iter().map(|card| (card.id.as_str(), card.prompt.as_str())).collect();
        assert_eq!(prompts, [("cook", "theirs"), ("poet", "configured")]);
        project.follow(standing(ProjectTrust::Trusted, Some(&of_project)), &configured);
        assert!(Arc::ptr_eq(&project.and(&configured), &all));
        let other = agents("clerk", "configured");
        assert_eq!(project.and(&other).iter().count(), 3, "a reload counts at once");
    }

    #[test]
    fn lost_trust_is_told_once_and_takes_the_agents_along() {
        let configured = agents("poet", "configured");
        let of_project = agents("cook", "theirs");
        let mut project = ProjectAgents::default();
        project.follow(standing(ProjectTrust::Changed, None), &configured);
        assert_eq!(project.warning, None, "what never was is not lost");
        project.follow(standing(ProjectTrust::Trusted, Some(&of_project)), &configured);
        project.follow(standing(ProjectTrust::Changed, None), &configured);
        let Some(EventKind::Warning { code, message }) = project.warning.take() else { panic!() };
        assert!(code == CHANGED && message.contains("has changed since you trusted it"), "{message}");
        assert!(Arc::ptr_eq(&project.and(&configured), &configured));
        project.follow(standing(ProjectTrust::Changed, None), &configured);
        assert_eq!(project.warning, None);
    }
}
