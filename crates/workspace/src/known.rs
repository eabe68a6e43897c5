//! Paths that a model can be held to: it may name these files, and no others.

use std::{cmp::Reverse, ops::ControlFlow, time::SystemTime};

use crate::{
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    walk::{Kind, UnreadEntries, Walk},
};

/// Files of the session, newest first, and those of the project after them, from the top of its tree to the bottom:
/// people speak of what they have just handed over, and of what they see when they look into a folder. At most `limit`.
/// A session that has no folder yet has a project all the same.
pub fn paths(job: &Job, has_own: bool, limit: usize) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    let mut left = UnreadEntries::default();
    let mut places = job.files.places(&ToolPath::root(PathPlace::Own));
    places.retain(|place| has_own || place.place() != PathPlace::Own);
    for place in places {
        let is_own = place.place() == PathPlace::Own;
        let walked = Walk::whole(false).run(job, &place, &mut left, &mut |found| {
            if found.kind == Kind::File {
                let depth = if is_own { 0 } else { found.depth };
                let modified = found.modified.unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((depth, Reverse(modified), found.path.to_string()));
            }
            Ok(ControlFlow::Continue(()))
        });
        // A project that cannot be looked at is told by the tool that is asked for it.
        if is_own {
            walked?;
        }
    }
    files.sort();
    Ok(files.into_iter().take(limit).map(|(_, _, path)| path).collect())
}
