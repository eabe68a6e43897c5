//! `agentctl interrupts`: lists what waits for an answer.

use agentd_core::{Timestamp, interrupt::Ask};
use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::{
    args::Global,
    complete, daemon,
    exit::Exit,
    report::{self, Table},
};

/// The arguments of `interrupts`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl interrupts                    everything that waits, oldest first
  agentctl interrupts --session 0193a5   of one session
  agentctl interrupts --json             as an array of objects, for programs

Answer with `agentctl answer ID …`.")]
pub(crate) struct InterruptsArgs {
    /// Only those of this session; the start of its id is enough
    #[arg(long, value_name = "ID_OR_PREFIX", add = ArgValueCandidates::new(complete::sessions))]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists.
pub(crate) async fn handle(global: &Global, args: InterruptsArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let pending = daemon.client.interrupts(args.session.as_deref()).await?;
    if args.json {
        report::json(&pending)?;
        return Ok(Exit::Done);
    }
    let ids = report::short_ids(pending.iter().map(|interrupt| interrupt.id));
    let now = Timestamp::now();
    let mut table = Table::new(["ID", "SESSION", "ASKED", "RISK", "WHAT"]);
    for (interrupt, id) in pending.iter().zip(ids) {
        let (risk, what) = match &interrupt.ask {
            Ask::Approval { tool, args, risk, .. } => (format!("{risk:?}").to_lowercase(), format!("{tool} {args}")),
            Ask::Question { question, .. } => ("-".to_owned(), question.clone()),
        };
        let session = interrupt.session_id.to_string().chars().take(13).collect();
        table.row([id, session, report::ago(interrupt.raised_at, now), risk, what]);
    }
    table.print("nothing waits for an answer")?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        interrupt::{Answer, Interrupt},
        policy::Risk,
    };

    use super::*;

    #[test]
    fn programs_find_the_keys_they_rely_on() {
        let interrupt = |ask| Interrupt {
            id: "0193a5b2-7c1d-7000-8000-000000000001".parse().unwrap(),
            session_id: "0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap(),
            turn_id: "0193a5b2-7c1d-7000-8000-000000000003".parse().unwrap(),
            call_id: None,
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
                grant: None,
            }),
            Interrupt {
                deadline: Some(Timestamp::UNIX_EPOCH),
                on_deadline: Some(Answer::Reject { reason: None }),
                ..interrupt(Ask::Question {
                    question: "Which one?".to_owned(),
                    context: None,
                    default: None,
                    required: true,
                })
            },
        ];
        insta::assert_json_snapshot!(list, @r#"
        [
          {
            "id": "0193a5b2-7c1d-7000-8000-000000000001",
            "session_id": "0193a5b2-7c1d-7000-8000-000000000002",
            "turn_id": "0193a5b2-7c1d-7000-8000-000000000003",
            "kind": "approval",
            "tool": "write_file",
            "args": {
              "path": "a.txt"
            },
            "risk": "medium",
            "reason": "it changes a file",
            "raised_at": "1970-01-01T00:00:00Z",
            "deadline": null
          },
          {
            "id": "0193a5b2-7c1d-7000-8000-000000000001",
            "session_id": "0193a5b2-7c1d-7000-8000-000000000002",
            "turn_id": "0193a5b2-7c1d-7000-8000-000000000003",
            "kind": "question",
            "question": "Which one?",
            "required": true,
            "raised_at": "1970-01-01T00:00:00Z",
            "deadline": "1970-01-01T00:00:00Z",
            "on_deadline": {
              "answer": "reject"
            }
          }
        ]
        "#);
    }
}
