//! The only file that names every adapter: it plugs them into the engine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use agentd_audit::AuditLog;
use agentd_core::{
    Timestamp,
    guide::GuideLimits,
    interrupt::Answer,
    model::{Slot, SlotInfo},
    ports::{Clock, CodeReader, FallbackModel, Knowledge, Model, Models, Toolbox},
    route::Routes,
    session::SessionSettings,
    tool_table::{ToolPart, ToolRow},
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_exchange::ExchangeLog;
use agentd_extensions::{project::ProjectStore, skills::SkillStore};
use agentd_lsp::{FoundServer, LanguagePool, ProgramPlaces};
use agentd_mcp::{McpPool, SessionServers};
use agentd_models::{ModelRecords, ModelRouter};
use agentd_proto::client::LanguageServer;
use agentd_sandbox::{host::Sandbox, process::ConfinedPrograms};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_tools::{BuiltinToolbox, ToolboxConfig, WorkspaceFolders};
use agentd_web::Fetcher;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use agentd_worktrees::WorktreeFolders;
use jiff::tz::TimeZone;

use crate::{
    audit, code,
    config::{Config, ModelPlace, OnDeadline, agents, layers},
    config_source::ConfigSource,
    documents::{self, Library},
    embedded::{self, EmbeddedConfig},
    environment::{Environment, OWN_PROGRAM},
    exchanges,
    failure::Failure,
    listener::SocketPlaces,
    mcp::{self, AllTools},
    models::ReloadableModels,
    paths::Paths,
    redact::Redactor,
    replay::{MakeWorkspaces, Player, PlayerParts},
    sandbox,
    session_tools::SessionTools,
    skills,
    tools::{self, ConfiguredToolbox},
};

/// The built-in model's weights, below `models/` in the data folder.
const BUILT_IN_WEIGHTS: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Variables of the daemon's environment that commands of tools see: where programs are, and how to speak. Everything
/// else may be a secret, or belong to the terminal that the daemon was started from.
const PASSED_TO_COMMANDS: [&str; 11] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "CARGO_HOME",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
];

/// Everything that runs, plugged together.
pub struct Parts {
    /// The front.
    pub engine: Engine,
    /// Closed last.
    pub store: Arc<SqliteStore>,
    /// Reads and finds documents. Closed when nothing runs any more.
    pub library: Arc<Library>,
    /// Closed when nothing runs any more.
    pub audit: Arc<AuditLog>,
    /// Requests to models and their answers. Flushed when no turn runs any more.
    pub exchanges: ExchangeLog,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Sandbox of commands.
    pub sandbox: Arc<Sandbox>,
    /// Exchanged at a reload.
    pub models: Arc<ReloadableModels>,
    /// Makes them.
    pub makers: ModelMaker,
    /// All skills; their settings are updated at a reload.
    pub skills: SkillStore,
    /// Told of new settings at a reload.
    pub toolbox: Arc<ConfiguredToolbox>,
    /// The language servers. Closed when no turn runs any more.
    pub languages: Arc<LanguagePool>,
    /// The MCP servers. Closed when no turn runs any more.
    pub mcp: Arc<McpPool>,
    /// The MCP servers of sessions. Closed with them.
    pub session_servers: Arc<SessionServers>,
    /// Plays recordings.
    pub player: Arc<Player>,
    /// Settings without effect.
    pub notes: Vec<String>,
}

