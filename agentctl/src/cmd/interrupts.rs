//! `agentctl interrupts` and `agentctl answer`: lists pending questions and answers them. `agentctl grants`: manages
//! the rules for calls that run without asking.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    grant::{GrantScope, ScopedGrant},
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    input::SilenceNotice,
    render::{
        asking,
        diff::{self, Room},
    },
    report::{self, FactSheet, Table, short_id},
    terminal::{TerminalStyle, ask, note},
};

/// The arguments of `interrupts`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl interrupts                    all of them, oldest first
  agentctl interrupts --session 0193a5   of one session
  agentctl interrupts 0193a5b2           one in full: who asks, why, and what each answer does
  agentctl interrupts --json             as an array of objects

An interrupt is a turn's request for an approval or an answer. Answer with `agentctl answer ID …`.")]
pub(crate) struct InterruptsArgs {
    /// Show this one in full: its id, the start or end of it, or its number in the list
    #[arg(conflicts_with = "session")]
    id: Option<String>,
    /// Only interrupts of this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Runs the command `agentctl interrupts`.
pub(crate) async fn handle(daemon: Daemon, json: bool, args: InterruptsArgs) -> anyhow::Result<Exit> {
    let mut pending = daemon.client.interrupts(args.session.as_deref()).await?;
    if let Some(id) = &args.id {
        pending = vec![waiting(id, &pending)?.clone()];
    }
    report::show(json, &pending, || match pending.as_slice() {
        [one] if args.id.is_some() => Ok(anstream::stdout().write_all(details_text(one, Timestamp::now()).as_bytes())?),
        all => table(all),
    })
}

fn table(pending: &[Interrupt]) -> anyhow::Result<()> {
    let ids = report::short_ids(pending.iter().map(|interrupt| interrupt.id));
    let now = Timestamp::now();
    let rows = pending.iter().zip(ids).enumerate().map(|(at, (interrupt, id))| {
        let (risk, subject) = match &interrupt.ask {
            Ask::Approval { tool, args, risk, .. } => {
                let subject = interrupt.ask.plan().map_or_else(|| args.to_string(), str::to_owned);
                (risk.as_str().to_owned(), format!("{tool} {subject}"))
            }
            Ask::Question { question, .. } => ("-".to_owned(), question.clone()),
        };
        let mut session = report::short_id(interrupt.session_id);
        if let Some(title) = &interrupt.asked_by.session_title {
            session.push_str(&format!(" {}", report::cut(title, 24)));
        }
        [(at + 1).to_string(), id, session, report::ago(interrupt.raised_at, now), risk, subject]
    });
    Table::of(["#", "ID", "SESSION", "ASKED", "RISK", "WHAT"], rows).print("nothing waits for an answer")
}

/// Describes one interrupt in full, with everything needed to decide.
fn details_text(interrupt: &Interrupt, now: Timestamp) -> String {
    let short = report::short_id(interrupt.id);
    let mut facts = FactSheet::new(10, str::to_owned);
    facts.line("interrupt", interrupt.id.to_string());
    facts.line("session", interrupt.session_id.to_string());
    facts.line("asked by", asking::who(&interrupt.asked_by));
    facts.line("asked", report::ago(interrupt.raised_at, now));
    match &interrupt.ask {
        Ask::Question { question, context, default, choices, .. } => {
            facts.line("question", visible::line(question));
            facts.each("", context.iter().flat_map(|context| context.split('\n')).map(visible::line));
            facts.below("choices", asking::choices(choices));
            facts.each("default", default.as_deref().map(visible::line));
            let chosen = if choices.is_empty() { "" } else { ", or the number of a choice" };
            facts.line("answers", format!("TEXT    answer for the model{chosen}"));
            facts.line("", "reject  gives the model no answer");
            facts.line("answer", format!("agentctl answer {short} TEXT|reject"));
        }
        Ask::Approval { tool, risk, reason, preview, .. } if interrupt.ask.writable_project().is_some() => {
            facts.line("tool", visible::line(tool));
            facts.line("risk", asking::risk(*risk));
            facts.line("why", visible::line(reason));
            facts.each("would do", preview.iter().flat_map(|preview| preview.lines()).map(visible::line));
            facts.line("answers", "approve            makes the folder writable for this and later turns");
            facts.line("", "reject             refuses edits in this turn; --reason TEXT gives the model the reason");
            facts.line("answer", format!("agentctl answer {short} approve|reject"));
        }
        Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, .. } => {
            facts.line("tool", visible::line(tool));
            facts.line("risk", asking::risk(*risk));
            facts.line("why", asking::why(reason, *layer, rule.as_deref()));
            let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
            let room = Room::of_columns(TerminalStyle::detect().columns());
            facts.below("would do", diff::preview(&shown, room, false));
            facts.line("answers", "approve            runs it, once");
            facts.line("", "reject             does not run it; --reason TEXT gives the model the reason");
            facts.line("", "edit               runs it with --args JSON, unless the rules deny that");
            if grants.is_empty() {
                facts.line("", "always             is not available: this call cannot be matched exactly");
            } else {
                facts.line("", "always             runs it and keeps these rules for the session");
                facts.line("", "always --for-good  runs it and keeps them for every session");
                if !wider.is_empty() {
                    facts.line("", "always --rule RULE runs it and keeps one of the wider rules instead");
                }
                for (name, rules) in [("keeps", grants), ("for good", for_good), ("wider", wider)] {
                    facts.each(name, rules.iter().map(|rule| asking::rule(rule)));
                }
            }
            facts.line("answer", format!("agentctl answer {short} approve|reject|edit|always"));
        }
    }
    facts.each("deadline", asking::unanswered(interrupt, now));
    facts.lines.join("\n") + "\n"
}

