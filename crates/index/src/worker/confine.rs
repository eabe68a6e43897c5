//! Giving up rights, before the first byte of a document is looked at.
//!
//! What holds on Linux: no memory, time, file size or descriptors beyond the limits; no system call but those that a program
//! needs to compute with what it has, so no file is opened, nothing is sent and nothing is started (seccomp), and no path can
//! be reached even where filters are not known (Landlock); no new privileges. On other systems only the limits hold.

use std::io;

use nix::sys::resource::{Resource, setrlimit};

use crate::limits::Limits;

/// Descriptors that a worker needs: its three streams, and a copy of one.
const OPEN_FILES: u64 = 16;

/// Limits what this process may take, for good.
///
/// # Errors
/// When the system refuses, because less was allowed before: then there is no worker.
pub fn limit(limits: &Limits) -> io::Result<()> {
    let seconds = limits.time.as_secs().saturating_add(1);
    let set = |resource, most| setrlimit(resource, most, most).map_err(io::Error::from);
    set(Resource::RLIMIT_CORE, 0)?;
    set(Resource::RLIMIT_FSIZE, 0)?;
    // The softer limit has a signal of its own, by which this end is known.
    setrlimit(Resource::RLIMIT_CPU, seconds, seconds.saturating_add(5))?;
    set(Resource::RLIMIT_AS, limits.memory)?;
    set(Resource::RLIMIT_NOFILE, OPEN_FILES)
}

/// Gives up whatever else can be given up, for this thread and those that it starts. Returns whether system calls are
/// filtered from here on.
///
/// # Errors
/// When the system knows how to and does not: then there is no worker.
#[cfg(target_os = "linux")]
pub fn give_up_rights() -> io::Result<bool> {
    linux::close_paths()?;
    linux::filter_calls()
}

/// Other systems know no such thing.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn give_up_rights() -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{collections::BTreeMap, io};

    use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, Scope};
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter,
    };

    /// The newest interface that was tried. Kernels with an older one give what they have.
    const KNOWN: ABI = ABI::V7;

    /// All that computing takes: memory, threads and their waiting, reading and writing what is open, the time, the end.
    const ALLOWED: &[i64] = &[
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
        libc::SYS_tgkill,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    #[cfg(target_arch = "x86_64")]
    const ALLOWED_HERE: &[i64] = &[libc::SYS_poll];
    #[cfg(not(target_arch = "x86_64"))]
    const ALLOWED_HERE: &[i64] = &[];

    pub(super) fn close_paths() -> io::Result<()> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(KNOWN)))
            .and_then(|rules| rules.scope(Scope::from_all(KNOWN)))
            .and_then(Ruleset::create)
            .and_then(landlock::RulesetCreated::restrict_self)
            .map_err(io::Error::other)?;
        Ok(())
    }

    pub(super) fn filter_calls() -> io::Result<bool> {
        let processor = if cfg!(target_arch = "x86_64") {
            TargetArch::x86_64
        } else if cfg!(target_arch = "aarch64") {
            TargetArch::aarch64
        } else {
            return Ok(false);
        };
        for program in programs(processor).map_err(io::Error::other)? {
            match apply_filter(&program) {
                Ok(()) => {}
                // A kernel without filters. Landlock and the limits hold there.
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

    /// Everything but what is allowed is refused with "operation not permitted", which programs survive. The one newer way to
    /// start threads is refused as if the kernel did not know it, for its arguments cannot be seen, and the older one is used.
    fn programs(processor: TargetArch) -> Result<[BpfProgram; 2], BackendError> {
        let errno = |error: i32| SeccompAction::Errno(error.cast_unsigned());
        let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let unknown = SeccompFilter::new(unknown, SeccompAction::Allow, errno(libc::ENOSYS), processor)?;
        let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
        // For the other filter to refuse. Of two answers the kernel takes the stricter, so this one must not be EPERM.
        allowed.insert(libc::SYS_clone3, Vec::new());
        allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![has(0, libc::CLONE_THREAD)?])?]);
        // The name of a thread.
        allowed.insert(libc::SYS_prctl, vec![SeccompRule::new(vec![is(0, libc::PR_SET_NAME)?])?]);
        let allowed = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, processor)?;
        // Applying a filter takes a call that the second one no longer allows.
        Ok([unknown.try_into()?, allowed.try_into()?])
    }

    fn has(argument: u8, flag: i32) -> Result<SeccompCondition, BackendError> {
        let flag = u64::from(flag.cast_unsigned());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)
    }

    fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
    }
}
