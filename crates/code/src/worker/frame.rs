//! Frames between the daemon and a worker: a length, and as much JSON.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

use agentd_core::code::{CodeProgress, CodeQuestion, CodeReply};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::walk::OuterRules;

/// Bytes of a frame at most. The longest answer is an outline.
pub(super) const MAX_FRAME: usize = 4 << 20;

/// Job of a worker, as its argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Real path of the folder.
    pub(super) root: PathBuf,
    /// Bytes of address space.
    pub(super) memory: u64,
    /// Files that are not read: a worker before this one died of them.
    pub(super) excluded: Vec<String>,
    /// Rules of git above the folder, which the worker cannot read.
    pub(super) outer: Vec<OuterRules>,
    /// Set if each file is told before it is read.
    pub(super) is_careful: bool,
}

/// Question to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) question: CodeQuestion,
}

/// Word of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// A file is read next.
    Reading(String),
    /// The index is so far.
    Progress(CodeProgress),
    /// The answer to the question of that number.
    Reply(u64, CodeReply),
    /// The reason why there is none.
    Failed(u64, String),
    /// There is another folder at the path now, which this worker has no rights to.
    Replaced(u64),
}

/// Bytes of a frame.
///
/// # Errors
/// When it is longer than a frame may be.
pub(super) fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(frame)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_FRAME);
    let length = length.ok_or_else(|| io::Error::other("the answer is too long"))?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Writes a frame.
///
/// # Errors
/// When nobody reads it, or it is too long.
pub(super) fn write(out: &mut impl Write, frame: &impl Serialize) -> io::Result<()> {
    out.write_all(&encode(frame)?)
}

/// Reads a frame; none at the end of the stream.
///
/// # Errors
/// When the stream ends within one, or it is none.
pub(super) fn read<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; checked_length(length)?];
    input.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Length of a frame that begins so.
///
/// # Errors
/// When it is longer than a frame may be.
pub(super) fn checked_length(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length);
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_FRAME)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(id: u64, query: String, below: String, limit: usize, rest: Vec<u8>) {
            let request = Request { id, question: CodeQuestion::Search { query, below, limit } };
            let mut bytes = encode(&request).unwrap();
            bytes.extend(&rest);
            let mut stream = bytes.as_slice();
            prop_assert_eq!(read::<Request>(&mut stream).unwrap(), Some(request));
            prop_assert_eq!(stream, rest.as_slice());
        }

        #[test]
        fn nonsense_is_refused_and_takes_no_memory(bytes: Vec<u8>) {
            let _ = read::<Request>(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_stream_may_end_between_frames_only() {
        assert_eq!(read::<Request>(&mut &b""[..]).unwrap(), None);
        assert!(read::<Request>(&mut &b"\x05\0\0\0{}"[..]).is_err());
        assert!(read::<Request>(&mut &b"\xff\xff\xff\xff"[..]).is_err());
    }
}
