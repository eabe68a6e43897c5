//! Minimal program that serves as the sandbox helper in tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == agentd_sandbox::host::HELPER_ARGUMENT) {
        return agentd_sandbox::run_helper(arguments.collect(), std::env::vars_os());
    }
    ExitCode::FAILURE
}
