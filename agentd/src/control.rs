//! Operations on the running daemon for clients and signals: stop, and read its configuration again.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_audit::{AuditLog, redact::Patterns};
use agentd_core::{
    audit::{AuditEntry, AuditLine},
    error::ErrorKind,
    ids::SessionId,
    ports::{Audit as _, Clock},
};
use agentd_engine::Engine;
use agentd_exchange::ExchangeLog;
use agentd_extensions::skills::SkillStore;
use agentd_lsp::LanguagePool;
use agentd_mcp::{McpPool, SessionServers};
use agentd_policy::Policy;
use agentd_proto::client::{ConfigOrigin, ReloadOutcome};
use agentd_replay::Redaction;
use agentd_sandbox::host::Sandbox;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::mpsc;

use crate::{
    audit,
    boot::{self, ModelMaker},
    config::{self, Config, SandboxSettings},
    config_source::ConfigSource,
    environment::Environment,
    failure::Failure,
    logging::LogHandle,
    models::ReloadableModels,
    refusal::Refusal,
    replay::Player,
    retention::Retention,
    rpc::{Control, PluginControl},
    sandbox,
    tools::ConfiguredToolbox,
};

/// Condition for recording a reload in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditWhen {
    /// Each time: a person has asked for it.
    Always,
    /// If the rules have changed, or cannot be used.
    OnChange,
}

/// State of reloads.
pub struct DaemonControl {
    /// Source of the configuration.
    pub recipe: ConfigSource,
    /// The configuration that holds. Also lets one reload in at a time.
    pub config: Mutex<Config>,
    /// Told of the new limits.
    pub engine: Engine,
    /// Sandbox, whose network access follows the settings.
    pub sandbox: Arc<Sandbox>,
    /// Tools, which follow their settings.
    pub toolbox: Arc<ConfiguredToolbox>,
    /// Skills, which follow their settings.
    pub skills: SkillStore,
    /// Models, replaced at a reload.
    pub models: Arc<ReloadableModels>,
    /// Makes the new ones.
    pub makers: ModelMaker,
    /// Told which language servers there are.
    pub languages: Arc<LanguagePool>,
    /// Told which MCP servers there are.
    pub mcp: Arc<McpPool>,
    /// MCP servers that clients bring.
    pub session_servers: Arc<SessionServers>,
    /// Told of the new level and the new secrets.
    pub log: LogHandle,
    /// Told of the new rules.
    pub audit: Arc<AuditLog>,
    /// Told whether requests to models are kept.
    pub exchanges: ExchangeLog,
    /// Plays recordings.
    pub player: Arc<Player>,
    /// Told how long what is kept.
    pub retention: Arc<Retention>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Asks for the stop. Room for one: a stop that was asked for twice is one stop.
    pub stop: mpsc::Sender<Option<Duration>>,
}

impl DaemonControl {
    /// Reads the configuration again and follows it, or says what is wrong and changes nothing.
    ///
    /// # Errors
    /// The problem of the new configuration.
    pub fn reread(&self) -> Result<ReloadOutcome, Failure> {
        let mut current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.recipe.read()?;
        // The last step that can fail comes before the first that changes anything.
        let models = self.makers.make(&new)?;
        self.log.apply(&new.daemon.service.log_level, secrets(&new, &self.recipe.env));
        self.models.replace(models);
        self.skills.follow_settings(new.skills.clone());
        self.engine.reconfigure(boot::engine_config(&new));
        self.sandbox.set_network(sandbox::network(&new));
        self.languages.reconfigure(new.languages.clone());
        self.toolbox.follow_settings(&new.tools, boot::idle_now(&self.languages));
        self.mcp.reconfigure(new.mcp.clone());
        self.exchanges.follow_settings(new.daemon.trace.requests);
        self.retention.follow_settings(new.daemon.retention.clone());
        let notes = held_back(&current, &new);
        *current = new;
        Ok(ReloadOutcome { config_sources: sources(&current), notes })
    }

    /// Applies the current configuration, and reports the outcome to the operator and the audit log.
    ///
    /// # Errors
    /// As of [`Self::reread`].
    pub async fn follow(&self, told: AuditWhen) -> Result<ReloadOutcome, Failure> {
        let before = self.rules_sha256();
        let outcome = tokio::task::block_in_place(|| self.reread());
        let fact = match &outcome {
            Ok(_) => audit::rules_read(&self.config.lock().unwrap_or_else(PoisonError::into_inner).rules),
            Err(failure) => audit::rules_refused(failure.message_with_causes()),
        };
        if told == AuditWhen::Always || outcome.is_err() || self.rules_sha256() != before {
            self.audit.note(AuditEntry::general(self.clock.now(), fact)).await;
        }
        log_outcome(&outcome);
        outcome
    }

    fn rules_sha256(&self) -> String {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).rules.sha256.clone()
    }

    /// Time limit for running turns at a stop.
    #[must_use]
    pub fn drain_deadline(&self) -> Duration {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).daemon.drain_deadline()
    }
}

impl Control for DaemonControl {
    fn stop(&self, drain: Option<Duration>) {
        // Full means that a stop is asked for already.
        let _ = self.stop.try_send(drain);
    }

