//! Files of a message: files in the session's folders are named by their paths for tools, and others are copied.

use std::path::{Path, PathBuf};

use agentd_core::{files::UploadReceipt, folder::Mounts, path};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    failure::Failure,
    mentions::{self, Bundle, MentionSource},
    session::Upload,
    terminal::sanitize::clean_line,
};

/// Base of relative paths: the current folder.
const HERE: &str = "";
/// Folder of copies.
const UPLOADS: &str = "uploads/";

impl Chat {
    /// Uploads a file, and adds it to the next message.
    pub(super) async fn upload(&mut self, path: &Path) -> Result<(), Failure> {
        let UploadReceipt { path: copy, problem, .. } = self.put(path).await?;
        self.note(&format!("uploaded as {copy}; the next message hands it over"));
        if let Some(problem) = problem {
            self.note(&problem);
        }
        // A note is needed if the copy has another name, because the model would not recognise the file.
        let name = path.file_name().map(|name| format!("{UPLOADS}{}", name.to_string_lossy()));
        if name.as_deref() != Some(&copy) {
            self.extras.add_file(format!("{copy} is {}", shown(path)));
        }
        Ok(())
    }

    /// Stores a copy of a file. This starts a new session.
    async fn put(&mut self, path: &Path) -> Result<UploadReceipt, Failure> {
        let upload = Upload::open(path)?;
        // The session is created first, so that repeated attempts with a refused file share one session.
        self.place = self.place.clone().take(&self.daemon, Vec::new()).await?.0;
        let (place, taken) = self.place.clone().take(&self.daemon, vec![upload]).await?;
        self.place = place;
        taken.into_iter().next().ok_or_else(|| Failure::usage("the file was not taken"))
    }

    /// Prepares a turn with this text: sets the chosen mode, and uploads mentioned files.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        self.settle_mode().await?;
        self.hand_over(text).await?;
        for path in mentions::missing(text, HERE.as_ref()) {
            self.note(&format!("#{} names no file; it is only text", clean_line(&path)));
        }
        Ok(())
    }

    /// Uploads the files that a text mentions. An unreadable file stops the turn, because the user relies on it.
    async fn hand_over(&mut self, text: &str) -> Result<(), Failure> {
        let mentioned = mentions::find(text, HERE.as_ref());
        // Files of this machine are never those of a session on another one.
        let has_own = !mentioned.is_empty() && self.daemon.client.host().is_none();
        let mounts = if has_own { self.mounts().await? } else { Mounts::default() };
        let bundle = Bundle::collect(mentioned, &mounts, MentionSource::Chat);
        bundle.notes.iter().for_each(|note| self.note(note));
        bundle.named.into_iter().for_each(|named| self.extras.add_file(named));
        for path in bundle.copies {
            self.copy_mentioned(path).await?;
        }
        self.extras.quote(bundle.selections);
        Ok(())
    }

    /// Copies a mentioned file, unless the session has its current version.
    async fn copy_mentioned(&mut self, path: PathBuf) -> Result<(), Failure> {
        if self.handed.has(self.place.id(), &path) {
            return Ok(());
        }
        let UploadReceipt { path: copy, problem, .. } = self.put(&path).await?;
        self.extras.add_file(format!("#{} is {copy}", shown(&path)));
        if let Some(problem) = problem {
            self.note(&problem);
        }
        if let Some(session) = self.place.id() {
            self.handed.note(session, path);
        }
        Ok(())
    }
}

/// Formats a path as the user wrote it.
fn shown(path: &Path) -> String {
    path::shown(&path.display().to_string()).into_owned()
}
