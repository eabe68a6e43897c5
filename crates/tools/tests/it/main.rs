//! Tests of the tools through the ports that the engine calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bench;
mod browsing;
mod client_files;
mod commands;
mod encodings;
#[cfg(target_os = "linux")]
mod escapes;
mod folders;
#[cfg(target_os = "linux")]
mod git;
#[cfg(target_os = "linux")]
mod git_worktrees;
mod guides;
mod hard_links;
mod hostile;
#[cfg(target_os = "linux")]
mod keys;
mod links;
#[cfg(target_os = "linux")]
mod packages;
mod passwords;
mod patches;
#[cfg(target_os = "linux")]
mod planting;
mod projects;
mod races;
#[cfg(target_os = "linux")]
mod read_only;
mod reading;
#[cfg(target_os = "linux")]
mod sandbox;
mod saving;
mod searching;
mod state;
#[cfg(target_os = "linux")]
mod toolchains;
mod undoing;
#[cfg(unix)]
mod worktrees;
mod writing;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    policy::Confinement,
    ports::{Snapshots as _, ToolContext, Toolbox as _, Workspace, Workspaces as _},
    session::Mount,
    tool::{FileChange, FileChangeKind, ToolErrorCode, ToolOutput},
};
use agentd_tools::WorkspaceFolders;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::bench::*;
