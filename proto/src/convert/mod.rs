//! Messages to the vocabulary and back, one noun a file.
//!
//! What goes out is made from references with `From`, because events are shared; what comes in is checked with
//! `TryFrom`, because it is hostile. A [`WireError`] tells what is merely newer than we are from what is wrong.

mod agent;
mod archive;
mod audit;
mod client_file;
mod context;
mod daemon;
mod document;
mod error;
mod event;
mod files;
mod grant;
mod input;
mod interrupt;
mod item;
mod mcp;
mod model;
mod plugin;
mod policy;
mod project;
mod search;
mod session;
mod skill;
mod storage;
mod tool;
mod turn;
mod undo;
mod usage;
mod worktree;

pub use client_file::answered_file;
pub(crate) use client_file::file_answer;
pub use input::input_parts;
pub(crate) use model::{list_models_to_wire, test_model_to_wire};
pub use model::{listed_slot, tested_slot};
pub use session::{chosen_slot, mode_of, session_filter, settings_over};
pub(crate) use session::{filter_to_wire, set_mode_to_wire, set_model_to_wire};
pub(crate) use turn::newer;
pub use undo::undo_to_wire;
pub(crate) use usage::usage_query_to_wire;
pub use usage::{counter_days, usage_query};

use std::str::FromStr;

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
    #[must_use]
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

/// An identifier.
pub(crate) fn id<T: FromStr<Err = InvalidId>>(text: &str) -> Result<T, WireError> {
    Ok(text.parse()?)
}

/// JSON that came as text.
///
/// # Errors
/// When it is none.
pub fn json(text: &str, what: &'static str) -> Result<serde_json::Value, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::Json { what, cause: error.to_string() })
}

/// A moment for the wire, where nanoseconds count forward from the second also before 1970.
pub(crate) fn to_moment(at: Timestamp) -> prost_types::Timestamp {
    let (second, nanosecond) = (at.as_second(), at.subsec_nanosecond());
    if nanosecond < 0 {
        prost_types::Timestamp { seconds: second - 1, nanos: nanosecond + 1_000_000_000 }
    } else {
        prost_types::Timestamp { seconds: second, nanos: nanosecond }
    }
}

/// A moment from the wire.
pub(crate) fn moment(at: Option<prost_types::Timestamp>, what: &'static str) -> Result<Timestamp, WireError> {
    optional_moment(at, what)?.ok_or(WireError::Missing(what))
}

/// A moment from the wire that may be absent.
///
/// # Errors
/// When it makes no sense.
pub fn optional_moment(at: Option<prost_types::Timestamp>, what: &'static str) -> Result<Option<Timestamp>, WireError> {
    let Some(at) = at else { return Ok(None) };
    if !(0..1_000_000_000).contains(&at.nanos) {
        return Err(WireError::Value { what, problem: "has nanoseconds outside of a second" });
    }
    Timestamp::new(at.seconds, at.nanos)
        .map(Some)
        .map_err(|_| WireError::Value { what, problem: "is a time outside of all calendars" })
}

/// An enum whose variants have the same names on the wire. The wire's zero, `Unspecified`, is `None`.
pub(crate) trait WireEnum: Sized {
    /// The field, in errors.
    const WHAT: &'static str;
    /// Number of a variant.
    fn to_wire(self) -> i32;
    /// Variant of a number.
    fn from_wire(value: i32) -> Result<Option<Self>, WireError>;
}

/// Number of a variant on the wire.
pub(crate) fn enum_to_wire(value: impl WireEnum) -> i32 {
    value.to_wire()
}

/// A variant that may be unspecified.
pub(crate) fn optional_enum<T: WireEnum>(value: i32) -> Result<Option<T>, WireError> {
    T::from_wire(value)
}

/// A variant that must be specified.
pub(crate) fn required_enum<T: WireEnum>(value: i32) -> Result<T, WireError> {
    required(optional_enum(value)?, T::WHAT)
}

/// Implements [`WireEnum`] for an enum, by the message of its name or of the second one.
macro_rules! mirrored {
    ($core:ident, $what:literal, $variants:tt) => {
        $crate::convert::mirrored!($core, $core, $what, $variants);
    };
    ($core:ident, $wire:ident, $what:literal, [$($variant:ident),+ $(,)?]) => {
        impl $crate::convert::WireEnum for $core {
            const WHAT: &'static str = $what;

            fn to_wire(self) -> i32 {
                (match self { $(Self::$variant => $crate::v1::$wire::$variant,)+ }) as i32
            }

            fn from_wire(value: i32) -> Result<Option<Self>, $crate::convert::WireError> {
                match $crate::v1::$wire::try_from(value) {
                    Ok($crate::v1::$wire::Unspecified) => Ok(None),
                    $(Ok($crate::v1::$wire::$variant) => Ok(Some(Self::$variant)),)+
                    Err(_) => Err($crate::convert::WireError::Unknown($what)),
                }
            }
        }
    };
}
pub(crate) use mirrored;

/// Conversions of a message that has the fields of its noun, both ways.
macro_rules! same_fields {
    ($core:ident: $($field:ident)+) => {
        impl From<&$core> for $crate::v1::$core {
            fn from(core: &$core) -> Self {
                Self { $($field: core.$field),+ }
            }
        }
        impl From<$crate::v1::$core> for $core {
            fn from(wire: $crate::v1::$core) -> Self {
                Self { $($field: wire.$field),+ }
            }
        }
    };
}
pub(crate) use same_fields;
