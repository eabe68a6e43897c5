//! Built-in tools, each with its arguments, its implementation and its preview for the user. The comments on the
//! arguments are descriptions for models ([`ToolSpec::of`]). Further properties of a tool are in its row of
//! `agentd_core::tool_table`.

use agentd_core::{
    tool::{ToolOutput, ToolSpec},
    tool_table::{ToolPart, ToolRow},
};
use agentd_workspace::{failure::Failure, jail::Jail, path::ToolPath};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use self::call::{Call, Tool, ToolLimit, ToolboxConfig};
use crate::arguments;

mod apply_patch;
pub(crate) mod call;
mod code;
pub(crate) mod documents;
mod edit_file;
mod find_files;
mod grep;
mod now;
mod read_file;
mod read_url;
pub(crate) mod run_bash_command;
mod search_documents;
mod source_places;
mod web;

/// All tools, sorted by name like the rows of the table.
pub(crate) static TOOLS: [Builtin; 22] = [
    Builtin::of::<apply_patch::Args>(),
    Builtin::of::<source_places::Definition>(),
    Builtin::of::<source_places::Diagnostics>(),
    Builtin::of::<edit_file::EditFile>(),
    Builtin::of::<find_files::FindFiles>(),
    Builtin::of::<code::FindSymbol>(),
    Builtin::of::<grep::Args>(),
    Builtin::of::<web::HttpFetch>(),
    Builtin::of::<find_files::ListFiles>(),
    Builtin::of::<now::Args>(),
    Builtin::of::<code::Outline>(),
    Builtin::of::<read_file::Args>(),
    Builtin::of::<read_url::Args>(),
    Builtin::of::<source_places::References>(),
    Builtin::of::<source_places::RenameSymbol>(),
    Builtin::of::<code::RepoMap>(),
    Builtin::of::<run_bash_command::Args>(),
    Builtin::of::<code::SearchCode>(),
    Builtin::of::<search_documents::SearchDocuments>(),
    Builtin::of::<search_documents::SearchFile>(),
    Builtin::of::<web::WebSearch>(),
    Builtin::of::<edit_file::WriteFile>(),
];

/// Files that a call changes. `None` if the arguments do not name them.
type ChangedPaths = Option<Result<Vec<ToolPath>, Failure>>;

/// Future that runs a tool for a call.
type ToolFuture<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// Tool with the type of its arguments erased.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) limit: Option<&'static ToolLimit>,
    /// Returns the tool specification for models.
    pub(crate) spec: fn(&ToolRow, &ToolboxConfig) -> ToolSpec,
    /// Runs a call. The value is the schema of its arguments.
    pub(crate) run: for<'a> fn(Call<'a>, &Value) -> ToolFuture<'a, ToolOutput>,
    /// Returns the preview for the approval prompt, if there is one.
    pub(crate) preview: for<'a> fn(Call<'a>, &Value) -> ToolFuture<'a, Option<String>>,
    /// Returns the files that a call changes, or `None` if the arguments do not name them.
    pub(crate) paths: fn(&Jail, Call<'_>, &Value) -> ChangedPaths,
}

impl Builtin {
    const fn of<A: Tool + 'static>() -> Self {
        Self {
            name: A::NAME,
            limit: A::LIMIT,
            spec: A::spec,
            run: |call, schema| match arguments::parse::<A>(A::NAME, &call.call.arguments, schema) {
                Ok(args) => args.run(call).boxed(),
                Err(failure) => std::future::ready(Err(failure)).boxed(),
            },
            preview: |call, schema| match arguments::parse::<A>(A::NAME, &call.call.arguments, schema) {
                Ok(args) => args.preview(call).boxed(),
                Err(failure) => std::future::ready(Err(failure)).boxed(),
            },
            paths: |jail, call, schema| {
                let paths = A::PATHS?;
                let args = arguments::parse::<A>(A::NAME, &call.call.arguments, schema);
                let named = args.and_then(|args| paths(jail, &args));
                Some(named).filter(|named| !named.as_ref().is_ok_and(Vec::is_empty))
            },
        }
    }

    /// Returns the tool's row in the tool table.
    pub(crate) fn row(&self) -> Option<&'static ToolRow> {
        ToolRow::named(self.name)
    }

    /// Returns the specification for models, or `None` if the service that the tool needs is not configured.
    pub(crate) fn offered(&self, config: &ToolboxConfig) -> Option<ToolSpec> {
        let row = self.row()?;
        let is_available = match row.needs {
            ToolPart::Workspace => true,
            ToolPart::Documents => config.knowledge.is_some(),
            ToolPart::Code => config.code.is_some(),
            ToolPart::Web | ToolPart::WebSearch => config.web.is_some(),
            ToolPart::Languages => config.languages.is_some(),
        };
        is_available.then(|| (self.spec)(row, config))
    }

    /// Finds the tool with this name or alias.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let row = ToolRow::find(name)?;
        TOOLS.iter().find(|tool| tool.name == row.name)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool_table;

    use super::*;

    #[test]
    fn builtin_tools_match_the_tool_table() {
        assert!(TOOLS.iter().map(|tool| tool.name).eq(tool_table::TOOLS.iter().map(|row| row.name)));
        assert!(TOOLS.iter().all(|tool| Builtin::named(tool.name).is_some_and(|named| named.name == tool.name)));
    }
}
