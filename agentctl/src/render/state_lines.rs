//! Status lines about changes of a session.

use agentd_core::event::StateChange;

use super::context::{level_line, todo_rows};
use crate::terminal::{
    look::TerminalStyle,
    paint::{QUIET, clip, paint},
    sanitize::clean_line,
};

/// Returns the painted lines about a change; none for a change that other lines report.
pub(crate) fn state_lines(change: &StateChange, look: TerminalStyle) -> Vec<String> {
    let line = match change {
        StateChange::TokenLevel { level, tokens, window } => level_line(*level, *tokens, *window),
        StateChange::Window { .. } => Some("the last compaction was undone".to_owned()),
        StateChange::Todos { todos } => return todo_rows(todos, look),
        StateChange::Queue { length: 0, .. } => None,
        StateChange::Queue { length: 1, .. } => Some("one more turn waits".to_owned()),
        StateChange::Queue { length, .. } => Some(format!("{length} more turns wait")),
        StateChange::Reset => Some("the history was cleared".to_owned()),
        StateChange::Agent { stack } if stack.is_empty() => Some("back to main".to_owned()),
        StateChange::Agent { stack } => {
            let names = ["main"].into_iter().chain(stack.iter().map(String::as_str));
            Some(names.map(clean_line).collect::<Vec<_>>().join(" → "))
        }
        StateChange::Subagent(subagent) => {
            Some(format!("⤷ {}: {}", clean_line(&subagent.name), clean_line(&subagent.task)))
        }
        StateChange::Forked { from, turn } => {
            Some(format!("from here on a fork of session {from}, after its turn {turn}"))
        }
        // Other lines report the rest: a notice, the line of a tool, or the input that names a file.
        _ => None,
    };
    let columns = look.columns().saturating_sub(1);
    line.map(|line| paint(look.err_color, QUIET, &clip(&line, columns))).into_iter().collect()
}
