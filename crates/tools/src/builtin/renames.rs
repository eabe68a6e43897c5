//! Renames that were shown to a person: what runs is what was shown, whatever a language server would say by then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_core::{
    ids::{CallId, SessionId},
    language::SourceRewrite,
    ports::ToolContext,
    tool::ToolCall,
};

/// Renames that are kept at once.
const MAX_KEPT: usize = 16;

/// Names of a symbol before and after.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// Rename with the edits that make it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedRename {
    pub(crate) names: Names,
    pub(crate) rewrites: Vec<SourceRewrite>,
}

/// The call that was shown: one whose arguments a person changes is another.
type ShownCall = (SessionId, CallId, String);

/// Renames that were shown and have not run, by their call.
#[derive(Debug, Default)]
pub(crate) struct ShownRenames(Mutex<Vec<(ShownCall, PlannedRename)>>);

impl ShownRenames {
    fn kept(&self) -> MutexGuard<'_, Vec<(ShownCall, PlannedRename)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, context: &ToolContext, call: &ToolCall, planned: PlannedRename) {
        self.take(context, call);
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push(((context.session_id, call.call_id.clone(), call.arguments.clone()), planned));
    }

    pub(crate) fn take(&self, context: &ToolContext, call: &ToolCall) -> Option<PlannedRename> {
        let is_it = |(session, id, arguments): &ShownCall| {
            (*session, id, arguments) == (context.session_id, &call.call_id, &call.arguments)
        };
        let mut kept = self.kept();
        let at = kept.iter().position(|(shown, _)| is_it(shown))?;
        Some(kept.remove(at).1)
    }
}
