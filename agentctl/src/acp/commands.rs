//! Slash commands that the editor offers: two of ours, and those that the person and a trusted project have written.

use std::path::Path;

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate, UnstructuredCommandInput,
};
use agentd_core::{context::CompactionStrategy, routing::Planning, turn::StartTurn};
use agentd_proto::client::Client;

use crate::{failure::Failure, project, repl::own_commands};

const COMPACT: &str = "compact";
const PLAN: &str = "plan";

/// The commands that there are.
pub(super) async fn available(client: &Client, folder: Option<&Path>) -> SessionUpdate {
    let report = match folder {
        Some(folder) => project::look(client, folder).await,
        None => None,
    };
    let command = |name: &str, description: &str, hint: &str| {
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(name, description).input(input)
    };
    let mut commands = vec![
        command(COMPACT, "Summarize older history, so that there is room in the window", ""),
        command(PLAN, "Plan a task, and change nothing before the plan is approved", "task"),
    ];
    let own = own_commands::all(&own_commands::plugins(client).await, report.as_ref()).commands;
    // Its place, where it does not say what it does.
    commands.extend(own.iter().map(|own| {
        let description = if own.description.is_empty() { &own.file } else { &own.description };
        command(&own.name, description, &own.argument)
    }));
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// Makes a turn that begins with a command the turn that it stands for. Words that only look like one stay as they are.
///
/// # Errors
/// When a command cannot be used, or lacks what it needs.
pub(super) async fn apply(start: &mut StartTurn, client: &Client, folder: Option<&Path>) -> Result<(), Failure> {
    let Some(text) = start.text.clone() else { return Ok(()) };
    let typed = start.typed_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(text.len());
    // What follows the typed text goes with the command, and is no argument of it.
    let (text, behind) = text.split_at(text.floor_char_boundary(typed));
    let Some((name, arguments)) = named(text) else { return Ok(()) };
    let (words, typed) = match name {
        COMPACT => {
            start.compact = Some(CompactionStrategy::default());
            (start.text, start.typed_bytes) = (None, None);
            return Ok(());
        }
        PLAN if arguments.is_empty() => return Err(Failure::usage("/plan needs a task").hint("write it behind /plan")),
        PLAN => {
            start.planning = Some(Planning::Always);
            (arguments.to_owned(), None)
        }
        name => {
            let report = match folder {
                Some(folder) => project::look(client, folder).await,
                None => None,
            };
            match own_commands::find(name, &own_commands::plugins(client).await, report.as_ref())? {
                Some(command) => command.words(text, arguments.trim_end()),
                None => return Ok(()),
            }
        }
    };
    let typed = typed.or((!behind.is_empty()).then_some(words.len()));
    (start.text, start.typed_bytes) = (Some(words + behind), typed.map(|typed| typed as u64));
    Ok(())
}

/// The name and the rest of a text that begins with a command.
pub(super) fn named(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    own_commands::is_name(name).then(|| (name, arguments.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_a_text() {
        let check = |text: &str, expected: Option<(&str, &str)>| assert_eq!(named(text), expected, "{text}");
        check("/plan  a task\nof two lines", Some(("plan", "a task\nof two lines")));
        check("/compact", Some(("compact", "")));
        check("/etc/passwd", None);
        check("a /plan", None);
        check("/", None);
    }
}
