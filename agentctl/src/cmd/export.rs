//! `agentctl sessions export`: writes a session to a file: as an archive that another daemon takes in, as text for people, or
//! as JSON for programs.

mod atif;
mod events;
mod html;
mod markdown;

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use agentd_core::{event::Event, session::SessionSummary};
use agentd_proto::client::{ExportPart, ExportStream, ExportedContent};
use clap::Args;
use serde_json::json;

use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    flags::{Choice, one_of},
    report,
};

/// The arguments of `sessions export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions export last -o work.tar.gz
  agentctl sessions export 0193a5b2 --redact -o shared.tar.gz
  agentctl sessions export 'Tax papers' --format markdown | less
  agentctl sessions export last --format json | jq -c 'select(.type == \"turn_ended\").result.text'
  agentctl sessions export last --redact --format html -o page.html
  agentctl sessions export last --format atif -o trajectory.json
  agentctl sessions export last | ssh other agentctl sessions import -

An archive holds the events of the session and of its subagents, its uploads/ and outputs/, and large results. The project \
folder, grants, answers to secret questions, the environment of your shell and what is needed to undo changes stay on this \
machine. It is a gzipped tar with SHA256SUMS inside, so that `tar` can open it, too.

--redact masks what looks like a secret, in the forms that the audit log knows: a password that has no such form stays. \
Files that are no text are left out then.")]
pub(crate) struct ExportArgs {
    /// The session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Form of the file
    #[arg(long, value_name = "FORMAT", default_value = "archive", value_parser = one_of(&FORMATS))]
    format: Format,
    /// Mask what looks like a secret, in all texts
    #[arg(long)]
    redact: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print JSON about what was written
    #[arg(long, requires = "output")]
    json: bool,
}

/// Form of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Archive,
    Markdown,
    Json,
    Atif,
    Html,
}

const FORMATS: [Choice<Format>; 5] = [
    ("archive", "a gzipped tar that `sessions import` takes", Format::Archive),
    ("markdown", "a text for people", Format::Markdown),
    ("json", "a line of JSON for each stored event, as in --output stream-json", Format::Json),
    ("html", "the page of `agentctl trace --html`, of all turns", Format::Html),
    ("atif", "an Agent Trajectory Interchange Format document", Format::Atif),
];

/// Writes events in some form.
trait EventWriter: Send {
    /// Writes the beginning.
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()>;

    /// Writes the next event.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Writes the end.
    fn end(&mut self) -> io::Result<()>;
}

/// Exports.
pub(crate) async fn handle(daemon: &Daemon, args: ExportArgs) -> anyhow::Result<Exit> {
    let id = daemon.client.find_session(&args.session).await?.to_string();
    let stream = match args.format {
        Format::Archive => daemon.client.export_archive(&id, args.redact).await?,
        Format::Markdown | Format::Json | Format::Atif | Format::Html => {
            daemon.client.export_events(&id, args.redact).await?
        }
    };
    let Some(output) = &args.output else {
        if args.format == Format::Archive && io::stdout().is_terminal() {
            return Err(Failure::usage("an archive is no text, so it is not printed to a terminal")
                .hint("write it to a file with -o FILE, or choose another --format")
                .into());
        }
        let mut out = io::BufWriter::new(io::stdout());
        let content = write(stream, args.format, &mut out).await?;
        out.flush()?;
        tell_left_out(content);
        return Ok(Exit::Done);
    };
    let (content, size) = to_file(stream, args.format, output).await?;
    let told = json!({
        "session_id": id, "file": output, "size": size, "redacted": args.redact, "events": content.events,
        "files": content.files,
    });
    let files = report::count(content.files.files, "file");
    let events = report::count(content.events, "event");
    let words = format!("{}: {events} and {files}, {}", output.display(), report::bytes(size));
    report::note(args.json, &told, &words)?;
    tell_left_out(content);
    Ok(Exit::Done)
}

fn tell_left_out(content: ExportedContent) {
    if content.files.left_out > 0 {
        let files = report::count(content.files.left_out, "file");
        crate::terminal::note(&format!("not exported: {files} (links, special files, too much, or no text)"));
    }
}

/// The file takes its name when all of it is written.
async fn to_file(stream: ExportStream, format: Format, output: &Path) -> anyhow::Result<(ExportedContent, u64)> {
    let failed = |error: io::Error| {
        Failure::usage(format!("could not write {}: {error}", output.display()))
            .hint("name a file in a folder that is there and can be written")
    };
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".agentctl-").tempfile_in(folder).map_err(failed)?;
    let mut out = io::BufWriter::new(draft.as_file_mut());
    let content = write(stream, format, &mut out).await?;
    out.flush().map_err(failed)?;
    drop(out);
    draft.as_file().sync_all().map_err(failed)?;
    let size = draft.as_file().metadata().map_err(failed)?.len();
    draft.persist(output).map_err(|error| failed(error.error))?;
    Ok((content, size))
}

async fn write(
    mut stream: ExportStream,
    format: Format,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<ExportedContent> {
    let mut writer: Box<dyn EventWriter + '_> = match format {
        Format::Archive => {
            while let Some(part) = stream.next().await? {
                match part {
                    ExportPart::Data(data) => out.write_all(&data)?,
                    ExportPart::Content(content) => return Ok(content),
                    ExportPart::Session(_) | ExportPart::Event(_) => {}
                }
            }
            return Err(cut_off().into());
        }
        Format::Markdown => Box::new(markdown::Markdown::new(out)),
        Format::Json => Box::new(events::Events::new(out)),
        Format::Atif => Box::new(atif::Atif::new(out)),
        Format::Html => Box::new(html::Html::new(out)),
    };
    while let Some(part) = stream.next().await? {
        match part {
            ExportPart::Session(summary) => writer.begin(&summary)?,
            ExportPart::Event(event) => writer.event(&event)?,
            ExportPart::Content(content) => {
                writer.end()?;
                return Ok(content);
            }
            ExportPart::Data(_) => {}
        }
    }
    Err(cut_off().into())
}

fn cut_off() -> Failure {
    Failure::unreachable("the export was cut off").hint("export the session again")
}
