//! agentd-bench: how fast and how large the daemon is, measured from outside.
//!
//! Everything runs as real processes in folders of its own: the daemon, `agentctl`, and a model server on loopback,
//! which is this same program under another name ([`world`]), as is the MCP server ([`mcp_server`]). Beside each figure stands the floor, what the machine
//! could do at best, measured in the same run ([`floor`]). One table comes out ([`report`]), and the exit code is 0
//! whatever it says: machines are noisy, and a person reads it.
//!
//! - [`measures`]: what is measured, one subject a file. [`figures`]: numbers, their units and their limits.

mod figures;
mod floor;
mod mcp_server;
mod measures;
mod report;
mod world;

use std::io::Write as _;

use clap::Parser;

use crate::{measures::Subject, report::Row};

/// The first argument of a process that is our model server.
const MODEL_SERVER: &str = "model-server";

/// The first argument of a process that is an MCP server.
const MCP_SERVER: &str = "mcp-server";

/// Measures agentd: run it after `cargo build --release -p agentd -p agentctl`, or as `make bench`.
#[derive(Debug, Parser)]
#[command(name = "agentd-bench", version)]
struct Args {
    /// Print JSON in place of the table
    #[arg(long)]
    json: bool,
    /// Measure only this subject; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<Subject>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(MODEL_SERVER) => {
            return agentd_testkit::model_server::command::run(arguments).await.map_err(anyhow::Error::msg);
        }
        Some(MCP_SERVER) => return mcp_server::run(),
        _ => {}
    }
    let args = Args::parse();
    world::allow_many_files();
    let before = report::machine();
    let mut rows = Vec::new();
    for subject in Subject::all().filter(|subject| args.only.is_empty() || args.only.contains(subject)) {
        rows.extend(measure(subject).await);
    }
    let text = if args.json { report::json(&rows, &before) } else { report::table(&rows, &before) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// What a subject comes to; a subject that breaks is a row that says so.
async fn measure(subject: Subject) -> Vec<Row> {
    let _ = writeln!(std::io::stderr(), "measuring {}…", subject.name());
    let patience = subject.patience();
    match tokio::time::timeout(patience, subject.measure()).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => vec![Row::broken(subject.name(), format!("{error:#}"))],
        Err(_) => vec![Row::broken(subject.name(), format!("it took more than {patience:?}"))],
    }
}
