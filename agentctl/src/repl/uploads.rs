//! Files of the person that go with what they say: those of the project are named as tools see them, all others are copied.

use std::path::Path;

use agentd_core::files::UploadReceipt;

use super::{
    chat::Chat,
    conversation::ChatBackend as _,
    mentions::{self, Mention},
};
use crate::{failure::Failure, session::Upload, terminal::sanitize::clean_line};

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
        for path in mentions::missing(text) {
            self.note(&format!("#{} names no file; it is only text", clean_line(&path)));
        }
        Ok(())
    }

    /// Hands over the files that a text mentions. One that cannot be read stops the turn: the person counts on it.
    async fn hand_over(&mut self, text: &str) -> Result<(), Failure> {
        let mentioned = mentions::find(text);
        let project = if mentioned.is_empty() { None } else { self.project().await? };
        for mention in mentioned {
            let (Mention::File(path) | Mention::Hidden(path)) = &mention;
            let named = project.as_ref().and_then(|mount| mentions::in_project(path, &mount.path));
            if let Some(named) = named {
                // It is there already, and what is done with it is done to the file itself.
                self.extras.add_file(format!("#{} is {}", shown(path), clean_line(&named)));
                continue;
            }
            match mention {
                Mention::File(path) if self.handed.has(self.place.id(), &path) => {}
                Mention::File(path) => {
                    let UploadReceipt { path: copy, problem, .. } = self.put(&path).await?;
                    self.extras.add_file(format!("#{} is {copy}", shown(&path)));
                    if let Some(problem) = problem {
                        self.note(&problem);
                    }
                    if let Some(session) = self.place.id() {
                        self.handed.note(session, path);
                    }
                }
                Mention::Hidden(path) => {
                    let path = shown(&path);
                    self.note(&format!("#{path} is hidden and stays here; /upload {path} hands it over all the same"));
                }
            }
        }
        Ok(())
    }
}

/// A path as the person wrote it.
fn shown(path: &Path) -> String {
    clean_line(&path.display().to_string())
}