/// The arguments of `answer`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl interrupts                                       open questions and their IDs
  agentctl answer 0193a5b2 approve                          run it
  agentctl answer 0193a5b2 reject --reason 'not in src/'    the model gets the reason
  agentctl answer 0193a5b2 always                           and do not ask again in this session
  agentctl answer 0193a5b2 always --for-good                nor in any other session
  agentctl answer 0193a5b2 always --rule mcp_lab_weather    nor for anything this wider rule covers
  agentctl answer 0193a5b2 edit --args '{\"path\":\"a.txt\"}'   run it with other arguments
  agentctl answer 0193a5b2 edit --args '…' --preview        only show what they would do
  agentctl answer 0193a5b2 'The second one, please'         answer to a question
  agentctl answer 0193a5b2 2                                the number of one of its choices

`agentctl interrupts ID` shows what `always` would allow; `agentctl grants revoke` removes it. An edited call is shown \
before it runs, and refused if the rules deny it. The turn continues at once, even after a restart of the daemon.")]
pub(crate) struct AnswerArgs {
    /// Interrupt: its id, the start or end of it, or its number in `agentctl interrupts`
    id: String,
    /// approve, reject, always or edit; for a question, the text of the answer; leave it out for a password
    #[arg(value_name = "approve|reject|always|edit|TEXT", num_args = 0..)]
    words: Vec<String>,
    /// Reason for a rejection, shown to the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Make `always` permanent: for every session, until it is revoked
    #[arg(long)]
    for_good: bool,
    /// Rule to add with `always`, one of the wider ones shown by `agentctl interrupts ID`
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// New arguments for `edit`, a JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// Only show what `edit` would do, without answering
    #[arg(long, requires = "args")]
    preview: bool,
}

