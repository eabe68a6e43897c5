//! Conversions between wire messages and domain types, one topic per file. Most types have the same structure on the
//! wire and need only one row.
//!
//! Outgoing messages are built from references with `From`, because events are shared. Incoming messages are checked
//! with `TryFrom`, because they are untrusted. [`WireError`] distinguishes values from a newer version from invalid
//! values.

pub use session::{settings_over, undo_to_wire};
pub use turn::{answered_file, input_parts};
pub(crate) use turn::{file_answer, newer};

use std::{collections::HashMap, path::PathBuf, time::Duration};

use agentd_core::{
    Date, Timestamp,
    ids::{CallId, InterruptId, InvalidId, ItemId, SessionId, TraceId, TurnId},
};

mod daemon;
mod event;
mod policy;
mod project;
mod session;
mod turn;

/// A message that cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A required part is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A kind that is unknown to this version. Clients skip such events.
    #[error("{0} is unknown to this version")]
    Unknown(&'static str),
    /// An identifier in the wrong format.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A text that is not valid JSON.
    #[error("{field} is not valid JSON: {cause}")]
    Json {
        /// Name of the field.
        field: &'static str,
        /// Message of the parser.
        cause: String,
    },
    /// A value that is invalid.
    #[error("{field} {problem}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Description of the problem.
        problem: &'static str,
    },
}

