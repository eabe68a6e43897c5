use super::*;
use agentd_core::{
    Timestamp,
    ids::{CallId, SessionId, TurnId},
    policy::Confinement,
    ports::Workspace,
};

fn context() -> ToolContext {
    ToolContext {
        session_id: SessionId::generate(),
        turn_id: TurnId::generate(),
        call_id: CallId::generate(),
        workspace: Arc::new(Workspace {
            root: "/nonexistent".into(),
            project: None,
            folders: Vec::new(),
            memories: None,
            worktree: None,
        }),
        state_files: Arc::default(),
        client_files: None,
        reading: Default::default(),
        environment: Arc::default(),
        progress: Default::default(),
        person: Default::default(),
        sampler: Default::default(),
        stands_for: None,
        confinement: Confinement::Usual,
        now: Timestamp::UNIX_EPOCH,
        cancel: CancellationToken::new(),
    }
}

fn toolbox(parallel_file_calls: usize) -> BuiltinToolbox {
    BuiltinToolbox::new(ToolboxConfig { parallel_file_calls, ..ToolboxConfig::new(|| TimeZone::UTC) })
}

#[tokio::test]
async fn a_panic_is_an_output() {
    let failed = toolbox(1).work_with::<()>(&context(), |_| panic!("as a defect would")).await;
    assert_eq!(failed.unwrap_err().code, ToolErrorCode::Tool);
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_a_thread() {
    let toolbox = toolbox(1);
    let _busy = Arc::clone(&toolbox.workers).acquire_owned().await.unwrap();
    let context = context();
    context.cancel.cancel();
    let failed = toolbox.work_with(&context, |_| Ok(())).await;
    assert_eq!(failed.unwrap_err().code, ToolErrorCode::Cancelled);
}
