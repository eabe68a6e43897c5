//! `agentctl interrupts`: lists what waits for an answer.

use std::io::Write as _;

use agentd_core::{
    Timestamp,
    interrupt::{Ask, Interrupt},
    visible,
};
use clap::Args;

use crate::{
    cmd::answer,
    daemon,
    exit::Exit,
    flags::Global,
    render::{
        asking,
        diff::{self, Room},
    },
    report::{self, Table},
    terminal::look::TerminalStyle,
};

/// The arguments of `interrupts`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl interrupts                    all of them, oldest first
  agentctl interrupts --session 0193a5   of one session
  agentctl interrupts 0193a5b2           one in full: who asks, why, and what each answer does
  agentctl interrupts --json             as an array of objects

An interrupt is a turn's request for an approval or an answer. Answer with `agentctl answer ID …`.")]
pub(crate) struct InterruptsArgs {
    /// Show this one in full: its id, the start or the end of it, or its number in the list
    #[arg(conflicts_with = "session")]
    id: Option<String>,
    /// Only those of this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Lists.
pub(crate) async fn handle(global: &Global, args: InterruptsArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let mut pending = daemon.client.interrupts(args.session.as_deref()).await?;
    if let Some(id) = &args.id {
        pending = vec![answer::waiting(id, &pending)?.clone()];
    }
    report::show(global.json, &pending, || match pending.as_slice() {
        [one] if args.id.is_some() => Ok(anstream::stdout().write_all(in_full(one, Timestamp::now()).as_bytes())?),
        all => table(all),
    })
}

fn table(pending: &[Interrupt]) -> anyhow::Result<()> {
    let ids = report::short_ids(pending.iter().map(|interrupt| interrupt.id));
    let now = Timestamp::now();
    let mut table = Table::new(["#", "ID", "SESSION", "ASKED", "RISK", "WHAT"]);
    for (at, (interrupt, id)) in pending.iter().zip(ids).enumerate() {
        let (risk, what) = match &interrupt.ask {
            Ask::Approval { tool, args, risk, .. } => {
                let what = interrupt.ask.plan().map_or_else(|| args.to_string(), str::to_owned);
                (format!("{risk:?}").to_lowercase(), format!("{tool} {what}"))
            }
            Ask::Question { question, .. } => ("-".to_owned(), question.clone()),
        };
        let mut session = report::short_id(interrupt.session_id);
        if let Some(title) = &interrupt.asked_by.session_title {
            session.push_str(&format!(" {}", report::cut(title, 24)));
        }
        table.row([(at + 1).to_string(), id, session, report::ago(interrupt.raised_at, now), risk, what]);
    }
    table.print("nothing waits for an answer")
}

/// One interrupt with all that a person needs to decide.
fn in_full(interrupt: &Interrupt, now: Timestamp) -> String {
    let (id, short) = (interrupt.id, report::short_id(interrupt.id));
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<10}{value}\n"));
    line("interrupt", &id.to_string());
    line("session", &interrupt.session_id.to_string());
    line("asked by", &asking::who(&interrupt.asked_by));
    line("asked", &report::ago(interrupt.raised_at, now));
    match &interrupt.ask {
        Ask::Question { question, context, default, choices, .. } => {
            line("question", &visible::line(question));
            for context in context.iter().flat_map(|context| context.split('\n')) {
                line("", &visible::line(context));
            }
            for (at, choice) in asking::choices(choices).enumerate() {
                line(if at == 0 { "choices" } else { "" }, &choice);
            }
            if let Some(default) = default {
                line("default", &visible::line(default));
            }
            let chosen = if choices.is_empty() { "" } else { ", or the number of a choice" };
            line("answers", &format!("TEXT    answer for the model{chosen}"));
            line("", "reject  the model learns that there is no answer");
            line("answer", &format!("agentctl answer {short} TEXT|reject"));
        }
        Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, .. } => {
            line("tool", &visible::line(tool));
            line("risk", asking::risk(*risk));
            line("why", &asking::why(reason, *layer, rule.as_deref()));
            let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
            for (at, shown) in
                diff::preview(&shown, Room::of_columns(TerminalStyle::detect().columns()), false).iter().enumerate()
            {
                line(if at == 0 { "would do" } else { "" }, shown);
            }
            line("answers", "approve            runs it, once");
            line("", "reject             does not run it; --reason TEXT gives the model the reason");
            line("", "edit               runs it with --args JSON, unless the rules deny that");
            if grants.is_empty() {
                line("", "always             is not available: this call cannot be matched exactly");
            } else {
                line("", "always             runs it and keeps these rules for the session");
                line("", "always --for-good  runs it and keeps them for every session");
                if !wider.is_empty() {
                    line("", "always --rule RULE runs it and keeps one of the wider rules instead");
                }
                for grant in grants {
                    line("keeps", &asking::rule(grant));
                }
                for rule in for_good {
                    line("for good", &asking::rule(rule));
                }
                for rule in wider {
                    line("wider", &asking::rule(rule));
                }
            }
            line("answer", &format!("agentctl answer {short} approve|reject|edit|always"));
        }
    }
    if let Some(unanswered) = asking::unanswered(interrupt, now) {
        line("deadline", &unanswered);
    }
    text
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        interrupt::{Answer, AskedBy},
        policy::{Layer, Risk},
    };

    use super::*;

    #[test]
    fn programs_find_the_keys_they_rely_on() {
        let interrupt = |ask| Interrupt {
            id: "0193a5b2-7c1d-7000-8000-000000000001".parse().unwrap(),
            session_id: "0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap(),
            turn_id: "0193a5b2-7c1d-7000-8000-000000000003".parse().unwrap(),
            call_id: None,
            asked_by: AskedBy { session_title: Some("Tidy up".to_owned()), ..AskedBy::default() },
            ask,
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        };
        let list = [
            interrupt(Ask::Approval {
                tool: "write_file".to_owned(),
                args: serde_json::json!({"path": "a.txt"}),
                risk: Risk::Medium,
                reason: "it changes a file".to_owned(),
                preview: None,
                layer: Some(Layer::Default),
                rule: Some("the session's confirm_write is on".to_owned()),
                grants: vec!["write_file".to_owned()],
                wider: Vec::new(),
                for_good: Vec::new(),
                owner: None,
            }),
            Interrupt {
                deadline: Some(Timestamp::UNIX_EPOCH),
                on_deadline: Some(Answer::Reject { reason: None }),
                ..interrupt(Ask::Question {
                    secret: false,
                    question: "Which one?".to_owned(),
                    context: None,
                    default: None,
                    required: true,
                    choices: vec!["This".to_owned(), "That \u{1b}[2J".to_owned()],
                })
            },
        ];
        insta::assert_json_snapshot!(list, @r#"
        [
          {
            "id": "0193a5b2-7c1d-7000-8000-000000000001",
            "session_id": "0193a5b2-7c1d-7000-8000-000000000002",
            "turn_id": "0193a5b2-7c1d-7000-8000-000000000003",
            "asked_by": {
              "agent": "main",
              "session_title": "Tidy up"
            },
            "kind": "approval",
            "tool": "write_file",
            "args": {
              "path": "a.txt"
            },
            "risk": "medium",
            "reason": "it changes a file",
            "layer": "default",
            "rule": "the session's confirm_write is on",
            "grants": [
              "write_file"
            ],
            "raised_at": "1970-01-01T00:00:00Z",
            "deadline": null
          },
          {
            "id": "0193a5b2-7c1d-7000-8000-000000000001",
            "session_id": "0193a5b2-7c1d-7000-8000-000000000002",
            "turn_id": "0193a5b2-7c1d-7000-8000-000000000003",
            "asked_by": {
              "agent": "main",
              "session_title": "Tidy up"
            },
            "kind": "question",
            "question": "Which one?",
            "required": true,
            "choices": [
              "This",
              "That \u001b[2J"
            ],
            "raised_at": "1970-01-01T00:00:00Z",
            "deadline": "1970-01-01T00:00:00Z",
            "on_deadline": {
              "answer": "reject"
            }
          }
        ]
        "#);
        let shown = list.map(|interrupt| in_full(&interrupt, Timestamp::UNIX_EPOCH)).join("\n");
        insta::assert_snapshot!(shown, @r#"
        interrupt 0193a5b2-7c1d-7000-8000-000000000001
        session   0193a5b2-7c1d-7000-8000-000000000002
        asked by  the main agent in "Tidy up"
        asked     just now
        tool      write_file
        risk      medium risk
        why       it changes a file (the defaults: the session's confirm_write is on)
        would do  {
                    "path": "a.txt"
                  }
        answers   approve            runs it, once
                  reject             does not run it; --reason TEXT gives the model the reason
                  edit               runs it with --args JSON, unless the rules deny that
                  always             runs it and keeps these rules for the session
                  always --for-good  runs it and keeps them for every session
        keeps     write_file, which covers every call of it
        answer    agentctl answer 00000001 approve|reject|edit|always

        interrupt 0193a5b2-7c1d-7000-8000-000000000001
        session   0193a5b2-7c1d-7000-8000-000000000002
        asked by  the main agent in "Tidy up"
        asked     just now
        question  Which one?
        choices   1  This
                  2  That \u{1b}[2J
        answers   TEXT    answer for the model, or the number of a choice
                  reject  the model learns that there is no answer
        answer    agentctl answer 00000001 TEXT|reject
        deadline  unless answered within 0 s, it is rejected
        "#);
    }
}
