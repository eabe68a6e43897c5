//! Names that are completed while they are typed: tools, skills and agents behind `@`, files behind `#`. And the files that were
//! handed over, so that none is copied twice.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use agentd_core::ids::SessionId;

use crate::mentions::{starts, typed_path};

/// Entries of one folder that are looked at for completion.
const MAX_ENTRIES: usize = 2000;

/// Files that were handed over to each session, so that a file that is mentioned again is not copied again unchanged.
#[derive(Debug, Default)]
pub(super) struct UploadedFiles(HashMap<(SessionId, PathBuf), Stamp>);

/// Modification time and size of a file.
type Stamp = (SystemTime, u64);

impl UploadedFiles {
    /// Forgets it all: the model knows of none of it any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes note of a file that was handed over.
    pub(super) fn note(&mut self, session: SessionId, path: PathBuf) {
        if let Some(stamp) = stamp(&path) {
            self.0.insert((session, path), stamp);
        }
    }

    /// Returns whether the session has the file as it is now.
    pub(super) fn has(&self, session: Option<SessionId>, path: &Path) -> bool {
        let known = session.and_then(|session| self.0.get(&(session, path.to_owned())));
        known.is_some_and(|known| stamp(path).as_ref() == Some(known))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The name that is begun at the end of what was typed, as in `@pd`, and where it starts.
pub(super) fn begun_name(typed: &str) -> Option<(usize, &str)> {
    let at = typed.rfind('@')?;
    let begun = &typed[at + 1..];
    let is_name = begun.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.:".contains(letter));
    let before = typed[..at].chars().next_back();
    let starts_word = before.is_none_or(|before| !before.is_ascii_alphanumeric() && !"._%+-/@\\=&#$`".contains(before));
    (is_name && starts_word).then_some((at + 1, begun))
}

/// Returns whether a name begins so: case is ignored, and `-` and `_` are alike.
pub(super) fn begins(name: &str, begun: &str) -> bool {
    let plain = |letter: char| if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
    let mut letters = name.chars().map(plain);
    begun.chars().map(plain).all(|wanted| letters.next() == Some(wanted))
}

/// Completions of the mention at the end of what was typed: where its path starts, and the paths.
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
    // Half of what is there would complete to what is not meant.
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
