//! Exports a session as an archive or as events. On request, known secrets and strings that look like secrets are
//! masked, as in the audit log.

use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
};

use agentd_archive::{ArchiveWriter, MAX_SESSIONS, Manifest};
use agentd_audit::redact::scrub;
use agentd_core::{
    Timestamp,
    archive::{ArchivedSession, TreeFile},
    error::ErrorKind,
    event::{Event, EventKind},
    files::FilesCopied,
    session::SessionSummary,
};
use agentd_engine::{Engine, EngineError, SessionExport};
use agentd_proto::client::ExportedContent;
use agentd_replay::Redaction;
use serde_json::Value;
use tokio::runtime::Handle;

/// Maximum size of a text file in which secrets are masked, in bytes. Larger files are omitted.
const MAX_TEXT: u64 = 32 << 20;

/// Failure of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportFailure {
    /// The engine cannot read the session.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The output cannot be written, usually because the client disconnected.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Export of one session. Every method blocks.
pub struct Exporter {
    engine: Engine,
    export: SessionExport,
    redactor: Option<ArchiveRedactor>,
    runtime: Handle,
}

impl Exporter {
    /// Creates the export of a session. `redact` masks secrets, if requested. Must be called inside a runtime.
    pub fn new(engine: Engine, export: SessionExport, redact: Option<Redaction>) -> Self {
        Self { engine, export, redactor: redact.map(ArchiveRedactor), runtime: Handle::current() }
    }

    /// Returns the summary of the session, as in lists.
    pub fn summary(&self) -> SessionSummary {
        SessionSummary { title: self.masked(&self.export.summary.title), ..self.export.summary.clone() }
    }

