//! Recordings of sessions: all that came from outside of a session, so that it can be played again without a model,
//! without tools and without a network.
//!
//! - `recording`: its parts; `text`: its form as a file, one fact a line; `capture`: a recording out of a journal.
//! - `request`: a request as it is compared, and the difference between two.
//! - `script`: what of a recording was played; `ports`: the ports that answer from it.
//!
//! A journal holds no requests, since they follow from the rest. They are learned: a recording is played once
//! ([`Play::Learn`]), and the requests that it comes to are kept with it. Later plays are held to them.

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
