//! Identifiers: newtypes over UUID version 7, so that text order equals creation order.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Error for an invalid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} id: {text:?}")]
pub struct InvalidId {
    kind: &'static str,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates an identifier that sorts after all earlier ones of this process.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// Returns the underlying UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(text)
                    .map(Self)
                    .map_err(|_| InvalidId { kind: $kind, text: text.chars().take(80).collect() })
            }
        }
    };
}

id!(
    /// ID of a durable conversation.
    SessionId, "session"
);
id!(
    /// ID of a turn, which lasts from one user input to its `TurnEnded`.
    TurnId, "turn"
);
id!(
    /// ID of an item, which is a stored unit of a turn.
    ItemId, "item"
);
id!(
    /// ID of a durable pause that needs an answer.
    InterruptId, "interrupt"
);
id!(
    /// ID that links logs, audit lines and trace lines of one turn.
    TraceId, "trace"
);

/// Links a tool call to its result. Assigned by the engine and unique in the session. Servers number their calls from
/// zero in every answer, so their IDs are never used as keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// Creates a unique call ID that consists of `call_` and 24 hexadecimal digits. The ID is short enough for
    /// providers with a length limit (40 characters), and contains only characters that all providers accept.
    pub fn generate() -> Self {
        let id = Uuid::now_v7().simple().to_string();
        Self(format!("call_{}{}", &id[..12], &id[20..]))
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for CallId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation_and_round_trip_as_text() {
        let ids: Vec<SessionId> = (0..100).map(|_| SessionId::generate()).collect();
        assert!(ids.is_sorted());
        for id in ids {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn invalid_id_is_rejected_with_its_kind() {
        let error = "latest".parse::<SessionId>().unwrap_err();
        assert_eq!(error.to_string(), "invalid session id: \"latest\"");
    }
}
