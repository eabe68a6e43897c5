//! `agentctl grants`: the rules that a person keeps, so as not to be asked again.

use agentd_core::{Timestamp, grant::HeldGrant};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table},
};

/// The end of the help of `grants`.
pub(crate) const GRANTS_HELP: &str = "Examples:
  agentctl grants list                                        all grants
  agentctl grants list --session 0193a5                       of one session
  agentctl grants add 'run_bash_command: cargo test'          in every session
  agentctl grants add 'run_bash_command: cargo test *'        any arguments
  agentctl grants add write_file --session 0193a5             in one session
  agentctl grants revoke 2                                    the second one
  agentctl grants revoke 'run_bash_command: cargo test'       by its text

A grant is a rule for calls that run without asking. Answering an approval with `always` adds one, too; the question shows \
it. Changes apply at once, also to running turns. No grant overrides a denial, and none covers critical risk.";

/// The subcommands of `grants`.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List grants: permanent ones, and those of sessions
    List(GrantPlace),
    /// Add a grant, permanently or for one session
    Add {
        /// The rule, as a question shows it; ` *` at its end matches all commands that start like this
        #[arg(value_name = "RULE", required = true, num_args = 1..)]
        rule: Vec<String>,
        #[command(flatten)]
        place: GrantPlace,
    },
    /// Revoke a grant
    Revoke {
        /// The rule, or its number in `grants list` with the same --session
        #[arg(value_name = "RULE|N", required = true, num_args = 1..)]
        rule: Vec<String>,
        #[command(flatten)]
        place: GrantPlace,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GrantPlace {
    /// In this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Does what was asked.
pub(crate) async fn handle(global: &Global, command: GrantsCommand) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let json = global.json;
    match command {
        GrantsCommand::List(place) => list(&daemon, place.session.as_deref(), json).await,
        GrantsCommand::Add { rule, place } => {
            let (rule, session) = (rule.join(" ").trim().to_owned(), place.session(&daemon).await?);
            daemon.client.add_grant(&rule, session.as_deref(), daemon::CLIENT).await?;
            done(json, "kept", &rule, session.as_deref())
        }
        GrantsCommand::Revoke { rule, place } => {
            let session = place.session(&daemon).await?;
            let (rule, session) = resolve(&daemon, &rule.join(" "), session).await?;
            daemon.client.revoke_grant(&rule, session.as_deref(), daemon::CLIENT).await?;
            done(json, "revoked", &rule, session.as_deref())
        }
    }
}

impl GrantPlace {
    /// The whole id of the session, if one is named.
    async fn session(&self, daemon: &Daemon) -> anyhow::Result<Option<String>> {
        let Some(name) = &self.session else { return Ok(None) };
        Ok(Some(daemon.client.find_session(name).await?.to_string()))
    }
}

/// The rule that is meant by its words or its number, and where it is kept.
async fn resolve(daemon: &Daemon, words: &str, session: Option<String>) -> anyhow::Result<(String, Option<String>)> {
    let Ok(number) = words.trim().parse::<usize>() else { return Ok((words.to_owned(), session)) };
    let held = daemon.client.grants(session.as_deref()).await?;
    match number.checked_sub(1).and_then(|at| held.get(at)) {
        Some(HeldGrant { session_id, grant }) => Ok((grant.rule.clone(), session_id.map(|id| id.to_string()))),
        None => {
            Err(Failure::usage(format!("there is no rule {number}; {} kept", report::count(held.len(), "rule")))
                .hint("`agentctl grants list` shows them with their numbers")
                .into())
        }
    }
}

async fn list(daemon: &Daemon, session: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let held = daemon.client.grants(session).await?;
    let now = Timestamp::now();
    let rows = held.iter().enumerate().map(|(at, HeldGrant { session_id, grant })| {
        let place = match session_id {
            Some(id) => format!("session {}", report::short_id(id)),
            None => "permanent".to_owned(),
        };
        let kept = grant.at.map_or_else(|| "-".to_owned(), |at| report::ago(at, now));
        let by = grant.by.clone().unwrap_or_else(|| "-".to_owned());
        [(at + 1).to_string(), place, kept, by, grant.rule.clone()]
    });
    let table = Table::with_long_end(["N", "SCOPE", "ADDED", "BY", "RULE"], rows);
    let shown = held.iter().enumerate().map(|(at, held)| {
        json!({
            "n": at + 1,
            "rule": held.grant.rule,
            "scope": held.scope(),
            "session_id": held.session_id,
            "at": held.grant.at,
            "by": held.grant.by,
        })
    });
    report::show(json, &shown.collect::<Vec<_>>(), || {
        table.print("no grants; the answer `always` adds some, and so does `agentctl grants add`")
    })
}

fn done(json: bool, what: &str, rule: &str, session: Option<&str>) -> anyhow::Result<Exit> {
    let place = session.map_or_else(|| "permanent".to_owned(), |id| format!("for session {}", report::short_id(id)));
    let verb = if what == "kept" { format!("added ({place})") } else { format!("removed (was {place})") };
    let told = json!({ "status": what, "rule": rule, "session_id": session });
    report::note(json, &told, &agentd_core::visible::line(&format!("{verb}: {rule}")))
}
