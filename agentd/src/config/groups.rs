//! The groups of keys of `agentd.yaml`: one row a setting, which several layers may set. The macros make of it the settings as
//! they are used, the same as one layer may set them, and how layers are laid over each other.

use std::path::PathBuf;

use agentd_core::{model::Slot, routing::Planning};
use agentd_sandbox::config::SandboxMode;
use agentd_workspace::hard_links::HardLinks;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use crate::config::{
    ConfigError, ErrorPlace, Sources,
    layers::{Origin, Origins, SourceFile},
    yaml::{self, Auto, Limit, Span, Within},
};

/// Puts the fields of a higher layer above those of a lower one, and notes each by its name.
macro_rules! take {
    ($under:expr, $over:expr, $note:expr; $($field:ident),* $(,)?) => {$(
        if $over.$field.is_some() {
            $under.$field = $over.$field;
            $note(stringify!($field));
        }
    )*};
}

pub(super) use take;

/// One group of keys: the settings as they are used, and the same as one layer may set them.
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
                over: Option<Self>,
                group: &str,
                origin: &Origin,
                origins: &mut Origins,
            ) {
                let over = over.unwrap_or_default();
                let mut note = |field| origins.set(format!("{group}.{field}"), origin);
                $crate::config::groups::take!(self, over, note; $($field),*);
            }

            pub(in crate::config) fn complete(self, group: &str) -> Result<$name, ConfigError> {
                let missing = |field| {
                    let place = ErrorPlace::Setting(format!("{group}.{field}"));
                    move || ConfigError::new(place, "no layer sets this key")
                };
                Ok($name { $($field: self.$field.ok_or_else(missing(stringify!($field)))?,)* })
            }
        }
    };
}

pub(super) use group;

/// All groups of a file.
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
            pub(super) fn overlay(&mut self, over: Self, origin: &Origin, origins: &mut Origins) {
                $(self.$group.get_or_insert_default().overlay(over.$group, stringify!($group), origin, origins);)*
            }

            pub(super) fn complete(self) -> Result<$name, ConfigError> {
                Ok($name { $($group: self.$group.unwrap_or_default().complete(stringify!($group))?,)* })
            }
        }
    };
}

