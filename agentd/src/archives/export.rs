//! Writes a session as an archive, or hands out its events.

use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
};

use agentd_archive::{ArchiveWriter, MAX_SESSIONS, Manifest};
use agentd_core::{
    Timestamp,
    archive::{ArchivedSession, TreeFile},
    error::ErrorKind,
    event::Event,
    files::FilesCopied,
    session::SessionSummary,
};
use agentd_engine::{Engine, EngineError, SessionExport};
use agentd_proto::client::ExportedContent;
use agentd_replay::Redaction;
use tokio::runtime::Handle;

use super::redact::ArchiveRedactor;

/// Size of the largest text file in which secrets are masked, in bytes.
const MAX_TEXT: u64 = 32 << 20;

/// Failure of an export.
#[derive(Debug)]
pub enum ExportFailure {
    /// The engine cannot read it.
    Engine(EngineError),
    /// It cannot be written: mostly because the client is gone.
    Io(io::Error),
}

impl From<EngineError> for ExportFailure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for ExportFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A session that leaves. Every method blocks.
pub struct Exporter {
    engine: Engine,
    export: SessionExport,
    redactor: Option<ArchiveRedactor>,
    runtime: Handle,
}

impl Exporter {
    /// Of that session, with what masks secrets where they are not to leave. Must be called inside of a runtime.
    #[must_use]
    pub fn new(engine: Engine, export: SessionExport, redact: Option<Redaction>) -> Self {
        Self { engine, export, redactor: redact.map(ArchiveRedactor::new), runtime: Handle::current() }
    }

    /// The session as lists show it.
    #[must_use]
    pub fn summary(&self) -> SessionSummary {
        SessionSummary { title: self.masked(&self.export.summary.title), ..self.export.summary.clone() }
    }

    fn masked(&self, text: &str) -> String {
        self.redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text))
    }

    /// Hands out all events.
    ///
    /// # Errors
    /// When they cannot be read, or the first of `take`.
    pub fn events(&self, take: &mut dyn FnMut(Event) -> io::Result<()>) -> Result<u64, ExportFailure> {
        let mut count = 0;
        for session in &self.export.sessions {
            let mut after = 0;
            loop {
                let page = self.runtime.block_on(self.engine.exported_events(session, after))?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                count += page.len() as u64;
                for event in page {
                    take(match &self.redactor {
                        Some(redactor) => redactor.event(event),
                        None => event,
                    })?;
                }
            }
        }
        Ok(count)
    }

    /// Writes an archive.
    ///
    /// # Errors
    /// When the session cannot be read or the archive cannot be written.
    pub fn archive(&self, out: impl Write + Send) -> Result<ExportedContent, ExportFailure> {
        let sessions = self.export.sessions.len();
        if sessions > MAX_SESSIONS {
            let message =
                format!("the session has {} subagents, and an archive holds {MAX_SESSIONS} sessions", sessions - 1);
            let hint = "`--format json` or `markdown` exports the session itself";
            return Err(EngineError::new(ErrorKind::InvalidInput, message).with_hint(hint).into());
        }
        let mut archive = ArchiveWriter::begin(out, &self.manifest())?;
        let events = self.events(&mut |event| archive.event(&event))?;
        let (mut written, mut skipped, mut taken) = (FilesCopied::default(), 0, BTreeSet::new());
        if let Some(session) = self.export.sessions.first() {
            let found = self.engine.exported_files(session.id, &mut |file, content| {
                let added = self.file(&mut archive, file, content, &mut taken)?;
                match added {
                    Some(bytes) => {
                        written.files += 1;
                        written.bytes += bytes;
                    }
                    None => skipped += 1,
                }
                Ok(())
            })?;
            written.left_out = found.left_out + skipped;
        }
        archive.finish()?.flush()?;
        Ok(ExportedContent { events, files: written })
    }

    fn manifest(&self) -> Manifest {
        let SessionExport { summary, sessions } = &self.export;
        let made_by = format!("agentd {}", env!("CARGO_PKG_VERSION"));
        let session = |session: &ArchivedSession| match &self.redactor {
            Some(redactor) => redactor.session(session.clone()),
            None => session.clone(),
        };
        let sessions = sessions.iter().map(session).collect();
        Manifest::new(made_by, Timestamp::now(), self.masked(&summary.title), self.redactor.is_some(), sessions)
    }

    /// Adds a file, and returns its bytes; none where it is left out, because nobody can look for secrets in it.
    fn file(
        &self,
        archive: &mut ArchiveWriter<impl Write>,
        file: TreeFile,
        content: &mut dyn Read,
        taken: &mut BTreeSet<String>,
    ) -> io::Result<Option<u64>> {
        let Some(redactor) = &self.redactor else {
            archive.file(&file, content)?;
            return Ok(Some(file.bytes));
        };
        if file.bytes > MAX_TEXT {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        content.take(MAX_TEXT).read_to_end(&mut bytes)?;
        let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
        if text.contains('\0') {
            return Ok(None);
        }
        let text = redactor.text(&text);
        let file = TreeFile { bytes: text.len() as u64, path: redactor.path(&file.path, taken), ..file };
        archive.file(&file, &mut text.as_bytes())?;
        Ok(Some(file.bytes))
    }
}
