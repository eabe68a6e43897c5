//! The wire between the daemon and its clients: package `agentd.v1` over a local socket.
//!
//! - [`v1`]: the generated messages and service stubs; their source, with all documentation for clients in other
//!   languages, is `proto/agentd/v1/*.proto`. [`FILE_DESCRIPTOR_SET`] is what reflection serves.
//! - [`convert`]: messages to the vocabulary of `agentd-core` and back, one topic a file.
//! - [`view`]: what the daemon shows that is no word of the core: a session with what waits in it, its own state.
//! - [`status`]: how failures travel: kind, message and hint.
//! - [`local_servers`]: which model servers listen on this machine.
//! - [`lock_file`]: who holds a data folder, and where they listen.
//! - [`packaged`]: what a package installs beside the programs.
//! - [`start_variables`]: which variables a daemon was started with, without their values.
//! - [`socket`]: where the socket is, how it is bound, adopted, accepted from and connected to.
//! - `codec`: how much memory a stream begins with.
//! - [`client`]: what `agentctl` uses; domain types in and out.

pub mod client;
mod codec;
pub mod convert;
pub mod local_servers;
pub mod lock_file;
pub mod packaged;
pub mod socket;
pub mod start_variables;
pub mod status;
pub mod view;

/// The generated messages and service stubs.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod v1 {
    tonic::include_proto!("agentd.v1");
}

/// The descriptors of all files of the package, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("descriptors");

/// The version of the protocol that this crate speaks. It changes when an older peer would misunderstand.
pub const PROTOCOL_VERSION: u32 = 1;

/// The largest message that either side reads, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The largest input of a turn, in bytes.
pub const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;

/// The largest piece of an upload, in bytes.
pub const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// The largest upload, in bytes.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The response header of `Turns.Turn` that names the session.
pub const SESSION_ID_HEADER: &str = "agentd-session-id";

/// The response header of `Turns.Turn` that names the turn.
pub const TURN_ID_HEADER: &str = "agentd-turn-id";
