//! The trace as one page that needs no network: style, program and data stand in it, and nothing else may run or be loaded.
//!
//! The data is JSON in which no tag can end, and the program sets every text of it as text.

use std::{
    fs::Permissions,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use agentd_core::ids::SessionId;
use agentd_trace::TurnTrace;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Data of the page.
#[derive(Debug, Serialize)]
pub(in crate::cmd) struct PageData<'a> {
    pub(in crate::cmd) title: &'a str,
    pub(in crate::cmd) session_id: SessionId,
    pub(in crate::cmd) turns: &'a [TurnTrace],
}

/// The whole page.
pub(in crate::cmd) fn render(data: &PageData<'_>) -> serde_json::Result<String> {
    let data = serde_json::to_string(data)?.replace('<', "\\u003c");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len() + policy.len());
    let mut rest = PAGE;
    // Cut before anything is put in, so that nothing that is put in is taken for a mark.
    for (mark, content) in
        [("{{policy}}", &*policy), ("{{style}}", STYLE), ("{{data}}", &*data), ("{{script}}", SCRIPT)]
    {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// The source expression that allows just this text to run.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Writes the page, whole or not at all. It has what was said in the session, so it is its owner's alone.
///
/// # Errors
/// When the file cannot be written, or is there already and may not be replaced.
pub(super) fn write(path: &Path, page: &str, may_replace: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::usage(format!("{} is there already", path.display())).hint("--force replaces it");
        }
        Failure::usage(format!("could not write {}: {error}", path.display()))
            .hint("name a file in a folder that is there")
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut draft = tempfile::Builder::new().prefix(".trace").tempfile_in(folder).map_err(failed)?;
    draft.write_all(page.as_bytes()).map_err(failed)?;
    draft.as_file().set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    draft.as_file().sync_all().map_err(failed)?;
    let placed = if may_replace { draft.persist(path) } else { draft.persist_noclobber(path) };
    placed.map(drop).map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_data_and_no_mark_in_it_is_filled() {
        let title = "</script><script>alert(1)</script>{{script}}<!--";
        let page = render(&PageData { title, session_id: SessionId::generate(), turns: &[] }).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "the end of the data, and that of the program");
        assert_eq!(page.matches("<script").count(), 2);
        let (_, data) = page.split_once(r#"type="application/json">"#).unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["title"], title);
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing is loaded");
        assert!(page.contains(&format!("script-src '{}'", hash(SCRIPT))));
    }

    #[test]
    fn a_page_replaces_a_file_only_where_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.html");
        write(&path, "a", false).unwrap();
        let refused = write(&path, "b", false).unwrap_err();
        assert_eq!(refused.hint.as_deref(), Some("--force replaces it"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
        write(&path, "b", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&folder.path().join("no/such/trace.html"), "c", false).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
