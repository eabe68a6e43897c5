//! `agentctl docs`: documents of a session, indexed, read and searched by the page.

mod show;

use std::{io::IsTerminal as _, path::PathBuf};

use agentd_core::{
    ids::SessionId,
    knowledge::{DocumentListing, DocumentProgress, DocumentQuery, PartCursor, PartRange, Password, Reading},
};
use agentd_proto::client::NewSession;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    render::spinner::Spinner,
    report,
    session::{self, Upload},
    terminal::{ask, look::TerminalStyle, sanitize::clean_line},
};

/// The arguments of `docs`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl docs add report.pdf data.xlsx        into the last session
  agentctl docs list
  agentctl docs search annual revenue           matches, each with file and page
  agentctl docs search '\"net income\"' --in uploads/report.pdf --json
  agentctl docs show uploads/report.pdf --page 12
  agentctl docs show 'uploads/all.zip!/report.pdf'
  agentctl docs reindex                         read all of them again
  agentctl docs stats

PDF, Word, Excel, PowerPoint, OpenDocument, RTF, EPUB, mail, notebooks, text, letters of scans and pictures, and archives of these (ZIP, TAR). Attached text files and archives are searched like documents, those \
of a project if --in names them. Paths are those of the session's tools; a session finds only its own documents. A document that needs a password \
is named by a search, and `show` asks for it in a terminal. The exit code of `add` is 1 if a file could not be indexed.")]
pub(crate) struct DocsArgs {
    #[command(subcommand)]
    command: DocsCommand,
}

