//! The core tools, implementing the engine's port.

mod code;
mod config;
mod languages;
mod renames;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use agentd_core::{
    ids::SessionId,
    knowledge::in_archive,
    ports::{CodeReader, Knowledge, Languages, ToolContext, Toolbox, Web},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    jail::Jail,
    job::Job,
    limits::Limits,
    path::{PathPlace, ToolPath},
    text,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use jiff::tz::TimeZone;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::renames::ShownRenames;
use crate::{
    arguments,
    builtin::{
        self, Builtin, ToolParts, apply_patch, definition, diagnostics, edit_file, find_files, grep, http_fetch,
        list_workspace_files, now, passwords::Passwords, read_file, read_url, references, run_bash_command,
        search_documents, search_file, web_search, write_file,
    },
    meant,
};

pub use self::config::ToolboxConfig;

/// The core tools that work on the workspace: files, search, commands, and the time.
#[derive(Debug)]
pub struct BuiltinToolbox {
    specs: Arc<[ToolSpec]>,
    time_zone: fn() -> TimeZone,
    commands: run_bash_command::Settings,
    limits: Limits,
    knowledge: Option<Arc<dyn Knowledge>>,
    passwords: Passwords,
    code: Option<Arc<dyn CodeReader>>,
    web: Option<Arc<dyn Web>>,
    languages: Option<Arc<dyn Languages>>,
    renames: ShownRenames,
    /// Bounds how many threads are busy with files.
    workers: Arc<Semaphore>,
}

/// Work of a tool on a thread that may block.
type Work<A, T> = fn(&Job, A) -> Result<T, Failure>;

impl BuiltinToolbox {
    /// The tools, set up so.
    #[must_use]
    pub fn new(config: ToolboxConfig) -> Self {
        let seconds = (config.command_timeout.as_secs(), config.command_timeout_max.as_secs().max(1));
        let parts = ToolParts {
            documents: config.knowledge.is_some(),
            code: config.code.is_some(),
            web: config.web.is_some(),
            languages: config.languages.is_some(),
        };
        Self {
            specs: builtin::specs(seconds, parts),
            time_zone: config.time_zone,
            commands: run_bash_command::Settings {
                timeout: config.command_timeout,
                longest: config.command_timeout_max.max(Duration::from_secs(1)),
                environment: config.environment,
                standing: config.standing,
                output_bytes: config.limits.output_bytes,
                sandbox: config.sandbox,
                hard_links: config.hard_links,
                skills: config.skills,
            },
            limits: config.limits,
            knowledge: config.knowledge,
            passwords: Passwords::default(),
            code: config.code,
            web: config.web,
            languages: config.languages,
            renames: ShownRenames::default(),
            workers: Arc::new(Semaphore::new(config.parallel_file_calls.max(1))),
        }
    }

