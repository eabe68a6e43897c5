//! `agentctl dial-stdio`: the daemon's socket on standard input and output, for clients of other machines.

use std::path::PathBuf;

use agentd_proto::{client::ClientError, socket};
use clap::Args;
use tokio::io::{copy, split, stdin, stdout};

use crate::{
    daemon::{self, DaemonLocation, SearchResult},
    exit::Exit,
    failure::Failure,
    flags::Global,
};

/// The arguments of `dial-stdio`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ssh me@server agentctl dial-stdio       what `agentctl --host ssh://me@server` runs

Starts the daemon if none is running. Speaks gRPC, as the daemon's socket does, and ends with either side.")]
pub(crate) struct DialArgs {
    /// Do not start the daemon; the exit code is 3 if none is running, and 1 if it does not answer
    #[arg(long)]
    no_start: bool,
}

/// Runs the command `agentctl dial-stdio`.
pub(crate) async fn handle(global: &Global, args: DialArgs) -> anyhow::Result<Exit> {
    // `AGENTD_HOST` of this machine is for its users, and could name this machine itself.
    if global.host.is_some() {
        daemon::refuse_host(global, "dial-stdio")?;
    }
    let path = daemon_socket(global, args.no_start).await?;
    let (mut from_daemon, mut to_daemon) = split(socket::connect(&path).await.map_err(ClientError::from)?);
    let (mut input, mut output) = (stdin(), stdout());
    // An end of one direction ends both, because gRPC needs both; an error means the same.
    tokio::select! {
        _ = copy(&mut input, &mut to_daemon) => {}
        _ = copy(&mut from_daemon, &mut output) => {}
    }
    Ok(Exit::Done)
}

/// Finds the socket of the daemon. The other client checks the daemon's version, so that it can stop any daemon.
async fn daemon_socket(global: &Global, no_start: bool) -> Result<PathBuf, Failure> {
    let location = DaemonLocation::on_this_machine(global)?;
    if let SearchResult::Reached(_, socket) = location.search(|client, _| Ok(client)).await {
        return Ok(socket);
    }
    if !no_start {
        return Ok(daemon::connect_at(location).await?.socket);
    }
    match daemon::connect_existing(&location).await {
        Ok(Some(daemon)) => Ok(daemon.socket),
        Ok(None) => Err(Failure::unreachable("no daemon is running")),
        Err(failure) => Err(Failure { exit: Exit::Failed, ..failure }),
    }
}