groups! {
    /// `agentd.yaml`, all layers together.
    DaemonSettings, DaemonLayer {
        /// New sessions, and unused ones.
        sessions: SessionSettings, SessionLayer {
            /// Ask before a tool changes a file.
            confirm_write: bool,
            /// Ask before a tool runs a command.
            confirm_exec: bool,
            /// Idle time after which a session leaves memory.
            idle_unload: Span,
        }
        /// The limits of one turn.
        turns: TurnSettings, TurnLayer {
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
        /// `AGENTS.md` files.
        memory: MemorySettings, MemoryLayer {
            /// Set if models are shown their content.
            enabled: bool,
            /// Bytes of one file.
            max_file_bytes: Within<256, 1_048_576>,
            /// Bytes of all.
            max_total_bytes: Within<256, 4_194_304>,
        }
        /// Skills.
        skills: SkillSettings, SkillLayer {
            /// Set if models are shown the list.
            enabled: bool,
            /// Hosts that serve files of the person's index of packages, besides those in its addresses.
            package_hosts: Vec<String>,
        }
        /// Unanswered questions.
        interrupts: InterruptSettings, InterruptLayer {
            /// Time that they wait.
            deadline: Limit<Span>,
            /// Answer after that time.
            on_deadline: OnDeadline,
        }
        /// Limits of tools.
        tools: ToolLimits, ToolLayer {
            /// Time limit of a command.
            command_timeout: Span,
            /// Above how many estimated tokens a result is kept in a file.
            large_result_tokens: Within<500, 1_000_000>,
            /// Above how many what a command says is reduced.
            feedback_tokens: Limit<u64>,
        }
        /// Amounts of a file that are read at once.
        reading: ReadingSettings, ReadingLayer {
            /// Size up to which a text file is read whole, in bytes.
            whole_file_bytes: Within<1024, 10_485_760>,
            /// Characters of a larger one.
            page_chars: Within<1000, 1_000_000>,
            /// Pages of a document.
            document_pages: Within<1, 1000>,
            /// Characters of them.
            document_chars: Within<1000, 1_000_000>,
            /// Sheets of a workbook.
            workbook_sheets: Within<1, 1000>,
            /// Characters of them.
            workbook_chars: Within<1000, 1_000_000>,
            /// Slides of a presentation.
            presentation_slides: Within<1, 1000>,
            /// Characters of them.
            presentation_chars: Within<1000, 1_000_000>,
            /// Scanned pages of a document whose letters are recognised at once; 0 switches recognition off.
            recognised_pages: Within<0, 1000>,
        }
        /// The index of documents.
        index: IndexSettings, IndexLayer {
            /// Characters of a chunk.
            chunk_chars: Within<100, 4000>,
            /// Characters that it shares with the one before.
            chunk_overlap: Within<0, 2000>,
            /// Rows of a chunk of a sheet.
            chunk_rows: Within<1, 500>,
            /// Rows that it shares with the one before.
            row_overlap: Within<0, 250>,
            /// Time without use after which a document may go early.
            stale_after: Span,
            /// Time without use after which it goes.
            keep: Span,
            /// Size of the index above which stale documents go early, in bytes.
            max_bytes: Within<10_485_760, 1_099_511_627_776>,
        }
        /// Variables of a client's environment that tools see.
        environment: EnvironmentSettings, EnvironmentLayer {
            /// Names besides those that always pass.
            pass: Vec<String>,
        }
        /// Sandbox of commands.
        sandbox: SandboxSettings, SandboxLayer {
            /// Behaviour where the kernel offers less.
            mode: SandboxMode,
            /// Set if commands may use the network.
            network: bool,
            /// Places that commands may read, besides the system and the session's own.
            read: Vec<FilePath>,
            /// Places that commands may change, besides the session's own.
            write: Vec<FilePath>,
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
            hard_links: HardLinks,
        }
        /// Storage for undoing changes of files.
        undo: UndoSettings, UndoLayer {
            /// The largest file, in bytes.
            max_file_bytes: Within<1024, 1_073_741_824>,
            /// All of one session, in bytes.
            max_total_bytes: Within<1_048_576, 1_099_511_627_776>,
            /// The files of one tree.
            max_files: Within<100, 10_000_000>,
            /// The changes of one call.
            max_changes: Within<100, 50_000>,
        }
        /// The audit log.
        audit: AuditSettings, AuditLayer {
            /// The size at which the log is rotated, in bytes.
            max_file_bytes: Within<4096, 1_099_511_627_776>,
        }
        /// Retention of what is unused.
        retention: RetentionSettings, RetentionLayer {
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
        /// The model in the daemon's own process.
        embedded: EmbeddedSettings, EmbeddedLayer {
            /// Its weights; `auto` for those that came with agentd.
            weights: FilePath,
            /// After how long without use it gives its memory back.
            idle_release: Span,
        }
        /// Turns for an OpenTelemetry collector.
        telemetry: TelemetrySettings, TelemetryLayer {
            /// Address of the collector, or `none`. Variables precede it.
            endpoint: String,
            /// Set if words, arguments and results are sent.
            content: bool,
        }
        /// Requests to models and their answers, as they are on the wire.
        trace: TraceSettings, TraceLayer {
            /// Set if those of all sessions are kept.
            requests: bool,
            /// The size at which a file of a session is rotated, in bytes.
            max_file_bytes: Within<65_536, 1_099_511_627_776>,
            /// Files of a session.
            max_files: Within<1, 100>,
        }
        /// The process.
        service: ServiceSettings, ServiceLayer {
            /// Time limit for running turns at a stop.
            drain_deadline: Span,
            /// Log filter.
            log_level: String,
            /// Form of its lines.
            log_format: LogFormat,
        }
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

/// Answer to an approval whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// It is refused.
    Reject,
    /// It is granted.
    Approve,
}

/// A path that a file names. A relative one belongs to the file's folder.
#[derive(Debug, Clone, Default, Eq)]
pub struct FilePath {
    /// The path, as it was written.
    pub text: String,
    /// The whole path.
    pub path: PathBuf,
    /// The text with its place, until it is known which file it is of.
    written: Option<Spanned<String>>,
}

/// Written otherwise, it is the same path.
impl PartialEq for FilePath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl FilePath {
    pub(super) fn place(&mut self, file: &SourceFile, sources: &Sources) -> Result<(), ConfigError> {
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
