//! Commands that need no approval because they are read-only. They run confined and are not recorded for undo.

use std::sync::{Arc, Mutex};

use agentd_core::{
    interrupt::Answer,
    policy::Confinement,
    ports::ToolContext,
    session::SessionSettings,
    tool::{Effect, ToolCall, ToolOutput},
    turn::{OnInterrupt, StartTurn},
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_policy::{Policy, SHELL_TOOL};
use agentd_testkit::{
    memory_disk::MemoryDisk,
    scripted::{ScriptedTools, calls, says},
};
use serde_json::json;

use crate::{
    policy::{compiled, granting, shipped, tool},
    world::{WatchedTools, input, is_question_raised, ports, results, run_with_answer},
};

/// Conditions under which one command ran.
#[derive(Debug, PartialEq, Eq)]
struct RunConditions {
    asked: bool,
    confined: bool,
    recorded: bool,
}

async fn ran(
    command: &str,
    policy: Policy,
    settings: SessionSettings,
    on_interrupt: OnInterrupt,
    enforces_read_only: bool,
) -> RunConditions {
    // In this shell, all commands change a file.
    let (disk, confinements): (Arc<MemoryDisk>, Arc<Mutex<Vec<bool>>>) = Default::default();
    let (files, recorded_confinements) = (Arc::clone(&disk), Arc::clone(&confinements));
    let on_call = move |context: &ToolContext, _: &ToolCall| {
        recorded_confinements.lock().unwrap().push(context.confinement == Confinement::ReadOnly);
        files.write("changed", "by a command");
        Some(ToolOutput::ok("done"))
    };
    let (inner, specs) = (ScriptedTools::new(), Some(tool(SHELL_TOOL, Effect::Execute)));
    let shell = WatchedTools { inner, specs, enforces_read_only, on_call: Box::new(on_call) };
    let script = [calls(&[(SHELL_TOOL, json!({ "command": command }))]), says("Done.")];
    let config = EngineConfig { policy: Arc::new(policy), ..EngineConfig::default() };
    let engine = Engine::new(Ports { snapshots: disk, ..ports(Arc::new(shell), script) }, config);
    let session = engine.create_session(settings, None).await.unwrap();
    let (events, _) = run_with_answer(&session, StartTurn { on_interrupt, ..input("Go!") }, Answer::Approve).await;
    let asked = events.iter().any(|event| is_question_raised(&event.kind));
    let recorded = results(&events).iter().any(|result| !result.files.is_empty());
    let confinements = confinements.lock().unwrap();
    assert_eq!(confinements.len(), 1, "{command} runs once");
    RunConditions { asked, confined: confinements[0], recorded }
}

#[tokio::test]
async fn unapproved_commands_run_in_a_read_only_sandbox() {
    let confined = RunConditions { asked: false, confined: true, recorded: false };
    let free = |asked| RunConditions { asked, confined: false, recorded: true };
    let plain = SessionSettings::default;
    let wait = OnInterrupt::Wait;
    for command in ["ls", "pwd && cat a.txt | head -n 3", "git status"] {
        assert_eq!(ran(command, shipped(), plain(), wait, true).await, confined, "{command}");
        // The command is also confined if calls are approved automatically.
        assert_eq!(ran(command, shipped(), plain(), OnInterrupt::Approve, true).await, confined, "{command}");
    }
    // Other commands are not confined: approved, granted, approved automatically, and with approvals disabled.
    assert_eq!(ran("make", shipped(), plain(), wait, true).await, free(true));
    assert_eq!(ran("ls && make", shipped(), plain(), wait, true).await, free(true));
    let granted = granting(&["run_bash_command: make"]);
    assert_eq!(ran("make", shipped(), granted.clone(), wait, true).await, free(false));
    assert_eq!(ran("ls && make", shipped(), granted, wait, true).await, free(false));
    assert_eq!(ran("make", shipped(), plain(), OnInterrupt::Approve, true).await, free(false));
    let without_approval = SessionSettings { confirm_exec: false, ..plain() };
    assert_eq!(ran("make", shipped(), without_approval, wait, true).await, free(false));
    let approvals_disabled = || compiled("global: {enable_approval: false}");
    assert_eq!(ran("make", approvals_disabled(), plain(), wait, true).await, free(false));
}

#[tokio::test]
async fn read_only_commands_ask_without_a_sandbox() {
    let ran = ran("ls", shipped(), SessionSettings::default(), OnInterrupt::Wait, false).await;
    assert_eq!(ran, RunConditions { asked: true, confined: false, recorded: true });
}
