//! Completion of mentions: tools, skills and agents after `@`, files after `#`. Also tracks uploaded files, so that
//! none is copied twice.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use agentd_core::ids::SessionId;

use crate::mentions::{starts, typed_path};

/// Maximum number of entries of a folder for completion.
const MAX_ENTRIES: usize = 2000;

/// Files that were uploaded to each session, so that an unchanged file is not copied again.
#[derive(Debug, Default)]
pub(super) struct UploadedFiles(HashMap<(SessionId, PathBuf), Stamp>);

/// Modification time and size of a file.
type Stamp = (SystemTime, u64);

impl UploadedFiles {
    /// Forgets all files, after the model's history was cleared.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Adds an uploaded file.
    pub(super) fn note(&mut self, session: SessionId, path: PathBuf) {
        if let Some(stamp) = stamp(&path) {
            self.0.insert((session, path), stamp);
        }
    }

    /// Returns true if the session has the current version of the file.
    pub(super) fn has(&self, session: Option<SessionId>, path: &Path) -> bool {
        let known = session.and_then(|session| self.0.get(&(session, path.to_owned())));
        known.is_some_and(|known| stamp(path).as_ref() == Some(known))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Returns the incomplete name at the end of the text, as in `@pd`, and its offset.
pub(super) fn begun_name(typed: &str) -> Option<(usize, &str)> {
    let at = typed.rfind('@')?;
    let begun = &typed[at + 1..];
    let is_name = begun.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.:".contains(letter));
    let before = typed[..at].chars().next_back();
    let starts_word = before.is_none_or(|before| !before.is_ascii_alphanumeric() && !"._%+-/@\\=&#$`".contains(before));
    (is_name && starts_word).then_some((at + 1, begun))
}

/// Returns true if a name starts with `begun`, ignoring case and the difference between `-` and `_`.
pub(super) fn begins(name: &str, begun: &str) -> bool {
    let plain = |letter: char| if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
    let mut letters = name.chars().map(plain);
    begun.chars().map(plain).all(|wanted| letters.next() == Some(wanted))
}

/// Completes the mention of a file at the end of the text. Returns the offset of its path, and the paths.
pub(super) fn complete(typed: &str) -> Option<(usize, Vec<String>)> {
    let line_start = typed.rfind('\n').map_or(0, |index| index + 1);
    let start = starts(&typed[line_start..]).last()? + line_start;
    let quoted = usize::from(typed[start..].starts_with(['"', '\'']));
    let start = start + quoted;
    let written = &typed[start..];
    let (folder, name) = match written.rfind('/') {
        Some(slash) => written.split_at(slash + 1),
        None => ("", written),
    };
    let place = if folder.is_empty() { PathBuf::from(".") } else { typed_path(folder) };
    let entries: Vec<_> = fs::read_dir(place).ok()?.take(MAX_ENTRIES).flatten().collect();
    // An incomplete list could complete the wrong path.
    if entries.len() == MAX_ENTRIES {
        return Some((start, Vec::new()));
    }
    let mut offered: Vec<String> =
        entries.iter().filter_map(|entry| offer(entry, name)).map(|name| format!("{folder}{name}")).collect();
    offered.sort();
    Some((start, offered))
}

fn offer(entry: &fs::DirEntry, begun: &str) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let fits = name.starts_with(begun) && !name.starts_with('.') && !name.contains(char::is_control);
    let kind = fits.then(|| fs::metadata(entry.path()).ok()).flatten()?;
    if kind.is_dir() { Some(format!("{name}/")) } else { kind.is_file().then_some(name) }
}
