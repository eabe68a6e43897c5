//! Commands whose file changes could not be recorded when they ended.

use std::sync::Arc;

use agentd_core::{
    interrupt::Answer,
    ports::ToolContext,
    session::SessionSettings,
    tool::{Effect, ToolCall, ToolOutput},
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_policy::SHELL_TOOL;
use agentd_testkit::{
    memory_disk::MemoryDisk,
    scripted::{ScriptedTools, calls, says},
};
use serde_json::json;

use crate::{
    policy::{granting, shipped, tool},
    world::{WatchedTools, input, ports, results, run_with_answer, warnings},
};

const NOT_RECORDED: &str = "not recorded and cannot be undone: could not scan the disk";
const UNCHECKED: &str = "the command may have left files that other programs run or load: its changes could not be \
                         checked: could not scan the disk";

/// Runs a command that a user approves or that this session allows. Returns its result, the warnings `not_recorded`
/// and `guarded_files`, and the reasons of the turn's denials.
async fn run_command(settings: SessionSettings) -> (String, [Vec<String>; 3]) {
    let disk: Arc<MemoryDisk> = Arc::default();
    disk.simulate_failures();
    let files = Arc::clone(&disk);
    let on_call = move |_: &ToolContext, _: &ToolCall| {
        files.write("changed", "by a command");
        Some(ToolOutput::ok("done"))
    };
    let (inner, specs) = (ScriptedTools::new(), Some(tool(SHELL_TOOL, Effect::Execute)));
    let shell = WatchedTools { inner, specs, enforces_read_only: true, on_call: Box::new(on_call) };
    let script = [calls(&[(SHELL_TOOL, json!({ "command": "make all" }))]), says("Done.")];
    let config = EngineConfig { policy: Arc::new(shipped()), ..EngineConfig::default() };
    let engine = Engine::new(Ports { snapshots: disk, ..ports(Arc::new(shell), script) }, config);
    let session = engine.create_session(settings, None).await.unwrap();
    let (events, result) = run_with_answer(&session, input("Go!"), Answer::Approve).await;
    let denials = result.denials.into_iter().map(|denial| denial.reason).collect();
    let [warned, unchecked] = ["not_recorded", "guarded_files"].map(|code| warnings(&events, code));
    (results(&events).remove(0).text, [warned, unchecked, denials])
}

#[tokio::test]
async fn failed_record_warns_and_a_failed_check_is_a_denial() {
    let warning = || vec![format!("the changes of {SHELL_TOOL} are {NOT_RECORDED}")];
    let unchecked = || vec![UNCHECKED.to_owned()];

    let (text, reported) = run_command(SessionSettings::default()).await;
    assert_eq!(text, format!("done\n[{NOT_RECORDED}]"));
    assert_eq!(reported, [warning(), vec![], vec![]], "a user has approved the command");

    let (text, reported) = run_command(granting(&["run_bash_command: make *"])).await;
    assert_eq!(text, format!("done\n[{UNCHECKED}]\n[{NOT_RECORDED}]"));
    assert_eq!(reported, [warning(), unchecked(), unchecked()], "a rule by prefix allowed the command");
}
