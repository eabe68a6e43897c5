//! Sample values of every wire type.

use agentd_core::{
    Timestamp,
    agent::{Parent, Subagent},
    context::{
        Compaction, CompactionCause, CompactionReport, CompactionStrategy, PromptReport, ServerRemark, TokenLevel,
        Window,
    },
    event::{Event, EventKind, StateChange},
    files::{Picture, StoredInput},
    folder::AddedFolder,
    grant::GrantScope,
    ids::{CallId, InterruptId, ItemId, SessionId, TraceId, TurnId},
    import_origin::ImportOrigin,
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    item::{Item, ItemBody, NoticeSource, NoticeTopic},
    model::Slot,
    policy::{Layer, Risk},
    routing::{ChoiceRule, Intent, IntentKind},
    session::{Mount, SessionMode, SessionSettings, SessionStatus, SessionSummary, Todo},
    state_files::StateFileChange,
    surroundings::Surroundings,
    tool::{FileChange, FileChangeKind, PrintedText, ToolCall, ToolDetails, ToolErrorCode, ToolResult},
    turn::{Denial, StopReason, TurnError, TurnResult},
    usage::{CallTiming, Usage},
    worktree::SessionWorktree,
};
use agentd_proto::convert::Wire;
use serde_json::json;

/// Returns all values of a wire enum.
pub(crate) fn all<T: Wire<i32>>() -> impl Iterator<Item = T> + Clone {
    (1..).map_while(|number| T::from_wire(number, "a value").ok())
}

pub(crate) fn picture() -> Picture {
    let (path, media_type) = ("large_tool_results/picture-0a.png".into(), "image/png".into());
    Picture { path, media_type, width: 640, height: 480, bytes: 70_000 }
}

pub(crate) fn stored() -> StoredInput {
    StoredInput { path: "uploads/stdin.txt".into(), bytes: 126_454, lines: 2500, shown_bytes: 37_000, shown_lines: 700 }
}

pub(crate) fn usage() -> Usage {
    Usage {
        prompt_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 4,
        completion_tokens: u64::MAX,
        reasoning_tokens: 1,
        cost_microusd: Some(0),
        calls: 8,
        unpriced_calls: 9,
    }
}

pub(crate) fn event(kind: EventKind) -> Event {
    Event {
        session_id: SessionId::generate(),
        turn_id: Some(TurnId::generate()),
        seq: 7,
        at: "2026-01-02T03:04:05.678901234Z".parse().unwrap(),
        kind,
    }
}

pub(crate) fn settings() -> SessionSettings {
    SessionSettings {
        confirm_write: false,
        confirm_exec: true,
        slot: Some(Slot::Code),
        model: Some("coder-70b".into()),
        project: Some(Mount { path: "/home/me/日本 語".into(), writable: true }),
        grants: vec!["run_bash_command: git status".into()],
        parent: Some(Parent {
            session: "0193a5b2-7c1d-7000-8000-000000000001".parse().unwrap(),
            agent: Some("researcher".into()),
            tools: Vec::new(),
        }),
        agent: Some("poet".into()),
        pinned: true,
        mode: SessionMode::Plan,
        pins: vec!["Never push.".into()],
        folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/home/me/lib".into(), writable: false }],
        worktree: Some(worktree()),
        former_project: Some(Box::new("/home/them/app".into())),
        trace: Some(true),
        imported: Some(Box::new(ImportOrigin { events: 12, context: None })),
    }
}

fn worktree() -> SessionWorktree {
    SessionWorktree { name: "fix".into(), branch: "agentd/fix".into(), project: "/home/me/main".into(), left_out: 2 }
}

