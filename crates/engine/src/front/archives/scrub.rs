//! Parts of events that never travel: permissions, the environment of clients, turns that wait, and ways to change files
//! of another machine. Pure. It is done when a session leaves, and again when one comes.

use agentd_core::{
    event::{Event, EventKind, StateChange},
    item::ItemBody,
    tool::FileChange,
};

/// Characters of a session's name at the most.
const MAX_TITLE: usize = 200;

/// The event without what never travels.
pub(super) fn for_travel(mut event: Event) -> Event {
    match &mut event.kind {
        // Wishes for the turn stay: a replay needs them. They hold for no other turn.
        EventKind::TurnStarted { environment, .. } => *environment = Default::default(),
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            if let ItemBody::ToolResult(result) = &mut item.body {
                only_tell(&mut result.files);
            }
        }
        EventKind::TurnEnded { result } => only_tell(&mut result.files),
        EventKind::StateChanged { change } => match change {
            StateChange::Settings { settings } => {
                settings.grants.clear();
                settings.imported = None;
            }
            StateChange::Queue { added, .. } => *added = None,
            StateChange::Undone { files, .. } => only_tell(files),
            StateChange::Title { title } if title.chars().count() > MAX_TITLE => {
                *title = title.chars().take(MAX_TITLE).collect();
            }
            _ => {}
        },
        _ => {}
    }
    event
}

/// Leaves of changes what is told of them. What is needed to take them back stays on the machine.
fn only_tell(files: &mut [FileChange]) {
    for file in files {
        *file = FileChange::new(std::mem::take(&mut file.path), file.change);
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TraceId, TurnId},
    };
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: Value) -> Event {
        let mut event = json!({
            "session_id": SessionId::generate(), "turn_id": TurnId::generate(), "seq": 1, "at": Timestamp::UNIX_EPOCH,
        });
        event.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[track_caller]
    fn check(kind: Value, gone: &[&str]) {
        let before = event(kind);
        let text = serde_json::to_string(&before).unwrap();
        let after = serde_json::to_string(&for_travel(before)).unwrap();
        for word in gone {
            assert!(text.contains(word) && !after.contains(word), "{word}: {after}");
        }
    }

    #[test]
    fn permissions_environments_and_queued_turns_stay() {
        let started = json!({
            "type": "turn_started", "trace_id": TraceId::generate(), "slot": "base", "model": "m", "reason": "r",
            "max_steps": 9, "environment": {"LANG": "xx_YY"},
        });
        check(started, &["xx_YY"]);
        let settings = json!({
            "type": "state_changed", "change": {"state": "settings", "settings": {
                "confirm_write": true, "confirm_exec": true, "grants": [{"rule": "run_bash_command: make"}],
            }},
        });
        check(settings, &["run_bash_command"]);
    }
}
