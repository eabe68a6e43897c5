//! The `agentd` binary: steps that must happen before the first thread is started, and the exit code. All other code is
//! in the library.

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

/// Variables that limit the threads of libraries used by the built-in model. The libraries read each variable once.
const THREAD_LIMITS: [&str; 2] = ["CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"];

fn main() -> ExitCode {
    // Must come first: the sandbox's helper, the guards of MCP servers and the readers of documents, pictures and code
    // are single-threaded and need nothing from the daemon.
    let mut arguments = env::args_os().skip(1);
    if let Some(first) = arguments.next() {
        if first == HELPER_ARGUMENT {
            return run_helper(arguments.collect(), env::vars_os());
        }
        if first == GUARD_ARGUMENT {
            return run_guard(&arguments.collect::<Vec<_>>());
        }
        let rest: Vec<_> = arguments.collect();
        if let Some(exit_code) = documents::run_worker(&first, &rest).or_else(|| code::run_worker(&first, &rest)) {
            return exit_code;
        }
    }
    let args = Args::parse();
    if args.man {
        // Standard output may be closed.
        return Man::new(Args::command())
            .render(&mut std::io::stdout())
            .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed, the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "{}", failure.report());
            failure.exit_code()
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let environment = Environment::capture();
    let supervisor = Supervisor::take(&environment)?;
    prepare_environment(&environment);
    start::start(args, environment, supervisor, |_| {})
}

/// Sets thread limits that leave a core free while the built-in model computes. Removes the supervisor's variables,
/// which child processes would otherwise use as their own.
#[allow(unsafe_code, reason = "the environment may only be changed while the process has a single thread, as here")]
fn prepare_environment(environment: &Environment) {
    let threads = embedded::recommended_threads().to_string();
    // SAFETY: no other thread can read the environment: `main` has not started any thread, and neither the argument
    // parser nor the other code before this point starts one.
    unsafe {
        for name in THREAD_LIMITS.into_iter().filter(|name| environment.text(name).is_none()) {
            env::set_var(name, &threads);
        }
        for name in service::VARIABLES {
            env::remove_var(name);
        }
    }
}
