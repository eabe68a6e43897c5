//! `agentctl policy`: explains the verdict on a call, and shows what a rules file would change.

use std::path::{Path, PathBuf};

use agentd_core::{
    Timestamp,
    policy::{Explanation, Layer, Verdict},
    visible,
};
use agentd_proto::client::{AuditComparison, Comparison, PolicyCall, RuleText};
use clap::{Args, Subcommand};
use jiff::Span;
use serde_json::{Map, Value, json};

use super::audit;
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, FactSheet, Table},
    terminal::clean_line,
};

/// Examples for the help of `policy`.
pub(crate) const POLICY_HELP: &str = "Examples:
  agentctl policy explain -- git push --force
  agentctl policy explain write_file '{\"path\": \".env\", \"content\": \"x\"}'
  agentctl policy test new_rules.yaml 'rm -rf build' 'write_file {\"path\": \"a\"}'

The rules are in hitl_rules.yaml; docs/policy.md explains them.";

/// The subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the verdict on a call and the rule that gave it, for each part of a command
    Explain(ExplainArgs),
    /// Show what a new rules file would change
    Test(TestArgs),
}

/// Runs the command `agentctl policy`.
pub(crate) async fn handle(global: &Global, command: PolicyCommand) -> anyhow::Result<Exit> {
    match command {
        PolicyCommand::Explain(args) => explain(global, args).await,
        PolicyCommand::Test(args) => test(global, args).await,
    }
}

/// Name of the tool that runs commands.
const SHELL_TOOL: &str = "run_bash_command";

/// Builds a call to the named tool.
fn named_call(tool: &str, arguments: Option<&str>) -> Result<PolicyCall, Failure> {
    let arguments = arguments.unwrap_or("{}");
    let problem = match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => return Ok(PolicyCall { tool: tool.to_owned(), arguments: arguments.to_owned() }),
        Ok(_) => "could not read the arguments: they are not a JSON object".to_owned(),
        Err(error) => format!("could not read the arguments as JSON: {error}"),
    };
    let example = format!("agentctl policy explain {tool} '{{\"path\": \"notes.txt\"}}'");
    Err(Failure::usage(problem).hint(format!("for example: {example}; a command goes after `--`")))
}

/// Builds a call to the shell tool. A single word is used verbatim, because it may be a whole script. Several words
/// were split by the user's shell, so they are quoted again.
fn command(args: &[String]) -> PolicyCall {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:,@%+=-".contains(letter);
    let command = match args {
        [script] => script.clone(),
        args => args.iter().map(|word| report::shell_word(word, plain)).collect::<Vec<_>>().join(" "),
    };
    PolicyCall { tool: SHELL_TOOL.to_owned(), arguments: json!({ "command": command }).to_string() }
}

/// Returns true if this may be the name of a tool.
fn may_be_a_tool(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Parses one argument: `TOOL {…}`, or a command line.
fn parse_call(text: &str) -> PolicyCall {
    if let Some((tool, arguments)) = text.trim().split_once(char::is_whitespace)
        && may_be_a_tool(tool)
        && let Ok(Value::Object(_)) = serde_json::from_str::<Value>(arguments)
    {
        return PolicyCall { tool: tool.to_owned(), arguments: arguments.trim().to_owned() };
    }
    command(&[text.to_owned()])
}

/// Converts a call to JSON, with its arguments as an object if they are valid JSON.
fn call_json(call: &PolicyCall) -> Value {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()));
    json!({ "tool": call.tool, "arguments": arguments })
}

/// Formats a call on one line.
fn call_line(call: &PolicyCall) -> String {
    let arguments = serde_json::from_str::<Value>(&call.arguments).ok().filter(|_| call.tool == SHELL_TOOL);
    let command = arguments.and_then(|arguments| Some(arguments.get("command")?.as_str()?.to_owned()));
    command.unwrap_or_else(|| format!("{} {}", call.tool, call.arguments))
}

/// The arguments of `policy explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl policy explain 'rm -rf build'           a command
  agentctl policy explain -- rm -rf build          the same, as separate words
  agentctl policy explain -- 'make && ./run | sh'  a whole script, in quotes
  agentctl policy explain edit_file '{\"path\": \".git/config\"}'
  agentctl policy explain --session 0193a5 -- make with the settings and grants of a session
  agentctl policy explain --json -- git push