pub(crate) fn summary() -> SessionSummary {
    SessionSummary {
        id: SessionId::generate(),
        title: "A title".into(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: "1969-12-31T23:59:59.5Z".parse().unwrap(),
        turns: 3,
        last_seq: 99,
        status: SessionStatus::Waiting,
        usage: usage(),
        parent: Some(SessionId::generate()),
        project: Some(Mount { path: "/home/me/app".into(), writable: true }),
        folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/home/me/lib".into(), writable: true }],
        worktree: Some(worktree()),
    }
}

pub(crate) fn interrupts() -> Vec<Interrupt> {
    let interrupt = |ask, on_deadline| Interrupt {
        id: InterruptId::generate(),
        session_id: SessionId::generate(),
        turn_id: TurnId::generate(),
        call_id: Some(CallId::generate()),
        asked_by: AskedBy { session_title: Some("Tidy".into()), client: Some("phone".into()), ..AskedBy::default() },
        ask,
        raised_at: Timestamp::UNIX_EPOCH,
        deadline: Some(Timestamp::MAX),
        on_deadline,
    };
    let approval = |risk, args| Ask::Approval {
        tool: "write_file".into(),
        args,
        risk,
        reason: "it changes a file".into(),
        preview: Some("--- a\n+++ b\n".into()),
        layer: Some(Layer::Tool),
        rule: Some("tools.write_file.patterns.low_risk: *.md".into()),
        grants: vec!["write_file".into(), "run_bash_command: make".into()],
        wider: vec!["mcp_lab_weather".into(), "mcp_lab_*".into()],
        for_good: vec!["write_file".into(), "run_bash_command: [at /home/me/app] make".into()],
        owner: None,
    };
    let question = |required, default| Ask::Question {
        secret: false,
        question: "Which?".into(),
        context: None,
        default,
        required,
        choices: if required { vec!["this".into(), "that \u{1b}[2J".into()] } else { Vec::new() },
    };
    vec![
        interrupt(approval(Risk::Low, json!({"path": "a", "n": [1, null, true, {"deep": "x"}]})), None),
        interrupt(approval(Risk::Medium, json!("no { json")), Some(Answer::Approve)),
        interrupt(approval(Risk::High, json!(null)), Some(Answer::Reject { reason: Some(String::new()) })),
        interrupt(approval(Risk::Critical, json!({})), Some(Answer::Edit { args: json!({"z": 1, "a": 2}) })),
        interrupt(question(true, None), Some(Answer::Text { text: "this".into() })),
        Interrupt {
            call_id: None,
            deadline: None,
            ..interrupt(
                question(false, Some("that".into())),
                Some(Answer::Keep { rule: "mcp_lab_*".into(), scope: GrantScope::ForGood }),
            )
        },
    ]
}

pub(crate) fn items() -> Vec<Item> {
    let text = || "words\u{0} and \u{1F600}".to_owned();
    let call_id = CallId::generate();
    let result = |error| {
        ItemBody::ToolResult(ToolResult {
            call_id: call_id.clone(),
            name: "grep".into(),
            text: text(),
            error,
            files: all().map(|change| FileChange::new("a/b", change)).collect(),
            ran_with: Some("{\"path\":\"b.txt\"}".into()),
            exit_code: Some(2),
            details: Some(Box::new(ToolDetails {
                stdout: Some(PrintedText { text: text(), bytes: 70_000, cut: true, tail: "the end".into() }),
                stderr: Some(PrintedText::of_stream("", 0)),
                diff: Some(PrintedText { text: "-a\n+b\n".into(), bytes: 6, cut: false, tail: String::new() }),
                stored: Some("/large_tool_results/c.txt".into()),
                own_bytes: Some(6),
            })),
            duration_ms: 12,
            ..ToolResult::default()
        })
    };
    let mut bodies = vec![
        ItemBody::UserMessage { text: text(), steered: true, typed_bytes: Some(3), stored: Some(stored()) },
        ItemBody::AgentMessage { text: String::new() },
        ItemBody::Reasoning { text: text() },
        ItemBody::ToolCall(ToolCall { call_id: call_id.clone(), name: "grep".into(), arguments: "{\"a\": 1 ".into() }),
        ItemBody::Compaction(compaction()),
        ItemBody::notice(text()),
        ItemBody::Notice {
            text: text(),
            topic: NoticeTopic::Memory,
            sources: vec![NoticeSource { name: text(), bytes: 7, digest: text(), of_bytes: 9 }],
            pictures: Vec::new(),
        },
        ItemBody::Notice { text: text(), topic: NoticeTopic::Skills, sources: Vec::new(), pictures: Vec::new() },
        ItemBody::Notice { text: text(), topic: NoticeTopic::Files, sources: Vec::new(), pictures: vec![picture()] },
        result(None),
    ];
    bodies.extend(ToolErrorCode::ALL.map(|code| result(Some(code))));
    bodies.into_iter().map(|body| Item::new(TurnId::generate(), body)).collect()
}

fn compaction() -> Compaction {
    Compaction {
        summary: "what was".into(),
        through: 12,
        before: Window { after: 3, summary: 4, held: 5 },
        file: Default::default(),
        report: CompactionReport {
            cause: CompactionCause::Person,
            strategy: CompactionStrategy::Compact,
            messages_before: 40,
            messages_after: 11,
            tokens_before: 15_000,
            tokens_after: 3_000,
            percent_before: 96,
            pinned: vec!["never push".into()],
            path: Some("/conversation_history/x.md".into()),
            model: Some("m".into()),
            problem: Some("it was long".into()),
            offloaded: 3,
        },
        ..Compaction::default()
    }
}

pub(crate) fn results() -> Vec<TurnResult> {
    let result = |stop_reason, error| TurnResult {
        turn_id: TurnId::generate(),
        trace_id: TraceId::generate(),
        text: "the answer".into(),
        tool_used: true,
        stop_reason,
        error,
        steps: 4,
        usage: usage(),
        denials: vec![Denial { call_id: CallId::generate(), tool: "write_file".into(), reason: "no".into() }],
        files: vec![FileChange::new("x", FileChangeKind::Created)],
        duration_ms: 5,
        only_compacted: true,
    };
    let failed = |kind| {
        let error = TurnError { kind, message: "it broke".into(), hint: Some("mend it".into()) };
        result(StopReason::Failed, Some(error))
    };
    all().map(|reason| result(reason, None)).chain(all().map(failed)).collect()
}

pub(crate) fn todos() -> Vec<Todo> {
    let todo = |(status, priority)| Todo { id: "1".into(), content: "do it".into(), status, priority };
    all().zip(all()).map(todo).collect()
}

pub(crate) fn delta(text: &str) -> EventKind {
    EventKind::ItemDelta { item_id: ItemId::generate(), offset: 3, text: text.into() }
}

pub(crate) fn kinds() -> Vec<EventKind> {
    let mut kinds: Vec<EventKind> = Slot::ALL
        .map(|slot| EventKind::TurnStarted {
            trace_id: TraceId::generate(),
            slot,
            model: "m".into(),
            reason: "asked for".into(),
            rule: ChoiceRule::Client,
            max_steps: 100,
            compacts: true,
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: None,
            options: None,
        })
        .to_vec();
    kinds.extend(items().into_iter().map(|item| EventKind::ItemStarted { item }));
    kinds.extend(all().map(|status| EventKind::ItemCompleted { item: items().remove(0), status }));
    kinds.push(delta("text"));
    kinds.extend(interrupts().into_iter().map(|it| EventKind::InterruptRaised { interrupt: Box::new(it) }));
    for by in [AnsweredBy::Client("agentctl".into()), AnsweredBy::Deadline, AnsweredBy::Daemon] {
        kinds.push(EventKind::InterruptResolved {
            interrupt_id: InterruptId::generate(),
            call_id: Some(CallId::generate()),
            answer: Answer::Reject { reason: None },
            by,
        });
    }
    kinds.push(EventKind::UsageUpdated {
        step: 2,
        slot: Slot::Chat,
        model: "m".into(),
        usage: usage(),
        turn: Usage::default(),
        prompt: Some(PromptReport {
            bytes: 9,
            repeated_bytes: 5,
            broken_by: Some("tools".into()),
            remarks: ServerRemark::new("tools_changed", 41_850).into_iter().collect(),
            ..Default::default()
        }),
        delegated: true,
        timing: Some(CallTiming { first_token_ms: Some(120), duration_ms: 2_400 }),
    });
    for change in [
        StateChange::Todos { todos: todos() },
        StateChange::Title { title: "named".into() },
        StateChange::Settings { settings: settings() },
        StateChange::Queue { length: 2, added: None },
        StateChange::TokenLevel { level: TokenLevel::Warning, tokens: 80, window: 100 },
        StateChange::Window { window: Window { after: 7, summary: 9, held: 5 } },
        StateChange::Reset,
        StateChange::File(StateFileChange { path: "notes/plan.md".into(), content: Some("one\n".into()) }),
        StateChange::File(StateFileChange { path: "old.md".into(), content: None }),
        StateChange::HandedOver { path: "uploads/a.pdf".into(), picture: None },
        StateChange::Agent { stack: vec!["researcher".into()] },
        StateChange::Surroundings(Surroundings {
            project: Some("/home/me/shop".into()),
            client: None,
            start: "/project".into(),
            text: "Here.".into(),
        }),
        StateChange::Tools { names: vec!["mcp_words_count".into()] },
        StateChange::Subagent(Subagent {
            call_id: CallId::generate(),
            session_id: SessionId::generate(),
            name: "researcher".into(),
            task: "Find the door".into(),
            after: 7,
        }),
        StateChange::Forked { from: SessionId::generate(), turn: 3 },
        StateChange::Withdrawn { items: vec![2, 7], input: Some("Wipe it".into()), added: vec!["Now".into()] },
        StateChange::Undone {
            turn_id: TurnId::generate(),
            redo: true,
            files: vec![FileChange::new("a/b", FileChangeKind::Deleted)],
        },
    ] {
        kinds.push(EventKind::StateChanged { change });
    }
    for kind in IntentKind::ALL {
        let by = (kind == IntentKind::Uncertain).then(|| "small".into());
        let intent = Intent { kind, confidence: 80, reason: "it names files".into(), complex: by.is_none(), by };
        kinds.push(EventKind::IntentClassified { intent });
    }
    for rule in [ChoiceRule::LastAnswer, ChoiceRule::Fallback, ChoiceRule::ComplexTask] {
        let (slot, model, reason) = (Slot::Chat, "m".into(), "it is there".into());
        kinds.push(EventKind::ModelChosen { slot, model, rule, reason });
    }
    kinds.push(EventKind::Warning { code: "model_retry".into(), message: "again".into(), retry_in_ms: Some(6) });
    kinds.extend(results().into_iter().map(|result| EventKind::TurnEnded { result: Box::new(result) }));
    kinds
}
