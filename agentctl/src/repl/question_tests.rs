//! Questions answered by scripted keys.

use std::collections::VecDeque;

use agentd_core::{
    ids::{InterruptId, SessionId, TurnId},
    interrupt::AskedBy,
    policy::Layer,
};
use serde_json::json;

use super::*;

#[derive(Default)]
struct Typist {
    keys: VecDeque<Key>,
    screen: String,
    edited: Option<String>,
}

impl Console for Typist {
    fn key(&mut self) -> io::Result<Option<Key>> {
        Ok(self.keys.pop_front())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.screen.push_str(text);
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        (80, 14)
    }

    fn edit(&mut self, _: &str) -> io::Result<Option<String>> {
        Ok(self.edited.take())
    }
}

/// Keys as text: `⏎` is Enter, `⎋` is Escape, `⌫` is Backspace, `⌦` erases the line.
fn keys(text: &str) -> VecDeque<Key> {
    text.chars()
        .map(|c| match c {
            '⏎' => Key::Enter,
            '⎋' => Key::Escape,
            '⌫' => Key::Backspace,
            '⌦' => Key::Erase,
            c => Key::Char(c),
        })
        .collect()
}

fn interrupt(ask: Ask) -> Interrupt {
    Interrupt {
        id: InterruptId::generate(),
        session_id: SessionId::generate(),
        turn_id: TurnId::generate(),
        call_id: None,
        asked_by: AskedBy {
            session_title: Some("Build it".into()),
            client: Some("phone".into()),
            ..AskedBy::default()
        },
        ask,
        raised_at: Timestamp::UNIX_EPOCH,
        deadline: None,
        on_deadline: None,
    }
}

fn approval(grants: &[&str]) -> Interrupt {
    interrupt(Ask::Approval {
        tool: "run_bash_command".into(),
        args: json!({"command": "make"}),
        risk: Risk::High,
        reason: "it runs a command".into(),
        preview: Some("make \u{1b}[2Jall\n".into()),
        layer: Some(Layer::Default),
        rule: Some("the session's confirm_exec is on".into()),
        grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
    })
}

fn question(default: Option<&str>, required: bool) -> Interrupt {
    interrupt(Ask::Question {
        question: "Which colour?".into(),
        context: Some("For the\nwall.".into()),
        default: default.map(str::to_owned),
        required,
    })
}

#[track_caller]
fn check(interrupt: &Interrupt, typed: &str, expected: Option<Answer>) -> String {
    let mut typist = Typist { keys: keys(typed), ..Typist::default() };
    assert_eq!(ask(&mut typist, interrupt, false).unwrap(), expected, "{typed}");
    assert!(typist.keys.is_empty(), "{typed}: keys were left over");
    let screen = clean(&typist.screen).replace(&interrupt.id.to_string(), "ID");
    screen.trim_matches('\n').lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn approvals_take_one_key() {
    let rule = &["run_bash_command: make"];
    check(&approval(rule), "y", Some(Answer::Approve));
    check(&approval(rule), "a", Some(Answer::Always { scope: GrantScope::Session }));
    check(&approval(rule), "n⏎", Some(Answer::Reject { reason: None }));
    check(&approval(rule), "nnot noww⌫⏎", Some(Answer::Reject { reason: Some("not now".into()) }));
    check(&approval(rule), "s", None);
    // For good is asked twice.
    check(&approval(rule), "gy", Some(Answer::Always { scope: GrantScope::ForGood }));
    check(&approval(rule), "g⏎ny", Some(Answer::Approve));
    check(&approval(rule), "g⎋s", None);
    check(&approval(rule), "⎋", None);
    check(&approval(rule), "", None);
    // Nothing happens by accident: Enter, space and letters that mean nothing are no answer, nor is a rule that
    // does not exist.
    check(&approval(&[]), "⏎ xag⏎y", Some(Answer::Approve));
    check(&approval(rule), "nno⎋y", Some(Answer::Approve));
}

#[test]
fn an_approval_shows_what_would_happen() {
    insta::assert_snapshot!(check(&approval(&["run_bash_command: make", "run_bash_command: cc \u{1b}[2Jx"]), "a", Some(Answer::Always { scope: GrantScope::Session })), @r#"
    ? The model wants to use run_bash_command (high risk)
      for: the main agent in "Build it", started by phone
      why: it runs a command (the defaults: the session's confirm_exec is on)
      make all
      always keeps, for this session (a) or for good in every session (g):
        run_bash_command: make
        run_bash_command: cc x
      y yes, once  n no  a always here  g for good  e edit  s later   approved, and kept for this session: run_bash_command: make; run_bash_command: cc x
    "#);
    insta::assert_snapshot!(check(&approval(&[]), "s", None), @r#"
    ? The model wants to use run_bash_command (high risk)
      for: the main agent in "Build it", started by phone
      why: it runs a command (the defaults: the session's confirm_exec is on)
      make all
      y yes, once  n no  e edit  s later   left open; answer it later with: agentctl answer ID approve
    "#);
}

#[test]
fn a_long_preview_is_bounded_and_can_be_viewed() {
    let mut long = approval(&[]);
    if let Ask::Approval { preview, .. } = &mut long.ask {
        *preview = Some((1..=30).map(|n| format!("line {n}\n")).collect());
    }
    let shown = check(&long, "y", Some(Answer::Approve));
    assert!(shown.contains("line 4\n") && shown.contains("… 26 more lines") && !shown.contains("line 5\n"), "{shown}");
    assert!(check(&long, "vy", Some(Answer::Approve)).contains("line 30\n"));
}

#[test]
fn arguments_can_be_edited() {
    let edited = Some(Answer::Edit { args: json!({"command": "make test"}) });
    check(&approval(&[]), "e⌫⌫ test\"}⏎", edited.clone());
    check(&approval(&[]), "e⌦{⏎e⌦[]⏎e⏎e⎋y", Some(Answer::Approve));
    let mut typist =
        Typist { keys: keys("e"), edited: Some("{\n\"command\": \"make test\"\n}\n".into()), ..Typist::default() };
    assert_eq!(ask(&mut typist, &approval(&[]), false).unwrap(), edited);
}

#[test]
fn questions_take_a_line() {
    let text = |text: &str| Some(Answer::Text { text: text.into() });
    check(&question(None, true), "red⏎", text("red"));
    check(&question(None, true), " ⏎⌦red⏎", text("red"));
    check(&question(None, false), "⏎", text(""));
    check(&question(Some("blue"), true), "⏎", text("blue"));
    check(&question(Some("blue"), true), "red⌦green漢⌫⏎", text("green"));
    check(&question(None, true), "re⎋", None);
    insta::assert_snapshot!(check(&question(Some("blue"), true), "⏎", text("blue")), @r#"
    ? Which colour?
      For the
      wall.
      [blue] >
    "#);
}

#[test]
fn the_end_of_a_long_line_is_shown() {
    assert_eq!(tail("漢字abc", 4), "abc");
    assert_eq!(tail("漢字abc", 5), "字abc");
    assert_eq!(tail("abc", 9), "abc");
}