    async fn run(&self, context: &ToolContext, call: &ToolCall) -> Result<ToolOutput, Failure> {
        let tool = self.find(call)?;
        match tool {
            Builtin::ApplyPatch => self.write(context, self.read(tool, call)?, apply_patch::run).await,
            Builtin::Definition => self.definition(context, self.read(tool, call)?).await,
            Builtin::Diagnostics => self.diagnostics(context, self.read(tool, call)?).await,
            Builtin::EditFile => self.write(context, self.read(tool, call)?, edit_file::run).await,
            Builtin::FindFiles => self.work(context, self.read(tool, call)?, find_files::run).await,
            Builtin::Grep => self.work(context, self.read(tool, call)?, grep::run).await,
            Builtin::FindSymbol | Builtin::Outline | Builtin::RepoMap | Builtin::SearchCode => {
                self.look_at_code(tool, context, call).await
            }
            Builtin::HttpFetch => http_fetch::run(&**self.web()?, context, self.read(tool, call)?).await,
            Builtin::ListWorkspaceFiles => self.work(context, self.read(tool, call)?, list_workspace_files::run).await,
            Builtin::Now => now::run(context.now, &(self.time_zone)(), &self.read(tool, call)?),
            Builtin::ReadFile => {
                let (args, knowledge) = (self.read(tool, call)?, self.knowledge.clone());
                let opened = self.work_with(context, move |job| read_file::run(job, args, knowledge.as_ref())).await?;
                read_file::finish(self.knowledge.as_deref(), opened, context, &self.passwords).await
            }
            Builtin::ReadUrl => {
                let args = self.read(tool, call)?;
                read_url::run(&**self.web()?, self.knowledge.as_deref(), context, args).await
            }
            Builtin::References => self.references(context, self.read(tool, call)?).await,
            Builtin::RenameSymbol => self.rename(context, call, self.read(tool, call)?).await,
            Builtin::SearchDocuments => {
                let (mut search, knowledge) =
                    (search_documents::Search::new(self.read(tool, call)?)?, self.knowledge()?);
                while let Some(next) = search.next() {
                    let (by, cancel) = (Arc::clone(knowledge), context.cancel.clone());
                    let opened = self.work_with(context, move |job| search_documents::open(job, next, &by)).await?;
                    search.take(&**knowledge, opened, &context.progress, cancel).await?;
                }
                Ok(search.told())
            }
            Builtin::SearchFile => {
                let (args, knowledge) = (self.read(tool, call)?, self.knowledge()?);
                let by = Arc::clone(knowledge);
                let opened = self.work_with(context, move |job| search_file::prepare(job, args, &by)).await?;
                search_file::search(&**knowledge, opened, context, &self.passwords).await
            }
            Builtin::RunBashCommand => {
                let prepared = self.work(context, self.read(tool, call)?, run_bash_command::prepare).await?;
                run_bash_command::run(context, prepared, &self.commands, &context.cancel).await
            }
            Builtin::WebSearch => web_search::run(&**self.web()?, context, self.read(tool, call)?).await,
            Builtin::WriteFile => self.write(context, self.read(tool, call)?, write_file::run).await,
        }
    }

    async fn foresee(&self, context: &ToolContext, call: &ToolCall) -> Result<Option<String>, Failure> {
        let tool = self.find(call)?;
        match tool {
            Builtin::ApplyPatch => self.work(context, self.read(tool, call)?, apply_patch::preview).await.map(Some),
            Builtin::EditFile => self.work(context, self.read(tool, call)?, edit_file::preview).await.map(Some),
            Builtin::WriteFile => self.work(context, self.read(tool, call)?, write_file::preview).await.map(Some),
            Builtin::RunBashCommand => {
                let settings = self.commands.clone();
                let args = self.read(tool, call)?;
                self.work_with(context, move |job| run_bash_command::preview(job, args, &settings)).await.map(Some)
            }
            Builtin::RenameSymbol => self.preview_rename(context, call, self.read(tool, call)?).await.map(Some),
            Builtin::HttpFetch => http_fetch::preview(&**self.web()?, self.read(tool, call)?).map(Some),
            Builtin::ReadUrl => read_url::preview(&**self.web()?, self.read(tool, call)?).map(Some),
            Builtin::WebSearch => web_search::preview(&self.read(tool, call)?).map(Some),
            Builtin::Definition => self.read::<definition::Args>(tool, call).map(|_| None),
            Builtin::Diagnostics => self.read::<diagnostics::Args>(tool, call).map(|_| None),
            Builtin::References => self.read::<references::Args>(tool, call).map(|_| None),
            Builtin::FindFiles => self.read::<find_files::Args>(tool, call).map(|_| None),
            Builtin::FindSymbol | Builtin::Outline | Builtin::RepoMap | Builtin::SearchCode => {
                self.check_code_call(tool, call).map(|()| None)
            }
            Builtin::Grep => self.read::<grep::Args>(tool, call).map(|_| None),
            Builtin::ListWorkspaceFiles => self.read::<list_workspace_files::Args>(tool, call).map(|_| None),
            Builtin::Now => self.read::<now::Args>(tool, call).map(|_| None),
            Builtin::ReadFile => self.read::<read_file::Args>(tool, call).map(|_| None),
            Builtin::SearchDocuments => self.read::<search_documents::Args>(tool, call).map(|_| None),
            Builtin::SearchFile => self.read::<search_file::Args>(tool, call).map(|_| None),
        }
    }

