//! Project files that are open in a client of the turn, such as an editor, with unsaved text.
//!
//! The disk decides which files are requested from the client: a path is first opened through the jail, and only a text
//! file, or a file that could be created, qualifies. The client opens the file by name. The name must refer to the same
//! file for the daemon and the client, so the folders above the file must be unchanged during the request and for a
//! short time before it.
//!
//! A client that has disconnected is ignored. If a client refuses or times out, reads use the disk, but writes are
//! rejected, because the disk may lack the text that the user sees.

use std::{
    io::{Read as _, Seek as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentd_core::{
    client_file::{ClientFileAnswer, FileAction, MAX_CLIENT_FILE, NoAnswer},
    mutex::lock,
    ports::{ClientFileAccess, ClientFiles, ToolContext},
    tool::ToolErrorCode,
    untrusted,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::port::{Backend as _, OpenFile},
    encoding::{self, Document},
    failure::Failure,
    jail::Jail,
    path::{PathPlace, ToolPath},
    target::{ExistingFile, Target, WriteSlot},
    text,
};

/// Number of bytes at the start of a file that are checked to detect text.
const SAMPLE: u64 = 64 * 1024;
/// Maximum number of characters shown of a client's reason for a refusal.
const MAX_REASON: usize = 300;
/// Upper bound on the tick of the file system's clock. Two changes within one tick have the same time.
const TICK: Duration = Duration::from_millis(25);
/// Maximum number of attempts to read folders that keep changing.
const MAX_ATTEMPTS: usize = 3;

/// Client of a turn, for use on a blocking thread.
#[derive(Debug, Clone)]
pub(crate) struct FileClient {
    files: Arc<dyn ClientFiles>,
    runtime: Handle,
    cancel: CancellationToken,
    notes: Arc<Mutex<Vec<String>>>,
}

/// Current text of a file, as reported by the client.
enum ClientText {
    Text(String),
    /// The client has no unsaved text; the content on disk is current.
    OnDisk,
    /// The client returned no usable text, for this reason.
    Unknown(String),
}

impl FileClient {
    /// Creates the client for a call, or returns `None` if only the disk applies.
    pub(crate) fn of(context: &ToolContext, cancel: CancellationToken) -> Option<Self> {
        let files = context.client_files.clone().filter(|files| files.access().is_some())?;
        Some(Self { files, runtime: Handle::try_current().ok()?, cancel, notes: Arc::default() })
    }

    /// Returns notes for the model about written files.
    pub(crate) fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }

    fn note(&self, note: String) {
        lock(&self.notes).push(note);
    }

    fn ask(&self, path: &ToolPath, action: FileAction) -> Result<Result<ClientFileAnswer, NoAnswer>, Failure> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => Err(Failure::cancelled()),
                answer = self.files.ask(path.rest(), action) => Ok(answer),
            }
        })
    }

    /// Requests the current text of a file from the client. The response is used only if the folders above the file did
    /// not change in the meantime.
    fn client_text(&self, jail: &Jail, path: &ToolPath) -> Result<ClientText, Failure> {
        for _ in 0..MAX_ATTEMPTS {
            let before = settled_times(jail, path)?;
            let answer = self.ask(path, FileAction::Read)?;
            let client_text = match answer {
                Ok(ClientFileAnswer::Text(text)) if text.len() > MAX_CLIENT_FILE => {
                    ClientText::Unknown(format!("its text is {} long", text::size(text.len() as u64)))
                }
                Ok(ClientFileAnswer::Text(text)) => ClientText::Text(text),
                Ok(ClientFileAnswer::Absent) | Err(NoAnswer::Gone) => ClientText::OnDisk,
                Ok(ClientFileAnswer::Refused(reason)) => ClientText::Unknown(refusal(&reason)),
                Ok(ClientFileAnswer::Written) => ClientText::Unknown("it returned no text".to_owned()),
                Err(NoAnswer::Late) => ClientText::Unknown("it did not answer in time".to_owned()),
            };
            if !matches!(client_text, ClientText::Text(_)) || before == folder_times(jail, path)? {
                return Ok(client_text);
            }
        }
        Ok(ClientText::Unknown("its folder keeps changing".to_owned()))
    }

    /// Replaces the content of a file opened on the disk with the client's text.
    pub(super) fn overlay(&self, jail: &Jail, path: &ToolPath, mut opened: OpenFile) -> Result<OpenFile, Failure> {
        let mut sample = Vec::new();
        let read = (&mut opened.content).take(SAMPLE).read_to_end(&mut sample);
        // The file is read from its beginning afterwards.
        let is_read = opened.content.rewind().is_ok() && read.is_ok();
        let is_text = is_read && encoding::detect(&sample, (sample.len() as u64) < SAMPLE).is_ok();
        if opened.size > MAX_CLIENT_FILE as u64 || !is_text {
            return Ok(opened);
        }
        match self.client_text(jail, path)? {
            ClientText::Text(text) => Ok(OpenFile { modified: opened.modified, ..OpenFile::in_memory(text) }),
            ClientText::OnDisk | ClientText::Unknown(_) => Ok(opened),
        }
    }

    /// Opens a file that exists only in the client. Returns `None` if the disk has an entry or the client has no text.
    pub(super) fn open_unsaved(&self, jail: &Jail, path: &ToolPath) -> Result<Option<OpenFile>, Failure> {
        if !jail.is_missing(path) {
            return Ok(None);
        }
        Ok(match self.client_text(jail, path)? {
            ClientText::Text(text) if !text.is_empty() => Some(OpenFile::in_memory(text)),
            _ => None,
        })
    }

    /// Returns the unsaved text of a file if it differs from the disk, in the encoding of the file on disk.
    pub(crate) fn unsaved(&self, jail: &Jail, path: &ToolPath) -> Option<Vec<u8>> {
        let mut on_disk = jail.open_file(path).ok().filter(|opened| opened.size <= MAX_CLIENT_FILE as u64)?;
        let mut content = Vec::new();
        on_disk.content.read_to_end(&mut content).ok()?;
        let document = Document::read(content.clone()).ok()?;
        let Ok(ClientText::Text(text)) = self.client_text(jail, path) else { return None };
        if is_same(&content, &text) {
            return None;
        }
        let text = text.trim_start_matches('\u{feff}');
        let text = match document.line_end() {
            Some(end @ ("\r\n" | "\r")) => document.normal(text).replace('\n', end),
            _ => text.to_owned(),
        };
        let encoded = encoding::encode(&text, document.charset()).map_or_else(|_| text.as_bytes().to_vec(), Into::into);
        Some([&content[..document.charset().bom], &encoded].concat())
    }

    /// Returns the target for writing a file. The write goes through the client if the client has the file open.
    pub(super) fn target(&self, jail: &Jail, path: &ToolPath, on_disk: Target) -> Result<Target, Failure> {
        let content = match &on_disk.existing {
            Some(ExistingFile { content: Some(content), .. }) if Document::read(content.clone()).is_ok() => {
                Some(content)
            }
            // Binary and large files are not edited in a client.
            Some(_) => return Ok(on_disk),
            None if !on_disk.missing_folders().is_empty() => return Ok(on_disk),
            None => None,
        };
        let text = match self.client_text(jail, path)? {
            ClientText::Text(text) => text,
            ClientText::OnDisk => return Ok(on_disk),
            // The file does not exist, so no text can be lost.
            ClientText::Unknown(_) if content.is_none() => return Ok(on_disk),
            ClientText::Unknown(reason) => {
                return Err(Failure::tool(format!(
                    "the client of the turn (an editor) manages the project's files and did not return the current text of \
                     {path}: {reason}. Nothing was changed; retry, or ask the user to close the file there"
                )));
            }
        };
        let is_saved = content.map_or(text.is_empty(), |content| is_same(content, &text));
        match self.files.access() {
            Some(ClientFileAccess::ReadWrite) => {}
            _ if is_saved => return Ok(on_disk),
            _ => {
                return Err(Failure::tool(format!(
                    "{path} has unsaved changes in the editor, and the editor does not accept edits. Nothing was \
                     changed; ask the user to save the file"
                )));
            }
        }
        let exists = content.is_some() || !text.is_empty();
        let (changed, identity, mode) = on_disk
            .existing
            .as_ref()
            .map(|existing| (existing.changed, existing.identity, existing.mode))
            .unwrap_or_default();
        let (size, content) = (text.len() as u64, Some(text.into_bytes()));
        let existing = exists.then_some(ExistingFile { content, size, changed, identity, mode });
        let slot = ClientSlot { client: self.clone(), jail: jail.clone(), path: path.clone(), is_saved, on_disk };
        Ok(Target::new(path.clone(), existing, Box::new(slot)))
    }
}

