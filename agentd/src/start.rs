//! Startup: from arguments and environment to a running daemon.

use std::{
    fs::DirBuilder,
    io,
    num::NonZero,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentd_proto::socket::{SocketSettings, other_paths, socket_path};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::{
    app,
    config::{Config, layers},
    control,
    environment::{Args, Environment, objection},
    failure::Failure,
    footprint,
    listener::{self, SocketPaths},
    lock::FolderLock,
    logging,
    paths::{ConfigSource, Paths},
    redact::Redactor,
    service::Supervisor,
};

/// Time limit for blocked threads when the process ends.
const SHUTDOWN_WAIT: Duration = Duration::from_millis(500);

/// Desired limit on open files. Every client and every model call uses one file, so the usual limit of 1024 is too low
/// for 500 turns.
const OPEN_FILES: u64 = 16_384;

/// Runs the daemon until it ends. `change` adjusts the configuration after it is read.
///
/// # Errors
/// Fails if the daemon cannot start or does not stop as requested.
pub fn start(
    args: &Args,
    env: Environment,
    supervisor: Supervisor,
    change: impl FnOnce(&mut Config),
) -> Result<(), Failure> {
    let started = Instant::now();
    let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let paths = Paths::resolve(args, &env, &current)?;
    let source = ConfigSource::new(paths, env, args.log_level.clone());
    let mut config = source.read()?;
    change(&mut config);
    let sockets = sockets(args, &source, &current)?;
    if args.check_config {
        report(&config, &source.paths, &sockets.first);
        return Ok(());
    }

    let redactor = Redactor::default();
    redactor.learn(control::secrets(&config, &source.env));
    redactor.follow(config.renewable_keys());
    let log_file = args.log_file.as_ref().map(|path| current.join(path));
    let is_journald = source.env.text("JOURNAL_STREAM").is_some();
    let log = logging::start(log_file.as_deref(), is_journald, &config.daemon.service, redactor)?;
    for problem in config.mcp.broken.values() {
        tracing::warn!("an MCP server is down: {problem}");
    }
    // Held until the function returns, so that no other daemon opens the journal before this one closes it.
    let mut lock = own_data_folder(&source.paths)?;
    allow_many_files();
    footprint::bound_heaps();
    let runtime = runtime()?;
    let outcome = runtime.block_on(app::run(started, config, source, sockets, supervisor, log, &mut lock));
    runtime.shutdown_timeout(SHUTDOWN_WAIT);
    outcome
}

fn sockets(args: &Args, source: &ConfigSource, current: &Path) -> Result<SocketPaths, Failure> {
    let ConfigSource { paths, env, .. } = source;
    let explicit_socket = args.socket.as_ref().map(|path| current.join(path)).or_else(|| env.path("AGENTD_SOCKET"));
    let runtime_dir = env.path("XDG_RUNTIME_DIR").map(Into::into);
    let socket_settings =
        SocketSettings::of_this_user(explicit_socket.map(Into::into), runtime_dir, paths.data.clone());
    let first = socket_path(&socket_settings).map_err(listener::failure)?;
    Ok(SocketPaths { first, others: other_paths(&socket_settings), is_named: socket_settings.named().is_some() })
}

/// Creates the data folder with mode 0700, locks it and makes it the working directory, because the folder from which
/// the daemon was started may be removed.
fn own_data_folder(paths: &Paths) -> Result<FolderLock, Failure> {
    let refuse = |verb: &str, error: io::Error| {
        Failure::broken(format!("could not {verb} the data folder {}", paths.data.display()))
            .with_source(error)
            .with_hint(
                "use a folder that you own, on a writable disk with free space; AGENTD_DATA_DIR sets another one",
            )
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&paths.data).map_err(|error| refuse("create", error))?;
    let metadata = std::fs::metadata(&paths.data).map_err(|error| refuse("read", error))?;
    if let Some(objection) = objection(&metadata) {
        let shown = paths.data.display();
        return Err(Failure::broken(format!("the data folder {shown} has unsafe permissions: {objection}")).with_hint(format!(
            "if it is yours, `chown \"$(id -u)\" '{shown}'` and `chmod 700 '{shown}'`; AGENTD_DATA_DIR sets another one"
        )));
    }
    let lock = FolderLock::take(&paths.data)?;
    std::env::set_current_dir(&paths.data).map_err(|error| refuse("enter", error))?;
    Ok(lock)
}

/// Raises the soft limit on open files up to the hard limit. On failure, the daemon serves fewer concurrent turns.
fn allow_many_files() {
    let raise_result = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(now, max)| match OPEN_FILES.min(max) {
        wanted if wanted > now => setrlimit(Resource::RLIMIT_NOFILE, wanted, max),
        _ => Ok(()),
    });
    if let Err(error) = raise_result {
        tracing::warn!("could not raise the limit of open files: {error}");
    }
}

/// Builds a runtime with few workers: the daemon mostly waits, and the cores are needed for tools and models. Long work
/// (journal, documents, built-in model, files) runs on separate threads. Each worker that finds work wakes another
/// worker to search for more, which on two cores would delay the first token of an answer.
fn runtime() -> Result<Runtime, Failure> {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    Builder::new_multi_thread()
        .worker_threads((cores / 2).clamp(1, 4))
        .max_blocking_threads(64)
        .thread_name("agentd-worker")
        .enable_all()
        .build()
        .map_err(|error| Failure::broken("could not start the runtime").with_source(error))
}

/// Prints the output of `--check-config`: all paths, and the source of every value that is not a default. Never prints
/// a secret.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the option prints to the terminal")]
fn report(config: &Config, paths: &Paths, socket: &Path) {
    if config.mcp.broken.is_empty() {
        println!("the configuration is valid");
    }
    for problem in config.mcp.broken.values().cloned().chain(layers::exposed_key_files(&config.files)) {
        eprintln!("{problem}");
    }
    println!("configuration folder: {}", paths.config.display());
    println!("data folder: {}", paths.data.display());
    println!("socket: {}", socket.display());
    for (key, origin) in config.origins.keys.iter().filter(|(_, origin)| **origin != crate::config::Origin::BuiltIn) {
        println!("{key}: set by {origin}");
    }
}
