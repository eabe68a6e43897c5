//! `agentctl audit`: shows the audit log, and tells whether it holds.

mod holds;
mod row;

use agentd_core::{
    Timestamp,
    audit::{AuditRecord, RecordQuery, VerdictName},
    ids::TurnId,
};
use clap::{Args, Subcommand};
use jiff::{Span, Zoned, tz::TimeZone};

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    flags::{Choice, Global, one_of},
    report::{self, Table},
    terminal::look::TerminalStyle,
};

/// The arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  agentctl audit                              the last 50 records, oldest first
  agentctl audit --since 2h --refused         denied in the last two hours
  agentctl audit --session 0193a5 -n 500      one session
  agentctl audit --tool run_bash_command --json | jq '.[] | select(.outcome == \"unknown\")'
  agentctl audit verify                       check its integrity

`agentctl audit` alone is `agentctl audit list`. A call that was cut off when the daemon ended has the outcome `unknown`: \
it may have taken effect or not."
)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List calls with their decisions and outcomes, and other events
    #[command(after_help = "Examples:
  agentctl audit list --since 2026-01-31
  agentctl audit list --verdict ask -n 10")]
    List(ListArgs),
    /// Verify the integrity of the log
    #[command(after_help = "Examples:
  agentctl audit verify
  agentctl audit verify --noted HASH   check for a line with this hash
  agentctl audit verify --json | jq -r .head.hash

The exit code is 1 where the log is not intact. Keep the hash of the last line elsewhere: with --noted it \
proves later that nothing before it was changed, even if somebody could have rewritten the whole log.")]
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only this turn (ID)
    #[arg(long, value_name = "ID")]
    turn: Option<TurnId>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls with this verdict of the rules
    #[arg(long, value_parser = one_of(&VERDICTS))]
    verdict: Option<VerdictName>,
    /// Only calls that were denied, by a rule or a person
    #[arg(long)]
    refused: bool,
    /// Only since then: an age (30m, 2h, 7d), a date, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Number of records to show, newest last
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Hash of a line that must still be there
    #[arg(long, value_name = "HASH")]
    noted: Option<String>,
}

const VERDICTS: [Choice<VerdictName>; 3] = [
    ("allow", "It may run", VerdictName::Allow),
    ("ask", "A person decides", VerdictName::Ask),
    ("deny", "It may not run", VerdictName::Deny),
];

/// Shows, or verifies.
pub(crate) async fn handle(global: &Global, args: AuditArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    match args.command {
        Some(AuditCommand::Verify(args)) => verify(&daemon, args, global.json).await,
        Some(AuditCommand::List(args)) => list(&daemon, args, global.json).await,
        None => list(&daemon, args.list, global.json).await,
    }
}

/// A moment in the past, as a person names it.
pub(super) fn since(text: &str) -> Result<Timestamp, String> {
    let ago = |text: &str| Zoned::now().checked_sub(text.parse::<Span>().ok()?).ok().map(|then| then.timestamp());
    let day = |text: &str| {
        let date = text.parse::<jiff::civil::Date>().ok()?;
        date.to_zoned(TimeZone::system()).ok().map(|then| then.timestamp())
    };
    let moment = text.parse().ok().or_else(|| day(text)).or_else(|| ago(text));
    moment.ok_or_else(|| "give a time such as 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned())
}

async fn list(daemon: &Daemon, args: ListArgs, json: bool) -> anyhow::Result<Exit> {
    let records = records(daemon, &args).await?;
    report::show(json, &records, || {
        let mut table = Table::new(row::HEAD);
        for record in &records {
            table.row(row::row(record, &TimeZone::system()));
        }
        table.print("nothing was written down that fits")
    })
}

/// The records that are wanted, in as many messages as it takes.
async fn records(daemon: &Daemon, args: &ListArgs) -> anyhow::Result<Vec<AuditRecord>> {
    let session_id = match &args.session {
        // What a deleted session did is still in the log.
        Some(session) => Some(match session.parse() {
            Ok(id) => id,
            Err(_) => daemon.client.find_session(session).await?,
        }),
        None => None,
    };
    let wanted = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut query = RecordQuery {
        session_id,
        turn_id: args.turn,
        tool: args.tool.clone(),
        verdict: args.verdict,
        refused: args.refused,
        since: args.since,
        before: 0,
        limit: wanted,
    };
    let mut records: Vec<AuditRecord> = Vec::new();
    loop {
        let mut older = daemon.client.audit_records(&query).await?;
        let Some(first) = older.first() else { return Ok(records) };
        query.before = first.line.n;
        older.append(&mut records);
        records = older;
        query.limit = wanted.saturating_sub(records.len());
        if query.limit == 0 || query.before <= 1 {
            return Ok(records);
        }
    }
}

async fn verify(daemon: &Daemon, args: VerifyArgs, json: bool) -> anyhow::Result<Exit> {
    let report = daemon.client.verify_audit(args.noted).await?;
    report::show(json, &holds::verified(&report), || {
        report::lines(holds::lines(&report, TerminalStyle::detect().out_color))
    })?;
    Ok(if report.holds() { Exit::Done } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_named_as_people_name_them() {
        let now = Timestamp::now();
        // The clock has gone on a little between the two looks at it.
        let minutes = |text: &str| (now.duration_since(since(text).unwrap()).as_secs() + 59) / 60;
        assert_eq!((minutes("2h"), minutes("30m"), minutes("1h 5m")), (120, 30, 65));
        assert!(minutes("7d") > 6 * 24 * 60);
        assert_eq!(since("2026-01-31T12:00:00Z").unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert!(since("2026-01-31").is_ok());
        for text in ["soon", "", "yesterday", "99999999999y"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
