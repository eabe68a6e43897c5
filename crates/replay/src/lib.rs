//! Recordings of sessions. A recording contains all external input of a session, so that the session can be replayed
//! without a model, tools or network.
//!
//! - `recording`: the data types; `text`: the file format, with one fact per line; `capture`: creates a recording from
//!   a journal.
//! - `request`: the canonical form of requests, and the difference between two requests.
//! - `script`: the state of a replay; `ports`: the ports that answer from a script.
//!
//! A journal contains no requests, since they follow from the other facts. A recording is therefore replayed once
//! ([`Play::Learn`]) and stored with the resulting requests. Later replays are compared with the stored requests.

mod capture;
mod ports;
mod recording;
mod request;
mod script;
mod text;

pub use capture::{CapturedSession, capture};
pub use ports::{PlayedModels, PlayedToolbox};
pub use recording::{
    Exchange, RecordedAnswer, RecordedEnd, RecordedFinish, RecordedProject, RecordedQuestion, RecordedRequest,
    RecordedResult, RecordedStart, RecordedTurn, Recording, RecordingHead, SpokenPart, SubagentVoice, TurnFact,
    VERSION,
};
pub use request::{Redaction, RequestDifference};
pub use script::{Play, PlayProblem, Script};
pub use text::{MAX_RECORDING, RecordingError, read, redacted, write};