/// Plugs everything together. The journal and the audit log are opened; nothing else is read, and no model is asked.
///
/// # Errors
/// The journal or the audit log cannot be opened, or a model's address cannot be used.
pub async fn assemble(
    config: &Config,
    recipe: &ConfigSource,
    sockets: &SocketPlaces,
    redactor: Redactor,
) -> Result<Parts, Failure> {
    let ConfigSource { paths, env, .. } = recipe;
    agentd_models::init_crypto();
    let own_redactor = redactor.clone();
    let makers = ModelMaker::new(&paths.data, ModelRecords::open(paths.model_facts()), env.routes());
    let models = Arc::new(ReloadableModels::new(makers.make(config)?));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(open_store(paths.journal()).await?);
    let noted = audit::noted(&store).await;
    let audit = audit::open(config, paths, redactor.clone(), Arc::clone(&clock), noted).await?;
    audit::tell_start(&audit, &*clock, &config.rules).await;
    let exchanges = exchanges::log(config, paths.traces(), own_redactor.clone(), Arc::clone(&clock));
    let confinement = sandbox::settings(config, paths, sockets, env);
    let sandbox = Arc::new(Sandbox::new(confinement.clone()));
    let code = code::reader(OWN_PROGRAM);
    let library = Arc::new(documents::library(&paths.data, &config.daemon, &clock));
    let worktrees = worktrees(config, paths, env, Arc::clone(&sandbox));
    let projects = ProjectStore::beside(paths.projects(), Some(worktrees.clone()));
    let plugins = recipe.plugins.clone();
    let leftovers = plugins.clone();
    // What cannot be removed only takes room.
    let _ = tokio::task::spawn_blocking(move || leftovers.sweep()).await;
    let skills = skills::shelf(config, paths, env, confinement, projects.clone(), plugins.clone()).await;
    let languages = Arc::new(language_pool(config, paths, env, Arc::clone(&sandbox)));
    let tools = ToolboxConfig {
        skills: Some(skills.clone()),
        languages: Some(languages.clone()),
        ..toolbox_config(config, env, Arc::clone(&sandbox), library.clone(), code.clone())
    };
    let builtin: Arc<dyn Toolbox> = Arc::new(BuiltinToolbox::new(tools));
    let session_servers = mcp::session_servers(env, OWN_PROGRAM.as_ref(), redactor.clone());
    let mcp = mcp::pool(&config.mcp, &paths.data, env, OWN_PROGRAM.as_ref(), redactor, Arc::clone(&builtin), plugins);
    let all = Arc::new(AllTools::new(Arc::clone(&builtin), Arc::clone(&mcp)));
    // All that can be left out or described otherwise.
    let configurable = [all.specs().to_vec(), agentd_engine::hideable_tools()].concat();
    let toolbox = Arc::new(ConfiguredToolbox::new(all, &config.tools, idle(config), idle_now(&languages)));
    let of_sessions = SessionTools::new(toolbox.clone(), Arc::clone(&mcp), Arc::clone(&session_servers));
    let of_sessions: Arc<dyn Toolbox> = Arc::new(of_sessions);
    let player = Arc::new(Player::new(PlayerParts {
        folder: paths.data.join("replays"),
        models: models.clone(),
        toolbox: Arc::clone(&of_sessions),
        workspaces: played_workspaces(paths, skills.clone(), projects.clone()),
        snapshots: snapshot_config(config, env),
        languages: languages.clone(),
        audit: audit.clone(),
        redactor: own_redactor,
    }));
    let sweeper = Arc::clone(&player);
    let _ = tokio::task::spawn_blocking(move || sweeper.sweep()).await;
    let workspaces = WorkspaceFolders::new(paths.data.join("workspace"))
        .remembering(paths.data.join("memories"))
        .keeping_private(&[&paths.data, &paths.config])
        .guided_by(&paths.config, env.path("HOME").as_deref())
        .with_skills(skills.clone())
        .with_projects(projects)
        .mapped_by(code)
        .with_worktrees(worktrees);
    let drafts = workspaces.clone();
    let _ = tokio::task::spawn_blocking(move || drafts.sweep()).await;
    let engine = Engine::new(
        Ports {
            models: models.clone(),
            toolbox: of_sessions,
            store: store.clone(),
            workspaces: Arc::new(workspaces),
            pictures: documents::pictures(),
            snapshots: Arc::new(FileSnapshots::new(paths.data.join("undo"), snapshot_config(config, env))),
            languages: languages.clone(),
            audit: audit.clone(),
            exchanges: Arc::new(exchanges.clone()),
            clock: Arc::clone(&clock),
        },
        engine_config(config),
    );
    let mut notes = tools::notes(&config.tools, &configurable, &engine.tools());
    notes.extend(layers::exposed(&config.files));
    let known = engine.tools();
    notes.extend(agents::notes(&config.agents, &config.agent_plugins, known.iter().map(|tool| tool.name.as_str())));
    Ok(Parts {
        engine,
        store,
        library,
        audit,
        exchanges,
        clock,
        sandbox,
        models,
        makers,
        toolbox,
        languages,
        mcp,
        session_servers,
        skills,
        player,
        notes,
    })
}

