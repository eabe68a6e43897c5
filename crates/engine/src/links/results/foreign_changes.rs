//! Informs the model of files that it has read and that others have changed since: other sessions, or the user.

use std::sync::Arc;

use agentd_core::{
    item::NoticeTopic,
    tool::{FollowedLink, ToolOutput},
    undo::ForeignChange,
};
use serde_json::Value;

use super::READ_FILE;
use crate::turn::{
    TurnContext, TurnState,
    hooks::{Hook, Invocation, Link, Next, Reminder, done},
};

/// Maximum number of files that a notice names.
const MAX_NAMED: usize = 20;

pub(crate) struct ForeignChanges;

impl Link for ForeignChanges {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        if !state.asks_model() || context.models.model.info().embedded {
            return done(());
        }
        Box::pin(async move {
            let workspace = Arc::clone(&context.files.workspace);
            let changes = context.ports.snapshots.changed_by_others(context.ids.session, workspace).await;
            let changes = changes.inspect_err(|error| tracing::warn!("{error}")).unwrap_or_default();
            match notice(&changes) {
                Some(text) => context.append_notice(state, Reminder::new(NoticeTopic::General, text).notice()).await,
                None => Ok(()),
            }
        })
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.context.tool(&call.call.name).is_none_or(|tool| tool.name != READ_FILE) {
            return next.run(call);
        }
        Box::pin(async move {
            let output = next.run(call).await?;
            if let Some(path) = path(&call.call.arguments).filter(|_| output.error.is_none()) {
                let noted = call.context.ports.snapshots.note_read(&call.context.tool_context(call.call), path).await;
                noted.unwrap_or_else(|error| tracing::warn!("{error}"));
            }
            Ok(output)
        })
    }
}

fn path(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    arguments.get(FollowedLink::PATH)?.as_str().map(str::to_owned)
}

/// Returns the notice about these changes, if there are any.
fn notice(changes: &[ForeignChange]) -> Option<String> {
    let named = changes.iter().take(MAX_NAMED).map(|ForeignChange { path, is_gone, lines }| match (is_gone, lines) {
        (true, _) => format!("{path} (removed)"),
        (false, Some((added, removed))) => format!("{path} (+{added} −{removed} lines)"),
        (false, None) => format!("{path} (size of the change unknown)"),
    });
    let more = changes.len().checked_sub(MAX_NAMED).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    let list = named.chain(more).collect::<Vec<_>>().join(", ");
    (!list.is_empty())
        .then(|| format!("Changed by others since it was read here: {list}. Read again what you rely on."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_names_changed_files_with_their_sizes() {
        let change = |path: &str, is_gone, lines| ForeignChange { path: path.to_owned(), is_gone, lines };
        let changes = [
            change("/project/a.rs", false, Some((3, 1))),
            change("/project/b.txt", true, Some((0, 9))),
            change("outputs/c.png", false, None),
        ];
        let text = notice(&changes).unwrap();
        assert!(
            text.contains(
                "/project/a.rs (+3 −1 lines), /project/b.txt (removed), outputs/c.png (size of the change unknown)"
            ),
            "{text}"
        );
        assert_eq!(notice(&[]), None);
        let many = vec![changes[0].clone(); MAX_NAMED + 2];
        assert!(notice(&many).unwrap().contains("lines), and 2 more. Read again"), "{:?}", notice(&many));
    }
}
