//! seccomp: blocks system calls that no command needs, and sockets if there is no network. Also contains system calls
//! that have no safe wrapper.

use std::{
    collections::BTreeMap,
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    unistd::{Pid, getppid},
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::{Step, step};
use crate::config::Policy;

const TIOCLINUX: i32 = 0x541c;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System call number that libc does not define. It is the same on every architecture.
const OPEN_TREE_ATTR: i64 = 467;

/// Calls blocked with `EPERM`, regardless of their arguments: they inspect or change other processes, mounts, keys, the
/// kernel, or the host.
const FORBIDDEN: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const FORBIDDEN_BY_ARCH: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_BY_ARCH: &[i64] = &[];

/// Calls blocked if the user's other processes are reachable: shared memory, queues and semaphores that are identified
/// by a number.
const SHARED: &[i64] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Calls blocked with `ENOSYS`, so that programs use a fallback. A filter cannot inspect their arguments. Calls that
/// watch files also reveal names in folders that may not be listed.
const ENOSYS_CALLS: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
];

#[cfg(target_arch = "x86_64")]
const ENOSYS_CALLS_BY_ARCH: &[i64] = &[libc::SYS_inotify_init];
#[cfg(not(target_arch = "x86_64"))]
const ENOSYS_CALLS_BY_ARCH: &[i64] = &[];

/// Calls that access extended attributes by path, blocked as if no file had any attributes. Landlock allows reading and
/// changing the attributes of every file that can be named. Access through an open file requires the right to open it.
/// The last four are not defined in libc: `setxattrat`, `getxattrat`, `listxattrat`, `removexattrat`.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    463,
    464,
    465,
    466,
];

/// Calls that change owner, mode, times or attributes, which Landlock does not restrict. Blocked for read-only commands
/// if no file system is mounted read-only.
const CHANGES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_utimensat,
];

#[cfg(target_arch = "x86_64")]
const CHANGES_BY_ARCH: &[i64] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_futimesat, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes];
#[cfg(not(target_arch = "x86_64"))]
const CHANGES_BY_ARCH: &[i64] = &[];

/// Returns rules that match a call regardless of its arguments.
fn unconditional_rules<'a>(calls: impl IntoIterator<Item = &'a i64>) -> Rules {
    calls.into_iter().map(|call| (*call, Vec::new())).collect()
}

