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
    /// The next turn is told of it. A session that has not begun begins with it.
    pub(super) async fn upload(&mut self, path: &Path) -> Result<(), Failure> {
        let upload = Upload::open(path)?;
        // Made first, so that a file that is refused leaves no session behind for each attempt.
        self.place = self.place.clone().take(&self.daemon, Vec::new()).await?.0;
        let (place, taken) = self.place.clone().take(&self.daemon, vec![upload]).await?;
        self.place = place;
        for UploadReceipt { path, picture, problem } in taken {
            let told = if picture.is_some() { "is shown it" } else { "is told" };
            self.note(&format!("uploaded as {path}; the model {told} with what you say next"));
            if let Some(problem) = problem {
                self.note(&problem);
            }
        }
        Ok(())
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
                    self.upload(&path).await?;
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