    fn reload(&self) -> BoxFuture<'_, Result<ReloadOutcome, Refusal>> {
        async {
            self.follow(AuditWhen::Always).await.map_err(|failure| Refusal {
                kind: ErrorKind::Configuration,
                message: failure.message_with_causes(),
                hint: Some(failure.hint().unwrap_or("the running configuration stays in force").to_owned()),
            })
        }
        .boxed()
    }

    fn try_rules(&self, text: String, path: PathBuf) -> Result<Arc<Policy>, Refusal> {
        let tried = self.recipe.sources().and_then(|sources| Ok(config::hitl_rules::over(&sources, text, path)?));
        let tried = tried.map_err(|failure| Refusal {
            kind: ErrorKind::Configuration,
            message: failure.message_with_causes(),
            hint: failure.hint().map(str::to_owned),
        })?;
        Ok(tried.policy)
    }

    fn mcp(&self) -> &Arc<McpPool> {
        &self.mcp
    }

    fn player(&self) -> Option<Arc<Player>> {
        Some(Arc::clone(&self.player))
    }

    fn redaction(&self) -> Redaction {
        let (patterns, redactor) = (Patterns::default(), self.log.redactor());
        Arc::new(move |text| patterns.clean(&redactor.clean(text)))
    }

    fn exchanges(&self) -> Option<&ExchangeLog> {
        Some(&self.exchanges)
    }

    fn session_servers(&self) -> Option<&SessionServers> {
        Some(&self.session_servers)
    }

    fn lend(&self, session: Option<SessionId>, values: HashMap<String, String>) {
        self.log.redactor().learn_lent(self.mcp.lend(session, values));
    }

    fn try_mcp(&self, text: String, path: PathBuf) -> Result<(), Refusal> {
        let tried = self.recipe.sources().and_then(|sources| Ok(config::try_mcp(&sources, text, path)?));
        tried.map_err(|failure| Refusal {
            kind: ErrorKind::Configuration,
            message: failure.message_with_causes(),
            hint: failure.hint().map(str::to_owned),
        })
    }

    fn each_audited(&self, see: &mut dyn FnMut(AuditLine)) -> Result<(), Refusal> {
        agentd_audit::read::each(&self.recipe.paths.data, see).map_err(|error| Refusal {
            kind: ErrorKind::Storage,
            message: format!("could not read the audit log: {error}"),
            hint: Some("`agentctl audit verify` says what is wrong with it".to_owned()),
        })
    }

    fn config_sources(&self) -> Vec<String> {
        sources(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn config_origins(&self) -> Vec<ConfigOrigin> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets: Vec<&str> = secrets(&config, &self.recipe.env).collect();
        let redactor = self.log.redactor();
        let shown = config.values.shown(&config.origins, &secrets, &|text| redactor.clean(text));
        let view = |(key, origin, value): (&str, &config::Origin, _)| ConfigOrigin {
            key: key.to_owned(),
            origin: origin.to_string(),
            value,
        };
        shown.into_iter().map(view).collect()
    }

    fn skills(&self) -> Option<SkillStore> {
        Some(self.skills.clone())
    }

    fn plugins(&self) -> Option<&dyn PluginControl> {
        Some(self)
    }

    fn retention(&self) -> Option<Arc<Retention>> {
        Some(Arc::clone(&self.retention))
    }

    fn passed_variables(&self) -> Vec<String> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).daemon.environment.pass.clone()
    }
}

/// Reports the outcome of a reload to the operator.
fn log_outcome(outcome: &Result<ReloadOutcome, Failure>) {
    match outcome {
        Ok(reloaded) => {
            tracing::info!(sources = ?reloaded.config_sources, "the configuration was read again");
            reloaded.notes.iter().for_each(|note| tracing::warn!("{note}"));
        }
        Err(failure) => {
            tracing::error!("the configuration was not changed: {}", failure.message_with_causes());
        }
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
    if old.daemon.tools.command_timeout != new.daemon.tools.command_timeout {
        notes.push("tools.command_timeout has changed; commands follow at the next start".to_owned());
    }
    if old.web != new.web {
        notes.push("web.yaml has changed; the tools of the web follow at the next start".to_owned());
    }
    let follows_at_once = SandboxSettings { network: old.daemon.sandbox.network, ..new.daemon.sandbox.clone() };
    if old.daemon.sandbox != follows_at_once {
        notes.push("the sandbox has changed; commands follow at the next start".to_owned());
    }
    if (&old.daemon.reading, &old.daemon.index) != (&new.daemon.reading, &new.daemon.index) {
        notes.push("`reading` or `index` has changed; reading and the index follow at the next start".to_owned());
    }
    if (old.daemon.trace.max_file_bytes, old.daemon.trace.max_files)
        != (new.daemon.trace.max_file_bytes, new.daemon.trace.max_files)
    {
        notes.push("the sizes in `trace` have changed; traces follow at the next start".to_owned());
    }
    if old.daemon.audit != new.daemon.audit {
        notes.push("audit.max_file_bytes has changed; the audit log follows at the next start".to_owned());
    }
    notes
}
