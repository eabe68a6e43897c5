//! A call of a core tool, with all that the tool may work with, and what each tool implements. Renames that were shown to a person:
//! what runs is what was shown, whatever a language server would say by then.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_core::{
    ids::{CallId, SessionId},
    language::SourceRewrite,
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

/// Settings of the tools.
#[derive(Debug, Clone)]
pub struct ToolboxConfig {
    /// Returns the time zone of the person, asked anew at each call because people travel. The composition root passes
    /// `TimeZone::system`; nothing below it reads the environment.
    pub time_zone: fn() -> TimeZone,
    /// After how long a command is ended that names no limit.
    pub command_timeout: Duration,
    /// Numbers that are set for tools, by tool and name.
    pub tool_limits: BTreeMap<String, BTreeMap<String, u64>>,
    /// Environment of commands besides the defaults, which it overrides (`PATH`, `LANG`, …), where their client sends
    /// nothing.
    pub environment: BTreeMap<String, String>,
    /// Further variables, unless their client sends something else by that name.
    pub standing: BTreeMap<String, String>,
    /// Sandbox of commands; without it they may do whatever the daemon may.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Treatment of files of a writable project that have other names outside of it, before a command that may write.
    pub hard_links: HardLinks,
    /// The skills, whose programs commands find that are about them.
    pub skills: Option<SkillStore>,
    /// Reader of documents; without it only text is read.
    pub knowledge: Option<Arc<dyn Knowledge>>,
    /// Reader of code; without it there is no index of code.
    pub code: Option<Arc<dyn CodeReader>>,
    /// Access to the web; without it there is none.
    pub web: Option<Arc<dyn Web>>,
    /// The language servers; without them no tool asks any.
    pub languages: Option<Arc<dyn Languages>>,
    /// Number of calls that work on files at once, in all sessions together.
    pub parallel_file_calls: usize,
    /// Limits on what a call may read, write, visit and return.
    pub limits: Limits,
}

impl ToolboxConfig {
    /// The defaults: commands end after two minutes.
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

/// Settings of the tools, and what they keep between calls.
#[derive(Debug)]
pub(crate) struct ToolServices {
    pub(crate) config: ToolboxConfig,
    pub(crate) passwords: Passwords,
    pub(crate) renames: ShownRenames,
    /// Bounds how many threads are busy with files.
    pub(crate) workers: Arc<Semaphore>,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) services: &'a ToolServices,
    pub(crate) context: &'a ToolContext,
    pub(crate) call: &'a ToolCall,
}

/// The files that a call is about, as far as its arguments tell.
pub(crate) type PathsOf<A> = fn(&Jail, &A) -> Result<Vec<ToolPath>, Failure>;

/// A tool, implemented by the type of its arguments.
pub(crate) trait Tool: DeserializeOwned + JsonSchema + Send {
    /// The name, which has a row in the table of tools.
    const NAME: &'static str;
    /// Set by tools that change only files that their arguments name.
    const PATHS: Option<PathsOf<Self>> = None;

    /// Specification for models.
    fn spec(row: &ToolRow, _: &ToolboxConfig) -> ToolSpec {
        ToolSpec::of::<Self>(row.name, row.effect)
    }

    /// Answers a call.
    fn run(self, call: Call<'_>) -> impl Future<Output = Result<ToolOutput, Failure>> + Send;

    /// Text for the person who is asked about a call. Changes nothing.
    fn preview(self, _: Call<'_>) -> impl Future<Output = Result<Option<String>, Failure>> + Send {
        async { Ok(None) }
    }
}

impl<'a> Call<'a> {
    /// Reader of documents.
    pub(crate) fn knowledge(self) -> Result<&'a Arc<dyn Knowledge>, Failure> {
        there(&self.services.config.knowledge, "documents are not read here")
    }

    /// Reader of code.
    pub(crate) fn code(self) -> Result<&'a Arc<dyn CodeReader>, Failure> {
        there(&self.services.config.code, "code is not indexed here")
    }

    /// Access to the web.
    pub(crate) fn web(self) -> Result<&'a dyn Web, Failure> {
        there(&self.services.config.web, "servers are not asked here").map(|web| &**web)
    }

    /// The language servers.
    pub(crate) fn languages(self) -> Result<&'a Arc<dyn Languages>, Failure> {
        there(&self.services.config.languages, "no language server is asked here")
    }

    /// Runs work on a thread that may block, once there is a free one. Abandoned work is cancelled.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&Job) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Self { services, context, .. } = self;
        let cancel: CancellationToken = context.cancel.child_token();
        let _abandoned = cancel.clone().drop_guard();
        let permit = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(Failure::cancelled()),
            permit = Arc::clone(&services.workers).acquire_owned() => permit,
        };
        let context = context.clone();
        let limits = services.config.limits.clone();
        let worked = tokio::task::spawn_blocking(move || {
            // The permit is held until the thread is free, also when nobody waits.
            let _permit = permit;
            work(&Job::of(&context, &limits, cancel))
        });
        worked.await.unwrap_or_else(|_| Err(defect()))
    }

    /// Runs work that may also change the files of the session's state. Those changes are stored with their result, so
    /// they are not reported among files.
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

fn there<'a, T: ?Sized>(part: &'a Option<Arc<T>>, missing: &str) -> Result<&'a Arc<T>, Failure> {
    part.as_ref().ok_or_else(|| Failure::new(ToolErrorCode::UnknownTool, missing))
}

/// The failure of a call that panicked.
pub(crate) fn defect() -> Failure {
    tracing::error!("a tool panicked");
    Failure::tool("the tool failed because of a defect in it; try another way")
}

/// Renames that are kept at once.
const MAX_KEPT: usize = 16;

/// Names of a symbol before and after.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// Rename with the edits that make it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedRename {
    pub(crate) names: Names,
    pub(crate) rewrites: Vec<SourceRewrite>,
}

/// The call that was shown: one whose arguments a person changes is another.
type ShownCall = (SessionId, CallId, String);

/// Renames that were shown and have not run, by their call.
#[derive(Debug, Default)]
pub(crate) struct ShownRenames(Mutex<Vec<(ShownCall, PlannedRename)>>);

impl ShownRenames {
    fn kept(&self) -> MutexGuard<'_, Vec<(ShownCall, PlannedRename)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, context: &ToolContext, call: &ToolCall, planned: PlannedRename) {
        self.take(context, call);
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push(((context.session_id, call.call_id.clone(), call.arguments.clone()), planned));
    }

    pub(crate) fn take(&self, context: &ToolContext, call: &ToolCall) -> Option<PlannedRename> {
        let is_it = |(session, id, arguments): &ShownCall| {
            (*session, id, arguments) == (context.session_id, &call.call_id, &call.arguments)
        };
        let mut kept = self.kept();
        let at = kept.iter().position(|(shown, _)| is_it(shown))?;
        Some(kept.remove(at).1)
    }
}
