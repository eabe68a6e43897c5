//! Operations on the running daemon for clients and signals: stop, and read its configuration again.
//!
//! Plugins for clients: looked at, added and removed, with a reload behind it, so that their parts are there at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_core::{
    audit::{AuditEntry, AuditFact, AuditLine},
    error::ErrorKind,
    guide::{SkillOrigin, SkillReport},
    ids::SessionId,
    interrupt::AnsweredBy,
    plugin::{PluginReport, PluginState},
    ports::{Audit as _, Skills as _},
    project::ProjectProblem,
};
use agentd_extensions::plugins::InstalledPlugin;
use agentd_proto::client::{ConfigOrigin, ReloadOutcome};
use tokio::sync::mpsc;

use crate::{
    audit,
    boot::{self, Parts},
    config::{self, Config, SandboxSettings, TraceSettings},
    environment::Environment,
    failure::{Failure, Refusal, blocking, with_causes},
    logging::LogHandle,
    paths::ConfigSource,
    sandbox,
};

/// The daemon as clients and signals control it.
pub struct DaemonControl {
    /// Source of the configuration.
    pub recipe: ConfigSource,
    /// The configuration that holds. Also lets one reload in at a time.
    pub config: Mutex<Config>,
    /// Everything that follows the configuration.
    pub parts: Arc<Parts>,
    /// The log, which follows its level and learns new secrets.
    pub log: LogHandle,
    /// Asks for the stop. Room for one: a stop that was asked for twice is one stop.
    pub stop: mpsc::Sender<Option<Duration>>,
}

impl DaemonControl {
    /// The configuration that holds.
    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again and follows it, or says what is wrong and changes nothing.
    ///
    /// # Errors
    /// The problem of the new configuration.
    pub fn reread(&self) -> Result<ReloadOutcome, Failure> {
        let mut current = self.config();
        let new = self.recipe.read()?;
        // The last step that can fail comes before the first that changes anything.
        let parts = &*self.parts;
        let models = parts.makers.make(&new)?;
        self.log.apply(&new.daemon.service.log_level, secrets(&new, &self.recipe.env));
        parts.models.replace(models);
        parts.skills.follow_settings(new.skills.clone());
        parts.engine.reconfigure(boot::engine_config(&new));
        parts.sandbox.set_network(sandbox::network(&new));
        parts.languages.reconfigure(new.languages.clone());
        parts.toolbox.follow_settings(&new.tools, boot::idle_now(&parts.languages));
        parts.mcp.reconfigure(new.mcp.clone());
        parts.exchanges.follow_settings(new.daemon.trace.requests);
        parts.retention.follow_settings(new.daemon.retention.clone());
        let notes = held_back(&current, &new);
        *current = new;
        Ok(ReloadOutcome { config_sources: sources(&current), notes })
    }