/// Runs the command `agentctl answer`.
pub(crate) async fn handle_answer(daemon: Daemon, _: bool, args: AnswerArgs) -> anyhow::Result<Exit> {
    let pending = daemon.client.interrupts(None).await?;
    let (id, interrupt) = resolve(&args.id, &pending)?;
    let ask = interrupt.map(|interrupt| &interrupt.ask);
    let answer = match ask {
        Some(ask) if ask.is_secret() => secret(&args, ask)?,
        ask => parse(&args, ask)?,
    };
    check_position(&args, &answer, interrupt)?;
    if let Some(misfit) = interrupt.and_then(|interrupt| answer.misfit(&interrupt.ask)) {
        let hint = "see what is asked with `agentctl interrupts`";
        anyhow::bail!(Failure::usage(format!("invalid answer: {misfit}")).hint(hint));
    }
    if let Answer::Edit { args: edited } = &answer {
        if let Ask::Approval { tool, args, risk, preview, .. } = daemon.client.foresee(id, edited).await? {
            let mut err = anstream::stderr().lock();
            let (tool, risk) = (visible::line(&tool), asking::risk(risk));
            writeln!(err, "with these arguments {tool} would do this ({risk}):")?;
            let preview = preview.unwrap_or_else(|| format!("{args:#}"));
            let look = TerminalStyle::detect();
            for line in diff::preview(&preview, Room::of_columns(look.columns()), look.err_color) {
                writeln!(err, "  {line}")?;
            }
        }
        if args.preview {
            return Ok(Exit::Done);
        }
    }
    daemon.client.answer(id, &answer, daemon::CLIENT).await?;
    if let Some(interrupt) = interrupt {
        if let Some((rules, scope)) = answer.kept(&interrupt.ask) {
            note(&asking::kept(scope, rules));
        }
        let session = short_id(interrupt.session_id);
        note(&format!("answered; the turn continues (follow it with `agentctl attach {session}`)"));
    }
    Ok(Exit::Done)
}

/// Finds the named interrupt. A full id is accepted even if the interrupt is not pending, because only the daemon knows
/// if it was already answered.
///
/// # Errors
/// Fails if the name matches no interrupt, or several.
pub(crate) fn resolve<'a>(
    text: &str,
    pending: &'a [Interrupt],
) -> Result<(InterruptId, Option<&'a Interrupt>), Failure> {
    if let Ok(id) = text.parse::<InterruptId>() {
        return Ok((id, pending.iter().find(|interrupt| interrupt.id == id)));
    }
    if let Some(one) = list_position(text).and_then(|position| pending.get(position - 1)) {
        return Ok((one.id, Some(one)));
    }
    let normalized = normalize_id(text);
    let of_ids = |is_meant: fn(&str, &str) -> bool| -> Vec<&Interrupt> {
        pending.iter().filter(|interrupt| is_meant(&normalize_id(&interrupt.id.to_string()), &normalized)).collect()
    };
    let mut matches = of_ids(|id, start| id.starts_with(start));
    if matches.is_empty() && normalized.len() >= MIN_SUFFIX {
        matches = of_ids(|id, end| id.ends_with(end));
    }
    match matches.as_slice() {
        [one] if !normalized.is_empty() => Ok((one.id, Some(one))),
        [_, _, ..] => Err(Failure::usage(format!("{text:?} matches several pending interrupts"))
            .hint(report::choice_hint(matches.iter().map(subject), MAX_LISTED))),
        _ => Err(nothing_waits(format!("no pending interrupt matches {text:?}"))),
    }
}

/// Minimum characters of an id's suffix.
const MIN_SUFFIX: usize = 6;
/// Maximum digits of a list position. Suffixes of ids are longer.
const POSITION_DIGITS: usize = 4;
/// Maximum number of interrupts listed for an ambiguous name.
const MAX_LISTED: usize = 4;

/// Parses a list position, counted from 1. Ids start with a zero, so an id is never parsed as a position.
fn list_position(name: &str) -> Option<usize> {
    let is_position =
        name.len() <= POSITION_DIGITS && !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| is_position)
}

/// Returns the subject, age and id of an interrupt.
fn subject(interrupt: &&Interrupt) -> (String, Timestamp, InterruptId) {
    let title = match &interrupt.ask {
        Ask::Approval { tool, .. } => visible::line(tool),
        Ask::Question { question, .. } => report::cut(&visible::line(question), 40),
    };
    (title, interrupt.raised_at, interrupt.id)
}

/// Refuses to answer an approval by its list position, because the list may have changed since it was printed.
fn check_position(args: &AnswerArgs, answer: &Answer, interrupt: Option<&Interrupt>) -> Result<(), Failure> {
    let approves =
        matches!(answer, Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } | Answer::Edit { .. });
    let (Some(interrupt), Some(_), true) = (interrupt, list_position(&args.id), approves) else { return Ok(()) };
    let (id, words) = (short_id(interrupt.id), args.words.join(" "));
    Err(Failure::usage("an approval requires an id: the list may have changed since")
        .hint(format!("see it with `agentctl interrupts {id}`, then: agentctl answer {id} {words}")))
}

