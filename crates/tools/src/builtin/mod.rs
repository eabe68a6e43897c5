//! The core tools, each with its arguments, what it does, and what a person is shown beforehand. Models read the comments
//! of the arguments ([`ToolSpec::of`]). What else is known of a tool has its row in `agentd_core::tool_table`.

use agentd_core::{
    tool::{ToolOutput, ToolSpec},
    tool_table::{ToolPart, ToolRow},
};
use agentd_workspace::{failure::Failure, jail::Jail, path::ToolPath};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use self::call::{Call, Tool, ToolboxConfig};
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

/// The tools, sorted by name as their rows are.
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

/// Files that a call changes; none if its arguments do not name them.
type ChangedPaths = Option<Result<Vec<ToolPath>, Failure>>;

/// Future of what a tool does with a call.
type Doing<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// A tool, whatever its arguments are.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    /// Specification for models.
    pub(crate) spec: fn(&ToolRow, &ToolboxConfig) -> ToolSpec,
    /// Answers a call, given the schema of its arguments.
    pub(crate) run: for<'a> fn(Call<'a>, &Value) -> Doing<'a, ToolOutput>,
    /// Text for the person who is asked about a call; none where there is nothing to show.
    pub(crate) preview: for<'a> fn(Call<'a>, &Value) -> Doing<'a, Option<String>>,
    /// The files that a call changes; none if its arguments do not tell.
    pub(crate) paths: fn(&Jail, Call<'_>, &Value) -> ChangedPaths,
}

impl Builtin {
    const fn of<A: Tool + 'static>() -> Self {
        Self {
            name: A::NAME,
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
                Some(args.and_then(|args| paths(jail, &args)))
            },
        }
    }

    /// Further facts of a tool.
    pub(crate) fn row(&self) -> Option<&'static ToolRow> {
        ToolRow::named(self.name)
    }

    /// Specification for models; none of a tool that has nothing to work with.
    pub(crate) fn offered(&self, config: &ToolboxConfig) -> Option<ToolSpec> {
        let row = self.row()?;
        let is_there = match row.needs {
            ToolPart::Workspace => true,
            ToolPart::Documents => config.knowledge.is_some(),
            ToolPart::Code => config.code.is_some(),
            ToolPart::Web | ToolPart::WebSearch => config.web.is_some(),
            ToolPart::Languages => config.languages.is_some(),
        };
        is_there.then(|| (self.spec)(row, config))
    }

    /// The tool of this name or alias.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let known = ToolRow::known(name)?;
        TOOLS.iter().find(|tool| tool.name == known.name)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool_table;

    use super::*;

    #[test]
    fn each_tool_has_its_name_in_the_table() {
        assert!(TOOLS.iter().map(|tool| tool.name).eq(tool_table::TOOLS.iter().map(|row| row.name)));
        assert!(TOOLS.iter().all(|tool| Builtin::named(tool.name).is_some_and(|named| named.name == tool.name)));
    }
}
