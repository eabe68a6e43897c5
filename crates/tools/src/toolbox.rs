//! Toolbox of the built-in tools, which implements the engine's port.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use agentd_core::{
    ids::SessionId,
    knowledge::split_archive_path,
    ports::{ToolContext, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
    tool_table::PathUse,
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    jail::Jail,
    job::Job,
    path::{PathPlace, ToolPath},
    text,
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, OptionFuture},
};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::{
    arguments,
    builtin::{
        Builtin, TOOLS,
        call::{Call, ShownNotes, ShownRenames, ToolLimit, ToolServices, ToolboxConfig, defect},
        documents::Passwords,
        run_bash_command,
    },
};

/// Built-in tools for the workspace: files, search, commands and the time.
#[derive(Debug)]
pub struct BuiltinToolbox {
    specs: Arc<[ToolSpec]>,
    services: ToolServices,
}

impl BuiltinToolbox {
    /// Creates the tools that this configuration allows.
    pub fn new(config: ToolboxConfig) -> Self {
        Self {
            specs: TOOLS.iter().filter_map(|tool| tool.offered(&config)).collect(),
            services: ToolServices {
                passwords: Passwords::default(),
                renames: ShownRenames::default(),
                notes: ShownNotes::default(),
                workers: Arc::new(Semaphore::new(config.parallel_file_calls.max(1))),
                config,
            },
        }
    }

    /// Returns warnings about limits in `tools.yaml` that have no effect.
    pub fn limit_warnings(limits: &BTreeMap<String, BTreeMap<String, u64>>) -> Vec<String> {
        let mut notes = Vec::new();
        for (tool, numbers) in limits {
            let limit = TOOLS.iter().find(|known| known.name == tool).and_then(|known| known.limit);
            for (name, number) in numbers {
                match limit.filter(|limit| limit.name == name) {
                    None => notes.push(format!("tools.yaml: `{tool}` has no limit `{name}`")),
                    Some(ToolLimit { range, default, .. }) if !range.contains(number) => notes.push(format!(
                        "tools.yaml: `{name}` of `{tool}` is {number}, not {} to {}; using the default of {default}",
                        range.start(),
                        range.end()
                    )),
                    Some(_) => {}
                }
            }
        }
        notes
    }