/// Filters all further system calls. Returns false if the kernel or the architecture does not support filters.
pub(super) fn restrict(policy: &Policy, namespaces: bool) -> Step<bool> {
    let Some(processor) = processor() else { return Ok(false) };
    let programs = (|| {
        let mut rules = forbidden_rules(policy.network)?;
        if !namespaces {
            // Calls in `SHARED` reach outside processes by process ID, or by a number that both sides use.
            rules.extend(unconditional_rules(SHARED));
            rules.extend([
                (libc::SYS_setpriority, other_process_rules(1)?),
                (libc::SYS_ioprio_set, other_process_rules(1)?),
            ]);
            if policy.read_only {
                rules.extend(unconditional_rules(CHANGES.iter().chain(CHANGES_BY_ARCH)));
            }
        }
        let forbidden = compile(rules, Errno::EPERM, processor)?;
        let unknown =
            compile(unconditional_rules(ENOSYS_CALLS.iter().chain(ENOSYS_CALLS_BY_ARCH)), Errno::ENOSYS, processor)?;
        let absent = compile(unconditional_rules(ATTRIBUTES), Errno::EOPNOTSUPP, processor)?;
        Ok::<_, BackendError>([forbidden, unknown, absent])
    })()
    .map_err(step("compile the system call filter"))?;
    for program in programs.iter().chain(&x32_filter()) {
        match apply_filter(program) {
            Ok(()) => {}
            // The kernel has no filters. Callers that need filters check the active confinement.
            Err(seccompiler::Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(format!("could not filter system calls: {error}")),
        }
    }
    Ok(true)
}

fn processor() -> Option<TargetArch> {
    if cfg!(target_arch = "x86_64") {
        Some(TargetArch::x86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(TargetArch::aarch64)
    } else {
        None
    }
}

/// Builds a filter. The filter also kills every process that uses the system calls of another architecture, such as
/// 32-bit.
fn compile(rules: Rules, error: Errno, processor: TargetArch) -> Result<BpfProgram, BackendError> {
    let refuse = SeccompAction::Errno((error as i32).cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor)?.try_into()
}

fn forbidden_rules(network: bool) -> Result<Rules, BackendError> {
    let mut rules = unconditional_rules(FORBIDDEN.iter().chain(FORBIDDEN_BY_ARCH));
    rules.insert(libc::SYS_clone, namespace_rules()?);
    // Blocks injecting input into the user's terminal.
    let terminal_calls = [i32::try_from(libc::TIOCSTI).unwrap_or_default(), TIOCLINUX];
    let terminal_calls = terminal_calls.into_iter().map(|call| SeccompRule::new(vec![is(1, Is::Eq, call)?]));
    rules.insert(libc::SYS_ioctl, terminal_calls.collect::<Result<_, BackendError>>()?);
    rules.insert(libc::SYS_socket, if network { socket_rules()? } else { Vec::new() });
    rules.insert(libc::SYS_socketpair, socket_pair_rules()?);
    rules.extend(setid_bits()?);
    // A process may only set its own limits, because a CPU limit would kill another process.
    rules.insert(libc::SYS_prlimit64, other_process_rules(0)?);
    Ok(rules)
}

/// Blocks setting the setuid and setgid bits, with which any user of the host could run a program as this user or with
/// one of this user's groups. Either bit is blocked.
fn setid_bits() -> Result<Rules, BackendError> {
    const SETID: [i32; 2] = [0o4000, 0o2000];
    const TMPFILE: i32 = 0o20_000_000; // the part of `O_TMPFILE` that is not `O_DIRECTORY`
    let mode = |argument: u8| {
        let rule = |bit: i32| SeccompRule::new(vec![has(argument, bit)?]);
        SETID.into_iter().map(rule).collect::<Result<Vec<_>, BackendError>>()
    };
    // The mode only matters if the call creates a file.
    let creating = |flags: u8, mode: u8| {
        let rule = |(flag, bit): (i32, i32)| SeccompRule::new(vec![has(flags, flag)?, has(mode, bit)?]);
        let combinations = [libc::O_CREAT, TMPFILE].into_iter().flat_map(|flag| SETID.map(|bit| (flag, bit)));
        combinations.map(rule).collect::<Result<Vec<_>, BackendError>>()
    };
    let mut rules = Rules::from([
        (libc::SYS_fchmod, mode(1)?),
        (libc::SYS_fchmodat, mode(2)?),
        (libc::SYS_fchmodat2, mode(2)?),
        (libc::SYS_mknodat, mode(2)?),
        (libc::SYS_openat, creating(2, 3)?),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, mode(1)?),
        (libc::SYS_creat, mode(1)?),
        (libc::SYS_mknod, mode(1)?),
        (libc::SYS_open, creating(1, 2)?),
    ]);
    Ok(rules)
}

/// Returns the condition that this argument is not 0. Zero means the calling process.
fn other_process_rules(argument: u8) -> Result<Vec<SeccompRule>, BackendError> {
    Ok(vec![SeccompRule::new(vec![is(argument, Is::Ne, 0)?])?])
}

fn is(argument: u8, operator: Is, value: i32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, Length::Dword, operator, u64::from(value.cast_unsigned()))
}

/// Returns the condition that an argument has all of these bits.
fn has(argument: u8, bits: i32) -> Result<SeccompCondition, BackendError> {
    is(argument, Is::MaskedEq(u64::from(bits.cast_unsigned())), bits)
}

/// Blocks creating processes in new namespaces.
fn namespace_rules() -> Result<Vec<SeccompRule>, BackendError> {
    const NAMESPACES: [i32; 7] = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    NAMESPACES.into_iter().map(|flag| SeccompRule::new(vec![has(0, flag)?])).collect()
}

/// Blocks all address families except IPv4, IPv6 and netlink, and all netlink protocols except routing queries, which
/// address lookups need. For commands with network access. Local sockets stay blocked, because they lead to the session
/// bus, key agents, and the daemon.
fn socket_rules() -> Result<Vec<SeccompRule>, BackendError> {
    let other = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| is(0, Is::Ne, family));
    Ok(vec![
        SeccompRule::new(other.into_iter().collect::<Result<_, _>>()?)?,
        SeccompRule::new(vec![is(0, Is::Eq, libc::AF_NETLINK)?, is(2, Is::Ne, libc::NETLINK_ROUTE)?])?,
    ])
}

