//! Entries, for those who list them or judge them again.

use std::{
    collections::VecDeque,
    io::{self, BufReader},
    path::Path,
};

use agentd_core::audit::{AuditLine, AuditQuery};

use crate::files::{self, LogLine, OpenLogFile};

/// Lines of one answer at the most.
pub(crate) const MOST_LINES: usize = 10_000;
/// Bytes of one answer at the most; a message of the wire holds twice as much.
pub(crate) const MOST_BYTES: usize = 8 << 20;

/// The newest lines that fit the query, oldest first.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn newest(folder: &Path, query: &AuditQuery) -> io::Result<Vec<AuditLine>> {
    let limit = query.limit.clamp(1, MOST_LINES);
    let mut found: VecDeque<(usize, AuditLine)> = VecDeque::new();
    // The newest file first: most questions need no other.
    for file in files::opened(folder)?.into_iter().rev() {
        let mut of_file = VecDeque::new();
        let mut reached = false;
        each_of(file, &mut |size, line| {
            reached |= line.n <= query.after;
            let fits = line.n > query.after && query.session_id.is_none_or(|id| line.entry.session_id == Some(id));
            if fits {
                of_file.push_back((size, line));
                if of_file.len() + found.len() > limit {
                    of_file.pop_front();
                }
            }
        })?;
        of_file.append(&mut found);
        found = of_file;
        if reached || found.len() >= limit {
            break;
        }
    }
    let mut bytes = 0;
    let within = found.iter().rev().take_while(|(size, _)| {
        bytes += size;
        bytes <= MOST_BYTES
    });
    let skip = found.len() - within.count();
    Ok(found.into_iter().skip(skip).map(|(_, line)| line).collect())
}

/// Shows every line of the log, oldest first, to whoever judges them again. What is no line is passed over: whether the
/// log holds is asked of [`crate::verify`].
///
/// # Errors
/// The folder or a file cannot be read.
pub fn each(folder: &Path, mut see: impl FnMut(AuditLine)) -> io::Result<()> {
    for file in files::opened(folder)? {
        each_of(file, &mut |_, line| see(line))?;
    }
    Ok(())
}

pub(crate) fn each_of(file: OpenLogFile, see: &mut dyn FnMut(usize, AuditLine)) -> io::Result<()> {
    let mut lines = files::Lines::new(BufReader::new(file.file?));
    while let Some(found) = lines.next()? {
        if let LogLine::Line(bytes) = found
            && let Ok(line) = serde_json::from_slice(&bytes)
        {
            see(bytes.len(), line);
        }
    }
    Ok(())
}
