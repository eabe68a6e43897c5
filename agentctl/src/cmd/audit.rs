//! `agentctl audit`: lists the records of the audit log, one per row, and verifies the log.

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
use clap::{Args, Subcommand};
use jiff::{Span, Zoned, tz::TimeZone};
use serde_json::json;

use crate::{
    daemon::Daemon,
    exit::Exit,
    flags::{Choice, one_of},
    render::tool_line,
    report::{self, Table},
    terminal::{BAD, GOOD, STRONG, TerminalStyle, clean_line, duration, paint},
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

`agentctl audit` is short for `agentctl audit list`. A call that was interrupted by the end of the daemon has the \
outcome `unknown`: it may or may not have taken effect."
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

The exit code is 1 if the log is not intact. Keep the hash of the last line elsewhere: with --noted it later proves \
that nothing before it was changed, even by someone who could rewrite the whole log.")]
    Verify {
        /// Hash of a line that must still exist
        #[arg(long, value_name = "HASH")]
        noted: Option<String>,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only calls in this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only calls in this turn (ID)
    #[arg(long, value_name = "ID")]
    turn: Option<TurnId>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls with this verdict of the rules
    #[arg(long, value_parser = one_of(&VERDICTS))]
    verdict: Option<VerdictName>,
    /// Only calls that were denied, by a rule or the user
    #[arg(long)]
    refused: bool,
    /// Only records since this time: an age (30m, 2h, 7d), a date, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Number of records to show, newest last
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

const VERDICTS: [Choice<VerdictName>; 3] = [
    ("allow", "The call may run", VerdictName::Allow),
    ("ask", "The user decides", VerdictName::Ask),
    ("deny", "The call may not run", VerdictName::Deny),
];

/// Runs the command `agentctl audit`.
pub(crate) async fn handle(daemon: Daemon, json: bool, args: AuditArgs) -> anyhow::Result<Exit> {
    match args.command {
        Some(AuditCommand::Verify { noted }) => verify(&daemon, noted, json).await,
        Some(AuditCommand::List(args)) => list(&daemon, args, json).await,
        None => list(&daemon, args.list, json).await,
    }
}

/// Parses a moment in the past: an age, a date or a time.
pub(super) fn since(text: &str) -> Result<Timestamp, String> {
    let ago = |text: &str| Zoned::now().checked_sub(text.parse::<Span>().ok()?).ok().map(|then| then.timestamp());
    let day = |text: &str| {
        let date = text.parse::<jiff::civil::Date>().ok()?;
        date.to_zoned(TimeZone::system()).ok().map(|then| then.timestamp())
    };
    let moment = text.parse().ok().or_else(|| day(text)).or_else(|| ago(text));
    moment.ok_or_else(|| "expected a time such as 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned())
}

async fn list(daemon: &Daemon, args: ListArgs, json: bool) -> anyhow::Result<Exit> {
    let records = records(daemon, &args).await?;
    report::show(json, &records, || {
        let rows = records.iter().map(|record| row(record, &TimeZone::system()));
        Table::of(COLUMN_NAMES, rows).print("no matching records")
    })
}

/// Loads the requested records, in several requests if needed.
async fn records(daemon: &Daemon, args: &ListArgs) -> anyhow::Result<Vec<AuditRecord>> {
    // A full id is not looked up: the log also covers deleted sessions.
    let session_id = match args.session.as_deref().map(|session| session.parse().map_err(|_| session)) {
        Some(Err(session)) => Some(daemon.client.find_session(session).await?),
        named => named.and_then(Result::ok),
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

async fn verify(daemon: &Daemon, noted: Option<String>, json: bool) -> anyhow::Result<Exit> {
    let report = daemon.client.verify_audit(noted).await?;
    let mut output = json!(report);
    output["holds"] = json!(report.is_intact());
    report::show(json, &output, || report::lines(lines(&report, TerminalStyle::detect().out_color)))?;
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

/// Formats the report for people: one line per finding, then the verdict.
fn lines(report: &AuditReport, color: bool) -> Vec<String> {
    let mut lines: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            let style = if finding.problem == AuditProblem::Recorded { STRONG } else { BAD };
            let position = if finding.line > 0 { format!(":{}", finding.line) } else { String::new() };
            let position = format!("{}{position}", clean_line(&finding.file));
            let problem = paint(color, style, finding.problem.as_str());
            format!("{position}: {problem}: {}", clean_line(&finding.message))
        })
        .collect();
    lines.extend((report.more > 0).then(|| format!("and {} more", report.more)));
    let read = format!("{} in {}", report::count(report.lines, "line"), report::count(report.files.len(), "file"));
    let (style, verdict) =
        if report.is_intact() { (GOOD, "the log is intact:") } else { (BAD, "the log is not intact:") };
    lines.push(format!("{} {read}", paint(color, style, verdict)));
    lines.push(format!("last line {}, hash {}", report.head.n, report.head.hash));
    lines
}

/// Names of the columns.
const COLUMN_NAMES: [&str; 7] = ["TIME", "SESSION", "WHAT", "ABOUT", "RULES", "DECIDED BY", "OUTCOME"];

/// Maximum characters shown of a user's reply.
const MAX_REPLY: usize = 30;

/// Returns the cells of a record as logged. The table escapes hidden characters.
fn row(record: &AuditRecord, zone: &TimeZone) -> [String; 7] {
    let entry = &record.line.entry;
    let time = entry.at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let session = entry.session_id.map_or_else(|| "-".to_owned(), crate::report::short_id);
    let [title, details, rules, by, outcome] = match &entry.fact {
        AuditFact::CallDecided(decision) => call(decision, record),
        other => event(other),
    };
    [time, session, title, details, rules, by, outcome]
}

fn call(decision: &Decision, record: &AuditRecord) -> [String; 5] {
    let called = tool_line::main_text(&decision.args);
    let about = match (&decision.answer, &decision.leads_to) {
        // If the call ran, it ran with the edited arguments.
        (Some(Answer::Edit { args }), _) => format!("(edited) {} (was {called})", tool_line::main_text(args)),
        (_, Some(leads_to)) => format!("{called} -> {leads_to}"),
        (_, None) => called,
    };
    let end = record.ended.as_ref().map(|ended| &ended.end);
    [decision.tool.clone(), about, report::word(decision.verdict), decided_by(decision), outcome(record.outcome, end)]
}

fn decided_by(decision: &Decision) -> String {
    let by = match &decision.by {
        DecidedBy::Rules => "rules".to_owned(),
        DecidedBy::Grant => "grant".to_owned(),
        DecidedBy::Client(name) => name.clone(),
        DecidedBy::Deadline => "deadline".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Wait) => "no answer".to_owned(),
        DecidedBy::OnInterrupt(choice) => format!("--on-interrupt {}", report::word(choice)),
        DecidedBy::Tool => "tool".to_owned(),
        DecidedBy::Daemon => "daemon".to_owned(),
    };
    let answers: Vec<String> = [&decision.answer, &decision.reply].into_iter().flatten().map(answer_text).collect();
    if answers.is_empty() { by } else { format!("{by}: {}", answers.join(", ")) }
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Approve => "approve".to_owned(),
        Answer::Always { .. } | Answer::Keep { .. } => "always".to_owned(),
        Answer::Reject { .. } => "reject".to_owned(),
        Answer::Edit { .. } => "edit".to_owned(),
        Answer::Text { text } => format!("answer \"{}\"", report::cut(text.trim(), MAX_REPLY)),
    }
}

fn outcome(outcome: Option<CallOutcome>, end: Option<&CallEnd>) -> String {
    let Some(outcome) = outcome else { return "-".to_owned() };
    let Some(end) = end.filter(|_| outcome != CallOutcome::Refused) else { return outcome.as_str().to_owned() };
    let error = end.error.map(|error| format!(" {}", error.as_str())).unwrap_or_default();
    let files = (!end.files.is_empty()).then(|| report::count(end.files.len(), "file"));
    let parts = [end.exit_code.map(|code| format!("exit {code}")), files, Some(duration(end.duration_ms))];
    format!("{}{error}, {}", outcome.as_str(), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Returns the cells of a record that does not belong to a call.
fn event(fact: &AuditFact) -> [String; 5] {
    let answerer = |by: &AnsweredBy| match by {
        AnsweredBy::Client(name) => name.clone(),
        AnsweredBy::Deadline => "deadline".to_owned(),
        AnsweredBy::Daemon => "daemon".to_owned(),
    };
    let dash = || "-".to_owned();
    let (title, details, by) = match fact {
        AuditFact::ModelAsked { tool, model, max_tokens } => {
            ("model asked", format!("{model}, up to {max_tokens} tokens"), tool.clone())
        }
        AuditFact::SideQuestion { question, model, by } => {
            ("side question", format!("{model}: {}", report::cut(question, MAX_REPLY)), answerer(by))
        }
        AuditFact::GrantAdded { rule, scope, by } => ("grant added", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::GrantRevoked { rule, scope, by } => ("grant revoked", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::ModeSet { mode, by } => ("mode set", mode.to_string(), answerer(by)),
        AuditFact::ProjectMadeWritable { project, by } => ("made writable", project.clone(), answerer(by)),
        AuditFact::ProjectTrusted { project, sha256, by } => {
            ("project trusted", format!("{project} ({sha256:.12})"), answerer(by))
        }
        AuditFact::ProjectDistrusted { project, by } => ("project distrusted", project.clone(), answerer(by)),
        AuditFact::PluginAdded { plugin, sha256, by, .. } => {
            ("plugin added", format!("{plugin} ({sha256:.12})"), answerer(by))
        }
        AuditFact::PluginRemoved { plugin, by } => ("plugin removed", plugin.clone(), answerer(by)),
        AuditFact::SessionImported { source, events, by, .. } => {
            ("session imported", format!("{events} events, by {source}"), answerer(by))
        }
        AuditFact::Undone { files, by, .. } => {
            let first = files.first().map(|file| file.path.clone()).unwrap_or_default();
            let more = files.len().saturating_sub(1);
            ("undo", if more > 0 { format!("{first} and {more} more") } else { first }, by.clone())
        }
        AuditFact::DaemonStarted { version, pid } => ("agentd started", format!("{version}, pid {pid}"), dash()),
        AuditFact::DaemonStopped { pid } => ("agentd stopped", format!("pid {pid}"), dash()),
        AuditFact::RulesRead { problem: Some(problem), .. } => ("rules rejected", problem.clone(), dash()),
        AuditFact::RulesRead { sources, .. } => ("rules loaded", sources.join(", "), dash()),
        AuditFact::LogDamaged { found, .. } => ("log damaged", found.clone(), dash()),
        AuditFact::LogContinued { previous } => ("log continued", format!("after {previous}"), dash()),
        AuditFact::LogTrimmed { file, through, .. } => {
            ("log trimmed", format!("{file} removed, up to line {}", through.n), dash())
        }
        AuditFact::Cleaned { parts, by } => {
            let parts: Vec<String> =
                parts.iter().map(|part| format!("{}: {}", part.part.as_str(), report::bytes(part.bytes))).collect();
            ("cleaned", parts.join(", "), by.clone())
        }
        AuditFact::CallDecided(_) => ("call_decided", String::new(), dash()),
        AuditFact::CallEnded(_) => ("call_ended", String::new(), dash()),
    };
    [title.to_owned(), details, dash(), by, dash()]
}

#[cfg(test)]
mod tests {
    use agentd_core::audit::Requester;

    use super::*;

    #[test]
    fn times_accept_ages_dates_and_timestamps() {
        let now = Timestamp::now();
        // The clock is read twice, so the difference is rounded up.
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
    fn user_replies_are_shown_shortened() {
        let check = |answer: Option<Answer>, reply: &str, expected: &str| {
            let decision = Decision {
                tool: "ask_human".to_owned(),
                args: json!({"question": "Which?"}),
                leads_to: None,
                asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
                verdict: VerdictName::Ask,
                layer: None,
                rule: None,
                risk: None,
                reason: None,
                allowed: true,
                granted_by: Vec::new(),
                by: DecidedBy::Client("phone".to_owned()),
                answer,
                reply: Some(Answer::Text { text: reply.to_owned() }),
            };
            let table = Table::of(["DECIDED BY"], [[decided_by(&decision)]]);
            assert_eq!(table.plain().lines().nth(1).unwrap().trim_end(), expected);
        };
        check(None, "green", r#"phone: answer "green""#);
        check(Some(Answer::Approve), "green\n", r#"phone: approve, answer "green""#);
        check(None, "a\u{1b}[2Jb\u{202e}c\nd", r#"phone: answer "a\u{1b}[2Jb\u{202e}c⏎d""#);
        check(None, &"so long ".repeat(9), r#"phone: answer "so long so long so long so lo…""#);
    }
}
