//! Uploads from people: stored under a plain, free name.

use std::io::{self, Read as _, Write as _};

use agentd_core::path;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;

use super::target;

const MAX_UPLOAD_NAME: usize = 200;

/// The last part of the name, as a visible file name of bearable length.
pub fn upload_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or("");
    let clean: String = last.chars().filter(|character| !path::is_written(*character)).collect();
    let clean = clean.trim().trim_start_matches(['.', '~']).trim();
    if clean.is_empty() {
        return "upload".to_owned();
    }
    let (stem, extension) = split_extension(clean);
    let room = MAX_UPLOAD_NAME.saturating_sub(extension.len());
    let end = (0..=stem.len().min(room)).rev().find(|end| stem.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{extension}", &stem[..end])
}

/// `("report", ".pdf")`; an extension longer than any real one belongs to the name.
fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= 20 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// Removes a file from a folder, by its name alone. One that is not there is no error.
pub fn remove(folder: &Dir, name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of an upload"));
    }
    match folder.remove_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Puts a new file into a folder, under the first free name.
pub fn put(folder: &Dir, name: &str, content: &[u8]) -> io::Result<String> {
    put_unless(folder, name, content, |_| Ok(false))
}

/// The same, unless a file of that name, or of one of its numbered names, holds the same bytes: then it is that one.
pub fn put_once(folder: &Dir, name: &str, content: &[u8]) -> io::Result<String> {
    put_unless(folder, name, content, |candidate| holds(folder, candidate, content))
}

/// True if a plain file holds these bytes. They are on the disk then.
fn holds(folder: &Dir, name: &str, content: &[u8]) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    // What cannot be read is another one's.
    let Ok(file) = folder.open_with(name, &options) else { return Ok(false) };
    let about = file.metadata()?;
    if !about.is_file() || about.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut there = Vec::with_capacity(content.len());
    (&file).take(content.len() as u64 + 1).read_to_end(&mut there)?;
    if there != content {
        return Ok(false);
    }
    file.sync_all()?;
    target::sync(folder)?;
    Ok(true)
}

fn put_unless(
    folder: &Dir,
    name: &str,
    content: &[u8],
    is_it: impl Fn(&str) -> io::Result<bool>,
) -> io::Result<String> {
    const MAX_TRIES: usize = 10_000;
    let (stem, extension) = split_extension(name);
    for number in 1..MAX_TRIES {
        let candidate = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{extension}") };
        let mut file = match folder.open_with(&candidate, OpenOptions::new().write(true).create_new(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_it(&candidate)? => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Half an upload must not look like a whole one.
            let _ = folder.remove_file(&candidate);
            return Err(error);
        }
        target::sync(folder)?;
        return Ok(candidate);
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many uploads are named {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_names_are_plain() {
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
