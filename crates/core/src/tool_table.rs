//! The built-in tools, one row each, with all of their properties except their code. A row determines how calls are
//! judged, shown and named, while `config/tools.yaml` determines when the tool is offered.

use crate::tool::Effect::{self, Execute, Network, Read, Write};

use self::{
    PathUse::{Content, Edited, InArchives, Names, Own},
    ToolKind::{Edit, Fetch, Look, Other, Run, Search},
    ToolPart::{Code, Documents, Languages, Web, WebSearch, Workspace},
};

/// Properties of a built-in tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolRow {
    /// Name used in calls.
    pub name: &'static str,
    /// Effect of a call. The policy uses it to decide about approvals.
    pub effect: Effect,
    /// Kind of the tool, for editors.
    pub kind: ToolKind,
    /// Use of the file in the `path` argument.
    pub path: PathUse,
    /// Component that the tool depends on.
    pub needs: ToolPart,
    /// Names of the tool in other agent systems, separated by spaces.
    pub aliases: &'static str,
}

/// Kind of a tool, as shown by editors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Shows a file or folder.
    Look,
    /// Changes the content of files.
    Edit,
    /// Searches in files, code or sessions.
    Search,
    /// Runs a command or program.
    Run,
    /// Sends a request to a server.
    Fetch,
    /// Works on plans and subtasks.
    Think,
    /// Any other kind of tool.
    Other,
}

/// Use of the file or folder in a call's `path` argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// Shows names and sizes of the files in the folder, but no contents. Links in the path are followed before the
    /// call is judged.
    Names,
    /// Shows the contents. Links in the path are followed before the call is judged.
    Content,
    /// Same as [`Content`], including files in archives.
    InArchives,
    /// Changes the file, if it is in the session's tree.
    Edited,
    /// There is no `path` argument, or the tool follows links itself.
    Own,
}

/// Component that a tool depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPart {
    /// Files of the session, always available.
    Workspace,
    /// The adapter that reads documents.
    Documents,
    /// The adapter that reads source code.
    Code,
    /// Access to the web.
    Web,
    /// Access to the web, with a search engine.
    WebSearch,
    /// The configured language servers.
    Languages,
}

/// The tools, sorted by name. Prompts use this order.
pub static TOOLS: [ToolRow; 22] = [
    row("apply_patch", Write, Edit, Own, Workspace, "apply_diff applypatch patch patch_file"),
    row("definition", Read, Search, Content, Languages, "find_definition go_to_definition goto_definition"),
    row("diagnostics", Read, Look, Content, Languages, "get_diagnostics get_errors read_lints"),
    row(
        "edit_file",
        Write,
        Edit,
        Edited,
        Workspace,
        "edit multi_edit multiedit replace replace_in_file search_replace str_replace str_replace_editor string_replace",
    ),
    row("find_files", Read, Search, Names, Workspace, "glob glob_file_search file_search find"),
    row("find_symbol", Read, Search, Own, Code, "symbol_search workspace_symbols"),
    row("grep", Read, Search, Content, Workspace, "grep_files grep_search rg ripgrep search_file_content search_files"),
    row("http_fetch", Network, Fetch, Own, Web, "curl fetch http_get http_request"),
    row("list_workspace_files", Read, Look, Names, Workspace, "list list_dir list_directory list_files ls"),
    row("now", Read, Other, Own, Workspace, "current_time date get_current_time get_time"),
    row("outline", Read, Look, Own, Code, "document_symbols file_outline list_code_definition_names"),
    row(
        "read_file",
        Read,
        Look,
        InArchives,
        Workspace,
        "cat fs_read open_file read read_image view_file view_image view_picture",
    ),
    row("read_url", Network, Fetch, Own, Web, "fetch_web jina_reader read_webpage web_fetch webfetch"),
    row("references", Read, Search, Content, Languages, "find_references find_usages"),
    row("rename_symbol", Write, Edit, Own, Languages, "rename"),
    row("repo_map", Read, Look, Own, Code, "repository_map"),
    row(
        "run_bash_command",
        Execute,
        Run,
        Own,
        Workspace,
        "bash exec_command execute execute_command local_shell run_cmd run_command run_shell run_shell_command shell",
    ),
    row(
        "search_code",
        Read,
        Search,
        Own,
        Code,
        "code_search codebase_search search_codebase search_semantic semantic_search",
    ),
    row("search_documents", Read, Search, Content, Documents, "document_search docs_search search_docs"),
    row("search_file", Read, Search, InArchives, Documents, "search_document search_in_file"),
    row(
        "web_search",
        Network,
        Fetch,
        Own,
        WebSearch,
        "google_search google_web_search internet_search search_web websearch",
    ),
    row("write_file", Write, Edit, Edited, Workspace, "create_file fs_write save_file write"),
];

/// Tools of the conversation with their kinds and their names in other agent systems. Calls to these tools are answered
/// by links of the engine.
const CONVERSATION_TOOLS: [(&str, ToolKind, &str); 7] = [
    ("ask_human", ToolKind::Other, "ask_user ask_user_question askuserquestion"),
    ("delegate_task", ToolKind::Think, "agent call_agent call_subagent task"),
    ("find_tool", ToolKind::Search, ""),
    ("search_history", ToolKind::Search, ""),
    ("todo_read", ToolKind::Think, "todoread"),
    ("todo_write", ToolKind::Think, "todowrite update_plan write_todos"),
    ("undo_patch", ToolKind::Edit, ""),
];

const fn row(
    name: &'static str,
    effect: Effect,
    kind: ToolKind,
    path: PathUse,
    needs: ToolPart,
    aliases: &'static str,
) -> ToolRow {
    ToolRow { name, effect, kind, path, needs, aliases }
}

impl ToolRow {
    /// Returns the tool with exactly this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// Returns the tool with this name or alias, ignoring case and the prefixes that some models add.
    pub fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| is_called(name, tool.name, tool.aliases))
    }

    /// Returns the names of the tools that depend on a component.
    pub fn needing(part: ToolPart) -> Vec<&'static str> {
        TOOLS.iter().filter(|tool| tool.needs == part).map(|tool| tool.name).collect()
    }
}

/// Returns the tool of the conversation with this name or alias, in the same way as [`ToolRow::find`].
pub fn conversation_tool(name: &str) -> Option<&'static str> {
    CONVERSATION_TOOLS.iter().find(|(own, _, aliases)| is_called(name, own, aliases)).map(|(own, ..)| *own)
}

fn is_called(name: &str, own: &str, aliases: &str) -> bool {
    let name = name.trim();
    let unprefixed_name = ["functions.", "default_api.", "tools."].iter().find_map(|prefix| name.strip_prefix(prefix));
    let matches = |known: &str| known.eq_ignore_ascii_case(unprefixed_name.unwrap_or(name));
    matches(own) || aliases.split_ascii_whitespace().any(matches)
}

impl ToolKind {
    /// Returns the kind of the tool with exactly this name.
    pub fn of(name: &str) -> Self {
        let conversation = CONVERSATION_TOOLS.iter().find(|(tool, ..)| *tool == name).map(|(_, kind, _)| *kind);
        ToolRow::named(name).map(|tool| tool.kind).or(conversation).unwrap_or(Self::Other)
    }
}
