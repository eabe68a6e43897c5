//! The end of a turn that a crash cut off. The next start of the daemon settles it, perhaps days later: those events tell
//! how it ended, and not when.

use agentd_core::{
    Timestamp,
    event::{Event, EventKind},
    interrupt::AnsweredBy,
    item::{ItemBody, ItemStatus},
    tool::ToolErrorCode,
    turn::StopReason,
};

/// Time of the last event from before the crash, where the turn ended as interrupted.
pub(crate) fn last_sign<'a>(events: impl DoubleEndedIterator<Item = &'a Event>) -> Option<Timestamp> {
    let mut events = events.rev().skip_while(|event| !matches!(event.kind, EventKind::TurnEnded { .. }));
    let is_cut = |event: &Event| matches!(&event.kind, EventKind::TurnEnded { result } if result.stop_reason == StopReason::Interrupted);
    events.next().filter(|ended| is_cut(ended))?;
    events.find(|event| !is_settlement(&event.kind) && !event.is_damaged()).map(|event| event.at)
}

/// Returns whether a start of the daemon tells such a thing of a turn that it did not finish.
fn is_settlement(kind: &EventKind) -> bool {
    match kind {
        EventKind::ItemCompleted { item, status } => {
            *status == ItemStatus::Unknown || matches!(&item.body, ItemBody::Notice { .. }) || is_unrun(&item.body)
        }
        EventKind::ItemStarted { item } => matches!(&item.body, ItemBody::Notice { .. }) || is_unrun(&item.body),
        EventKind::InterruptResolved { by, .. } => *by == AnsweredBy::Daemon,
        EventKind::UsageUpdated { delegated, .. } => *delegated,
        EventKind::Warning { .. } => true,
        _ => false,
    }
}

fn is_unrun(body: &ItemBody) -> bool {
    let codes = [ToolErrorCode::NotRun, ToolErrorCode::UnknownOutcome];
    matches!(body, ItemBody::ToolResult(result) if result.error.is_some_and(|code| codes.contains(&code)))
}
