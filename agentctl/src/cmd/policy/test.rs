//! `agentctl policy test`: what a file of rules would change.

use std::{io::Write as _, path::PathBuf};

use agentd_core::{Timestamp, policy::Verdict};
use agentd_proto::client::{AuditComparison, Comparison, PolicyCall, RuleText};
use clap::Args;
use serde_json::json;

use super::{call, explain::in_words, since};
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table},
};

/// The longest file of rules, as for the daemon's own.
const LONGEST_FILE: u64 = 1 << 20;

/// The arguments of `policy test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl policy test new.yaml                    is it valid?
  agentctl policy test new.yaml 'rm -rf build' 'write_file {\"path\": \"a\"}'
  agentctl policy test new.yaml -- git push --force
  agentctl policy test new.yaml --audit --since 7d what would have changed this week?

FILE is used in place of your own hitl_rules.yaml, for this test only; nothing is run. An error in it is shown with line \
and column, and the exit code is 2.")]
pub(super) struct TestArgs {
    /// Rules file
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Calls to test: `TOOL {JSON}` or a command line, each as one argument
    #[arg(value_name = "CALL")]
    calls: Vec<String>,
    /// A command line for run_bash_command
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
    /// Compare every call of the audit log
    #[arg(long, conflicts_with_all = ["calls", "command", "session"])]
    audit: bool,
    /// With --audit: only calls since then (36h, 7d or a time)
    #[arg(long, value_name = "TIME", requires = "audit", value_parser = since::parse)]
    since: Option<Timestamp>,
    /// The session in which they would be called: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Tests.
pub(super) async fn handle(global: &Global, args: TestArgs) -> anyhow::Result<Exit> {
    let rules = read(&args.file)?;
    let daemon = daemon::connect(global).await?;
    if args.audit {
        let outcome = daemon.client.test_rules_on_audit(&rules, args.since).await?;
        return report::show(global.json, &audit_json(&rules, &outcome), || print_audit(&outcome));
    }
    let by_hand = (!args.command.is_empty()).then(|| call::command(&args.command));
    let calls: Vec<PolicyCall> = args.calls.iter().map(|text| call::either(text)).chain(by_hand).collect();
    let compared = daemon.client.test_rules(&rules, &calls, args.session.as_deref()).await?;
    report::show(global.json, &as_json(&rules, &compared), || print(&rules, &compared))
}

fn read(file: &std::path::Path) -> Result<RuleText, Failure> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string();
    let refuse = |problem: String| Failure::usage(format!("could not read {path}: {problem}"));
    let meta = std::fs::metadata(file).map_err(|error| refuse(error.to_string()))?;
    if !meta.is_file() || meta.len() > LONGEST_FILE {
        return Err(refuse("it is not a file of at most 1 MiB".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text".to_owned()))?;
    Ok(RuleText { text, path })
}

/// Change in the numbers of calls that run, ask and are refused; negative for fewer.
fn balance<'a>(changes: impl IntoIterator<Item = (&'a Comparison, u64)>) -> [(&'static str, i64); 3] {
    let kind = |verdict: &Verdict| match verdict {
        Verdict::Allow => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    };
    let mut balance = [("allowed", 0), ("asked", 0), ("denied", 0)];
    for (comparison, count) in changes {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        balance[kind(&comparison.now.verdict)].1 -= count;
        balance[kind(&comparison.then.verdict)].1 += count;
    }
    balance
}

fn summary(changed: u64, of: u64, balance: &[(&'static str, i64); 3]) -> String {
    if changed == 0 {
        return format!("{}: none would change", report::count(of, "call"));
    }
    let moved = balance.iter().filter(|(_, by)| *by != 0).map(|(what, by)| {
        let more = if *by > 0 { "more" } else { "fewer" };
        format!("{} {more} {what}", by.unsigned_abs())
    });
    let moved: Vec<String> = moved.collect();
    let detail = if moved.is_empty() { String::new() } else { format!(": {}", moved.join(", ")) };
    format!("{changed} of {} would change{detail}", report::count(of, "call"))
}

fn print(rules: &RuleText, compared: &[Comparison]) -> anyhow::Result<()> {
    if compared.is_empty() {
        writeln!(anstream::stdout(), "{}: the rules can be used", crate::terminal::sanitize::clean_line(&rules.path))?;
        return Ok(());
    }
    let mut table = Table::new(["CALL", "NOW", "WITH IT", "BY"]);
    for comparison in compared {
        table.row_with_long_end(row(comparison));
    }
    table.print("")?;
    let changed = compared.iter().filter(|comparison| comparison.changes());
    let balance = balance(changed.clone().map(|comparison| (comparison, 1)));
    writeln!(anstream::stdout(), "{}", summary(changed.count() as u64, compared.len() as u64, &balance))?;
    Ok(())
}

fn row(comparison: &Comparison) -> [String; 4] {
    let Comparison { call, now, then } = comparison;
    let by = format!("{}: {}", then.layer.as_str(), then.rule);
    [call::shown(call), in_words(&now.verdict), in_words(&then.verdict), by]
}

fn print_audit(outcome: &AuditComparison) -> anyhow::Result<()> {
    let mut table = Table::new(["CALLS", "NOW", "WITH IT", "SUCH AS", "BY"]);
    for change in &outcome.changes {
        let [call, now, then, by] = row(&change.example);
        table.row_with_long_end([change.count.to_string(), now, then, call, by]);
    }
    if !outcome.changes.is_empty() {
        table.print("")?;
    }
    let changed = outcome.changes.iter().map(|change| change.count).sum();
    let balance = balance(outcome.changes.iter().map(|change| (&change.example, change.count)));
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", summary(changed, outcome.calls, &balance))?;
    if outcome.skipped > 0 {
        let skipped = report::count(outcome.skipped, "call");
        writeln!(out, "{skipped} could not be judged again: the log has only a part of the call")?;
    }
    Ok(())
}

fn as_json(rules: &RuleText, compared: &[Comparison]) -> serde_json::Value {
    let calls = compared.iter().map(|comparison| {
        let mut object = comparison_json(comparison);
        object["changes"] = json!(comparison.changes());
        object
    });
    let changed = compared.iter().filter(|comparison| comparison.changes());
    let balance = balance(changed.clone().map(|comparison| (comparison, 1)));
    json!({
        "file": rules.path,
        "calls": calls.collect::<Vec<_>>(),
        "changed": changed.count(),
        "balance": balance_json(&balance),
    })
}

fn audit_json(rules: &RuleText, outcome: &AuditComparison) -> serde_json::Value {
    let balance = balance(outcome.changes.iter().map(|change| (&change.example, change.count)));
    json!({
        "file": rules.path,
        "judged": outcome.calls,
        "skipped": outcome.skipped,
        "changed": outcome.changes.iter().map(|change| change.count).sum::<u64>(),
        "balance": balance_json(&balance),
        "changes": outcome.changes.iter().map(|change| {
            json!({ "count": change.count, "example": comparison_json(&change.example) })
        }).collect::<Vec<_>>(),
    })
}

fn comparison_json(comparison: &Comparison) -> serde_json::Value {
    json!({ "call": call::as_json(&comparison.call), "now": comparison.now, "then": comparison.then })
}

fn balance_json(balance: &[(&'static str, i64); 3]) -> serde_json::Value {
    balance.iter().map(|(what, by)| ((*what).to_owned(), json!(by))).collect::<serde_json::Map<_, _>>().into()
}
