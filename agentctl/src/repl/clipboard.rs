//! Pictures of the clipboard, read by a program of the desktop and stored for the chat.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agentd_proto::MAX_UPLOAD_BYTES;
use tempfile::TempDir;
use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

/// Programs that print the picture of the clipboard, each with its arguments.
const PROGRAMS: [(&str, &[&str]); 2] =
    [("wl-paste", &["--type", "image/png"]), ("xclip", &["-selection", "clipboard", "-t", "image/png", "-o"])];
/// Time limit for a program, which may wait for the owner of the clipboard.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Start of every PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Pictures that were pasted in this chat. They are removed at its end, because the session has copies.
#[derive(Debug, Default)]
pub(super) struct Clipboard {
    folder: Option<TempDir>,
    pictures: usize,
}

impl Clipboard {
    /// Stores the picture of the clipboard and returns its path.
    ///
    /// # Errors
    /// Fails with one line if there is no picture or no program that reads it, or if it cannot be stored.
    pub(super) async fn picture(&mut self) -> Result<PathBuf, String> {
        let picture = read().await?;
        self.store(&picture).map_err(|error| format!("could not store the picture: {error}"))
    }

    fn store(&mut self, picture: &[u8]) -> io::Result<PathBuf> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            // A mention attaches no hidden files, so the name has no dot at its start.
            None => tempfile::Builder::new().prefix("agentctl-").tempdir()?,
        };
        let folder: &Path = self.folder.insert(folder).path();
        self.pictures += 1;
        let path = folder.join(format!("picture-{}.png", self.pictures));
        std::fs::write(&path, picture)?;
        Ok(path)
    }
}

/// Reads the picture by the first program that has it.
async fn read() -> Result<Vec<u8>, &'static str> {
    let mut problem = "pasting a picture needs wl-paste (of wl-clipboard) or xclip";
    for (program, args) in PROGRAMS {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let Ok(mut child) = command.spawn() else { continue };
        let Some(output) = child.stdout.take() else { continue };
        let mut picture = Vec::new();
        let is_read = timeout(TIME_LIMIT, output.take(MAX_UPLOAD_BYTES as u64 + 1).read_to_end(&mut picture)).await;
        problem = match is_read {
            Err(_) => "the clipboard did not answer in time",
            Ok(_) if picture.len() > MAX_UPLOAD_BYTES => "the picture in the clipboard is too large to attach",
            Ok(_) if picture.starts_with(PNG) => return Ok(picture),
            Ok(_) => "there is no picture in the clipboard",
        };
    }
    Err(problem)
}
