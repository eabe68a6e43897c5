//! Control of the running daemon by clients and signals: stop and reload, and inspecting, adding and removing plugins.
//!
//! Adding or removing a plugin triggers a reload, so that the change takes effect immediately.

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

/// Handle through which clients and signals control the daemon.
pub struct DaemonControl {
    /// Source of the configuration.
    pub source: ConfigSource,
    /// The configuration in force. The lock also serialises reloads.
    pub config: Mutex<Config>,
    /// All parts that depend on the configuration.
    pub parts: Arc<Parts>,
    /// The log. A reload updates its level and the secrets that it redacts.
    pub log: LogHandle,
    /// Channel for stop requests. Capacity 1: a second request changes nothing.
    pub stop: mpsc::Sender<Option<Duration>>,
}

impl DaemonControl {
    /// Returns the configuration in force.
    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the configuration again and applies it. On an error, nothing changes.
    ///
    /// # Errors
    /// Returns the error in the new configuration.
    pub fn reread(&self) -> Result<ReloadOutcome, Failure> {
        let mut current = self.config();
        let new = self.source.read()?;
        // All steps that can fail come before the first change.
        let parts = &*self.parts;
        let models = parts.model_maker.make(&new)?;
        self.log.apply(&new.daemon.service.log_level, secrets(&new, &self.source.env));
        self.log.redactor().follow(new.renewable_keys());
        parts.models.replace(models);
        parts.skills.follow_settings(new.skills.clone());
        parts.engine.reconfigure(boot::engine_config(&new));
        parts.sandbox.set_network(sandbox::network(&new));
        parts.languages.reconfigure(new.languages.clone());
        parts.toolbox.follow_settings(&new.tools, boot::tools_without_language_server(&parts.languages));
        parts.mcp.reconfigure(new.mcp.clone());
        parts.exchanges.follow_settings(new.daemon.trace.requests);
        parts.retention.follow_settings(new.daemon.retention.clone());
        let notes = reload_notes(&current, &new);
        *current = new;
        Ok(ReloadOutcome { config_sources: sources(&current), notes })
    }

