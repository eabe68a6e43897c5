//! `agentctl audit`: shows the audit log, and tells whether it holds.

use std::io::Write as _;

use agentd_core::{
    Timestamp,
    audit::{
        AuditFact, AuditProblem, AuditRecord, AuditReport, CallEnd, CallOutcome, DecidedBy, Decision, RecordQuery,
        VerdictName,
    },
    ids::TurnId,
    interrupt::{Answer, AnsweredBy},
    turn::OnInterrupt,
};
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use jiff::{Span, Zoned, tz::TimeZone};
use serde_json::json;

use crate::{
    args::Global,
    complete,
    daemon::{self, Daemon},
    exit::Exit,
    render::{
        look::Look,
        paint::{BAD, GOOD, STRONG, duration, paint},
        sanitize::clean_line,
        tool_line,
    },
    report::{self, Table},
};

/// The arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  agentctl audit                              the last 50 records, oldest first
  agentctl audit --since 2h --refused         what was not let through in the last two hours
  agentctl audit --session 0193a5 -n 500      what one session did
  agentctl audit --tool run_bash_command --json | jq '.[] | select(.outcome == \"unknown\")'
  agentctl audit verify                       whether anything was changed, removed or added

`list` may be left out. A call without an end was cut off when the daemon ended: its outcome is `unknown`, for it may have
taken effect or not."
)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List calls with their decisions and ends, and what else happened
    #[command(after_help = "Examples:
  agentctl audit list --since 2026-01-31
  agentctl audit list --verdict ask -n 10")]
    List(ListArgs),
    /// Read the whole log and tell whether it holds
    #[command(after_help = "Examples:
  agentctl audit verify
  agentctl audit verify --noted HASH   whether the line with this hash is still there
  agentctl audit verify --json | jq -r .head.hash

The exit code is 1 where the log does not hold. Note the hash of the last line elsewhere: it proves later that nothing up
to there was changed, also to somebody who could have written the whole log anew.")]
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only this session; the start of its id is enough
    #[arg(long, value_name = "ID_OR_PREFIX", add = ArgValueCandidates::new(complete::sessions))]
    session: Option<String>,
    /// Only this turn, by its id
    #[arg(long, value_name = "ID")]
    turn: Option<TurnId>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls of which the rules said this
    #[arg(long)]
    verdict: Option<Verdict>,
    /// Only calls that were not let through, whoever refused them
    #[arg(long)]
    refused: bool,
    /// Only from then on: how long ago (30m, 2h, 7d), a date, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// How many, the newest
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// A hash that was noted before: its line must still be there
    #[arg(long, value_name = "HASH")]
    noted: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Verdict {
    /// It may run
    Allow,
    /// A person decides
    Ask,
    /// It may not run
    Deny,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Ask => Self::Ask,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// Shows, or verifies.
pub(crate) async fn handle(global: &Global, args: AuditArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    match args.command {
        Some(AuditCommand::Verify(args)) => verify(&daemon, args).await,
        Some(AuditCommand::List(args)) => list(&daemon, args).await,
        None => list(&daemon, args.list).await,
    }
}

/// A moment in the past, as a person names it.
fn since(text: &str) -> Result<Timestamp, String> {
    let ago = |text: &str| Zoned::now().checked_sub(text.parse::<Span>().ok()?).ok().map(|then| then.timestamp());
    let day = |text: &str| {
        let date = text.parse::<jiff::civil::Date>().ok()?;
        date.to_zoned(TimeZone::system()).ok().map(|then| then.timestamp())
    };
    let moment = text.parse().ok().or_else(|| day(text)).or_else(|| ago(text));
    moment.ok_or_else(|| "give a time such as 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned())
}

async fn list(daemon: &Daemon, args: ListArgs) -> anyhow::Result<Exit> {
    let records = records(daemon, &args).await?;
    if args.json {
        report::json(&records)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["TIME", "SESSION", "WHAT", "ABOUT", "RULES", "DECIDED BY", "OUTCOME"]);
    for record in &records {
        table.row(row(record, &TimeZone::system()));
    }
    table.print("nothing was written down that fits")?;
    Ok(Exit::Done)
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
        verdict: args.verdict.map(Into::into),
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

fn row(record: &AuditRecord, zone: &TimeZone) -> [String; 7] {
    let entry = &record.line.entry;
    let time = entry.at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let session = entry.session_id.map_or_else(|| "-".to_owned(), |id| id.to_string().chars().take(13).collect());
    let [what, about, rules, by, outcome] = match &entry.fact {
        AuditFact::CallDecided(decision) => call(decision, record),
        other => event(other),
    };
    [time, session, what, about, rules, by, outcome]
}

fn call(decision: &Decision, record: &AuditRecord) -> [String; 5] {
    let rules = match decision.verdict {
        VerdictName::Allow => "allow",
        VerdictName::Ask => "ask",
        VerdictName::Deny => "deny",
    };
    let end = record.ended.as_ref().map(|ended| &ended.end);
    [
        decision.tool.clone(),
        tool_line::argument_of(&decision.args),
        rules.to_owned(),
        decided_by(decision),
        outcome(record.outcome, end),
    ]
}

fn decided_by(decision: &Decision) -> String {
    let by = match &decision.by {
        DecidedBy::Rules => "rules".to_owned(),
        DecidedBy::Grant => "kept rule".to_owned(),
        DecidedBy::Client(name) => name.clone(),
        DecidedBy::Deadline => "deadline".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Approve) => "--on-interrupt approve".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Deny) => "--on-interrupt deny".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Fail) => "--on-interrupt fail".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Wait) => "nobody".to_owned(),
        DecidedBy::Tool => "tool".to_owned(),
        DecidedBy::Daemon => "daemon".to_owned(),
    };
    let answer = match &decision.answer {
        None => return by,
        Some(Answer::Approve) => "approve",
        Some(Answer::Always { .. }) => "always",
        Some(Answer::Reject { .. }) => "reject",
        Some(Answer::Edit { .. }) => "edit",
        Some(Answer::Text { .. }) => "answer",
    };
    format!("{by}: {answer}")
}