    /// Applies the current configuration, and reports the outcome to the operator; and to the audit log, if a person has asked for
    /// it, the rules have changed, or they cannot be used.
    ///
    /// # Errors
    /// As of [`Self::reread`].
    pub async fn follow(&self, is_asked_for: bool) -> Result<ReloadOutcome, Failure> {
        let before = self.config().rules.sha256.clone();
        let outcome = tokio::task::block_in_place(|| self.reread());
        let fact = match &outcome {
            Ok(_) => audit::rules_read(&self.config().rules),
            // The old ones stay in force.
            Err(failure) => {
                AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: Some(with_causes(failure)) }
            }
        };
        if is_asked_for || outcome.is_err() || self.config().rules.sha256 != before {
            self.parts.audit.note(AuditEntry::general(self.parts.clock.now(), fact)).await;
        }
        match &outcome {
            Ok(reloaded) => {
                tracing::info!(sources = ?reloaded.config_sources, "the configuration was read again");
                reloaded.notes.iter().for_each(|note| tracing::warn!("{note}"));
            }
            Err(failure) => tracing::error!("the configuration was not changed: {}", with_causes(failure)),
        }
        outcome
    }

    /// Begins to stop, and returns at once. Running turns may take `drain`, or the configured time, to end.
    pub(crate) fn stop(&self, drain: Option<Duration>) {
        // Full means that a stop is asked for already.
        let _ = self.stop.try_send(drain);
    }

    /// Reads the configuration again. A configuration with a mistake changes nothing.
    pub(crate) async fn reload(&self) -> Result<ReloadOutcome, Refusal> {
        self.follow(true).await.map_err(|failure| {
            let hint = failure.hint().unwrap_or("the running configuration stays in force").to_owned();
            Refusal::from(failure).with_hint(hint)
        })
    }

    /// Takes the values of variables that the client of a turn lends, for its session where that is known.
    pub(crate) fn lend(&self, session: Option<SessionId>, values: HashMap<String, String>) {
        self.log.redactor().learn_lent(self.parts.mcp.lend(session, values));
    }

    /// Shows every line of the audit log, oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn each_audited(&self, see: &mut dyn FnMut(AuditLine)) -> Result<(), Refusal> {
        agentd_audit::read::each(&self.recipe.paths.data, see).map_err(|error| {
            Refusal::new(ErrorKind::Storage, format!("could not read the audit log: {error}"))
                .with_hint("`agentctl audit verify` says what is wrong with it")
        })
    }

    /// The configuration that holds, weakest first: `built-in` and the paths of files.
    pub(crate) fn config_sources(&self) -> Vec<String> {
        sources(&self.config())
    }

    /// Its keys, with the origin and the value of each. No secret is among them.
    pub(crate) fn config_origins(&self) -> Vec<ConfigOrigin> {
        let config = self.config();
        let secrets: Vec<&str> = secrets(&config, &self.recipe.env).collect();
        let redactor = self.log.redactor();
        config.values.shown(&config.origins, &secrets, &|text| redactor.clean(text))
    }

    /// The variables that the configuration lets clients pass to tools, besides those that always may.
    pub(crate) fn passed_variables(&self) -> Vec<String> {
        self.config().daemon.environment.pass.clone()
    }

    /// All plugins, after a look at their files.
    pub(crate) async fn list_plugins(&self) -> Result<Vec<PluginReport>, Refusal> {
        let plugins = self.recipe.plugins.clone();
        let before = states(&plugins.installed());
        let installed = blocking(UNREADABLE, move || plugins.refresh()).await?;
        // What has changed meanwhile is used no longer.
        if states(&installed) != before
            && let Err(failure) = self.follow(false).await
        {
            tracing::warn!("a plugin has changed, and the configuration cannot be read: {failure}");
        }
        let skills = self.parts.skills.reports(None).await;
        Ok(installed.iter().map(|plugin| self.checked(plugin.report.clone(), &skills)).collect())
    }

    /// Describes a folder as a plugin. Nothing is added.
    pub(crate) async fn look_at_plugin(&self, folder: PathBuf) -> Result<PluginReport, Refusal> {
        let plugins = self.recipe.plugins.clone();
        let report = blocking(UNREADABLE, move || plugins.look(&folder)).await??;
        Ok(self.checked(report, &self.parts.skills.reports(None).await))
    }

    /// Adds the plugin in a folder, in a client's name, if it has this hash. Its parts can be used at once.
    pub(crate) async fn add_plugin(
        &self,
        folder: PathBuf,
        hash: String,
        source: String,
        client: String,
    ) -> Result<PluginReport, Refusal> {
        // A configuration that cannot be read would leave the plugin there and unused.
        tokio::task::block_in_place(|| self.recipe.read()).map_err(|failure| {
            let message = format!("nothing was added: {}", with_causes(&failure));
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
        self.follow(false).await.map_err(|failure| unread("added", &failure))?;
        Ok(self.checked(report, &self.parts.skills.reports(None).await))
    }

    /// Removes a plugin, in a client's name. None where there is none of that name.
    pub(crate) async fn remove_plugin(&self, name: String, client: String) -> Result<Option<PluginReport>, Refusal> {
        let plugins = self.recipe.plugins.clone();
        let Some(report) = blocking(UNREADABLE, move || plugins.remove(&name)).await?? else {
            return Ok(None);
        };
        let fact = AuditFact::PluginRemoved { plugin: report.name.clone(), by: client_of(&client) };
        // What is taken back must not wait for a log that cannot be written.
        self.parts.audit.note(AuditEntry::general(self.parts.clock.now(), fact)).await;
        self.follow(false).await.map_err(|failure| unread("removed", &failure))?;
        Ok(Some(report))
    }

    /// The report with what the configuration, and other skills, have to say about its parts.
    fn checked(&self, mut report: PluginReport, skills: &[SkillReport]) -> PluginReport {
        let config = self.config().clone();
        let mut clashes = Clashes { name: report.name.clone(), found: Vec::new() };
        for card in &report.agents {
            let owner = config.agents.get(&card.id).map(|_| config.agent_plugins.get(&card.id));
            clashes.look("agent", &card.id, owner, "agents.yaml");
        }
        for server in &report.servers {
            let is_known =
                config.mcp.servers.contains_key(&server.name) || config.mcp.broken.contains_key(&server.name);
            let owner = is_known.then(|| config.server_plugins.get(&server.name));
            clashes.look("server", &server.name, owner, "mcp_servers.yaml");
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

/// All that the log must not show.
pub fn secrets<'a>(config: &'a Config, env: &'a Environment) -> impl Iterator<Item = &'a str> {
    config.secrets().chain(env.secrets())
}

fn sources(config: &Config) -> Vec<String> {
    let files = config.files.iter().map(|path: &PathBuf| path.display().to_string());
    std::iter::once("built-in".to_owned()).chain(files).collect()
}

/// Changes in the files that take effect only with the next start.
fn held_back(old: &Config, new: &Config) -> Vec<String> {
    let mut notes: Vec<String> = new.mcp.broken.values().map(|why| why.replace('\n', "; ")).collect();
    notes.extend(config::layers::exposed(&new.files));
    let (before, after) = (&old.daemon, &new.daemon);
    let network = before.sandbox.network;
    let sizes = |trace: &TraceSettings| (trace.max_file_bytes, trace.max_files);
    let waiting = [
        (
            before.tools.command_timeout != after.tools.command_timeout,
            "tools.command_timeout has changed; commands follow at the next start",
        ),
        (old.web != new.web, "web.yaml has changed; the tools of the web follow at the next start"),
        (
            before.sandbox != SandboxSettings { network, ..after.sandbox.clone() },
            "the sandbox has changed; commands follow at the next start",
        ),
        (
            (&before.reading, &before.index) != (&after.reading, &after.index),
            "`reading` or `index` has changed; reading and the index follow at the next start",
        ),
        (
            sizes(&before.trace) != sizes(&after.trace),
            "the sizes in `trace` have changed; traces follow at the next start",
        ),
        (before.audit != after.audit, "audit.max_file_bytes has changed; the audit log follows at the next start"),
    ];
    notes.extend(waiting.into_iter().filter(|(has_changed, _)| *has_changed).map(|(_, note)| note.to_owned()));
    notes
}

/// Characters that are kept of a client's name.
const MAX_NAME: usize = 100;

/// Message of a failed look at plugins.
const UNREADABLE: &str = "the plugins could not be looked at";

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

fn states(plugins: &[InstalledPlugin]) -> BTreeMap<String, PluginState> {
    plugins.iter().map(|plugin| (plugin.report.name.clone(), plugin.report.state)).collect()
}

fn client_of(name: &str) -> AnsweredBy {
    AnsweredBy::Client(name.chars().take(MAX_NAME).collect())
}

fn unread(what: &str, failure: &Failure) -> Refusal {
    let message = format!("the plugin was {what}, but the configuration cannot be read: {}", with_causes(failure));
    Refusal::new(ErrorKind::Configuration, message).with_hint("mend it, and run `agentctl reload`")
}
