//! Table and parser of the slash commands.

use agentd_core::{context::CompactionStrategy, session::SessionMode, undo::TurnChoice};

use crate::{
    model_name::ModelName,
    ops::{compact::STRATEGIES, rewind::RewindPoint, undo::turn},
};

/// Maximum length of the name of an own command, in bytes.
const LONGEST_NAME: usize = 64;

/// Command of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slash {
    Help,
    Reset,
    Sessions,
    Load(String),
    Resume,
    New,
    Model(Option<ModelName>),
    Mode(Option<SessionMode>),
    Agent(String),
    Upload(String),
    Rename(String),
    Interrupts,
    Continue,
    Undo(Option<TurnChoice>),
    /// Goes back to before a turn, or lets the user choose one.
    Rewind(Option<RewindPoint>),
    Show(usize),
    Todos,
    Cost,
    /// Lists the pinned rules, or pins one.
    Pin(Option<String>),
    Unpin(usize),
    Diff(TurnChoice),
    /// Copies an answer, counted from the last one.
    Copy(usize),
    /// Copies a code block of the last answer, or the last block.
    CopyCode(Option<usize>),
    Init,
    Plan(String),
    /// Asks a side question.
    Btw(String),
    /// Trusts the project's files.
    Trust,
    /// Lists the keys.
    Keys,
    /// Shows the folder of the session, or makes it writable (true) or read-only.
    Project(Option<bool>),
    /// Runs a command in the user's shell.
    Shell(String),
    Compact(CompactionStrategy),
    UndoCompaction,
    /// Runs `agentctl` with these arguments, so that both list the same.
    Agentctl(&'static [&'static str]),
    /// Runs `agentctl` with these arguments and the session.
    OfSession(&'static [&'static str]),
    Quit,
}

/// Entry of the table of commands.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Name without the slash.
    pub(crate) name: &'static str,
    /// Placeholder of the argument.
    pub(crate) argument: &'static str,
    /// Description of the command.
    pub(crate) does: &'static str,
    /// The command, if it takes no argument.
    plain: Option<Slash>,
}

const fn plain(name: &'static str, does: &'static str, command: Slash) -> Entry {
    Entry { name, argument: "", does, plain: Some(command) }
}

const fn with(name: &'static str, argument: &'static str, does: &'static str) -> Entry {
    Entry { name, argument, does, plain: None }
}

/// All commands, in the order of `/help`.
pub(crate) static TABLE: [Entry; 39] = [
    plain("help", "list the commands", Slash::Help),
    plain("continue", "resume an interrupted turn", Slash::Continue),
    with("undo", "[N]", "undo the file changes of the last turn, or of turn N"),
    with("rewind", "[N]", "go back to before turn N, `last` (Esc Esc), or a chosen one: files, talk, or both"),
    with("show", "[N]", "show the last result or reasoning whole, or the Nth last (also Ctrl-O)"),
    with("diff", "[N]", "show what this session, or turn N of it, changed in files"),
    with("copy", "[N]", "copy the last answer, or the Nth last; `/copy code [N]` copies its last or Nth code block"),
    plain("todos", "show the todo list", Slash::Todos),
    plain("cost", "show tokens and money of the last turn and of the session", Slash::Cost),
    plain("context", "show what fills the context window", Slash::OfSession(&["context"])),
    with("compact", "[HOW]", "summarize older history: auto, compact or summarize; `/compact undo` reverts it"),
    with("pin", "[RULE]", "list the pinned rules, or pin one: it survives every summary"),
    with("unpin", "N", "remove pinned rule N"),
    with("upload", "PATH", "attach a copy of a file; #PATH in a message does, too"),
    plain("interrupts", "answer open approvals and questions", Slash::Interrupts),
    plain("grants", "list rules for calls that run without asking", Slash::OfSession(&["grants", "list", "--session"])),
    with("model", "[NAME]", "choose a model: a slot, or one that its server lists; default goes back"),
    with("mode", "[MODE]", "show the modes, or choose ask, accept-edits, plan or auto (also Shift-Tab)"),
    with("project", "[rw|ro]", "show the folder, or let this session change it (rw) or only read it (ro)"),
    plain("tools", "list the tools", Slash::OfSession(&["tools", "--session"])),
    plain("skills", "list the skills", Slash::OfSession(&["skills", "list", "--session"])),
    plain("agents", "list the agents that the main one can give work to", Slash::Agentctl(&["agents", "list"])),
    with("agent", "NAME", "choose the agent of this session, which no model leaves; main goes back"),
    with("plan", "TASK", "have the model plan a task: you approve, edit or reject the plan before anything changes"),
    with("btw", "QUESTION", "ask a side question, also while a turn runs; the model's history does not get it"),
    plain("init", "have the model look at the project and write its AGENTS.md", Slash::Init),
    plain("trust", "use the instructions, agents, skills and commands in .agentd/ as they were shown", Slash::Trust),
    plain("sessions", "choose a session to go to; type to search", Slash::Sessions),
    plain("resume", "the same as /sessions", Slash::Resume),
    with("load", "SESSION", "go to another session: id, end of an id, title, or number in /sessions"),
    plain("new", "start a new session in this folder; this one is kept", Slash::New),
    plain("current", "show this session", Slash::OfSession(&["sessions", "show"])),
    with("rename", "TITLE", "rename this session"),
    plain("reset", "clear the history of this session", Slash::Reset),
    plain("status", "show the status of the daemon", Slash::Agentctl(&["status"])),
    plain("clean", "remove data that has not been used for long", Slash::Agentctl(&["clean"])),
    plain("clear", "the same as /new", Slash::New),
    plain("quit", "leave (also Ctrl-D)", Slash::Quit),
    plain("exit", "leave", Slash::Quit),
];