    fn invocation<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> Call<'a> {
        Call { services: &self.services, context, call }
    }

    /// Resolves the path in the arguments. Returns `None` if the path contains no link and is unambiguous.
    async fn resolve_link(&self, context: &ToolContext, call: &ToolCall) -> Result<Option<FollowedLink>, Failure> {
        let (tool, schema) = self.find(call)?;
        let reads_archives = match tool.row().map(|row| row.path) {
            Some(PathUse::Names | PathUse::Content) => false,
            Some(PathUse::InArchives) => true,
            Some(PathUse::Edited | PathUse::Own) | None => return Ok(None),
        };
        let mut arguments: Map<String, Value> = arguments::parse(tool.name, &call.arguments, schema)?;
        let Some(written) = arguments.get(FollowedLink::PATH).and_then(Value::as_str) else { return Ok(None) };
        // For a document in an archive, only the archive's path may contain links.
        let (written, inner) = match split_archive_path(written).filter(|_| reads_archives) {
            Some((archive, inner)) if !self.exists(context, call, written).await => (archive, format!("!/{inner}")),
            _ => (written, String::new()),
        };
        let by_name = ToolPath::begins_with_name(written);
        let written = written.to_owned();
        // Resolves the path itself, the path relative to the root of the tree, and the target of the path's links.
        let resolve = move |job: &Job| {
            let (path, named) = (job.files.resolve_path(&written)?, job.files.locate(&written)?);
            let real = job.files.follow(&path)?;
            Ok((path, named, real))
        };
        let (path, named, real) = self.invocation(context, call).work(resolve).await?;
        // A name in the session's tree may also exist in the project. In that case, the rules judge both paths.
        if real == path && (path.place() == named.place() || !by_name) {
            return Ok(None);
        }
        arguments.insert(FollowedLink::PATH.to_owned(), format!("{}{inner}", real.written()).into());
        let arguments = Value::Object(arguments).to_string();
        let path = if by_name { named } else { path };
        Ok(Some(FollowedLink { arguments, path: format!("{path}{inner}"), leads_to: format!("{real}{inner}") }))
    }

    /// Returns true if a file with exactly this name exists.
    async fn exists(&self, context: &ToolContext, call: &ToolCall, written: &str) -> bool {
        let written = written.to_owned();
        let open = move |job: &Job| {
            let path = job.files.resolve_path(&written)?;
            job.files.open_file(&path).map(drop)
        };
        self.invocation(context, call).work(open).await.is_ok()
    }

    /// Returns the start folder of a command, if the call runs one.
    async fn start_folder(&self, context: &ToolContext, call: &ToolCall) -> Result<Option<StartFolder>, Failure> {
        let (tool, schema) = self.find(call)?;
        if tool.name != run_bash_command::NAME {
            return Ok(None);
        }
        let args = arguments::parse(tool.name, &call.arguments, schema)?;
        run_bash_command::start(self.invocation(context, call), args).await
    }

    /// Returns the tool of a call, and the schema of its arguments.
    fn find(&self, call: &ToolCall) -> Result<(&'static Builtin, &Value), Failure> {
        let schema = |tool: &Builtin| self.specs.iter().find(|spec| spec.name == tool.name);
        let found = Builtin::named(&call.name);
        found.map(|tool| (tool, schema(tool).map_or(&Value::Null, |spec| &spec.parameters))).ok_or_else(|| {
            let names = || self.specs.iter().map(|spec| spec.name.as_str());
            let near = text::nearest(&call.name, names());
            let hint = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let all: Vec<&str> = names().collect();
            Failure::new(
                ToolErrorCode::UnknownTool,
                format!("there is no tool {}; {hint}available: {}", text::quoted(&call.name), all.join(", ")),
            )
        })
    }
}

/// Awaits a tool, and converts a panic to a failure.
async fn catch_panic<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(defect()))
}

impl Toolbox for BuiltinToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        self.services.passwords.forget(session);
        std::future::ready(()).boxed()
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        Builtin::named(name).map_or(name, |tool| tool.name)
    }

    fn adapt(&self, call: &ToolCall) -> Option<AdaptedCall> {
        let (tool, schema) = self.find(call).ok()?;
        let longest = run_bash_command::longest(&self.services.config).as_secs();
        arguments::adapt_call(tool.name, &call.arguments, schema, longest)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        let jail = Jail::new(Arc::clone(&context.workspace));
        let (tool, schema) = self.find(call).ok()?;
        let named = (tool.paths)(&jail, self.invocation(context, call), schema)?;
        // A call with invalid arguments fails, so it does not change files. State files are not on disk, so they cannot
        // be scanned.
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
        let preview = async move {
            let (tool, schema) = self.find(call)?;
            (tool.preview)(self.invocation(context, call), schema).await
        };
        catch_panic(preview).map(|shown| shown.map_err(|failure| fit_for_models(failure.into()))).boxed()
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        catch_panic(self.resolve_link(context, call)).map(|link| link.ok().flatten()).boxed()
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        catch_panic(self.start_folder(context, call)).map(|folder| folder.ok().flatten()).boxed()
    }

    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        let sandbox = self.services.config.sandbox.as_ref();
        OptionFuture::from(sandbox.map(|sandbox| sandbox.guarantees_read_only())).map(Option::unwrap_or_default).boxed()
    }

    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        let sandbox = self.services.config.sandbox.as_ref();
        OptionFuture::from(sandbox.map(|sandbox| sandbox.contains_commands())).map(Option::unwrap_or_default).boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        let run = async move {
            let (tool, schema) = self.find(call)?;
            (tool.run)(self.invocation(context, call), schema).await
        };
        catch_panic(run).map(|ran| fit_for_models(ran.unwrap_or_else(ToolOutput::from))).boxed()
    }
}

fn fit_for_models(mut output: ToolOutput) -> ToolOutput {
    output.text = text::without_nul(output.text);
    output
}

#[cfg(test)]
mod tests;