    fn masked(&self, text: &str) -> String {
        self.redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text))
    }

    /// Passes all events to `take`, and returns their number.
    ///
    /// # Errors
    /// Fails if the events cannot be read, or with the first error of `take`.
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
    /// Fails if the session cannot be read or the archive cannot be written.
    pub fn archive(&self, out: impl Write + Send) -> Result<ExportedContent, ExportFailure> {
        let sessions = self.export.sessions.len();
        if sessions > MAX_SESSIONS {
            let message = format!(
                "the session has {} subagents, and an archive contains at most {MAX_SESSIONS} sessions",
                sessions - 1
            );
            let hint = "`--format json` or `markdown` exports the session itself";
            return Err(EngineError::new(ErrorKind::InvalidInput, message).with_hint(hint).into());
        }
        let mut archive = ArchiveWriter::begin(out, &self.manifest())?;
        let events = self.events(&mut |event| archive.event(&event))?;
        let (mut written, mut skipped, mut used_paths) = (FilesCopied::default(), 0, BTreeSet::new());
        if let Some(session) = self.export.sessions.first() {
            let found = self.engine.exported_files(session.id, &mut |file, content| {
                let added = self.file(&mut archive, file, content, &mut used_paths)?;
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
        let creator = format!("agentd {}", env!("CARGO_PKG_VERSION"));
        let session = |session: &ArchivedSession| match &self.redactor {
            Some(redactor) => redactor.session(session.clone()),
            None => session.clone(),
        };
        let sessions = sessions.iter().map(session).collect();
        Manifest::new(creator, Timestamp::now(), self.masked(&summary.title), self.redactor.is_some(), sessions)
    }

    /// Adds a file and returns its size in bytes. Returns `None` if the file is omitted because it cannot be searched
    /// for secrets.
    fn file(
        &self,
        archive: &mut ArchiveWriter<impl Write>,
        file: TreeFile,
        content: &mut dyn Read,
        used_paths: &mut BTreeSet<String>,
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
        let file = TreeFile { bytes: text.len() as u64, path: redactor.path(&file.path, used_paths), ..file };
        archive.file(&file, &mut text.as_bytes())?;
        Ok(Some(file.bytes))
    }
}

/// Header of a secret that spans several lines, which may be separate strings in a list.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Masks secrets with the given function.
struct ArchiveRedactor(Redaction);

impl ArchiveRedactor {
    /// Masks secrets in a text. JSON stays valid, unless a secret spans several of its strings.
    fn text(&self, text: &str) -> String {
        let may_be_json = text.trim_start().starts_with(['{', '[']);
        let Some(value) = may_be_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten() else {
            return (self.0)(text);
        };
        let mut masked = value.clone();
        scrub(&mut masked, &|text| (self.0)(text));
        // Parsing drops all but the last value of a duplicate key, so the whole text is checked as well.
        if masked == value && (self.0)(text) == text {
            return text.to_owned();
        }
        let masked = masked.to_string();
        if masked.contains(PRIVATE_KEY) { (self.0)(&masked) } else { masked }
    }

    /// Masks secrets in a path. The result differs from all `used_paths`.
    fn path(&self, path: &str, used_paths: &mut BTreeSet<String>) -> String {
        let parts: Vec<String> = path.split('/').map(|part| (self.0)(part).replace('/', "_")).collect();
        let masked = parts.join("/");
        let (stem, end) = match masked.rsplit_once('.') {
            Some((stem, end)) if !stem.is_empty() && !end.contains('/') => (stem.to_owned(), format!(".{end}")),
            _ => (masked.clone(), String::new()),
        };
        let numbered = (2..).map(|number| format!("{stem}-{number}{end}"));
        let free = std::iter::once(masked).chain(numbered).find(|name| !used_paths.contains(name)).unwrap_or_default();
        used_paths.insert(free.clone());
        free
    }

    /// Masks secrets in an event. The opaque provider data of a message is removed, because it cannot be searched.
    fn event(&self, mut event: Event) -> Event {
        if let EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } = &mut event.kind {
            item.origin = None;
        }
        let masked = serde_json::to_value(&event.kind).and_then(|value| {
            let mut masked = value.clone();
            scrub(&mut masked, &|text| self.text(text));
            serde_json::from_value(masked).or_else(|_| {
                // A field whose name marks a secret may require a certain type. In that case, only the strings in it
                // are masked.
                let mut texts = value;
                self.texts(&mut texts);
                serde_json::from_value(texts)
            })
        });
        event.kind = masked.unwrap_or_else(|_| EventKind::Warning {
            code: "redacted".to_owned(),
            message: "event omitted: its secrets could not be redacted".to_owned(),
            retry_in_ms: None,
        });
        event
    }

    fn texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.texts(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks secrets in the description of a session.
    fn session(&self, mut session: ArchivedSession) -> ArchivedSession {
        session.settings.pins.iter_mut().for_each(|pin| *pin = self.text(pin));
        if let Some(view) = &mut session.context {
            view.segments.iter_mut().for_each(|segment| segment.source = self.text(&segment.source));
            view.next_cuts.iter_mut().for_each(|cut| *cut = self.text(cut));
        }
        session
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentd_audit::redact::Patterns;
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TurnId},
        item::{Item, ItemBody, ItemStatus},
        model::Slot,
        usage::{CallTiming, Usage},
    };

    use super::*;

    fn redactor() -> ArchiveRedactor {
        let patterns = Patterns::default();
        ArchiveRedactor(Arc::new(move |text| patterns.clean(&text.replace("own-secret", "[redacted]"))))
    }

    fn completed(body: ItemBody) -> Event {
        let item = Item::new(TurnId::generate(), body);
        let kind = EventKind::ItemCompleted { item, status: ItemStatus::Done };
        Event { session_id: SessionId::generate(), turn_id: None, seq: 1, at: Timestamp::UNIX_EPOCH, kind }
    }

    #[test]
    fn event_numbers_are_not_masked() {
        let kind = EventKind::UsageUpdated {
            step: 1,
            slot: Slot::Base,
            model: "own-secret".to_owned(),
            usage: Usage::default(),
            turn: Usage::default(),
            prompt: None,
            timing: Some(CallTiming { duration_ms: 50, first_token_ms: Some(30) }),
            delegated: false,
        };
        let event = Event { kind, ..completed(ItemBody::notice("")) };
        match redactor().event(event).kind {
            EventKind::UsageUpdated { timing, model, .. } => {
                assert_eq!(timing.unwrap().first_token_ms, Some(30));
                assert_eq!(model, "[redacted]");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn secrets_are_masked_in_json_and_text() {
        let redactor = redactor();
        for secret in [
            r#"["-----BEGIN PRIVATE KEY-----\n", "MIIEvhunter2\n", "-----END PRIVATE KEY-----"]"#,
            r#"{"password": "hunter2", "password": null}"#,
            r#"["login", "--password", "hunter2"]"#,
            r#"{"note": "own-secret hunter"}"#,
        ] {
            let masked = redactor.text(secret);
            assert!(!masked.contains("hunter2") && !masked.contains("own-secret"), "{masked}");
        }
    }

    #[test]
    fn masked_paths_stay_distinct() {
        let (redactor, mut used_paths) = (redactor(), BTreeSet::new());
        let masked = ["uploads/token=abc/part-0.csv", "uploads/token=def/part-0.csv", "a/b", "a/b.c/d"]
            .map(|path| redactor.path(path, &mut used_paths));
        let expected =
            ["uploads/token=[redacted]/part-0.csv", "uploads/token=[redacted]/part-0-2.csv", "a/b", "a/b.c/d"];
        assert_eq!(masked, expected);
    }
}
