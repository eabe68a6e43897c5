//! The process that becomes the command, and its search path, without folders that are closed to it: a shell takes the first
//! program of a name, and looks no further if that may not be run.

use std::{
    env,
    ffi::{CString, OsStr, OsString},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        stat::Mode,
    },
    unistd::{AccessFlags, Pid, access, execve},
};

use super::{
    Program, Step, calls, files,
    root::{Namespaces, kernel},
    step, tell,
};
use crate::{
    config::{InForce, Report, SandboxLimits},
    environment::PATH,
};

/// Capabilities that an administrator keeps over files that Landlock lets it reach: own, read and write those of
/// others.
const FILE_CAPABILITIES: [u64; 4] = [0, 1, 3, 4];

/// Locks this process in and becomes the command. Never returns.
pub(super) fn become_it(leash: &UnixStream, keeper: Pid, program: &Program, namespaces: Option<Namespaces>) -> ! {
    let report = match lock_in(keeper, program, namespaces) {
        Err(why) => Report::Failed(why),
        Ok(force) => match (force.gap(), program.line.first()) {
            (Some(gap), _) if program.policy.enforce => Report::Failed(gap.to_owned()),
            (_, None) => Report::Ready(force),
            (_, Some(file)) => {
                tell(leash, &Report::Begun);
                let error = execute(program);
                Report::Failed(format!("could not start {}: {error}", file.to_string_lossy()))
            }
        },
    };
    tell(leash, &report);
    std::process::exit(1)
}

fn lock_in(keeper: Pid, program: &Program, namespaces: Option<Namespaces>) -> Step<InForce> {
    let policy = &program.policy;
    calls::die_with(keeper)?;
    // A session of its own, so that no signal to its group meets the keeper.
    nix::unistd::setsid().map_err(step("leave the keeper's session"))?;
    calls::default_signals()?;
    calls::close_on_exec();
    program.folder.enter(if namespaces.is_some() { &policy.names } else { &[] })?;
    let counted = limit(&policy.limits, namespaces)?;
    // Owners and modes are beyond Landlock, so the right to change them is left only where the rest is read-only.
    calls::drop_capabilities(if namespaces.is_some() { &FILE_CAPABILITIES } else { &[] });
    nix::sys::prctl::set_no_new_privs().map_err(step("give up privileges"))?;
    let landlock = files::restrict(policy, namespaces.is_some())?;
    let seccomp = calls::restrict(policy, namespaces.is_some())?;
    let own_proc = namespaces.is_some_and(|namespaces| namespaces.own_proc);
    Ok(InForce { landlock, seccomp, namespaces: namespaces.is_some(), own_proc, counted })
}

/// From this version on, processes of one user in different user namespaces are counted apart.
const COUNTED_APART: (u32, u32) = (5, 14);

/// Sets the limits. Returns whether the number of processes is limited, if it is to be.
fn limit(limits: &SandboxLimits, namespaces: Option<Namespaces>) -> Step<bool> {
    // Elsewhere all processes of the person would be counted, and those of the administrator never are.
    let is_apart = namespaces.is_some_and(|namespaces| namespaces.own_user)
        && !nix::unistd::geteuid().is_root()
        && kernel() >= COUNTED_APART;
    // Memory is limited by what can be written: programs that reserve address space would not start otherwise.
    let wanted = [
        (Resource::RLIMIT_NPROC, limits.processes.filter(|_| is_apart)),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_DATA, limits.memory_bytes),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_CORE, Some(0)),
    ];
    for (resource, limit) in wanted.into_iter().filter_map(|(resource, limit)| Some((resource, limit?))) {
        let (_, most) = getrlimit(resource).map_err(step("read the limits"))?;
        let limit = limit.min(most);
        setrlimit(resource, limit, limit).map_err(step("set the limits"))?;
    }
    Ok(limits.processes.is_none() || is_apart || namespaces.is_some_and(|namespaces| namespaces.own_limit))
}

/// Becomes the program, for which this process is locked in already. Returns why it did not. What lies in planted folders,
/// where commands and strangers put files, is not found by its name alone.
fn execute(program: &Program) -> Errno {
    let given = |name: &str| program.environment.iter().find(|(given, _)| given == name);
    let path = open_ones(given("PATH").map_or(OsStr::new(PATH), |(_, path)| path), &program.policy.planted);
    let environment = environment(&program.environment, &path);
    let Some(file) = program.line.first() else { return Errno::ENOENT };
    if file.as_bytes().contains(&b'/') {
        return execve(file, &program.line, &environment).unwrap_err();
    }
    let mut why = Errno::ENOENT;
    for folder in env::split_paths(&path) {
        let Ok(whole) = CString::new(folder.join(OsStr::from_bytes(file.as_bytes())).into_os_string().into_vec())
        else {
            continue;
        };
        match execve(&whole, &program.line, &environment).unwrap_err() {
            Errno::ENOENT | Errno::ENOTDIR => {}
            error => why = error,
        }
    }
    why
}

fn environment(given: &[(OsString, OsString)], path: &OsStr) -> Vec<CString> {
    let variable = |(name, value): &(OsString, OsString)| {
        let mut line = name.clone();
        line.push("=");
        line.push(if name == "PATH" { path } else { value });
        // What we were started with has no zero in it.
        CString::new(line.into_vec()).ok()
    };
    given.iter().filter_map(variable).collect()
}

/// Leaves those of the system where no other is left: an empty list would be the folder in which the command runs. A
/// folder is looked at by its real path, for a link may lead to it.
fn open_ones(path: &OsStr, own: &[PathBuf]) -> OsString {
    let own: Vec<PathBuf> = own.iter().filter_map(|own| own.canonicalize().ok()).collect();
    let is_own = |folder: &Path| folder.canonicalize().is_ok_and(|real| own.iter().any(|own| real.starts_with(own)));
    // If we could read a folder and are not let, it is the sandbox that closes it. Of one that nobody may read, programs may
    // still be run.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let is_closed = |folder: &Path| {
        open(folder, flags, Mode::empty()).is_err_and(|error| error == Errno::EACCES)
            && access(folder, AccessFlags::R_OK | AccessFlags::X_OK).is_ok()
    };
    let kept = env::split_paths(path).filter(|folder| !is_closed(folder) && !is_own(folder));
    let kept = env::join_paths(kept).unwrap_or_else(|_| path.to_owned());
    if kept.is_empty() { PATH.into() } else { kept }
}
