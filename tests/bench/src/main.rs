//! agentd-bench: measures the speed and size of the daemon from outside.
//!
//! Everything runs as real processes in temporary folders: the daemon, `agentctl`, a model server on loopback
//! ([`world`]) and an MCP server ([`mcp_server`]). Both servers are this binary with a special first argument. Next to
//! each figure is the floor, the best that the host could do, measured in the same run ([`floor`]). The result is one
//! table ([`report`]). The exit code is 0 regardless of the figures, because hosts are noisy and the table needs
//! interpretation.
//!
//! - [`measures`]: the measurements, one subject per file. [`figures`]: numbers, their units and their limits.

mod figures;
mod floor;
mod mcp_server;
mod measures;
mod report;
mod world;

use std::io::Write as _;

use clap::Parser;

use crate::{measures::Subject, report::Row};

/// First argument that runs this binary as a model server.
const MODEL_SERVER: &str = "model-server";

/// First argument that runs this binary as an MCP server.
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

/// Measures a subject. A failure becomes a row with the error.
async fn measure(subject: Subject) -> Vec<Row> {
    let _ = writeln!(std::io::stderr(), "measuring {}…", subject.name());
    let patience = subject.patience();
    match tokio::time::timeout(patience, subject.measure()).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => vec![Row::broken(subject.name(), format!("{error:#}"))],
        Err(_) => vec![Row::broken(subject.name(), format!("timed out after {patience:?}"))],
    }
}