/// Sanitises and shortens a client's reason for a refusal, for a model.
fn refusal(text: &str) -> String {
    let (text, _) = text::first_chars(text.lines().next().unwrap_or_default().trim(), MAX_REASON);
    let text = untrusted::plain(text);
    if text.is_empty() { "it refused".to_owned() } else { format!("it refused ({text})") }
}

/// Returns true if the file on disk has this text, ignoring encoding, byte order mark and line ends.
fn is_same(content: &[u8], text: &str) -> bool {
    let Ok(document) = Document::read(content.to_vec()) else { return false };
    let plain = |text: &str| text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    plain(document.text()) == plain(text)
}

/// Inode and last change time of each folder above a file.
type FolderTimes = Vec<(u64, i64, i64)>;

fn folder_times(jail: &Jail, path: &ToolPath) -> Result<FolderTimes, Failure> {
    let root = jail.root(PathPlace::Project)?;
    let failed = |error: std::io::Error| Failure::io(&format!("inspect the folder of {path}"), &error);
    let mut times = Vec::new();
    for folder in path.below_place().ancestors().skip(1) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let opened = crate::jail::open_exact(&root, folder).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        times.push((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()));
    }
    Ok(times)
}

/// Returns the folder times once the last change is old enough that another change would get a different time.
fn settled_times(jail: &Jail, path: &ToolPath) -> Result<FolderTimes, Failure> {
    for _ in 0..MAX_ATTEMPTS {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let times = folder_times(jail, path)?;
        let is_settled = times.iter().all(|(_, seconds, nanos)| {
            let changed = Duration::new((*seconds).try_into().unwrap_or(0), (*nanos).try_into().unwrap_or(0));
            changed + TICK < now
        });
        if is_settled {
            return Ok(times);
        }
        thread::sleep(TICK);
    }
    folder_times(jail, path)
}