impl WireError {
    /// Returns true if the kind is unknown because the peer is newer, so that a reader of events may skip the message.
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Returns a required part, or an error if the part is missing.
pub(crate) fn required<T>(part: Option<T>, field: &'static str) -> Result<T, WireError> {
    part.ok_or(WireError::Missing(field))
}

/// Converts a required part.
///
/// # Errors
/// Fails if the part is missing or invalid.
pub fn part<W, T>(part: Option<W>, field: &'static str) -> Result<T, WireError>
where
    T: TryFrom<W, Error = WireError>,
{
    required(part, field)?.try_into()
}

/// Converts a list, or returns the first error.
///
/// # Errors
/// The error for the first invalid value.
pub fn all<W, T>(list: Vec<W>) -> Result<Vec<T>, WireError>
where
    T: TryFrom<W, Error = WireError>,
{
    list.into_iter().map(T::try_from).collect()
}

/// Parses `text` as JSON.
///
/// # Errors
/// Fails if the text is not valid JSON.
pub fn json(text: &str, field: &'static str) -> Result<serde_json::Value, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::Json { field, cause: error.to_string() })
}

/// A type with a representation on the wire. `field` names the value in errors.
pub trait Wire<W>: Sized {
    /// Converts to the wire.
    fn to_wire(&self) -> W;
    /// Converts from the wire and validates the value.
    ///
    /// # Errors
    /// Fails if the value is invalid.
    fn from_wire(wire: W, field: &'static str) -> Result<Self, WireError>;
}

/// Converts a value that has a default if it is absent on the wire.
///
/// # Errors
/// Fails if the value is invalid.
pub fn or_default<T: Default, W>(wire: W, field: &'static str) -> Result<T, WireError>
where
    Option<T>: Wire<W>,
{
    Ok(<Option<T> as Wire<W>>::from_wire(wire, field)?.unwrap_or_default())
}

macro_rules! same {
    ($($kind:ty)+) => {
        $(impl Wire<$kind> for $kind {
            fn to_wire(&self) -> $kind {
                self.clone()
            }

            fn from_wire(wire: $kind, _: &'static str) -> Result<Self, WireError> {
                Ok(wire)
            }
        })+
    };
}
same! { bool i32 u32 u64 f32 String Vec<u8> HashMap<String, String> }

/// Implements [`Wire`] for types that are strings on the wire. `$read` parses a string; its second argument names the
/// field.
macro_rules! by_name {
    ($($kind:ty: $write:expr, $read:expr);+ $(;)?) => {
        $(impl $crate::convert::Wire<String> for $kind {
            fn to_wire(&self) -> String {
                let write: fn(&Self) -> String = $write;
                write(self)
            }

            fn from_wire(wire: String, field: &'static str) -> Result<Self, $crate::convert::WireError> {
                let read: fn(&str, &'static str) -> Result<Self, $crate::convert::WireError> = $read;
                read(&wire, field)
            }
        })+
    };
}
pub(super) use by_name;

by_name! {
    SessionId: ToString::to_string, |text, _| Ok(text.parse()?);
    TurnId: ToString::to_string, |text, _| Ok(text.parse()?);
    ItemId: ToString::to_string, |text, _| Ok(text.parse()?);
    InterruptId: ToString::to_string, |text, _| Ok(text.parse()?);
    TraceId: ToString::to_string, |text, _| Ok(text.parse()?);
    CallId: ToString::to_string, |text, _| Ok(text.to_owned().into());
    PathBuf: |path| path.to_string_lossy().into_owned(), |text, _| Ok(text.into());
    serde_json::Value: ToString::to_string, json;
    Date: ToString::to_string, |text, field| {
        text.parse().map_err(|_| WireError::Value { field, problem: "is not a date such as 2026-11-25" })
    };
}

/// A number on the wire; larger values are saturated.
impl Wire<u32> for usize {
    fn to_wire(&self) -> u32 {
        u32::try_from(*self).unwrap_or(u32::MAX)
    }

    fn from_wire(wire: u32, _: &'static str) -> Result<Self, WireError> {
        Ok(usize::try_from(wire).unwrap_or(usize::MAX))
    }
}

impl Wire<u64> for Duration {
    fn to_wire(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }

    fn from_wire(wire: u64, _: &'static str) -> Result<Self, WireError> {
        Ok(Self::from_millis(wire))
    }
}

/// On the wire, nanoseconds always count forward from the second, even before 1970.
impl Wire<prost_types::Timestamp> for Timestamp {
    fn to_wire(&self) -> prost_types::Timestamp {
        let (second, nanosecond) = (self.as_second(), self.subsec_nanosecond());
        if nanosecond < 0 {
            prost_types::Timestamp { seconds: second - 1, nanos: nanosecond + 1_000_000_000 }
        } else {
            prost_types::Timestamp { seconds: second, nanos: nanosecond }
        }
    }

    fn from_wire(at: prost_types::Timestamp, field: &'static str) -> Result<Self, WireError> {
        if !(0..1_000_000_000).contains(&at.nanos) {
            return Err(WireError::Value { field, problem: "has nanoseconds out of range" });
        }
        Self::new(at.seconds, at.nanos).map_err(|_| WireError::Value { field, problem: "is a time out of range" })
    }
}

impl Wire<Option<prost_types::Timestamp>> for Timestamp {
    fn to_wire(&self) -> Option<prost_types::Timestamp> {
        Some(self.to_wire())
    }

    fn from_wire(wire: Option<prost_types::Timestamp>, field: &'static str) -> Result<Self, WireError> {
        Self::from_wire(required(wire, field)?, field)
    }
}

impl<T: Wire<W>, W> Wire<Option<W>> for Option<T> {
    fn to_wire(&self) -> Option<W> {
        self.as_ref().map(Wire::to_wire)
    }

    fn from_wire(wire: Option<W>, field: &'static str) -> Result<Self, WireError> {
        wire.map(|wire| T::from_wire(wire, field)).transpose()
    }
}

/// A string on the wire; empty if the value is absent.
impl<T: Wire<String>> Wire<String> for Option<T> {
    fn to_wire(&self) -> String {
        self.as_ref().map(Wire::to_wire).unwrap_or_default()
    }

    fn from_wire(wire: String, field: &'static str) -> Result<Self, WireError> {
        Wire::from_wire(Some(wire).filter(|text| !text.is_empty()), field)
    }
}

impl<T: Wire<W>, W> Wire<Vec<W>> for Vec<T> {
    fn to_wire(&self) -> Vec<W> {
        self.iter().map(Wire::to_wire).collect()
    }

    fn from_wire(wire: Vec<W>, field: &'static str) -> Result<Self, WireError> {
        wire.into_iter().map(|wire| T::from_wire(wire, field)).collect()
    }
}

impl<T: Wire<W>, W> Wire<W> for Box<T> {
    fn to_wire(&self) -> W {
        self.as_ref().to_wire()
    }

    fn from_wire(wire: W, field: &'static str) -> Result<Self, WireError> {
        T::from_wire(wire, field).map(Box::new)
    }
}

/// Implements conversions in both directions.
///
/// - `Slot, "the slot", [Base, …]`: an enum with the variants of the wire enum of the same name, or of the second name.
///   The wire's zero, `Unspecified`, is `None`.
/// - `Segment as v1::Segment: kind bytes …`: a message with these fields. Then, in this order: fields with another name
///   on the wire or a name in errors (`at = at "the time"`), a field with a substitute for values of newer daemons
///   (`! kind (ErrorKind::Internal)`), fields that have their default if absent on the wire (`? shown`), fields of a
///   nested type that are inline on the wire (`@ files: FilesCopied {files}`, with the same forms inside), a field that
///   only the wire has (`+ holds (AuditReport::holds)`), the values of fields that are not sent (`.. origin: None`), and
///   a check of the incoming value, which may change it (`=> |hit| Ok(hit)`).
/// - `Mount as v1::Mount`: a message with handwritten conversions.
macro_rules! mirrored {
    ($core:ident, $label:literal, $variants:tt) => {
        $crate::convert::mirrored!($core, $core, $label, $variants);
    };
    ($core:ident, $wire:ident, $label:literal, [$($variant:ident),+ $(,)?]) => {
        impl $crate::convert::Wire<i32> for Option<$core> {
            fn to_wire(&self) -> i32 {
                (match self {
                    None => $crate::v1::$wire::Unspecified,
                    $(Some($core::$variant) => $crate::v1::$wire::$variant,)+
                }) as i32
            }

            fn from_wire(wire: i32, _: &'static str) -> Result<Self, $crate::convert::WireError> {
                match $crate::v1::$wire::try_from(wire) {
                    Ok($crate::v1::$wire::Unspecified) => Ok(None),
                    $(Ok($crate::v1::$wire::$variant) => Ok(Some($core::$variant)),)+
                    Err(_) => Err($crate::convert::WireError::Unknown($label)),
                }
            }
        }
        impl $crate::convert::Wire<i32> for $core {
            fn to_wire(&self) -> i32 {
                $crate::convert::Wire::to_wire(&Some(*self))
            }

            fn from_wire(wire: i32, field: &'static str) -> Result<Self, $crate::convert::WireError> {
                $crate::convert::required(<Option<Self> as $crate::convert::Wire<i32>>::from_wire(wire, field)?, $label)
            }
        }
    };
    ($core:ty as $wire:ty: $($field:ident)*
        $(, $own:ident = $theirs:ident $label:literal)* $(! $newer:ident ($stand_in:expr))? $(? $or:ident)*
        $(@ $group:ident: $kind:ident {
            $($part:ident)* $(, $inner:ident = $beside:ident $name:literal)* $(? $may:ident)*
            $(.. $($out:ident: $fill:expr),+)?
        })? $(+ $extra:ident ($make:expr))? $(.. $($left:ident: $value:expr),+)? $(=> $check:expr)?) => {
        impl From<&$core> for $wire {
            fn from(core: &$core) -> Self {
                Self {
                    $($extra: $make(core),)?
                    $($field: $crate::convert::Wire::to_wire(&core.$field),)*
                    $($theirs: $crate::convert::Wire::to_wire(&core.$own),)*
                    $($newer: $crate::convert::Wire::to_wire(&core.$newer),)?
                    $($or: $crate::convert::Wire::to_wire(&Some(core.$or.clone())),)*
                    $($($part: $crate::convert::Wire::to_wire(&core.$group.$part),)*
                    $($beside: $crate::convert::Wire::to_wire(&core.$group.$inner),)*
                    $($may: $crate::convert::Wire::to_wire(&Some(core.$group.$may.clone())),)*)?
                }
            }
        }
        impl TryFrom<$wire> for $core {
            type Error = $crate::convert::WireError;

            fn try_from(wire: $wire) -> Result<Self, $crate::convert::WireError> {
                Ok(Self {
                    $($field: $crate::convert::Wire::from_wire(wire.$field, stringify!($field))?,)*
                    $($own: $crate::convert::Wire::from_wire(wire.$theirs, $label)?,)*
                    $($newer: $crate::convert::newer(
                        $crate::convert::Wire::from_wire(wire.$newer, stringify!($newer)),
                        $stand_in,
                    )?,)?
                    $($or: $crate::convert::or_default(wire.$or, stringify!($or))?,)*
                    $($group: $kind {
                        $($part: $crate::convert::Wire::from_wire(wire.$part, stringify!($part))?,)*
                        $($inner: $crate::convert::Wire::from_wire(wire.$beside, $name)?,)*
                        $($may: $crate::convert::or_default(wire.$may, stringify!($may))?,)*
                        $($($out: $fill,)+)?
                    },)?
                    $($($left: $value,)+)?
                })
                $(.and_then($check))?
            }
        }
        $crate::convert::mirrored!($core as $wire);
    };
    ($core:ty as $wire:ty) => {
        impl $crate::convert::Wire<$wire> for $core {
            fn to_wire(&self) -> $wire {
                self.into()
            }

            fn from_wire(wire: $wire, _: &'static str) -> Result<Self, $crate::convert::WireError> {
                wire.try_into()
            }
        }
        impl $crate::convert::Wire<Option<$wire>> for $core {
            fn to_wire(&self) -> Option<$wire> {
                Some(self.into())
            }

            fn from_wire(wire: Option<$wire>, field: &'static str) -> Result<Self, $crate::convert::WireError> {
                $crate::convert::part(wire, field)
            }
        }
    };
}
pub(super) use mirrored;

/// Implements conversions in both directions for an enum whose variants are those of a `oneof`. A variant
/// `{with fields}` is the message of its name in a module. A variant with a field `[alone]` or a value `(alone)` is the
/// wire form of that value. An absent value is unknown.
macro_rules! choices {
    ($core:ident as $wire:ty, $module:ident, $label:literal {
        $($variant:ident
            $({ $($field:ident)* $(, $own:ident = $theirs:ident $name:literal)*
                $(? $or:ident)* $(.. $($left:ident: $value:expr),+)? })?
            $([$alone:ident $(.. $rest:ident: $fill:expr)?])?
            $(($inner:ident))?,)+
    } $($odd:pat => $unknown:literal,)*) => {
        impl From<&$core> for $wire {
            fn from(core: &$core) -> Self {
                match core {
                    $($core::$variant
                        $({ $($field,)* $($own,)* $($or,)* $($($left: _,)+)? })?
                        $({ $alone, $($rest: _,)? })?
                        $(($inner))?
                    => Self::$variant(
                        $($module::$variant {
                            $($field: $crate::convert::Wire::to_wire($field),)*
                            $($theirs: $crate::convert::Wire::to_wire($own),)*
                            $($or: $crate::convert::Wire::to_wire(&Some($or.clone())),)*
                        })?
                        $($crate::convert::Wire::to_wire($alone))?
                        $($crate::convert::Wire::to_wire($inner))?
                    ),)+
                }
            }
        }
        impl TryFrom<$wire> for $core {
            type Error = $crate::convert::WireError;

            #[allow(unused_variables, reason = "a message may have no fields")]
            fn try_from(wire: $wire) -> Result<Self, $crate::convert::WireError> {
                type Choice = $wire;
                Ok(match wire {
                    $(Choice::$variant(inner) => $core::$variant
                        $({
                            $($field: $crate::convert::Wire::from_wire(inner.$field, stringify!($field))?,)*
                            $($own: $crate::convert::Wire::from_wire(inner.$theirs, $name)?,)*
                            $($or: $crate::convert::or_default(inner.$or, stringify!($or))?,)*
                            $($($left: $value,)+)?
                        })?
                        $({
                            $alone: $crate::convert::Wire::from_wire(inner, stringify!($alone))?,
                            $($rest: $fill,)?
                        })?
                        $(($crate::convert::Wire::from_wire(inner, stringify!($inner))?))?,)+
                    $($odd => return Err($crate::convert::WireError::Unknown($unknown)),)*
                })
            }
        }
        impl $crate::convert::Wire<Option<$wire>> for $core {
            fn to_wire(&self) -> Option<$wire> {
                Some(self.into())
            }

            fn from_wire(wire: Option<$wire>, _: &'static str) -> Result<Self, $crate::convert::WireError> {
                wire.ok_or($crate::convert::WireError::Unknown($label))?.try_into()
            }
        }
    };
}
pub(super) use choices;
