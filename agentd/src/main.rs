//! The `agentd` binary: what must happen before the first thread, and the exit code. All else is in the library.

use std::{env, io::Write, process::ExitCode};

use agentd::{
    code, documents, embedded,
    environment::{Args, Environment},
    failure::Failure,
    service::{self, Supervisor},
    start,
};
use agentd_mcp::{GUARD_ARGUMENT, run_guard};
use agentd_sandbox::{host::HELPER_ARGUMENT, run_helper};
use clap::{CommandFactory as _, Parser as _};
use clap_mangen::Man;

/// Read once by the libraries that compute the built-in model.
const THREAD_LIMITS: [&str; 2] = ["CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"];

fn main() -> ExitCode {
    // Before anything else: the sandbox's helper, the guards of MCP servers and the readers of documents, pictures and code have
    // one thread and know nothing of a daemon.
    let mut arguments = env::args_os().skip(1);
    if let Some(first) = arguments.next() {
        if first == HELPER_ARGUMENT {
            return run_helper(arguments.collect(), env::vars_os());
        }
        if first == GUARD_ARGUMENT {
            return run_guard(&arguments.collect::<Vec<_>>());
        }
        let rest: Vec<_> = arguments.collect();
        if let Some(ended) = documents::run_worker(&first, &rest).or_else(|| code::run_worker(&first, &rest)) {
            return ended;
        }
    }
    let args = Args::parse();
    if args.man {
        // Standard output may be gone.
        return Man::new(Args::command())
            .render(&mut std::io::stdout())
            .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where standard error is gone, the exit code still speaks.
            let _ = writeln!(std::io::stderr(), "{}", failure.report());
            failure.exit_code()
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let environment = Environment::capture();
    let supervisor = Supervisor::take(&environment)?;
    settle_environment(&environment);
    start::start(args, environment, supervisor, |_| {})
}

/// Leaves a core to the daemon when the built-in model computes, and takes away what was meant for this process alone,
/// so that no child believes to be meant.
#[allow(unsafe_code, reason = "the environment can only be changed before there are threads, which is here")]
fn settle_environment(environment: &Environment) {
    let threads = embedded::recommended_threads().to_string();
    // SAFETY: no other thread exists yet that could read the environment: `main` has started none, and neither the
    // argument parser nor what ran since does.
    unsafe {
        for name in THREAD_LIMITS.into_iter().filter(|name| environment.text(name).is_none()) {
            env::set_var(name, &threads);
        }
        for name in service::VARIABLES {
            env::remove_var(name);
        }
    }
}
