//! Files of the person that go with what they say.

use std::path::Path;

use agentd_core::files::UploadReceipt;

use super::{
    chat::Chat,
    conversation::ChatBackend as _,
    mentions::{self, Mention},
};
use crate::{failure::Failure, session::Upload, terminal::sanitize::clean_line};

impl Chat {
    /// The next turn is told of it.
    pub(super) async fn upload(&mut self, path: &Path) -> Result<(), Failure> {
        for receipt in self.store(path).await? {
            self.note(&format!("uploaded as {}; the next message hands it over", receipt.path));
            if let Some(problem) = receipt.problem {
                self.note(&problem);
            }
        }
        Ok(())
    }

    /// Stores a file of the person's. A session that has not begun begins with it.
    async fn store(&mut self, path: &Path) -> Result<Vec<UploadReceipt>, Failure> {
        let upload = Upload::open(path)?;
        // Made first, so that a file that is refused leaves no session behind for each attempt.
        self.place = self.place.clone().take(&self.daemon, Vec::new()).await?.0;
        let (place, taken) = self.place.clone().take(&self.daemon, vec![upload]).await?;
        self.place = place;
        Ok(taken)
    }

    /// Does what a turn with this text depends on.
    pub(super) async fn prepare(&mut self, text: &str) -> Result<(), Failure> {
        self.settle_mode().await?;
        self.hand_over(text).await
    }

    /// Hands over the files that a text mentions. One that cannot be read stops the turn: the person counts on it.
    async fn hand_over(&mut self, text: &str) -> Result<(), Failure> {
        for mention in mentions::find(text) {
            match mention {
                Mention::File(path) if self.handed.has(self.place.id(), &path) => {}
                Mention::File(path) => {
                    // The turn tells under which name the model has it.
                    for problem in self.store(&path).await?.into_iter().filter_map(|receipt| receipt.problem) {
                        self.note(&problem);
                    }
                    if let Some(session) = self.place.id() {
                        self.handed.note(session, path);
                    }
                }
                Mention::Hidden(path) => {
                    let path = clean_line(&path.display().to_string());
                    self.note(&format!("#{path} is hidden and stays here; /upload {path} hands it over all the same"));
                }
            }
        }
        Ok(())
    }
}
