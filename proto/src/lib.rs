//! The protocol between the daemon and its clients: package `agentd.v1` over a local socket.
//!
//! - [`v1`]: the generated messages and service stubs. Their source, with the documentation for clients in other
//!   languages, is `proto/agentd/v1/*.proto`. [`FILE_DESCRIPTOR_SET`] is served by reflection.
//! - [`convert`]: conversions between messages and the types of `agentd-core`, one topic per file.
//! - [`view`]: types shown by the daemon that are not in the core, such as the status, or a session with its pending
//!   interrupts.
//! - [`status`]: transport of errors: kind, message and hint.
//! - [`local_servers`]: model servers that listen on this machine.
//! - [`lock_file`]: the process that has locked a data folder, and its socket.
//! - [`packaged`]: files installed next to the programs.
//! - [`start_variables`]: digests of the environment variables with which a daemon was started.
//! - [`socket`]: path of the socket, and binding, adopting, accepting and connecting.
//! - `codec`: initial buffer sizes of a stream.
//! - [`client`]: the client library used by `agentctl`, with domain types in its interface.

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

/// Descriptors of all files of the package, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("descriptors");

/// Version of the protocol in this crate. Incremented when an older peer would misinterpret a message.
pub const PROTOCOL_VERSION: u32 = 1;

/// Maximum size of a message in either direction, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of a turn's input, in bytes.
pub const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of a piece of an upload, in bytes.
pub const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Maximum size of an upload, in bytes.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// Response header of `Turns.Turn` with the session ID.
pub const SESSION_ID_HEADER: &str = "agentd-session-id";

/// Response header of `Turns.Turn` with the turn ID.
pub const TURN_ID_HEADER: &str = "agentd-turn-id";
