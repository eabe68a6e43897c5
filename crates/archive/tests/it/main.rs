//! Tests for archives and foreign histories through the public interface: written archives can be read back, and
//! invalid archives are rejected with a reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod foreign;
mod hostile;
mod real_histories;
mod round;

use std::io::Read;

use agentd_archive::{ArchiveError, ArchiveWriter, Manifest, Unpack, unpack};
use agentd_core::{
    Timestamp,
    archive::{ArchivedSession, TreeFile},
    event::{Event, EventKind},
    ids::SessionId,
    session::SessionSettings,
};

/// Receiver that collects the content of an archive.
#[derive(Debug, Default, PartialEq)]
struct Unpacked {
    sessions: Vec<ArchivedSession>,
    events: Vec<Event>,
    files: Vec<(TreeFile, Vec<u8>)>,
}

impl Unpack for Unpacked {
    type Error = ArchiveError;

    fn manifest(&mut self, manifest: &Manifest) -> Result<(), ArchiveError> {
        self.sessions.clone_from(&manifest.sessions);
        Ok(())
    }

    fn events(&mut self, session: SessionId, events: Vec<Event>) -> Result<(), ArchiveError> {
        assert!(events.iter().all(|event| event.session_id == session));
        self.events.extend(events);
        Ok(())
    }

    fn file(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        self.files.push((file.clone(), bytes));
        Ok(())
    }
}

fn read(archive: &[u8]) -> Result<Unpacked, ArchiveError> {
    let mut unpacked = Unpacked::default();
    unpack(archive, &mut unpacked).map(|()| unpacked)
}

fn session(events: u64) -> ArchivedSession {
    let settings = SessionSettings::default();
    ArchivedSession { id: SessionId::generate(), created_at: Timestamp::UNIX_EPOCH, settings, events, context: None }
}

fn event(session: SessionId, seq: u64, words: &str) -> Event {
    let kind = EventKind::Warning { code: "test".to_owned(), message: words.to_owned(), retry_in_ms: None };
    Event { session_id: session, turn_id: None, seq, at: Timestamp::UNIX_EPOCH, kind }
}

fn manifest(sessions: Vec<ArchivedSession>) -> Manifest {
    Manifest::new("agentd 0".to_owned(), Timestamp::UNIX_EPOCH, "A title".to_owned(), false, sessions)
}

fn file(path: &str, bytes: usize) -> TreeFile {
    TreeFile { path: path.to_owned(), executable: false, modified: Some(1_700_000_000), bytes: bytes as u64 }
}

/// Builds a small valid archive.
fn sample_archive() -> Vec<u8> {
    let session = session(2);
    let id = session.id;
    let mut archive = ArchiveWriter::begin(Vec::new(), &manifest(vec![session])).unwrap();
    archive.event(&event(id, 1, "one")).unwrap();
    archive.event(&event(id, 2, "two")).unwrap();
    archive.file(&file("uploads/a.txt", 5), &mut &b"hello"[..]).unwrap();
    archive.finish().unwrap()
}
