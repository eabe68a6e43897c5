//! The daemon with one additional, broken check for tests. The check panics on every call whose arguments contain
//! `brittle`.

use std::{env, process::ExitCode, sync::Arc};

use agentd::{
    environment::{Args, Environment},
    failure::Failure,
    service::Supervisor,
    start,
};
use agentd_policy::{CallContext, Check, Policy, Rules};
use agentd_sandbox::{host::HELPER_ARGUMENT, run_helper};

/// Check that contains a bug.
#[derive(Debug)]
struct Broken;

impl Check for Broken {
    fn objects(&self, facts: &CallContext<'_>) -> Option<String> {
        assert!(!facts.arguments.contains("brittle"), "bug in a check");
        None
    }
}

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == HELPER_ARGUMENT) {
        return run_helper(arguments.collect(), std::env::vars_os());
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    start::start(&Args::default(), Environment::capture(), Supervisor::default(), |config| {
        // The daemon has already compiled these rules successfully.
        if let Ok(rules) = Rules::compile(&config.rules.file) {
            config.rules.policy = Arc::new(Policy::new(rules).with_check(Arc::new(Broken)));
        }
    })
}
