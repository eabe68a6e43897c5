//! Messages to the vocabulary and back, one topic a file. `mirror` has the rows that most of them are.
//!
//! What goes out is made from references with `From`, because events are shared; what comes in is checked with
//! `TryFrom`, because it is hostile. A [`WireError`] tells what is merely newer than we are from what is wrong.

mod daemon;
mod document;
mod event;
mod mirror;
mod model;
mod policy;
mod project;
mod session;
mod tool;
mod turn;

pub(crate) use daemon::usage_query_to_wire;
pub use daemon::{counter_days, usage_query};
pub(crate) use mirror::{Wire, or_default};
use mirror::{by_name, choices, mirrored};
pub use model::{listed_slot, tested_slot};
pub(crate) use session::filter_to_wire;
pub use session::{chosen_slot, mode_of, session_filter, settings_over, undo_to_wire};
pub use turn::{answered_file, input_parts};
pub(crate) use turn::{file_answer, newer};

use agentd_core::{Timestamp, ids::InvalidId};

/// A message that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A required part is absent.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A kind that this version does not know. Clients skip such events.
    #[error("{0} is of a kind that is not known here")]
    Unknown(&'static str),
    /// An identifier of the wrong form.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A text that should be JSON.
    #[error("{what} is not valid JSON: {cause}")]
    Json {
        /// The field that should be JSON.
        what: &'static str,
        /// The parser's message.
        cause: String,
    },
    /// A value that makes no sense.
    #[error("{what} {problem}")]
    Value {
        /// The field.
        what: &'static str,
        /// The problem.
        problem: &'static str,
    },
}

impl WireError {
    /// Returns whether the message is merely newer than this version, so that a reader of events may skip it.
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// A required part.
pub(crate) fn required<T>(part: Option<T>, what: &'static str) -> Result<T, WireError> {
    part.ok_or(WireError::Missing(what))
}

/// A required part, converted.
///
/// # Errors
/// When it is absent, or makes no sense.
pub fn part<W, T>(part: Option<W>, what: &'static str) -> Result<T, WireError>
where
    T: TryFrom<W, Error = WireError>,
{
    required(part, what)?.try_into()
}

/// All of them, or the first error.
///
/// # Errors
/// Of the first that makes no sense.
pub fn all<W, T>(list: Vec<W>) -> Result<Vec<T>, WireError>
where
    T: TryFrom<W, Error = WireError>,
{
    list.into_iter().map(T::try_from).collect()
}

/// JSON that came as text.
///
/// # Errors
/// When it is none.
pub fn json(text: &str, what: &'static str) -> Result<serde_json::Value, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::Json { what, cause: error.to_string() })
}

/// A moment from the wire that may be absent.
///
/// # Errors
/// When it makes no sense.
pub fn optional_moment(at: Option<prost_types::Timestamp>, what: &'static str) -> Result<Option<Timestamp>, WireError> {
    Wire::from_wire(at, what)
}
