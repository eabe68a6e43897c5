//! Landlock: limits the files that can be reached, by any path. Also finds files that contain keys before each command
//! starts, in order to hide them.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    fs::{self, File},
    io::Read as _,
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentd_workspace::exact;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{Mode, OFlags};

use super::{Step, step};
use crate::{
    config::Policy,
    places::{DEVICES, FRESH},
    secrets::{self, SecretName},
};

/// Newest ABI that was tested. Older kernels enforce the part that they support.
const TESTED_ABI: ABI = ABI::V7;

/// Restricts access to the paths in the policy. Returns the version of the Landlock ABI, or 0 without Landlock.
pub(super) fn restrict(policy: &Policy, namespaces: bool) -> Step<u8> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(TESTED_ABI))
        .and_then(|rules| rules.scope(Scope::from_all(TESTED_ABI)))
        .map_err(step("prepare the Landlock rules"))?;
    if !policy.network {
        rules = rules.handle_access(AccessNet::from_all(TESTED_ABI)).map_err(step("prepare the Landlock rules"))?;
    }
    let rules = rules.create().map_err(step("create the Landlock rules"))?;
    let read = AccessFs::from_read(TESTED_ABI);
    // Scripts may create pipes, but not devices or sockets.
    let write = AccessFs::from_all(TESTED_ABI)
        & !(AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    // With namespaces, other mounts hide these paths instead.
    let real = policy.hidden.iter().filter(|_| !namespaces).filter_map(|path| path.canonicalize().ok());
    let mut allowed = AllowedPaths { rules, policy, hidden: real.collect() };
    for path in &policy.read {
        allowed.add(path, read)?;
    }
    for path in &policy.write {
        allowed.add(path, write)?;
    }
    for device in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        allowed.add_opened(Path::new(device), access, open(device))?;
    }
    if namespaces {
        for fresh in FRESH {
            allowed.add_opened(Path::new(fresh), write, open(fresh))?;
        }
        // The parent folders of names contain only readable folders.
        let parents = policy.names.iter().filter_map(|name| name.name.parent()).filter(|path| *path != Path::new("/"));
        for parent in parents.collect::<BTreeSet<_>>() {
            allowed.add_opened(parent, AccessFs::ReadDir.into(), open(parent))?;
        }
    }
    let status = allowed.rules.restrict_self().map_err(step("restrict file access"))?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u8,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    })
}

/// Paths that the rules allow so far.
struct AllowedPaths<'a> {
    rules: RulesetCreated,
    policy: &'a Policy,
    /// Paths without access that cannot be mounted over.
    hidden: Vec<PathBuf>,
}

impl AllowedPaths<'_> {
    /// Allows access to a path and everything below. If the path contains a hidden path that cannot be mounted over,
    /// allows access to each of the other entries.
    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Step<()> {
        // A hidden folder around the path is ignored, because the session's own folders are allowed inside it.
        let real = if self.hidden.is_empty() { None } else { path.canonicalize().ok() };
        let is_below = |hidden: &&PathBuf| real.as_ref().is_some_and(|real| hidden.starts_with(real));
        let hidden: Vec<PathBuf> = self.hidden.iter().filter(is_below).cloned().collect();
        if hidden.is_empty() {
            let opened = if self.policy.is_exact(path) { exact::open(path, OFlags::PATH).ok() } else { open(path) };
            return self.add_opened(path, access, opened);
        }
        self.add_around(path, access, &hidden)
    }

    fn add_around(&mut self, path: &Path, access: BitFlags<AccessFs>, hidden: &[PathBuf]) -> Step<()> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if hidden.contains(&real) || self.policy.is_exact(path) && real != path {
            return Ok(());
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&real)) {
            return self.add_opened(&real, access, open(&real));
        }
        for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
            // The target of a link is allowed by its own path.
            if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                self.add_around(&entry.path(), access, hidden)?;
            }
        }
        Ok(())
    }

    fn add_opened(&mut self, path: &Path, access: BitFlags<AccessFs>, opened: Option<OwnedFd>) -> Step<()> {
        // A missing path cannot be reached.
        let Some(opened) = opened.map(File::from) else { return Ok(()) };
        let Ok(metadata) = opened.metadata() else { return Ok(()) };
        let kind = metadata.file_type();
        if kind.is_socket() || kind.is_symlink() {
            return Ok(());
        }
        let access = if kind.is_dir() { access } else { access & AccessFs::from_file(TESTED_ABI) };
        (&mut self.rules)
            .add_rule(PathBeneath::new(OwnedFd::from(opened), access))
            .map_err(|error| format!("could not allow {}: {error}", path.display()))?;
        Ok(())
    }
}

