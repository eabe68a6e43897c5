//! System calls that have no safe wrapper.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::unistd::{Pid, getppid};

use super::{Step, step};

/// As the kernel's `struct mount_attr`.
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

/// A copy of what is mounted at and below what was opened, attached to nothing yet.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(super) fn clone_tree(opened: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | (libc::O_CLOEXEC | libc::AT_EMPTY_PATH).cast_unsigned();
    // SAFETY: the empty path ends with a zero and is static, and the descriptor is open while it is borrowed.
    let fd = outcome(unsafe { libc::syscall(libc::SYS_open_tree, opened.as_raw_fd(), c"".as_ptr(), flags) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) })
}

/// Mounts such a copy.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(super) fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: both paths end with a zero and outlive the call, which keeps no pointer.
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

/// Treatment of mounts below the one that is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Too,
    AsItIs,
}

/// Makes what is mounted at a path read-only.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(super) fn make_read_only(path: &Path, below: Below) -> io::Result<()> {
    let path = c_path(path)?;
    let flags = if below == Below::Too { AT_RECURSIVE } else { 0 };
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, ..MountAttr::default() };
    // SAFETY: the path ends with a zero, the structure is laid out as the kernel wants it and its size is given. Both
    // outlive the call, which keeps no pointer.
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

/// Makes the kernel kill this process when its parent dies. Our parents have one thread, so "parent" is the process;
/// one that died before is seen by the leash.
pub(super) fn die_with_parent() -> Step<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(step("follow the parent into death"))
}

/// The same for a parent that is known by its number.
pub(super) fn die_with(parent: Pid) -> Step<()> {
    die_with_parent()?;
    if getppid() == parent { Ok(()) } else { Err("the keeper died at once".to_owned()) }
}

/// Gives up the right ever to use any capability but these. Without the right to do so there is nothing to give up.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(super) fn drop_capabilities(kept: &[u64]) {
    const HIGHEST: u64 = 63;
    for capability in (0..=HIGHEST).filter(|capability| !kept.contains(capability)) {
        // SAFETY: this call takes numbers only. One that is no capability is refused.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

/// Keeps every descriptor but the first three from the command, wherever it came from.
#[allow(unsafe_code, reason = "there is no wrapper")]
pub(super) fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: nothing is closed before the program is replaced; the call takes numbers only. Kernels that do not know
    // it leave what Rust and the daemon have always done: every descriptor is opened so.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Programs expect that writing to a closed pipe ends them; the language's runtime has set that aside.
#[allow(unsafe_code, reason = "setting a handler is unsafe where it is code")]
pub(super) fn default_signals() -> Step<()> {
    use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
    // SAFETY: the default is no code of ours.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.map_err(step("reset signals"))?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(step("reset signals"))
}
