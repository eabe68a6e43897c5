//! `agentctl sessions fork`: makes a session that goes on from a copy of another's history.

use agentd_core::files::EarlierFiles;
use agentd_proto::client::ForkReply;
use clap::Args;
use serde_json::json;

use crate::{daemon::Daemon, exit::Exit, report, terminal::sanitize::clean_line};

/// The arguments of `sessions fork`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions fork 0193a5b2
  agentctl sessions fork 0193a5b2 --at-turn 3 --name 'Another way'
  agentctl sessions fork 0193a5b2 --at-turn 3 --files
  agentctl run 'Try it without the library.' --session \"$(agentctl sessions fork 0193a5b2)\"

The fork gets the history, settings, todo list and /state as they were after that turn, and uploads/ and outputs/ as they \
are now, without links; temp/ is empty. Both sessions share the project folder. Grants of the session and open questions \
are not copied, and changes to files can only be undone in the session that made them.

--files brings uploads/ and outputs/ of the fork to that turn, as far as they are as the session left them. The project is \
shared, so it stays as it is: what its files held then is written to outputs/at-turn-N/, for those that were changed since.

Prints the ID of the new session on standard output.")]
pub(crate) struct ForkArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Last turn to copy, counted from 1 [default: all completed turns]
    #[arg(long, value_name = "N")]
    at_turn: Option<u64>,
    /// Name of the new session [default: the name of the old one, followed by `(fork)`]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Bring the files of the fork to that turn
    #[arg(long)]
    files: bool,
}

/// Forks.
pub(crate) async fn handle(daemon: &Daemon, args: ForkArgs, json: bool) -> anyhow::Result<Exit> {
    let from = daemon.client.find_session(&args.session).await?.to_string();
    let ForkReply { session, turn, files, earlier } =
        daemon.client.fork_session(&from, args.at_turn, args.name.as_deref(), args.files).await?;
    let summary = session.session.summary;
    let mut told = json!({
        "session_id": summary.id, "title": summary.title, "forked_from": from, "turn": turn, "files": files,
    });
    if let Some(earlier) = &earlier {
        told["earlier_files"] = serde_json::to_value(earlier)?;
    }
    report::show(json, &told, || {
        report::lines([summary.id])?;
        let copied = report::count(files.files, "file");
        crate::terminal::note(&format!("forked from session {from} after turn {turn}, with {copied}"));
        if files.left_out > 0 {
            crate::terminal::note(&format!("not copied: {} (links, special files, or too much)", files.left_out));
        }
        earlier.iter().for_each(tell_earlier);
        Ok(())
    })
}

fn tell_earlier(earlier: &EarlierFiles) {
    let EarlierFiles { restored, shared, folder, left } = earlier;
    crate::terminal::note(&format!("brought to that turn: {}", report::count(*restored, "file")));
    if *shared > 0 {
        let files = report::count(*shared, "file");
        crate::terminal::note(&format!(
            "the project stays as it is now; {files} of it as of that turn: {}/",
            clean_line(folder)
        ));
    }
    for file in left {
        crate::terminal::note(&format!("as it is now: {}", clean_line(file)));
    }
}
