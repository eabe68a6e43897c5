//! The project and the session's folders, under the names that tools and commands use.

use std::path::Path;

use agentd_core::{ports::Workspace, session::Mount, session::SessionSettings, tool::Effect};
use agentd_policy::{CallContext, Policy, SHELL_TOOL, roots};
use serde_json::{Value, json};

use super::{compiled, mark, shipped, tool, with_all};

fn workspace(has_project: bool) -> Workspace {
    let project = has_project.then(|| Mount { path: "/home/me/code".into(), writable: true });
    Workspace {
        root: "/data/workspace/1".into(),
        project,
        folders: Vec::new(),
        memories: Some("/data/memories".into()),
        worktree: None,
    }
}

fn judged(policy: &Policy, name: &str, effect: Effect, arguments: &Value, has_project: bool) -> &'static str {
    let workspace = workspace(has_project);
    with_all(None, None, &tool(name, effect), arguments, &SessionSettings::default(), |facts| {
        let (roots, memories) = (roots(&workspace), workspace.memories.as_deref());
        mark(&policy.judge(&CallContext { roots: &roots, memories, ..*facts }))
    })
}

#[test]
fn project_is_also_a_session_folder_by_name() {
    assert_eq!(
        roots(&workspace(true)),
        ["/data/workspace/1", "/home/me/code", "/project"].map(Path::new),
        "without a project there is no such name"
    );
    assert_eq!(roots(&workspace(false)), [Path::new("/data/workspace/1")]);
    let policy = shipped();
    let command = |command: &str, has_project: bool| {
        judged(&policy, SHELL_TOOL, Effect::Execute, &json!({ "command": command }), has_project)
    };
    for looks in ["cat /project/src/main.rs", "cd /project && ls", "cat /uploads/a.txt", "ls /skills /memories"] {
        assert_eq!(command(looks, true), "allow", "{looks}");
    }
    assert_ne!(command("cat /project/src/main.rs", false), "allow");
    assert_ne!(command("cat /projects/x", true), "allow");
    assert_ne!(command("cat /project/.env", true), "allow");
}

#[test]
fn relative_paths_are_judged_as_project_files() {
    let policy =
        compiled("tools: {write_file: {patterns: {critical: ['^/project/locked/']}, actions: {critical: deny}}}");
    let write = |path: &str, has_project: bool| {
        judged(&policy, "write_file", Effect::Write, &json!({"path": path, "content": "x"}), has_project)
    };
    for path in ["/project/locked/a", "locked/a", "./locked//a", "project/locked/a"] {
        assert_eq!(write(path, true), "deny", "{path}");
    }
    // Names in the session's own tree refer to that tree. Without a project, no name refers to the project.
    for path in ["outputs/locked/a", "outputs/a", "open/locked/a"] {
        assert_eq!(write(path, true), "ask", "{path}");
    }
    assert_eq!(write("locked/a", false), "ask");
}
