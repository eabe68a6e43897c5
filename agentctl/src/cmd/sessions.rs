//! `agentctl sessions`: shows, renames, forks, resets and deletes sessions. Other subcommands are in neighbouring
//! modules.

use std::io::{self, IsTerminal as _};

use agentd_core::{Timestamp, files::EarlierFiles, item::ItemBody, model::SlotInfo, session::SessionSettings, visible};
use agentd_proto::client::{ForkReply, NumberedItem, SessionView};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{export, replay, session_list};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    ops, project,
    render::{context::notice_line, stream::TextStream, tool_line::tool_lines},
    report::{self, FactSheet},
    terminal::{TerminalStyle, ask, clean_line, money, note, note_lines, number},
    turn,
};

/// Columns for the result of a tool call.
const RESULT_COLUMNS: usize = 100;

/// Examples for the help of `sessions`.
pub(crate) const SESSIONS_HELP: &str = "Examples:
  agentctl sessions list
  agentctl sessions list --all              with subagents
  agentctl sessions list --since 7d tax    with this word, used in the last week
  agentctl sessions list --json | jq -r '.[].id'
  agentctl sessions show 1                  the last used one
  agentctl sessions show 'Tax papers'
  agentctl sessions search tax papers
  agentctl sessions search '\"the blue door\"' --session 0193a5b2
  agentctl sessions ask last 'Why did you choose SQLite?'
  agentctl sessions rename 0193a5b2 'The tax papers'
  agentctl sessions fork 0193a5b2           continue in a copy
  agentctl sessions fork 0193a5b2 --at-turn 3 --name 'Another way'
  agentctl sessions pin 0193a5b2            exempt it from cleaning
  agentctl sessions pin last 'Never touch migrations/'
  agentctl sessions unpin last 1            remove the first of its pinned rules
  agentctl sessions reset 0193a5b2         forget the history, keep files and settings
  agentctl sessions export last -o work.tar.gz
  agentctl sessions import work.tar.gz      on another machine
  agentctl sessions prune --older-than 30d
  agentctl sessions delete 0193a5b2 --yes

Sessions are named by id, the start or end of it, title, number in the list, or `last`.";

/// Help of `sessions ask`.
const ASK_HELP: &str = "The model answers without tools, from the conversation as of its last complete message, also while \
a turn runs or waits for an answer. Ctrl-C cancels the question. In a chat: /btw QUESTION.";

