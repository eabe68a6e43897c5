use agentd_core::{
    Timestamp,
    ids::TurnId,
    item::ItemStatus,
    tool::{FileChange, FileChangeKind, ToolErrorCode},
    usage::Usage,
};

use super::*;

/// A session whose events are translated.
struct Fixture {
    session: SessionId,
    turn: TurnId,
    updates: Updates,
    seq: u64,
}

impl Fixture {
    fn with(features: EditorFeatures) -> Self {
        let session = SessionId::generate();
        let roots = SessionRoots { project: Some("/p".into()), workspace: "/w".into(), ..SessionRoots::default() };
        Self { session, turn: TurnId::generate(), updates: Updates::live(session, roots, features), seq: 0 }
    }

    fn new() -> Self {
        Self::with(EditorFeatures::default())
    }

    /// Returns the updates for a call that ran and its result.
    fn ran(&mut self, item: Item, result: ToolResult) -> Vec<Value> {
        let item = Item { body: ItemBody::ToolResult(result), ..item };
        self.take(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }

    fn event(&mut self, session: SessionId, kind: EventKind) -> Event {
        self.seq += 1;
        Event { session_id: session, turn_id: Some(self.turn), seq: self.seq, at: Timestamp::UNIX_EPOCH, kind }
    }

    fn take(&mut self, kind: EventKind) -> Vec<Value> {
        let event = self.event(self.session, kind);
        self.updates.event(&event).iter().map(|update| serde_json::to_value(update).unwrap()).collect()
    }

    fn item(&self, body: ItemBody) -> Item {
        Item::new(self.turn, body)
    }

    fn completed(&mut self, body: ItemBody) -> Vec<Value> {
        let item = self.item(body);
        self.take(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }
}

fn called(id: &str, name: &str, arguments: Value) -> ItemBody {
    let call_id = CallId::from(id.to_owned());
    ItemBody::ToolCall(agentd_core::tool::ToolCall { call_id, name: name.to_owned(), arguments: arguments.to_string() })
}

fn result(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult { text: text.to_owned(), ..ToolResult::empty(CallId::from(id.to_owned()), name) }
}

fn text(update: &Value) -> &str {
    update["content"]["text"].as_str().unwrap()
}

#[test]
fn text_is_sent_once_despite_lost_or_repeated_deltas() {
    let mut fixture = Fixture::new();
    let item = fixture.item(ItemBody::AgentMessage { text: String::new() });
    let id = item.id;
    assert!(fixture.take(EventKind::ItemStarted { item: item.clone() }).is_empty());
    let mut delta =
        |offset: u64, text: &str| fixture.take(EventKind::ItemDelta { item_id: id, offset, text: text.to_owned() });
    let first = delta(0, "Hel");
    assert_eq!(
        (&first[0]["sessionUpdate"], &first[0]["messageId"]),
        (&json!("agent_message_chunk"), &json!(id.to_string()))
    );
    assert_eq!(text(&delta(0, "Hello")[0]), "lo");
    assert!(delta(9, "rld").is_empty(), "the preceding text is missing");
    let item = Item { body: ItemBody::AgentMessage { text: "Hello world".to_owned() }, ..item };
    let rest = fixture.take(EventKind::ItemCompleted { item, status: ItemStatus::Done });
    assert_eq!(text(&rest[0]), " world");
    let thought = fixture.completed(ItemBody::Reasoning { text: "Hm".to_owned() });
    assert_eq!(thought[0]["sessionUpdate"], "agent_thought_chunk");
}

#[test]
fn edit_update_has_its_diff_or_its_failure() {
    let mut fixture = Fixture::new();
    let args = json!({"path": "a.rs", "old_string": "1", "new_string": "2"});
    let call = fixture.completed(called("c", "edit_file", args.clone()));
    assert_eq!(call[0]["content"], json!([{"type": "diff", "path": "/p/a.rs", "oldText": "1\n", "newText": "2\n"}]));
    let files = vec![FileChange::new("/project/a.rs", FileChangeKind::Modified)];
    let done = fixture.completed(ItemBody::ToolResult(ToolResult { files, ..result("c", "edit_file", "done") }));
    assert_eq!((&done[0]["status"], done[0].get("content")), (&json!("completed"), None));
    assert_eq!(done[0]["rawOutput"]["files"], json!(["/project/a.rs"]));

    fixture.completed(called("d", "edit_file", args));
    let failed = ToolResult { error: Some(ToolErrorCode::Tool), ..result("d", "edit_file", "not there") };
    let done = fixture.completed(ItemBody::ToolResult(failed));
    assert_eq!(done[0]["status"], "failed");
    assert_eq!(done[0]["content"][0]["content"]["text"], "```\nnot there\n```");

    fixture.completed(called("e", "edit_file", json!({"path": "a.rs"})));
    let ran = json!({"path": "b.rs", "old_string": "1", "new_string": "3"}).to_string();
    let edited = ToolResult { ran_with: Some(ran), ..result("e", "edit_file", "done") };
    let done = fixture.completed(ItemBody::ToolResult(edited));
    assert_eq!(
        (&done[0]["title"], &done[0]["content"][0]["newText"]),
        (&json!("edit_file b.rs (edited)"), &json!("3\n"))
    );
}

#[test]
fn output_is_streamed_while_a_command_runs() {
    let mut fixture = Fixture::new();
    fixture.completed(called("c", SHELL, json!({"command": "make"})));
    let item = fixture.item(ItemBody::ToolResult(result("c", SHELL, "")));
    fixture.take(EventKind::ItemStarted { item: item.clone() });
    let live = fixture.take(EventKind::ItemDelta { item_id: item.id, offset: 0, text: "one\n".to_owned() });
    assert_eq!(live[0]["content"][0]["content"]["text"], "```\none\n```");
    let done = fixture.ran(item, ToolResult { exit_code: Some(2), ..result("c", SHELL, "exit code 2") });
    assert_eq!((&done[0]["status"], &done[0]["rawOutput"]["exitCode"]), (&json!("failed"), &json!(2)));

    // A terminal without output shows the result.
    let mut fixture = Fixture::with(EditorFeatures { terminals: true, ..EditorFeatures::default() });
    fixture.completed(called("d", SHELL, json!({"command": "true"})));
    let item = fixture.item(ItemBody::ToolResult(result("d", SHELL, "")));
    fixture.take(EventKind::ItemStarted { item: item.clone() });
    let done = fixture.ran(item, result("d", SHELL, "[no output]"));
    assert_eq!(done[0]["_meta"]["terminal_output"]["data"], "[no output]");
}

#[test]
fn usage_and_notices_become_updates() {
    let mut fixture = Fixture::with(EditorFeatures { notices: true, ..EditorFeatures::default() });
    let usage = Usage { prompt_tokens: 90, completion_tokens: 10, cost_microusd: Some(500_000), ..Usage::default() };
    let used = |of_call: Usage| EventKind::UsageUpdated {
        step: 1,
        slot: Slot::Base,
        model: "m".to_owned(),
        usage: of_call,
        turn: usage,
        prompt: None,
        delegated: false,
        timing: None,
    };
    assert!(fixture.take(used(usage)).is_empty(), "the window is not known");
    (fixture.updates.window, fixture.updates.spent) = (Some(1000), Some(1_000_000));
    let update = fixture.take(used(usage));
    assert_eq!(update[0]["cost"], json!({"amount": 1.5, "currency": "USD"}));
    assert_eq!((&update[0]["used"], &update[0]["size"]), (&json!(100), &json!(1000)));
    assert_eq!(fixture.take(used(Usage::default()))[0]["used"], 100, "the fill level is unchanged");

    let warning = fixture.take(EventKind::Warning {
        code: "x".to_owned(),
        message: "one\ntwo\u{1b}[2J".to_owned(),
        retry_in_ms: None,
    });
    assert_eq!((&warning[0]["sessionUpdate"], &warning[0]["title"]), (&json!("notice"), &json!("one")));
    let notice = fixture.completed(ItemBody::notice("undone"));
    assert_eq!((&notice[0]["severity"], &notice[0]["title"]), (&json!("info"), &json!("undone")));
    assert!(fixture.completed(ItemBody::advice("for the model")).is_empty());
}

#[test]
fn unannounced_call_is_sent_before_its_result() {
    let mut fixture = Fixture::with(EditorFeatures { terminals: true, ..EditorFeatures::default() });
    let item = fixture.item(ItemBody::ToolResult(result("c", SHELL, "")));
    let start_updates = fixture.take(EventKind::ItemStarted { item: item.clone() });
    assert_eq!(
        (&start_updates[0]["sessionUpdate"], &start_updates[0]["toolCallId"]),
        (&json!("tool_call"), &json!("c"))
    );
    assert_eq!(
        start_updates[0]["_meta"]["terminal_info"]["terminal_id"], "c",
        "a terminal is announced before it has output"
    );
    assert_eq!(start_updates[1]["status"], "in_progress");
    let done = fixture.ran(item, result("c", SHELL, "out"));
    assert_eq!((done.len(), &done[0]["sessionUpdate"]), (1, &json!("tool_call_update")));
    let past_updates = fixture.completed(ItemBody::ToolResult(result("d", "read_file", "one")));
    assert_eq!(
        (&past_updates[0]["sessionUpdate"], &past_updates[1]["status"]),
        (&json!("tool_call"), &json!("completed"))
    );
    // A subagent's call has the prefixed id that the editor received.
    let child = SessionId::generate();
    let item = fixture.item(ItemBody::ToolResult(result("e", "read_file", "two")));
    let event = fixture.event(child, EventKind::ItemCompleted { item, status: ItemStatus::Done });
    let ids: Vec<Value> =
        fixture.updates.child(&event).iter().map(|update| serde_json::to_value(update).unwrap()).collect();
    assert_eq!(ids[0]["toolCallId"], ids[1]["toolCallId"]);
    assert_ne!(ids[0]["toolCallId"], "e");
}