    /// Reloads the configuration and logs the outcome. An entry is added to the audit log if a client requested the
    /// reload, if the rules changed, or if the configuration is invalid.
    ///
    /// # Errors
    /// Same as [`Self::reread`].
    pub async fn reload_and_log(&self, is_requested: bool) -> Result<ReloadOutcome, Failure> {
        let before = self.config().rules.sha256.clone();
        let outcome = tokio::task::block_in_place(|| self.reread());
        let fact = match &outcome {
            Ok(_) => audit::rules_read(&self.config().rules),
            // The old rules remain in force.
            Err(failure) => {
                AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: Some(with_causes(failure)) }
            }
        };
        if is_requested || outcome.is_err() || self.config().rules.sha256 != before {
            self.parts.audit.note(AuditEntry::general(self.parts.clock.now(), fact)).await;
        }
        match &outcome {
            Ok(reloaded) => {
                tracing::info!(sources = ?reloaded.config_sources, "reloaded the configuration");
                reloaded.notes.iter().for_each(|note| tracing::warn!("{note}"));
            }
            Err(failure) => tracing::error!("could not reload the configuration: {}", with_causes(failure)),
        }
        outcome
    }

    /// Requests a stop without waiting for it. Running turns may take `drain`, or the configured time, to finish.
    pub(crate) fn stop(&self, drain: Option<Duration>) {
        // The channel is full if a stop has already been requested.
        let _ = self.stop.try_send(drain);
    }

    /// Reloads the configuration at the request of a client. An invalid configuration changes nothing.
    pub(crate) async fn reload(&self) -> Result<ReloadOutcome, Refusal> {
        self.reload_and_log(true).await.map_err(|failure| {
            let hint = failure.hint().unwrap_or("the running configuration stays active").to_owned();
            Refusal::from(failure).with_hint(hint)
        })
    }

    /// Stores the values of variables that the client of a turn lends, for the turn's session if it is known.
    pub(crate) fn set_client_values(&self, session: Option<SessionId>, values: HashMap<String, String>) {
        self.log.redactor().set_client_secrets(self.parts.mcp.set_client_values(session, values));
    }

    /// Passes every line of the audit log to `visit`, oldest first.
    ///
    /// # Errors
    /// Fails if the audit log cannot be read.
    pub(crate) fn for_each_audit_line(&self, visit: &mut dyn FnMut(AuditLine)) -> Result<(), Refusal> {
        agentd_audit::read::each(&self.source.paths.data, visit).map_err(|error| {
            Refusal::new(ErrorKind::Storage, format!("could not read the audit log: {error}"))
                .with_hint("`agentctl audit verify` shows what is wrong")
        })
    }

    /// Returns the sources of the configuration in force, lowest precedence first: `built-in` and file paths.
    pub(crate) fn config_sources(&self) -> Vec<String> {
        sources(&self.config())
    }

    /// Returns the configuration keys with their origins and values. Secrets are masked.
    pub(crate) fn config_origins(&self) -> Vec<ConfigOrigin> {
        let config = self.config();
        let secrets: Vec<&str> = secrets(&config, &self.source.env).collect();
        let redactor = self.log.redactor();
        config.values.render(&config.origins, &secrets, &|text| redactor.clean(text))
    }

    /// Returns the variables that the configuration allows clients to pass to tools, in addition to those that are
    /// always allowed.
    pub(crate) fn passed_variables(&self) -> Vec<String> {
        self.config().daemon.environment.pass.clone()
    }

    /// Lists all plugins after checking their files again.
    pub(crate) async fn list_plugins(&self) -> Result<Vec<PluginReport>, Refusal> {
        let plugins = self.source.plugins.clone();
        let before = states(&plugins.installed());
        let installed = blocking(UNREADABLE, move || plugins.refresh()).await?;
        // A plugin that was changed after it was added is no longer used.
        if states(&installed) != before
            && let Err(failure) = self.reload_and_log(false).await
        {
            tracing::warn!("a plugin changed, but the configuration could not be read: {failure}");
        }
        let skills = self.parts.skills.reports(None).await;
        Ok(installed.iter().map(|plugin| self.checked(plugin.report.clone(), &skills)).collect())
    }

    /// Describes the plugin in a folder without adding it.
    pub(crate) async fn inspect_plugin(&self, folder: PathBuf) -> Result<PluginReport, Refusal> {
        let plugins = self.source.plugins.clone();
        let report = blocking(UNREADABLE, move || plugins.inspect(&folder)).await??;
        Ok(self.checked(report, &self.parts.skills.reports(None).await))
    }

    /// Adds the plugin in a folder if the plugin has this hash. The audit log records `client`. The plugin's parts can
    /// be used immediately.
    pub(crate) async fn add_plugin(
        &self,
        folder: PathBuf,
        hash: String,
        source: String,
        client: String,
    ) -> Result<PluginReport, Refusal> {
        // If the configuration is invalid, the plugin would be added but never loaded.
        tokio::task::block_in_place(|| self.source.read()).map_err(|failure| {
            let message = format!("could not add the plugin: {}", with_causes(&failure));
            Refusal::new(ErrorKind::Configuration, message).with_hint("fix the configuration first")
        })?;
        let plugins = self.source.plugins.clone();
        let (store, inspected_folder) = (plugins.clone(), folder.clone());
        let report = blocking(UNREADABLE, move || store.inspect(&inspected_folder)).await??;
        let source = if source.is_empty() { folder.display().to_string() } else { source };
        if report.hash == hash {
            let fact = AuditFact::PluginAdded {
                plugin: report.name.clone(),
                sha256: hash.clone(),
                source: source.clone(),
                by: client_of(&client),
            };
            // The plugin is only added after the audit log has recorded it.
            let recorded = self.parts.audit.record(AuditEntry::general(self.parts.clock.now(), fact)).await;
            recorded.map_err(|error| {
                let message = format!("could not add the plugin: the audit log cannot be written: {error}");
                Refusal::new(ErrorKind::Storage, message).with_hint("`agentctl doctor` checks the data folder")
            })?;
        }
        let report = blocking(UNREADABLE, move || plugins.add(&folder, &hash, &source, &client)).await??;
        self.reload_and_log(false).await.map_err(|failure| configuration_unreadable("added", &failure))?;
        Ok(self.checked(report, &self.parts.skills.reports(None).await))
    }

    /// Removes a plugin; the audit log records `client`. Returns `None` if no plugin has this name.
    pub(crate) async fn remove_plugin(&self, name: String, client: String) -> Result<Option<PluginReport>, Refusal> {
        let plugins = self.source.plugins.clone();
        let Some(report) = blocking(UNREADABLE, move || plugins.remove(&name)).await?? else {
            return Ok(None);
        };
        let fact = AuditFact::PluginRemoved { plugin: report.name.clone(), by: client_of(&client) };
        // The removal succeeds even if the audit log cannot be written.
        self.parts.audit.note(AuditEntry::general(self.parts.clock.now(), fact)).await;
        self.reload_and_log(false).await.map_err(|failure| configuration_unreadable("removed", &failure))?;
        Ok(Some(report))
    }

    /// Adds conflicts with the configuration and with other skills to a plugin's report.
    fn checked(&self, mut report: PluginReport, skills: &[SkillReport]) -> PluginReport {
        let config = self.config().clone();
        let mut clashes = Clashes { name: report.name.clone(), found: Vec::new() };
        for card in &report.agents {
            let owner = config.agents.get(&card.id).map(|_| config.agent_plugins.get(&card.id));
            clashes.check_name("agent", &card.id, owner, "agents.yaml");
        }
        for server in &report.servers {
            let is_known =
                config.mcp.servers.contains_key(&server.name) || config.mcp.broken.contains_key(&server.name);
            let owner = is_known.then(|| config.server_plugins.get(&server.name));
            clashes.check_name("server", &server.name, owner, "mcp_servers.yaml");
        }
        for skill in &report.skills {
            let same_name = |other: &&SkillReport| other.usable && other.skill.name.eq_ignore_ascii_case(&skill.name);
            let Some(other) = skills.iter().find(same_name) else { continue };
            match other.skill.origin {
                SkillOrigin::Person => clashes.check_name("skill", &skill.name, Some(None), "your own skills"),
                SkillOrigin::Plugin => clashes.check_name("skill", &skill.name, Some(Some(&other.plugin)), ""),
                SkillOrigin::Bundled => {
                    let message = format!("the skill {} replaces the bundled one", skill.name);
                    clashes.note(message, false);
                }
                SkillOrigin::Project => {}
            }
        }
        let tools: BTreeSet<String> = self.parts.engine.tools().into_iter().map(|tool| tool.name).collect();
        for card in &report.agents {
            // Tools of an MCP server are unknown until the server has been reached.
            let exists = |name: &String| tools.contains(name) || name.starts_with("mcp_");
            for name in card.named_tools().filter(|name| !exists(name)) {
                clashes.note(format!("the agent {} names an unknown tool {name:?}", card.id), false);
            }
        }
        report.problems.extend(clashes.found);
        report
    }
}