/// The subcommands of `sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, last used first
    List(session_list::ListArgs),
    /// Show one session: settings, todos, open questions and the last messages
    Show {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Number of items to show, newest last
        #[arg(long, value_name = "N", default_value_t = 20)]
        items: usize,
    },
    /// Search the history of all sessions or of one
    Search(session_list::SearchArgs),
    /// Ask a session's model a side question, which its history does not get
    #[command(after_help = ASK_HELP)]
    Ask {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Question to the session's model
        #[arg(value_name = "QUESTION", required = true, num_args = 1..)]
        question: Vec<String>,
    },
    /// Rename a session
    Rename {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// New name
        #[arg(value_name = "TITLE", required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Exempt a session from cleaning, or pin a rule that stays in the model's context
    Pin {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Rule to pin; without one the session is exempt from cleaning
        #[arg(value_name = "RULE")]
        rule: Vec<String>,
    },
    /// Undo `pin`
    Unpin {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Number of the rule to remove, as listed by `sessions show`
        #[arg(value_name = "N")]
        rule: Option<usize>,
    },
    /// Clear the history: models no longer see it; files and settings stay, temp/ and the todo list are emptied
    Reset {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
    },
    /// Record a session, to replay it without a model
    Record(replay::RecordArgs),
    /// Copy a session, to continue in another direction
    Fork(ForkArgs),
    /// Write a session to a file: an archive, Markdown or JSON
    Export(export::ExportArgs),
    /// Import a session from an archive or another program's history
    Import(export::ImportArgs),
    /// Delete sessions that were not used for a long time
    Prune(session_list::PruneArgs),
    /// Delete a session with its history and files, permanently
    Delete {
        /// Session: id, title, number in `sessions list`, or `last`
        session: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// Runs the command `agentctl sessions`.
pub(crate) async fn handle(daemon: Daemon, json: bool, command: SessionsCommand) -> anyhow::Result<Exit> {
    let find = async |name: &str| daemon.client.find_session(name).await.map(|id| id.to_string());
    match command {
        SessionsCommand::List(args) => session_list::list(&daemon, args, json).await,
        SessionsCommand::Export(args) => export::handle(&daemon, args).await,
        SessionsCommand::Import(args) => export::import(&daemon, args, json).await,
        SessionsCommand::Prune(args) => session_list::prune(&daemon, args, json).await,
        SessionsCommand::Show { session, items } => show(&daemon, &session, items, json).await,
        SessionsCommand::Record(args) => replay::record(&daemon, args, json).await,
        SessionsCommand::Search(args) => session_list::search(&daemon, args, json).await,
        SessionsCommand::Ask { session, question } => {
            ask_aside(&daemon, &find(&session).await?, &question.join(" "), json).await
        }
        SessionsCommand::Rename { session, title } => {
            let id = find(&session).await?;
            daemon.client.rename_session(&id, &title.join(" ")).await?;
            report_change(json, &id, "renamed")
        }
        SessionsCommand::Pin { session, rule } => {
            let id = find(&session).await?;
            if rule.is_empty() {
                daemon.client.pin_session(&id, true).await?;
                return report_change(json, &id, "pinned");
            }
            ops::add_pin(&daemon, &id, &rule.join(" ")).await?;
            report_change(json, &id, "pinned a rule in")
        }
        SessionsCommand::Unpin { session, rule } => {
            let id = find(&session).await?;
            let Some(number) = rule else {
                daemon.client.pin_session(&id, false).await?;
                return report_change(json, &id, "unpinned");
            };
            ops::remove_pin(&daemon, &id, number).await?;
            report_change(json, &id, "removed a pinned rule of")
        }
        SessionsCommand::Reset { session } => {
            let id = find(&session).await?;
            daemon.client.reset_session(&id).await?;
            report_change(json, &id, "reset")
        }
        SessionsCommand::Fork(args) => fork(&daemon, args, json).await,
        SessionsCommand::Delete { session, yes } => delete(&daemon, &session, yes, json).await,
    }
}

async fn show(daemon: &Daemon, session: &str, items: usize, json: bool) -> anyhow::Result<Exit> {
    let view = daemon.client.session(session).await?;
    let id = view.session.summary.id.to_string();
    let items = if items == 0 { Vec::new() } else { daemon.client.items(&id, 0, items).await? };
    // The session is shown even if the slots cannot be loaded.
    let slots = daemon.client.models().await.unwrap_or_default();
    report::show(json, &as_json(&view, &items)?, || print(&view, &items, &slots))
}

fn as_json(view: &SessionView, items: &[NumberedItem]) -> serde_json::Result<serde_json::Value> {
    let mut object = serde_json::to_value(&view.session.summary)?;
    object["settings"] = json!(view.session.settings);
    object["todos"] = json!(view.session.todos);
    object["interrupts"] = json!(view.pending);
    object["live_turn_id"] = json!(view.live_turn);
    object["items"] = items.iter().map(|item| json!({ "seq": item.seq, "item": item.item })).collect();
    Ok(object)
}

fn print(view: &SessionView, items: &[NumberedItem], slots: &[SlotInfo]) -> anyhow::Result<()> {
    let (summary, settings) = (&view.session.summary, &view.session.settings);
    let now = Timestamp::now();
    let mut facts = FactSheet::new(10, visible::line);
    facts.line("session", summary.id.to_string());
    facts.line("title", &summary.title);
    facts.line("status", report::word(summary.status));
    facts.line("created", report::ago(summary.created_at, now));
    facts.line("used", format!("{}, {}", report::ago(summary.updated_at, now), report::count(summary.turns, "turn")));
    let usage = &summary.usage;
    let cached =
        if usage.cached_tokens > 0 { format!(" ({} cached)", number(usage.cached_tokens)) } else { String::new() };
    let (tokens_in, tokens_out) = (number(usage.prompt_tokens), number(usage.completion_tokens));
    facts.line("tokens", format!("{tokens_in} in{cached}, {tokens_out} out"));
    facts.each("cost", money(usage));
    let mode = |writable: bool| if writable { "writable" } else { "read-only" };
    if let Some(project) = &settings.project {
        facts.line("project", format!("{} ({})", project.path.display(), mode(project.writable)));
    } else if let Some(former) = &settings.former_project {
        facts.line("project", format!("none here; it was {} on the original machine", former.display()));
    }
    facts.each("worktree", settings.worktree.as_ref().map(project::shown_worktree));
    for folder in &settings.folders {
        let mode = mode(folder.writable);
        facts.line("folder", format!("{} ({mode}), seen as {}", folder.path.display(), folder.at));
    }
    let until = "until another one is set (--agent main, or /agent main)";
    facts.each("agent", settings.agent.as_ref().map(|agent| format!("{agent}, {until}")));
    facts.line("model", model(settings, slots));
    let asks = |asks: bool| if asks { "ask first" } else { "allowed" };
    facts.line("mode", format!("{}: {}", settings.mode, settings.mode.description()));
    let (writing, commands) = (asks(settings.confirm_write), asks(settings.confirm_exec));
    facts.line("tools", format!("writing: {writing}, commands: {commands}"));
    if settings.trace == Some(true) {
        facts.line("trace", "requests to models are stored: `agentctl trace --requests`");
    }
    facts.each("pinned", settings.pinned.then_some("exempt from cleaning"));
    facts.each("rule", settings.pins.iter().zip(1..).map(|(rule, number)| format!("{number}. {rule}")));
    facts.each("granted", settings.grants.iter().map(|grant| &grant.rule));
    let todos = view.session.todos.iter();
    facts.each("todo", todos.map(|todo| format!("[{}] {}", report::word(todo.status), todo.content)));
    let waits = view.pending.iter();
    facts.each("waits", waits.map(|interrupt| format!("for an answer: agentctl answer {} …", interrupt.id)));
    for item in items {
        if let ItemBody::ToolResult(result) = &item.item.body
            && result.exit_code.is_some()
            && result.ran_with.is_none()
        {
            // Formatted as in the live output, but without the call, which is on the line above.
            facts.below("result", tool_lines(None, result, RESULT_COLUMNS, false));
            continue;
        }
        let (author, text) = author_and_text(&item.item.body);
        // An empty message from a model was discarded and the request was repeated.
        if !(text.is_empty() && matches!(author, "model" | "thought")) {
            facts.line(author, report::cut(&text, 200));
        }
    }
    facts.print()
}

/// Returns the default model of the session's turns.
fn model(settings: &SessionSettings, slots: &[SlotInfo]) -> String {
    let slot = settings.slot.unwrap_or_default();
    let own = slots.iter().find(|info| info.slot == slot).map_or("", |info| info.model.id.as_str());
    let source = if settings.slot.is_some() { format!("slot {slot}") } else { "as configured".to_owned() };
    format!("{} ({source})", settings.model.as_deref().unwrap_or(own))
}

/// Returns the author and text of an item.
fn author_and_text(body: &ItemBody) -> (&'static str, String) {
    match body {
        ItemBody::UserMessage { text, .. } => ("you", text.clone()),
        ItemBody::AgentMessage { text } => ("model", text.clone()),
        ItemBody::Reasoning { text } => ("thought", text.clone()),
        ItemBody::ToolCall(call) => ("call", format!("{} {}", call.name, call.arguments)),
        ItemBody::ToolResult(result) => match &result.ran_with {
            Some(ran_with) => ("result", format!("of {} {ran_with} (edited): {}", result.name, result.text)),
            None => ("result", result.text.clone()),
        },
        ItemBody::Compaction(compaction) => ("summary", compaction.summary.clone()),
        ItemBody::Notice { text, topic, sources, .. } => ("notice", notice_line(text, *topic, sources)),
    }
}

/// Asks a side question. On a terminal, the answer is shown as it arrives.
async fn ask_aside(daemon: &Daemon, id: &str, question: &str, json: bool) -> anyhow::Result<Exit> {
    let look = TerminalStyle::detect();
    let (mut out, mut written) = (TextStream::new(io::stdout(), look), Ok(()));
    let streams = look.out_shown && !json;
    let show = |more: Option<&str>| match more {
        Some(more) if streams => written = out.push(more),
        None if streams => written = out.line("(the answer starts over)"),
        _ => {}
    };
    let answer = daemon.client.ask_aside(id, question, daemon::CLIENT, show).await?;
    written?;
    report::show(json, &answer, || {
        if streams { out.finish() } else { out.whole(answer.text.trim_end()) }?;
        if answer.truncated {
            note(turn::ASIDE_CUT);
        }
        Ok(())
    })
}

async fn delete(daemon: &Daemon, session: &str, yes: bool, json: bool) -> anyhow::Result<Exit> {
    let summary = daemon.client.session(session).await?.session.summary;
    let id = summary.id.to_string();
    if yes && is_position(session, &id) {
        let short = report::short_id(&id);
        let hint = format!("agentctl sessions delete {short} --yes removes {}", visible::line(&summary.title));
        anyhow::bail!(Failure::usage("--yes requires an id or a title: the list may have changed since").hint(hint));
    }
    if !yes && !confirmed(&id, &summary.title)? {
        note("nothing was deleted");
        return Ok(Exit::Cancelled);
    }
    daemon.client.delete_session(&id).await?;
    report_change(json, &id, "deleted")
}

/// Returns true for a list position and for `last`.
fn is_position(name: &str, id: &str) -> bool {
    let name = name.trim();
    let is_number = name.len() < 5 && name.bytes().all(|b| b.is_ascii_digit()) && !id.starts_with(name);
    is_number || name.eq_ignore_ascii_case("last")
}

fn confirmed(id: &str, title: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let hint = "add --yes to confirm";
        anyhow::bail!(Failure::usage("cannot ask whether to delete the session: no terminal").hint(hint));
    }
    let (id, title) = (report::short_id(id), visible::line(title));
    Ok(ask::confirm(&format!("delete session {id} ({title}) with its history and files, permanently? [y/N] "))?)
}

fn report_change(json: bool, id: &str, change: &str) -> anyhow::Result<Exit> {
    report::note(
        json,
        &json!({ "session_id": id, "done": change }),
        &format!("session {}: {change}", report::short_id(id)),
    )
}

/// The arguments of `sessions fork`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions fork 0193a5b2
  agentctl sessions fork 0193a5b2 --at-turn 3 --name 'Another way'
  agentctl sessions fork 0193a5b2 --at-turn 3 --files
  agentctl run 'Try it without the library.' --session \"$(agentctl sessions fork 0193a5b2)\"

The fork gets the history, settings, todo list and /state as they were after that turn, and uploads/ and outputs/ as they \
are now, without links; temp/ is empty. Both sessions share the project folder. Grants of the session and open questions \
are not copied, and changes to files can only be undone in the session that made them.

--files restores uploads/ and outputs/ of the fork to that turn, unless something else has changed them since. The \
project is shared and stays as it is: earlier contents of its files that were changed since are written to \
outputs/at-turn-N/.

Prints the ID of the new session on standard output.")]
pub(crate) struct ForkArgs {
    /// Session: id, title, number in `sessions list`, or `last`
    session: String,
    /// Last turn to copy, counted from 1 [default: all completed turns]
    #[arg(long, value_name = "N")]
    at_turn: Option<u64>,
    /// Name of the new session [default: the name of the old one, followed by `(fork)`]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Restore the files of the fork to that turn
    #[arg(long)]
    files: bool,
}

/// Runs the command `agentctl sessions fork`.
async fn fork(daemon: &Daemon, args: ForkArgs, json: bool) -> anyhow::Result<Exit> {
    let from = daemon.client.find_session(&args.session).await?.to_string();
    let ForkReply { session, turn, files, earlier } =
        daemon.client.fork_session(&from, args.at_turn, args.name.as_deref(), args.files).await?;
    let summary = session.session.summary;
    let mut output = json!({
        "session_id": summary.id, "title": summary.title, "forked_from": from, "turn": turn, "files": files,
    });
    if let Some(earlier) = &earlier {
        output["earlier_files"] = serde_json::to_value(earlier)?;
    }
    report::show(json, &output, || {
        report::lines([summary.id])?;
        let copied = report::count(files.files, "file");
        note(&format!("forked from session {from} after turn {turn}, with {copied}"));
        if files.left_out > 0 {
            note(&format!("not copied: {} (links, special files, or too large)", files.left_out));
        }
        earlier.iter().for_each(report_earlier);
        Ok(())
    })
}

fn report_earlier(earlier: &EarlierFiles) {
    let EarlierFiles { restored, shared, folder, left } = earlier;
    note(&format!("restored to that turn: {}", report::count(*restored, "file")));
    if *shared > 0 {
        let files = report::count(*shared, "file");
        note(&format!("the project is unchanged; {files} of it as of that turn: {}/", clean_line(folder)));
    }
    note_lines(left.iter().map(|file| format!("not restored: {file}")));
}
