//! Settings of the sandbox, and its state.

use std::{fmt, path::PathBuf};

use super::policy::SandboxLimits;

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
    #[must_use]
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

/// Behaviour where the kernel offers less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// Commands do not run where files or network cannot be kept from them.
    Enforce,
    /// They run with what there is.
    BestEffort,
    /// They run without a sandbox.
    Off,
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::BestEffort => "best_effort",
            Self::Off => "off",
        })
    }
}

/// State of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// Behaviour where the kernel offers less.
    pub mode: SandboxMode,
    /// Set if commands can run.
    pub runs: bool,
    /// The version of Landlock's interface, 0 without Landlock.
    pub landlock: u8,
    /// Set if system calls are filtered.
    pub seccomp: bool,
    /// Set if a command has a process table, a `/tmp` and a read-only file system of its own.
    pub namespaces: bool,
    /// Set if commands may use the network.
    pub network: bool,
    /// Weaknesses, one sentence each.
    pub weaknesses: Vec<String>,
}
