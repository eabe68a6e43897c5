//! `agentctl answer`: answers what a turn waits for.

use std::io::Write as _;

use agentd_core::{
    error::ErrorKind,
    grant::GrantScope,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use clap::Args;
use serde_json::Value;

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::Global,
    render::{
        asking,
        diff::{self, Room},
    },
    terminal::look::TerminalStyle,
};

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

`agentctl interrupts ID` shows what `always` would allow; `agentctl grants revoke` takes it back. An edited call is shown \
before it runs, and refused if the rules deny it. The turn continues at once, even after a restart of the daemon.")]
pub(crate) struct AnswerArgs {
    /// The interrupt; the start of its id is enough
    id: String,
    /// approve, reject, always or edit; for a question, the text of the answer
    #[arg(value_name = "approve|reject|always|edit|TEXT", required = true, num_args = 1..)]
    words: Vec<String>,
    /// Reason of a rejection, shown to the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Make `always` permanent: for every session, until it is revoked
    #[arg(long)]
    for_good: bool,
    /// Rule to add with `always`, one of the wider ones of `agentctl interrupts ID`
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// New arguments for `edit`, a JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// Only show what `edit` would do, without answering
    #[arg(long, requires = "args")]
    preview: bool,
}

/// Answers.
pub(crate) async fn handle(global: &Global, args: AnswerArgs) -> anyhow::Result<Exit> {
    let daemon = daemon::connect(global).await?;
    let pending = daemon.client.interrupts(None).await?;
    let (id, interrupt) = resolve(&args.id, &pending)?;
    let answer = parse(&args, interrupt.map(|interrupt| &interrupt.ask))?;
    if let Some(misfit) = interrupt.and_then(|interrupt| answer.misfit(&interrupt.ask)) {
        return Err(Failure::usage(format!("this answer does not fit: {misfit}"))
            .hint("see what is asked with `agentctl interrupts`")
            .into());
    }
    if let Answer::Edit { args: edited } = &answer {
        let would = daemon.client.foresee(id, edited).await?;
        let color = TerminalStyle::detect().err_color;
        for line in would_do(&would, color) {
            writeln!(anstream::stderr(), "{line}")?;
        }
        if args.preview {
            return Ok(Exit::Done);
        }
    }
    daemon.client.answer(id, &answer, daemon::CLIENT).await?;
    if let Some(interrupt) = interrupt {
        if let Some((rules, scope)) = answer.kept(&interrupt.ask) {
            crate::terminal::note(&asking::kept(scope, rules));
        }
        let session = interrupt.session_id;
        crate::terminal::note(&format!("answered; the turn continues (follow it with `agentctl attach {session}`)"));
    }
    Ok(Exit::Done)
}

/// The effect that a call would have with other arguments, in lines.
fn would_do(ask: &Ask, color: bool) -> Vec<String> {
    let Ask::Approval { tool, args, risk, preview, .. } = ask else { return Vec::new() };
    let preview = preview.clone().unwrap_or_else(|| format!("{args:#}"));
    let head = format!("with these arguments {} would do this ({}):", visible::line(tool), asking::risk(*risk));
    let lines = diff::preview(&preview, Room::WITHOUT_END, color);
    [head].into_iter().chain(lines.into_iter().map(|line| format!("  {line}"))).collect()
}

/// Finds the interrupt that is meant. A whole id goes to the daemon even if nothing of that id waits, because only
/// the daemon knows whether it was answered before.
///
/// # Errors
/// When none or several are meant.
pub(crate) fn resolve<'a>(
    text: &str,
    pending: &'a [Interrupt],
) -> Result<(InterruptId, Option<&'a Interrupt>), Failure> {
    if let Ok(id) = text.parse::<InterruptId>() {
        return Ok((id, pending.iter().find(|interrupt| interrupt.id == id)));
    }
    let wanted = bare(text);
    let mut fitting = pending.iter().filter(|interrupt| bare(&interrupt.id.to_string()).starts_with(&wanted));
    match (fitting.next(), fitting.next()) {
        (Some(one), None) if !wanted.is_empty() => Ok((one.id, Some(one))),
        (Some(_), Some(_)) => {
            Err(Failure::usage(format!("more than one pending interrupt has an id that starts with {text:?}"))
                .hint("write more of the id; `agentctl interrupts` shows all"))
        }
        _ => Err(nothing_waits(format!("no pending interrupt has an id that starts with {text:?}"))),
    }
}

/// The interrupt that is meant, among those that wait.
///
/// # Errors
/// When none or several are meant.
pub(crate) fn waiting<'a>(text: &str, pending: &'a [Interrupt]) -> Result<&'a Interrupt, Failure> {
    resolve(text, pending)?.1.ok_or_else(|| nothing_waits(format!("no interrupt {text} waits for an answer")))
}

fn nothing_waits(message: String) -> Failure {
    Failure::new(ErrorKind::NotFound, message).hint("`agentctl interrupts` shows what waits")
}

