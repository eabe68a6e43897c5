//! Ownership of files and folders: one that another user can write is not obeyed, wherever it lies.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _};

/// Write permission for others, which must not be set here.
const OTHERS: u32 = 0o002;
const GROUP: u32 = 0o020;

/// The user and group that agentd runs as.
#[derive(Debug, Clone, Copy)]
struct Identity {
    user: u32,
    group: u32,
}

/// Names who else may write a file or folder that is to be obeyed, as the end of a sentence that begins with its path.
#[must_use]
pub(crate) fn objection(found: &Metadata) -> Option<String> {
    let we = Identity { user: nix::unistd::geteuid().as_raw(), group: nix::unistd::getegid().as_raw() };
    judged(we, found.uid(), found.gid(), found.mode())
}

/// The machine's administrator could write it anyway. A group that is our own is mostly ours alone, and what it may
/// write is how many systems make files.
fn judged(we: Identity, user: u32, group: u32, mode: u32) -> Option<String> {
    if user != we.user && user != 0 {
        return Some(format!("it belongs to the user {user}, and agentd runs as the user {}", we.user));
    }
    if mode & OTHERS != 0 {
        return Some(format!("every user of the machine may write to it (mode {:04o})", mode & 0o7777));
    }
    if mode & GROUP != 0 && group != we.group {
        return Some(format!("the group {group} may write to it (mode {:04o})", mode & 0o7777));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_else_can_write_is_obeyed() {
        let check = |user, group, mode, why: Option<&str>| {
            let said = judged(Identity { user: 1000, group: 1000 }, user, group, mode);
            assert_eq!(said.is_some(), why.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(why.unwrap_or_default()));
        };
        check(1000, 1000, 0o600, None);
        check(1000, 1000, 0o664, None);
        check(0, 0, 0o644, None);
        check(1001, 1001, 0o600, Some("belongs to the user 1001"));
        check(1000, 1000, 0o666, Some("every user"));
        check(0, 0, 0o777, Some("every user"));
        check(1000, 100, 0o664, Some("group 100"));
        check(0, 100, 0o1775, Some("group 100"));
    }
}
