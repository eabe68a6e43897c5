//! Disk usage of the data folder.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use agentd_core::{
    error::ErrorKind,
    storage::{PartSize, StoragePart},
};
use agentd_engine::EngineError;

/// A block, as the system counts them.
const BLOCK: u64 = 512;

/// Content of a folder or a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) files: u64,
    /// Its size on the disk.
    pub(super) bytes: u64,
}

/// Every part once.
pub(super) fn of(data: &Path) -> io::Result<Vec<PartSize>> {
    let mut parts: Vec<PartSize> =
        StoragePart::ALL.into_iter().map(|part| PartSize { part, bytes: 0, files: 0 }).collect();
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let part = part(&entry.file_name().to_string_lossy());
        let content = measure(entry.path());
        if let Some(known) = parts.iter_mut().find(|known| known.part == part) {
            known.bytes += content.bytes;
            known.files += content.files;
        }
    }
    Ok(parts)
}

/// Content of a folder; none where it is not there.
pub(super) async fn content(folder: PathBuf) -> Option<Content> {
    let measured = tokio::task::spawn_blocking(move || folder.is_dir().then(|| measure(folder))).await;
    measured.ok().flatten()
}

fn part(name: &str) -> StoragePart {
    match name {
        "agentd.db" => StoragePart::Journal,
        "agentd.db-wal" | "agentd.db-shm" => StoragePart::JournalLog,
        "index" => StoragePart::Index,
        "workspace" => StoragePart::Workspaces,
        "undo" => StoragePart::Undo,
        "memories" => StoragePart::Memories,
        "models" => StoragePart::Models,
        "skills" => StoragePart::Skills,
        "skill_environments" => StoragePart::SkillEnvironments,
        "logs" => StoragePart::Logs,
        "traces" => StoragePart::Traces,
        name if name.starts_with("audit.") || name.starts_with("audit-") => StoragePart::Audit,
        _ => StoragePart::Other,
    }
}

/// Counts without following links. What vanishes meanwhile or cannot be looked at counts as nothing.
fn measure(path: PathBuf) -> Content {
    let mut content = Content::default();
    let mut left = vec![path];
    while let Some(path) = left.pop() {
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        content.bytes += about.blocks() * BLOCK;
        if !about.is_dir() {
            content.files += 1;
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            left.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    content
}

/// Free space on the disk of a folder, for us; 0 where the system does not tell.
pub(super) fn free_bytes(folder: &Path) -> u64 {
    nix::sys::statvfs::statvfs(folder).map_or(0, |disk| {
        let free: u64 = disk.blocks_available();
        free.saturating_mul(disk.fragment_size())
    })
}

pub(super) fn unreadable(data: &Path, error: io::Error) -> EngineError {
    EngineError::new(ErrorKind::Storage, format!("could not look through {}: {error}", data.display()))
        .with_hint("the data folder must be yours and readable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_folder_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![7; bytes]).unwrap();
        };
        write("agentd.db", 100_000);
        write("agentd.db-wal", 10_000);
        write("audit.jsonl", 5000);
        write("audit-20260101T000000.000000Z.jsonl", 5000);
        write("workspace/a/outputs/x", 50_000);
        write("agentd.lock", 5);
        std::os::unix::fs::symlink("/usr", folder.path().join("workspace/a/outputs/usr")).unwrap();
        let parts = of(folder.path()).unwrap();
        let find = |part| parts.iter().find(|known| known.part == part).unwrap();
        assert_eq!(parts.len(), StoragePart::ALL.len());
        assert!((100_000..120_000).contains(&find(StoragePart::Journal).bytes));
        assert_eq!(find(StoragePart::Audit).files, 2);
        assert_eq!(find(StoragePart::Other).files, 1);
        let workspaces = find(StoragePart::Workspaces);
        assert!(workspaces.files == 2 && workspaces.bytes < 100_000, "{workspaces:?}");
        assert!(free_bytes(folder.path()) > 0);
    }
}
