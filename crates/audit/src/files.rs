//! Which files make up the log, in order.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::fcntl::OFlag;

use crate::chain::SealedLine;

/// The file that is written now.
pub(crate) const CURRENT: &str = "audit.jsonl";
/// The file that names the last line, so that a cut end shows.
pub(crate) const WITNESS: &str = "audit.head";

/// Bytes that a line may have to be read as one. What the log writes is far smaller.
pub(crate) const LONGEST_LINE: u64 = 1 << 20;

/// Tries to open all files before another one is begun.
const LOOKS: u32 = 100;

/// Opens a file to read it: a plain file, and no link that could lead elsewhere, or a pipe that never ends.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Names of all files of the log in the folder: those that were set aside when they were full, in the order of their lines, and
/// the one that is written now, where there is one.
pub(crate) fn all(folder: &Path) -> io::Result<Vec<String>> {
    let mut aside = Vec::new();
    let mut current = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name == CURRENT {
            current = Some(name);
        } else if name.starts_with("audit-") && name.ends_with(".jsonl") {
            aside.push((first_number(&entry.path()), name));
        }
    }
    // One whose first line cannot be read goes by its name, which is the time at which it was set aside.
    aside.sort_by(|(a, one), (b, other)| match (a, b) {
        (Some(a), Some(b)) => (a, one).cmp(&(b, other)),
        _ => one.cmp(other),
    });
    Ok(aside.into_iter().map(|(_, name)| name).chain(current).collect())
}

/// A file of the log by its name, opened.
pub(crate) type OpenLogFile = (String, io::Result<File>);

/// All files of the log, as they stood together at one moment. The file that is written now gets another name when it is
/// full, and the oldest are removed: opened one by one, lines in between could seem to be gone.
pub(crate) fn opened(folder: &Path) -> io::Result<Vec<OpenLogFile>> {
    let mut listed = all(folder)?;
    for _ in 0..LOOKS {
        let opened = listed.iter().map(|name| (name.clone(), open(&folder.join(name)))).collect();
        let now = all(folder)?;
        if now == listed {
            return Ok(opened);
        }
        listed = now;
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "its files change faster than they can be opened; try again"))
}

fn first_number(path: &Path) -> Option<u64> {
    let mut line = Vec::new();
    BufReader::new(open(path).ok()?).take(LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
    Some(SealedLine::read(line.strip_suffix(b"\n")?)?.n)
}

/// A line as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogLine {
    /// A line, without its newline.
    Line(Vec<u8>),
    /// More bytes without a newline than a line can have.
    TooLong,
    /// The file ends without a newline; this many bytes stand behind the last one.
    Torn(u64),
}

/// The next line of a file. None at the end.
pub(crate) fn next_line(from: &mut impl io::BufRead) -> io::Result<Option<LogLine>> {
    let mut line = Vec::new();
    from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(LogLine::Line(line)));
    }
    match line.len() as u64 {
        0 => Ok(None),
        LONGEST_LINE => skip_line(from, LONGEST_LINE).map(Some),
        torn => Ok(Some(LogLine::Torn(torn))),
    }
}

/// Goes on behind the next newline, without keeping what stands before it.
fn skip_line(from: &mut impl io::BufRead, mut skipped: u64) -> io::Result<LogLine> {
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            return Ok(LogLine::Torn(skipped));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        from.consume(used);
        skipped += used as u64;
        if end.is_some() {
            return Ok(LogLine::TooLong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_and_nowhere_else() {
        let check = |text: Vec<u8>, expected: &[LogLine]| {
            let mut lines = BufReader::new(text.as_slice());
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut lines).unwrap() {
                found.push(line);
            }
            assert_eq!(found, expected);
        };
        let longest = usize::try_from(LONGEST_LINE).unwrap();
        let line = |text: &str| LogLine::Line(text.as_bytes().to_vec());
        check(b"".to_vec(), &[]);
        check(b"a\n\nb\n".to_vec(), &[line("a"), line(""), line("b")]);
        check(b"a\nb".to_vec(), &[line("a"), LogLine::Torn(1)]);
        check([vec![b'x'; longest + 5], b"\nb\n".to_vec()].concat(), &[LogLine::TooLong, line("b")]);
        check(vec![b'x'; longest + 5], &[LogLine::Torn(LONGEST_LINE + 5)]);
    }
}
