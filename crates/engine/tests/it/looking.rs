//! Commands that run without asking because they only look: they are held to that, and nothing of them is recorded.

use std::sync::{Arc, Mutex};

use agentd_core::{
    event::EventKind,
    interrupt::Answer,
    item::ItemBody,
    ports::{ToolContext, Toolbox},
    session::SessionSettings,
    tool::{Effect, ToolCall, ToolOutput, ToolSpec},
    turn::{OnInterrupt, StartTurn},
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_policy::{Policy, SHELL_TOOL};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    memory_store::MemoryStore,
    scripted::{NoWorkspaces, OneModel, ScriptedModel, StoppedClock, calls, says},
};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{
    policy::{compiled, granting, shipped, tool},
    world::{input, until},
};

/// A shell whose commands all change a file, whatever they say.
struct Shell {
    holds: bool,
    disk: Arc<MemoryDisk>,
    held: Mutex<Vec<bool>>,
}

impl Toolbox for Shell {
    fn specs(&self) -> Arc<[ToolSpec]> {
        [tool(SHELL_TOOL, Effect::Execute)].into()
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    fn preview<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.holds))
    }

    fn call<'a>(&'a self, context: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        self.held.lock().unwrap().push(context.confinement == agentd_core::policy::Confinement::ReadOnly);
        self.disk.write("changed", "by a command");
        Box::pin(std::future::ready(ToolOutput::ok("done")))
    }
}

/// The way in which one command ran.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    asked: bool,
    held: bool,
    recorded: bool,
}

async fn ran(command: &str, policy: Policy, settings: SessionSettings, on_interrupt: OnInterrupt, holds: bool) -> Ran {
    let disk = Arc::new(MemoryDisk::default());
    let shell = Arc::new(Shell { holds, disk: Arc::clone(&disk), held: Mutex::default() });
    let script = [calls(&[(SHELL_TOOL, json!({ "command": command }))]), says("Done.")];
    let engine = Engine::new(
        Ports {
            models: Arc::new(OneModel(ScriptedModel::new(script))),
            toolbox: Arc::clone(&shell) as _,
            store: Arc::new(MemoryStore::new()),
            workspaces: Arc::new(NoWorkspaces),
            pictures: None,
            snapshots: disk,
            languages: Arc::new(agentd_core::ports::NoLanguages),
            exchanges: agentd_core::ports::NoExchanges::port(),
            audit: Arc::new(MemoryAudit::default()),
            clock: Arc::new(StoppedClock::default()),
        },
        EngineConfig { policy: Arc::new(policy), ..EngineConfig::default() },
    );
    let session = engine.create_session(settings, None).await.unwrap();
    let mut started = session.start_turn(StartTurn { on_interrupt, ..input("Go!") }).await.unwrap();
    let (mut asked, mut recorded) = (false, false);
    loop {
        let event = until(&mut started.events, |_| true).await;
        match &event.kind {
            EventKind::InterruptRaised { interrupt } => {
                asked = true;
                session.answer(interrupt.id, Answer::Approve, "test".to_owned()).await.unwrap();
            }
            EventKind::ItemCompleted { item, .. } => {
                if let ItemBody::ToolResult(result) = &item.body {
                    recorded |= !result.files.is_empty();
                }
            }
            EventKind::TurnEnded { .. } => break,
            _ => {}
        }
    }
    let held = shell.held.lock().unwrap();
    assert_eq!(held.len(), 1, "{command} runs once");
    Ran { asked, held: held[0], recorded }
}

#[tokio::test]
async fn what_nobody_was_asked_about_may_change_nothing() {
    let held = Ran { asked: false, held: true, recorded: false };
    let free = |asked| Ran { asked, held: false, recorded: true };
    let plain = SessionSettings::default;
    let wait = OnInterrupt::Wait;
    for command in ["ls", "pwd && cat a.txt | head -n 3", "git status"] {
        assert_eq!(ran(command, shipped(), plain(), wait, true).await, held, "{command}");
        // Also where nobody is asked anyway: the same command runs in the same way.
        assert_eq!(ran(command, shipped(), plain(), OnInterrupt::Approve, true).await, held, "{command}");
    }
    // Approved, granted, by a rule, and where nobody is asked.
    assert_eq!(ran("make", shipped(), plain(), wait, true).await, free(true));
    assert_eq!(ran("ls && make", shipped(), plain(), wait, true).await, free(true));
    let granted = granting(&["run_bash_command: make"]);
    assert_eq!(ran("make", shipped(), granted.clone(), wait, true).await, free(false));
    assert_eq!(ran("ls && make", shipped(), granted, wait, true).await, free(false));
    assert_eq!(ran("make", shipped(), plain(), OnInterrupt::Approve, true).await, free(false));
    let unasked = SessionSettings { confirm_exec: false, ..plain() };
    assert_eq!(ran("make", shipped(), unasked, wait, true).await, free(false));
    let off = || compiled("global: {enable_approval: false}");
    assert_eq!(ran("make", off(), plain(), wait, true).await, free(false));
}

#[tokio::test]
async fn where_nothing_would_hold_it_what_only_looks_asks_as_well() {
    let ran = ran("ls", shipped(), SessionSettings::default(), OnInterrupt::Wait, false).await;
    assert_eq!(ran, Ran { asked: true, held: false, recorded: true });
}
