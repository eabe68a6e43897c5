//! The local socket: where it is, how it is bound or adopted, whom it lets in, and how it is connected to.
//!
//! - [`socket_path`]: the rule for the socket's place, a pure function of the environment's values; [`other_paths`]: where
//!   it is when that place cannot be had.
//! - [`bind`](bind()), [`adopt`]: the listening end; [`Incoming`] drops everybody but the owner.
//! - [`connect`](connect()): the calling end, which makes sure that its own user listens.
//! - [`Io`]: one connection, as both ends of tonic want it.

mod bind;
mod error;
mod io;
mod path;

pub use bind::{SocketFile, adopt, bind, is_live};
pub use error::SocketError;
pub use io::{Incoming, Io, PeerInfo, connect};
pub use path::{SocketPlace, other_paths, socket_path};
