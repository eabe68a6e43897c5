//! Record of a call that changed more than can be recorded.

use agentd_core::tool::{FileChange, FileChangeKind};

use crate::text;

/// Maximum size of all changes of one call, in bytes: they are one entry of the journal, and one message to clients,
/// which read no more than 16 MiB.
const MAX_BYTES: usize = 8 << 20;

/// Size of one beside its path, in bytes: its states, with their fingerprints.
const BESIDE_PATH: usize = 256;

/// Cuts changes down to this many, and says what is not among them.
///
/// Undoing a part of what a call did must not lose what the whole would have kept: a folder that was moved is one that
/// was made and one that was removed. So what took something away comes first, and what was made is recorded only where
/// there is room behind that. One of those that are left out stays as a change that is only told of, so that an undo
/// says that it is not whole.
pub(super) fn cut(changes: &mut Vec<FileChange>, limit: usize) -> Option<String> {
    let bytes: usize = changes.iter().map(|change| change.path.len() + BESIDE_PATH).sum();
    let limit = if bytes > MAX_BYTES { limit.min(changes.len().saturating_mul(MAX_BYTES) / bytes) } else { limit };
    let more = changes.len().checked_sub(limit).filter(|more| *more > 0)?;
    let is_made = |change: &FileChange| change.change == FileChangeKind::Created;
    let lossy = changes.iter().filter(|change| !is_made(change)).count();
    let (mut lossy_left, mut made_left) = (limit, limit.saturating_sub(lossy));
    let mut told = false;
    changes.retain_mut(|change| {
        let left = if is_made(change) { &mut made_left } else { &mut lossy_left };
        if *left > 0 {
            *left -= 1;
            return true;
        }
        (change.before, change.after) = (None, None);
        !std::mem::replace(&mut told, true)
    });
    Some(format!("{} were changed beyond the {limit} that are recorded", text::count(more, "file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes by their first letters: `d`eleted, `m`odified, `c`reated; in capitals if they are only reported.
    #[track_caller]
    fn check(before: &str, limit: usize, after: &str) {
        let kinds = [('d', FileChangeKind::Deleted), ('m', FileChangeKind::Modified), ('c', FileChangeKind::Created)];
        let state = || {
            Some(agentd_core::tool::FileState {
                kind: agentd_core::tool::FileKind::File,
                hash: "1".to_owned(),
                size: 1,
                mode: 0o644,
            })
        };
        let change = |letter: char| {
            let kind = kinds.iter().find(|(known, _)| *known == letter).unwrap().1;
            FileChange { before: state(), after: state(), ..FileChange::new(letter, kind) }
        };
        let mut changes: Vec<FileChange> = before.chars().map(change).collect();
        let note = cut(&mut changes, limit);
        let letter = |change: &FileChange| match change.before {
            Some(_) => change.path.clone(),
            None => change.path.to_uppercase(),
        };
        assert_eq!(changes.iter().map(letter).collect::<String>(), after);
        assert_eq!(note.is_some(), before.len() > limit);
    }

    #[test]
    fn long_paths_take_the_room_of_several() {
        let path = |number: usize| format!("{}/{number}", "long".repeat(1_000));
        let mut changes: Vec<FileChange> =
            (0..4_000).map(|number| FileChange::new(path(number), FileChangeKind::Created)).collect();
        assert!(cut(&mut changes, 30_000).is_some());
        assert!((1_500..2_500).contains(&changes.len()), "{} are left", changes.len());
    }

    #[test]
    fn what_took_something_away_comes_first() {
        check("cdm", 3, "cdm");
        check("cccdm", 3, "cCdm");
        check("cccddd", 3, "Cddd");
        check("ccdddmc", 3, "Cddd");
        check("ddcc", 1, "dD");
        check("ccc", 2, "ccC");
    }
}
