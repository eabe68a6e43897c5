//! `agentd.yaml`: everything that is not about models or single tools.

use std::{path::PathBuf, time::Duration};

use agentd_core::{model::Slot, routing::Planning};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ConfigError, ErrorPlace, Sources,
    documents::{IndexLayer, IndexSettings, ReadingLayer, ReadingSettings},
    group::group,
    layers::{SourceFile, Subject},
    observation::{TelemetryLayer, TelemetrySettings, TraceLayer, TraceSettings},
    origin::{Origin, Origins},
    value::{Auto, Limit, Span, Within},
    yaml,
};

/// The variable for `turns.max_message_history`.
const HISTORY: &str = "MAX_MESSAGE_HISTORY";

/// The variable for `service.log_level`.
const LOG: &str = "AGENTD_LOG";

group! {
    /// New sessions, and unused ones.
    SessionSettings, SessionLayer {
        /// Ask before a tool changes a file.
        confirm_write: bool,
        /// Ask before a tool runs a command.
        confirm_exec: bool,
        /// Idle time after which a session leaves memory.
        idle_unload: Span,
    }
}

group! {
    /// The limits of one turn.
    TurnSettings, TurnLayer {
        /// Model calls.
        max_steps: Auto<u32>,
        /// Working time.
        time_limit: Limit<Span>,
        /// Tokens of requests and answers.
        token_budget: Limit<u64>,
        /// Messages of history that a model sees; `auto` where its window alone decides.
        max_message_history: Auto<Within<10, 100>>,
        /// The slot that sums up histories; `auto` for that of the turn.
        summary_slot: Auto<Slot>,
        /// Set if models are told passages of what was set aside where an input is about them.
        recall: bool,
        /// Tokens of the map of a project's code that models are told; 0 for none.
        map_tokens: Within<0, 10_000>,
        /// Says which turns begin with a plan.
        planning: Planning,
        /// Set if a model is asked about intents of which the words say too little.
        ask_intent: bool,
        /// Read-only calls of one step that run at once.
        parallel_calls: Within<1, 64>,
        /// Turns that may wait.
        queue_limit: Within<0, 1000>,
        /// The longest input, in bytes.
        max_input_bytes: Within<1024, 67_108_864>,
    }
}

group! {
    /// `AGENTS.md` files.
    MemorySettings, MemoryLayer {
        /// Set if models are shown their content.
        enabled: bool,
        /// Bytes of one file.
        max_file_bytes: Within<256, 1_048_576>,
        /// Bytes of all.
        max_total_bytes: Within<256, 4_194_304>,
    }
}

group! {
    /// Skills.
    SkillSettings, SkillLayer {
        /// Set if models are shown the list.
        enabled: bool,
        /// Hosts that serve files of the person's index of packages, besides those in its addresses.
        package_hosts: Vec<String>,
    }
}

group! {
    /// Unanswered questions.
    InterruptSettings, InterruptLayer {
        /// Time that they wait.
        deadline: Limit<Span>,
        /// Answer after that time.
        on_deadline: OnDeadline,
    }
}

group! {
    /// Limits of tools.
    ToolLimits, ToolLayer {
        /// Time limit of a command.
        command_timeout: Span,
        /// Above how many estimated tokens a result is kept in a file.
        large_result_tokens: Within<500, 1_000_000>,
        /// Above how many what a command says is reduced.
        feedback_tokens: Limit<u64>,
    }
}

group! {
    /// Sandbox of commands.
    SandboxSettings, SandboxLayer {
        /// Behaviour where the kernel offers less.
        mode: Confinement,
        /// Set if commands may use the network.
        network: bool,
        /// Places that commands may read, besides the system and the session's own.
        read: Vec<PathBuf>,
        /// Places that commands may change, besides the session's own.
        write: Vec<PathBuf>,
        /// Limit of CPU time of each process.
        cpu_time: Limit<Span>,
        /// The memory of each process, in MiB.
        memory_mib: Limit<u64>,
        /// The largest file, in MiB.
        file_mib: Limit<u64>,
        /// Files that each process may have open.
        open_files: Limit<u64>,
        /// Processes and threads of one command.
        processes: Limit<u64>,
        /// Treatment of files of a writable project that have other names outside of it.
        hard_links: HardLinkRule,
    }
}

