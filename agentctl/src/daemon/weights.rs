//! The weights of the built-in model: a file that may be missing.

use std::path::{Path, PathBuf};

use agentd_proto::packaged;

use super::Daemon;

/// The folders below that of the models in which a file is looked for.
const DEEPEST: u8 = 3;

/// The file of the built-in model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    /// It is there.
    File(PathBuf),
    /// It is not, at this path or below it.
    Missing(PathBuf),
}

impl Weights {
    /// Looks for the file that the daemon would load: the one that its configuration names, the one in its data folder,
    /// or one that came with the programs.
    pub(crate) async fn find(daemon: &Daemon) -> Self {
        let named = named(daemon).await;
        let is_named = named.is_some();
        let path = match named {
            Some(path) if path.is_file() => return Self::File(path),
            Some(path) => path,
            None => {
                let theirs = &daemon.client.hello().data_dir;
                let ours = || super::data_dir().unwrap_or_default();
                if theirs.as_os_str().is_empty() { ours() } else { theirs.clone() }.join("models")
            }
        };
        let packaged = || if is_named { None } else { file_below(&packaged::models()?, DEEPEST) };
        match file_below(&path, DEEPEST).or_else(packaged) {
            Some(file) => Self::File(file),
            None => Self::Missing(path),
        }
    }
}

/// The file that the configuration names. A daemon that does not say is an older one.
async fn named(daemon: &Daemon) -> Option<PathBuf> {
    let view = daemon.client.config().await.ok()?;
    let value = |key: &str| {
        let origin = view.origins.iter().find(|origin| origin.key == key);
        origin.and_then(|origin| origin.value.as_ref()?.as_str().map(str::to_owned))
    };
    let named = value("models.base.gguf").or_else(|| value("embedded.weights").filter(|path| path != "auto"))?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match (named.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Some(home.join(rest)),
        // A relative one belongs to the folder of its file.
        _ if Path::new(&named).is_relative() => Some(super::config_dir().ok()?.join(named)),
        _ => Some(named.into()),
    }
}

/// A GGUF file in this folder or below.
fn file_below(folder: &Path, depth: u8) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            return file_below(&path, depth - 1);
        }
        (path.extension()? == "gguf").then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn weights_are_found_below_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), None);
        let file = folder.path().join("smol/model.gguf");
        fs::create_dir(folder.path().join("smol")).unwrap();
        fs::write(folder.path().join("smol/notes.txt"), "").unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), None);
        fs::write(&file, "").unwrap();
        assert_eq!(file_below(folder.path(), DEEPEST), Some(file));
    }
}
