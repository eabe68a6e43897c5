//! The composition root: the only module that names every adapter and connects it to the engine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
};

use agentd_audit::AuditLog;
use agentd_core::{
    Timestamp,
    guide::GuideLimits,
    interrupt::Answer,
    ports::{Clock, CodeReader, Knowledge, Toolbox},
    session::SessionSettings,
    tool_table::{ToolPart, ToolRow},
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_exchange::ExchangeLog;
use agentd_extensions::{project::ProjectStore, skills::SkillStore};
use agentd_lsp::{LanguagePool, ProgramPlaces};
use agentd_mcp::{McpPool, SessionServers};
use agentd_sandbox::{host::Sandbox, process::ConfinedPrograms};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_tools::{BuiltinToolbox, ToolboxConfig, WorkspaceFolders};
use agentd_web::Fetcher;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use agentd_worktrees::WorktreeFolders;
use jiff::tz::TimeZone;

use crate::{
    audit, code,
    config::{Config, OnDeadline, agents, layers, yaml::BoundedInt},
    documents::{self, Library},
    environment::{Environment, OWN_PROGRAM},
    failure::Failure,
    listener::SocketPaths,
    models::{ModelMaker, ReloadableModels},
    paths::{ConfigSource, Paths},
    redact::Redactor,
    replay::{MAX_REPLAYS, Player},
    retention::Retention,
    sandbox, skills,
    toolbox::{self, DaemonTools},
};

/// Variables of the daemon's environment that are passed to tool commands: program locations and locale. All other
/// variables may be secrets, or belong to the terminal that started the daemon.
const PASSED_TO_COMMANDS: &str = "PATH LANG LC_ALL LC_CTYPE TZ CARGO_HOME GOROOT JAVA_HOME NVM_DIR PYENV_ROOT \
    RUSTUP_HOME";

/// All running parts of the daemon.
pub struct Parts {
    /// The engine, which serves all client requests.
    pub engine: Engine,
    /// The journal. Closed last.
    pub store: Arc<SqliteStore>,
    /// Reads and searches documents. Closed after all turns have ended.
    pub library: Arc<Library>,
    /// Reads and searches code, if this build supports it.
    pub code: Option<Arc<dyn CodeReader>>,
    /// The audit log. Closed after all turns have ended.
    pub audit: Arc<AuditLog>,
    /// Log of model requests and answers. Flushed after the last turn has ended.
    pub exchanges: ExchangeLog,
    /// Time source of the engine.
    pub clock: Arc<dyn Clock>,
    /// Sandbox for tool commands.
    pub sandbox: Arc<Sandbox>,
    /// The models in use. Replaced at a reload.
    pub models: Arc<ReloadableModels>,
    /// Factory for `models` at a reload.
    pub model_maker: ModelMaker,
    /// All skills. Their settings are updated at a reload.
    pub skills: SkillStore,
    /// The tools. Reconfigured at a reload.
    pub toolbox: Arc<DaemonTools>,
    /// The language servers. Closed after all turns have ended.
    pub languages: Arc<LanguagePool>,
    /// The MCP servers. Closed after all turns have ended.
    pub mcp: Arc<McpPool>,
    /// MCP servers that belong to a session. Each is closed with its session.
    pub session_servers: Arc<SessionServers>,
    /// Replays sessions from recordings.
    pub player: Arc<Player>,
    /// Removes unused data as configured.
    pub retention: Arc<Retention>,
    /// Warnings about settings that have no effect and about exposed key files.
    pub notes: Vec<String>,
}

/// Connects all parts. Opens the journal and the audit log; does not call a model.
///
/// # Errors
/// Fails if the journal or the audit log cannot be opened, or if a model URL is invalid.
pub async fn assemble(
    config: &Config,
    source: &ConfigSource,
    sockets: &SocketPaths,
    redactor: Redactor,
) -> Result<Parts, Failure> {
    let ConfigSource { paths, env, .. } = source;
    agentd_models::init_crypto();
    let own_redactor = redactor.clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(open_store(paths.data.join("agentd.db")).await?);
    let model_maker = ModelMaker::new(&paths.data, env.routes(), (store.clone(), Arc::clone(&clock)));
    let models = Arc::new(ReloadableModels(RwLock::new(model_maker.make(config)?.into())));
    let stored_head = audit::stored_head(&store).await;
    let audit = audit::open(config, paths, redactor.clone(), Arc::clone(&clock), stored_head).await?;
    audit::record_start(&audit, &*clock, &config.rules).await;
    let exchanges = audit::exchanges(config, paths.data.join("traces"), own_redactor.clone(), Arc::clone(&clock));
    let confinement = sandbox::settings(config, paths, sockets, env);
    let sandbox = Arc::new(Sandbox::new(confinement.clone()));
    let code = code::reader(OWN_PROGRAM, models.clone());
    let library = documents::library(&paths.data, &config.daemon, &clock).with_embeddings(models.clone());
    let library = Arc::new(library);
    let worktrees = worktrees(config, paths, env, Arc::clone(&sandbox));
    let projects = ProjectStore::new(paths.data.join("projects"), Some(worktrees.clone()));
    let plugins = source.plugins.clone();
    let leftovers = plugins.clone();
    // Files that cannot be removed do no harm except for using disk space.
    let _ = tokio::task::spawn_blocking(move || leftovers.sweep()).await;
    let skills = skills::skill_store(config, paths, env, confinement, projects.clone(), plugins.clone()).await;
    let languages = Arc::new(language_pool(config, paths, env, Arc::clone(&sandbox)));
    let tools = ToolboxConfig {
        skills: Some(skills.clone()),
        languages: Some(languages.clone()),
        ..toolbox_config(config, env, Arc::clone(&sandbox), library.clone(), code.clone())
    };
    let builtin: Arc<dyn Toolbox> = Arc::new(BuiltinToolbox::new(tools));
    let session_servers = skills::session_servers(env, redactor.clone());
    let mcp = skills::pool(&config.mcp, &paths.data, env, redactor, Arc::clone(&builtin), plugins);
    let (servers, now) = (Arc::clone(&session_servers), tools_without_language_server(&languages));
    // Web settings are only loaded at the start, so these tools stay unavailable until a restart.
    let unavailable = if config.web.search.is_some() { Vec::new() } else { ToolRow::needing(ToolPart::WebSearch) };
    let toolbox = DaemonTools::new(builtin, Arc::clone(&mcp), servers, &config.tools, unavailable, now);
    // All tools that can be disabled, or whose description can be replaced.
    let configurable = [toolbox.all(), agentd_engine::hideable_tools()].concat();
    let toolbox = Arc::new(toolbox);
    let folders = {
        let (skills, Paths { data, config, .. }) = (skills.clone(), paths.clone());
        move |base: PathBuf, home: Option<&Path>| {
            WorkspaceFolders::new(base).with_private(&[&data, &config]).with_guides(
                &config,
                home,
                skills.clone(),
                Some(projects.clone()),
            )
        }
    };
    let mut workspaces = folders(paths.data.join("workspace"), env.path("HOME").as_deref())
        .with_memories(paths.data.join("memories"))
        .with_worktrees(worktrees);
    workspaces.code = code.clone();
    let player = Arc::new(Player {
        folder: paths.data.join("replays"),
        models: models.clone(),
        toolbox: toolbox.clone(),
        // Skills and projects are available as in sessions. Personal memories and drafts are omitted, because a
        // recording from another host could not contain them.
        workspaces: Box::new(move |base| folders(base.to_owned(), None)),
        snapshots: snapshot_config(config, env),
        languages: languages.clone(),
        audit: audit.clone(),
        redact: Arc::new(own_redactor.with_patterns()),
        permits: tokio::sync::Semaphore::new(MAX_REPLAYS),
    });
    let (replays, drafts) = (Arc::clone(&player), workspaces.clone());
    // Two tasks, so that a failure of one does not affect the other.
    let _ = tokio::task::spawn_blocking(move || replays.sweep()).await;
    let _ = tokio::task::spawn_blocking(move || drafts.sweep()).await;
    let engine = Engine::new(
        Ports {
            models: models.clone(),
            toolbox: toolbox.clone(),
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
    let (limits, data) = (config.daemon.retention.clone(), paths.data.clone());
    let retention = Retention::new(engine.clone(), store.clone(), audit.clone(), clock.clone(), data, limits);
    let mut notes = toolbox::notes(&config.tools, &configurable, &engine.tools());
    notes.extend(BuiltinToolbox::limit_warnings(&tool_limits(config)));
    notes.extend(layers::exposed_key_files(&config.files));
    let tools = engine.tools();
    notes.extend(agents::notes(&config.agents, &config.agent_plugins, tools.iter().map(|tool| tool.name.as_str())));
    Ok(Parts {
        engine,
        store,
        library,
        code,
        audit,
        exchanges,
        clock,
        sandbox,
        models,
        model_maker,
        toolbox,
        languages,
        mcp,
        session_servers,
        skills,
        player,
        retention: Arc::new(retention),
        notes,
    })
}

/// Creates the worktrees of sessions with the git program that commands use, and with the user's git identity if
/// commands have access to it.
fn worktrees(config: &Config, paths: &Paths, env: &Environment, sandbox: Arc<Sandbox>) -> WorktreeFolders {
    let environment = env.only(PASSED_TO_COMMANDS);
    let settings = sandbox::variables(config, env).get("GIT_CONFIG_GLOBAL").map(PathBuf::from);
    WorktreeFolders::new(paths.data.join("worktrees"), Some(sandbox), &environment, settings)
}

/// Returns the tools that are unavailable because no language server is installed.
pub fn tools_without_language_server(languages: &LanguagePool) -> Vec<&'static str> {
    let has_server = languages.found().iter().any(|server| server.program.is_some());
    if has_server { Vec::new() } else { ToolRow::needing(ToolPart::Languages) }
}

/// Opens the journal on a blocking thread. Opening may take a while after an unclean stop.
async fn open_store(path: PathBuf) -> Result<SqliteStore, Failure> {
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::open(StoreConfig { time_zone: TimeZone::system, ..StoreConfig::at(path) })
    })
    .await;
    let opened = opened.map_err(|error| Failure::broken("could not open the journal").with_source(error))?;
    opened.map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        let failure = Failure::broken(error.to_string()).with_source(error);
        hint.into_iter().fold(failure, Failure::with_hint)
    })
}