/// Sentence that explains why a command is invalid, and how to correct it.
pub(crate) type Refusal = String;

/// Parses a line typed at the prompt, as [`parse`] does. In addition, `?` shows the keys, `exit` leaves, and `!` runs a
/// command.
pub(crate) fn parse_at_prompt(line: &str) -> Option<Result<Slash, Refusal>> {
    match line.trim() {
        "?" => return Some(Ok(Slash::Keys)),
        "exit" | "quit" => return Some(Ok(Slash::Quit)),
        _ => {}
    }
    match line.strip_prefix('!').map(str::trim) {
        Some("") => {
            Some(Err("! needs a command, as in `! make test`: your shell runs it, and the model is told its output"
                .to_owned()))
        }
        Some(command) => Some(Ok(Slash::Shell(command.to_owned()))),
        None => parse(line),
    }
}

/// Returns true for a line that may be a command, so that it cannot be added to a running turn.
pub(crate) fn is_for_client(line: &str) -> bool {
    parse_at_prompt(line).is_some() || own_name(line).is_some()
}

/// Returns the name and the arguments of a line that may be an own command.
pub(crate) fn own_name(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = parts(line)?;
    let is_own = is_own_name(name) && !is_builtin(name);
    is_own.then_some((name, arguments))
}

/// Returns the name after the slash and the arguments.
fn parts(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_end().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((name, arguments.trim()))
}

