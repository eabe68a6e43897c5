//! `agentctl sessions export`: writes a session as an archive for another daemon, as Markdown or HTML for people, or as
//! JSON for programs. `agentctl sessions import`: imports a session from an archive or from the history of another
//! program.

mod atif;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use agentd_core::{
    archive::ImportReport,
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    item::{Item, ItemBody},
    session::SessionSummary,
    visible,
};
use agentd_proto::client::{ExportPart, ExportStream, ExportedContent};
use agentd_trace::{TurnTrace, nest, turns};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{
    own_file,
    trace::{self, without_origin},
};
use crate::{
    daemon::{CLIENT, Daemon},
    exit::Exit,
    failure::Failure,
    flags::{Choice, one_of},
    input::SilenceNotice,
    render::type_first,
    report,
    terminal::{ask, clean, clean_line, is_attended, money, note, number},
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

An archive contains the events of the session and of its subagents, its uploads/ and outputs/, and large results. The \
project folder, grants, answers to secret questions, the environment of your shell and the data to undo changes stay \
on this machine. It is a gzipped tar with SHA256SUMS inside, so `tar` can open it, too.

--redact masks what looks like a secret, in the forms that the audit log knows: a password of another form stays. \
Binary files are then left out.")]
pub(crate) struct ExportArgs {
    /// Session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Format of the file
    #[arg(long, value_name = "FORMAT", default_value = "archive")]
    format: Format,
    /// Mask what looks like a secret in all texts
    #[arg(long)]
    redact: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print a summary as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

/// Format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// a gzipped tar for `sessions import`
    Archive,
    /// a text to read
    Markdown,
    /// a line of JSON for each stored event, as in --output stream-json
    Json,
    /// the page of `agentctl trace --html`, with all turns
    Html,
    /// an Agent Trajectory Interchange Format document
    Atif,
}

/// Writer for an event-based format.
trait EventWriter: Send {
    /// Writes the beginning of the file.
    fn begin(&mut self, _: &SessionSummary) -> io::Result<()> {
        Ok(())
    }

    /// Writes the next event.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Writes the end of the file.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the command `agentctl sessions export`.
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
            let hint = "write it to a file with -o FILE, or choose another --format";
            anyhow::bail!(Failure::usage("refusing to write a binary archive to a terminal").hint(hint));
        }
        let mut out = io::BufWriter::new(io::stdout());
        let content = write(stream, args.format, &mut out).await?;
        out.flush()?;
        report_left_out(content);
        return Ok(Exit::Done);
    };
    let (content, size) = to_file(stream, args.format, output).await?;
    let value = json!({
        "session_id": id, "file": output, "size": size, "redacted": args.redact, "events": content.events,
        "files": content.files,
    });
    let files = report::count(content.files.files, "file");
    let events = report::count(content.events, "event");
    let text = format!("{}: {events} and {files}, {}", output.display(), report::bytes(size));
    report::note(args.json, &value, &text)?;
    report_left_out(content);
    Ok(Exit::Done)
}

fn report_left_out(content: ExportedContent) {
    if content.files.left_out > 0 {
        let files = report::count(content.files.left_out, "file");
        note(&format!("not exported: {files} (links, special files, too large, or binary)"));
    }
}

/// Exports to a temporary file, which is renamed once it is complete.
async fn to_file(stream: ExportStream, format: Format, output: &Path) -> anyhow::Result<(ExportedContent, u64)> {
    let failed = Failure::of_file("write", output);
    let failed = |error| failed(error).hint("name a file in an existing, writable folder");
    let mut draft = own_file::draft(output).map_err(&failed)?;
    let mut out = io::BufWriter::new(draft.as_file_mut());
    let content = write(stream, format, &mut out).await?;
    out.flush().map_err(&failed)?;
    drop(out);
    draft.as_file().sync_all().map_err(&failed)?;
    let size = draft.as_file().metadata().map_err(&failed)?.len();
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
                    ExportPart::Summary(content) => return Ok(content),
                    ExportPart::Session(_) | ExportPart::Event(_) => {}
                }
            }
            return Err(cut_off().into());
        }
        Format::Markdown => Box::new(Markdown { out, session: None }),
        Format::Json => Box::new(Events(out)),
        Format::Atif => Box::new(atif::Atif::new(out)),
        Format::Html => Box::new(Html { out, session: None, events: BTreeMap::new() }),
    };
    while let Some(part) = stream.next().await? {
        match part {
            ExportPart::Session(summary) => writer.begin(&summary)?,
            ExportPart::Event(event) => writer.event(&event)?,
            ExportPart::Summary(content) => {
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

/// Writes one JSON line per event.
struct Events<'a>(&'a mut (dyn Write + Send));

impl EventWriter for Events<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let line = visible::json(serde_json::to_string(&type_first(event)?)?);
        self.0.write_all(line.as_bytes())?;
        self.0.write_all(b"\n")
    }
}