/// Makes workspaces of replays: with skills and projects as sessions have them, but without what one person's machine remembers
/// or draws, which no recording could hold on another.
fn played_workspaces(paths: &Paths, skills: SkillStore, projects: ProjectStore) -> MakeWorkspaces {
    let Paths { data, config, .. } = paths.clone();
    Box::new(move |base| {
        WorkspaceFolders::new(base.to_owned())
            .keeping_private(&[&data, &config])
            .guided_by(&config, None)
            .with_skills(skills.clone())
            .with_projects(projects.clone())
    })
}

/// Worktrees of sessions. Their git is the one that commands find, and has the person's name where commands have it.
fn worktrees(config: &Config, paths: &Paths, env: &Environment, sandbox: Arc<Sandbox>) -> WorktreeFolders {
    let passed = |name: &&str| env.text(name).map(|value| ((*name).to_owned(), value.to_owned()));
    let environment = PASSED_TO_COMMANDS.iter().filter_map(passed).collect();
    let settings = sandbox::variables(config, env).get("GIT_CONFIG_GLOBAL").map(PathBuf::from);
    WorktreeFolders::new(paths.worktrees(), Some(sandbox), &environment, settings)
}

/// The tools that have nothing to work with. What they need is read at the start, and so is this.
fn idle(config: &Config) -> Vec<&'static str> {
    if config.web.search.is_some() { Vec::new() } else { ToolRow::needing(ToolPart::WebSearch) }
}

/// Those that have nothing to work with now.
#[must_use]
pub fn idle_now(languages: &LanguagePool) -> Vec<&'static str> {
    let is_there = languages.found().iter().any(|server| server.program.is_some());
    if is_there { Vec::new() } else { ToolRow::needing(ToolPart::Languages) }
}

/// The language servers of this machine, as clients are told of them. It may block.
#[must_use]
pub fn language_servers(languages: &LanguagePool) -> Vec<LanguageServer> {
    let found = languages.found().into_iter();
    found.map(|FoundServer { name, hint, .. }| LanguageServer { name, hint }).collect()
}

/// Opening may take a while after an unclean stop, and blocks.
async fn open_store(path: PathBuf) -> Result<SqliteStore, Failure> {
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::open(StoreConfig { time_zone: TimeZone::system, ..StoreConfig::at(path) })
    })
    .await;
    let opened = opened.map_err(|error| Failure::broken("could not open the journal").with_source(error))?;
    opened.map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        let failure = Failure::broken(error.to_string()).with_source(error);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })
}

/// Engine settings from the configuration.
#[must_use]
pub fn engine_config(config: &Config) -> EngineConfig {
    let settings = &config.daemon;
    let interrupt_default = match settings.interrupts.on_deadline {
        OnDeadline::Reject => Answer::Reject { reason: Some("no answer in time".to_owned()) },
        OnDeadline::Approve => Answer::Approve,
    };
    // The numbers were checked to fit when they were read.
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    EngineConfig {
        system_prompt: config.system_prompt.clone(),
        agents: Arc::new(config.agents.clone()),
        subagent_prompt: config.subagent_prompt.clone(),
        compact_prompt: config.compact_prompt.as_str().into(),
        policy: Arc::clone(&config.rules.policy),
        session_defaults: SessionSettings {
            confirm_write: settings.sessions.confirm_write,
            confirm_exec: settings.sessions.confirm_exec,
            ..SessionSettings::default()
        },
        max_message_history: settings.turns.max_message_history.0.map(|number| size(number.0)),
        summary_slot: settings.turns.summary_slot.0,
        recall: settings.turns.recall,
        map_tokens: size(settings.turns.map_tokens.0),
        planning: settings.turns.planning,
        ask_intent: settings.turns.ask_intent,
        guides: GuideLimits {
            memory: settings.memory.enabled,
            skills: settings.skills.enabled,
            max_file_bytes: size(settings.memory.max_file_bytes.0),
            max_total_bytes: size(settings.memory.max_total_bytes.0),
        },
        max_steps: settings.turns.max_steps.0,
        turn_time_limit: settings.turns.time_limit.0.map(|span| span.0),
        turn_token_budget: settings.turns.token_budget.0,
        parallel_calls: size(settings.turns.parallel_calls.0),
        large_result_tokens: settings.tools.large_result_tokens.0,
        feedback_tokens: settings.tools.feedback_tokens.0,
        interrupt_deadline: settings.interrupts.deadline.0.map(|span| span.0),
        interrupt_default,
        queue_limit: size(settings.turns.queue_limit.0),
        idle_unload: settings.sessions.idle_unload.0,
        max_input_bytes: size(settings.turns.max_input_bytes.0),
    }
}