fn outcome(outcome: Option<CallOutcome>, end: Option<&CallEnd>) -> String {
    let Some(outcome) = outcome else { return "-".to_owned() };
    let mut text = outcome.as_str().to_owned();
    let Some(end) = end.filter(|_| outcome != CallOutcome::Refused) else { return text };
    if let Some(error) = end.error {
        text.push_str(&format!(" {}", error.as_str()));
    }
    if let Some(code) = end.exit_code {
        text.push_str(&format!(", exit {code}"));
    }
    match end.files.len() {
        0 => {}
        files => text.push_str(&format!(", {}", report::count(files as u64, "file"))),
    }
    text.push_str(&format!(", {}", duration(end.duration_ms)));
    text
}

/// What is about no call.
fn event(fact: &AuditFact) -> [String; 5] {
    let answerer = |by: &AnsweredBy| match by {
        AnsweredBy::Client(name) => name.clone(),
        AnsweredBy::Deadline => "deadline".to_owned(),
        AnsweredBy::Daemon => "daemon".to_owned(),
    };
    let (what, about, by) = match fact {
        AuditFact::GrantAdded { rule, scope, by } => ("rule kept", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::GrantRevoked { rule, scope, by } => ("rule revoked", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::Undone { files, by, .. } => {
            let first = files.first().map(|file| file.path.clone()).unwrap_or_default();
            let more = files.len().saturating_sub(1);
            ("undo", if more > 0 { format!("{first} and {more} more") } else { first }, by.clone())
        }
        AuditFact::DaemonStarted { version, pid } => {
            ("agentd started", format!("{version}, pid {pid}"), "-".to_owned())
        }
        AuditFact::DaemonStopped { pid } => ("agentd stopped", format!("pid {pid}"), "-".to_owned()),
        AuditFact::RulesRead { problem: Some(problem), .. } => ("rules refused", problem.clone(), "-".to_owned()),
        AuditFact::RulesRead { sources, .. } => ("rules read", sources.join(", "), "-".to_owned()),
        AuditFact::LogDamaged { found, .. } => ("log damaged", found.clone(), "-".to_owned()),
        AuditFact::LogContinued { previous } => ("log continued", format!("after {previous}"), "-".to_owned()),
        AuditFact::CallDecided(_) | AuditFact::CallEnded(_) => (fact.name(), String::new(), "-".to_owned()),
    };
    [what.to_owned(), about, "-".to_owned(), by, "-".to_owned()]
}

async fn verify(daemon: &Daemon, args: VerifyArgs) -> anyhow::Result<Exit> {
    let report = daemon.client.verify_audit(args.noted).await?;
    if args.json {
        report::json(&verified(&report))?;
    } else {
        let color = Look::detect().out_color;
        let mut out = anstream::stdout().lock();
        for line in lines(&report, color) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(if report.holds() { Exit::Done } else { Exit::Failed })
}

fn verified(report: &AuditReport) -> serde_json::Value {
    json!({
        "holds": report.holds(),
        "lines": report.lines,
        "files": report.files,
        "head": report.head,
        "findings": report.findings,
        "more": report.more,
    })
}

fn lines(report: &AuditReport, color: bool) -> Vec<String> {
    let mut lines: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            let style = if finding.problem == AuditProblem::Recorded { STRONG } else { BAD };
            let place = if finding.line > 0 { format!(":{}", finding.line) } else { String::new() };
            let place = format!("{}{place}", clean_line(&finding.file));
            let problem = paint(color, style, finding.problem.as_str());
            format!("{place}: {problem}: {}", clean_line(&finding.message))
        })
        .collect();
    if report.more > 0 {
        lines.push(format!("and {} more", report.more));
    }
    let read =
        format!("{} in {}", report::count(report.lines, "line"), report::count(report.files.len() as u64, "file"));
    lines.push(if report.holds() {
        format!("{} {read}", paint(color, GOOD, "the log holds:"))
    } else {
        format!("{} {read}", paint(color, BAD, "the log does not hold:"))
    });
    lines.push(format!("last line {}, hash {}", report.head.n, report.head.hash));
    lines
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        audit::{AuditEntry, AuditFinding, AuditHead, AuditLine, ChangedFile, RecordedEnd, Requester},
        tool::{FileChangeKind, ToolErrorCode},
    };

    use super::*;

    fn entry(fact: AuditFact) -> AuditEntry {
        let session = "0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap();
        AuditEntry::of_session("2026-01-31T12:00:00Z".parse().unwrap(), session, fact)
    }

    fn decided(by: DecidedBy, answer: Option<Answer>) -> AuditFact {
        AuditFact::CallDecided(Box::new(Decision {
            tool: "run_bash_command".to_owned(),
            args: json!({"command": "rm -r \u{1b}[2Jbuild"}),
            asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
            verdict: VerdictName::Ask,
            layer: Some("checker".to_owned()),
            rule: Some("it removes files".to_owned()),
            risk: None,
            reason: None,
            allowed: !matches!(answer, Some(Answer::Reject { .. })),
            granted_by: Vec::new(),
            by,
            answer,
        }))
    }

    fn record(fact: AuditFact, outcome: Option<CallOutcome>, error: Option<ToolErrorCode>) -> AuditRecord {
        let end = CallEnd {
            tool: "run_bash_command".to_owned(),
            ran: true,
            error,
            exit_code: error.is_none().then_some(0),
            duration_ms: 1200,
            files: vec![ChangedFile { path: "build".to_owned(), change: FileChangeKind::Deleted }],
            output: String::new(),
            output_bytes: 0,
            output_sha256: None,
        };
        let is_over = matches!(outcome, Some(CallOutcome::Done | CallOutcome::Failed));
        let ended = is_over.then_some(RecordedEnd { n: 8, at: Timestamp::UNIX_EPOCH, end });
        AuditRecord { line: AuditLine { n: 7, entry: entry(fact) }, outcome, ended }
    }

    #[test]
    fn a_record_is_one_clean_line() {
        let phone = || DecidedBy::Client("phone".to_owned());
        let mut table = Table::new(["TIME", "SESSION", "WHAT", "ABOUT", "RULES", "DECIDED BY", "OUTCOME"]);
        for record in [
            record(AuditFact::DaemonStarted { version: "0.1.0".to_owned(), pid: 7 }, None, None),
            record(decided(phone(), Some(Answer::Approve)), Some(CallOutcome::Done), None),
            record(decided(DecidedBy::Rules, None), Some(CallOutcome::Failed), Some(ToolErrorCode::Timeout)),
            record(decided(phone(), Some(Answer::Reject { reason: None })), Some(CallOutcome::Refused), None),
            record(decided(DecidedBy::OnInterrupt(OnInterrupt::Approve), None), Some(CallOutcome::Unknown), None),
        ] {
            table.row(row(&record, &TimeZone::UTC));
        }
        insta::assert_snapshot!(table.plain(), @r"
        TIME                 SESSION        WHAT              ABOUT         RULES  DECIDED BY              OUTCOME
        2026-01-31 12:00:00  0193a5b2-7c1d  agentd started    0.1.0, pid 7  -      -                       -
        2026-01-31 12:00:00  0193a5b2-7c1d  run_bash_command  rm -r build   ask    phone: approve          done, exit 0, 1 file, 1.2 s
        2026-01-31 12:00:00  0193a5b2-7c1d  run_bash_command  rm -r build   ask    rules                   failed E_TIMEOUT, 1 file, 1.2 s
        2026-01-31 12:00:00  0193a5b2-7c1d  run_bash_command  rm -r build   ask    phone: reject           refused
        2026-01-31 12:00:00  0193a5b2-7c1d  run_bash_command  rm -r build   ask    --on-interrupt approve  unknown
        ");
    }

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

    #[test]
    fn what_is_wrong_with_the_log_is_told_with_its_place() {
        let finding = |problem, line| AuditFinding {
            file: "audit.jsonl".to_owned(),
            line,
            problem,
            message: "it is not what it was".to_owned(),
        };
        let mut report = AuditReport {
            lines: 9,
            files: vec!["audit.jsonl".to_owned()],
            head: AuditHead { n: 9, hash: "ab".to_owned() },
            findings: vec![finding(AuditProblem::Recorded, 2)],
            more: 0,
        };
        insta::assert_snapshot!(lines(&report, false).join("\n"), @r"
        audit.jsonl:2: recorded: it is not what it was
        the log holds: 9 lines in 1 file
        last line 9, hash ab
        ");
        report.findings.push(finding(AuditProblem::Changed, 5));
        report.findings.push(finding(AuditProblem::NoWitness, 0));
        insta::assert_snapshot!(lines(&report, false).join("\n"), @r"
        audit.jsonl:2: recorded: it is not what it was
        audit.jsonl:5: changed: it is not what it was
        audit.jsonl: no_witness: it is not what it was
        the log does not hold: 9 lines in 1 file
        last line 9, hash ab
        ");
    }
}