/// Finds the named interrupt among the pending ones.
///
/// # Errors
/// Fails if the name matches no interrupt, or several.
pub(crate) fn waiting<'a>(text: &str, pending: &'a [Interrupt]) -> Result<&'a Interrupt, Failure> {
    resolve(text, pending)?.1.ok_or_else(|| nothing_waits(format!("no pending interrupt {text}")))
}

fn nothing_waits(message: String) -> Failure {
    Failure::new(ErrorKind::NotFound, message).hint("`agentctl interrupts` lists pending ones")
}

/// Normalizes an id: lower case, without hyphens.
pub(crate) fn normalize_id(id: &str) -> String {
    id.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

/// Parses the answer. Keywords apply to approvals. For a question, only `reject` is a keyword, because any other text
/// may be the answer itself.
fn parse(args: &AnswerArgs, ask: Option<&Ask>) -> Result<Answer, Failure> {
    if args.words.is_empty() {
        let hint = "write approve, reject, always, edit or the text after the id";
        return Err(Failure::usage("missing answer").hint(hint));
    }
    let words = args.words.join(" ");
    let is_question = matches!(ask, Some(Ask::Question { .. }));
    let answer = match words.as_str() {
        "approve" if !is_question => Answer::Approve,
        "always" if !is_question => {
            let scope = if args.for_good { GrantScope::ForGood } else { GrantScope::Session };
            match &args.rule {
                Some(rule) => Answer::Keep { rule: rule.trim().to_owned(), scope },
                None => Answer::Always { scope },
            }
        }
        "reject" => Answer::Reject { reason: args.reason.clone() },
        "edit" if !is_question => Answer::Edit { args: edited(args.args.as_deref())? },
        _ => Answer::Text { text: ask.map_or(words.as_str(), |ask| ask.chosen(&words)).to_owned() },
    };
    let is_kept = matches!(answer, Answer::Always { .. } | Answer::Keep { .. });
    let flags = [
        (args.reason.is_some(), matches!(answer, Answer::Reject { .. }), "--reason", "reject", " …"),
        (args.rule.is_some(), matches!(answer, Answer::Keep { .. }), "--rule", "always", " …"),
        (args.for_good, is_kept, "--for-good", "always", ""),
        (args.args.is_some(), matches!(answer, Answer::Edit { .. }), "--args", "edit", " …"),
    ];
    match flags.into_iter().find(|(is_given, fits, ..)| *is_given && !fits) {
        Some((_, _, flag, word, value)) => Err(Failure::usage(format!("{flag} requires {word}"))
            .hint(format!("leave it out, or write `agentctl answer ID {word} {flag}{value}`"))),
        None => Ok(answer),
    }
}

/// Reads a secret from the terminal without echo, or from a pipe. A secret is not accepted as an argument, because
/// arguments remain in the shell's history.
fn secret(args: &AnswerArgs, asked: &Ask) -> Result<Answer, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("could not read the password: {error}"));
    match args.words.as_slice() {
        [word] if word == "reject" => return Ok(Answer::Reject { reason: args.reason.clone() }),
        [] => {}
        _ => {
            return Err(Failure::usage("a password must not be an argument, where others could read it")
                .hint("leave the password out: it is prompted for, or read from a pipe; `reject` refuses"));
        }
    }
    let text = if std::io::stdin().is_terminal() {
        let Ask::Question { question, .. } = asked else {
            return Err(Failure::usage("the interrupt is not a question"));
        };
        ask::hidden(&format!("{} (not shown): ", visible::line(question))).map_err(failed)?
    } else {
        let mut line = String::new();
        let _notice = SilenceNotice::watch("the password");
        std::io::stdin().lock().take(MAX_SECRET_BYTES).read_line(&mut line).map_err(failed)?;
        Some(line.trim_end_matches(['\r', '\n']).to_owned())
    };
    let text = text.ok_or_else(|| Failure::usage("no input; the question is still open"))?;
    Ok(Answer::Text { text })
}

/// Maximum bytes of a secret.
const MAX_SECRET_BYTES: u64 = 4096;

