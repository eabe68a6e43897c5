//! The process that becomes the command. Folders that are closed to the command are removed from its search path,
//! because a shell uses the first program with a name, even if that program may not be run.

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
    send_report, step,
};
use crate::{
    config::{ActiveConfinement, Report, SandboxLimits},
    environment::PATH,
};

/// File capabilities that root retains within Landlock's limits: to change owners, and to read and write files of other
/// users.
const FILE_CAPABILITIES: [u64; 4] = [0, 1, 3, 4];

/// Confines this process and executes the command. Never returns.
pub(super) fn run_command(socket: &UnixStream, keeper: Pid, program: &Program, namespaces: Option<Namespaces>) -> ! {
    let report = match confine(keeper, program, namespaces) {
        Err(reason) => Report::Failed(reason),
        Ok(force) => match (force.gap(), program.line.first()) {
            (Some(gap), _) if program.policy.enforce => Report::Failed(gap.to_owned()),
            (_, None) => Report::Ready(force),
            (_, Some(file)) => {
                send_report(socket, &Report::Begun);
                let error = execute(program);
                Report::Failed(format!("could not start {}: {error}", file.to_string_lossy()))
            }
        },
    };
    send_report(socket, &report);
    std::process::exit(1)
}

fn confine(keeper: Pid, program: &Program, namespaces: Option<Namespaces>) -> Step<ActiveConfinement> {
    let policy = &program.policy;
    calls::die_with(keeper)?;
    // A new session prevents signals to the command's group from reaching the keeper.
    nix::unistd::setsid().map_err(step("leave the keeper's session"))?;
    calls::default_signals()?;
    calls::close_on_exec();
    program.folder.enter(if namespaces.is_some() { &policy.names } else { &[] })?;
    let counted = limit(&policy.limits, namespaces)?;
    // Landlock does not restrict changes of owners and modes, so the right to make them is only retained if the rest of
    // the file system is read-only.
    calls::drop_capabilities(if namespaces.is_some() { &FILE_CAPABILITIES } else { &[] });
    nix::sys::prctl::set_no_new_privs().map_err(step("drop privileges"))?;
    let landlock = files::restrict(policy, namespaces.is_some())?;
    let seccomp = calls::restrict(policy, namespaces.is_some())?;
    let own_proc = namespaces.is_some_and(|namespaces| namespaces.own_proc);
    Ok(ActiveConfinement { landlock, seccomp, namespaces: namespaces.is_some(), own_proc, counted })
}

/// Kernel version since which the processes of a user are counted separately in each user namespace.
const SEPARATE_COUNTS: (u32, u32) = (5, 14);

/// Sets the limits. Returns true if the number of processes is limited as configured.
fn limit(limits: &SandboxLimits, namespaces: Option<Namespaces>) -> Step<bool> {
    // Without a separate count, all of the user's processes would be counted. Root's processes are never counted.
    let is_separate = namespaces.is_some_and(|namespaces| namespaces.own_user)
        && !nix::unistd::geteuid().is_root()
        && kernel() >= SEPARATE_COUNTS;
    // Only writable memory is limited: programs that reserve address space would otherwise fail to start.
    let wanted = [
        (Resource::RLIMIT_NPROC, limits.processes.filter(|_| is_separate)),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_DATA, limits.memory_bytes),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_CORE, Some(0)),
    ];
    for (resource, limit) in wanted.into_iter().filter_map(|(resource, limit)| Some((resource, limit?))) {
        let (_, max) = getrlimit(resource).map_err(step("read the limits"))?;
        let limit = limit.min(max);
        setrlimit(resource, limit, limit).map_err(step("set the limits"))?;
    }
    Ok(limits.processes.is_none() || is_separate || namespaces.is_some_and(|namespaces| namespaces.own_limit))
}

/// Executes the program in this process, which is already confined. Returns the error if execution fails. Programs in
/// planted folders, where commands or third parties may place files, are not found by name alone.
fn execute(program: &Program) -> Errno {
    let variable = |name: &str| program.environment.iter().find(|(known, _)| known == name);
    let path = accessible_folders(variable("PATH").map_or(OsStr::new(PATH), |(_, path)| path), &program.policy.planted);
    let environment = environment(&program.environment, &path);
    let Some(file) = program.line.first() else { return Errno::ENOENT };
    if file.as_bytes().contains(&b'/') {
        return execve(file, &program.line, &environment).unwrap_err();
    }
    let mut reason = Errno::ENOENT;
    for folder in env::split_paths(&path) {
        let Ok(whole) = CString::new(folder.join(OsStr::from_bytes(file.as_bytes())).into_os_string().into_vec())
        else {
            continue;
        };
        match execve(&whole, &program.line, &environment).unwrap_err() {
            Errno::ENOENT | Errno::ENOTDIR => {}
            error => reason = error,
        }
    }
    reason
}

fn environment(variables: &[(OsString, OsString)], path: &OsStr) -> Vec<CString> {
    let variable = |(name, value): &(OsString, OsString)| {
        let mut line = name.clone();
        line.push("=");
        line.push(if name == "PATH" { path } else { value });
        // The helper's own environment and arguments contain no NUL.
        CString::new(line.into_vec()).ok()
    };
    variables.iter().filter_map(variable).collect()
}

/// Removes closed and planted folders from the search path. Falls back to the system's folders if none remains, because
/// an empty list would mean the working folder. Folders are compared by real path, since a link may point to them.
fn accessible_folders(path: &OsStr, own: &[PathBuf]) -> OsString {
    let own: Vec<PathBuf> = own.iter().filter_map(|own| own.canonicalize().ok()).collect();
    let is_own = |folder: &Path| folder.canonicalize().is_ok_and(|real| own.iter().any(|own| real.starts_with(own)));
    // A folder that cannot be opened, although its permissions allow reading it, is blocked by the sandbox. Programs in
    // a folder without read permission can still be run.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let is_closed = |folder: &Path| {
        open(folder, flags, Mode::empty()).is_err_and(|error| error == Errno::EACCES)
            && access(folder, AccessFlags::R_OK | AccessFlags::X_OK).is_ok()
    };
    let remaining = env::split_paths(path).filter(|folder| !is_closed(folder) && !is_own(folder));
    let remaining = env::join_paths(remaining).unwrap_or_else(|_| path.to_owned());
    if remaining.is_empty() { PATH.into() } else { remaining }
}
