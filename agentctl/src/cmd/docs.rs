//! `agentctl docs`: indexes, reads and searches the documents of a session by page.

use std::{io::Write as _, path::PathBuf};

use agentd_core::{
    ids::SessionId,
    knowledge::{
        DocumentFinds, DocumentHit, DocumentListing, DocumentProgress, DocumentQuery, DocumentState, KnowledgeStats,
        PartCursor, PartRange, Password, Reading,
    },
};
use agentd_proto::client::NewSession;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::session_list::marked;
use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    render::spinner::Spinner,
    report::{self, Table},
    session::{self, Upload},
    terminal::{CODE, QUIET, STRONG, TerminalStyle, ask, clean, clean_line, is_attended, note, note_lines, paint},
};

/// Examples for the help of `docs`.
pub(crate) const DOCS_HELP: &str = "Examples:
  agentctl docs add report.pdf data.xlsx        into the last session
  agentctl docs list
  agentctl docs search annual revenue           matches, each with file and page
  agentctl docs search '\"net income\"' --in uploads/report.pdf --json
  agentctl docs show uploads/report.pdf --page 12
  agentctl docs show 'uploads/all.zip!/report.pdf'
  agentctl docs reindex                         read all of them again
  agentctl docs embed                           of `embeddings` in models.yaml; also code
  agentctl docs stats

PDF, Word, Excel, PowerPoint, OpenDocument, RTF, EPUB, mail, notebooks, text, recognized text of scans and pictures, \
and archives of these (ZIP, TAR). Attached text files and archives are searched like documents, those of a project \
only if named by --in. Paths are those of the session's tools; a session finds only its own documents. A search names \
documents that need a password, and `show` asks for it in a terminal. The exit code of `add` is 1 if a file could not \
be indexed.";

