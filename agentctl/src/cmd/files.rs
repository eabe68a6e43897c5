//! `agentctl files`: lists, reads and writes files of a session under the paths of its tools.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use agentd_core::files::{EntryKind, FileEntry, FileListing};
use clap::Subcommand;
use serde_json::json;

use super::own_file;
use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    input::SilenceNotice,
    ops::each_piece,
    report::{self, Table},
    terminal::{note, sanitize},
};

/// Examples for the help of `files`.
pub(crate) const FILES_HELP: &str = "Examples:
  agentctl files ls 0193a5b2                            the folders of a session
  agentctl files ls 0193a5b2 /memories --json
  agentctl files get 0193a5b2 outputs/report.md         to standard output
  agentctl files get 0193a5b2 outputs/plot.png -o plot.png
  agentctl files put 0193a5b2 /state/plan.md < plan.md
  agentctl files put 0193a5b2 uploads/data.csv data.csv

Paths are those of the session's tools: uploads/, outputs/, temp/, skills/, large_tool_results/, \
conversation_history/, /project, /memories and /state. `put` can write only where tools can.";

/// The subcommands of `files`.
#[derive(Debug, Subcommand)]
pub(crate) enum FilesCommand {
    /// List a folder
    Ls {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Folder [default: all folders of the session]
        #[arg(value_name = "PATH", default_value = ".")]
        path: String,
    },
    /// Print a file of the session, or copy it out
    Get {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// File in the session
        #[arg(value_name = "PATH")]
        path: String,
        /// Write to this file instead of standard output
        #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Print a summary as JSON
        #[arg(long, requires = "output")]
        json: bool,
    },
    /// Write a file of the session, replacing an existing one
    Put {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// File in the session
        #[arg(value_name = "PATH")]
        path: String,
        /// File to copy [default: standard input]
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

/// Runs the command `agentctl files`.
pub(crate) async fn handle(daemon: Daemon, json: bool, command: FilesCommand) -> anyhow::Result<Exit> {
    match command {
        FilesCommand::Ls { session, path } => list(&daemon, &session, &path, json).await,
        FilesCommand::Get { session, path, output: None, .. } => print(&daemon, &session, &path).await,
        FilesCommand::Get { session, path, output: Some(output), json } => {
            copy(&daemon, &session, &path, &output, json).await
        }
        FilesCommand::Put { session, path, file } => upload(&daemon, &session, &path, file.as_deref(), json).await,
    }
}

async fn list(daemon: &Daemon, session: &str, path: &str, json: bool) -> anyhow::Result<Exit> {
    let listing = daemon.client.list_files(session, path).await?;
    report::show(json, &json!({ "entries": listing.entries, "cut": listing.cut }), || table(&listing))
}

fn table(listing: &FileListing) -> anyhow::Result<()> {
    let rows = listing.entries.iter().map(|FileEntry { path, kind, size, modified }| {
        let (mark, size) = match kind {
            EntryKind::File => ("", size.to_string()),
            EntryKind::Folder => ("/", String::new()),
            EntryKind::Link => (" (link)", String::new()),
            EntryKind::Other => (" (not a regular file)", String::new()),
        };
        let changed = modified.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default();
        [format!("{path}{mark}"), size, changed]
    });
    Table::of(["PATH", "SIZE", "CHANGED"], rows).print("the folder is empty")?;
    if listing.cut {
        note("some entries are left out: there are too many, or their names cannot be shown");
    }
    Ok(())
}

async fn print(daemon: &Daemon, session: &str, path: &str) -> anyhow::Result<Exit> {
    if !io::stdout().is_terminal() {
        each_piece(&daemon.client, session, path, |piece| io::stdout().write_all(piece)).await?;
        io::stdout().flush()?;
        return Ok(Exit::Done);
    }
    let mut content = Vec::new();
    each_piece(&daemon.client, session, path, |piece| {
        content.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    let Ok(text) = String::from_utf8(content) else {
        let hint = "write it to a file with -o FILE";
        anyhow::bail!(Failure::usage(format!("refusing to write the binary file {path} to a terminal")).hint(hint));
    };
    let mut out = io::stdout().lock();
    out.write_all(sanitize::clean(&text).as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Copies a session's file to a temporary file, which is renamed once it is complete.
async fn copy(daemon: &Daemon, session: &str, path: &str, output: &Path, json: bool) -> anyhow::Result<Exit> {
    let failed = Failure::of_file("write", output);
    let failed = |error| failed(error).hint("name a file in an existing, writable folder");
    let mut draft = own_file::draft(output).map_err(&failed)?;
    let size = each_piece(&daemon.client, session, path, |piece| draft.write_all(piece)).await?;
    draft.persist(output).map_err(|error| failed(error.error))?;
    let value = json!({ "path": path, "file": output, "size": size });
    report::note(json, &value, &format!("{path}: {size} bytes to {}", output.display()))
}

async fn upload(daemon: &Daemon, session: &str, path: &str, file: Option<&Path>, json: bool) -> anyhow::Result<Exit> {
    let written = match file {
        Some(file) => {
            let hint = "name an existing file, or pass the content on standard input";
            let failed = Failure::of_file("read", file);
            let content = tokio::fs::File::open(file).await.map_err(|error| failed(error).hint(hint))?;
            daemon.client.write_file(session, path, content).await?
        }
        None if io::stdin().is_terminal() => {
            let hint = "name a FILE, or pass the content on standard input";
            anyhow::bail!(Failure::usage("no content to write").hint(hint));
        }
        None => {
            let _notice = SilenceNotice::watch("the content");
            daemon.client.write_file(session, path, tokio::io::stdin()).await?
        }
    };
    report::note(json, &json!({ "path": written }), &format!("wrote {written}"))
}
