//! Settings and state of the sandbox, and the JSON messages between daemon and helper: the policy for a command to the
//! helper, and reports to the daemon.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Policy for one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    /// Paths that are opened without following links, even in their parents: the session's own tree, its project and
    /// its added folders. An earlier command of any session may have created a link there.
    pub(crate) exact: Vec<PathBuf>,
    /// Files and folders that may be read and executed, including everything below. Missing paths are skipped.
    pub(crate) read: Vec<PathBuf>,
    /// Folders that may also be changed.
    pub(crate) write: Vec<PathBuf>,
    /// Mounts, if there are namespaces. All other parts of the file system are then read-only.
    pub(crate) trees: Vec<Tree>,
    /// Paths that are hidden even inside a readable folder. With namespaces, other mounts cover these paths. Without
    /// namespaces, only the other entries of a folder that contains a hidden path are readable.
    pub(crate) hidden: Vec<PathBuf>,
    /// Paths from the lists above that are searched for files with keys, which are then also hidden. The session's own
    /// folders are not included.
    pub(crate) searched: Vec<PathBuf>,
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// Folders in which commands, or the author of the project, may have placed programs. These programs are not found
    /// by name alone.
    pub(crate) planted: Vec<PathBuf>,
    /// Names of the session's folders, if there are namespaces.
    pub(crate) names: Vec<Name>,
    /// True if the network may be used.
    pub(crate) network: bool,
    /// True if the command has a private network that contains only the daemon's proxy. Requires namespaces.
    pub(crate) gateway: bool,
    /// Resource limits of the command.
    pub(crate) limits: SandboxLimits,
    /// True if namespaces are tried.
    pub(crate) namespaces: bool,
    /// True if the command must not run unless its access to files and the network can be restricted.
    pub(crate) enforce: bool,
    /// True if the command may only change its private folders.
    pub(crate) read_only: bool,
    /// True if the command has an input, which is passed in place of its standard error.
    pub(crate) input: bool,
}

impl Policy {
    /// Returns true if no link may be followed in this path.
    pub(crate) fn is_exact(&self, path: &Path) -> bool {
        self.exact.iter().any(|exact| path.starts_with(exact))
    }
}

/// Name in the root of a command's file system, with its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// Path of the name, such as `/project`.
    pub name: PathBuf,
    /// Real path of the target.
    pub path: PathBuf,
    /// True for a mount, false for a link.
    pub(crate) mounted: bool,
}

impl Name {
    pub(crate) fn mounted(name: &str, path: &Path) -> Self {
        Self { name: name.into(), path: path.to_path_buf(), mounted: true }
    }

    pub(crate) fn link(name: &str, path: PathBuf) -> Self {
        Self { name: name.into(), path, mounted: false }
    }
}

/// Part of the file system that is mounted at its original path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) writable: bool,
}

/// Resource limits of a command. `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// CPU time in seconds.
    pub cpu_seconds: Option<u64>,
    /// Writable memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of the largest file that a process may write, in bytes.
    pub file_bytes: Option<u64>,
    /// Number of concurrently open files.
    pub open_files: Option<u64>,
    /// Number of concurrent processes and threads, for the whole command. All other limits apply to each process.
    pub processes: Option<u64>,
}

impl Default for SandboxLimits {
    /// Returns 1 hour of CPU time, 8 GiB of memory, files of 4 GiB, 4096 open files and 4096 processes.
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            cpu_seconds: Some(3600),
            memory_bytes: Some(8 * GIB),
            file_bytes: Some(4 * GIB),
            open_files: Some(4096),
            processes: Some(4096),
        }
    }
}

/// Report of the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command did not run.
    Failed(String),
    /// The confinement is set up. Only sent if there is no command to run.
    Ready(ActiveConfinement),
    /// The command is about to start and may have effects from now on.
    Begun,
    /// The command and all processes that it started have ended.
    Ended {
        /// Exit code, if the command exited.
        code: Option<i32>,
        /// Signal that killed the command, if it did not exit.
        signal: Option<i32>,
        /// Number of processes that the command left running and that were killed.
        strays: usize,
    },
}

