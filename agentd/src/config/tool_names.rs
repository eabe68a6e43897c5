//! Tools as other systems call them: files that name them so mean ours.

use std::collections::BTreeSet;

use agentd_core::tool_table::ToolRow;
use agentd_mcp::McpConfig;

/// The names under which files of the configuration know tools.
#[derive(Debug, Default)]
pub struct ToolNames {
    /// Names that the person gave to tools of MCP servers: these mean nothing else.
    given: BTreeSet<String>,
}

impl ToolNames {
    /// All names besides those that these servers' tools were given.
    pub(super) fn besides(mcp: &McpConfig) -> Self {
        let tools = mcp.servers.values().flat_map(|server| server.tools.values());
        Self { given: tools.filter_map(|tool| tool.alias.clone()).collect() }
    }

    /// Our name of the tool that is meant, or the name as it is.
    pub(super) fn ours<'a>(&self, name: &'a str) -> &'a str {
        if self.given.contains(name) {
            return name;
        }
        agentd_engine::own_name(ToolRow::known(name).map_or(name, |tool| tool.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_systems_mean_ours_unless_they_were_given_away() {
        let names = ToolNames { given: ["fs_read".to_owned()].into() };
        for (theirs, ours) in [
            ("fetch_web", "read_url"),
            ("jina_reader", "read_url"),
            ("google_search", "web_search"),
            ("list_dir", "list_workspace_files"),
            ("glob_file_search", "find_files"),
            ("run_cmd", "run_bash_command"),
            ("call_subagent", "delegate_task"),
            ("task", "delegate_task"),
            ("Task", "delegate_task"),
            ("TodoWrite", "todo_write"),
            ("WebFetch", "read_url"),
            ("grep", "grep"),
            ("fs_read", "fs_read"),
            ("fs_write", "write_file"),
            ("extract_links", "extract_links"),
        ] {
            assert_eq!(names.ours(theirs), ours);
        }
    }
}
