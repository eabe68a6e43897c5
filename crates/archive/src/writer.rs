//! Writes an archive in one pass with bounded memory.

use std::io::{self, Read, Write};

use agentd_core::{archive::TreeFile, event::Event, ids::SessionId};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::{FILES, JOURNAL, MANIFEST, Manifest, SUMS};

/// Size of a part's events in bytes after which the next part starts.
const PART_BYTES: usize = 1 << 20;

/// Writer for one archive.
pub struct ArchiveWriter<W: Write> {
    tar: Builder<GzEncoder<W>>,
    sums: String,
    /// Session whose events are buffered.
    session: Option<SessionId>,
    /// Number of the session's last part.
    part: u32,
    gathered: Vec<u8>,
}

impl<W: Write> ArchiveWriter<W> {
    /// Starts an archive with its manifest.
    ///
    /// # Errors
    /// Fails if the manifest cannot be written.
    pub fn begin(out: W, manifest: &Manifest) -> io::Result<Self> {
        let tar = Builder::new(GzEncoder::new(out, Compression::fast()));
        let mut writer = Self { tar, sums: String::new(), session: None, part: 0, gathered: Vec::new() };
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        writer.member(MANIFEST, 0o600, None, text.len() as u64, &mut text.as_slice())?;
        Ok(writer)
    }

    /// Adds the next event. All events of a session must be consecutive.
    ///
    /// # Errors
    /// Fails if the event cannot be written.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.session != Some(event.session_id) {
            self.end_part()?;
            (self.session, self.part) = (Some(event.session_id), 0);
        }
        serde_json::to_writer(&mut self.gathered, event)?;
        self.gathered.push(b'\n');
        if self.gathered.len() >= PART_BYTES { self.end_part() } else { Ok(()) }
    }

    /// Adds a file. Must be called after all events. If the file has been truncated meanwhile, pads it with zeros so
    /// that the rest of the archive stays readable.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn file(&mut self, file: &TreeFile, content: &mut dyn Read) -> io::Result<()> {
        self.end_part()?;
        let mode = if file.executable { 0o700 } else { 0o600 };
        let mut content = content.chain(io::repeat(0));
        self.member(&format!("{FILES}{}", file.path), mode, file.modified, file.bytes, &mut content)
    }

    /// Finishes the archive.
    ///
    /// # Errors
    /// Fails if the archive cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_part()?;
        let sums = std::mem::take(&mut self.sums);
        self.member(SUMS, 0o600, None, sums.len() as u64, &mut sums.as_bytes())?;
        self.tar.into_inner()?.finish()
    }

    fn end_part(&mut self) -> io::Result<()> {
        let Some(session) = self.session.filter(|_| !self.gathered.is_empty()) else { return Ok(()) };
        self.part += 1;
        let mut events = std::mem::take(&mut self.gathered);
        let name = format!("{JOURNAL}{session}/{:06}.jsonl", self.part);
        self.member(&name, 0o600, None, events.len() as u64, &mut events.as_slice())?;
        events.clear();
        self.gathered = events;
        Ok(())
    }

    fn member(
        &mut self,
        name: &str,
        mode: u32,
        modified: Option<u64>,
        size: u64,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(mode);
        header.set_mtime(modified.unwrap_or(0));
        header.set_size(size);
        let mut hashing = Hashing { content: content.take(size), hash: Sha256::new() };
        self.tar.append_data(&mut header, name, &mut hashing)?;
        let hash = hex(&hashing.hash.finalize());
        self.sums.push_str(&format!("{hash}  {name}\n"));
        Ok(())
    }
}

/// Reader that hashes the bytes read from `content`.
pub(crate) struct Hashing<R> {
    pub(crate) content: R,
    pub(crate) hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