/// The subcommands of `docs`.
#[derive(Debug, Subcommand)]
pub(crate) enum DocsCommand {
    /// Add documents to a session and index them
    Add {
        /// Documents
        #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// List the documents of a session and their state in the index
    List {
        /// File or folder [default: the whole session]
        #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
        path: String,
        #[command(flatten)]
        common: CommonArgs,
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
        common: CommonArgs,
    },
    /// Search the documents of a session; each match has its page
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
        common: CommonArgs,
    },
    /// Read documents again and rebuild their index
    Reindex {
        /// Files or folders [default: the whole session]
        #[arg(value_name = "PATH")]
        paths: Vec<String>,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Send documents and code to your server for embeddings, so that they are found by meaning
    Embed {
        /// Send without asking
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Show the size of the index of all sessions
    Stats,
}

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Session: id, title, number in `sessions list`, or `last` [default: last]
    #[arg(long)]
    session: Option<String>,
}

/// Runs the command `agentctl docs`.
pub(crate) async fn handle(daemon: Daemon, json: bool, command: DocsCommand) -> anyhow::Result<Exit> {
    let named = async |common: &CommonArgs| session::named_or_last(&daemon, common.session.as_deref()).await;
    match command {
        DocsCommand::Add { files, common } => {
            let uploads = files.iter().map(|path| Upload::open(path)).collect::<Result<Vec<_>, _>>()?;
            // Without a session id, the last session is used. If none exists, a session is created.
            let session = match common.session.is_none() && daemon.client.sessions(1).await?.is_empty() {
                true => daemon.client.create_session(&NewSession::default()).await?.session.summary.id,
                false => named(&common).await?,
            };
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
            let reading = read_unlocked(&daemon, session, &path, range).await?;
            report::show(json, &reading, || print_reading(&path, page, &reading))
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
            report::show(json, &json_of(&finds), || print_finds(&finds))
        }
        DocsCommand::Reindex { paths, common } => {
            let session = named(&common).await?;
            index(&daemon, session, &paths, true, json).await
        }
        DocsCommand::Embed { yes, common } => embed(&daemon, &named(&common).await?.to_string(), yes, json).await,
        DocsCommand::Stats => {
            let stats = daemon.client.document_stats().await?;
            report::show(json, &stats, || {
                let KnowledgeStats { documents, chunks, bytes, stale, folder } = &stats;
                let size = report::bytes(*bytes);
                report::lines([
                    format!("documents  {documents}\nchunks     {chunks}\nstale      {stale}\nsize       {size}"),
                    format!("folder     {}", clean_line(&folder.display().to_string())),
                ])
            })
        }
    }
}

/// Number of attempts to enter a password.
const MAX_ATTEMPTS: usize = 3;

/// Reads a document. If it is locked and a user is present, asks for its password.
async fn read_unlocked(daemon: &Daemon, session: SessionId, path: &str, range: PartRange) -> anyhow::Result<Reading> {
    let session = session.to_string();
    let mut reading = daemon.client.read_document(&session, path, range, None).await?;
    let name = clean_line(path);
    for tried in 0..MAX_ATTEMPTS {
        if !reading.locked {
            return Ok(reading);
        }
        if !is_attended() {
            let hint = "run this in a terminal to enter the password";
            anyhow::bail!(Failure::usage(format!("{name} requires a password")).hint(hint));
        }
        if tried > 0 {
            note("wrong password");
        }
        let question = format!("Password of {name} (not shown): ");
        let Some(typed) = tokio::task::spawn_blocking(move || ask::hidden(&question)).await?? else { break };
        reading = daemon.client.read_document(&session, path, range, Some(&Password::new(typed))).await?;
    }
    if reading.locked {
        return Err(Failure::usage(format!("{name} was not opened: wrong password")).into());
    }
    Ok(reading)
}

/// Indexes documents, with a progress spinner on a terminal.
async fn index(daemon: &Daemon, session: SessionId, paths: &[String], again: bool, json: bool) -> anyhow::Result<Exit> {
    let mut spinner = Spinner::new(TerminalStyle::detect());
    spinner.show("indexing");
    let show = |step: DocumentProgress| spinner.show(&progress(&step));
    let done = daemon.client.index_documents(&session.to_string(), paths, again, show).await;
    spinner.clear();
    let done = done?;
    let is_whole = done.notes.is_empty() && done.documents.iter().all(|state| state.chunks.is_some());
    let shown = listing_shown(session, &done, json)?;
    // A reindexed folder may contain files that are not documents; that is not a failure.
    Ok(if again || is_whole && !done.documents.is_empty() { shown } else { Exit::Failed })
}

/// Embeds the texts of a session after asking. With `json`, only counts them unless `yes` is true.
async fn embed(daemon: &Daemon, session: &str, yes: bool, json: bool) -> anyhow::Result<Exit> {
    let run = async |send: bool| {
        let mut spinner = Spinner::new(TerminalStyle::detect());
        spinner.show(if send { "embedding" } else { "reading" });
        let done = daemon.client.embed(session, send).await;
        spinner.clear();
        done
    };
    let mut found = run(false).await?;
    let texts = report::count(found.texts, "text");
    let what = format!("{texts} (about {} tokens) to {}", found.tokens, clean_line(&found.server));
    if found.texts > 0 && !yes && !json {
        if !is_attended() {
            let failure = Failure::usage(format!("cannot ask whether to send {what}: no terminal"));
            anyhow::bail!(failure.hint("add --yes to confirm, or --json to only count"));
        }
        if !ask::confirm(&format!("Send {what}? [y/N] "))? {
            note("nothing was sent");
            return Ok(Exit::Cancelled);
        }
    }
    if found.texts > 0 && (yes || !json) {
        found = run(true).await?;
    }
    let done = if found.texts > 0 { format!("sent {what}") } else { "nothing new to embed".to_owned() };
    report::show(json, &found, || report::lines([done]))
}

/// Formats progress: `uploads/report.pdf  12 of 300 (4 %)`.
fn progress(DocumentProgress { document, parts, total }: &DocumentProgress) -> String {
    let name = clean_line(document);
    match total.and_then(|total| (u64::from(*parts) * 100).checked_div(u64::from(total))) {
        Some(percent) => format!("{name}  {parts} of {} ({percent} %)", total.unwrap_or_default()),
        None => format!("{name}  {parts}"),
    }
}

fn listing_shown(session: SessionId, listing: &DocumentListing, json: bool) -> anyhow::Result<Exit> {
    let DocumentListing { documents, notes } = listing;
    let complete = notes.is_empty();
    let output = json!({ "session_id": session, "documents": documents, "complete": complete, "notes": notes });
    report::show(json, &output, || print_listing(listing))
}

/// Maximum number of documents whose problems are listed.
const MAX_LISTED: usize = 5;

/// Prints a table of documents, followed by their problems.
fn print_listing(DocumentListing { documents, notes }: &DocumentListing) -> anyhow::Result<()> {
    let rows = documents.iter().map(|DocumentState { name, format, title, parts, chunks, .. }| {
        let chunks = chunks.map_or_else(|| "not indexed".to_owned(), |chunks| chunks.to_string());
        let parts = if *parts == 0 { String::new() } else { parts.to_string() };
        let title = clean_line(title.as_deref().unwrap_or_default());
        [clean_line(name), clean_line(format), parts, chunks, title]
    });
    Table::with_long_end(["DOCUMENT", "FORMAT", "PARTS", "CHUNKS", "TITLE"], rows)
        .print("no documents; agentctl files ls shows all files")?;
    let problems = documents.iter().filter_map(|state| Some((&state.name, state.problem.as_ref()?)));
    problems.for_each(|(name, problem)| note(&format!("{}: {}", clean_line(name), clean_line(problem))));
    note_lines(notes);
    Ok(())
}

/// Returns lines about documents that could not be searched completely: one per document, then the number of omitted
/// ones.
fn broken_lines(broken: &[(String, String)]) -> Vec<String> {
    let line = |(name, reason): &(String, String), in_full: bool| {
        // Only the first sentence: the advice after it is the same for most documents.
        let reason = if in_full { reason.as_str() } else { reason.split("; ").next().unwrap_or(reason) };
        format!("{} could not be searched completely: {}", clean_line(name), clean_line(reason))
    };
    if let [one] = broken {
        return vec![line(one, true)];
    }
    let mut lines: Vec<String> = broken.iter().take(MAX_LISTED).map(|one| line(one, false)).collect();
    if broken.len() > MAX_LISTED {
        let more = report::count(broken.len() - MAX_LISTED, "more document");
        lines.push(format!("{more} could not be searched completely; agentctl docs list shows why"));
    }
    lines
}

/// Prints pages, each below its label.
fn print_reading(path: &str, first: u32, reading: &Reading) -> anyhow::Result<()> {
    let Reading { format, title, parts_are, total, parts, broken, .. } = reading;
    let color = TerminalStyle::detect().out_color;
    let mut out = anstream::stdout().lock();
    let title = title.as_deref().map(|title| format!("  {}", clean_line(title))).unwrap_or_default();
    let whole = format!("{}  {format}, {}{title}", clean_line(path), report::count(*total, parts_are.as_str()));
    writeln!(out, "{}", paint(color, QUIET, &whole))?;
    for part in parts {
        writeln!(out, "\n{}\n{}", paint(color, STRONG, &clean_line(&part.label)), clean(part.text.trim_end()))?;
        if let Some(extent) = &part.shown {
            writeln!(out, "{}", paint(color, QUIET, &format!("[{extent}]")))?;
        }
    }
    drop(out);
    for part in parts {
        if let Some(PartCursor { row, column }) = part.next {
            let row = if row > 0 { format!(" --row {row}") } else { String::new() };
            let column = if column > 0 { format!(" --column {column}") } else { String::new() };
            let (noun, number) = (parts_are.as_str(), part.number);
            note(&format!("there is more of this {noun}: --page {number}{row}{column}"));
        }
    }
    match parts.last() {
        None if *total > 0 => note(&format!("the document has {}", report::count(*total, parts_are.as_str()))),
        None => note("the document has no text"),
        Some(last) if last.number < *total && first <= *total => {
            note(&format!("there is more: --page {}", last.number + 1));
        }
        Some(_) => {}
    }
    if let Some(reason) = broken {
        note(&format!("the document could not be read completely: {}", clean_line(reason)));
    }
    Ok(())
}

/// Prints each match with its position and surrounding text. Matched words are bold.
fn print_finds(finds: &DocumentFinds) -> anyhow::Result<()> {
    let color = TerminalStyle::detect().out_color;
    let mut out = anstream::stdout().lock();
    for hit in &finds.hits {
        let shown = DocumentHit { place: clean_line(&hit.place), ..hit.clone() };
        let citation = shown.behind(&clean_line(&hit.document), "  ");
        writeln!(out, "{}\n    {}", paint(color, CODE, &citation), marked(&hit.snippet, &hit.marks, color))?;
    }
    drop(out);
    if finds.hits.is_empty() {
        let searched = report::count(finds.searched, "document");
        note(&format!("no matches in {searched}; texts of the project are searched only if named by --in"));
    }
    note_lines(&finds.notes);
    unsearched_lines(finds).iter().for_each(|line| note(line));
    Ok(())
}

/// Returns a note about locked documents. A search does not ask for passwords.
fn locked_note(locked: &[String]) -> Option<String> {
    // File names in an archive are readable without a password.
    let is_archive = |name: &String| name.to_ascii_lowercase().ends_with(".zip");
    let command = match (locked.iter().any(|name| !is_archive(name)), locked.iter().any(is_archive)) {
        (true, true) => "`agentctl docs show FILE` (in an archive `FILE!/DOCUMENT`)",
        (_, true) => "`agentctl docs show FILE!/DOCUMENT`",
        _ => "`agentctl docs show FILE`",
    };
    let names: Vec<String> = locked.iter().take(MAX_LISTED).map(|name| clean_line(name)).collect();
    let more = locked.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = format!("{}{more}", names.join(", "));
    match locked {
        [] => None,
        [_] => Some(format!("{names} needs a password and was not searched; {command} asks for it")),
        _ => Some(format!("{names} need a password and were not searched; {command} asks for one")),
    }
}

/// Returns lines about documents that were not searched, or not completely.
fn unsearched_lines(finds: &DocumentFinds) -> Vec<String> {
    let others: Vec<_> = finds.broken.iter().filter(|(name, _)| !finds.locked.contains(name)).cloned().collect();
    let mut lines = broken_lines(&others);
    lines.extend(locked_note(&finds.locked));
    if finds.not_searched > 0 {
        let left = report::count(finds.not_searched, "document");
        lines.push(format!(
            "{left} not searched: time limit; search again (documents read are cached), or name a folder with --in"
        ));
    }
    lines.extend(finds.late.then(|| "the search is incomplete: time limit; name a document with --in".to_owned()));
    lines
}

/// Converts search results to JSON, with a citation per match.
fn json_of(finds: &DocumentFinds) -> Value {
    let hit = |hit: &DocumentHit| {
        json!({
            "document": hit.document, "place": hit.place, "citation": hit.citation(), "score": hit.score,
            "snippet": hit.snippet, "marks": hit.marks.iter().map(|mark| [mark.start, mark.end]).collect::<Vec<_>>(),
        })
    };
    let broken = |(name, reason): &(String, String)| json!({ "document": name, "why": reason });
    let notes: Vec<String> = finds.notes.iter().cloned().chain(locked_note(&finds.locked)).collect();
    json!({
        "hits": finds.hits.iter().map(hit).collect::<Vec<_>>(),
        "searched": finds.searched,
        "by": finds.by,
        "not_searched": finds.not_searched,
        "complete": finds.is_complete(),
        "notes": notes,
        "broken": finds.broken.iter().map(broken).collect::<Vec<_>>(),
        "locked": finds.locked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_percentage_if_the_total_is_known() {
        let step = |parts, total| DocumentProgress { document: "uploads/a\u{1b}[2J.pdf".to_owned(), parts, total };
        assert_eq!(progress(&step(12, Some(300))), "uploads/a.pdf  12 of 300 (4 %)");
        assert_eq!(progress(&step(12, None)), "uploads/a.pdf  12");
        assert_eq!(progress(&step(0, Some(0))), "uploads/a.pdf  0");
    }

    #[test]
    fn search_hits_are_one_sanitised_line_with_bold_matches() {
        let (snippet, marks) = ("the\n\u{1b}[31m纳税 is due", [9..15, 99..100]);
        assert_eq!(marked(snippet, &marks, false), "the 纳税 is due");
        assert_eq!(marked(snippet, &marks, true), "the \u{1b}[1m纳税\u{1b}[0m is due");
    }

    #[test]
    fn search_with_omissions_is_marked_incomplete() {
        let check = |finds: DocumentFinds, complete: bool, expected: &str| {
            let (lines, shown) = (unsearched_lines(&finds), json_of(&finds));
            assert_eq!((&shown["complete"], &shown["not_searched"]), (&json!(complete), &json!(finds.not_searched)));
            assert_eq!(lines.iter().any(|line| line.contains(expected)), !complete, "{expected}: {lines:?}");
        };
        check(DocumentFinds::default(), true, "");
        check(DocumentFinds { not_searched: 4, ..DocumentFinds::default() }, false, "4 documents not searched");
        check(DocumentFinds { late: true, ..DocumentFinds::default() }, false, "is incomplete");
        let broken = vec![("a.pdf".to_owned(), "2 of its 3 pages are pictures".to_owned())];
        check(
            DocumentFinds { broken, ..DocumentFinds::default() },
            false,
            "a.pdf could not be searched completely: 2 of",
        );
    }

    #[test]
    fn locked_documents_are_listed_once_with_the_command() {
        let output = |count: usize| {
            let locked = (0..count).map(|number| format!("uploads/{number}\u{1b}[2J.odt")).collect();
            unsearched_lines(&DocumentFinds { locked, ..DocumentFinds::default() })
        };
        let one = "uploads/0.odt needs a password and was not searched; `agentctl docs show FILE` asks for it";
        assert_eq!((output(0), output(1)), (Vec::new(), vec![one.to_owned()]));
        assert!(output(7).concat().contains("uploads/4.odt and 2 more need a password"), "{:?}", output(7));
    }

    #[test]
    fn unreadable_documents_are_summarised_in_a_few_lines() {
        let broken = |count: usize| {
            let one =
                |n| (format!("uploads/{n}.pdf"), "could not read the PDF: it is a scan; run OCR over it".to_owned());
            broken_lines(&(0..count).map(one).collect::<Vec<_>>())
        };
        let full =
            "uploads/0.pdf could not be searched completely: could not read the PDF: it is a scan; run OCR over it";
        assert_eq!(broken(1), [full]);
        let many = broken(18);
        assert_eq!(many.len(), MAX_LISTED + 1, "{many:?}");
        assert!(!many[0].contains("OCR") && many[MAX_LISTED].starts_with("13 more documents could not"), "{many:?}");
    }
}
