//! Plugins for clients: looked at, added and removed, with a reload behind it, so that their parts are there at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    guide::{SkillOrigin, SkillReport},
    interrupt::AnsweredBy,
    plugin::{PluginReport, PluginState},
    ports::{Audit as _, Skills as _},
    project::ProjectProblem,
};
use agentd_extensions::plugins::InstalledPlugin;
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    config::Config,
    control::{AuditWhen, DaemonControl},
    failure::{Failure, Refusal, blocking},
    rpc::PluginControl,
};

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

/// Message of a failed look at plugins.
const UNREADABLE: &str = "the plugins could not be looked at";

impl PluginControl for DaemonControl {
    fn known(&self) -> Vec<PluginReport> {
        self.recipe.plugins.installed().iter().map(|plugin| plugin.report.clone()).collect()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<PluginReport>, Refusal>> {
        async {
            let plugins = self.recipe.plugins.clone();
            let before = states(&plugins.installed());
            let installed = blocking(UNREADABLE, move || plugins.refresh()).await?;
            // What has changed meanwhile is used no longer.
            if states(&installed) != before
                && let Err(failure) = self.follow(AuditWhen::OnChange).await
            {
                tracing::warn!("a plugin has changed, and the configuration cannot be read: {failure}");
            }
            let skills = self.parts.skills.reports(None).await;
            Ok(installed.iter().map(|plugin| self.checked(plugin.report.clone(), &skills)).collect())
        }
        .boxed()
    }

    fn look(&self, folder: PathBuf) -> BoxFuture<'_, Result<PluginReport, Refusal>> {
        async {
            let plugins = self.recipe.plugins.clone();
            let report = blocking(UNREADABLE, move || plugins.look(&folder)).await??;
            Ok(self.checked(report, &self.parts.skills.reports(None).await))
        }
        .boxed()
    }

    fn add(
        &self,
        folder: PathBuf,
        hash: String,
        source: String,
        client: String,
    ) -> BoxFuture<'_, Result<PluginReport, Refusal>> {
        async move {
            // A configuration that cannot be read would leave the plugin there and unused.
            tokio::task::block_in_place(|| self.recipe.read()).map_err(|failure| {
                let message = format!("nothing was added: {}", failure.message_with_causes());
                Refusal::new(ErrorKind::Configuration, message).with_hint("mend the configuration first")
            })?;
            let plugins = self.recipe.plugins.clone();
            let (looking, looked_at) = (plugins.clone(), folder.clone());
            let known = blocking(UNREADABLE, move || looking.look(&looked_at)).await??;
            let source = if source.is_empty() { folder.display().to_string() } else { source };
            if known.hash == hash {
                let fact = AuditFact::PluginAdded {
                    plugin: known.name.clone(),
                    sha256: hash.clone(),
                    source: source.clone(),
                    by: client_of(&client),
                };
                // What is not in the audit log is not allowed.
                let recorded = self.parts.audit.record(AuditEntry::general(self.parts.clock.now(), fact)).await;
                recorded.map_err(|error| {
                    let message = format!("nothing was added, because the audit log cannot be written: {error}");
                    Refusal::new(ErrorKind::Storage, message).with_hint("agentctl doctor looks at the data folder")
                })?;
            }
            let report = blocking(UNREADABLE, move || plugins.add(&folder, &hash, &source, &client)).await??;
            self.follow(AuditWhen::OnChange).await.map_err(|failure| unread("added", &failure))?;
            Ok(self.checked(report, &self.parts.skills.reports(None).await))
        }
        .boxed()
    }

    fn remove(&self, name: String, client: String) -> BoxFuture<'_, Result<Option<PluginReport>, Refusal>> {
        async move {
            let plugins = self.recipe.plugins.clone();
            let Some(report) = blocking(UNREADABLE, move || plugins.remove(&name)).await?? else {
                return Ok(None);
            };
            let fact = AuditFact::PluginRemoved { plugin: report.name.clone(), by: client_of(&client) };
            // What is taken back must not wait for a log that cannot be written.
            self.parts.audit.note(AuditEntry::general(self.parts.clock.now(), fact)).await;
            self.follow(AuditWhen::OnChange).await.map_err(|failure| unread("removed", &failure))?;
            Ok(Some(report))
        }
        .boxed()
    }
}

