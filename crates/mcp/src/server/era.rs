//! The two eras of the protocol: up to 2025-11-25 a connection begins with `initialize`, and from 2026-07-28 on every request
//! says which version it is of.

use std::{error::Error, time::Duration};

use rmcp::{
    ClientLifecycleMode,
    model::{ErrorCode, ProtocolVersion},
    service::ClientInitializeError,
};

/// Time for a server to show that it is of the newer era, where nothing says so yet.
pub(super) const FINDING_OUT: Duration = Duration::from_secs(5);

/// Era of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Era {
    /// Connections begin with `initialize`. Also that of servers of which nothing is known.
    #[default]
    Initialize,
    /// Connections begin with `server/discover`.
    Discover,
}

impl Era {
    /// Era of a version of the protocol.
    pub(crate) fn of(version: &str) -> Self {
        // The names are dates; others are of drafts.
        let is_date = version.starts_with(|letter: char| letter.is_ascii_digit());
        if is_date && version >= ProtocolVersion::NO_INITIALIZE.as_str() { Self::Discover } else { Self::Initialize }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Initialize => Self::Discover,
            Self::Discover => Self::Initialize,
        }
    }

    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }

    /// Returns true if a connection of this era may have failed because the server is of the other one.
    pub(super) fn may_be_wrong(self, error: &ClientInitializeError) -> bool {
        match (self, error) {
            // The codes for failures of a server's own, such as a key that is missing.
            (Self::Initialize, ClientInitializeError::JsonRpcError(refusal)) => {
                ![ErrorCode(-32000), ErrorCode::INTERNAL_ERROR].contains(&refusal.code)
            }
            (Self::Initialize, _) | (Self::Discover, ClientInitializeError::Cancelled) => false,
            (Self::Discover, ClientInitializeError::TransportError { error, .. }) => {
                !is_unreachable(error.error.as_ref())
            }
            (Self::Discover, _) => true,
        }
    }
}

/// Returns true if there was no server to hear the request.
fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|cause| cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorData;

    use super::*;

    #[test]
    fn versions_have_their_era() {
        for (version, era) in [
            ("", Era::Initialize),
            ("2025-11-25", Era::Initialize),
            ("DRAFT-2026", Era::Initialize),
            ("2026-07-28", Era::Discover),
            ("2027-01-01", Era::Discover),
        ] {
            assert_eq!(Era::of(version), era, "{version}");
        }
    }

    #[test]
    fn a_refusal_to_initialize_may_come_of_the_newer_era() {
        let check = |code: i32, expected: bool| {
            let refusal = ClientInitializeError::JsonRpcError(ErrorData::new(ErrorCode(code), "no", None));
            assert_eq!(Era::Initialize.may_be_wrong(&refusal), expected, "{code}");
            assert!(Era::Discover.may_be_wrong(&refusal), "{code}");
        };
        check(-32601, true);
        check(-32602, true);
        check(-32022, true);
        check(-32000, false);
        check(-32603, false);
        assert!(!Era::Initialize.may_be_wrong(&ClientInitializeError::ConnectionClosed(String::new())));
    }
}