group! {
    /// Variables of a client's environment that tools see.
    EnvironmentSettings, EnvironmentLayer {
        /// Names besides those that always pass.
        pass: Vec<String>,
    }
}

group! {
    /// Storage for undoing changes of files.
    UndoSettings, UndoLayer {
        /// The largest file, in bytes.
        max_file_bytes: Within<1024, 1_073_741_824>,
        /// All of one session, in bytes.
        max_total_bytes: Within<1_048_576, 1_099_511_627_776>,
        /// The files of one tree.
        max_files: Within<100, 10_000_000>,
        /// The changes of one call.
        max_changes: Within<100, 50_000>,
    }
}

group! {
    /// The audit log.
    AuditSettings, AuditLayer {
        /// The size at which the log is rotated, in bytes.
        max_file_bytes: Within<4096, 1_099_511_627_776>,
    }
}

group! {
    /// Retention of what is unused.
    RetentionSettings, RetentionLayer {
        /// Interval of cleanings.
        every: Limit<Span>,
        /// `uploads/`, `temp/` and `skills/` of a session.
        workspaces: Limit<Span>,
        /// Its `outputs/`.
        outputs: Limit<Span>,
        /// Its `large_tool_results/`.
        results: Limit<Span>,
        /// Contents needed to undo its changes of files.
        undo: Limit<Span>,
        /// All of it.
        sessions: Limit<Span>,
        /// The bytes of the journal, above which the sessions that were not used for longest go.
        journal_bytes: Limit<u64>,
        /// Files of the audit log that were set aside.
        audit: Limit<Span>,
        /// The bytes of the audit log, above which the oldest of those files go.
        audit_bytes: Limit<u64>,
        /// Files of the daemon's own log that were set aside.
        logs: Limit<Span>,
    }
}

group! {
    /// The model in the daemon's own process.
    EmbeddedSettings, EmbeddedLayer {
        /// Its weights; `auto` for those that came with agentd.
        weights: PathBuf,
        /// After how long without use it gives its memory back.
        idle_release: Span,
    }
}

group! {
    /// The process.
    ServiceSettings, ServiceLayer {
        /// Time limit for running turns at a stop.
        drain_deadline: Span,
        /// Log filter.
        log_level: String,
        /// Form of its lines.
        log_format: LogFormat,
    }
}

/// Form of the lines of the log. journald has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Behaviour where the kernel cannot confine a command fully.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Commands do not run.
    Enforce,
    /// They run with what there is.
    BestEffort,
    /// They run without a sandbox.
    Off,
}

/// Treatment of files of a writable project that have other names outside of it, before a command that may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HardLinkRule {
    /// They are replaced by copies.
    Split,
    /// The command is refused.
    Refuse,
    /// The command may change what is outside.
    Allow,
}

/// Answer to an approval whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// It is refused.
    Reject,
    /// It is granted.
    Approve,
}

/// `agentd.yaml`, all layers together.
#[derive(Debug, Clone)]
pub struct DaemonSettings {
    /// New sessions, and unused ones.
    pub sessions: SessionSettings,
    /// The limits of one turn.
    pub turns: TurnSettings,
    /// `AGENTS.md` files.
    pub memory: MemorySettings,
    /// Skills.
    pub skills: SkillSettings,
    /// Unanswered questions.
    pub interrupts: InterruptSettings,
    /// Limits of tools.
    pub tools: ToolLimits,
    /// Amounts of a file that are read at once.
    pub reading: ReadingSettings,
    /// The index of documents.
    pub index: IndexSettings,
    /// Sandbox of commands.
    pub sandbox: SandboxSettings,
    /// Variables of a client's environment that tools see.
    pub environment: EnvironmentSettings,
    /// Storage for undoing changes of files.
    pub undo: UndoSettings,
    /// The audit log.
    pub audit: AuditSettings,
    /// Retention of what is unused.
    pub retention: RetentionSettings,
    /// The model in the daemon's own process.
    pub embedded: EmbeddedSettings,
    /// Turns for an OpenTelemetry collector.
    pub telemetry: TelemetrySettings,
    /// Requests to models and their answers, as they are on the wire.
    pub trace: TraceSettings,
    /// The process.
    pub service: ServiceSettings,
}

