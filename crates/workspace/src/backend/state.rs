//! Files stored in the journal.
//!
//! A call sees a snapshot taken at its start, plus its own changes. The session's single writer stores the changes
//! together with the outcome of a successful call, so a call that fails midway changes nothing here.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use agentd_core::{
    Timestamp,
    mutex::lock,
    state_files::{StateFile, StateFileChange, StateFiles},
};

use super::port::{Backend, Entries, Entry, Kind, ListedEntry, OpenFile};
use crate::{
    failure::{Failure, fail_if},
    path::ToolPath,
    target::{ExistingFile, Target, WriteSlot},
    text,
};

/// State files of one session, as seen by one call.
#[derive(Debug)]
pub(crate) struct StateBackend {
    draft: Arc<Mutex<Draft>>,
    now: Timestamp,
}

#[derive(Debug)]
struct Draft {
    files: StateFiles,
    changes: Vec<StateFileChange>,
}

impl StateBackend {
    pub(crate) fn new(files: StateFiles, now: Timestamp) -> Self {
        Self { draft: Arc::new(Mutex::new(Draft { files, changes: Vec::new() })), now }
    }

    /// Returns the changes made by this call, in order.
    pub(crate) fn changes(&self) -> Vec<StateFileChange> {
        lock(&self.draft).changes.clone()
    }

    fn file(&self, path: &ToolPath) -> Result<Arc<StateFile>, Failure> {
        let draft = lock(&self.draft);
        match draft.files.get(path.rest()) {
            Some(file) => Ok(Arc::clone(file)),
            None if draft.files.is_folder(path.rest()) => {
                Err(Failure::path(format!("{path} is a folder; list_workspace_files lists it")))
            }
            None => Err(missing(path, &draft.files)),
        }
    }
}

fn missing(path: &ToolPath, files: &StateFiles) -> Failure {
    let names = || files.iter().map(|(path, _)| path);
    let hint = match text::nearest(path.rest(), names()) {
        Some(near) => format!("did you mean /state/{near}?"),
        None => "list_workspace_files lists all files".to_owned(),
    };
    Failure::path(format!("{path} does not exist; {hint}"))
}

impl Backend for StateBackend {
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure> {
        if lock(&self.draft).files.is_folder(path.rest()) {
            return Ok(true);
        }
        self.file(path).map(|_| false)
    }

    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure> {
        let file = self.file(path)?;
        Ok(OpenFile { modified: Some(SystemTime::from(file.changed)), ..OpenFile::in_memory(file.content.clone()) })
    }

    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure> {
        fail_if(!self.is_folder(folder)?, || Failure::path(format!("{folder} is a file, not a folder")))?;
        let draft = lock(&self.draft);
        let mut entries: BTreeMap<&str, ListedEntry> = BTreeMap::new();
        for (path, file) in draft.files.below(folder.rest()) {
            let (name, deeper) = path.split_once('/').map_or((path, false), |(name, _)| (name, true));
            let entry = Entry {
                name: name.to_owned(),
                kind: if deeper { Kind::Folder } else { Kind::File },
                size: if deeper { 0 } else { file.content.len() as u64 },
                modified: Some(SystemTime::from(file.changed)),
            };
            let hidden = name.starts_with('.');
            entries.entry(name).or_insert(if hidden {
                ListedEntry::Hidden(name.to_owned())
            } else {
                ListedEntry::Entry(entry)
            });
        }
        Ok(Box::new(entries.into_values().collect::<Vec<_>>().into_iter()))
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        let draft = lock(&self.draft);
        let folder = || Failure::path(format!("{path} is a folder; name a file in it"));
        fail_if(draft.files.is_folder(path.rest()), folder)?;
        let existing = draft.files.get(path.rest()).map(|file| {
            let content = file.content.as_bytes();
            let whole = content.len() as u64 <= max_content;
            ExistingFile {
                content: whole.then(|| content.to_vec()),
                size: content.len() as u64,
                identity: None,
                changed: Some(file.changed),
                mode: None,
            }
        });
        let slot = StateSlot { draft: Arc::clone(&self.draft), path: path.clone(), now: self.now };
        Ok(Target::new(path.clone(), existing, Box::new(slot)))
    }
}

/// Write slot for one state file.
#[derive(Debug)]
struct StateSlot {
    draft: Arc<Mutex<Draft>>,
    path: ToolPath,
    now: Timestamp,
}

impl StateSlot {
    fn change(&self, content: Option<String>) -> Result<(), Failure> {
        let mut draft = lock(&self.draft);
        let change = StateFileChange { path: self.path.rest().to_owned(), content };
        draft.files.check(&change).map_err(|refused| {
            let hint = refused.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            Failure::path(format!("{refused}{hint}"))
        })?;
        draft.files.apply(&change, self.now);
        draft.changes.push(change);
        Ok(())
    }
}

impl WriteSlot for StateSlot {
    fn replace(&self, content: &[u8], _: Option<u32>) -> Result<(), Failure> {
        let text = std::str::from_utf8(content).map_err(|_| {
            Failure::tool(format!("{} supports UTF-8 text only; write other files to outputs/", self.path))
        })?;
        self.change(Some(text.to_owned()))
    }

    fn remove(&self) -> Result<(), Failure> {
        self.change(None)
    }

    fn missing(&self) -> Failure {
        missing(&self.path, &lock(&self.draft).files)
    }
}
