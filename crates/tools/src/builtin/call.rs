//! Call to a built-in tool with its services, and the trait that each tool implements. Also stores renames that were
//! shown to the user, so that exactly the shown edits run, even if a language server would later return different
//! edits.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    ids::{CallId, SessionId, TurnId},
    language::SourceRewrite,
    mutex::lock,
    ports::{CodeReader, Knowledge, Languages, ToolContext, Web},
    tool::{ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
    tool_table::ToolRow,
};
use agentd_extensions::skills::SkillStore;
use agentd_sandbox::host::Sandbox;
use agentd_workspace::{
    failure::Failure,
    hard_links::HardLinks,
    jail::Jail,
    job::Job,
    limits::Limits,
    path::{PathPlace, ToolPath},
};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::documents::Passwords;

/// Settings for the tools.
#[derive(Debug, Clone)]
pub struct ToolboxConfig {
    /// Function that returns the user's time zone. Called for each tool call, because users travel. The composition
    /// root passes `TimeZone::system`; no lower layer reads the environment.
    pub time_zone: fn() -> TimeZone,
    /// Time limit for commands whose call sets none.
    pub command_timeout: Duration,
    /// Configured limits, by tool and name.
    pub tool_limits: BTreeMap<String, BTreeMap<String, u64>>,
    /// Environment for commands whose client sends none. Overrides the defaults (`PATH`, `LANG`, …).
    pub environment: BTreeMap<String, String>,
    /// Additional variables, which the client's environment overrides.
    pub standing: BTreeMap<String, String>,
    /// Sandbox for commands. Without a sandbox, commands have the daemon's permissions.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Treatment of files with hard links outside a writable project, applied before a command that may write.
    pub hard_links: HardLinks,
    /// Skills, whose programs are available to commands that use them.
    pub skills: Option<SkillStore>,
    /// Reader for documents. Without a reader, only text is read.
    pub knowledge: Option<Arc<dyn Knowledge>>,
    /// Reader for code. Without a reader, there is no code index.
    pub code: Option<Arc<dyn CodeReader>>,
    /// Access to the web, if any.
    pub web: Option<Arc<dyn Web>>,
    /// Language servers. Without them, no tool can query a language server.
    pub languages: Option<Arc<dyn Languages>>,
    /// Maximum number of concurrent calls that work on files, over all sessions.
    pub parallel_file_calls: usize,
    /// Limits on what a call may read, write, visit and return.
    pub limits: Limits,
}

impl ToolboxConfig {
    /// Returns the default settings: commands time out after two minutes.
    pub fn new(time_zone: fn() -> TimeZone) -> Self {
        Self {
            time_zone,
            command_timeout: Duration::from_secs(120),
            tool_limits: BTreeMap::new(),
            environment: BTreeMap::new(),
            standing: BTreeMap::new(),
            sandbox: None,
            hard_links: HardLinks::default(),
            skills: None,
            knowledge: None,
            code: None,
            web: None,
            languages: None,
            parallel_file_calls: 8,
            limits: Limits::default(),
        }
    }
}

/// Settings for the tools, and state that persists between calls.
#[derive(Debug)]
pub(crate) struct ToolServices {
    pub(crate) config: ToolboxConfig,
    pub(crate) passwords: Passwords,
    pub(crate) renames: ShownRenames,
    pub(crate) notes: ShownNotes,
    /// Semaphore that limits the number of threads that work on files.
    pub(crate) workers: Arc<Semaphore>,
}

/// Call to a tool, with its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) services: &'a ToolServices,
    pub(crate) context: &'a ToolContext,
    pub(crate) call: &'a ToolCall,
}

/// Limit of a tool, set under `limits` in `tools.yaml`.
#[derive(Debug)]
pub(crate) struct ToolLimit {
    pub(crate) name: &'static str,
    pub(crate) range: RangeInclusive<u64>,
    /// Value if the limit is unset or out of range.
    pub(crate) default: u64,
}

impl ToolLimit {
    /// Returns the value that applies to a tool.
    pub(crate) fn of(&self, tool: &str, config: &ToolboxConfig) -> u64 {
        let set = config.tool_limits.get(tool).and_then(|limits| limits.get(self.name)).copied();
        set.filter(|number| self.range.contains(number)).unwrap_or(self.default)
    }
}

/// Function that returns the files that a call changes, according to its arguments.
pub(crate) type PathsOf<A> = fn(&Jail, &A) -> Result<Vec<ToolPath>, Failure>;

/// Built-in tool, implemented by the type of its arguments.
pub(crate) trait Tool: DeserializeOwned + JsonSchema + Send {
    /// Name of the tool, which has a row in the tool table.
    const NAME: &'static str;
    /// Paths of the files that a call changes, for tools that only change the files named in their arguments.
    const PATHS: Option<PathsOf<Self>> = None;
    /// Limit that users can set.
    const LIMIT: Option<&'static ToolLimit> = None;

    /// Returns the tool specification for models.
    fn spec(row: &ToolRow, _: &ToolboxConfig) -> ToolSpec {
        ToolSpec::of::<Self>(row.name, row.effect)
    }