/// One file, or what the layers so far add up to.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DaemonLayer {
    sessions: Option<SessionLayer>,
    turns: Option<TurnLayer>,
    memory: Option<MemoryLayer>,
    skills: Option<SkillLayer>,
    interrupts: Option<InterruptLayer>,
    tools: Option<ToolLayer>,
    reading: Option<ReadingLayer>,
    index: Option<IndexLayer>,
    environment: Option<EnvironmentLayer>,
    sandbox: Option<SandboxFile>,
    undo: Option<UndoLayer>,
    audit: Option<AuditLayer>,
    retention: Option<RetentionLayer>,
    embedded: Option<EmbeddedFile>,
    telemetry: Option<TelemetryLayer>,
    trace: Option<TraceLayer>,
    service: Option<ServiceLayer>,
}

/// As [`EmbeddedLayer`], with the place of the path, because a relative one belongs to its file's folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EmbeddedFile {
    weights: Option<Spanned<String>>,
    idle_release: Option<Span>,
}

/// As [`SandboxLayer`], with the places of the paths.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxFile {
    mode: Option<Confinement>,
    network: Option<bool>,
    read: Option<Vec<Spanned<String>>>,
    write: Option<Vec<Spanned<String>>>,
    cpu_time: Option<Limit<Span>>,
    memory_mib: Option<Limit<u64>>,
    file_mib: Option<Limit<u64>>,
    open_files: Option<Limit<u64>>,
    processes: Option<Limit<u64>>,
    hard_links: Option<HardLinkRule>,
}

pub(super) fn resolve(sources: &Sources, origins: &mut Origins) -> Result<DaemonSettings, ConfigError> {
    let mut sessions = SessionLayer::default();
    let mut turns = TurnLayer::default();
    let mut memory = MemoryLayer::default();
    let mut skills = SkillLayer::default();
    let mut interrupts = InterruptLayer::default();
    let mut tools = ToolLayer::default();
    let mut reading = ReadingLayer::default();
    let mut index = IndexLayer::default();
    let mut sandbox = SandboxLayer::default();
    let mut environment = EnvironmentLayer::default();
    let mut undo = UndoLayer::default();
    let mut audit = AuditLayer::default();
    let mut retention = RetentionLayer::default();
    let mut embedded = EmbeddedLayer::default();
    let mut telemetry = TelemetryLayer::default();
    let mut trace = TraceLayer::default();
    let mut service = ServiceLayer::default();

    let variables = sources.env.texts();
    for file in sources.files_about(Subject::Daemon) {
        let layer: DaemonLayer = yaml::parse(file, &variables)?;
        let own_model = layer.embedded.map(|layer| embedded_layer(file, layer, sources)).transpose()?;
        sessions.overlay(layer.sessions, "sessions", &file.origin, origins);
        turns.overlay(layer.turns, "turns", &file.origin, origins);
        memory.overlay(layer.memory, "memory", &file.origin, origins);
        skills.overlay(layer.skills, "skills", &file.origin, origins);
        interrupts.overlay(layer.interrupts, "interrupts", &file.origin, origins);
        tools.overlay(layer.tools, "tools", &file.origin, origins);
        reading.overlay(layer.reading, "reading", &file.origin, origins);
        index.overlay(layer.index, "index", &file.origin, origins);
        let confined = layer.sandbox.map(|layer| sandbox_layer(file, layer, sources)).transpose()?;
        sandbox.overlay(confined, "sandbox", &file.origin, origins);
        environment.overlay(layer.environment, "environment", &file.origin, origins);
        undo.overlay(layer.undo, "undo", &file.origin, origins);
        audit.overlay(layer.audit, "audit", &file.origin, origins);
        retention.overlay(layer.retention, "retention", &file.origin, origins);
        embedded.overlay(own_model, "embedded", &file.origin, origins);
        telemetry.overlay(layer.telemetry, "telemetry", &file.origin, origins);
        trace.overlay(layer.trace, "trace", &file.origin, origins);
        service.overlay(layer.service, "service", &file.origin, origins);
    }

    if let Some(text) = sources.env.text(HISTORY) {
        let number =
            Auto::parse(text).map_err(|why| ConfigError::new(ErrorPlace::Variable(HISTORY.to_owned()), why))?;
        let over = TurnLayer { max_message_history: Some(number), ..TurnLayer::default() };
        turns.overlay(Some(over), "turns", &Origin::Variable(HISTORY), origins);
    }
    if let Some(level) = sources.env.text(LOG) {
        let over = ServiceLayer { log_level: Some(level.to_owned()), ..ServiceLayer::default() };
        service.overlay(Some(over), "service", &Origin::Variable(LOG), origins);
    }
    if let Some(level) = &sources.flags.log_level {
        let over = ServiceLayer { log_level: Some(level.clone()), ..ServiceLayer::default() };
        service.overlay(Some(over), "service", &Origin::Flag("--log-level"), origins);
    }

    Ok(DaemonSettings {
        sessions: sessions.complete("sessions")?,
        turns: turns.complete("turns")?,
        memory: memory.complete("memory")?,
        skills: skills.complete("skills")?,
        interrupts: interrupts.complete("interrupts")?,
        tools: tools.complete("tools")?,
        reading: reading.complete("reading")?,
        index: index.complete("index")?.checked(origins)?,
        sandbox: sandbox.complete("sandbox")?,
        environment: environment.complete("environment")?,
        undo: undo.complete("undo")?,
        audit: audit.complete("audit")?,
        retention: retention.complete("retention")?,
        embedded: embedded.complete("embedded")?,
        telemetry: telemetry.complete("telemetry")?,
        trace: trace.complete("trace")?,
        service: checked(service.complete("service")?, origins)?,
    })
}

