//! A call as it is written on the command line.

use agentd_proto::client::PolicyCall;
use serde_json::{Value, json};

use crate::failure::Failure;

/// The tool that runs commands.
const SHELL_TOOL: &str = "run_bash_command";

/// A call of a tool by its name.
pub(super) fn named(tool: &str, arguments: Option<&str>) -> Result<PolicyCall, Failure> {
    let arguments = arguments.unwrap_or("{}");
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => Ok(PolicyCall { tool: tool.to_owned(), arguments: arguments.to_owned() }),
        Ok(_) => Err(Failure::usage("could not read the arguments: they are not a JSON object").hint(hint(tool))),
        Err(error) => Err(Failure::usage(format!("could not read the arguments as JSON: {error}")).hint(hint(tool))),
    }
}

fn hint(tool: &str) -> String {
    format!("for example: agentctl policy explain {tool} '{{\"path\": \"notes.txt\"}}'; a command goes after `--`")
}

/// A command line. A single word is taken as it is, because it may be a whole script; several are words that the
/// caller's shell has taken apart, and stay what they are.
pub(super) fn command(words: &[String]) -> PolicyCall {
    let command = match words {
        [script] => script.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    PolicyCall { tool: SHELL_TOOL.to_owned(), arguments: json!({ "command": command }).to_string() }
}

/// True where a tool could have that name.
pub(super) fn may_be_a_tool(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// One argument: `TOOL {…}`, or a command line.
pub(super) fn either(text: &str) -> PolicyCall {
    if let Some((tool, arguments)) = text.trim().split_once(char::is_whitespace)
        && may_be_a_tool(tool)
        && let Ok(Value::Object(_)) = serde_json::from_str::<Value>(arguments)
    {
        return PolicyCall { tool: tool.to_owned(), arguments: arguments.trim().to_owned() };
    }
    command(&[text.to_owned()])
}

/// A call for programs: its arguments as an object where they are one.
pub(super) fn as_json(call: &PolicyCall) -> Value {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()));
    json!({ "tool": call.tool, "arguments": arguments })
}

/// A call on one line.
pub(super) fn shown(call: &PolicyCall) -> String {
    let command = (call.tool == SHELL_TOOL)
        .then(|| serde_json::from_str::<Value>(&call.arguments).ok())
        .flatten()
        .and_then(|arguments| Some(arguments.get("command")?.as_str()?.to_owned()));
    command.unwrap_or_else(|| format!("{} {}", call.tool, call.arguments))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,@%+=-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_and_scripts_stay_scripts() {
        let check = |words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(shown(&command(&words)), expected);
        };
        check(&["ls | sh"], "ls | sh");
        check(&["git", "commit", "-m", "a b; c"], "git commit -m 'a b; c'");
        check(&["echo", "it's", ""], r"echo 'it'\''s' ''");
    }

    #[test]
    fn a_call_is_a_tool_with_an_object_or_a_command() {
        let check = |text: &str, tool: &str, line: &str| {
            let call = either(text);
            assert_eq!((call.tool.as_str(), shown(&call).as_str()), (tool, line));
        };
        check(r#"write_file {"path": "a"}"#, "write_file", r#"write_file {"path": "a"}"#);
        check("rm -rf build", SHELL_TOOL, "rm -rf build");
        check("echo {a,b}", SHELL_TOOL, "echo {a,b}");
        check("ls", SHELL_TOOL, "ls");
        assert!(named("write_file", Some("{")).is_err());
        assert!(named("write_file", Some("[]")).is_err());
        assert!(named("now", None).is_ok());
    }
}
