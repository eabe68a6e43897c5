use super::*;
use crate::builtin::call::{Names, PlannedRename};
use agentd_core::{
    ids::{CallId, SessionId},
    language::{SourceEdit, SourceRewrite, WirePosition},
    ports::{Languages, NoLanguages, Workspace},
    session::Mount,
};
use jiff::tz::TimeZone;

fn context() -> ToolContext {
    let root = "/nonexistent".into();
    let workspace = Workspace { root, project: None, folders: Vec::new(), memories: None, worktree: None };
    agentd_testkit::scripted::tool_context(SessionId::generate(), workspace)
}

fn toolbox(parallel_file_calls: usize) -> BuiltinToolbox {
    BuiltinToolbox::new(ToolboxConfig { parallel_file_calls, ..ToolboxConfig::new(|| TimeZone::UTC) })
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { call_id: CallId::generate(), name: tool.to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn panicking_tool_returns_an_error_output() {
    let (toolbox, context) = (toolbox(1), context());
    let failed = toolbox.invocation(&context, &call("now", "{}")).work::<()>(|_| panic!("intentional panic")).await;
    assert_eq!(failed.unwrap_err().code, ToolErrorCode::Tool);
}

#[tokio::test]
async fn cancelled_call_does_not_wait_for_a_worker() {
    let toolbox = toolbox(1);
    let _busy = Arc::clone(&toolbox.services.workers).acquire_owned().await.unwrap();
    let context = context();
    context.cancel.cancel();
    let failed = toolbox.invocation(&context, &call("now", "{}")).work(|_| Ok(())).await;
    assert_eq!(failed.unwrap_err().code, ToolErrorCode::Cancelled);
}

#[tokio::test]
async fn previewed_rename_runs_unchanged_only_for_its_call() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.py"), "foo = 1\n").unwrap();
    let project = Some(Mount { path: folder.path().canonicalize().unwrap(), writable: true });
    let workspace = Workspace { project, ..Workspace::clone(&context().workspace) };
    let context = ToolContext { workspace: Arc::new(workspace), ..context() };
    // A second request to the server would fail.
    let languages: Option<Arc<dyn Languages>> = Some(Arc::new(NoLanguages));
    let toolbox = BuiltinToolbox::new(ToolboxConfig { languages, ..ToolboxConfig::new(|| TimeZone::UTC) });
    let call = |symbol: &str| ToolCall {
        call_id: context.call_id.clone(),
        ..call(
            "rename_symbol",
            &format!(r#"{{"path": "/project/a.py", "line": 1, "symbol": "{symbol}", "new_name": "bar"}}"#),
        )
    };
    let at = |character| WirePosition { line: 0, character };
    let edits = vec![SourceEdit { start: at(0), end: at(3), text: "bar".to_owned() }];
    let rewrites = vec![SourceRewrite { file: "/project/a.py".to_owned(), edits }];
    let names = Names { old: "foo".to_owned(), new: "bar".to_owned() };
    toolbox.services.renames.store(&context, &call("foo"), PlannedRename { names, rewrites });
    let edited = toolbox.call(&context, &call("other")).await;
    assert!(edited.error.is_some(), "{edited:?}");
    let renamed = toolbox.call(&context, &call("foo")).await;
    assert!(renamed.error.is_none(), "{renamed:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("a.py")).unwrap(), "bar = 1\n");
    assert!(toolbox.call(&context, &call("foo")).await.error.is_some(), "a previewed rename runs only once");
}
