//! Files that a package installs next to the programs.

use std::{
    env,
    path::{Path, PathBuf},
};

use agentd_core::knowledge::RECOGNITION_MODELS;

/// Returns the `share` folder for all users, next to the folder of the programs.
fn shared() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("share/agentd"))
}

/// Returns the folder of the models installed with the programs: `share/agentd/models` next to the folder of the
/// programs. The folder may not exist.
pub fn models() -> Option<PathBuf> {
    Some(shared()?.join("models"))
}

/// Returns the folder of the text recognition models: in the user's data folder, or installed with the programs.
pub fn recognition_models(data: &Path) -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| RECOGNITION_MODELS.iter().all(|name| folder.join(name).is_file());
    [Some(data.join("models")), models()].into_iter().flatten().find(has_all)
}

/// Returns the command that downloads the text recognition models.
pub fn recognition_command() -> String {
    let files = shared().map(|folder| (folder.join("fetch_model.py"), folder.join("recognition.txt")));
    match files.filter(|(script, list)| script.is_file() && list.is_file()) {
        Some((script, list)) => format!("python3 {} --list {}", script.display(), list.display()),
        None => "make recognition".to_owned(),
    }
}

/// Returns the command that downloads the weights of the built-in model: the script installed with the programs, or the
/// script in the source tree.
pub fn fetch_command() -> String {
    let script = shared().map(|folder| folder.join("fetch_model.py")).filter(|script| script.is_file());
    script.map_or_else(|| "make model".to_owned(), |script| format!("python3 {}", script.display()))
}
