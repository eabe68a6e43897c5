//! Renames that were shown to a person: what runs is what was shown, whatever a language server would say by then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_core::{
    ids::{CallId, SessionId},
    ports::ToolContext,
    tool::ToolCall,
};

use crate::builtin::rename_symbol::PlannedRename;

/// Renames that are kept at once.
const MAX_KEPT: usize = 16;

/// The call that was shown: one whose arguments a person changes is another.
type ShownCall = (SessionId, CallId, String);

/// Renames that were shown and have not run, by their call.
#[derive(Debug, Default)]
pub(super) struct ShownRenames(Mutex<Vec<(ShownCall, PlannedRename)>>);

impl ShownRenames {
    fn kept(&self) -> MutexGuard<'_, Vec<(ShownCall, PlannedRename)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, context: &ToolContext, call: &ToolCall, planned: PlannedRename) {
        let of = shown(context, call);
        let mut kept = self.kept();
        kept.retain(|(known, _)| *known != of);
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((of, planned));
    }

    pub(super) fn take(&self, context: &ToolContext, call: &ToolCall) -> Option<PlannedRename> {
        let of = shown(context, call);
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| *known == of)?;
        Some(kept.remove(at).1)
    }
}

fn shown(context: &ToolContext, call: &ToolCall) -> ShownCall {
    (context.session_id, call.call_id.clone(), call.arguments.clone())
}
