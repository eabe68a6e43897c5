//! Changes of the turn that a call asks for beside its output. Only links ask for them: a tool behind a port cannot.

use agentd_core::{
    context::CompactionStrategy, files::Picture, ids::CallId, session::Todo, turn::Denial, usage::Usage,
};

/// Changes of the turn that one call asks for, gathered in its [record](super::call_record::CallRecord).
#[derive(Debug, Default)]
pub(crate) struct SideEffects {
    /// A new todo list.
    pub(crate) todos: Option<Vec<Todo>>,
    /// The call whose edit it took back, or found to be taken back already.
    pub(crate) takes_back: Option<CallId>,
    /// The tools that it found for the model.
    pub(crate) found: Vec<String>,
    /// Words of the person for it: an answer, or a reason.
    pub(crate) said: Option<String>,
    /// Set if a person answered a question about it.
    pub(crate) answered: bool,
    /// Fingerprint of its text, where an earlier result shows the same.
    pub(crate) unchanged: Option<u64>,
    /// The history is compacted in this way before the model's next words.
    pub(crate) compact: Option<CompactionStrategy>,
    /// Another agent works in the session behind this step.
    pub(crate) changes_agent: bool,
    /// Work of another session for it.
    pub(crate) delegated: DelegatedWork,
    /// Usage of the model that it asked.
    pub(crate) sampled: Usage,
    /// Pictures that it returned, for models that see.
    pub(crate) pictures: Vec<Picture>,
}

/// Work of another session for a call, as far as it concerns the turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DelegatedWork {
    /// Usage of the model calls for it.
    pub(crate) usage: Usage,
    /// Denials there.
    pub(crate) denials: Vec<Denial>,
    /// Set if the turn ends with the last of these, because it asks nobody and shall fail then.
    pub(crate) fails: bool,
}
