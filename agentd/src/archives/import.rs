//! Takes a session in: from an archive, or from the history of another program.

use std::io::Read;

use agentd_archive::{
    ArchiveError, Manifest, Unpack,
    foreign::{self, ForeignFormat},
    unpack,
};
use agentd_core::{
    archive::{ImportReport, TreeFile},
    event::Event,
    ids::SessionId,
};
use agentd_engine::{Engine, SessionImport};
use tokio::runtime::Handle;

use crate::failure::Refusal;

/// Events of a foreign history that are stored together.
const TOGETHER: usize = 64;

impl From<ArchiveError> for Refusal {
    fn from(error: ArchiveError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: Some(error.hint().to_owned()) }
    }
}

/// Takes in an archive. Blocks, inside of a runtime.
///
/// # Errors
/// Why it is refused. Nothing of it is left then.
pub fn archive(engine: Engine, source: impl Read, as_new: bool, client: String) -> Result<ImportReport, Refusal> {
    let mut incoming = Incoming { engine, as_new, client, import: None, runtime: Handle::current() };
    let unpacked = unpack(source, &mut incoming);
    let Incoming { import, runtime, .. } = incoming;
    let Some(import) = import else {
        unpacked?;
        return Err(ArchiveError::Cut.into());
    };
    match unpacked {
        Ok(()) => Ok(runtime.block_on(import.finish())?),
        Err(refusal) => {
            runtime.block_on(import.abandon());
            Err(refusal)
        }
    }
}

/// Takes in the history of another program. Blocks, inside of a runtime.
///
/// # Errors
/// As of [`archive`].
pub fn foreign(
    engine: Engine,
    source: impl Read,
    format: ForeignFormat,
    as_new: bool,
    client: String,
) -> Result<ImportReport, Refusal> {
    let runtime = Handle::current();
    let history = foreign::read(source, format)?;
    let session = history.session.id;
    let begun = runtime.block_on(engine.begin_import(vec![history.session], as_new))?;
    let mut import = begun.without_usage().told_of(format.program(), &client);
    let mut events = history.events.into_iter();
    loop {
        // Little at once: others write to the journal, too.
        let some: Vec<Event> = events.by_ref().take(TOGETHER).collect();
        if some.is_empty() {
            break;
        }
        if let Err(error) = runtime.block_on(import.add(session, some)) {
            runtime.block_on(import.abandon());
            return Err(error.into());
        }
    }
    let report = runtime.block_on(import.finish())?;
    Ok(ImportReport { left_out: history.left_out, ..report })
}

/// An archive that is being read.
struct Incoming {
    engine: Engine,
    as_new: bool,
    client: String,
    import: Option<SessionImport>,
    runtime: Handle,
}

impl Incoming {
    fn import(&mut self) -> Result<&mut SessionImport, Refusal> {
        self.import.as_mut().ok_or_else(|| ArchiveError::Foreign("it does not begin with a manifest").into())
    }
}

impl Unpack for Incoming {
    type Error = Refusal;

    fn manifest(&mut self, manifest: &Manifest) -> Result<(), Refusal> {
        let begun = self.engine.begin_import(manifest.sessions.clone(), self.as_new);
        let begun = self.runtime.block_on(begun)?;
        self.import = Some(begun.told_of(&manifest.made_by, &self.client));
        Ok(())
    }

    fn events(&mut self, session: SessionId, events: Vec<Event>) -> Result<(), Refusal> {
        let runtime = self.runtime.clone();
        Ok(runtime.block_on(self.import()?.add(session, events))?)
    }

    fn file(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), Refusal> {
        Ok(self.import()?.add_file(file, content)?)
    }
}