fn embedded_layer(file: &SourceFile, layer: EmbeddedFile, sources: &Sources) -> Result<EmbeddedLayer, ConfigError> {
    let weights = match &layer.weights {
        Some(path) => {
            let path = yaml::text(file, path, &sources.env.texts())?;
            Some(if path == "auto" { PathBuf::from(path) } else { sources.path_in(file, &path) })
        }
        None => None,
    };
    Ok(EmbeddedLayer { weights, idle_release: layer.idle_release })
}

fn sandbox_layer(file: &SourceFile, layer: SandboxFile, sources: &Sources) -> Result<SandboxLayer, ConfigError> {
    let variables = sources.env.texts();
    let paths = |paths: Option<Vec<Spanned<String>>>| {
        let path = |path: &Spanned<String>| Ok(sources.path_in(file, &yaml::text(file, path, &variables)?));
        paths.map(|paths| paths.iter().map(path).collect::<Result<Vec<_>, ConfigError>>()).transpose()
    };
    Ok(SandboxLayer {
        mode: layer.mode,
        network: layer.network,
        read: paths(layer.read)?,
        write: paths(layer.write)?,
        cpu_time: layer.cpu_time,
        memory_mib: layer.memory_mib,
        file_mib: layer.file_mib,
        open_files: layer.open_files,
        processes: layer.processes,
        hard_links: layer.hard_links,
    })
}

/// A filter that cannot be read would otherwise silence the log without a word.
fn checked(service: ServiceSettings, origins: &Origins) -> Result<ServiceSettings, ConfigError> {
    match crate::log_filter::parse(&service.log_level) {
        Some(_) => Ok(service),
        None => {
            let key = "service.log_level";
            let place = origins.get(key).map_or_else(
                || ErrorPlace::Setting(key.to_owned()),
                |origin| match origin {
                    Origin::Flag(name) => ErrorPlace::Flag((*name).to_owned()),
                    Origin::Variable(name) => ErrorPlace::Variable((*name).to_owned()),
                    other => ErrorPlace::File(other.path(), None),
                },
            );
            Err(ConfigError::new(place, format!("`{}` is not a log level", service.log_level))
                .with_hint("write error, warn, info, debug or trace, or a filter such as `info,agentd_models=debug`"))
        }
    }
}

impl DaemonSettings {
    /// The weights of the embedded model: a named file, or nothing for those that came with agentd.
    #[must_use]
    pub fn named_weights(&self) -> Option<PathBuf> {
        let weights = &self.embedded.weights;
        (weights.as_os_str() != "auto").then(|| weights.clone())
    }

    /// Time limit for running turns at a stop.
    #[must_use]
    pub fn drain_deadline(&self) -> Duration {
        self.service.drain_deadline.0
    }
}