/// Collects all events, because the page needs complete trees of turns.
struct Html<'a> {
    out: &'a mut (dyn Write + Send),
    session: Option<(SessionId, String)>,
    events: BTreeMap<SessionId, Vec<Event>>,
}

impl EventWriter for Html<'_> {
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()> {
        self.session = Some((session.id, session.title.clone()));
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events.entry(event.session_id).or_default().push(without_origin(event.clone()));
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let Some((session_id, title)) = &self.session else { return Ok(()) };
        let own = self.events.remove(session_id).unwrap_or_default();
        let mut trees = turns(&own);
        drop(own);
        let of_subagents = std::mem::take(&mut self.events);
        let subagents: BTreeMap<SessionId, Vec<TurnTrace>> =
            of_subagents.into_iter().map(|(id, events)| (id, turns(&events))).collect();
        nest(&mut trees, &subagents);
        let page = trace::render(title, *session_id, &trees)?;
        self.out.write_all(page.as_bytes())
    }
}

/// Writes the session as Markdown.
struct Markdown<'a> {
    out: &'a mut (dyn Write + Send),
    session: Option<SessionId>,
}

impl Markdown<'_> {
    fn item(&mut self, item: &Item) -> io::Result<()> {
        match &item.body {
            ItemBody::UserMessage { text, .. } => self.part("You", text),
            ItemBody::AgentMessage { text } if text.trim().is_empty() => Ok(()),
            ItemBody::AgentMessage { text } => self.part("Model", text),
            ItemBody::Reasoning { text } if text.trim().is_empty() => Ok(()),
            ItemBody::Reasoning { text } => self.quoted("Thought", text),
            ItemBody::ToolCall(call) => {
                writeln!(self.out, "**Call to {}**\n", code(&call.name))?;
                self.fenced("json", &call.arguments)
            }
            ItemBody::ToolResult(result) => {
                let failed = result.error.map(|error| format!(" ({})", error.as_str())).unwrap_or_default();
                writeln!(self.out, "**Result of {}**{failed}\n", code(&result.name))?;
                self.fenced("", &result.text)
            }
            ItemBody::Compaction(compaction) => self.quoted("Summary of earlier history", &compaction.summary),
            ItemBody::Notice { topic, .. } if topic.is_for_model() => Ok(()),
            ItemBody::Notice { text, .. } => self.quoted("Notice", text),
        }
    }

    fn part(&mut self, who: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "### {who}\n\n{}\n", clean(text).trim_end())
    }

    fn quoted(&mut self, label: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "> **{label}**")?;
        for line in clean(text).trim_end().lines() {
            writeln!(self.out, "> {line}")?;
        }
        writeln!(self.out)
    }

    /// Writes a code block. The fence is longer than any fence in the text.
    fn fenced(&mut self, language: &str, text: &str) -> io::Result<()> {
        let text = clean(text);
        let fence = report::fence(&text);
        writeln!(self.out, "{fence}{language}\n{}\n{fence}\n", text.trim_end())
    }
}

impl EventWriter for Markdown<'_> {
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()> {
        self.session = Some(session.id);
        let title = clean_line(&session.title);
        let title = if title.trim().is_empty() { "Session" } else { &title };
        writeln!(self.out, "# {title}\n")?;
        writeln!(self.out, "- session {}", session.id)?;
        let created = session.created_at.strftime("%Y-%m-%d %H:%M UTC");
        writeln!(self.out, "- {created}, {}", report::count(session.turns, "turn"))?;
        let usage = &session.usage;
        let (tokens_in, tokens_out) = (number(usage.prompt_tokens), number(usage.completion_tokens));
        let cost = money(usage).map(|money| format!(", {money}")).unwrap_or_default();
        writeln!(self.out, "- {tokens_in} tokens in, {tokens_out} out{cost}\n")
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.session.is_some_and(|session| session != event.session_id) {
            self.session = Some(event.session_id);
            writeln!(self.out, "# Subagent {}\n", event.session_id)?;
        }
        match &event.kind {
            EventKind::TurnStarted { model, .. } => {
                let at = event.at.strftime("%Y-%m-%d %H:%M UTC");
                writeln!(self.out, "## {at} · {}\n", clean_line(model))
            }
            EventKind::ItemCompleted { item, .. } => self.item(item),
            EventKind::Warning { message, .. } => self.quoted("Warning", message),
            EventKind::StateChanged { change: StateChange::Reset } => {
                self.quoted("Reset", "Earlier history was cleared.")
            }
            EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } => {
                let texts = input.iter().chain(added).map(|text| clean_line(text)).collect::<Vec<_>>().join("; ");
                self.quoted("Withdrawn, not shown to models", &texts)
            }
            EventKind::TurnEnded { result } if result.error.is_some() => {
                let message = result.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
                self.quoted("The turn failed", message)
            }
            _ => Ok(()),
        }
    }
}