/// An id without what people leave out.
pub(crate) fn bare(id: &str) -> String {
    id.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

/// Understands the answer. The words have their special meaning for approvals; for a question only `reject` has
/// one, because everything else may be just what the person wants to say.
fn parse(args: &AnswerArgs, ask: Option<&Ask>) -> Result<Answer, Failure> {
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
        _ => Answer::Text { text: words },
    };
    let is_kept = matches!(answer, Answer::Always { .. } | Answer::Keep { .. });
    let flags = [
        (args.reason.is_some(), matches!(answer, Answer::Reject { .. }), "--reason", "reject", " …"),
        (args.rule.is_some(), matches!(answer, Answer::Keep { .. }), "--rule", "always", " …"),
        (args.for_good, is_kept, "--for-good", "always", ""),
        (args.args.is_some(), matches!(answer, Answer::Edit { .. }), "--args", "edit", " …"),
    ];
    match flags.into_iter().find(|(is_given, fits, ..)| *is_given && !fits) {
        Some((_, _, flag, word, value)) => Err(Failure::usage(format!("{flag} belongs to {word}"))
            .hint(format!("leave it out, or write `agentctl answer ID {word} {flag}{value}`"))),
        None => Ok(answer),
    }
}

fn edited(args: Option<&str>) -> Result<Value, Failure> {
    const FORM: &str = "give all arguments as one JSON object: --args '{\"path\": \"notes.txt\"}'";
    let args = args.ok_or_else(|| Failure::usage("edit needs the new arguments").hint(FORM))?;
    match serde_json::from_str(args) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::usage("the new arguments are not a JSON object").hint(FORM)),
        Err(error) => Err(Failure::usage(format!("the new arguments are not JSON: {error}")).hint(FORM)),
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TurnId},
        interrupt::AskedBy,
        policy::Risk,
    };
    use serde_json::json;

    use super::*;

    fn approval() -> Ask {
        Ask::Approval {
            tool: "write_file".to_owned(),
            args: json!({}),
            risk: Risk::Medium,
            reason: "it changes a file".to_owned(),
            preview: None,
            layer: None,
            rule: None,
            grants: vec!["write_file".to_owned()],
            wider: vec!["mcp_lab_*".to_owned()],
            for_good: Vec::new(),
            owner: None,
        }
    }

    fn question() -> Ask {
        Ask::Question { question: "Which?".to_owned(), context: None, default: None, required: true }
    }

    fn interrupt(id: &str) -> Interrupt {
        Interrupt {
            id: id.parse().unwrap(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask: approval(),
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        }
    }

    fn args(words: &str, reason: Option<&str>, json: Option<&str>) -> AnswerArgs {
        AnswerArgs {
            id: String::new(),
            words: words.split(' ').map(str::to_owned).collect(),
            reason: reason.map(str::to_owned),
            for_good: false,
            rule: None,
            args: json.map(str::to_owned),
            preview: false,
        }
    }

    #[test]
    fn words_become_answers() {
        #[track_caller]
        fn check(words: &str, reason: Option<&str>, json: Option<&str>, ask: &Ask, expected: &Answer) {
            assert_eq!(parse(&args(words, reason, json), Some(ask)).as_ref(), Ok(expected));
        }
        let text = |text: &str| Answer::Text { text: text.to_owned() };
        check("approve", None, None, &approval(), &Answer::Approve);
        check("always", None, None, &approval(), &Answer::Always { scope: GrantScope::Session });
        let for_good = AnswerArgs { for_good: true, ..args("always", None, None) };
        assert_eq!(parse(&for_good, Some(&approval())), Ok(Answer::Always { scope: GrantScope::ForGood }));
        let wider = AnswerArgs { rule: Some("mcp_lab_*".to_owned()), ..args("always", None, None) };
        let kept = Answer::Keep { rule: "mcp_lab_*".to_owned(), scope: GrantScope::Session };
        assert_eq!(parse(&wider, Some(&approval())), Ok(kept));
        let wider = AnswerArgs { rule: Some("mcp_lab_*".to_owned()), ..args("approve", None, None) };
        assert!(parse(&wider, Some(&approval())).is_err());
        let for_good = AnswerArgs { for_good: true, ..args("approve", None, None) };
        assert!(parse(&for_good, Some(&approval())).is_err());
        check("reject", None, None, &approval(), &Answer::Reject { reason: None });
        check("reject", Some("no"), None, &approval(), &Answer::Reject { reason: Some("no".to_owned()) });
        check("edit", None, Some(r#"{"a":1}"#), &approval(), &Answer::Edit { args: json!({"a": 1}) });
        check("approve", None, None, &question(), &text("approve"));
        check("the second one", None, None, &question(), &text("the second one"));
        check("reject", None, None, &question(), &Answer::Reject { reason: None });
    }

    #[test]
    fn answers_that_make_no_sense_are_usage_errors() {
        #[track_caller]
        fn check(words: &str, reason: Option<&str>, json: Option<&str>) {
            let failure = parse(&args(words, reason, json), Some(&approval())).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.hint.is_some());
        }
        check("edit", None, None);
        check("edit", None, Some("[1]"));
        check("edit", None, Some("{"));
        check("approve", Some("because"), None);
        check("approve", None, Some("{}"));
    }

    #[test]
    fn ids_are_found_by_their_start() {
        let a = interrupt("0193a5b2-7c1d-7000-8000-000000000001");
        let b = interrupt("0193a5b2-7c1e-7000-8000-000000000002");
        let pending = [a.clone(), b.clone()];
        assert_eq!(resolve("0193a5b2-7c1d", &pending).unwrap().0, a.id);
        assert_eq!(resolve("0193A5B27C1E", &pending).unwrap().0, b.id);
        assert_eq!(resolve("0193a5b2", &pending).unwrap_err().exit, Exit::Usage);
        assert_eq!(resolve("ffff", &pending).unwrap_err().exit, Exit::Usage);
        assert_eq!(resolve("", &pending[..1]).unwrap_err().exit, Exit::Usage);
        let unknown = InterruptId::generate();
        assert_eq!(resolve(&unknown.to_string(), &pending), Ok((unknown, None)));
    }
}
