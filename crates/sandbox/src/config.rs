//! Settings of the sandbox, and its state; the policy of a command, as sent to the helper, and the helper's answer, one line of
//! JSON each way.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Policy for one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    /// The session's own tree, its project and its added folders. They are opened without following a link, in them or on the way to them:
    /// an earlier command, of this session or of another one, may have laid it.
    pub(crate) exact: Vec<PathBuf>,
    /// Files and folders that may be read and executed, with all below. Those that are not there are left out.
    pub(crate) read: Vec<PathBuf>,
    /// Folders that may be changed too.
    pub(crate) write: Vec<PathBuf>,
    /// Mounts, where there are namespaces. The rest of the file system is read-only there.
    pub(crate) trees: Vec<Tree>,
    /// Paths that are not seen even where they lie in a folder that may be read. Checked where there are namespaces;
    /// without them, whatever contains one of these may not be read as a whole.
    pub(crate) hidden: Vec<PathBuf>,
    /// Listed places in which files with keys are looked for, to be hidden as well; the session's own are not among
    /// them.
    pub(crate) searched: Vec<PathBuf>,
    /// The person's home.
    pub(crate) home: Option<PathBuf>,
    /// Folders in which commands, or the author of the project, may have put programs: none is found there by its name
    /// alone.
    pub(crate) planted: Vec<PathBuf>,
    /// The names by which the session's folders are reached, where there are namespaces.
    pub(crate) names: Vec<Name>,
    /// Set if the network may be used.
    pub(crate) network: bool,
    /// True where the network is one of its own, in which only the daemon's proxy is. It needs namespaces.
    pub(crate) gateway: bool,
    /// Limits of its resources.
    pub(crate) limits: SandboxLimits,
    /// Set if to try namespaces.
    pub(crate) namespaces: bool,
    /// Set if to refuse where files or network cannot be kept from the command.
    pub(crate) enforce: bool,
    /// True where nothing may be changed but what is the command's own.
    pub(crate) read_only: bool,
    /// True where the command has an input, which comes in place of its standard error.
    pub(crate) input: bool,
}

impl Policy {
    /// Returns whether no link may lead to this path.
    pub(crate) fn is_exact(&self, path: &Path) -> bool {
        self.exact.iter().any(|exact| path.starts_with(exact))
    }
}

/// A name in the root of a command's file system, and its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The name, as `/project`.
    pub name: PathBuf,
    /// The real path.
    pub path: PathBuf,
    /// True if it is mounted there, false if it is a link.
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

/// A part of the file system that keeps its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) writable: bool,
}

/// Limits of a command's resources; absent is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Seconds of computing.
    pub cpu_seconds: Option<u64>,
    /// Bytes of writable memory.
    pub memory_bytes: Option<u64>,
    /// Bytes of the largest file that it writes.
    pub file_bytes: Option<u64>,
    /// Files that are open at once.
    pub open_files: Option<u64>,
    /// Processes and threads that are there at once, of the whole command. All else is for each of them.
    pub processes: Option<u64>,
}

impl Default for SandboxLimits {
    /// An hour of computing, 8 GiB of memory, files of 4 GiB, 4096 open files, 4096 processes.
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
    /// All is set up; only said when there is no command to run.
    Ready(InForce),
    /// The command is about to start: from here on it may have taken effect.
    Begun,
    /// The command has ended, with everything that it started.
    Ended {
        /// Its exit code, if it ended by itself.
        code: Option<i32>,
        /// The signal that ended it otherwise.
        signal: Option<i32>,
        /// Number of processes that it left running; they were killed.
        strays: usize,
    },
}

/// Walls that the kernel gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InForce {
    /// The version of Landlock's interface, 0 without Landlock.
    pub(crate) landlock: u8,
    /// Set if system calls are filtered.
    pub(crate) seccomp: bool,
    /// Set if the command has a process table, a `/tmp` and a read-only file system of its own.
    pub(crate) namespaces: bool,
    /// Set if its `/proc` shows only itself.
    pub(crate) own_proc: bool,
    /// Set if the number of its processes is limited, where that was wanted.
    pub(crate) counted: bool,
}

impl InForce {
    /// The missing part of what `enforce` asks for.
    pub(crate) fn gap(&self) -> Option<&'static str> {
        match self {
            Self { landlock: 0, .. } => {
                Some("this kernel has no Landlock, so a command could read and change every file of yours")
            }
            Self { landlock: ..3, namespaces: false, .. } => Some(
                "this kernel's Landlock is too old and it lets users make no namespaces, so a command could cut files \
                 outside the workspace",
            ),
            Self { seccomp: false, .. } => {
                Some("this kernel filters no system calls, so a command could use the network")
            }
            _ => None,
        }
    }
}

/// The port of the daemon's proxy in a network that holds nothing else.
pub const GATEWAY_PORT: u16 = 3128;

/// First byte of the message that hands the proxy's socket up. No report begins so.
pub(crate) const HANDED_UP: u8 = b'g';

/// Byte with which the daemon asks the command to end. The end of the stream kills it.
pub(crate) const PLEASE_END: u8 = b't';

/// Settings of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Behaviour where the kernel offers less.
    pub mode: SandboxMode,
    /// The program that calls [`run_helper`](super::run_helper) when its first argument is
    /// [`HELPER_ARGUMENT`](super::host::HELPER_ARGUMENT). `/proc/self/exe` is this program even after its file was replaced.
    pub helper: PathBuf,
    /// Set if commands may use the network.
    pub network: bool,
    /// Files and folders that commands may read besides the system and the session's own. Those that are not there
    /// are left out.
    pub read: Vec<PathBuf>,
    /// Folders that commands may change besides the session's own.
    pub write: Vec<PathBuf>,
    /// Paths that no command may see, even in a folder that it may read.
    pub hidden: Vec<PathBuf>,
    /// The person's home: in its folders of settings, files are hidden that hold what looks like a password.
    pub home: Option<PathBuf>,
    /// Limits of each process.
    pub limits: SandboxLimits,
    /// Set if namespaces are tried. Without them less is kept from commands, as on systems that forbid them.
    pub namespaces: bool,
}

impl SandboxConfig {
    /// The strictest: enforced, no network, nothing beyond the system and the session's own.
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
    /// Behaviour where the kernel offers less.
    pub enum SandboxMode {
        /// Commands do not run where files or network cannot be kept from them.
        Enforce = "enforce",
        /// They run with what there is.
        BestEffort = "best_effort",
        /// They run without a sandbox.
        Off = "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforcing_needs_files_and_system_calls() {
        #[track_caller]
        fn check(landlock: u8, seccomp: bool, namespaces: bool, holds: bool) {
            let force = InForce { landlock, seccomp, namespaces, own_proc: false, counted: true };
            assert_eq!(force.gap().is_none(), holds);
        }
        check(7, true, true, true);
        check(3, true, false, true);
        check(1, true, true, true);
        check(2, true, false, false);
        check(0, true, true, false);
        check(7, false, true, false);
    }
}
