//! Landlock: which files can be reached, whatever the path that leads to them.

use std::{
    collections::BTreeSet,
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

use agentd_workspace::exact;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{Mode, OFlags};

use super::{
    super::{
        places::{DEVICES, FRESH},
        policy::Policy,
    },
    Step, step,
};

/// The newest interface that was tried. Kernels with an older one give what they have.
const KNOWN: ABI = ABI::V7;

/// Allows what the policy says and nothing else. Returns the version of the interface, 0 where there is none.
pub(super) fn restrict(policy: &Policy, namespaces: bool) -> Step<u8> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|rules| rules.scope(Scope::from_all(KNOWN)))
        .map_err(step("prepare the rules for files"))?;
    if !policy.network {
        rules = rules.handle_access(AccessNet::from_all(KNOWN)).map_err(step("prepare the rules for files"))?;
    }
    let mut rules = rules.create().map_err(step("make the rules for files"))?;
    let read = AccessFs::from_read(KNOWN);
    // Pipes may be made, for scripts do; devices and sockets may not.
    let write = AccessFs::from_all(KNOWN)
        & !(AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    // With namespaces these are mounted over.
    let hidden: Vec<PathBuf> = if namespaces { Vec::new() } else { real(&policy.hidden) };
    for path in &policy.read {
        rules = allow(rules, path, read, policy, &hidden)?;
    }
    for path in &policy.write {
        rules = allow(rules, path, write, policy, &hidden)?;
    }
    for device in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = allow_one(rules, Path::new(device), access)?;
    }
    if namespaces {
        for fresh in FRESH {
            rules = allow_one(rules, Path::new(fresh), write)?;
        }
        // It holds nothing but folders that may be read.
        let parents = policy.names.iter().filter_map(|name| name.name.parent()).filter(|path| *path != Path::new("/"));
        for parent in parents.collect::<BTreeSet<_>>() {
            rules = allow_one(rules, parent, AccessFs::ReadDir.into())?;
        }
    }
    let status = rules.restrict_self().map_err(step("restrict the files"))?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u8,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    })
}

/// Allows a path with all below, or, where something hidden below cannot be covered, each of its entries without it.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    policy: &Policy,
    hidden: &[PathBuf],
) -> Step<RulesetCreated> {
    let hidden = hidden_below(path, hidden);
    if hidden.is_empty() {
        let opened = if policy.is_exact(path) { exact::open(path, OFlags::PATH).ok() } else { open(path) };
        return allow_opened(rules, path, access, opened);
    }
    allow_around(rules, path, access, &hidden, policy)
}

/// Hidden paths below a path. What is itself allowed, being the session's own, is not hidden.
fn hidden_below(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.is_empty() {
        return Vec::new();
    }
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    hidden.iter().filter(|hidden| hidden.starts_with(&path)).cloned().collect()
}

/// The real paths of those that are there.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn allow_around(
    mut rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    hidden: &[PathBuf],
    policy: &Policy,
) -> Step<RulesetCreated> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if policy.is_exact(path) && real != path {
        return Ok(rules);
    }
    let path = real;
    if hidden.contains(&path) {
        return Ok(rules);
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
        return allow_one(rules, &path, access);
    }
    for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
        // Links lead to what is allowed where it stands.
        if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            rules = allow_around(rules, &entry.path(), access, hidden, policy)?;
        }
    }
    Ok(rules)
}

fn allow_one(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Step<RulesetCreated> {
    allow_opened(rules, path, access, open(path))
}

fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn allow_opened(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    opened: Option<OwnedFd>,
) -> Step<RulesetCreated> {
    // What is not there cannot be reached.
    let Some(opened) = opened.map(File::from) else { return Ok(rules) };
    let Ok(metadata) = opened.metadata() else { return Ok(rules) };
    let kind = metadata.file_type();
    if kind.is_socket() || kind.is_symlink() {
        return Ok(rules);
    }
    let access = if kind.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    rules
        .add_rule(PathBeneath::new(OwnedFd::from(opened), access))
        .map_err(|error| format!("could not allow {}: {error}", path.display()))
}
