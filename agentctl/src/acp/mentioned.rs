//! Files that the typed text of a prompt names with `#`, as it does in a chat. Labels, files and resources name none.

use agentd_core::{input::Selection, path};

use super::{bridge::Bridge, content::Part, places::Places, refusal::Trouble, session::OpenSession};
use crate::{
    daemon::Daemon,
    mentions::{self, Bundle, MentionSource},
    session::Upload,
};

/// Hands over the files that typed text names, and returns what stands behind the words.
pub(super) async fn behind(
    bridge: &Bridge,
    session: &OpenSession,
    daemon: &Daemon,
    parts: &[Part],
    places: &Places,
) -> Result<String, Trouble> {
    let words = parts.iter().filter_map(|part| match part {
        Part::Typed(words) => Some(words),
        _ => None,
    });
    let found = words.flat_map(|words| mentions::find(words, &session.folder)).collect();
    let bundle = Bundle::collect(found, &places.mounts(), MentionSource::Editor);
    let mut named = bundle.named;
    for path in &bundle.copies {
        let receipt = Upload::open(path)?.put(daemon, session.id).await?;
        named.push(format!("#{} is {}", path::shown(&path.display().to_string()), receipt.path));
    }
    for note in &bundle.notes {
        bridge.tell(session, note).await;
    }
    let files = if named.is_empty() { String::new() } else { format!("\n\nFiles: {}", named.join("; ")) };
    // A prompt may be added to a turn that runs, which takes nothing but text.
    Ok(bundle.selections.iter().map(quoted).fold(files, |behind, quote| behind + &quote))
}

fn quoted(Selection { uri, lines, text }: &Selection) -> String {
    let lines = lines.map(|lines| format!(", lines {} to {}", lines.first, lines.last)).unwrap_or_default();
    format!("\n\n{}{lines}:\n\n{text}", path::shown(uri))
}
