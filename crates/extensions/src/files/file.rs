//! Content read from one file.

use std::{
    fs::File,
    io::{self, Read as _},
    sync::OnceLock,
};

use agentd_workspace::encoding::{Document, detect};
use sha2::{Digest as _, Sha256};

use super::disk::Stamp;
use crate::files::front::{Flaw, Front};

/// Content of a file.
#[derive(Debug)]
pub(crate) struct GuideText {
    pub(crate) text: String,
    /// Its whole size, which is that of the text where all of it was read.
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// The same for the same file, whatever its name.
    pub(crate) identity: (u64, u64),
    /// Its front matter, or why there is none, once it was asked for.
    pub(crate) front: OnceLock<Result<Front, Flaw>>,
    /// Set once the files of the skill whose it is were found to be usable.
    pub(crate) is_sound: OnceLock<()>,
}

/// Reads the first `most` bytes of a file.
pub(crate) fn read(file: File, stamp: Stamp, most: usize) -> io::Result<GuideText> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes)?;
    let whole = stamp.size <= limit;
    let charset = detect(&bytes, whole).map_err(|what| io::Error::other(format!("it is {what}")))?;
    let digest = Sha256::digest(&bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut text = Document::decode(bytes, charset).text().to_owned();
    // The last character may have been cut in two.
    while !whole && text.ends_with(char::REPLACEMENT_CHARACTER) {
        text.pop();
    }
    text.retain(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    // The text may be longer than the file: it has another encoding.
    let bytes = if whole { text.len() as u64 } else { stamp.size.max(text.len() as u64 + 1) };
    let (front, is_sound) = (OnceLock::new(), OnceLock::new());
    Ok(GuideText { text, bytes, digest, identity: stamp.identity, front, is_sound })
}
