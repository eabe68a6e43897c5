//! Clients that hold files of the project for a turn.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::client_file::{ClientFileAnswer, FileAction, NoAnswer};

/// The client that holds the project's files for a turn. A tool asks it only about a path that it could open itself, and
/// trusts nothing of the answer.
pub trait ClientFiles: Debug + Send + Sync {
    /// The capabilities of the client that would be asked now; none where there is none, and the disk alone counts.
    fn access(&self) -> Option<ClientFileAccess>;

    /// Asks about a file below the project's folder. It ends within seconds, whatever the client does.
    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>>;
}

/// Capabilities of a client that holds files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFileAccess {
    /// It gives texts.
    Read,
    /// It gives and takes texts.
    ReadWrite,
}
