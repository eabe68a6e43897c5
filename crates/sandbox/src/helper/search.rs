//! Looks for files that hold keys where commands may read, so that they can be hidden. Anew for each command, because
//! such a file may have been written a moment ago.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::super::{
    policy::Policy,
    secrets::{self, SecretName},
};

/// Entries of one listed folder that are looked at, the shallow ones first: more are packages of some program. So many take
/// about 20 ms where the system has them in its cache.
const ENTRIES: usize = 20_000;
/// The time for all that lies deeper than [`DEPTH`] in a listed folder: a command waits for it, and a disk may be slow.
const TIME: Duration = Duration::from_millis(500);
/// Depth below a listed folder down to which names are looked at however long that takes.
const DEPTH: usize = 4;
/// Settings that people write are not longer, in bytes; nor are keys.
const LONGEST: u64 = 256 * 1024;
/// Folders of packages: what is in them came from somewhere else.
const PACKAGES: [&str; 3] = ["__pycache__", "node_modules", "site-packages"];

/// Files with keys.
#[derive(Debug, Default)]
pub(super) struct KeyFiles {
    /// Hidden ones.
    pub(super) hidden: Vec<PathBuf>,
    /// Those that are seen without the keys in them, and what is left of each.
    pub(super) reduced: Vec<(PathBuf, String)>,
}

/// Real paths.
struct RealPaths {
    home: Option<PathBuf>,
    /// The folder of settings in the home.
    settings: Option<PathBuf>,
    /// All that is hidden anyway.
    hidden: HashSet<PathBuf>,
}

/// Looks through what was listed. What is the session's own is left as it is.
pub(super) fn search(policy: &Policy) -> KeyFiles {
    let mut found = KeyFiles::default();
    let real = |path: &PathBuf| path.canonicalize().ok();
    let home = policy.home.as_ref().and_then(real);
    let known = RealPaths {
        settings: home.as_ref().map(|home| home.join(".config")).and_then(|path| real(&path)),
        hidden: policy.hidden.iter().filter_map(real).collect(),
        home,
    };
    let mut waiting = VecDeque::new();
    for listed in &policy.searched {
        let Ok(listed) = listed.canonicalize() else { continue };
        if !listed.is_dir() {
            file(&listed, true, &mut found);
        } else if secrets::named(&listed, true) == SecretName::Secret {
            found.hidden.push(listed);
        } else {
            waiting.push_back(Folder { path: listed, depth: 1, listed: waiting.len() });
        }
    }
    folders(waiting, policy, &known, &mut found);
    found
}

/// A folder that is still to be looked at.
struct Folder {
    path: PathBuf,
    depth: usize,
    /// Which of the listed ones it belongs to.
    listed: usize,
}

/// Looks at the shallow folders of all that was listed first, so that none takes the time of another.
fn folders(mut waiting: VecDeque<Folder>, policy: &Policy, known: &RealPaths, found: &mut KeyFiles) {
    let began = Instant::now();
    let mut left = vec![ENTRIES; waiting.len()];
    while let Some(Folder { path: folder, depth, listed }) = waiting.pop_front() {
        if depth > DEPTH && began.elapsed() > TIME {
            return;
        }
        let is_home = known.home.as_ref() == Some(&folder);
        let is_of_settings = known.settings.as_ref().is_some_and(|settings| folder.starts_with(settings));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if left[listed] == 0 {
                break;
            }
            left[listed] -= 1;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if known.hidden.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                let is_packages = PACKAGES.iter().any(|name| entry.file_name() == *name);
                if secrets::named(&path, true) == SecretName::Secret {
                    found.hidden.push(path);
                } else if !is_packages && !policy.is_exact(&path) {
                    waiting.push_back(Folder { path, depth: depth + 1, listed });
                }
            } else {
                let is_dotted = entry.file_name().as_encoded_bytes().starts_with(b".");
                let is_setting = is_of_settings || is_home && is_dotted || secrets::is_reducible(&path);
                file(&path, is_setting, found);
            }
        }
    }
}

/// Looks at a file, or at where a link leads by the link's name.
fn file(path: &Path, is_setting: bool, found: &mut KeyFiles) {
    match secrets::named(path, false) {
        SecretName::Secret => found.hidden.push(path.to_owned()),
        SecretName::Key if text(path).is_some_and(|text| secrets::is_key(text.as_bytes())) => {
            found.hidden.push(path.to_owned());
        }
        SecretName::Key | SecretName::Other if is_setting => {
            let Some(text) = text(path).filter(|text| secrets::holds_any(text)) else { return };
            if secrets::is_reducible(path) {
                found.reduced.push((path.to_owned(), secrets::without(&text)));
            } else {
                found.hidden.push(path.to_owned());
            }
        }
        SecretName::Key | SecretName::Other => {}
    }
}

/// Reads a short file.
fn text(path: &Path) -> Option<String> {
    // A pipe would be waited for.
    let is_short = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= LONGEST);
    let mut bytes = Vec::new();
    File::open(path).ok().filter(|_| is_short)?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