fn toolbox_config(
    config: &Config,
    env: &Environment,
    confined: Arc<Sandbox>,
    knowledge: Arc<dyn Knowledge>,
    code: Option<Arc<dyn CodeReader>>,
) -> ToolboxConfig {
    let mut toolbox = ToolboxConfig::new(TimeZone::system);
    toolbox.command_timeout = config.daemon.tools.command_timeout.0;
    toolbox.command_timeout_max = toolbox.command_timeout_max.max(toolbox.command_timeout);
    toolbox.environment = passed(env);
    toolbox.standing = sandbox::variables(config, env);
    toolbox.sandbox = Some(confined);
    toolbox.hard_links = sandbox::hard_links(config);
    toolbox.limits.whole_file_bytes = config.daemon.reading.whole_file_bytes.0;
    toolbox.limits.page_chars = usize::try_from(config.daemon.reading.page_chars.0).unwrap_or(usize::MAX);
    toolbox.knowledge = Some(knowledge);
    toolbox.code = code;
    toolbox.web = Some(Arc::new(Fetcher::new(config.web.clone())));
    toolbox
}

/// The language servers, which run in the same environment as commands.
fn language_pool(config: &Config, paths: &Paths, env: &Environment, confined: Arc<Sandbox>) -> LanguagePool {
    let place = paths.data.join("languages");
    let variables = sandbox::variables(config, env);
    let programs = ConfinedPrograms::new(confined, passed(env), variables, place, agentd_policy::holds_secrets);
    let rustup = env.path("RUSTUP_HOME").or_else(|| env.path("HOME").map(|home| home.join(".rustup")));
    let search_path = env.text("PATH").unwrap_or_default().into();
    LanguagePool::new(config.languages.clone(), ProgramPlaces { search_path, rustup }, Arc::new(programs))
}

/// Variables of the daemon's environment that commands see.
fn passed(env: &Environment) -> BTreeMap<String, String> {
    let variable = |name: &&str| env.text(name).map(|value| ((*name).to_owned(), value.to_owned()));
    PASSED_TO_COMMANDS.iter().filter_map(variable).collect()
}

