//! `agentctl policy explain`: what the rules make of a call.

use std::io::Write as _;

use agentd_core::{
    policy::{Explanation, Layer, Verdict},
    visible,
};
use agentd_proto::client::PolicyCall;
use clap::Args;
use serde_json::json;

use super::call;
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    report::{self, Table},
};

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
pub(super) struct ExplainArgs {
    /// A tool, or a whole command line in quotes
    #[arg(value_name = "TOOL|COMMAND", required_unless_present = "command", conflicts_with = "command")]
    tool: Option<String>,
    /// Its arguments, a JSON object
    #[arg(value_name = "JSON")]
    arguments: Option<String>,
    /// A command line for run_bash_command
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
    /// The session in which it would be called: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl ExplainArgs {
    fn call(&self) -> Result<PolicyCall, Failure> {
        match &self.tool {
            // No tool has such a name: it is a command line in quotes, as one writes it for `sh -c`.
            Some(line) if self.arguments.is_none() && !call::may_be_a_tool(line) => {
                Ok(call::command(std::slice::from_ref(line)))
            }
            Some(tool) => call::named(tool, self.arguments.as_deref()),
            None => Ok(call::command(&self.command)),
        }
    }
}

/// Explains.
pub(super) async fn handle(global: &Global, args: ExplainArgs) -> anyhow::Result<Exit> {
    let call = args.call()?;
    let daemon = daemon::connect(global).await?;
    let said = daemon.client.explain(&call, args.session.as_deref()).await?;
    let told = json!({ "call": call::as_json(&call), "explanation": said });
    report::show(global.json, &told, || print(&call, &said))
}

fn print(call: &PolicyCall, said: &Explanation) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<9}{}", visible::line(value));
    line("call", &call::shown(call))?;
    if let Some(path) = &said.leads_to {
        line("leads to", path)?;
    }
    line("verdict", &in_words(&said.verdict))?;
    if let Verdict::Ask { reason, .. } | Verdict::Deny { reason } = &said.verdict
        && *reason != said.rule
    {
        line("reason", reason)?;
    }
    line("layer", layer(said.layer))?;
    line("rule", &said.rule)?;
    for rule in &said.granted_by {
        line("granted", rule)?;
    }
    for rule in &said.grants {
        line("always", &format!("would keep: {rule}"))?;
    }
    for rule in &said.wider {
        line("or", &format!("wider, where you say so: {rule}"))?;
    }
    if said.grants.is_empty() && matches!(said.verdict, Verdict::Ask { .. }) {
        line("always", "cannot be granted: no rule could be exact, or none may be kept for this")?;
    }
    drop(out);
    if !said.parts.is_empty() {
        let mut table = Table::new(["PART", "VERDICT", "LAYER", "RULE"]);
        for part in &said.parts {
            let layer = part.layer.as_str().to_owned();
            table.row_with_long_end([part.text.clone(), in_words(&part.verdict), layer, part.rule.clone()]);
        }
        table.print("")?;
    }
    Ok(())
}

/// A verdict in two words at the most.
pub(super) fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow => "allow".to_owned(),
        Verdict::Ask { risk, .. } => format!("ask ({})", risk.as_str()),
        Verdict::Deny { .. } => "deny".to_owned(),
    }
}

fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Checker => "checker (what agentd knows of the tool)",
        Layer::Global => "global (patterns for all tools)",
        Layer::Tool => "tool (what the rule files say of this tool)",
        Layer::Default => "default (no rule speaks of it)",
        Layer::Grant => "grant (a person allowed it)",
    }
}
