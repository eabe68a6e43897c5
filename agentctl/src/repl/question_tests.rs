//! Questions answered by scripted keys.

use std::collections::VecDeque;

use agentd_core::{interrupt::AskedBy, policy::Layer};
use serde_json::json;

use super::*;
use crate::{samples, terminal::sanitize::clean};

#[derive(Default)]
struct Typist {
    keys: VecDeque<Key>,
    screen: String,
    edited: Option<String>,
    /// Columns of the window where they are others than usual.
    columns: Option<usize>,
    /// Keys that were not answers.
    kept: Vec<Key>,
}

impl Console for Typist {
    fn key(&mut self) -> io::Result<Option<Key>> {
        Ok(self.keys.pop_front())
    }

    fn keep(&mut self, keys: &[Key]) -> io::Result<()> {
        self.kept.extend_from_slice(keys);
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.screen.push_str(text);
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        (self.columns.unwrap_or(80), 14)
    }

    fn edit(&mut self, _: &str, _: &str) -> io::Result<Option<String>> {
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
    let asked_by =
        AskedBy { session_title: Some("Build it".into()), client: Some("phone".into()), ..AskedBy::default() };
    Interrupt { asked_by, ..samples::interrupt(ask) }
}

fn approval(grants: &[&str]) -> Interrupt {
    approval_of(Risk::Medium, grants)
}

fn approval_of(risk: Risk, grants: &[&str]) -> Interrupt {
    interrupt(Ask::Approval {
        tool: "run_bash_command".into(),
        args: json!({"command": "make"}),
        risk,
        reason: "it runs a command".into(),
        preview: Some("make \u{1b}[2Jall".into()),
        layer: Some(Layer::Default),
        rule: Some("the session's confirm_exec is on".into()),
        grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
        wider: Vec::new(),
        for_good: Vec::new(),
        owner: None,
    })
}

fn question(default: Option<&str>, required: bool) -> Interrupt {
    interrupt(Ask::Question {
        secret: false,
        question: "Which colour?".into(),
        context: Some("For the\nwall.".into()),
        default: default.map(str::to_owned),
        required,
        choices: Vec::new(),
    })
}

#[track_caller]
fn check(interrupt: &Interrupt, typed: &str, expected: Option<Answer>) -> String {
    let mut typist = Typist { keys: keys(typed), ..Typist::default() };
    assert_eq!(ask(&mut typist, interrupt, false).unwrap(), expected, "{typed}");
    assert!(typist.keys.is_empty(), "{typed}: keys were left over");
    let screen = clean(&typist.screen).replace(&crate::report::short_id(interrupt.id), "ID");
    screen.trim_matches('\n').lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn wider_approvals_need_enter_after_the_key() {
    let rule = &["run_bash_command: make"];
    check(&approval(rule), "y", Some(Answer::Approve));
    check(&approval(rule), "a⏎", Some(Answer::Always { scope: GrantScope::Session }));
    check(&approval(rule), "a⎋y", Some(Answer::Approve));
    check(&approval(rule), "n⏎", Some(Answer::Reject { reason: None }));
    check(&approval(rule), "nnot noww⌫⏎", Some(Answer::Reject { reason: Some("not now".into()) }));
    check(&approval(rule), "s", None);
    check(&approval(rule), "g⏎", Some(Answer::Always { scope: GrantScope::ForGood }));
    check(&approval(rule), "g⎋s", None);
    for grave in [Risk::High, Risk::Critical] {
        check(&approval_of(grave, rule), "y⏎", Some(Answer::Approve));
        check(&approval_of(grave, rule), "y⎋n⏎", Some(Answer::Reject { reason: None }));
        check(&approval_of(grave, rule), "y", None);
        check(&approval_of(grave, rule), "a⏎", Some(Answer::Always { scope: GrantScope::Session }));
    }
    check(&approval(rule), "⎋⏎", Some(Answer::Reject { reason: None }));
    check(&approval(rule), "⎋no⏎", Some(Answer::Reject { reason: Some("no".to_owned()) }));
    check(&approval(rule), "", None);
    // Nothing happens by accident: Enter and space are no answer.
    check(&approval(&[]), "⏎ ⏎y", Some(Answer::Approve));
    check(&approval(rule), "nno⎋y", Some(Answer::Approve));
}

/// Keys that were no answer to a question that then was answered by `s`, as they would be typed ahead.
#[track_caller]
fn kept(interrupt: &Interrupt, typed: impl IntoIterator<Item = Key>) -> String {
    let keys = typed.into_iter().chain(keys("s")).collect();
    let mut typist = Typist { keys, ..Typist::default() };
    assert_eq!(ask(&mut typist, interrupt, false).unwrap(), None);
    let shown = |key: &Key| match key {
        Key::Char(c) => c.to_string(),
        Key::Paste(text) => text.clone(),
        other => format!("{other:?}"),
    };
    typist.kept.iter().map(shown).collect()
}

#[test]
fn typed_words_are_kept_and_not_taken_as_answers() {
    let rule = &["run_bash_command: make"];
    // The console hands no more keys over once a word is begun.
    assert_eq!(kept(&approval(rule), keys("x")), "x");
    // Where there is no rule, its keys mean nothing.
    assert_eq!(kept(&approval(&[]), keys("ag")), "ag");
    for word in ["as", "go", "ay"] {
        assert_eq!(kept(&approval(rule), keys(word)), word);
    }
    assert_eq!(kept(&approval_of(Risk::High, rule), keys("ye")), "ye");
    let pasted = Key::Paste("y\n".to_owned());
    assert_eq!(kept(&approval(rule), [pasted.clone()]), "y\n");
    assert_eq!(kept(&approval_of(Risk::High, rule), [Key::Char('y'), pasted]), "yy\n");
}

#[test]
fn digit_selects_a_wider_rule() {
    let rule = &["mcp_lab_weather {}"];
    let mut wide = approval(rule);
    let Ask::Approval { wider, .. } = &mut wide.ask else { unreachable!() };
    wider.extend(["mcp_lab_weather".to_owned(), "mcp_lab_*".to_owned()]);
    let keep = |rule: &str, scope| Some(Answer::Keep { rule: rule.to_owned(), scope });
    check(&wide, "a⏎", Some(Answer::Always { scope: GrantScope::Session }));
    check(&wide, "2a⏎", keep("mcp_lab_weather", GrantScope::Session));
    check(&wide, "2a⎋3g⏎", keep("mcp_lab_*", GrantScope::ForGood));
    check(&wide, "31a⏎", Some(Answer::Always { scope: GrantScope::Session }));
    check(&wide, "2y", Some(Answer::Approve));
    let chosen = check(&wide, "2s", None);
    assert!(chosen.contains("(g):\n    2  mcp_lab_weather, which covers every call of it\n  or, "), "{chosen}");
    assert!(chosen.contains("first:\n    1  mcp_lab_weather {}\n    3  mcp_lab_*"), "{chosen}");
    let shown = check(&wide, "s", None);
    assert!(shown.contains("(g):\n    1  mcp_lab_weather {}\n  or, if you press its digit first:\n    2  "), "{shown}");
    assert!(shown.contains("2  mcp_lab_weather, which covers every call of it"), "{shown}");
    assert!(shown.contains("3  mcp_lab_*, which covers every call of every tool of that MCP server"), "{shown}");
}

#[test]
fn prefix_rule_is_kept_for_the_session_only() {
    let mut wide = approval(&["run_bash_command: cargo test -q"]);
    let Ask::Approval { wider, .. } = &mut wide.ask else { unreachable!() };
    wider.push("run_bash_command: cargo test *".to_owned());
    let keep = Answer::Keep { rule: "run_bash_command: cargo test *".to_owned(), scope: GrantScope::Session };
    let shown = check(&wide, "2a⏎", Some(keep));
    assert!(shown.contains("2  run_bash_command: cargo test *"), "{shown}");
    // `g` means nothing then, and is kept as the start of words.
    assert_eq!(kept(&wide, keys("2g")), "g");
    check(&wide, "g⏎", Some(Answer::Always { scope: GrantScope::ForGood }));
}

#[test]
fn differing_permanent_rule_is_shown() {
    let mut placed = approval(&["run_bash_command: make"]);
    let Ask::Approval { for_good, .. } = &mut placed.ask else { unreachable!() };
    for_good.push("run_bash_command: [at /app] make".to_owned());
    let shown = check(&placed, "g⏎", Some(Answer::Always { scope: GrantScope::ForGood }));
    let end = shown.lines().last().unwrap();
    assert!(end.contains("kept for good") && end.ends_with("run_bash_command: [at /app] make"), "{shown}");
    assert!(shown.contains("for this session (a):\n    run_bash_command: make\n"), "{shown}");
    assert!(shown.contains("or for good (g), in every session that starts it in the same folder:"), "{shown}");
}

#[test]
fn approval_shows_the_call_and_its_rules() {
    insta::assert_snapshot!(check(&approval(&["run_bash_command: make", "run_bash_command: cc \u{1b}[2Jx"]), "a⏎", Some(Answer::Always { scope: GrantScope::Session })), @r#"
    ? The model wants to use run_bash_command (medium risk)
      for: the main agent in "Build it", started by phone
      why: it runs a command (the defaults: the session's confirm_exec is on)
      make \u{1b}[2Jall
      always keeps, for this session (a) or for good in every session (g):
        run_bash_command: make
        run_bash_command: cc \u{1b}[2Jx
      y yes, once  n no  a always here  g for good  e edit  s later
      keep these rules for this session? Enter yes, Esc no   approved, and kept for this session: run_bash_command: make; run_bash_command: cc \u{1b}[2Jx
    "#);
    let shown = check(&approval(&[]), "s", None);
    assert!(shown.contains("no rule could name exactly this: it can be approved once only\n"), "{shown}");
    assert!(shown.ends_with("left open; answer it later with: agentctl answer ID approve"), "{shown}");
}

#[test]
fn keeping_written_files_offers_no_edit() {
    let mut kept = approval(&[]);
    if let Ask::Approval { tool, .. } = &mut kept.ask {
        Ask::KEEP.clone_into(tool);
    }
    let shown = check(&kept, "es", None);
    assert!(shown.contains("n no  s later") && !shown.contains("edit"), "{shown}");
    assert!(shown.contains("Keep what the command wrote? (medium risk)"), "{shown}");
}

#[test]
fn long_rules_leave_the_question_on_screen() {
    let heredoc: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    let rule = format!("run_bash_command: cat <<END\n{heredoc}END");
    let mut long = approval(&[&rule]);
    if let Ask::Approval { preview, .. } = &mut long.ask {
        *preview = Some(format!("$ cat <<END\n{heredoc}END"));
    }
    let shown = check(&long, "y", Some(Answer::Approve));
    assert!(shown.contains("  run_bash_command: cat <<END⏎line 1⏎") && shown.contains("v view all"), "{shown}");
    assert!(shown.lines().count() <= 14, "{shown}");
    let all = check(&long, "vy", Some(Answer::Approve));
    assert!(all.contains("⏎line 199⏎line 200⏎END\n"), "{all}");
    // What is kept is not said at length once more.
    let kept = check(&long, "a⏎", Some(Answer::Always { scope: GrantScope::Session }));
    assert!(kept.contains("approved, and kept for this session: run_bash_command: cat <<END⏎"), "{kept}");
    assert!(!kept.contains("⏎line 200⏎"), "{kept}");
    let rules: Vec<String> = (1..=30).map(|n| format!("run_bash_command: make part{n}")).collect();
    let many = approval(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    let shown = check(&many, "y", Some(Answer::Approve));
    assert!(shown.contains("part2\n") && shown.contains("… and 28 more rules") && shown.contains("v view"), "{shown}");
    assert!(check(&many, "vy", Some(Answer::Approve)).contains("part30\n"));
}

#[test]
fn command_is_edited_verbatim() {
    let edited = Some(Answer::Edit { args: json!({"command": "make test"}) });
    check(&approval(&[]), "e test⏎", edited.clone());
    check(&approval(&[]), "e⏎e⎋y", Some(Answer::Approve));
    // One that is empty stays in the field.
    check(&approval(&[]), "e⌦⏎make test⏎", edited.clone());
    let saved = |keys| Typist { keys, edited: Some("make test\n".into()), ..Typist::default() };
    assert_eq!(ask(&mut saved(keys("e")), &approval(&[]), false).unwrap(), edited);
    // Leaving the editor is no Enter.
    let grave = approval_of(Risk::High, &[]);
    assert_eq!(ask(&mut saved(keys("e⏎")), &grave, false).unwrap(), edited);
    assert_eq!(ask(&mut saved(keys("e⎋s")), &grave, false).unwrap(), None);
}

#[test]
fn hostile_command_is_edited_with_visible_escapes() {
    let mut hostile = approval(&[]);
    let Ask::Approval { args, .. } = &mut hostile.ask else { unreachable!() };
    *args = json!({"command": "ls \u{1b}]52;c;aGk=\u{7} \u{202e}x"});
    let shown = check(&hostile, "e⎋s", None);
    let (field, ours) =
        (shown.split("arguments: ").nth(1).unwrap(), shown.replace("\u{1b}[K", "").replace("\u{1b}[J", ""));
    assert!(field.contains(r"\u001b]52;c;aGk=") && field.contains(r"\u202e"), "{field}");
    assert!(!ours.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{ours:?}");
}

#[test]
fn other_arguments_are_edited_as_json() {
    let mut deploy = approval(&[]);
    let Ask::Approval { args, .. } = &mut deploy.ask else { unreachable!() };
    *args = json!({"to": "a"});
    let edited = Some(Answer::Edit { args: json!({"to": "test"}) });
    check(&deploy, "e⌫⌫⌫test\"}⏎", edited.clone());
    // What is no JSON object stays in the field: neither it nor what follows it answers anything.
    check(&deploy, "e⌦{\"t⏎o\": \"test\"}⏎", edited.clone());
    check(&deploy, "e⌦[]⏎⌦y⏎⎋s", None);
    let kept = check(&deploy, "e⌦{\"a⏎⎋s", None);
    assert!(kept.contains("invalid JSON") && kept.matches("arguments: {\"a").count() >= 2, "{kept}");
    let pasted = [Key::Char('e'), Key::Erase, Key::Paste("{\n\"to\": \"test\"\n}\n".into()), Key::Enter];
    let mut typist = Typist { keys: pasted.into(), ..Typist::default() };
    assert_eq!(ask(&mut typist, &deploy, false).unwrap(), edited);
    let mut typist = Typist { keys: keys("e"), edited: Some("{\n\"to\": \"test\"\n}\n".into()), ..Typist::default() };
    assert_eq!(ask(&mut typist, &deploy, false).unwrap(), edited);
}

#[test]
fn questions_take_a_line_of_text() {
    let text = |text: &str| Some(Answer::Text { text: text.into() });
    check(&question(None, true), "red⏎", text("red"));
    check(&question(None, true), " ⏎⌦red⏎", text("red"));
    check(&question(None, false), "⏎", text(""));
    check(&question(Some("blue"), true), "⏎", text("blue"));
    check(&question(Some("blue"), true), "red⌦green漢⌫⏎", text("green"));
    check(&question(None, true), "re⎋", None);
    // Answered elsewhere: who dropped the question says so.
    assert!(!check(&question(None, true), "re", None).contains("left open"));
    insta::assert_snapshot!(check(&question(Some("blue"), true), "⏎", text("blue")), @r#"
    ? Which colour?
      For the
      wall.
      [blue] >
    "#);
}

#[test]
fn narrow_screen_shortens_answers_at_word_boundaries() {
    let shown = |columns| {
        let mut typist = Typist { keys: keys("s"), columns: Some(columns), ..Typist::default() };
        ask(&mut typist, &approval(&["write_file"]), false).unwrap();
        typist.screen
    };
    assert!(shown(80).contains("y yes, once  n no  a always here  g for good  e edit  s later"), "{}", shown(80));
    let narrow = shown(50);
    assert!(narrow.contains("  y yes  n no  a always  g good  e edit  s later"), "{narrow}");
    assert!(narrow.contains("always keeps, for this session (a) or for good\n  in every session (g):"), "{narrow}");
}

#[test]
fn numbered_choices_are_selected_by_number() {
    let text = |text: &str| Some(Answer::Text { text: text.into() });
    let mut colours = question(Some("blue"), true);
    let Ask::Question { choices, .. } = &mut colours.ask else { unreachable!() };
    choices.extend(["red", "green \u{1b}[2Jor so"].map(str::to_owned));
    check(&colours, "1⏎", text("red"));
    check(&colours, "2⏎", text("green \u{1b}[2Jor so"));
    check(&colours, "3⏎", text("3"));
    check(&colours, "neither⏎", text("neither"));
    check(&colours, "⏎", text("blue"));
    let shown = check(&colours, "1⏎", text("red"));
    assert!(shown.contains("\n    1  red\n    2  green \\u{1b}[2Jor so\n"), "{shown}");
    assert!(shown.contains("a number and Enter chooses; other words are an answer, too"), "{shown}");
}