fn snapshot_config(config: &Config, env: &Environment) -> SnapshotConfig {
    let (bounds, home) = (&config.daemon.undo, env.path("HOME"));
    let settings = env.path("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let own = [home.as_ref().map(|home| home.join(".gitconfig")), settings.as_ref().map(|of| of.join("git/config"))];
    SnapshotConfig {
        max_file_bytes: bounds.max_file_bytes.0,
        max_total_bytes: bounds.max_total_bytes.0,
        max_files: usize::try_from(bounds.max_files.0).unwrap_or(usize::MAX),
        max_changes: usize::try_from(bounds.max_changes.0).unwrap_or(usize::MAX),
        git_configs: own.into_iter().flatten().chain(["/etc/gitconfig".into()]).collect(),
        home,
        settings,
    }
}

/// Makes the models of a configuration.
pub struct ModelMaker {
    data: PathBuf,
    /// Records of what was learnt of models; a reload leaves them as they are.
    records: Arc<ModelRecords>,
    routes: Routes,
    /// The embedded models made so far: a reload that leaves one as it is leaves it in memory too.
    embedded: Mutex<Vec<(EmbeddedConfig, Arc<dyn Model>)>>,
}

impl ModelMaker {
    fn new(data: &Path, records: Arc<ModelRecords>, routes: Routes) -> Self {
        Self { data: data.to_path_buf(), records, routes, embedded: Mutex::default() }
    }

    /// The models. No server is asked and no weights are loaded.
    ///
    /// # Errors
    /// An address or a header cannot be used.
    pub fn make(&self, config: &Config) -> Result<Arc<dyn Models>, Failure> {
        let mut servers = BTreeMap::new();
        let mut files = BTreeMap::new();
        for (slot, place) in &config.models {
            match place {
                ModelPlace::Server(model) => drop(servers.insert(*slot, (**model).clone())),
                ModelPlace::Gguf(path) => drop(files.insert(*slot, path.clone())),
            }
        }
        // A file in the base slot takes the place of the built-in model, for all slots that fall back.
        let weights = files
            .remove(&Slot::Base)
            .or_else(|| config.daemon.named_weights())
            .unwrap_or_else(|| self.built_in_weights());
        let mut kept = Vec::new();
        let base = self.embedded(config, weights, &mut kept);
        let local = files.into_iter().map(|(slot, path)| (slot, self.embedded(config, path, &mut kept))).collect();
        let router = ModelRouter::with_records(&servers, base, Arc::clone(&self.records), self.routes.clone());
        let router = router.map_err(|error| {
            Failure::usage(error.to_string()).with_source(error).with_hint("mend it in models.yaml or in MODEL_*")
        })?;
        *self.embedded.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(Arc::new(Slots { router, local }))
    }

    /// The file of the built-in model: the person's own, or the one that a package has put beside the program.
    fn built_in_weights(&self) -> PathBuf {
        let own = self.data.join("models").join(BUILT_IN_WEIGHTS);
        let packaged =
            agentd_proto::packaged::models().map(|folder| folder.join(BUILT_IN_WEIGHTS)).filter(|path| path.is_file());
        if own.exists() { own } else { packaged.unwrap_or(own) }
    }

    fn embedded(
        &self,
        config: &Config,
        path: PathBuf,
        kept: &mut Vec<(EmbeddedConfig, Arc<dyn Model>)>,
    ) -> Arc<dyn Model> {
        let wanted = EmbeddedConfig { idle: config.daemon.embedded.idle_release.0, ..EmbeddedConfig::new(path) };
        let known = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(config, _): &&(EmbeddedConfig, Arc<dyn Model>)| *config == wanted;
        let model = match known.iter().chain(kept.iter()).find(same) {
            Some((_, model)) => Arc::clone(model),
            None => embedded::model(wanted.clone()),
        };
        kept.push((wanted, Arc::clone(&model)));
        model
    }
}

/// Servers, and files in slots of their own.
struct Slots {
    router: ModelRouter,
    local: BTreeMap<Slot, Arc<dyn Model>>,
}

impl Models for Slots {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        self.local.get(&slot).cloned().unwrap_or_else(|| self.router.get(slot))
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        if self.local.contains_key(&slot) { None } else { self.router.named(slot, id) }
    }

    fn own_slots(&self) -> Vec<Slot> {
        let own = self.router.own_slots();
        Slot::ALL.into_iter().filter(|slot| own.contains(slot) || self.local.contains_key(slot)).collect()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        if self.local.contains_key(&slot) {
            return Vec::new();
        }
        // A slot that stands in may have its model in this process.
        let local = |fallback: FallbackModel| match self.local.get(&fallback.slot) {
            Some(model) => FallbackModel { model: Arc::clone(model), ..fallback },
            None => fallback,
        };
        self.router.fallbacks(slot).into_iter().map(local).collect()
    }

    fn list(&self) -> Vec<SlotInfo> {
        let own = |info: SlotInfo| match self.local.get(&info.slot) {
            Some(model) => SlotInfo { slot: info.slot, falls_back_to: None, model: model.info().clone() },
            None => info,
        };
        self.router.list().into_iter().map(own).collect()
    }
}

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