Nothing is run. Without --session, the verdict is that of a new session without a project.")]
pub(crate) struct ExplainArgs {
    /// Tool, or a whole command line in quotes
    #[arg(value_name = "TOOL|COMMAND", required_unless_present = "command", conflicts_with = "command")]
    tool: Option<String>,
    /// Arguments of the tool, as a JSON object
    #[arg(value_name = "JSON")]
    arguments: Option<String>,
    /// Command line for run_bash_command
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
    /// Session of the call: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl ExplainArgs {
    fn call(&self) -> Result<PolicyCall, Failure> {
        match &self.tool {
            // This is not a valid tool name, so it is a quoted command line, as for `sh -c`.
            Some(line) if self.arguments.is_none() && !may_be_a_tool(line) => Ok(command(std::slice::from_ref(line))),
            Some(tool) => named_call(tool, self.arguments.as_deref()),
            None => Ok(command(&self.command)),
        }
    }
}

/// Runs the command `agentctl policy explain`.
async fn explain(global: &Global, args: ExplainArgs) -> anyhow::Result<Exit> {
    let call = args.call()?;
    let daemon = daemon::connect(global).await?;
    let explanation = daemon.client.explain(&call, args.session.as_deref()).await?;
    let output = json!({ "call": call_json(&call), "explanation": explanation });
    report::show(global.json, &output, || print(&call, &explanation))
}

fn print(call: &PolicyCall, explanation: &Explanation) -> anyhow::Result<()> {
    let mut facts = FactSheet::new(9, visible::line);
    facts.line("call", call_line(call));
    facts.each("leads to", &explanation.leads_to);
    facts.line("verdict", verdict_text(&explanation.verdict));
    if let Verdict::Ask { reason, .. } | Verdict::Deny { reason } = &explanation.verdict
        && *reason != explanation.rule
    {
        facts.line("reason", reason);
    }
    facts.line("layer", layer(explanation.layer));
    facts.line("rule", &explanation.rule);
    facts.each("granted", &explanation.granted_by);
    facts.each("always", explanation.grants.iter().map(|rule| format!("would add: {rule}")));
    facts.each("or", explanation.wider.iter().map(|rule| format!("wider, if you choose it: {rule}")));
    if explanation.grants.is_empty() && matches!(explanation.verdict, Verdict::Ask { .. }) {
        facts.line("always", "cannot be granted: no rule would be exact, or grants are not allowed for this");
    }
    facts.print()?;
    if !explanation.parts.is_empty() {
        let rows = explanation.parts.iter().map(|part| {
            let layer = part.layer.as_str().to_owned();
            [part.text.clone(), verdict_text(&part.verdict), layer, part.rule.clone()]
        });
        Table::with_long_end(["PART", "VERDICT", "LAYER", "RULE"], rows).print("")?;
    }
    Ok(())
}

/// Returns the short form of a verdict.
fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow => "allow".to_owned(),
        Verdict::Ask { risk, .. } => format!("ask ({})", risk.as_str()),
        Verdict::Deny { .. } => "deny".to_owned(),
    }
}

fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Checker => "checker (the tool's built-in rating)",
        Layer::Global => "global (patterns for all tools)",
        Layer::Tool => "tool (rules for this tool)",
        Layer::Default => "default (no rule matches)",
        Layer::Grant => "grant (allowed by the user)",
    }
}

/// Maximum bytes of a rules file, the same as for the daemon's own.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The arguments of `policy test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl policy test new.yaml                    is it valid?
  agentctl policy test new.yaml 'rm -rf build' 'write_file {\"path\": \"a\"}'
  agentctl policy test new.yaml -- git push --force
  agentctl policy test new.yaml --audit --since 7d what would have changed this week?