/// Returns all secrets that the log must not show.
pub fn secrets<'a>(config: &'a Config, env: &'a Environment) -> impl Iterator<Item = &'a str> {
    config.secrets().chain(env.secrets())
}

fn sources(config: &Config) -> Vec<String> {
    let files = config.files.iter().map(|path: &PathBuf| path.display().to_string());
    std::iter::once("built-in".to_owned()).chain(files).collect()
}

/// Returns warnings after a reload: broken MCP servers, exposed key files, and changed settings that require a restart.
fn reload_notes(old: &Config, new: &Config) -> Vec<String> {
    let mut notes: Vec<String> = new.mcp.broken.values().map(|problem| problem.replace('\n', "; ")).collect();
    notes.extend(config::layers::exposed_key_files(&new.files));
    let (before, after) = (&old.daemon, &new.daemon);
    let network = before.sandbox.network;
    let sizes = |trace: &TraceSettings| (trace.max_file_bytes, trace.max_files);
    let changes = [
        (
            before.tools.command_timeout != after.tools.command_timeout,
            "tools.command_timeout has changed; restart to apply it to commands",
        ),
        (old.web != new.web, "web.yaml has changed; restart to apply it to the web tools"),
        (
            before.sandbox != SandboxSettings { network, ..after.sandbox.clone() },
            "the sandbox has changed; restart to apply it to commands",
        ),
        (
            (&before.reading, &before.index) != (&after.reading, &after.index),
            "`reading` or `index` has changed; restart to apply it",
        ),
        (sizes(&before.trace) != sizes(&after.trace), "the sizes in `trace` have changed; restart to apply them"),
        (before.audit != after.audit, "audit.max_file_bytes has changed; restart to apply it"),
    ];
    notes.extend(changes.into_iter().filter(|(has_changed, _)| *has_changed).map(|(_, note)| note.to_owned()));
    notes
}

/// Maximum length of a client name in characters. Longer names are truncated.
const MAX_NAME: usize = 100;

/// Error message for a failure to read the plugins.
const UNREADABLE: &str = "could not read the plugins";

/// Names of a plugin's parts that are already in use.
struct Clashes {
    /// Name of the plugin.
    name: String,
    found: Vec<ProjectProblem>,
}

impl Clashes {
    /// Adds a problem if another plugin, or the user's own `file` (`Some(None)`), owns this name.
    fn check_name(&mut self, kind: &str, part: &str, owner: Option<Option<&String>>, file: &str) {
        let owner_name = match owner {
            None => return,
            Some(Some(plugin)) if *plugin == self.name => return,
            Some(Some(plugin)) => format!("the plugin {plugin}"),
            Some(None) => file.to_owned(),
        };
        self.note(format!("the {kind} {part} is ignored: the name is already used by {owner_name}"), true);
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

fn configuration_unreadable(change: &str, failure: &Failure) -> Refusal {
    let message = format!("the plugin was {change}, but the configuration cannot be read: {}", with_causes(failure));
    Refusal::new(ErrorKind::Configuration, message).with_hint("fix it and run `agentctl reload`")
}
