//! Links that check an answer, and ask the model again.

pub(crate) mod answer_form;
pub(crate) mod ask_again;
pub(crate) mod open_todos;
pub(crate) mod repetition;