/// Builds the engine settings from the configuration.
pub fn engine_config(config: &Config) -> EngineConfig {
    let settings = &config.daemon;
    let interrupt_default = match settings.interrupts.on_deadline {
        OnDeadline::Reject => Answer::Reject { reason: Some("no answer in time".to_owned()) },
        OnDeadline::Approve => Answer::Approve,
    };
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
        max_message_history: settings.turns.max_message_history.0.map(BoundedInt::size),
        summary_slot: settings.turns.summary_slot.0,
        recall: settings.turns.recall,
        map_tokens: settings.turns.map_tokens.size(),
        planning: settings.turns.planning,
        ask_intent: settings.turns.ask_intent,
        titles: settings.turns.titles,
        guides: GuideLimits {
            memory: settings.memory.enabled,
            skills: settings.skills.enabled,
            max_file_bytes: settings.memory.max_file_bytes.size(),
            max_total_bytes: settings.memory.max_total_bytes.size(),
        },
        max_steps: settings.turns.max_steps.0,
        turn_time_limit: settings.turns.time_limit.0.map(|span| span.0),
        turn_token_budget: settings.turns.token_budget.0,
        parallel_calls: settings.turns.parallel_calls.size(),
        large_result_tokens: settings.tools.large_result_tokens.0,
        feedback_tokens: settings.tools.feedback_tokens.0,
        interrupt_deadline: settings.interrupts.deadline.0.map(|span| span.0),
        interrupt_default,
        queue_limit: settings.turns.queue_limit.size(),
        idle_unload: settings.sessions.idle_unload.0,
        max_input_bytes: settings.turns.max_input_bytes.size(),
    }
}