fn open(path: impl AsRef<Path>) -> Option<OwnedFd> {
    rustix::fs::open(path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Maximum number of searched entries per listed folder, in breadth-first order. Larger folders are usually packages of
/// a program. Searching this many entries takes about 20 ms if the system has cached them.
const MAX_ENTRIES: usize = 20_000;
/// Time limit for all entries deeper than [`DEPTH`] in listed folders, because a command waits for the search and a
/// disk may be slow.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// Depth below a listed folder up to which names are searched without a time limit.
const DEPTH: usize = 4;
/// Maximum size of key files and of settings written by hand, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// Files that contain keys.
#[derive(Debug, Default)]
pub(super) struct KeyFiles {
    /// Files that are hidden completely.
    pub(super) hidden: Vec<PathBuf>,
    /// Files that are visible without their keys, each with its remaining text.
    pub(super) reduced: Vec<(PathBuf, String)>,
}

/// Searches the listed paths for files that contain keys. The session's own folders are not searched.
pub(super) fn search(policy: &Policy) -> KeyFiles {
    let mut found = KeyFiles::default();
    let real = |path: &PathBuf| path.canonicalize().ok();
    let home = policy.home.as_ref().and_then(real);
    let settings = home.as_ref().map(|home| home.join(".config")).and_then(|path| real(&path));
    let hidden: HashSet<PathBuf> = policy.hidden.iter().filter_map(real).collect();
    let mut pending = VecDeque::new();
    for listed in &policy.searched {
        let Ok(listed) = listed.canonicalize() else { continue };
        if !listed.is_dir() {
            file(&listed, true, &mut found);
        } else if secrets::classify(&listed, true) == SecretName::Secret {
            found.hidden.push(listed);
        } else {
            pending.push_back(Folder { path: listed, depth: 1, listed: pending.len() });
        }
    }
    // Shallow folders of all listed paths are searched first, so that no path uses up the time of another.
    let started = Instant::now();
    let mut entries_left = vec![MAX_ENTRIES; pending.len()];
    while let Some(Folder { path: folder, depth, listed }) = pending.pop_front() {
        if depth > DEPTH && started.elapsed() > TIME_LIMIT {
            break;
        }
        let is_home = home.as_ref() == Some(&folder);
        let is_settings = settings.as_ref().is_some_and(|settings| folder.starts_with(settings));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entries_left[listed] == 0 {
                break;
            }
            entries_left[listed] -= 1;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if hidden.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                let is_packages = secrets::PACKAGES.iter().any(|name| entry.file_name() == *name);
                if secrets::classify(&path, true) == SecretName::Secret {
                    found.hidden.push(path);
                } else if !is_packages && !policy.is_exact(&path) {
                    pending.push_back(Folder { path, depth: depth + 1, listed });
                }
            } else {
                let is_dotted = entry.file_name().as_encoded_bytes().starts_with(b".");
                let is_setting = is_settings || is_home && is_dotted || secrets::is_reducible(&path);
                file(&path, is_setting, &mut found);
            }
        }
    }
    found
}

/// Folder that has not been searched yet.
struct Folder {
    path: PathBuf,
    depth: usize,
    /// Index of the listed folder that contains this folder.
    listed: usize,
}

/// Checks a file. A link is judged by its own name and by the content of its target.
fn file(path: &Path, is_setting: bool, found: &mut KeyFiles) {
    match secrets::classify(path, false) {
        SecretName::Secret => found.hidden.push(path.to_owned()),
        SecretName::Key if text(path).is_some_and(|text| text.contains(secrets::PRIVATE)) => {
            found.hidden.push(path.to_owned());
        }
        SecretName::Key | SecretName::Other if is_setting => {
            let Some(text) = text(path).filter(|text| secrets::has_key(text)) else { return };
            if secrets::is_reducible(path) {
                found.reduced.push((path.to_owned(), secrets::without_keys(&text)));
            } else {
                found.hidden.push(path.to_owned());
            }
        }
        SecretName::Key | SecretName::Other => {}
    }
}

/// Returns the text of a file, unless the file is too large.
fn text(path: &Path) -> Option<String> {
    // Opening a named pipe would block.
    let is_short = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    let mut bytes = Vec::new();
    File::open(path).ok().filter(|_| is_short)?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
