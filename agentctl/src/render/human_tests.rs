//! Scripted turns on terminals and in pipes.

use std::cell::RefCell;
use std::rc::Rc;

use agentd_core::{
    event::StateChange,
    ids::{CallId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy},
    session::{Todo, TodoStatus},
    tool::{FileChange, FileChangeKind, ToolDetails, ToolErrorCode},
    turn::StopReason,
    usage::Usage,
};
use serde_json::json;

use super::*;
use crate::{
    render::screen::{Screen, TERMINAL},
    samples,
};

/// Everything that was written: to both outputs in order, and to each.
#[derive(Debug, Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

const NO_COLOR: TerminalStyle = TerminalStyle { out_color: false, ..TERMINAL };
const PIPES: TerminalStyle = TerminalStyle { out_shown: false, out_terminal: false, out_color: false, ..TERMINAL };

/// Events of one turn.
struct Script {
    turn_id: TurnId,
    events: Vec<EventKind>,
}

impl Script {
    fn new() -> Self {
        let started = EventKind::TurnStarted {
            trace_id: TraceId::generate(),
            slot: agentd_core::model::Slot::Base,
            model: "test".into(),
            reason: "asked for".into(),
            rule: Default::default(),
            max_steps: 10,
            compacts: false,
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: None,
            options: None,
        };
        Self { turn_id: TurnId::generate(), events: vec![started] }
    }

    fn item(&self, body: ItemBody) -> Item {
        Item::new(self.turn_id, body)
    }

    fn event(mut self, kind: EventKind) -> Self {
        self.events.push(kind);
        self
    }