#[derive(Debug, Subcommand)]
enum DocsCommand {
    /// Add documents to a session and index them
    Add {
        /// Documents
        #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// List the documents of a session and their state in the index
    List {
        /// File or folder [default: the whole session]
        #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
        path: String,
        #[command(flatten)]
        common: Common,
    },
    /// Show pages, sheets or slides of a document
    Show {
        /// Document
        #[arg(value_name = "PATH")]
        path: String,
        /// First page, sheet or slide
        #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        page: u32,
        /// Number of pages, sheets or slides [default: as many as fit]
        #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        count: Option<u32>,
        /// First row of a sheet that was shown in part
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        row: u32,
        /// First character of a page that was shown in part
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        column: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Search the documents of a session; matches come with their page
    Search {
        /// Words, or a "quoted phrase"
        #[arg(value_name = "QUERY", required = true, num_args = 1..)]
        query: Vec<String>,
        /// Only in this file or folder; may be repeated
        #[arg(long = "in", value_name = "PATH")]
        within: Vec<String>,
        /// Treat the query as a regular expression
        #[arg(long)]
        regex: bool,
        /// Maximum number of matches
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Read documents again and rebuild their index
    Reindex {
        /// Files or folders [default: the whole session]
        #[arg(value_name = "PATH")]
        paths: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Show the size of the index, over all sessions
    Stats,
}

#[derive(Debug, Args)]
struct Common {
    /// The session: id, title, number in `sessions list`, or `last` [default: the one that was used last]
    #[arg(long)]
    session: Option<String>,
}

/// Does what was asked.
pub(crate) async fn handle(global: &Global, args: DocsArgs) -> anyhow::Result<Exit> {
    let (daemon, json) = (daemon::connect(global).await?, global.json);
    let named = async |common: &Common| session::named_or_last(&daemon, common.session.as_deref()).await;
    match args.command {
        DocsCommand::Add { files, common } => {
            let uploads = files.iter().map(|path| Upload::open(path)).collect::<Result<Vec<_>, _>>()?;
            let session = session_to_fill(&daemon, &common).await?;
            let mut paths = Vec::new();
            for upload in uploads {
                paths.push(upload.put(&daemon, session).await?.path);
            }
            index(&daemon, session, &paths, false, json).await
        }
        DocsCommand::List { path, common } => {
            let session = named(&common).await?;
            let states = daemon.client.list_documents(&session.to_string(), &path).await?;
            listing_shown(session, &states, json)
        }
        DocsCommand::Show { path, page, count, row, column, common } => {
            let session = named(&common).await?;
            let range = PartRange { first: page, count, from: PartCursor { row, column } };
            let reading = unlocked(&daemon, session, &path, range).await?;
            report::show(json, &reading, || show::reading(&path, page, &reading))
        }
        DocsCommand::Search { query, within, regex, limit, common } => {
            let session = named(&common).await?;
            let text = query.join(" ");
            let query = DocumentQuery { text, regex, limit, neighbours: false, begin_by: None };
            let mut spinner = Spinner::new(TerminalStyle::detect());
            spinner.show("searching");
            let show = |step: DocumentProgress| spinner.show(&progress(&step));
            let found = daemon.client.search_documents(&session.to_string(), &within, &query, show).await;
            spinner.clear();
            let finds = found?;
            report::show(json, &show::json_of(&finds), || show::finds(&finds))
        }
        DocsCommand::Reindex { paths, common } => {
            let session = named(&common).await?;
            index(&daemon, session, &paths, true, json).await
        }
        DocsCommand::Stats => {
            let stats = daemon.client.document_stats().await?;
            report::show(json, &stats, || show::stats(&stats))
        }
    }
}

/// Times that a password is asked for.
const TRIES: usize = 3;

/// Reads a document, and asks for its password where it wants one and somebody can be asked.
async fn unlocked(daemon: &Daemon, session: SessionId, path: &str, range: PartRange) -> anyhow::Result<Reading> {
    let session = session.to_string();
    let mut reading = daemon.client.read_document(&session, path, range, None).await?;
    let name = clean_line(path);
    for tried in 0..TRIES {
        if !reading.locked {
            return Ok(reading);
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(Failure::usage(format!("{name} opens with a password only"))
                .hint("run this in a terminal, where it asks for the password and does not show it")
                .into());
        }
        if tried > 0 {
            crate::terminal::note("that password does not open it");
        }
        let question = format!("Password of {name} (not shown): ");
        let Some(typed) = tokio::task::spawn_blocking(move || ask::hidden(&question)).await?? else { break };
        reading = daemon.client.read_document(&session, path, range, Some(&Password::new(typed))).await?;
    }
    if reading.locked {
        return Err(Failure::usage(format!("{name} was not opened: no password was right")).into());
    }
    Ok(reading)
}

/// The session that was named or used last; a new one where there is none.
async fn session_to_fill(daemon: &Daemon, common: &Common) -> anyhow::Result<SessionId> {
    if common.session.is_none() && daemon.client.sessions(1).await?.is_empty() {
        return Ok(daemon.client.create_session(&NewSession::default()).await?.session.summary.id);
    }
    Ok(session::named_or_last(daemon, common.session.as_deref()).await?)
}

/// Indexes, and shows how far it is where somebody looks.
async fn index(daemon: &Daemon, session: SessionId, paths: &[String], again: bool, json: bool) -> anyhow::Result<Exit> {
    let mut spinner = Spinner::new(TerminalStyle::detect());
    spinner.show("indexing");
    let show = |step: DocumentProgress| spinner.show(&progress(&step));
    let done = daemon.client.index_documents(&session.to_string(), paths, again, show).await;
    spinner.clear();
    let done = done?;
    let is_whole = done.notes.is_empty() && done.documents.iter().all(|state| state.chunks.is_some());
    let shown = listing_shown(session, &done, json)?;
    // Who reads again a folder of all kinds of files knows that some are none.
    Ok(if again || is_whole && !done.documents.is_empty() { shown } else { Exit::Failed })
}

/// `uploads/report.pdf  12 of 300 (4 %)`.
fn progress(DocumentProgress { document, parts, total }: &DocumentProgress) -> String {
    let name = clean_line(document);
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = u64::from(*parts) * 100 / u64::from(total);
            format!("{name}  {parts} of {total} ({percent} %)")
        }
        None => format!("{name}  {parts}"),
    }
}

fn listing_shown(session: SessionId, listing: &DocumentListing, json: bool) -> anyhow::Result<Exit> {
    let DocumentListing { documents, notes } = listing;
    let complete = notes.is_empty();
    let told = json!({ "session_id": session, "documents": documents, "complete": complete, "notes": notes });
    report::show(json, &told, || show::listing(listing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_share_where_the_whole_is_known() {
        let step = |parts, total| DocumentProgress { document: "uploads/a\u{1b}[2J.pdf".to_owned(), parts, total };
        assert_eq!(progress(&step(12, Some(300))), "uploads/a.pdf  12 of 300 (4 %)");
        assert_eq!(progress(&step(12, None)), "uploads/a.pdf  12");
        assert_eq!(progress(&step(0, Some(0))), "uploads/a.pdf  0");
    }
}
