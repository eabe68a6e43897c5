//! The process that becomes the command.

use std::os::unix::net::UnixStream;

use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::Pid,
};

use super::{
    super::policy::{InForce, Policy, Report, SandboxLimits},
    Folder, Program, Step, calls, files,
    namespaces::{Namespaces, kernel},
    programs, raw, step, tell,
};

/// Capabilities that an administrator keeps over files that Landlock lets it reach: own, read and write those of
/// others.
const FILE_CAPABILITIES: [u64; 4] = [0, 1, 3, 4];

/// Locks this process in and becomes the command. Never returns.
pub(super) fn become_it(
    leash: &UnixStream,
    keeper: Pid,
    policy: &Policy,
    namespaces: Option<Namespaces>,
    folder: &Folder,
    program: &Program,
) -> ! {
    let report = match lock_in(keeper, policy, namespaces, folder) {
        Err(why) => Report::Failed(why),
        Ok(force) => match (force.gap(), program.line.first()) {
            (Some(gap), _) if policy.enforce => Report::Failed(gap.to_owned()),
            (_, None) => Report::Ready(force),
            (_, Some(file)) => {
                tell(leash, &Report::Begun);
                let error = programs::become_it(program, &policy.planted);
                Report::Failed(format!("could not start {}: {error}", file.to_string_lossy()))
            }
        },
    };
    tell(leash, &report);
    std::process::exit(1)
}

fn lock_in(keeper: Pid, policy: &Policy, namespaces: Option<Namespaces>, folder: &Folder) -> Step<InForce> {
    raw::die_with(keeper)?;
    // A session of its own, so that no signal to its group meets the keeper.
    nix::unistd::setsid().map_err(step("leave the keeper's session"))?;
    raw::default_signals()?;
    raw::close_on_exec();
    folder.enter(if namespaces.is_some() { &policy.names } else { &[] })?;
    let counted = limit(&policy.limits, namespaces)?;
    // Owners and modes are beyond Landlock, so the right to change them is left only where the rest is read-only.
    raw::drop_capabilities(if namespaces.is_some() { &FILE_CAPABILITIES } else { &[] });
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
