//! What is recorded of a call that changed more than can be recorded.

use agentd_core::tool::{FileChange, FileChangeKind};

use crate::text;

/// Cuts changes down to this many, and says what is not among them.
///
/// Undoing a part of what a call did must not lose what the whole would have kept: a folder that was moved is one that
/// was made and one that was removed. So what took something away comes first, and what was made is recorded only where
/// there is room behind that. One of those that are left out stays as a change that is only told of, so that an undo says
/// that it is not whole.
pub(super) fn cut(changes: &mut Vec<FileChange>, limit: usize) -> Option<String> {
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

    /// Changes by their first letters: `d`eleted, `m`odified, `c`reated; in capitals where they are only told of.
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
    fn what_took_something_away_comes_first() {
        check("cdm", 3, "cdm");
        check("cccdm", 3, "cCdm");
        check("cccddd", 3, "Cddd");
        check("ccdddmc", 3, "Cddd");
        check("ddcc", 1, "dD");
        check("ccc", 2, "ccC");
    }
}