/// Blocks socket pairs other than local streams, which work like pipes. A datagram socket can send to any address, and
/// other address families use other protocols.
fn socket_pair_rules() -> Result<Vec<SeccompRule>, BackendError> {
    const KIND: u64 = 0xf;
    let other = vec![is(0, Is::Ne, libc::AF_UNIX)?];
    let kind = |kind: i32| SeccompRule::new(vec![is(1, Is::MaskedEq(KIND), kind)?]);
    Ok(vec![SeccompRule::new(other)?, kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?])
}

/// Blocks the x32 ABI of x86-64. Its call numbers have an additional bit set and therefore match no rule above.
#[cfg(target_arch = "x86_64")]
fn x32_filter() -> Option<BpfProgram> {
    use seccompiler::sock_filter;
    const LOAD: u16 = 0x20; // loads the word at this offset in `seccomp_data`; the call number is at offset 0
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const BIT: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000 | Errno::ENOSYS as u32;
    Some(vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_SET, jt: 0, jf: 1, k: BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: REFUSE },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn x32_filter() -> Option<BpfProgram> {
    None
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

const OPEN_TREE_CLONE: libc::c_uint = 1;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOUNT_ATTR_RDONLY: u64 = 1;

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn outcome(code: libc::c_long) -> io::Result<libc::c_long> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

/// Returns a detached copy of the mounts at and below an open path.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(super) fn clone_tree(opened: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | (libc::O_CLOEXEC | libc::AT_EMPTY_PATH).cast_unsigned();
    // SAFETY: the empty path is NUL-terminated and static, and the descriptor is open while it is borrowed.
    let fd = outcome(unsafe { libc::syscall(libc::SYS_open_tree, opened.as_raw_fd(), c"".as_ptr(), flags) })?;
    // SAFETY: the kernel has just created this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) })
}

/// Attaches a detached tree at a path.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(super) fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: both paths are NUL-terminated and outlive the call, which stores no pointer.
    outcome(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })?;
    Ok(())
}

/// Treatment of mounts below the given one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Submounts {
    Include,
    Exclude,
}

/// Makes the mount at a path read-only.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(super) fn make_read_only(path: &Path, below: Submounts) -> io::Result<()> {
    let path = c_path(path)?;
    let flags = if below == Submounts::Include { AT_RECURSIVE } else { 0 };
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, ..MountAttr::default() };
    // SAFETY: the path is NUL-terminated, the structure has the kernel's layout, and its size is passed. Both outlive
    // the call, which stores no pointer.
    outcome(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

/// Makes the kernel kill this process when its parent dies. The signal is tied to the parent's thread, and the helper's
/// processes have only one thread. A parent that died before this call is detected through the control socket.
pub(super) fn die_with_parent() -> Step<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(step("set the parent-death signal"))
}

/// Like [`die_with_parent`], for a parent with a known process ID.
pub(super) fn die_with(parent: Pid) -> Step<()> {
    die_with_parent()?;
    if getppid() == parent { Ok(()) } else { Err("the keeper died early".to_owned()) }
}

/// Permanently drops every capability except those in `allowed` from the bounding set. A process that may not drop
/// capabilities has no capabilities.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(super) fn drop_capabilities(allowed: &[u64]) {
    const HIGHEST: u64 = 63;
    for capability in (0..=HIGHEST).filter(|capability| !allowed.contains(capability)) {
        // SAFETY: this call only takes numbers, and rejects numbers that are not capabilities.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

/// Prevents the command from inheriting any descriptor above standard error, regardless of its origin.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub(super) fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: no descriptor is closed before the program is replaced, and the call only takes numbers. Kernels without
    // this call do not need it: Rust and the daemon open every descriptor close-on-exec.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Restores the default action for SIGPIPE, which Rust's runtime ignores: programs expect to end when they write to a
/// closed pipe.
#[allow(unsafe_code, reason = "installing a signal handler is unsafe")]
pub(super) fn default_signals() -> Step<()> {
    use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
    // SAFETY: the default action runs no code of this process.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.map_err(step("reset signals"))?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(step("reset signals"))
}