fn code(name: &str) -> String {
    format!("`{}`", clean_line(name).replace('`', "'"))
}

/// The arguments of `sessions import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions import work.tar.gz
  agentctl sessions import work.tar.gz --as-new
  ssh other agentctl sessions export last | agentctl sessions import -
  agentctl sessions import ~/.claude/projects/-home-me-app/5c1f….jsonl --from claude-code
  agentctl sessions import ~/.codex/sessions/2026/01/31/rollout-….jsonl --from codex
  opencode export ses_… | agentctl sessions import - --from opencode

The session keeps its id, and is rejected if that id already exists here. It has no grants, asks before it changes \
anything, and sees no folder: set one with `agentctl chat --session ID -C DIR`. An open turn is interrupted. Pinned \
rules are shown, and used after you agree, or with --pins.

Prints the ID of the session on standard output.")]
pub(crate) struct ImportArgs {
    /// Archive or history; `-` for standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Program that wrote the history [default: agentd, as an archive]
    #[arg(long, value_name = "PROGRAM", value_parser = one_of(&PROGRAMS))]
    from: Option<&'static str>,
    /// Assign a new id, to import a session that already exists here
    #[arg(long)]
    as_new: bool,
    /// Use the pinned rules of the archive without asking
    #[arg(long)]
    pins: bool,
}

/// Supported source programs, with their names in the protocol.
const PROGRAMS: [Choice<&str>; 3] = [
    ("claude-code", "a .jsonl file below ~/.claude/projects", "claude-code"),
    ("codex", "a rollout-….jsonl file below ~/.codex/sessions", "codex"),
    ("opencode", "the output of `opencode export`", "opencode"),
];

/// Runs the command `agentctl sessions import`.
pub(crate) async fn import(daemon: &Daemon, args: ImportArgs, json: bool) -> anyhow::Result<Exit> {
    let report = if args.file.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            anyhow::bail!(Failure::usage("no input on standard input").hint("name a FILE, or pipe one in"));
        }
        let _notice = SilenceNotice::watch("the history");
        daemon.client.import(tokio::io::stdin(), args.from, args.as_new, CLIENT).await?
    } else {
        let failed = Failure::of_file("read", &args.file);
        let file = tokio::fs::File::open(&args.file).await;
        let file = file.map_err(|error| failed(error).hint("name an existing file"))?;
        daemon.client.import(file, args.from, args.as_new, CLIENT).await?
    };
    report::show(json, &report, || print_import(&report))?;
    if !report.pins.is_empty() {
        confirm_pins(daemon, &report, args.pins).await?;
    }
    Ok(Exit::Done)
}

/// Shows the pinned rules of an archive and pins them if the user agrees. Without consent, a foreign archive could set
/// rules that models treat as the user's own.
async fn confirm_pins(daemon: &Daemon, report: &ImportReport, agreed: bool) -> anyhow::Result<()> {
    let rules = report::count(report.pins.len(), "pinned rule");
    note(&format!("the archive has {rules}, which models would treat as yours:"));
    for (number, pin) in report.pins.iter().enumerate() {
        note(&format!("  {}. {}", number + 1, visible::line(pin)));
    }
    let use_pins = agreed || is_attended() && ask::confirm("Use them in this session? [y/N] ")?;
    if use_pins {
        daemon.client.set_pins(&report.session_id.to_string(), report.pins.clone()).await?;
    }
    note(if use_pins {
        "the rules are used"
    } else {
        "the rules are not used; `agentctl sessions pin` pins a rule, --pins all of them"
    });
    Ok(())
}

fn print_import(report: &ImportReport) -> anyhow::Result<()> {
    report::lines([report.session_id])?;
    let title = Some(clean_line(&report.title)).filter(|title| !title.is_empty());
    let title = title.map_or_else(String::new, |title| format!(" ({title})"));
    let subagents = Some(report.subagents).filter(|count| *count > 0);
    let subagents = subagents.map_or_else(String::new, |count| format!(", {}", report::count(count, "subagent")));
    let (turns, files) = (report::count(report.turns, "turn"), report::count(report.files.files, "file"));
    let id = report::short_id(report.session_id);
    note(&format!("imported session {id}{title}: {turns}{subagents}, {files}"));
    if let Some(former) = report.former_id {
        note(&format!("its id was {former}"));
    }
    if report.interrupted {
        note("its open turn was interrupted");
    }
    if !report.left_out.is_empty() {
        let left_out: Vec<String> = report.left_out.iter().map(|item| clean_line(item)).collect();
        note(&format!("left out: {}", left_out.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_code_block() {
        assert_eq!(report::fence("a"), "```");
        assert_eq!(report::fence("x\n  ````rust\ny"), "`````");
        assert_eq!(code("a`b\x1b[2J"), "`a'b`");
    }
}