    /// The call with the path that its own leads to, if that is another.
    async fn followed(&self, context: &ToolContext, call: &ToolCall) -> Result<Option<FollowedLink>, Failure> {
        let tool = self.find(call)?;
        match tool {
            Builtin::Definition
            | Builtin::Diagnostics
            | Builtin::FindFiles
            | Builtin::Grep
            | Builtin::ListWorkspaceFiles
            | Builtin::ReadFile
            | Builtin::References
            | Builtin::SearchDocuments
            | Builtin::SearchFile => {}
            Builtin::ApplyPatch
            | Builtin::EditFile
            | Builtin::FindSymbol
            | Builtin::HttpFetch
            | Builtin::Now
            | Builtin::Outline
            | Builtin::ReadUrl
            | Builtin::RenameSymbol
            | Builtin::RepoMap
            | Builtin::RunBashCommand
            | Builtin::SearchCode
            | Builtin::WebSearch
            | Builtin::WriteFile => return Ok(None),
        }
        let mut arguments: Map<String, Value> = self.read(tool, call)?;
        let Some(written) = arguments.get(FollowedLink::PATH).and_then(Value::as_str) else { return Ok(None) };
        // Of a document in an archive, the archive is what a link may lead to.
        let (written, inner) =
            match in_archive(written).filter(|_| matches!(tool, Builtin::ReadFile | Builtin::SearchFile)) {
                Some((archive, inner)) if !self.is_there(context, written).await => (archive, format!("!/{inner}")),
                _ => (written, String::new()),
            };
        let by_name = ToolPath::begins_with_name(written);
        let (path, named, real) = self.work(context, written.to_owned(), Self::lead).await?;
        // A name of the session's tree may turn out to be one of the project's: the rules hear of both.
        if real == path && (path.place() == named.place() || !by_name) {
            return Ok(None);
        }
        arguments.insert(FollowedLink::PATH.to_owned(), format!("{}{inner}", real.written()).into());
        let arguments = Value::Object(arguments).to_string();
        let path = if by_name { named } else { path };
        Ok(Some(FollowedLink { arguments, path: format!("{path}{inner}"), leads_to: format!("{real}{inner}") }))
    }

    /// Returns whether there is a file of that very name.
    async fn is_there(&self, context: &ToolContext, written: &str) -> bool {
        let open = |job: &Job, written: String| {
            let path = job.files.meant(&written)?;
            job.files.open_file(&path).map(drop)
        };
        self.work(context, written.to_owned(), open).await.is_ok()
    }

    /// The file that a path means, the one that it would name from the root of the tree, and the one that it leads to.
    fn lead(job: &Job, written: String) -> Result<(ToolPath, ToolPath, ToolPath), Failure> {
        let (path, named) = (job.files.meant(&written)?, job.files.locate(&written)?);
        let real = job.files.follow(&path)?;
        Ok((path, named, real))
    }

    /// Returns the start folder of the call's command, if it runs one.
    async fn started(&self, context: &ToolContext, call: &ToolCall) -> Result<Option<StartFolder>, Failure> {
        let tool = self.find(call)?;
        if !matches!(tool, Builtin::RunBashCommand) {
            return Ok(None);
        }
        let start = self.work(context, self.read(tool, call)?, run_bash_command::start).await?;
        Ok(run_bash_command::start_folder(&context.workspace, &start, &self.commands).await)
    }

    fn knowledge(&self) -> Result<&Arc<dyn Knowledge>, Failure> {
        self.knowledge.as_ref().ok_or_else(|| Failure::new(ToolErrorCode::UnknownTool, "documents are not read here"))
    }

    fn web(&self) -> Result<&Arc<dyn Web>, Failure> {
        self.web.as_ref().ok_or_else(|| Failure::new(ToolErrorCode::UnknownTool, "servers are not asked here"))
    }

    fn find(&self, call: &ToolCall) -> Result<Builtin, Failure> {
        Builtin::of(&call.name).ok_or_else(|| {
            let names = || self.specs.iter().map(|spec| spec.name.as_str());
            let hint = match text::nearest(&call.name, names()) {
                Some(near) => format!("did you mean {near}? "),
                None => String::new(),
            };
            let all: Vec<&str> = names().collect();
            Failure::new(
                ToolErrorCode::UnknownTool,
                format!("there is no tool {}; {hint}these exist: {}", text::quoted(&call.name), all.join(", ")),
            )
        })
    }

    fn read<A: DeserializeOwned>(&self, tool: Builtin, call: &ToolCall) -> Result<A, Failure> {
        arguments::parse(tool.name(), &call.arguments, self.schema(tool).unwrap_or(&Value::Null))
    }

