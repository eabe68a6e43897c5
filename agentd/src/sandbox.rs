//! The sandbox as `agentd.yaml` wants it: what is readable, and what no command may see.

use std::path::{Path, PathBuf};

use agentd_engine::policy::SHELL_TOOL;
use agentd_proto::client::SandboxState;
use agentd_tools::sandbox::{SandboxConfig, SandboxLimits, SandboxMode, SandboxStatus};

use crate::{
    config::{Config, Confinement},
    environment::Environment,
    paths::Paths,
};

/// This program, even after its file was replaced by an upgrade: the kernel keeps what runs.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What holds keys, passwords and memories below a person's home.
const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/agentd",
    ".config/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker/config.json",
    ".git-credentials",
    ".kube",
    ".local/share/agentd",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".thunderbird",
    ".vault-token",
    ".zsh_history",
];

/// Whether commands may use the network: what the rules say of it goes first.
#[must_use]
pub fn network(config: &Config) -> bool {
    config.rules.policy.rules().network(SHELL_TOOL).unwrap_or(config.daemon.sandbox.network)
}

/// What the tools are told.
#[must_use]
pub fn settings(config: &Config, paths: &Paths, socket: &Path, env: &Environment) -> SandboxConfig {
    let settings = &config.daemon.sandbox;
    SandboxConfig {
        mode: match settings.mode {
            Confinement::Enforce => SandboxMode::Enforce,
            Confinement::BestEffort => SandboxMode::BestEffort,
            Confinement::Off => SandboxMode::Off,
        },
        helper: OWN_PROGRAM.into(),
        network: network(config),
        read: settings.read.clone(),
        write: settings.write.clone(),
        hidden: hidden(paths, socket, env.path("HOME")),
        limits: SandboxLimits {
            cpu_seconds: settings.cpu_time.0.map(|span| span.0.as_secs().max(1)),
            memory_bytes: settings.memory_mib.0.map(mebibytes),
            file_bytes: settings.file_mib.0.map(mebibytes),
            open_files: settings.open_files.0,
        },
        ..SandboxConfig::new(OWN_PROGRAM.into())
    }
}

fn mebibytes(number: u64) -> u64 {
    number.saturating_mul(1024 * 1024)
}

/// The daemon's own folders, and the person's secrets.
fn hidden(paths: &Paths, socket: &Path, home: Option<PathBuf>) -> Vec<PathBuf> {
    let own = [paths.data.clone(), paths.config.clone(), socket.to_path_buf()];
    let home = home.filter(|home| home.is_absolute());
    let secrets = home.iter().flat_map(|home| SECRETS.iter().map(|name| home.join(name)));
    own.into_iter().chain(secrets).collect()
}

/// What clients are told.
#[must_use]
pub fn state(status: SandboxStatus) -> SandboxState {
    SandboxState {
        mode: status.mode.to_string(),
        runs: status.runs,
        landlock: u32::from(status.landlock),
        seccomp: status.seccomp,
        namespaces: status.namespaces,
        network: status.network,
        weaknesses: status.weaknesses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_folders_and_the_persons_keys_are_hidden() {
        let paths = Paths { system_config: Vec::new(), config: "/c".into(), data: "/d".into() };
        let hidden = hidden(&paths, Path::new("/run/agentd.sock"), Some("/home/p".into()));
        for path in ["/c", "/d", "/run/agentd.sock", "/home/p/.ssh", "/home/p/.gnupg"] {
            assert!(hidden.contains(&path.into()), "{path}");
        }
    }
}