    /// Runs a call to the tool.
    fn run(self, call: Call<'_>) -> impl Future<Output = Result<ToolOutput, Failure>> + Send;

    /// Returns the preview for the approval prompt. Changes nothing.
    fn preview(self, _: Call<'_>) -> impl Future<Output = Result<Option<String>, Failure>> + Send {
        async { Ok(None) }
    }
}

impl<'a> Call<'a> {
    /// Returns the document reader, or a failure if none is configured.
    pub(crate) fn knowledge(self) -> Result<&'a Arc<dyn Knowledge>, Failure> {
        available(&self.services.config.knowledge, "document tools are not available")
    }

    /// Returns the code reader, or a failure if none is configured.
    pub(crate) fn code(self) -> Result<&'a Arc<dyn CodeReader>, Failure> {
        available(&self.services.config.code, "the code index is not available")
    }

    /// Returns the access to the web, or a failure if none is configured.
    pub(crate) fn web(self) -> Result<&'a dyn Web, Failure> {
        available(&self.services.config.web, "web access is not available").map(|web| &**web)
    }

    /// Returns the language servers, or a failure if none are configured.
    pub(crate) fn languages(self) -> Result<&'a Arc<dyn Languages>, Failure> {
        available(&self.services.config.languages, "language servers are not available")
    }

    /// Returns the notes that searches of the turn have shown.
    pub(crate) fn notes(self) -> SearchNotes {
        SearchNotes { turn: self.context.turn_id, shown: Arc::clone(&self.services.notes) }
    }

    /// Runs work on a blocking thread as soon as a thread is free. The work is cancelled if the future is dropped.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&Job) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Self { services, context, .. } = self;
        let cancel: CancellationToken = context.cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let permit = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(Failure::cancelled()),
            permit = Arc::clone(&services.workers).acquire_owned() => permit,
        };
        let context = context.clone();
        let limits = services.config.limits.clone();
        let result = tokio::task::spawn_blocking(move || {
            // The permit is released when the thread is done, even if the future was dropped earlier.
            let _permit = permit;
            work(&Job::of(&context, &limits, cancel))
        });
        result.await.unwrap_or_else(|_| Err(defect()))
    }

    /// Runs work that may also change the session's state files. State changes are stored together with the result, so
    /// they are not reported as file changes.
    pub(crate) async fn write<A: Send + 'static>(
        self,
        args: A,
        work: fn(&Job, A) -> Result<ToolOutput, Failure>,
    ) -> Result<ToolOutput, Failure> {
        self.work(move |job| {
            let mut output = work(job, args)?;
            output.state_files = job.files.state_changes();
            for note in job.files.notes() {
                output.text.push_str(&format!("\n[{note}]"));
            }
            let is_state = |path: &str| job.files.locate(path).is_ok_and(|path| path.place() == PathPlace::State);
            output.files.retain(|file| !is_state(&file.path));
            Ok(output)
        })
        .await
    }
}

fn available<'a, T: ?Sized>(part: &'a Option<Arc<T>>, missing: &str) -> Result<&'a Arc<T>, Failure> {
    part.as_ref().ok_or_else(|| Failure::new(ToolErrorCode::UnknownTool, missing))
}

/// Returns the failure for a call that panicked.
pub(crate) fn defect() -> Failure {
    tracing::error!("a tool panicked");
    Failure::tool("internal error in the tool; try a different approach")
}

/// Maximum number of remembered notes, over all turns.
const MAX_NOTES: usize = 500;

/// Notes with the turns that have seen them, newest first.
pub(crate) type ShownNotes = Arc<Mutex<VecDeque<(TurnId, String)>>>;

/// Notes about what the searches of a turn did not search. The model sees each note once.
#[derive(Debug, Clone)]
pub(crate) struct SearchNotes {
    turn: TurnId,
    shown: ShownNotes,
}

impl SearchNotes {
    /// Returns the note, or an empty text if a search of the same scope in this turn has shown it.
    pub(crate) fn once(&self, scope: &str, note: String) -> String {
        let (mut shown, seen) = (lock(&self.shown), (self.turn, format!("{scope}\n{note}")));
        if shown.contains(&seen) {
            return String::new();
        }
        shown.push_front(seen);
        shown.truncate(MAX_NOTES);
        note
    }
}

/// Maximum number of stored renames.
const MAX_STORED: usize = 16;

/// Old and new name of a symbol.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// Rename with its edits.
#[derive(Debug, Clone)]
pub(crate) struct PlannedRename {
    pub(crate) names: Names,
    pub(crate) rewrites: Vec<SourceRewrite>,
}

/// Identity of a call that was shown. Includes the arguments, because the user may change them.
type ShownCall = (SessionId, CallId, String);

/// Renames that were shown and have not run yet, by call.
#[derive(Debug, Default)]
pub(crate) struct ShownRenames(Mutex<Vec<(ShownCall, PlannedRename)>>);

impl ShownRenames {
    pub(crate) fn store(&self, context: &ToolContext, call: &ToolCall, planned: PlannedRename) {
        self.take(context, call);
        let mut stored = lock(&self.0);
        if stored.len() >= MAX_STORED {
            stored.remove(0);
        }
        stored.push(((context.session_id, call.call_id.clone(), call.arguments.clone()), planned));
    }

    pub(crate) fn take(&self, context: &ToolContext, call: &ToolCall) -> Option<PlannedRename> {
        let is_shown_call = |(session, id, arguments): &ShownCall| {
            (*session, id, arguments) == (context.session_id, &call.call_id, &call.arguments)
        };
        let mut stored = lock(&self.0);
        let at = stored.iter().position(|(shown, _)| is_shown_call(shown))?;
        Some(stored.remove(at).1)
    }
}