impl DaemonControl {
    /// The report with what the configuration, and other skills, have to say about its parts.
    fn checked(&self, mut report: PluginReport, skills: &[SkillReport]) -> PluginReport {
        let config = self.config().clone();
        let mut clashes = Clashes { name: report.name.clone(), found: Vec::new() };
        for card in &report.agents {
            let owner = config.agents.get(&card.id).map(|_| config.agent_plugins.get(&card.id));
            clashes.look("agent", &card.id, owner, "agents.yaml");
        }
        for server in &report.servers {
            let owner = server_owner(&config, &server.name);
            clashes.look("server", &server.name, owner.as_ref().map(Option::as_ref), "mcp_servers.yaml");
        }
        for skill in &report.skills {
            let same = |known: &&SkillReport| known.usable && known.skill.name.eq_ignore_ascii_case(&skill.name);
            let Some(known) = skills.iter().find(same) else { continue };
            match known.skill.origin {
                SkillOrigin::Person => clashes.look("skill", &skill.name, Some(None), "your own skills"),
                SkillOrigin::Plugin => clashes.look("skill", &skill.name, Some(Some(&known.plugin)), ""),
                SkillOrigin::Bundled => {
                    let told = format!("the skill {} takes the place of the one that agentd has", skill.name);
                    clashes.note(told, false);
                }
                SkillOrigin::Project => {}
            }
        }
        let tools: BTreeSet<String> = self.parts.engine.tools().into_iter().map(|tool| tool.name).collect();
        for card in &report.agents {
            // Tools of servers are known when those were reached.
            let is_there = |name: &String| tools.contains(name) || name.starts_with("mcp_");
            for name in card.named_tools().filter(|name| !is_there(name)) {
                clashes.note(format!("the agent {} names the tool {name:?}, which is not there", card.id), false);
            }
        }
        report.problems.extend(clashes.found);
        report
    }
}

/// Names that others have already.
struct Clashes {
    /// The plugin.
    name: String,
    found: Vec<ProjectProblem>,
}

impl Clashes {
    /// Notes a name whose owner is not the plugin: another plugin, or a file of the person's where that is none.
    fn look(&mut self, what: &str, part: &str, owner: Option<Option<&String>>, file: &str) {
        let whose = match owner {
            None => return,
            Some(Some(plugin)) if *plugin == self.name => return,
            Some(Some(plugin)) => format!("the plugin {plugin}, which was added before,"),
            Some(None) => file.to_owned(),
        };
        self.note(format!("the {what} {part} is not used, because {whose} has one of this name"), true);
    }

    fn note(&mut self, message: String, is_fatal: bool) {
        self.found.push(ProjectProblem { file: String::new(), message, is_fatal });
    }
}

/// The plugin of a server, or none where it is the person's; absent where there is no such server.
fn server_owner(config: &Config, name: &str) -> Option<Option<String>> {
    let is_known = config.mcp.servers.contains_key(name) || config.mcp.broken.contains_key(name);
    is_known.then(|| config.server_plugins.get(name).cloned())
}

fn states(plugins: &[InstalledPlugin]) -> BTreeMap<String, PluginState> {
    plugins.iter().map(|plugin| (plugin.report.name.clone(), plugin.report.state)).collect()
}

fn client_of(name: &str) -> AnsweredBy {
    AnsweredBy::Client(name.chars().take(MAX_NAME).collect())
}

fn unread(what: &str, failure: &Failure) -> Refusal {
    let message =
        format!("the plugin was {what}, but the configuration cannot be read: {}", failure.message_with_causes());
    Refusal::new(ErrorKind::Configuration, message).with_hint("mend it, and run `agentctl reload`")
}
