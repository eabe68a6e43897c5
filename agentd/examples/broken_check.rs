//! The daemon with one more check, which is broken, for tests: it fails on every call whose arguments have the word
//! `brittle`. All else is as in the daemon itself.

use std::{env, error::Error, process::ExitCode, sync::Arc, time::Instant};

use agentd::{
    app::{self, StartOptions},
    config::Flags,
    control,
    environment::{Args, Environment},
    listener::SocketPlaces,
    lock::FolderLock,
    logging::{self, Destination},
    paths::{ConfigSource, Paths},
    redact::Redactor,
    service::Supervisor,
};
use agentd_policy::{CallContext, Check, Policy, Rules};
use agentd_sandbox::{host::HELPER_ARGUMENT, run_helper};

/// A check as it is with a mistake in it.
#[derive(Debug)]
struct Broken;

impl Check for Broken {
    fn objects(&self, facts: &CallContext<'_>) -> Option<String> {
        assert!(!facts.arguments.contains("brittle"), "a mistake in a check");
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

fn run() -> Result<(), Box<dyn Error>> {
    let environment = Environment::capture();
    let socket = environment.path("AGENTD_SOCKET").ok_or("AGENTD_SOCKET is not set")?;
    let paths = Paths::resolve(&Args::default(), &environment, &env::current_dir()?)?;
    let recipe = ConfigSource::new(paths, environment, Flags::default());
    let mut config = recipe.read()?;
    config.rules.policy = Arc::new(Policy::new(Rules::compile(&config.rules.file)?).with_check(Arc::new(Broken)));
    let redactor = Redactor::default();
    redactor.learn(control::secrets(&config, &recipe.env));
    let log = logging::start(&Destination::Stderr, &config.daemon.service, redactor)?;
    std::fs::create_dir_all(&recipe.paths.data)?;
    let mut lock = FolderLock::take(&recipe.paths.data)?;
    let sockets = SocketPlaces { first: socket, others: Vec::new(), is_named: true };
    let beginning =
        StartOptions { started: Instant::now(), config, recipe, sockets, supervisor: Supervisor::default(), log };
    Ok(tokio::runtime::Runtime::new()?.block_on(app::run(beginning, &mut lock))?)
}
