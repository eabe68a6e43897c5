//! The key groups of `agentd.yaml`, one row per setting. The macros generate the complete settings, the partial
//! settings of one layer, and the merging of layers.

use std::path::PathBuf;

use agentd_core::{model::Slot, routing::Planning};
use agentd_sandbox::config::SandboxMode;
use agentd_workspace::hard_links::HardLinks;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorLocation, Sources,
    layers::{Origin, Origins, SourceFile},
    yaml::{self, Auto, BoundedInt, Limit, Span},
};

/// Overwrites the fields that a higher layer sets, and records their names.
macro_rules! overlay_fields {
    ($lower:expr, $overrides:expr, $note:expr; $($field:ident),* $(,)?) => {$(
        if $overrides.$field.is_some() {
            $lower.$field = $overrides.$field;
            $note(stringify!($field));
        }
    )*};
}

pub(super) use overlay_fields;

/// Replaces a value that a higher layer sets, and records its key.
pub(super) fn replace<T>(lower: &mut T, value: Option<T>, key: &str, note: &mut impl FnMut(&str)) {
    if let Some(value) = value {
        *lower = value;
        note(key);
    }
}

/// Generates one group of keys: the complete settings, and a struct with optional fields for one layer.
macro_rules! group {
    ($(#[$doc:meta])* $vis:vis $name:ident, $layer:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $name { $($(#[$field_doc])* $vis $field: $kind,)* }

        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(in crate::config) struct $layer { $(pub(in crate::config) $field: Option<$kind>,)* }

        impl $layer {
            pub(in crate::config) fn overlay(
                &mut self,
                overrides: Option<Self>,
                group: &str,
                origin: &Origin,
                origins: &mut Origins,
            ) {
                let overrides = overrides.unwrap_or_default();
                let mut note = |field| origins.set(format!("{group}.{field}"), origin);
                $crate::config::groups::overlay_fields!(self, overrides, note; $($field),*);
            }

            pub(in crate::config) fn complete(self, group: &str) -> Result<$name, ConfigError> {
                let missing = |field| {
                    let location = ErrorLocation::Setting(format!("{group}.{field}"));
                    move || ConfigError::new(location, "no layer sets this key")
                };
                Ok($name { $($field: self.$field.ok_or_else(missing(stringify!($field)))?,)* })
            }
        }
    };
}

pub(super) use group;

/// Generates the settings of a file with all its groups.
macro_rules! groups {
    ($(#[$doc:meta])* $name:ident, $layers:ident {
        $($(#[$group_doc:meta])* $group:ident: $settings:ident, $layer:ident { $($fields:tt)* })*
    }) => {
        $($crate::config::groups::group! { $(#[$group_doc])* pub $settings, $layer { $($fields)* } })*

        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name { $($(#[$group_doc])* pub $group: $settings,)* }

        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $layers { $(pub(super) $group: Option<$layer>,)* }

        impl $layers {
            pub(super) fn overlay(&mut self, overrides: Self, origin: &Origin, origins: &mut Origins) {
                $(self.$group.get_or_insert_default().overlay(overrides.$group, stringify!($group), origin, origins);)*
            }

            pub(super) fn complete(self) -> Result<$name, ConfigError> {
                Ok($name { $($group: self.$group.unwrap_or_default().complete(stringify!($group))?,)* })
            }
        }
    };
}

groups! {
    /// The merged settings of `agentd.yaml`.
    DaemonSettings, DaemonLayer {
        /// Defaults of new sessions, and unloading of idle sessions.
        sessions: SessionSettings, SessionLayer {
            /// Ask before a tool changes a file.
            confirm_write: bool,
            /// Ask before a tool runs a command.
            confirm_exec: bool,
            /// Idle time after which a session is unloaded from memory.
            idle_unload: Span,
        }
        /// Limits of one turn.
        turns: TurnSettings, TurnLayer {
            /// Maximum number of model calls.
            max_steps: Auto<u32>,
            /// Maximum working time of a turn.
            time_limit: Limit<Span>,
            /// Maximum number of tokens in requests and answers.
            token_budget: Limit<u64>,
            /// Maximum number of history messages in a request. With `auto`, only the context window limits the
            /// history.
            max_message_history: Auto<BoundedInt<10, 100>>,
            /// Slot of the model that summarises histories; with `auto`, the slot of the turn.
            summary_slot: Auto<Slot>,
            /// True if passages from the compacted history that match the input are added to the request.
            recall: bool,
            /// Size of the project's code map in requests, in tokens; 0 for no map.
            map_tokens: BoundedInt<0, 10_000>,
            /// Selects the turns that start with a plan.
            planning: Planning,
            /// True if a model classifies intents that the rules cannot determine.
            ask_intent: bool,
            /// True if the model makes the title of a new chat.
            titles: bool,
            /// Maximum number of read-only calls in one step that run in parallel.
            parallel_calls: BoundedInt<1, 64>,
            /// Maximum number of queued turns.
            queue_limit: BoundedInt<0, 1000>,
            /// Maximum size of an input in bytes.
            max_input_bytes: BoundedInt<1024, 67_108_864>,
        }
        /// Loading of `AGENTS.md` files.
        memory: MemorySettings, MemoryLayer {
            /// True if the content of these files is added to requests.
            enabled: bool,
            /// Maximum size of one file, in bytes.
            max_file_bytes: BoundedInt<256, 1_048_576>,
            /// Maximum total size of all files, in bytes.
            max_total_bytes: BoundedInt<256, 4_194_304>,
        }
        /// Settings of skills in requests.
        skills: SkillSettings, SkillLayer {
            /// True if the list of skills is added to requests.
            enabled: bool,
            /// Hosts that serve files of the user's package index, in addition to the hosts of the index URLs.
            package_hosts: Vec<String>,
        }
        /// Handling of unanswered questions.
        interrupts: InterruptSettings, InterruptLayer {
            /// Time until an unanswered question expires.
            deadline: Limit<Span>,
            /// Answer to an expired question.
            on_deadline: OnDeadline,
        }
        /// Limits of tools and their results.
        tools: ToolLimits, ToolLayer {
            /// Time limit of a command.
            command_timeout: Span,
            /// Estimated number of tokens above which a result is moved to a file.
            large_result_tokens: BoundedInt<500, 1_000_000>,
            /// Number of tokens above which the output of a command is condensed.
            feedback_tokens: Limit<u64>,
        }
        /// Amounts read from a file in one call.
        reading: ReadingSettings, ReadingLayer {
            /// Size in bytes up to which a text file is read completely.
            whole_file_bytes: BoundedInt<1024, 10_485_760>,
            /// Number of characters read of a larger text file.
            page_chars: BoundedInt<1000, 1_000_000>,
            /// Pages of a document read in one call.
            document_pages: BoundedInt<1, 1000>,
            /// Maximum number of characters of document pages read in one call.
            document_chars: BoundedInt<1000, 1_000_000>,
            /// Sheets of a workbook read in one call.
            workbook_sheets: BoundedInt<1, 1000>,
            /// Maximum number of characters of workbook sheets read in one call.
            workbook_chars: BoundedInt<1000, 1_000_000>,
            /// Slides of a presentation read in one call.
            presentation_slides: BoundedInt<1, 1000>,
            /// Maximum number of characters of slides read in one call.
            presentation_chars: BoundedInt<1000, 1_000_000>,
            /// Scanned pages of a document recognised (OCR) in one call; 0 disables recognition.
            recognised_pages: BoundedInt<0, 1000>,
        }
        /// The index of documents.
        index: IndexSettings, IndexLayer {
            /// Number of characters in a text chunk.
            chunk_chars: BoundedInt<100, 4000>,
            /// Number of characters that a chunk shares with the previous one.
            chunk_overlap: BoundedInt<0, 2000>,
            /// Number of rows in a sheet chunk.
            chunk_rows: BoundedInt<1, 500>,
            /// Number of rows that a chunk shares with the previous one.
            row_overlap: BoundedInt<0, 250>,
            /// Time without use after which a document is stale and may be removed early.
            stale_after: Span,
            /// Time without use after which a document is removed.
            keep: Span,
            /// Size of the index above which stale documents are removed, in bytes.
            max_bytes: BoundedInt<10_485_760, 1_099_511_627_776>,
        }
        /// Variables of a client's environment that are passed to tools.
        environment: EnvironmentSettings, EnvironmentLayer {
            /// Variables that are passed in addition to the built-in list.
            pass: Vec<String>,
        }
        /// Sandbox and limits of commands.
        sandbox: SandboxSettings, SandboxLayer {
            /// Behaviour if the kernel lacks sandbox features.
            mode: SandboxMode,
            /// True if commands may use the network.
            network: bool,
            /// Paths that commands may read, in addition to the system and the session's folders.
            read: Vec<FilePath>,
            /// Paths that commands may write, in addition to the session's folders.
            write: Vec<FilePath>,
            /// CPU time limit of each process.
            cpu_time: Limit<Span>,
            /// Memory limit of each process, in MiB.
            memory_mib: Limit<u64>,
            /// Maximum size of a file, in MiB.
            file_mib: Limit<u64>,
            /// Maximum number of open files of each process.
            open_files: Limit<u64>,
            /// Maximum number of processes and threads of one command.
            processes: Limit<u64>,
            /// Handling of files in a writable project that have hard links outside the project.
            hard_links: HardLinks,
        }
        /// Storage for undoing file changes.
        undo: UndoSettings, UndoLayer {
            /// Maximum size of a file in bytes.
            max_file_bytes: BoundedInt<1024, 1_073_741_824>,
            /// Maximum size of one session's snapshots in bytes.
            max_total_bytes: BoundedInt<1_048_576, 1_099_511_627_776>,
            /// Maximum number of files in one tree.
            max_files: BoundedInt<100, 10_000_000>,
            /// Maximum number of changes in one call.
            max_changes: BoundedInt<100, 50_000>,
        }
        /// Settings of the audit log.
        audit: AuditSettings, AuditLayer {
            /// Size in bytes at which the log is rotated.
            max_file_bytes: BoundedInt<4096, 1_099_511_627_776>,
        }
        /// Retention times of unused data.
        retention: RetentionSettings, RetentionLayer {
            /// Interval between two cleanups.
            every: Limit<Span>,
            /// Retention of `uploads/`, `temp/` and `skills/` of a session.
            workspaces: Limit<Span>,
            /// Retention of a session's `outputs/`.
            outputs: Limit<Span>,
            /// Retention of a session's `large_tool_results/`.
            results: Limit<Span>,
            /// Retention of contents needed to undo a session's file changes.
            undo: Limit<Span>,
            /// Retention of whole sessions.
            sessions: Limit<Span>,
            /// Size of the journal in bytes above which the least recently used sessions are removed.
            journal_bytes: Limit<u64>,
            /// Retention of rotated files of the audit log.
            audit: Limit<Span>,
            /// Size of the audit log in bytes above which the oldest rotated files are removed.
            audit_bytes: Limit<u64>,
            /// Retention of rotated files of the daemon's log.
            logs: Limit<Span>,
        }
        /// The embedded model, which runs in the daemon's process.
        embedded: EmbeddedSettings, EmbeddedLayer {
            /// File that contains the model's weights; `auto` for the bundled weights.
            weights: FilePath,
            /// Idle time after which the model's memory is released.
            idle_release: Span,
        }
        /// Export of turns to an OpenTelemetry collector.
        telemetry: TelemetrySettings, TelemetryLayer {
            /// URL of the collector, or `none`. Environment variables take precedence.
            endpoint: String,
            /// True if texts, arguments and results are exported.
            content: bool,
        }
        /// Log of requests to models and their answers, as sent on the wire.
        trace: TraceSettings, TraceLayer {
            /// True if the requests of all sessions are logged.
            requests: bool,
            /// Size at which a session's log file is rotated, in bytes.
            max_file_bytes: BoundedInt<65_536, 1_099_511_627_776>,
            /// Maximum number of log files of one session.
            max_files: BoundedInt<1, 100>,
        }
        /// Settings of the daemon process.
        service: ServiceSettings, ServiceLayer {
            /// Time limit for running turns when the daemon stops.
            drain_deadline: Span,
            /// Filter for the log.
            log_level: String,
            /// Format of the log lines.
            log_format: LogFormat,
        }
    }
}

/// Format of the log lines. journald has a separate format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Plain text for humans.
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// Answer to an approval whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// The call is rejected.
    Reject,
    /// The call is approved.
    Approve,
}

/// Path in a configuration file. A relative path refers to the file's folder.
#[derive(Debug, Clone, Default, Eq)]
pub struct FilePath {
    /// Path as written in the file.
    pub text: String,
    /// Path resolved against the file's folder.
    pub path: PathBuf,
    /// Path as written, with its location, until the path is resolved.
    written: Option<Spanned<String>>,
}

/// Compares the resolved paths, because the same path can be written in several ways.
impl PartialEq for FilePath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl FilePath {
    pub(super) fn resolve(&mut self, file: &SourceFile, sources: &Sources) -> Result<(), ConfigError> {
        if let Some(written) = self.written.take() {
            self.text = yaml::text(file, &written, &sources.env.texts())?;
            self.path = sources.path_in(file, &self.text);
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { written: Some(Spanned::deserialize(deserializer)?), ..Self::default() })
    }
}
