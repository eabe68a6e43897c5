//! Files added to a session's tree: the user's uploads, stored under plain names that are not in use, and large results
//! and history that the daemon stores for tools to read.
//!
//! Tools cannot write to the daemon's areas, and the sandbox prevents commands from doing so. Without a sandbox a
//! command could, so existing entries are not trusted: links are not followed, and a file with another name (hard link)
//! is not appended to.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use agentd_core::{ids::SessionId, path, ports::ArtifactDir};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::{errno::Errno, fcntl::OFlag};

use crate::{drafts::Draft, jail, layout::make, private, remove::ignore_missing, target};

/// Stores text from the daemon in a session's tree.
pub fn keep(base: &Path, session: SessionId, area: ArtifactDir, name: &str, content: &[u8]) -> io::Result<()> {
    let root = make(base, session)?;
    let folder = open(&jail::own_root(&root)?, area)?;
    replace(&root, &folder, name, content)?;
    target::sync(&folder)
}

/// Appends to text stored by the daemon, after truncating the text to `from` bytes. Returns the new length.
pub fn append_artifact(
    base: &Path,
    session: SessionId,
    area: ArtifactDir,
    name: &str,
    from: Option<u64>,
    content: &[u8],
) -> io::Result<u64> {
    let folder = open(&jail::own_root(&make(base, session)?)?, area)?;
    let bytes = append(&folder, name, from, content)?;
    target::sync(&folder)?;
    Ok(bytes)
}

/// Opens the folder of an area. Any entry at its path that is not a folder is removed, since nothing else belongs
/// there.
fn open(root: &Dir, area: ArtifactDir) -> io::Result<Dir> {
    match jail::open_real_folder(root, area.as_str()) {
        Err(error) if matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOTDIR | Errno::ELOOP)) => {
            root.remove_file(area.as_str())?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    private::folder_in(root, area.as_str())?;
    jail::open_real_folder(root, area.as_str())
}

/// Replaces a file atomically: readers see either the old or the new text.
fn replace(session: &Path, folder: &Dir, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = Draft::new(session, folder);
    let written = private::file_in(folder, draft.name(), 0o600).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        folder.rename(draft.name(), folder, name)
    });
    if written.is_err() {
        // The draft may never have been created.
        let _ = folder.remove_file(draft.name());
    }
    written
}

/// Appends to a file. Earlier content is not rewritten, so the cost does not grow with the file.
fn append(folder: &Dir, name: &str, from: Option<u64>, content: &[u8]) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let mut file = folder.open_with(name, &options)?.into_std();
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "not a regular file with a single name"));
    }
    // A shorter file has lost content that cannot be recovered.
    if let Some(from) = from.filter(|from| *from < metadata.len()) {
        file.set_len(from)?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

const MAX_UPLOAD_NAME: usize = 200;

/// Returns the last part of the name, as a visible file name of limited length.
pub fn upload_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or("");
    let clean: String = last.chars().filter(|character| !path::is_escaped(*character)).collect();
    let clean = clean.trim().trim_start_matches(['.', '~']).trim();
    if clean.is_empty() {
        return "upload".to_owned();
    }
    let (stem, extension) = split_extension(clean);
    let max_stem = MAX_UPLOAD_NAME.saturating_sub(extension.len());
    let end = (0..=stem.len().min(max_stem)).rev().find(|end| stem.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{extension}", &stem[..end])
}

/// Splits a name into stem and extension, such as `("report", ".pdf")`. An extension of more than 20 bytes is part of
/// the stem.
fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= 20 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// Opens the folder of a session's uploads.
fn uploads(base: &Path, session: SessionId) -> io::Result<Dir> {
    jail::open_real_folder(&jail::own_root(&make(base, session)?)?, "uploads")
}

/// Removes an upload. A missing upload is not an error.
pub fn remove_upload(base: &Path, session: SessionId, path: &str) -> io::Result<()> {
    let name = path.strip_prefix("uploads/").unwrap_or_default();
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of an upload"));
    }
    ignore_missing(uploads(base, session)?.remove_file(name))
}

/// Stores a new upload under the first free name, and returns its path. With `once`, if a file with the same bytes
/// already exists under that name, or under a numbered variant of the name, returns its path instead.
pub fn add_upload(base: &Path, session: SessionId, name: &str, content: &[u8], once: bool) -> io::Result<String> {
    const MAX_TRIES: usize = 10_000;
    let folder = uploads(base, session)?;
    let (stem, extension) = split_extension(name);
    for number in 1..MAX_TRIES {
        let candidate = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{extension}") };
        let mut file = match folder.open_with(&candidate, OpenOptions::new().write(true).create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if once && has_content(&folder, &candidate, content)? {
                    return Ok(format!("uploads/{candidate}"));
                }
                continue;
            }
            made => made?,
        };
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // A partial upload must not look complete.
            let _ = folder.remove_file(&candidate);
            return Err(error);
        }
        target::sync(&folder)?;
        return Ok(format!("uploads/{candidate}"));
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many uploads are named {name}")))
}

/// Returns true if a regular file has this content. In that case the file has been synced to disk.
fn has_content(folder: &Dir, name: &str, content: &[u8]) -> io::Result<bool> {
    // An unreadable file cannot be the same upload.
    let Ok(file) = jail::open_exact(folder, name.as_ref()) else { return Ok(false) };
    let about = file.metadata()?;
    if !about.is_file() || about.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut existing = Vec::with_capacity(content.len());
    (&file).take(content.len() as u64 + 1).read_to_end(&mut existing)?;
    if existing != content {
        return Ok(false);
    }
    file.sync_all()?;
    target::sync(folder)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_names_are_sanitised() {
        for (given, expected) in [
            ("notes.txt", "notes.txt"),
            ("/home/me/notes.txt", "notes.txt"),
            ("C:\\files\\notes.txt", "notes.txt"),
            ("../../etc/passwd", "passwd"),
            (".env", "env"),
            ("..", "upload"),
            ("", "upload"),
            ("/", "upload"),
            ("a\nb\0.txt", "ab.txt"),
            ("a\u{202e}b <x>\u{a0} c.txt", "ab x>\u{a0} c.txt"),
            ("报告.pdf", "报告.pdf"),
        ] {
            assert_eq!(upload_name(given), expected, "{given:?}");
        }
        let long = upload_name(&format!("{}.pdf", "ä".repeat(500)));
        assert!(long.len() <= MAX_UPLOAD_NAME && long.ends_with("ä.pdf"), "{long}");
    }
}
