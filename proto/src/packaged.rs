//! Files that a package installs beside the programs.

use std::{env, path::PathBuf};

/// The folder of what is shared by all users, beside the folder of the programs.
fn shared() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("share/agentd"))
}

/// The folder of the models that came with the programs: `share/agentd/models` beside the folder of the programs. It need not be
/// there.
#[must_use]
pub fn models() -> Option<PathBuf> {
    Some(shared()?.join("models"))
}

/// The command that brings the weights of the built-in model: the script that came with the programs, or that of the sources.
#[must_use]
pub fn fetch_command() -> String {
    let script = shared().map(|folder| folder.join("fetch_model.py")).filter(|script| script.is_file());
    script.map_or_else(|| "make model".to_owned(), |script| format!("python3 {}", script.display()))
}
