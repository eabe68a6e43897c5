//! Files that the prompt on the command line mentions.

use std::path::{Path, PathBuf};

use agentd_core::{
    folder::Mounts,
    input::{InputPart, Selection},
};

use crate::{
    daemon::Daemon,
    input::Prompt,
    mentions::{self, Bundle, MentionSource},
    session::SessionTarget,
    terminal,
};

/// Files that go with a prompt.
#[derive(Debug, Default)]
pub(super) struct MentionedFiles {
    named: Vec<String>,
    /// Files to copy into the session.
    pub(super) copies: Vec<PathBuf>,
    selections: Vec<Selection>,
}

impl MentionedFiles {
    /// Finds the files that words of the command line name, and says what is not handed over.
    pub(super) async fn find(
        words: Option<&str>,
        source: MentionSource,
        daemon: &Daemon,
        place: &SessionTarget,
    ) -> Self {
        let Some(words) = words else { return Self::default() };
        let here = Path::new("");
        let found = mentions::find(words, here);
        let mounts = if found.is_empty() { Mounts::default() } else { place.mounts_there(daemon).await };
        let Bundle { named, copies, selections, notes } = Bundle::collect(found, &mounts, source);
        let missing = mentions::missing(words, here);
        let missing = missing.iter().map(|path| format!("#{path} names no file; it is only text"));
        for note in notes.into_iter().chain(missing) {
            terminal::note(&terminal::sanitize::clean_line(&note));
        }
        Self { named, copies, selections }
    }

    /// The prompt with the paths of these files behind it.
    pub(super) fn behind(&self, prompt: Prompt) -> Prompt {
        if self.named.is_empty() {
            return prompt;
        }
        let text = prompt.text.trim_end();
        let typed_bytes = prompt.typed_bytes.or(Some(text.len() as u64));
        Prompt { text: format!("{text}\n\nFiles: {}", self.named.join("; ")), typed_bytes }
    }

    /// The lines of files, as parts of the input.
    pub(super) fn into_parts(self) -> Vec<InputPart> {
        self.selections.into_iter().map(InputPart::Selection).collect()
    }
}
