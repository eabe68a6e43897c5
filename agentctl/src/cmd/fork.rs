//! `agentctl sessions fork`: makes a session that goes on from a copy of another's history.

use agentd_proto::client::ForkReply;
use clap::Args;
use serde_json::json;

use crate::{daemon::Daemon, exit::Exit, report};

/// The arguments of `sessions fork`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions fork 0193a5b2
  agentctl sessions fork 0193a5b2 --at-turn 3 --name 'Another way'
  agentctl run 'Try it without the library.' --session \"$(agentctl sessions fork 0193a5b2)\"

The fork has the history, the settings and the todo list, and what was in /state then. What is in uploads/ and outputs/ is \
copied as it is now, also where an earlier turn is named; links are left out, and temp/ is empty. A project folder is the \
same one for both. What was granted to the session, and what waits for an answer, does not come along, and what the \
copied turns did to files can only be undone in the session that did it.

The id of the new session is printed on standard output.")]
pub(crate) struct ForkArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// The last turn that is copied, by its number from 1 [default: all that was before a turn that is open]
    #[arg(long, value_name = "N")]
    at_turn: Option<u64>,
    /// The name of the new session [default: that of the other, with `(fork)` behind it]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Forks.
pub(crate) async fn handle(daemon: &Daemon, args: ForkArgs, json: bool) -> anyhow::Result<Exit> {
    let from = daemon.client.find_session(&args.session).await?.to_string();
    let ForkReply { session, turn, files } =
        daemon.client.fork_session(&from, args.at_turn, args.name.as_deref()).await?;
    let summary = session.session.summary;
    let told = json!({
        "session_id": summary.id, "title": summary.title, "forked_from": from, "turn": turn, "files": files,
    });
    report::show(json, &told, || {
        report::lines([summary.id])?;
        let copied = report::count(files.files, "file");
        crate::terminal::note(&format!("forked from session {from} after turn {turn}, with {copied}"));
        if files.left_out > 0 {
            crate::terminal::note(&format!("not copied: {} (links, special files, or too much)", files.left_out));
        }
        Ok(())
    })
}