FILE is used in place of your own hitl_rules.yaml, for this test only; nothing is run. An error in it is shown with line \
and column, and the exit code is 2.")]
pub(crate) struct TestArgs {
    /// Rules file
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Calls to test: `TOOL {JSON}` or a command line, each as one argument
    #[arg(value_name = "CALL")]
    calls: Vec<String>,
    /// Command line for run_bash_command
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
    /// Compare every call of the audit log
    #[arg(long, conflicts_with_all = ["calls", "command", "session"])]
    audit: bool,
    /// With --audit: only calls since then (36h, 7d or a time)
    #[arg(long, value_name = "TIME", requires = "audit", value_parser = since)]
    since: Option<Timestamp>,
    /// Session of the calls: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Parses a time in the past. Units of variable length, such as in `7y`, are rejected.
fn since(text: &str) -> Result<Timestamp, String> {
    let is_fixed = |span: Span| span.is_positive() && span.get_years() == 0 && span.get_months() == 0;
    if text.parse::<Span>().is_ok_and(|span| !is_fixed(span)) {
        return Err("write `90m`, `36h`, `7d`, `2w` or `2026-01-31T12:00:00Z`".to_owned());
    }
    audit::since(text)
}

/// Runs the command `agentctl policy test`.
async fn test(global: &Global, args: TestArgs) -> anyhow::Result<Exit> {
    let rules = read(&args.file)?;
    let daemon = daemon::connect(global).await?;
    if args.audit {
        let outcome = daemon.client.test_rules_on_audit(&rules, args.since).await?;
        return report::show(global.json, &audit_json(&rules, &outcome), || print_audit(&outcome));
    }
    let by_hand = (!args.command.is_empty()).then(|| command(&args.command));
    let calls: Vec<PolicyCall> = args.calls.iter().map(|text| parse_call(text)).chain(by_hand).collect();
    let compared = daemon.client.test_rules(&rules, &calls, args.session.as_deref()).await?;
    report::show(global.json, &as_json(&rules, &compared), || print_comparisons(&rules, &compared))
}

fn read(file: &Path) -> Result<RuleText, Failure> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string();
    let refuse = |problem: String| Failure::usage(format!("could not read {path}: {problem}"));
    let meta = std::fs::metadata(file).map_err(|error| refuse(error.to_string()))?;
    if !meta.is_file() || meta.len() > MAX_FILE_BYTES {
        return Err(refuse("not a regular file of at most 1 MiB".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text".to_owned()))?;
    Ok(RuleText { text, path })
}

/// Returns the changes in the numbers of allowed, asked and denied calls; negative for fewer calls.
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
    let word = |by: i64| if by > 0 { "more" } else { "fewer" };
    let balance_changes = balance.iter().filter(|(_, by)| *by != 0);
    let balance_changes: Vec<String> =
        balance_changes.map(|(label, by)| format!("{} {} {label}", by.unsigned_abs(), word(*by))).collect();
    let detail = if balance_changes.is_empty() { String::new() } else { format!(": {}", balance_changes.join(", ")) };
    format!("{changed} of {} would change{detail}", report::count(of, "call"))
}

fn print_comparisons(rules: &RuleText, compared: &[Comparison]) -> anyhow::Result<()> {
    if compared.is_empty() {
        return report::lines([format!("{}: the rules are valid", clean_line(&rules.path))]);
    }
    let rows = compared.iter().map(row);
    Table::with_long_end(["CALL", "NOW", "WITH IT", "BY"], rows).print("")?;
    let changed = compared.iter().filter(|comparison| comparison.changes());
    let balance = balance(changed.clone().map(|comparison| (comparison, 1)));
    report::lines([summary(changed.count() as u64, compared.len() as u64, &balance)])
}

fn row(comparison: &Comparison) -> [String; 4] {
    let Comparison { call, now, then } = comparison;
    let by = format!("{}: {}", then.layer.as_str(), then.rule);
    [call_line(call), verdict_text(&now.verdict), verdict_text(&then.verdict), by]
}

fn print_audit(outcome: &AuditComparison) -> anyhow::Result<()> {
    let rows = outcome.changes.iter().map(|change| {
        let [call, now, then, by] = row(&change.example);
        [change.count.to_string(), now, then, call, by]
    });
    if !outcome.changes.is_empty() {
        Table::with_long_end(["CALLS", "NOW", "WITH IT", "SUCH AS", "BY"], rows).print("")?;
    }
    let changed = outcome.changes.iter().map(|change| change.count).sum();
    let balance = balance(outcome.changes.iter().map(|change| (&change.example, change.count)));
    report::lines([summary(changed, outcome.calls, &balance)])?;
    let skipped = report::count(outcome.skipped, "call");
    let output = format!("{skipped} could not be evaluated again: the log has only part of the call");
    report::lines((outcome.skipped > 0).then_some(output))
}

fn as_json(rules: &RuleText, compared: &[Comparison]) -> Value {
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

fn audit_json(rules: &RuleText, outcome: &AuditComparison) -> Value {
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

fn comparison_json(comparison: &Comparison) -> Value {
    json!({ "call": call_json(&comparison.call), "now": comparison.now, "then": comparison.then })
}

fn balance_json(balance: &[(&'static str, i64); 3]) -> Value {
    balance.iter().map(|(label, by)| ((*label).to_owned(), json!(by))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_arguments_are_quoted_and_scripts_kept() {
        let check = |words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(call_line(&command(&words)), expected);
        };
        check(&["ls | sh"], "ls | sh");
        check(&["git", "commit", "-m", "a b; c"], "git commit -m 'a b; c'");
        check(&["echo", "it's", ""], r"echo 'it'\''s' ''");
    }
}
