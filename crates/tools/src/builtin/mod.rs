//! The core tools, one a file: its arguments, what it does, and what a person is shown beforehand. Models read the comments
//! of the arguments ([`ToolSpec::of`]).

use std::sync::Arc;

use agentd_core::tool::{Effect, ToolSpec};
use agentd_extensions::tool_names::known_name;

pub(crate) mod apply_patch;
pub(crate) mod code;
pub(crate) mod definition;
pub(crate) mod diagnostics;
mod documents;
pub(crate) mod edit_file;
pub(crate) mod find_files;
pub(crate) mod grep;
pub(crate) mod http_fetch;
pub(crate) mod list_workspace_files;
pub(crate) mod now;
mod page;
pub(crate) mod passwords;
pub(crate) mod read_file;
pub(crate) mod read_url;
pub(crate) mod references;
pub(crate) mod rename_symbol;
pub(crate) mod run_bash_command;
pub(crate) mod search_documents;
pub(crate) mod search_file;
pub(crate) mod source_places;
mod unsearched;
mod web;
pub(crate) mod web_search;
pub(crate) mod write_file;

/// The tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    ApplyPatch,
    Definition,
    Diagnostics,
    EditFile,
    FindFiles,
    FindSymbol,
    Grep,
    HttpFetch,
    ListWorkspaceFiles,
    Now,
    Outline,
    ReadFile,
    ReadUrl,
    References,
    RenameSymbol,
    RepoMap,
    RunBashCommand,
    SearchCode,
    SearchDocuments,
    SearchFile,
    WebSearch,
    WriteFile,
}

impl Builtin {
    /// All of them, sorted by name, because prompts repeat this order.
    pub(crate) const ALL: [Self; 22] = [
        Self::ApplyPatch,
        Self::Definition,
        Self::Diagnostics,
        Self::EditFile,
        Self::FindFiles,
        Self::FindSymbol,
        Self::Grep,
        Self::HttpFetch,
        Self::ListWorkspaceFiles,
        Self::Now,
        Self::Outline,
        Self::ReadFile,
        Self::ReadUrl,
        Self::References,
        Self::RenameSymbol,
        Self::RepoMap,
        Self::RunBashCommand,
        Self::SearchCode,
        Self::SearchDocuments,
        Self::SearchFile,
        Self::WebSearch,
        Self::WriteFile,
    ];

    /// The name that calls use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApplyPatch => "apply_patch",
            Self::Definition => "definition",
            Self::Diagnostics => "diagnostics",
            Self::EditFile => "edit_file",
            Self::FindFiles => "find_files",
            Self::FindSymbol => "find_symbol",
            Self::Grep => "grep",
            Self::HttpFetch => "http_fetch",
            Self::ListWorkspaceFiles => "list_workspace_files",
            Self::Now => "now",
            Self::Outline => "outline",
            Self::ReadFile => "read_file",
            Self::ReadUrl => "read_url",
            Self::References => "references",
            Self::RenameSymbol => "rename_symbol",
            Self::RepoMap => "repo_map",
            Self::RunBashCommand => "run_bash_command",
            Self::SearchCode => "search_code",
            Self::SearchDocuments => "search_documents",
            Self::SearchFile => "search_file",
            Self::WebSearch => "web_search",
            Self::WriteFile => "write_file",
        }
    }

    /// Specification for models. `command_seconds` are the default and the longest time of a command.
    pub(crate) fn spec(self, command_seconds: (u64, u64)) -> ToolSpec {
        let name = self.name();
        match self {
            Self::ApplyPatch => ToolSpec::of::<apply_patch::Args>(name, Effect::Write),
            Self::Definition => ToolSpec::of::<definition::Args>(name, Effect::Read),
            Self::Diagnostics => ToolSpec::of::<diagnostics::Args>(name, Effect::Read),
            Self::EditFile => ToolSpec::of::<edit_file::Args>(name, Effect::Write),
            Self::FindFiles => ToolSpec::of::<find_files::Args>(name, Effect::Read),
            Self::FindSymbol => ToolSpec::of::<code::find_symbol::Args>(name, Effect::Read),
            Self::Grep => ToolSpec::of::<grep::Args>(name, Effect::Read),
            Self::HttpFetch => ToolSpec::of::<http_fetch::Args>(name, Effect::Network),
            Self::ListWorkspaceFiles => ToolSpec::of::<list_workspace_files::Args>(name, Effect::Read),
            Self::Now => ToolSpec::of::<now::Args>(name, Effect::Read),
            Self::Outline => ToolSpec::of::<code::outline::Args>(name, Effect::Read),
            Self::ReadFile => ToolSpec::of::<read_file::Args>(name, Effect::Read),
            Self::ReadUrl => ToolSpec::of::<read_url::Args>(name, Effect::Network),
            Self::References => ToolSpec::of::<references::Args>(name, Effect::Read),
            Self::RenameSymbol => ToolSpec::of::<rename_symbol::Args>(name, Effect::Write),
            Self::RepoMap => ToolSpec::of::<code::repo_map::Args>(name, Effect::Read),
            Self::RunBashCommand => run_bash_command::spec(name, command_seconds),
            Self::SearchCode => ToolSpec::of::<code::search_code::Args>(name, Effect::Read),
            Self::SearchDocuments => ToolSpec::of::<search_documents::Args>(name, Effect::Read),
            Self::SearchFile => ToolSpec::of::<search_file::Args>(name, Effect::Read),
            Self::WebSearch => ToolSpec::of::<web_search::Args>(name, Effect::Network),
            Self::WriteFile => ToolSpec::of::<write_file::Args>(name, Effect::Write),
        }
    }

    /// The tool of this name or alias.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let known = known_name(name)?;
        Self::ALL.into_iter().find(|tool| tool.name() == known)
    }
}

/// Parts that tools work with, as far as they are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolParts {
    /// Reader of documents.
    pub(crate) documents: bool,
    /// Reader of code.
    pub(crate) code: bool,
    /// Access to the web.
    pub(crate) web: bool,
    /// Language servers.
    pub(crate) languages: bool,
}

/// The specs of all tools but those that have nothing to work with.
pub(crate) fn specs(command_seconds: (u64, u64), parts: ToolParts) -> Arc<[ToolSpec]> {
    let ToolParts { documents, code, web, languages } = parts;
    let there = |tool: &Builtin| match tool {
        Builtin::FindSymbol | Builtin::Outline | Builtin::RepoMap | Builtin::SearchCode => code,
        Builtin::SearchDocuments | Builtin::SearchFile => documents,
        Builtin::HttpFetch | Builtin::ReadUrl | Builtin::WebSearch => web,
        Builtin::Definition | Builtin::Diagnostics | Builtin::References | Builtin::RenameSymbol => languages,
        _ => true,
    };
    Builtin::ALL.into_iter().filter(there).map(|tool| tool.spec(command_seconds)).collect()
}

#[cfg(test)]
mod tests {
    use agentd_extensions::tool_names::TOOL_NAMES;

    use super::*;

    #[test]
    fn each_tool_has_its_name_in_the_table() {
        assert_eq!(Builtin::ALL.map(Builtin::name), TOOL_NAMES.map(|(name, _)| name));
        assert!(Builtin::ALL.into_iter().all(|tool| Builtin::of(tool.name()) == Some(tool)));
    }
}
