//! `agentctl sessions record`: a recording of a session, to be played without a model.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use serde_json::json;

use super::replay;
use crate::{daemon::Daemon, exit::Exit, failure::Failure, report};

/// The arguments of `sessions record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions record last -o greeting.jsonl
  agentctl run --replay greeting.jsonl        play it: no model, no network
  agentctl sessions record 0193a5b2 | jq -r 'select(.fact == \"result\").tool'

A recording holds all that came from outside: inputs, answers of models, results of tools, answers of people. Secrets are \
taken out. The requests to the model are those that the session comes to under the present configuration: a replay is held to \
them. `agentctl test` plays a folder of recordings.")]
pub(crate) struct RecordArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// File to write; standard output where absent
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Records.
pub(crate) async fn handle(daemon: &Daemon, args: RecordArgs, json: bool) -> anyhow::Result<Exit> {
    if let Some(path) = args.output.as_ref().filter(|path| !args.force && path.exists()) {
        return Err(Failure::usage(format!("{} exists", path.display())).hint("--force replaces it").into());
    }
    let id = daemon.client.find_session(&args.session).await?.to_string();
    let text = daemon.client.record(&id).await?;
    let Some(path) = args.output else {
        io::stdout().write_all(&text)?;
        return Ok(Exit::Done);
    };
    replay::write(&path, &text)?;
    let told = json!({ "session_id": id, "file": path, "bytes": text.len() });
    report::show(json, &told, || report::lines([path.display()]))
}
