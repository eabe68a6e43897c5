//! Confinement on Linux: Landlock for paths, seccomp for system calls.

use std::{collections::BTreeMap, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus, Scope,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::Access;

/// Newest tested Landlock ABI. Older kernels enforce the part that they support.
const TESTED_ABI: ABI = ABI::V7;

/// System calls for pure computation: memory, threads and synchronisation, reading and writing open files, time, and
/// exit.
const ALLOWED_CALLS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
#[cfg(target_arch = "x86_64")]
const ALLOWED_CALLS_BY_ARCH: &[i64] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_CALLS_BY_ARCH: &[i64] = &[];

/// Additional system calls for reading the files in a folder and watching it for changes.
const READING_CALLS: &[i64] = &[
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_getcwd,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];
#[cfg(target_arch = "x86_64")]
const READING_CALLS_BY_ARCH: &[i64] = &[libc::SYS_readlink, libc::SYS_stat, libc::SYS_lstat];
#[cfg(not(target_arch = "x86_64"))]
const READING_CALLS_BY_ARCH: &[i64] = &[];

/// Open flags that create, change or truncate a file.
const WRITE_FLAGS: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;

/// Blocks all paths except those below the given folder, which remain readable.
pub(super) fn close_paths(access: &Access<'_>) -> io::Result<()> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(TESTED_ABI))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(TESTED_ABI)))
        .and_then(|rules| rules.scope(Scope::from_all(TESTED_ABI)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    if let Access::Read(folder) = access {
        let folder = PathFd::new(folder).map_err(io::Error::other)?;
        let readable = PathBeneath::new(folder, AccessFs::ReadFile | AccessFs::ReadDir);
        rules = rules.add_rule(readable).map_err(io::Error::other)?;
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    // If no file may be opened, the seccomp filter is sufficient. Otherwise, Landlock alone restricts which files can
    // be opened.
    if matches!(access, Access::Read(_)) && status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel has no Landlock, which is required to confine processes that read a folder",
        ));
    }
    Ok(())
}

/// Filters system calls. Returns false if the kernel does not support filters.
pub(super) fn filter_calls(access: &Access<'_>) -> io::Result<bool> {
    let processor = if cfg!(target_arch = "x86_64") {
        TargetArch::x86_64
    } else if cfg!(target_arch = "aarch64") {
        TargetArch::aarch64
    } else {
        return Ok(false);
    };
    for program in filter_programs(processor, access).map_err(io::Error::other)? {
        match apply_filter(&program) {
            Ok(()) => {}
            // The kernel has no filters. Landlock and the limits still apply.
            Err(seccompiler::Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(true)
}

/// Creates filters that only allow the listed calls. Other calls fail with `EPERM`, which programs survive. `clone3`
/// fails with `ENOSYS`, because its arguments cannot be inspected; programs then start threads with the older `clone`.
fn filter_programs(processor: TargetArch, access: &Access<'_>) -> Result<[BpfProgram; 2], BackendError> {
    let errno = |error: i32| SeccompAction::Errno(error.cast_unsigned());
    let clone3_filter = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3_filter = SeccompFilter::new(clone3_filter, SeccompAction::Allow, errno(libc::ENOSYS), processor)?;
    let reading = match access {
        Access::Nothing => [].iter().chain(&[]),
        Access::Read(_) => READING_CALLS.iter().chain(READING_CALLS_BY_ARCH),
    };
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED_CALLS.iter().chain(ALLOWED_CALLS_BY_ARCH).chain(reading).map(|call| (*call, Vec::new())).collect();
    // The process may signal itself but no other process.
    let own_pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    allowed.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![equals(0, own_pid)?])?]);
    if matches!(access, Access::Read(_)) {
        // Older kernels even truncate files that are opened for reading.
        allowed.insert(libc::SYS_openat, vec![SeccompRule::new(vec![has_none(2, WRITE_FLAGS)?])?]);
        #[cfg(target_arch = "x86_64")]
        allowed.insert(libc::SYS_open, vec![SeccompRule::new(vec![has_none(1, WRITE_FLAGS)?])?]);
        // Descriptors may be inspected and duplicated, but not used to request signals or locks.
        let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC];
        let commands = commands.map(|command| SeccompRule::new(vec![equals(1, command)?]));
        allowed.insert(libc::SYS_fcntl, commands.into_iter().collect::<Result<_, _>>()?);
    }
    // The other filter decides on `clone3`. If both filters return an error, the kernel uses the error of the newer
    // filter, so this filter must not return `EPERM`.
    allowed.insert(libc::SYS_clone3, Vec::new());
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![has(0, libc::CLONE_THREAD)?])?]);
    // Allows setting a thread's name.
    allowed.insert(libc::SYS_prctl, vec![SeccompRule::new(vec![equals(0, libc::PR_SET_NAME)?])?]);
    let allowed = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, processor)?;
    // The order matters, because applying a filter needs a call that the second filter forbids.
    Ok([clone3_filter.try_into()?, allowed.try_into()?])
}

fn has_none(argument: u8, flags: i32) -> Result<SeccompCondition, BackendError> {
    let flags = u64::from(flags.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flags), 0)
}

fn has(argument: u8, flag: i32) -> Result<SeccompCondition, BackendError> {
    let flag = u64::from(flag.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)
}

fn equals(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
}