    fn schema(&self, tool: Builtin) -> Option<&Value> {
        self.specs.iter().find(|spec| spec.name == tool.name()).map(|spec| &spec.parameters)
    }

    async fn work<A: Send + 'static, T: Send + 'static>(
        &self,
        context: &ToolContext,
        args: A,
        work: Work<A, T>,
    ) -> Result<T, Failure> {
        self.work_with(context, move |job| work(job, args)).await
    }

    /// Runs work that may also change the files of the session's state. Those changes are stored with their result, so
    /// they are not reported among files.
    async fn write<A: Send + 'static>(
        &self,
        context: &ToolContext,
        args: A,
        work: Work<A, ToolOutput>,
    ) -> Result<ToolOutput, Failure> {
        self.work_with(context, move |job| {
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

    /// Runs work on a thread that may block, once there is a free one. Abandoned work is cancelled.
    async fn work_with<T: Send + 'static>(
        &self,
        context: &ToolContext,
        work: impl FnOnce(&Job) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let cancel: CancellationToken = context.cancel.child_token();
        let _abandoned = cancel.clone().drop_guard();
        let permit = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(Failure::cancelled()),
            permit = Arc::clone(&self.workers).acquire_owned() => permit,
        };
        let context = context.clone();
        let limits = self.limits.clone();
        let worked = tokio::task::spawn_blocking(move || {
            // The permit is held until the thread is free, also when nobody waits.
            let _permit = permit;
            work(&Job::of(&context, &limits, cancel))
        });
        worked.await.unwrap_or_else(|_| Err(defect()))
    }
}

impl Toolbox for BuiltinToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        self.passwords.forget(session);
        std::future::ready(()).boxed()
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        match Builtin::of(name) {
            Some(tool) => tool.name(),
            None => name,
        }
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        let tool = self.find(call).ok()?;
        meant::meant(tool, &call.arguments, self.schema(tool)?, self.commands.longest.as_secs())
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        let jail = Jail::new(Arc::clone(&context.workspace));
        let tool = self.find(call).ok()?;
        let named = match tool {
            Builtin::ApplyPatch => self.read(tool, call).and_then(|args| apply_patch::paths(&jail, &args)),
            Builtin::EditFile => {
                self.read(tool, call).and_then(|args| edit_file::path(&jail, &args)).map(|path| vec![path])
            }
            Builtin::WriteFile => {
                self.read(tool, call).and_then(|args| write_file::path(&jail, &args)).map(|path| vec![path])
            }
            _ => return None,
        };
        // Arguments that cannot be read change nothing: the call fails. What is not on the disk is nothing to look at
        // there.
        let on_disk = |paths: Vec<ToolPath>| {
            paths.iter().filter(|path| path.place() != PathPlace::State).map(ToString::to_string).collect()
        };
        Some(named.map(on_disk).unwrap_or_default())
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        async move {
            let foreseen = AssertUnwindSafe(self.foresee(context, call)).catch_unwind().await;
            match foreseen.unwrap_or_else(|_| Err(defect())) {
                Ok(shown) => Ok(shown),
                Err(failure) => Err(fit_for_models(failure.into())),
            }
        }
        .boxed()
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        async move {
            let followed = AssertUnwindSafe(self.followed(context, call)).catch_unwind().await;
            followed.ok().and_then(Result::ok).flatten()
        }
        .boxed()
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        async move {
            let started = AssertUnwindSafe(self.started(context, call)).catch_unwind().await;
            started.ok().and_then(Result::ok).flatten()
        }
        .boxed()
    }

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        async move {
            match &self.commands.sandbox {
                Some(sandbox) => sandbox.holds().await,
                None => false,
            }
        }
        .boxed()
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        async move {
            match &self.commands.sandbox {
                Some(sandbox) => sandbox.contains().await,
                None => false,
            }
        }
        .boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        async move {
            let ran = AssertUnwindSafe(self.run(context, call)).catch_unwind().await;
            fit_for_models(ran.unwrap_or_else(|_| Err(defect())).unwrap_or_else(ToolOutput::from))
        }
        .boxed()
    }
}

fn defect() -> Failure {
    tracing::error!("a tool panicked");
    Failure::tool("the tool failed because of a defect in it; try another way")
}

fn fit_for_models(mut output: ToolOutput) -> ToolOutput {
    output.text = text::without_nul(output.text);
    output
}

#[cfg(test)]
mod tests;
