//! `agentctl sessions import`: takes a session in, from an archive or from the history of another program.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use agentd_core::{archive::ImportReport, visible};
use clap::Args;

use crate::{
    daemon::{CLIENT, Daemon},
    exit::Exit,
    failure::Failure,
    flags::{Choice, one_of},
    input::SilenceNotice,
    report,
    terminal::{ask, note, sanitize::clean_line},
};

/// The arguments of `sessions import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions import work.tar.gz
  agentctl sessions import work.tar.gz --as-new
  ssh other agentctl sessions export last | agentctl sessions import -
  agentctl sessions import ~/.claude/projects/-home-me-app/5c1f….jsonl --from claude-code
  agentctl sessions import ~/.codex/sessions/2026/01/31/rollout-….jsonl --from codex
  opencode export ses_… | agentctl sessions import - --from opencode

The session keeps its id, and is refused where that is here already. It has no grants, asks before it changes anything, and \
sees no folder: name one with `agentctl chat --session ID -C DIR`. A turn that was open is interrupted. Pinned rules are shown, \
and used once you agree, or with --pins.

Prints the ID of the session on standard output.")]
pub(crate) struct ImportArgs {
    /// Archive or history; `-` for standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Program whose history it is [default: an archive of agentd]
    #[arg(long, value_name = "PROGRAM", value_parser = one_of(&PROGRAMS))]
    from: Option<Program>,
    /// Give it a new id, so that it stands beside the same session
    #[arg(long)]
    as_new: bool,
    /// Use the pinned rules of the archive without being asked
    #[arg(long)]
    pins: bool,
}

/// A program whose histories can be imported, by its name on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Program(&'static str);

const PROGRAMS: [Choice<Program>; 3] = [
    ("claude-code", "a .jsonl file below ~/.claude/projects", Program("claude-code")),
    ("codex", "a rollout-….jsonl file below ~/.codex/sessions", Program("codex")),
    ("opencode", "the output of `opencode export`", Program("opencode")),
];

/// Imports.
pub(crate) async fn handle(daemon: &Daemon, args: ImportArgs, json: bool) -> anyhow::Result<Exit> {
    let from = args.from.map(|program| program.0);
    let report = if args.file.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            anyhow::bail!(Failure::usage("there is nothing on standard input").hint("name a FILE, or pipe one in"));
        }
        let _notice = SilenceNotice::watch("the history");
        daemon.client.import(tokio::io::stdin(), from, args.as_new, CLIENT).await?
    } else {
        let failed = Failure::of_file("read", &args.file);
        let file = tokio::fs::File::open(&args.file).await;
        let file = file.map_err(|error| failed(error).hint("name a file that is there"))?;
        daemon.client.import(file, from, args.as_new, CLIENT).await?
    };
    report::show(json, &report, || tell(&report))?;
    if !report.pins.is_empty() {
        agree(daemon, &report, args.pins).await?;
    }
    Ok(Exit::Done)
}

/// Shows the pinned rules of an archive, and pins them if the person agrees: models are told that they are the person's.
async fn agree(daemon: &Daemon, report: &ImportReport, agreed: bool) -> anyhow::Result<()> {
    let rules = report::count(report.pins.len() as u64, "pinned rule");
    note(&format!("the archive brings {rules}, which models would be given as yours:"));
    for (number, pin) in report.pins.iter().enumerate() {
        note(&format!("  {}. {}", number + 1, visible::line(pin)));
    }
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    let uses = agreed || can_ask && ask::agreed("Use them in this session? [y/N] ")?;
    if uses {
        daemon.client.set_pins(&report.session_id.to_string(), report.pins.clone()).await?;
    }
    note(if uses {
        "they are used"
    } else {
        "they are not used; `agentctl sessions pin` pins a rule, --pins all of them"
    });
    Ok(())
}

fn tell(report: &ImportReport) -> anyhow::Result<()> {
    report::lines([report.session_id])?;
    let title = match clean_line(&report.title) {
        title if title.is_empty() => String::new(),
        title => format!(" ({title})"),
    };
    let subagents = match report.subagents {
        0 => String::new(),
        count => format!(", {}", report::count(count, "subagent")),
    };
    let (turns, files) = (report::count(report.turns, "turn"), report::count(report.files.files, "file"));
    let id = report::short_id(report.session_id);
    note(&format!("imported session {id}{title}: {turns}{subagents}, {files}"));
    if let Some(former) = report.former_id {
        note(&format!("its id was {former}"));
    }
    if report.interrupted {
        note("a turn of it was open and is interrupted");
    }
    if !report.left_out.is_empty() {
        let left_out: Vec<String> = report.left_out.iter().map(|what| clean_line(what)).collect();
        note(&format!("left out: {}", left_out.join(", ")));
    }
    Ok(())
}