/// Confinement that the kernel supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ActiveConfinement {
    /// Version of the Landlock ABI. 0 without Landlock.
    pub(crate) landlock: u8,
    /// True if system calls are filtered.
    pub(crate) seccomp: bool,
    /// True if the command has a private process table, a private `/tmp` and a read-only file system.
    pub(crate) namespaces: bool,
    /// True if the command's `/proc` shows only its own processes.
    pub(crate) own_proc: bool,
    /// True if the number of the command's processes is limited as configured.
    pub(crate) counted: bool,
}

impl ActiveConfinement {
    /// Returns the first requirement of `enforce` that is not met.
    pub(crate) fn gap(&self) -> Option<&'static str> {
        match self {
            Self { landlock: 0, .. } => {
                Some("this kernel has no Landlock, so a command could read and change all your files")
            }
            Self { landlock: ..3, namespaces: false, .. } => Some(
                "this kernel has an old Landlock and no user namespaces, so a command could truncate files outside \
                 the workspace",
            ),
            Self { seccomp: false, .. } => {
                Some("this kernel cannot filter system calls, so a command could use the network")
            }
            _ => None,
        }
    }
}

/// Port of the daemon's proxy in a private network.
pub const GATEWAY_PORT: u16 = 3128;

/// First byte of the message that transfers the proxy's socket. No report begins with this byte.
pub(crate) const SOCKET_MARK: u8 = b'g';

/// Byte that requests the command to end. Closing the stream kills the command.
pub(crate) const END_REQUEST: u8 = b't';

/// Settings for the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Behaviour if the kernel lacks features of the sandbox.
    pub mode: SandboxMode,
    /// Program that calls [`run_helper`](super::run_helper) when its first argument is
    /// [`HELPER_ARGUMENT`](super::host::HELPER_ARGUMENT). `/proc/self/exe` refers to the running program even after its
    /// file was replaced.
    pub helper: PathBuf,
    /// True if commands may use the network.
    pub network: bool,
    /// Files and folders that commands may read, in addition to the system and the session's folders. Missing paths are
    /// skipped.
    pub read: Vec<PathBuf>,
    /// Folders that commands may change, in addition to the session's folders.
    pub write: Vec<PathBuf>,
    /// Paths that are hidden from every command, even inside a readable folder.
    pub hidden: Vec<PathBuf>,
    /// The user's home folder. Files in its settings folders are hidden if their contents look like a password.
    pub home: Option<PathBuf>,
    /// Resource limits of each process.
    pub limits: SandboxLimits,
    /// True if namespaces are tried. Without namespaces, commands are less confined, as on systems that forbid them.
    pub namespaces: bool,
}

impl SandboxConfig {
    /// Returns the strictest settings: enforced, no network, only the system and the session's folders.
    pub fn new(helper: PathBuf) -> Self {
        Self {
            mode: SandboxMode::Enforce,
            helper,
            network: false,
            read: Vec::new(),
            write: Vec::new(),
            hidden: Vec::new(),
            home: None,
            limits: SandboxLimits::default(),
            namespaces: true,
        }
    }
}

agentd_core::names! {
    /// Behaviour if the kernel lacks features of the sandbox.
    pub enum SandboxMode {
        /// Commands are refused if their access to files or the network cannot be restricted.
        Enforce = "enforce",
        /// Commands run with the confinement that is available.
        BestEffort = "best_effort",
        /// Commands run without a sandbox.
        Off = "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforce_mode_needs_landlock_and_seccomp() {
        #[track_caller]
        fn check(landlock: u8, seccomp: bool, namespaces: bool, is_complete: bool) {
            let in_force = ActiveConfinement { landlock, seccomp, namespaces, own_proc: false, counted: true };
            assert_eq!(in_force.gap().is_none(), is_complete);
        }
        check(7, true, true, true);
        check(3, true, false, true);
        check(1, true, true, true);
        check(2, true, false, false);
        check(0, true, true, false);
        check(7, false, true, false);
    }
}