/// Target of a file that the client has open.
#[derive(Debug)]
struct ClientSlot {
    client: FileClient,
    jail: Jail,
    path: ToolPath,
    /// True if the client's text was equal to the content on disk.
    is_saved: bool,
    on_disk: Target,
}

impl WriteSlot for ClientSlot {
    fn replace(&self, content: &[u8], _: Option<u32>) -> Result<(), Failure> {
        let path = &self.path;
        let text = std::str::from_utf8(content)
            .map_err(|_| Failure::tool(format!("{path} is open in an editor, which supports UTF-8 text only")))?;
        self.on_disk.slot.check()?;
        let answer = self.client.ask(path, FileAction::Write(text.to_owned()))?;
        let doubt = "whether it has the new text is unknown; read the file again before you continue";
        match answer {
            Ok(ClientFileAnswer::Written) => {}
            Ok(ClientFileAnswer::Refused(reason)) => {
                return Err(Failure::tool(format!(
                    "the editor with {path} did not apply the change: {}. Nothing was changed",
                    refusal(&reason)
                )));
            }
            Ok(ClientFileAnswer::Absent | ClientFileAnswer::Text(_)) => {
                return Err(Failure::tool(format!("the editor with {path} did not confirm the change; {doubt}")));
            }
            Err(NoAnswer::Late) => {
                let late = format!("the editor with {path} did not answer in time; {doubt}");
                return Err(Failure::new(ToolErrorCode::Timeout, late));
            }
            Err(NoAnswer::Gone) => {
                return Err(Failure::tool(format!("the editor with {path} disconnected; {doubt}")));
            }
        }
        let mut saved = Vec::new();
        let is_saved = self.jail.open_file(path).is_ok_and(|opened| {
            opened.content.take(MAX_CLIENT_FILE as u64 * 4).read_to_end(&mut saved).is_ok() && is_same(&saved, text)
        });
        if !is_saved {
            self.client.note(format!(
                "{path} has the new text in the editor but is not saved: commands and searches see the old file, and \
                 agentd cannot undo the change"
            ));
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Failure> {
        if self.is_saved {
            return self.on_disk.remove();
        }
        Err(Failure::tool(format!(
            "{} has unsaved changes in the editor, which would be lost; ask the user to save or close it",
            self.path
        )))
    }

    fn missing(&self) -> Failure {
        self.on_disk.slot.missing()
    }

    fn check(&self) -> Result<(), Failure> {
        self.on_disk.slot.check()
    }
}
