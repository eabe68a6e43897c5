//! Texts of files that a client holds and has not saved. A call that writes such a file changes that text, and not what the
//! disk has: so undo gives back the text.

use std::{collections::HashMap, io, sync::Arc};

use agentd_core::{ports::Workspace, tool::FileChange};

use super::{
    super::{
        jail::Jail,
        path::{PathPlace, ToolPath},
    },
    blobs::{self, Blobs, Hash},
};
use crate::backend::client::FileClient;

/// Contents that are kept of unsaved texts, by the paths of their files.
pub(super) type UnsavedContents = HashMap<String, (Hash, u64)>;

/// The unsaved texts of these files, as the disk would have them.
pub(super) async fn texts(
    client: FileClient,
    workspace: Arc<Workspace>,
    paths: Vec<String>,
) -> HashMap<String, Vec<u8>> {
    let asked = tokio::task::spawn_blocking(move || {
        let jail = Jail::new(workspace);
        let unsaved = |path: String| {
            let parsed = ToolPath::parse(&path).ok().filter(|parsed| parsed.place() == PathPlace::Project)?;
            Some((path, client.unsaved(&jail, &parsed)?))
        };
        paths.into_iter().filter_map(unsaved).collect()
    });
    asked.await.unwrap_or_default()
}

/// Keeps the texts. One for which there is no room is not among what comes back.
pub(super) fn keep(blobs: &Blobs, texts: HashMap<String, Vec<u8>>) -> io::Result<UnsavedContents> {
    let mut intake = blobs.intake(false);
    let mut kept = HashMap::new();
    for (path, text) in texts {
        if let Ok(hash) = intake.keep(&text)? {
            kept.insert(path, (hash, text.len() as u64));
        }
    }
    intake.finish()?;
    Ok(kept)
}

/// Lets a change go from the unsaved text, and tells whether it is still one.
pub(super) fn go_from(change: &mut FileChange, unsaved: &UnsavedContents) -> bool {
    let Some(((hash, size), before)) = unsaved.get(&change.path).zip(change.before.as_mut()) else { return true };
    (before.hash, before.size) = (blobs::text(hash), *size);
    change.before != change.after
}