/// Returns the numeric limits of tools from `tools.yaml`.
fn tool_limits(config: &Config) -> BTreeMap<String, BTreeMap<String, u64>> {
    config.tools.iter().filter_map(|(name, tool)| Some((name.clone(), tool.limits.clone()?))).collect()
}

fn toolbox_config(
    config: &Config,
    env: &Environment,
    sandbox: Arc<Sandbox>,
    knowledge: Arc<dyn Knowledge>,
    code: Option<Arc<dyn CodeReader>>,
) -> ToolboxConfig {
    let mut toolbox = ToolboxConfig::new(TimeZone::system);
    toolbox.command_timeout = config.daemon.tools.command_timeout.0;
    toolbox.tool_limits = tool_limits(config);
    toolbox.environment = env.only(PASSED_TO_COMMANDS);
    toolbox.standing = sandbox::variables(config, env);
    toolbox.sandbox = Some(sandbox);
    toolbox.hard_links = config.daemon.sandbox.hard_links;
    toolbox.limits.whole_file_bytes = config.daemon.reading.whole_file_bytes.0;
    toolbox.limits.page_chars = config.daemon.reading.page_chars.size();
    toolbox.knowledge = Some(knowledge);
    toolbox.code = code;
    toolbox.web = Some(Arc::new(Fetcher::new(config.web.clone())));
    toolbox
}

/// Creates the pool of language servers, which run in the same environment as commands.
fn language_pool(config: &Config, paths: &Paths, env: &Environment, sandbox: Arc<Sandbox>) -> LanguagePool {
    let (root, base) = (paths.data.join("languages"), sandbox::variables(config, env));
    let environment = env.only(PASSED_TO_COMMANDS);
    let programs = ConfinedPrograms { sandbox, environment, base, root, is_secret: agentd_policy::holds_secrets };
    let rustup = env.path("RUSTUP_HOME").or_else(|| env.path("HOME").map(|home| home.join(".rustup")));
    let search_path = env.text("PATH").unwrap_or_default().into();
    LanguagePool::new(config.languages.clone(), ProgramPlaces { search_path, rustup }, Arc::new(programs))
}

fn snapshot_config(config: &Config, env: &Environment) -> SnapshotConfig {
    let (bounds, home) = (&config.daemon.undo, env.path("HOME"));
    let settings = env.path("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let user_configs =
        [home.as_ref().map(|home| home.join(".gitconfig")), settings.as_ref().map(|folder| folder.join("git/config"))];
    SnapshotConfig {
        max_file_bytes: bounds.max_file_bytes.0,
        max_total_bytes: bounds.max_total_bytes.0,
        max_files: bounds.max_files.size(),
        max_changes: bounds.max_changes.size(),
        git_configs: user_configs.into_iter().flatten().chain(["/etc/gitconfig".into()]).collect(),
        home,
        settings,
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
