//! The user's editor: `$VISUAL`, else `$EDITOR`.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::Path,
    process::Command,
};

use super::pager;
use crate::terminal::look;

/// Returns the editor, if one is set.
pub(super) fn name() -> Option<OsString> {
    let set = |name: &str| std::env::var_os(name).filter(|editor| !editor.is_empty());
    set("VISUAL").or_else(|| set("EDITOR"))
}

/// Opens a text in the editor, in a file with this suffix, and returns the edited text. Returns `None` if the editor
/// failed, or was ended because `is_dropped` returned true.
///
/// # Errors
/// Fails if the file cannot be written or read, or the editor cannot be started.
pub(super) fn edit(
    editor: &OsStr,
    text: &str,
    suffix: &str,
    is_dropped: impl Fn() -> bool,
) -> io::Result<Option<String>> {
    let mut file = tempfile::Builder::new().prefix("agentctl-").suffix(suffix).tempfile()?;
    file.write_all(text.as_bytes())?;
    let is_edited = run(editor, file.path(), is_dropped)?;
    if is_edited { std::fs::read_to_string(file.path()).map(Some) } else { Ok(None) }
}

/// Runs the editor on a file, and ends it once `is_dropped` returns true.
fn run(editor: &OsStr, file: &Path, is_dropped: impl Fn() -> bool) -> io::Result<bool> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", r#"eval "$AGENTCTL_EDITOR \"\$1\"""#, "sh"]).arg(file).env("AGENTCTL_EDITOR", editor);
    if let Some(kind) = look::kind_for_programs() {
        command.env("TERM", kind);
    }
    // Standard output may be a pipe; questions are on standard error.
    let child = command.stdout(io::stderr()).spawn()?;
    Ok(pager::wait(child, is_dropped)?.is_some_and(|status| status.success()))
}