    fn streamed(mut self, pieces: &[&str], body: fn(String) -> ItemBody) -> Self {
        let mut item = self.item(body(String::new()));
        self.events.push(EventKind::ItemStarted { item: item.clone() });
        let mut offset = 0;
        for piece in pieces {
            self.events.push(EventKind::ItemDelta { item_id: item.id, offset, text: (*piece).into() });
            offset += piece.len() as u64;
        }
        item.body = body(pieces.concat());
        self.event(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }

    fn says(self, pieces: &[&str]) -> Self {
        self.streamed(pieces, |text| ItemBody::AgentMessage { text })
    }

    fn thinks(self, pieces: &[&str]) -> Self {
        self.streamed(pieces, |text| ItemBody::Reasoning { text })
    }

    fn calls(self, call: &str, name: &str, arguments: &str) -> Self {
        let call = ToolCall { call_id: CallId::from(call.to_owned()), name: name.into(), arguments: arguments.into() };
        let item = self.item(ItemBody::ToolCall(call));
        self.event(EventKind::ItemStarted { item: item.clone() })
            .event(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }

    fn runs(self, call: &str, name: &str) -> Self {
        let item = self.item(ItemBody::ToolResult(result(call, name, "", None)));
        self.event(EventKind::ItemStarted { item })
    }

    fn returns(self, call: &str, name: &str, text: &str, error: Option<ToolErrorCode>) -> Self {
        let item = self.item(ItemBody::ToolResult(result(call, name, text, error)));
        self.event(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    }

    fn ends(self, text: &str) -> Self {
        let result = TurnResult {
            text: text.into(),
            steps: 2,
            usage: Usage {
                prompt_tokens: 1234,
                cached_tokens: 1000,
                completion_tokens: 56,
                cost_microusd: Some(1200),
                ..Usage::default()
            },
            duration_ms: 3456,
            ..samples::result(StopReason::Completed)
        };
        self.event(EventKind::TurnEnded { result: Box::new(result) })
    }

    /// Both outputs after the turn was shown.
    fn played(self, look: TerminalStyle, options: fn(Human<Paper, Paper>) -> Human<Paper, Paper>) -> (Paper, Paper) {
        let (out, err) = (Paper::default(), Paper::default());
        self.play(options(Human::new(out.clone(), err.clone(), look)));
        (out, err)
    }

    fn play(self, mut human: Human<Paper, Paper>) {
        for kind in self.events {
            human.show(&kind).unwrap();
            if let EventKind::TurnEnded { result } = kind {
                human.finish_turn(&result).unwrap();
            }
        }
    }

    /// One terminal that has both outputs, as text.
    fn screen(self, look: TerminalStyle) -> String {
        let paper = Paper::default();
        self.play(Human::new(paper.clone(), paper.clone(), look));
        let (columns, rows) = (look.size)();
        Screen::new(columns, rows).feed(&paper.text()).lines().join("\n")
    }
}

fn result(call: &str, name: &str, text: &str, error: Option<ToolErrorCode>) -> ToolResult {
    ToolResult { text: text.into(), error, duration_ms: 12, ..ToolResult::empty(CallId::from(call.to_owned()), name) }
}

fn working_turn() -> Script {
    Script::new()
        .thinks(&["The person wants\n", "a **summary** of two files."])
        .says(&["\n\nI look at *both*", " files.\n\n"])
        .calls("a", "read_file", r#"{"path":"a.txt"}"#)
        .calls("b", "read_file", r#"{"path":"b.txt"}"#)
        .runs("a", "read_file")
        .runs("b", "read_file")
        .returns("b", "read_file", "no such file", Some(ToolErrorCode::Path))
        .returns("a", "read_file", "one\ntwo\n", None)
        .event(EventKind::Warning {
            code: "model_retry".into(),
            message: "trying again in 2 s".into(),
            retry_in_ms: None,
        })
        .says(&["# Sum", "mary\n\n- **a.txt** ", "has two lines that say one", " and two\n- 漢字\n"])
        .ends("# Summary\n\n- **a.txt** has two lines that say one and two\n- 漢字\n")
}

#[test]
fn turn_on_a_terminal_is_rendered() {
    insta::assert_snapshot!(working_turn().screen(TERMINAL), @r#"
    ∴ The person wants · 2 lines

    I look at both files.
    ✗ read_file b.txt → no such file · 12 ms
    ● read_file a.txt → 2 lines · 12 ms
    ! trying again in 2 s

    Summary

    • a.txt has two lines that say one and two
    • 漢字
    1,234 in (1,000 cached) · 56 out · $0.0012 · 2 steps · 3.4 s
    "#);
}

#[test]
fn turn_without_colours_has_the_same_layout() {
    assert_eq!(working_turn().screen(NO_COLOR), working_turn().screen(TERMINAL));
}

#[test]
fn pipe_receives_only_the_answer() {
    let (out, err) = working_turn().played(PIPES, |human| human);
    assert_eq!(out.text(), "# Summary\n\n- **a.txt** has two lines that say one and two\n- 漢字\n");
    insta::assert_snapshot!(err.text(), @r#"
    ∴ The person wants · 2 lines
    ✗ read_file b.txt → no such file · 12 ms
    ● read_file a.txt → 2 lines · 12 ms
    ! trying again in 2 s
    1,234 in (1,000 cached) · 56 out · $0.0012 · 2 steps · 3.4 s
    "#);
}

#[test]
fn colours_are_used_only_if_supported() {
    let look = TerminalStyle { err_color: true, ..PIPES };
    let (_, err) = Script::new().returns("a", "now", "12:00", None).played(look, |human| human);
    assert!(err.text().contains("\u{1b}["));
}

#[test]
fn lost_and_repeated_deltas_change_nothing() {
    let mut script = Script::new();
    let item = script.item(ItemBody::AgentMessage { text: String::new() });
    let delta = |offset, text: &str| EventKind::ItemDelta { item_id: item.id, offset, text: text.into() };
    let whole = Item { body: ItemBody::AgentMessage { text: "one two three four".into() }, ..item.clone() };
    script = script
        .event(EventKind::ItemStarted { item: item.clone() })
        .event(delta(0, "one "))
        .event(delta(0, "one "))
        .event(delta(2, "e two "))
        .event(delta(14, "four"))
        .event(EventKind::ItemCompleted { item: whole, status: ItemStatus::Done });
    assert_eq!(script.screen(TERMINAL), "one two three four");
}

#[test]
fn line_about_the_session_does_not_end_a_code_fence() {
    let script = Script::new();
    let item = script.item(ItemBody::AgentMessage { text: String::new() });
    let pieces = ["```\n# one\n# tw", "o\n# three\n```\nend *now*"];
    let delta = |offset, text: &str| EventKind::ItemDelta { item_id: item.id, offset, text: text.into() };
    let whole = Item { body: ItemBody::AgentMessage { text: pieces.concat() }, ..item.clone() };
    let script = script
        .event(EventKind::ItemStarted { item: item.clone() })
        .event(delta(0, pieces[0]))
        .event(EventKind::StateChanged { change: StateChange::Queue { length: 1, added: None } })
        .event(delta(pieces[0].len() as u64, pieces[1]))
        .event(EventKind::ItemCompleted { item: whole, status: ItemStatus::Done });
    let shown = script.says(&["`a`"]).screen(TerminalStyle { err_shown: true, ..NO_COLOR });
    assert_eq!(shown, "# one\n# tw\n\none more turn waits\n\no\n# three\nend now\na");
}

#[test]
fn tool_progress_never_enters_the_answer() {
    let mut script = Script::new().says(&["before"]);
    let item = script.item(ItemBody::ToolResult(result("a", "search_file", "", None)));
    let delta = EventKind::ItemDelta { item_id: item.id, offset: 0, text: "indexing a.pdf: 1 of 9\n".into() };
    script = script.event(EventKind::ItemStarted { item }).event(delta).returns("a", "search_file", "found", None);
    let (out, err) = script.says(&["after"]).played(PIPES, |human| human);
    assert!(!out.text().contains("indexing") && !err.text().contains("indexing"), "{}{}", out.text(), err.text());
}

#[test]
fn unstreamed_item_is_shown_whole() {
    let mut script = Script::new();
    let item = script.item(ItemBody::AgentMessage { text: "never **streamed**".into() });
    script = script.event(EventKind::ItemCompleted { item, status: ItemStatus::Done });
    assert_eq!(script.screen(TERMINAL), "never streamed");
}

#[test]
fn state_changes_and_other_clients_are_one_line() {
    let todo = |content: &str, status| Todo {
        id: content.into(),
        content: content.into(),
        status,
        priority: agentd_core::session::TodoPriority::Medium,
    };
    let todos = vec![todo("plan", TodoStatus::Completed), todo("write\u{1b}[2J it", TodoStatus::InProgress)];
    let script = Script::new();
    let ask = samples::approval("run_bash_command", json!({"command": "make"}), None, &[]);
    let interrupt = samples::interrupt(ask);
    let resolved = EventKind::InterruptResolved {
        interrupt_id: interrupt.id,
        call_id: None,
        answer: Answer::Approve,
        by: AnsweredBy::Client("phone".into()),
    };
    let input =
        script.item(ItemBody::UserMessage { text: "do it".into(), steered: false, typed_bytes: None, stored: None });
    let id = crate::report::short_id(interrupt.id);
    let script = script
        .event(EventKind::ItemCompleted { item: input, status: ItemStatus::Done })
        .event(EventKind::StateChanged { change: StateChange::Todos { todos } })
        .event(EventKind::InterruptRaised { interrupt: Box::new(interrupt) })
        .event(resolved)
        .event(EventKind::StateChanged { change: StateChange::Queue { length: 2, added: None } });
    let (_, err) = script
        .played(TerminalStyle { size: || (100, 12), ..TERMINAL }, |human| human.showing_input().showing_interrupts());
    insta::assert_snapshot!(err.text().replace(&id, "ID"), @r#"
    › do it
    ☐ 1 of 2 done · write it
    ? $ make
      answer it with: agentctl answer ID …
      see it in full: agentctl interrupts ID
    answered by phone
    2 more turns wait
    "#);
}

fn reads(paths: &[&str]) -> Script {
    paths.iter().fold(Script::new(), |script, path| {
        script.calls(path, "read_file", &json!({ "path": path }).to_string()).runs(path, "read_file").returns(
            path,
            "read_file",
            "one\ntwo\n",
            None,
        )
    })
}

#[test]
fn reads_in_a_row_share_a_line_that_is_never_lost() {
    let two = || reads(&["a.txt", "b.txt"]);
    let line = "● read_file a.txt, b.txt → 4 lines · 2 calls\n";
    let check = |script: Script, after: &str| {
        let (_, err) = script.played(PIPES, |human| human);
        assert_eq!(err.text(), format!("{line}{after}"));
    };
    let warning = EventKind::Warning { code: "model_retry".into(), message: "trying again".into(), retry_in_ms: None };
    check(two().event(warning), "! trying again\n");
    check(two().calls("c", "now", "{}"), "");
    check(two().runs("c", "grep"), "");
    let failed = two().returns("c", "read_file", "no such file", Some(ToolErrorCode::Path));
    check(failed, "✗ read_file → no such file · 12 ms\n");
    check(two().returns("c", "now", "12:00", None), "● now → 12:00 · 12 ms\n");
    check(two().returns("c", "grep", "", None).says(&["So."]), "● grep → done · 12 ms\n");
    check(two().thinks(&["Hm."]), "∴ Hm.\n");
    check(two().says(&["Done."]), "");
    check(two().ends("Done."), "1,234 in (1,000 cached) · 56 out · $0.0012 · 2 steps · 3.4 s\n");
    let ask = samples::approval("run_bash_command", json!({"command": "make"}), None, &[]);
    check(two().event(EventKind::InterruptRaised { interrupt: Box::new(samples::interrupt(ask)) }), "");

    for ends_turn in [false, true] {
        let err = Paper::default();
        let mut human = Human::new(Paper::default(), err.clone(), PIPES);
        two().events.iter().for_each(|event| human.show(event).unwrap());
        assert_eq!(err.text(), "", "another read could follow");
        if ends_turn { human.turn_ended() } else { human.make_way() }.unwrap();
        assert_eq!(err.text(), line);
    }
}

#[test]
fn reads_between_texts_keep_their_place() {
    let script = Script::new().says(&["First."]);
    let look = reads(&["a.txt"]).events.into_iter().skip(1).fold(script, Script::event);
    let shown = look.says(&["Second."]).screen(TerminalStyle { err_shown: true, ..NO_COLOR });
    assert_eq!(shown, "First.\n\n● read_file a.txt → 2 lines · 12 ms\n\nSecond.");
}

#[test]
fn diff_of_an_edit_is_shown_once() {
    const DIFF: &str = "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-old\n+new\n";
    let edit = |asked: bool| {
        let ask = samples::approval("edit_file", json!({"path": "a.rs"}), Some(DIFF), &[]);
        let raised = EventKind::InterruptRaised { interrupt: Box::new(samples::interrupt(ask)) };
        let script = Script::new().calls("a", "edit_file", r#"{"path":"a.rs"}"#);
        let script = if asked { script.event(raised) } else { script };
        let details = Some(Box::new(ToolDetails::of_diff(DIFF)));
        let files = vec![FileChange::new("a.rs", FileChangeKind::Modified)];
        let edited = ToolResult { details, files, ..result("a", "edit_file", "Edited.", None) };
        let item = script.item(ItemBody::ToolResult(edited));
        script.event(EventKind::ItemCompleted { item, status: ItemStatus::Done })
    };
    let check = |asked: bool, options: fn(Human<Paper, Paper>) -> Human<Paper, Paper>, diff: &str| {
        let (_, err) = edit(asked).played(TerminalStyle { err_shown: true, ..NO_COLOR }, options);
        assert_eq!(err.text(), format!("● edit_file a.rs → +1 −1 · 12 ms\n{diff}"));
    };
    let diff = "  @@ -1 +1 @@\n  -old\n  +new\n";
    check(false, |human| human, diff);
    check(true, |human| human, diff);
    check(false, Human::in_chat, diff);
    check(true, |human| human.in_chat().showing_input().still(), diff);
    // The question of the chat has just shown it.
    check(true, Human::in_chat, "");
    let (_, err) = edit(false).played(PIPES, |human| human);
    assert_eq!(err.text(), "● edit_file a.rs → +1 −1 · 12 ms\n");
}
