//! Names of the core tools, and those that other systems have for them.

/// The core tools, sorted, each with the names under which models of other systems know it.
pub const TOOL_NAMES: [(&str, &[&str]); 22] = [
    ("apply_patch", &["apply_diff", "applypatch", "patch", "patch_file"]),
    ("definition", &["find_definition", "go_to_definition", "goto_definition"]),
    ("diagnostics", &["get_diagnostics", "get_errors", "read_lints"]),
    ("edit_file", &["edit", "str_replace", "string_replace", "replace_in_file", "search_replace"]),
    ("find_files", &["glob", "glob_file_search", "file_search", "find"]),
    ("find_symbol", &["symbol_search", "workspace_symbols"]),
    ("grep", &["grep_files", "grep_search", "rg", "ripgrep", "search_files"]),
    ("http_fetch", &["curl", "fetch", "http_get", "http_request"]),
    ("list_workspace_files", &["list_dir", "list_directory", "list_files", "ls"]),
    ("now", &["current_time", "date", "get_current_time", "get_time"]),
    ("outline", &["document_symbols", "file_outline", "list_code_definition_names"]),
    ("read_file", &["cat", "fs_read", "open_file", "read", "view_file"]),
    ("read_url", &["fetch_web", "jina_reader", "read_webpage", "web_fetch", "webfetch"]),
    ("references", &["find_references", "find_usages"]),
    ("rename_symbol", &["rename"]),
    ("repo_map", &["repository_map"]),
    (
        "run_bash_command",
        &["bash", "execute_command", "run_cmd", "run_command", "run_shell", "run_shell_command", "shell"],
    ),
    ("search_code", &["code_search", "codebase_search", "search_codebase", "search_semantic", "semantic_search"]),
    ("search_documents", &["document_search", "docs_search", "search_docs"]),
    ("search_file", &["search_document", "search_in_file"]),
    ("web_search", &["google_search", "internet_search", "search_web", "websearch"]),
    ("write_file", &["create_file", "fs_write", "save_file", "write"]),
];

/// Our name of a tool, for that name or one that other systems have for it. Case and the prefixes that some models add make no
/// difference.
#[must_use]
pub fn known_name(name: &str) -> Option<&'static str> {
    let name = name.trim();
    let bare = ["functions.", "default_api.", "tools."].iter().find_map(|prefix| name.strip_prefix(prefix));
    let bare = bare.unwrap_or(name);
    TOOL_NAMES.iter().find_map(|(tool, aliases)| {
        let is_meant = |known: &&str| known.eq_ignore_ascii_case(bare);
        (is_meant(tool) || aliases.iter().any(is_meant)).then_some(*tool)
    })
}
