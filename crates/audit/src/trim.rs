//! Removal of the oldest log files by age and size.
//!
//! Before a file is removed, its last line is recorded in the log and synced. The record marks the line after which the
//! chain continues. A crash between the record and the removal leaves a surplus file, never an unrecorded gap. If a
//! file was modified, neither that file nor later files are removed, so that the damage stays visible.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use agentd_core::{Timestamp, audit::AuditFact};

use crate::{
    place::{self, Tail},
    read::{self, CURRENT},
    writer::Thread,
};

/// Limits for the remaining files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrimLimits {
    /// Files rotated before this time are removed.
    pub before: Option<Timestamp>,
    /// Maximum total size in bytes. The oldest files are removed first; the current file counts but is never removed.
    pub max_bytes: Option<u64>,
    /// True if files are only counted, not removed.
    pub trial: bool,
}

/// Number and size of the removed files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrimReport {
    /// Number of removed files.
    pub files: u64,
    /// Total size of the removed files, in bytes.
    pub bytes: u64,
}

impl TrimReport {
    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

pub(crate) fn trim(thread: &mut Thread, limits: &TrimLimits) -> io::Result<TrimReport> {
    let mut trimmed = TrimReport::default();
    let mut files = Vec::new();
    for name in read::all(&thread.folder)? {
        let bytes = fs::symlink_metadata(thread.folder.join(&name))?.len();
        files.push((name, bytes));
    }
    let mut total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    for (name, bytes) in files.iter().filter(|(name, _)| name != CURRENT) {
        let path = thread.folder.join(name);
        let is_old = limits.before.is_some_and(|before| rotated_at(name).is_some_and(|at| at < before));
        if !is_old && limits.max_bytes.is_none_or(|max| total <= max) {
            break;
        }
        let tail = Tail::of(&mut File::open(&path)?)?;
        // The last line, if the line is valid and no incomplete line follows.
        let Some(through) = tail.last.filter(|_| tail.torn.is_none()) else {
            tracing::warn!("{name} is old but is not removed: it was changed by another program");
            break;
        };
        if !limits.trial {
            thread.write_own(AuditFact::LogTrimmed { file: name.clone(), through, bytes: *bytes })?;
            fs::remove_file(&path)?;
        }
        total -= bytes;
        trimmed.count(*bytes);
    }
    if let Some(before) = limits.before {
        for (name, bytes) in torn(&thread.folder)? {
            if rotated_at(&name).is_some_and(|at| at < before) {
                if !limits.trial {
                    fs::remove_file(thread.folder.join(&name))?;
                }
                trimmed.count(bytes);
            }
        }
    }
    if trimmed.files > 0 && !limits.trial {
        place::sync_folder(&thread.folder)?;
    }
    Ok(trimmed)
}

/// Returns the rotation time of a file from its name. The modification time is unreliable, as it may be that of a copy.
fn rotated_at(name: &str) -> Option<Timestamp> {
    let stamp = name.strip_prefix("audit-")?.get(..15)?;
    let at = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", stamp).ok()?;
    at.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|at| at.timestamp())
}

/// Returns the names and sizes of the files with incomplete lines saved after crashes.
fn torn(folder: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut torn = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with("audit-") && name.ends_with(".torn") && entry.file_type()?.is_file() {
            torn.push((name, entry.metadata()?.len()));
        }
    }
    Ok(torn)
}
