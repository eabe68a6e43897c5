//! Exit codes, which scripts rely on. Outcomes are mapped to codes only in this module.

use std::process::ExitCode;

use agentd_core::{
    error::ErrorKind,
    turn::{StopReason, TurnResult},
};

/// Exit of the client, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Exit {
    /// The command was successful.
    Done = 0,
    /// The turn or another request failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The daemon cannot be reached or has another version.
    Unreachable = 3,
    /// The provider refused the key.
    Auth = 4,
    /// An approval was required but not given.
    Approval = 5,
    /// The turn reached a limit (steps, time, tokens or money) or was stopped in a loop.
    Limit = 6,
    /// The model gave no complete answer, or not in the requested form.
    NoAnswer = 7,
    /// A review found a defect of the severity that was named, or above.
    Findings = 8,
    /// The work was postponed and can be retried later: rate limit, another open turn in the session, or a daemon that
    /// stopped.
    Postponed = 75,
    /// The wait timed out while the turn was still running; the same code as `timeout` of coreutils.
    StillRunning = 124,
    /// The terminal was closed.
    HungUp = 129,
    /// The turn was cancelled.
    Cancelled = 130,
    /// Terminated by a signal.
    Terminated = 143,
}

/// Availability of a user to answer while the turn ran. Determines how a denial affects the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interactivity {
    /// The user of this client was asked, so a denial was intended.
    Attended,
    /// A rule or another client answered, so the exit code reports denials to the script.
    Unattended,
}

impl Exit {
    /// All codes with their meanings, in numerical order.
    pub(crate) const TABLE: [(Self, &'static str); 14] = [
        (Self::Done, "done"),
        (Self::Failed, "the turn failed"),
        (Self::Usage, "the command line or the configuration is wrong"),
        (Self::Unreachable, "the daemon cannot be reached or has another version"),
        (Self::Auth, "the provider rejected the key"),
        (Self::Approval, "an approval was needed or denied"),
        (Self::Limit, "a limit was reached (steps, time, tokens, money, loops), or the prompt does not fit (--whole)"),
        (Self::NoAnswer, "no complete answer: empty, truncated, filtered, or not matching --schema"),
        (Self::Findings, "`review --fail-on`: a finding of this severity or above"),
        (Self::Postponed, "retry later: rate-limited, another turn of the session is open, or the daemon stopped"),
        (Self::StillRunning, "`wait --timeout`: the turn is still running"),
        (Self::HungUp, "the terminal or connection was closed (SIGHUP)"),
        (Self::Cancelled, "cancelled"),
        (Self::Terminated, "received SIGTERM; the turn is cancelled"),
    ];

    /// Returns the code as a number.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Returns the code for a turn that has ended.
    ///
    /// A completed turn with a denial is [`Exit::Approval`] if it ran unattended: otherwise a script could not detect
    /// that part of the work is missing.
    pub(crate) fn of_turn(result: &TurnResult, interactivity: Interactivity) -> Self {
        match result.stop_reason {
            StopReason::Completed if interactivity == Interactivity::Unattended && !result.denials.is_empty() => {
                Self::Approval
            }
            StopReason::Completed => Self::Done,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::MaxSteps | StopReason::TimeLimit | StopReason::Budget | StopReason::Loop => Self::Limit,
            StopReason::NoAnswer | StopReason::Cut | StopReason::Filtered | StopReason::WrongForm => Self::NoAnswer,
            StopReason::Denied => Self::Approval,
            StopReason::Interrupted | StopReason::Suspended => Self::Postponed,
            StopReason::Failed => match result.error.as_ref().map(|error| error.kind) {
                Some(ErrorKind::Auth) => Self::Auth,
                Some(ErrorKind::RateLimited | ErrorKind::ShuttingDown) => Self::Postponed,
                Some(ErrorKind::QuotaExceeded) => Self::Limit,
                Some(ErrorKind::Configuration | ErrorKind::InvalidInput) => Self::Usage,
                // In a turn, `Unreachable` refers to the model's server, not to the daemon.
                _ => Self::Failed,
            },
        }
    }

    /// Returns the code for a request that the daemon refused.
    pub(crate) fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Auth => Self::Auth,
            ErrorKind::RateLimited | ErrorKind::Busy => Self::Postponed,
            // Client and daemon use incompatible protocols, or the daemon is stopping.
            ErrorKind::Protocol | ErrorKind::ShuttingDown => Self::Unreachable,
            ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::Configuration => Self::Usage,
            // The input exceeds the window, or the budget is used up.
            ErrorKind::ContextOverflow | ErrorKind::QuotaExceeded => Self::Limit,
            // The daemon responded, so the model's server is the one that is unreachable.
            ErrorKind::Unreachable
            | ErrorKind::CutStream
            | ErrorKind::Timeout
            | ErrorKind::Rejected
            | ErrorKind::Provider
            | ErrorKind::Storage
            | ErrorKind::Conflict
            | ErrorKind::Internal => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::CallId,
        turn::{Denial, TurnError},
    };