/// Returns true for a valid name of an own command.
pub(crate) fn is_own_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.len() <= LONGEST_NAME && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Returns true for a name in the table.
pub(crate) fn is_builtin(name: &str) -> bool {
    TABLE.iter().any(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// Parses a line as a command. Returns `None` for a message to the model. Commands start with a slash and a word, so
/// that `/etc/passwd` and a slash after a space are text.
pub(crate) fn parse(line: &str) -> Option<Result<Slash, Refusal>> {
    let (name, argument) = parts(line)?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    Some(command(&name.to_ascii_lowercase(), argument))
}

fn command(name: &str, argument: &str) -> Result<Slash, Refusal> {
    let given = Some(argument).filter(|argument| !argument.is_empty());
    let needed = |what: &str| given.map(str::to_owned).ok_or_else(|| format!("/{name} needs {what}"));
    let number = |argument| from_one(name, argument);
    match name {
        "plan" => needed("a task: the model plans it, and you decide about the plan").map(Slash::Plan),
        "btw" => needed("a question").map(Slash::Btw),
        "load" => needed("a session: an id, a title or a number; /sessions lists them").map(Slash::Load),
        "agent" => needed("the name of an agent; /agents lists them").map(Slash::Agent),
        "upload" => needed("the path of a file").map(Slash::Upload),
        "rename" => needed("a title").map(Slash::Rename),
        "diff" => given.map_or(Ok(TurnChoice::All), turn).map(Slash::Diff),
        "undo" => given.map(turn).transpose().map(Slash::Undo),
        "rewind" if argument == "last" => Ok(Slash::Rewind(Some(RewindPoint::Steps(1)))),
        "rewind" => {
            given.map(number).transpose().map(|turn| Slash::Rewind(turn.map(|turn| RewindPoint::Before(turn as u64))))
        }
        "copy" => match argument.strip_prefix("code").map(str::trim) {
            Some("") => Ok(Slash::CopyCode(None)),
            Some(block) => number(block).map(|block| Slash::CopyCode(Some(block))),
            None => given.map_or(Ok(1), number).map(Slash::Copy),
        },
        "show" => given.map_or(Ok(1), number).map(Slash::Show),
        "unpin" => number(argument).map(Slash::Unpin),
        "pin" => Ok(Slash::Pin(given.map(str::to_owned))),
        "model" => given.map(str::parse).transpose().map(Slash::Model).map_err(str::to_owned),
        "mode" => given.map(str::parse).transpose().map(Slash::Mode),
        "project" => match given {
            None => Ok(Slash::Project(None)),
            Some(access @ ("rw" | "ro")) => Ok(Slash::Project(Some(access == "rw"))),
            Some(_) => Err("/project takes rw or ro, or nothing".to_owned()),
        },
        "compact" if argument == "undo" => Ok(Slash::UndoCompaction),
        "compact" => {
            let how = given.unwrap_or("auto");
            let known = STRATEGIES.iter().find(|(name, ..)| name.eq_ignore_ascii_case(how));
            let refusal = || "/compact takes auto, compact, summarize or undo".to_owned();
            known.map(|(.., strategy)| Slash::Compact(*strategy)).ok_or_else(refusal)
        }
        _ => match TABLE.iter().find(|entry| entry.name == name).and_then(|entry| entry.plain.clone()) {
            Some(_) if given.is_some() => Err(format!("/{name} takes no argument")),
            command => command.ok_or_else(|| unknown_command(name)),
        },
    }
}

fn from_one(name: &str, argument: &str) -> Result<usize, Refusal> {
    let number = argument.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("/{name} takes a number from 1, not {argument:?}"))
}

fn unknown_command(name: &str) -> Refusal {
    let nearest = TABLE
        .iter()
        .map(|entry| (strsim::damerau_levenshtein(name, entry.name), entry.name.starts_with(name), entry.name))
        .filter(|(distance, prefix, _)| *prefix || *distance <= 2)
        .min_by_key(|(distance, prefix, _)| (!*prefix, *distance));
    match nearest {
        Some((_, _, nearest)) => format!("there is no command /{name}; did you mean /{nearest}?"),
        None => format!("there is no command /{name}; /help lists them"),
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::model::Slot;

    use super::*;

    #[test]
    fn slash_commands_are_distinguished_from_text() {
        #[track_caller]
        fn check(line: &str, expected: Option<Result<Slash, &str>>) {
            assert_eq!(parse(line), expected.map(|command| command.map_err(str::to_owned)), "{line:?}");
        }
        check("/help", Some(Ok(Slash::Help)));
        check("/HELP  ", Some(Ok(Slash::Help)));
        check("/load  0193a  ", Some(Ok(Slash::Load("0193a".into()))));
        check("/rename a long title", Some(Ok(Slash::Rename("a long title".into()))));
        check("/model code", Some(Ok(Slash::Model(Some(ModelName::Slot(Slot::Code))))));
        check("/model gpt-5", Some(Ok(Slash::Model(Some(ModelName::Listed("gpt-5".into()))))));
        check("/mode accept edits", Some(Ok(Slash::Mode(Some(SessionMode::AcceptEdits)))));
        check("/mode yolo", Some(Err("no such mode: \"yolo\"; the modes are ask, accept-edits, plan and auto")));
        check("/rewind", Some(Ok(Slash::Rewind(None))));
        check("/rewind 2", Some(Ok(Slash::Rewind(Some(RewindPoint::Before(2))))));
        check("/rewind last", Some(Ok(Slash::Rewind(Some(RewindPoint::Steps(1))))));
        check("/project", Some(Ok(Slash::Project(None))));
        check("/project rw", Some(Ok(Slash::Project(Some(true)))));
        check("/project ro ", Some(Ok(Slash::Project(Some(false)))));
        check("/project /tmp", Some(Err("/project takes rw or ro, or nothing")));
        check("/undo 3", Some(Ok(Slash::Undo(Some(TurnChoice::Number(3))))));
        check("/undo all", Some(Err("\"all\" is neither the number of a turn nor the id of one")));
        check("/copy 0", Some(Err("/copy takes a number from 1, not \"0\"")));
        check("/copy code", Some(Ok(Slash::CopyCode(None))));
        check("/copy code 2", Some(Ok(Slash::CopyCode(Some(2)))));
        check("/copy code x", Some(Err("/copy takes a number from 1, not \"x\"")));
        check("/todos now", Some(Err("/todos takes no argument")));
        check("?", None);
        check("!ls", None);
        check("/show 12", Some(Ok(Slash::Show(12))));
        check("/compact summarize", Some(Ok(Slash::Compact(CompactionStrategy::Summarize))));
        check("/btw why? ", Some(Ok(Slash::Btw("why?".into()))));
        check("/btw", Some(Err("/btw needs a question")));
        check("/compact undo", Some(Ok(Slash::UndoCompaction)));
        check("/compact truncate", Some(Err("/compact takes auto, compact, summarize or undo")));
        check("/exit", Some(Ok(Slash::Quit)));
        check("/load", Some(Err("/load needs a session: an id, a title or a number; /sessions lists them")));
        check("/sesions", Some(Err("there is no command /sesions; did you mean /sessions?")));
        check("/frobnicate", Some(Err("there is no command /frobnicate; /help lists them")));
        check("/etc/passwd has what?", None);
        check(" /help", None);
        check("/", None);
        check("// a comment", None);
    }

    #[test]
    fn prompt_accepts_shell_commands_and_key_help() {
        #[track_caller]
        fn check(line: &str, expected: Option<Slash>) {
            assert_eq!(parse_at_prompt(line), expected.map(Ok), "{line:?}");
        }
        check(" ? ", Some(Slash::Keys));
        check("? what", None);
        check("exit ", Some(Slash::Quit));
        check("quit", Some(Slash::Quit));
        check("exit code 3?", None);
        check("!ls -l", Some(Slash::Shell("ls -l".into())));
        check("! make test\nmake lint ", Some(Slash::Shell("make test\nmake lint".into())));
        check(" !ls", None);
        check("well!", None);
        check("/help", Some(Slash::Help));
        assert!(parse_at_prompt("! ").unwrap().unwrap_err().contains("! needs a command"));
    }

    #[test]
    fn unknown_names_may_be_custom_commands() {
        #[track_caller]
        fn check(line: &str, expected: Option<(&str, &str)>) {
            assert_eq!(own_name(line), expected, "{line:?}");
        }
        check("/review", Some(("review", "")));
        check("/fix-it  a 'b c' ", Some(("fix-it", "a 'b c'")));
        check("/compact now", None);
        check("/HELP", None);
        check("/etc/passwd has what?", None);
        check("/../x", None);
        check("/-x", None);
        check(" /review", None);
        check(&format!("/{}", "x".repeat(65)), None);
        assert!(is_for_client("/fix-it") && is_for_client("!ls") && is_for_client("?") && !is_for_client("fix it"));
    }

    #[test]
    fn every_listed_slash_command_parses() {
        for entry in &TABLE {
            let argument = match entry.name {
                "model" => "code",
                "mode" => "plan",
                "project" => "rw",
                "undo" | "rewind" | "show" | "diff" | "copy" | "unpin" => "1",
                "compact" => "auto",
                _ => entry.argument,
            };
            let line = format!("/{} {argument}", entry.name);
            assert!(matches!(parse(&line), Some(Ok(_))), "{line}");
        }
    }
}
