//! Files of the person that go with what they say: those of the session's folders are named as tools see them, all others are copied.

use std::path::{Path, PathBuf};

use agentd_core::{files::UploadReceipt, folder::Mounts, path};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    failure::Failure,
    mentions::{self, Bundle, MentionSource},
    session::Upload,
    terminal::sanitize::clean_line,
};

/// Relative paths begin at the current folder.
const HERE: &str = "";
/// Folder of copies.
const UPLOADS: &str = "uploads/";

impl Chat {
    /// The next turn is told of it.
    pub(super) async fn upload(&mut self, path: &Path) -> Result<(), Failure> {
        let UploadReceipt { path: copy, problem, .. } = self.put(path).await?;
        self.note(&format!("uploaded as {copy}; the next message hands it over"));
        if let Some(problem) = problem {
            self.note(&problem);
        }
        // Of two files with one name, the model cannot know which is which.
        let name = path.file_name().map(|name| format!("{UPLOADS}{}", name.to_string_lossy()));
        if name.as_deref() != Some(&copy) {
            self.extras.add_file(format!("{copy} is {}", shown(path)));
        }
        Ok(())
    }

    /// Stores a file of the person's. A session that has not begun begins with it.
    async fn put(&mut self, path: &Path) -> Result<UploadReceipt, Failure> {
        let upload = Upload::open(path)?;
        // Made first, so that a file that is refused leaves no session behind for each attempt.
        self.place = self.place.clone().take(&self.daemon, Vec::new()).await?.0;
        let (place, taken) = self.place.clone().take(&self.daemon, vec![upload]).await?;
        self.place = place;
        taken.into_iter().next().ok_or_else(|| Failure::usage("the file was not taken"))
    }

    /// Does what a turn with this text depends on.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        self.settle_mode().await?;
        self.hand_over(text).await?;
        for path in mentions::missing(text, HERE.as_ref()) {
            self.note(&format!("#{} names no file; it is only text", clean_line(&path)));
        }
        Ok(())
    }

    /// Hands over the files that a text mentions. One that cannot be read stops the turn: the person counts on it.
    async fn hand_over(&mut self, text: &str) -> Result<(), Failure> {
        let mentioned = mentions::find(text, HERE.as_ref());
        let mounts = if mentioned.is_empty() { Mounts::default() } else { self.mounts().await? };
        let bundle = Bundle::collect(mentioned, &mounts, MentionSource::Chat);
        bundle.notes.iter().for_each(|note| self.note(note));
        bundle.named.into_iter().for_each(|named| self.extras.add_file(named));
        for path in bundle.copies {
            self.copy_mentioned(path).await?;
        }
        self.extras.quote(bundle.selections);
        Ok(())
    }

    /// Copies a file that was mentioned, unless the session has it.
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

/// A path as the person wrote it.
fn shown(path: &Path) -> String {
    path::shown(&path.display().to_string()).into_owned()
}