    use super::*;

    fn result(stop_reason: StopReason, error: Option<ErrorKind>, denied: bool) -> TurnResult {
        let denial = || Denial {
            call_id: CallId::generate(),
            tool: "write_file".to_owned(),
            reason: "no user was present".to_owned(),
        };
        TurnResult {
            error: error.map(|kind| TurnError { kind, message: String::new(), hint: None }),
            denials: denied.then(denial).into_iter().collect(),
            ..crate::samples::result(stop_reason)
        }
    }

    #[test]
    fn stop_reasons_map_to_exit_codes() {
        use Interactivity::{Attended, Unattended};
        use StopReason as S;
        #[track_caller]
        fn check(reason: S, error: Option<ErrorKind>, denied: bool, interactivity: Interactivity, code: u8) {
            assert_eq!(Exit::of_turn(&result(reason, error, denied), interactivity).code(), code);
        }
        check(S::Completed, None, false, Unattended, 0);
        check(S::Completed, None, true, Unattended, 5);
        check(S::Completed, None, true, Attended, 0);
        check(S::Denied, None, true, Unattended, 5);
        check(S::Denied, None, false, Attended, 5);
        check(S::Cancelled, None, true, Unattended, 130);
        check(S::MaxSteps, None, false, Unattended, 6);
        check(S::TimeLimit, None, false, Unattended, 6);
        check(S::Budget, None, false, Unattended, 6);
        check(S::Loop, None, false, Attended, 6);
        check(S::Failed, Some(ErrorKind::QuotaExceeded), false, Unattended, 6);
        check(S::NoAnswer, None, false, Unattended, 7);
        check(S::Cut, None, true, Attended, 7);
        check(S::Filtered, None, false, Attended, 7);
        check(S::WrongForm, Some(ErrorKind::Protocol), false, Unattended, 7);
        check(S::Interrupted, None, false, Unattended, 75);
        check(S::Suspended, None, false, Unattended, 75);
        check(S::Failed, None, false, Unattended, 1);
        check(S::Failed, Some(ErrorKind::Auth), false, Unattended, 4);
        check(S::Failed, Some(ErrorKind::RateLimited), false, Unattended, 75);
        check(S::Failed, Some(ErrorKind::Configuration), false, Unattended, 2);
        check(S::Failed, Some(ErrorKind::Unreachable), false, Unattended, 1);
        check(S::Failed, Some(ErrorKind::Provider), true, Attended, 1);
    }

    #[test]
    fn request_errors_map_to_exit_codes() {
        for (kind, code) in [
            (ErrorKind::NotFound, 2),
            (ErrorKind::InvalidInput, 2),
            (ErrorKind::Unreachable, 1),
            (ErrorKind::Protocol, 3),
            (ErrorKind::ShuttingDown, 3),
            (ErrorKind::Auth, 4),
            (ErrorKind::RateLimited, 75),
            (ErrorKind::Conflict, 1),
            (ErrorKind::Busy, 75),
            (ErrorKind::Storage, 1),
            (ErrorKind::ContextOverflow, 6),
        ] {
            assert_eq!(Exit::of_kind(kind).code(), code, "{kind:?}");
        }
    }

    #[test]
    fn exit_table_and_docs_list_each_code_in_order() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        let declared = include_str!("exit.rs").split_once("enum Exit {").unwrap().1.split_once("\n}").unwrap().0;
        let declared = declared.lines().filter_map(|line| line.split_once(" = ")?.1.trim_end_matches(',').parse().ok());
        assert_eq!(codes, declared.collect::<Vec<u8>>());
        let page = include_str!("../../docs/scripting.md").split_once("## Exit codes").unwrap().1;
        let page = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok());
        assert_eq!(codes, page.collect::<Vec<u8>>());
    }
}