fn edited(args: Option<&str>) -> Result<Value, Failure> {
    const FORM: &str = "pass all arguments as one JSON object: --args '{\"path\": \"notes.txt\"}'";
    let args = args.ok_or_else(|| Failure::usage("edit requires the new arguments").hint(FORM))?;
    match serde_json::from_str(args) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::usage("the new arguments are not a JSON object").hint(FORM)),
        Err(error) => Err(Failure::usage(format!("the new arguments are not JSON: {error}")).hint(FORM)),
    }
}

/// Examples for the help of `grants`.
pub(crate) const GRANTS_HELP: &str = "Examples:
  agentctl grants list                                        all grants
  agentctl grants list --session 0193a5                       of one session
  agentctl grants add 'run_bash_command: cargo test'          in every session
  agentctl grants add 'run_bash_command: cargo test *'        any arguments
  agentctl grants add write_file --session 0193a5             in one session
  agentctl grants revoke 2                                    the second one
  agentctl grants revoke 'run_bash_command: cargo test'       by its text

A grant is a rule for calls that run without asking. Answering an approval with `always` adds one, too; the question shows \
it. Changes apply at once, also to running turns. No grant overrides a denial, and none covers critical risk.";

/// The subcommands of `grants`.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List grants: permanent ones, and those of sessions
    List(GrantSession),
    /// Add a grant, permanently or for one session
    Add {
        /// Rule, as shown in a question; a trailing ` *` matches all commands that start like this
        #[arg(value_name = "RULE", required = true, num_args = 1..)]
        rule: Vec<String>,
        #[command(flatten)]
        scope: GrantSession,
    },
    /// Revoke a grant
    Revoke {
        /// Rule, or its number in `grants list` with the same --session
        #[arg(value_name = "RULE|N", required = true, num_args = 1..)]
        rule: Vec<String>,
        #[command(flatten)]
        scope: GrantSession,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GrantSession {
    /// In this session: id, title, number in `sessions list`, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Runs the command `agentctl grants`.
pub(crate) async fn handle_grants(daemon: Daemon, json: bool, command: GrantsCommand) -> anyhow::Result<Exit> {
    match command {
        GrantsCommand::List(scope) => list_grants(&daemon, scope.session.as_deref(), json).await,
        GrantsCommand::Add { rule, scope } => {
            let (rule, session) = (rule.join(" ").trim().to_owned(), scope.session(&daemon).await?);
            daemon.client.add_grant(&rule, session.as_deref(), daemon::CLIENT).await?;
            report_grant(json, "kept", &rule, session.as_deref())
        }
        GrantsCommand::Revoke { rule, scope } => {
            let session = scope.session(&daemon).await?;
            let (rule, session) = resolve_rule(&daemon, &rule.join(" "), session).await?;
            daemon.client.revoke_grant(&rule, session.as_deref(), daemon::CLIENT).await?;
            report_grant(json, "revoked", &rule, session.as_deref())
        }
    }
}

impl GrantSession {
    /// Returns the full id of the session, if one is named.
    async fn session(&self, daemon: &Daemon) -> anyhow::Result<Option<String>> {
        let Some(name) = &self.session else { return Ok(None) };
        Ok(Some(daemon.client.find_session(name).await?.to_string()))
    }
}

/// Resolves a rule given as text or number, and returns it with its session.
async fn resolve_rule(
    daemon: &Daemon,
    rule: &str,
    session: Option<String>,
) -> anyhow::Result<(String, Option<String>)> {
    let Ok(number) = rule.trim().parse::<usize>() else { return Ok((rule.to_owned(), session)) };
    let grants = daemon.client.grants(session.as_deref()).await?;
    match number.checked_sub(1).and_then(|at| grants.get(at)) {
        Some(ScopedGrant { session_id, grant }) => Ok((grant.rule.clone(), session_id.map(|id| id.to_string()))),
        None => Err(Failure::usage(format!("no rule {number}; {} in total", report::count(grants.len(), "rule")))
            .hint("`agentctl grants list` shows them with their numbers")
            .into()),
    }
}

async fn list_grants(daemon: &Daemon, session: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let grants = daemon.client.grants(session).await?;
    let now = Timestamp::now();
    let rows = grants.iter().enumerate().map(|(at, ScopedGrant { session_id, grant })| {
        let scope = match session_id {
            Some(id) => format!("session {}", report::short_id(id)),
            None => "permanent".to_owned(),
        };
        let added = grant.at.map_or_else(|| "-".to_owned(), |at| report::ago(at, now));
        let by = grant.by.clone().unwrap_or_else(|| "-".to_owned());
        [(at + 1).to_string(), scope, added, by, grant.rule.clone()]
    });
    let table = Table::with_long_end(["N", "SCOPE", "ADDED", "BY", "RULE"], rows);
    let shown = grants.iter().enumerate().map(|(at, held)| {
        json!({
            "n": at + 1,
            "rule": held.grant.rule,
            "scope": held.scope(),
            "session_id": held.session_id,
            "at": held.grant.at,
            "by": held.grant.by,
        })
    });
    report::show(json, &shown.collect::<Vec<_>>(), || {
        table.print("no grants; the answer `always` adds some, and so does `agentctl grants add`")
    })
}

fn report_grant(json: bool, status: &str, rule: &str, session: Option<&str>) -> anyhow::Result<Exit> {
    let scope = session.map_or_else(|| "permanent".to_owned(), |id| format!("for session {}", report::short_id(id)));
    let verb = if status == "kept" { format!("added ({scope})") } else { format!("removed (was {scope})") };
    let output = json!({ "status": status, "rule": rule, "session_id": session });
    report::note(json, &output, &visible::line(&format!("{verb}: {rule}")))
}

#[cfg(test)]
mod tests {
    use agentd_core::{interrupt::AskedBy, policy::Layer};

    use super::*;
    use crate::samples;

    const ID: &str = "0193a5b2-7c1d-7000-8000-000000000001";

    #[test]
    fn interrupt_is_shown_with_all_details() {
        let interrupt = |ask| Interrupt {
            id: ID.parse().unwrap(),
            session_id: "0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap(),
            asked_by: AskedBy { session_title: Some("Tidy up".to_owned()), ..AskedBy::default() },
            ..samples::interrupt(ask)
        };
        let mut approval = samples::approval("write_file", json!({"path": "a.txt"}), None, &["write_file"]);
        if let Ask::Approval { layer, rule, .. } = &mut approval {
            (*layer, *rule) = (Some(Layer::Default), Some("the session's confirm_write is on".to_owned()));
        }
        let list = [
            interrupt(approval),
            Interrupt {
                deadline: Some(Timestamp::UNIX_EPOCH),
                on_deadline: Some(Answer::Reject { reason: None }),
                ..interrupt(samples::question("Which one?", &["This", "That \u{1b}[2J"]))
            },
        ];
        let shown = list.map(|interrupt| details_text(&interrupt, Timestamp::UNIX_EPOCH)).join("\n");
        insta::assert_snapshot!(shown, @r#"
        interrupt 0193a5b2-7c1d-7000-8000-000000000001
        session   0193a5b2-7c1d-7000-8000-000000000002
        asked by  the main agent in "Tidy up"
        asked     just now
        tool      write_file
        risk      high risk
        why       it runs a command (the defaults: the session's confirm_write is on)
        would do  {
                    "path": "a.txt"
                  }
        answers   approve            runs it, once
                  reject             does not run it; --reason TEXT gives the model the reason
                  edit               runs it with --args JSON, unless the rules deny that
                  always             runs it and keeps these rules for the session
                  always --for-good  runs it and keeps them for every session
        keeps     write_file, which covers every call of it
        answer    agentctl answer 00000001 approve|reject|edit|always

        interrupt 0193a5b2-7c1d-7000-8000-000000000001
        session   0193a5b2-7c1d-7000-8000-000000000002
        asked by  the main agent in "Tidy up"
        asked     just now
        question  Which one?
        choices   1  This
                  2  That \u{1b}[2J
        answers   TEXT    answer for the model, or the number of a choice
                  reject  gives the model no answer
        answer    agentctl answer 00000001 TEXT|reject
        deadline  unless answered within 0 s, it is rejected
        "#);
    }

    fn approval() -> Ask {
        samples::approval("write_file", json!({}), None, &["write_file"])
    }

    fn question() -> Ask {
        samples::question("Which?", &[])
    }

    fn interrupt(id: &str) -> Interrupt {
        Interrupt { id: id.parse().unwrap(), ..samples::interrupt(approval()) }
    }

    fn args(words: &str) -> AnswerArgs {
        AnswerArgs {
            id: String::new(),
            words: words.split(' ').map(str::to_owned).collect(),
            reason: None,
            for_good: false,
            rule: None,
            args: None,
            preview: false,
        }
    }

    #[test]
    fn answer_arguments_become_answers() {
        let text = |text: &str| Some(Answer::Text { text: text.to_owned() });
        let for_good = |words: &str| AnswerArgs { for_good: true, ..args(words) };
        let wider = |words: &str| AnswerArgs { rule: Some("mcp_lab_*".to_owned()), ..args(words) };
        let because = |words: &str| AnswerArgs { reason: Some("no".to_owned()), ..args(words) };
        let edited = |words: &str| AnswerArgs { args: Some(r#"{"a":1}"#.to_owned()), ..args(words) };
        let (scope, rule) = (GrantScope::Session, "mcp_lab_*".to_owned());
        for (args, ask, expected) in [
            (args("approve"), approval(), Some(Answer::Approve)),
            (args("always"), approval(), Some(Answer::Always { scope })),
            (for_good("always"), approval(), Some(Answer::Always { scope: GrantScope::ForGood })),
            (wider("always"), approval(), Some(Answer::Keep { rule, scope })),
            (args("reject"), approval(), Some(Answer::Reject { reason: None })),
            (because("reject"), approval(), Some(Answer::Reject { reason: Some("no".to_owned()) })),
            (edited("edit"), approval(), Some(Answer::Edit { args: json!({"a": 1}) })),
            (args("approve"), question(), text("approve")),
            (args("the second one"), question(), text("the second one")),
            (args("reject"), question(), Some(Answer::Reject { reason: None })),
            (wider("approve"), approval(), None),
            (for_good("approve"), approval(), None),
            (because("approve"), approval(), None),
            (edited("approve"), approval(), None),
            (args("edit"), approval(), None),
        ] {
            match (parse(&args, Some(&ask)), expected) {
                (Ok(answer), Some(expected)) => assert_eq!(answer, expected, "{args:?}"),
                (Err(failure), None) => assert!(failure.exit == Exit::Usage && failure.hint.is_some(), "{args:?}"),
                (parsed, _) => panic!("{args:?}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn interrupt_is_found_by_id_prefix_suffix_or_position() {
        let a = interrupt(ID);
        let b = interrupt("0193a5b2-7c1e-7000-8000-000000000002");
        let pending = [a.clone(), b.clone()];
        assert_eq!(resolve("0193a5b2-7c1d", &pending).unwrap().0, a.id);
        assert_eq!(resolve("0193A5B27C1E", &pending).unwrap().0, b.id);
        assert_eq!(resolve("000002", &pending).unwrap().0, b.id);
        assert_eq!(resolve("8000-000000000001", &pending).unwrap().0, a.id);
        assert_eq!(
            resolve("00002", &pending).unwrap_err().exit,
            Exit::Usage,
            "a suffix below the minimum length does not match"
        );
        assert_eq!(resolve("2", &pending).unwrap().0, b.id);
        assert_eq!(resolve("3", &pending).unwrap_err().exit, Exit::Usage);
        let hint = resolve("0193a5b2", &pending).unwrap_err().hint.unwrap();
        assert!(hint.contains(" · 00000001; ") && hint.contains(" · 00000002"), "{hint}");
        for (words, is_accepted) in [("approve", false), ("always", false), ("reject", true), ("blue", true)] {
            let named = |id: &str| AnswerArgs { id: id.to_owned(), ..args(words) };
            let answer = parse(&named("2"), None).unwrap();
            assert_eq!(check_position(&named("2"), &answer, Some(&b)).is_ok(), is_accepted, "{words}");
            assert!(check_position(&named("00000002"), &answer, Some(&b)).is_ok());
        }
        assert_eq!(resolve("0193a5b2", &pending).unwrap_err().exit, Exit::Usage);
        assert_eq!(resolve("ffff", &pending).unwrap_err().exit, Exit::Usage);
        assert_eq!(resolve("", &pending[..1]).unwrap_err().exit, Exit::Usage);
        let unknown = InterruptId::generate();
        assert_eq!(resolve(&unknown.to_string(), &pending), Ok((unknown, None)));
    }
}
