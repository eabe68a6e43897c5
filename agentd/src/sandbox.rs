//! Sandbox settings from `agentd.yaml`: readable and writable paths, and paths hidden from every command.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use agentd_policy::SHELL_TOOL;
use agentd_sandbox::config::{SandboxConfig, SandboxLimits};

use crate::{
    config::Config,
    environment::{Environment, OWN_PROGRAM},
    listener::SocketPaths,
    paths::Paths,
    skills,
};

/// Paths in the user's home folder that contain keys, passwords or shell histories, separated by spaces.
const SECRETS: &str = ".ssh .gnupg .aws .azure .bash_history .bitcoin .boto .bundle/config .cache/huggingface/token \
    .cargo/credentials .cargo/credentials.toml .claude .codex .composer/auth.json .config/1Password .config/Bitwarden \
    .config/BraveSoftware .config/Signal .config/Slack .config/agentd .config/chromium .config/composer/auth.json \
    .config/containers/auth.json .config/discord .config/doctl .config/gcloud .config/gh .config/git/credentials \
    .config/github-copilot .config/glab-cli .config/google-chrome .config/heroku .config/hub .config/microsoft-edge \
    .config/op .config/opera .config/rclone .config/sops .config/vivaldi .docker/config.json .electrum .ethereum .fly \
    .gem/credentials .gemini .git-credentials .gradle/gradle.properties .huggingface .ipython .kaggle .kube .lesshst \
    .local/share/TelegramDesktop .local/share/agentd .local/share/gem/credentials .local/share/keyrings \
    .local/share/kwalletd .local/share/uv/credentials .m2/settings-security.xml .m2/settings.xml .mozilla .my.cnf \
    .mylogin.cnf .mysql_history .netrc .node_repl_history .npmrc .oci .password-store .pgpass .psql_history .pypirc \
    .python_history .rediscli_history .s3cfg .sqlite_history .terraform.d .terraformrc .thunderbird .var/app \
    .vault-token .viminfo .yarnrc.yml .zsh_history snap";

/// Folders with host keys inside world-readable folders. Usually only root can read them.
const MACHINE_SECRETS: &[&str] = &["/etc/pki/CA/private", "/etc/pki/tls/private", "/etc/ssl/private"];

/// Variables that direct programs to files in the user's home folder, because commands run with a different home
/// folder.
const HOME_VARIABLES: &[(&str, &str)] =
    &[("GIT_CONFIG_GLOBAL", ".config/git/config"), ("GIT_CONFIG_GLOBAL", ".gitconfig"), ("RUSTUP_HOME", ".rustup")];

/// Additional variables for commands without network access: existing downloads are used, and no new ones are possible.
const HOME_VARIABLES_OFFLINE: &[(&str, &str, &str)] = &[("CARGO_HOME", ".cargo", ".cargo/registry")];

/// Returns true if commands may use the network. The rules take precedence over the settings.
pub fn network(config: &Config) -> bool {
    config.rules.policy.rules().network(SHELL_TOOL).unwrap_or(config.daemon.sandbox.network)
}

/// Returns the variables for commands. Variables from the client override them.
pub fn variables(config: &Config, env: &Environment) -> BTreeMap<String, String> {
    let settings = &config.daemon.sandbox;
    let Some(home) = env.path("HOME").filter(|home| home.is_absolute()) else { return BTreeMap::new() };
    let is_readable = |path: &Path| {
        path.exists() && settings.read.iter().chain(&settings.write).any(|allowed| path.starts_with(&allowed.path))
    };
    let always = HOME_VARIABLES.iter().map(|(name, path)| (*name, *path, *path));
    let offline = HOME_VARIABLES_OFFLINE.iter().copied().filter(|_| !network(config));
    let variables = always.chain(offline).filter(|(_, _, needed)| is_readable(&home.join(needed)));
    variables.filter_map(|(name, path, _)| Some((name.to_owned(), home.join(path).to_str()?.to_owned()))).collect()
}

/// Returns the sandbox settings for the tools.
pub fn settings(config: &Config, paths: &Paths, sockets: &SocketPaths, env: &Environment) -> SandboxConfig {
    let settings = &config.daemon.sandbox;
    SandboxConfig {
        mode: settings.mode,
        helper: OWN_PROGRAM.into(),
        network: network(config),
        // Skills' Python environments are in the daemon's data folder and must be readable.
        read: settings.read.iter().map(|entry| entry.path.clone()).chain([skills::environments(paths)]).collect(),
        write: settings.write.iter().map(|entry| entry.path.clone()).collect(),
        hidden: hidden(paths, sockets, env.path("HOME")),
        home: env.path("HOME").filter(|home| home.is_absolute()),
        limits: SandboxLimits {
            cpu_seconds: settings.cpu_time.0.map(|span| span.0.as_secs().max(1)),
            memory_bytes: settings.memory_mib.0.map(mebibytes),
            file_bytes: settings.file_mib.0.map(mebibytes),
            open_files: settings.open_files.0,
            processes: settings.processes.0,
        },
        ..SandboxConfig::new(OWN_PROGRAM.into())
    }
}

fn mebibytes(number: u64) -> u64 {
    number.saturating_mul(1024 * 1024)
}

/// Returns the hidden paths: the daemon's own folders and sockets, and the user's secrets.
fn hidden(paths: &Paths, sockets: &SocketPaths, home: Option<PathBuf>) -> Vec<PathBuf> {
    let own = [&paths.data, &paths.config].into_iter().chain(sockets.all()).cloned();
    let home = home.filter(|home| home.is_absolute());
    let secrets = home.iter().flat_map(|home| SECRETS.split_ascii_whitespace().map(|name| home.join(name)));
    own.chain(secrets).chain(MACHINE_SECRETS.iter().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_folders_and_user_keys_are_hidden() {
        let paths = Paths { system_config: Vec::new(), config: "/c".into(), data: "/d".into() };
        let others = vec!["/tmp/agentd-1/a.sock".into()];
        let sockets = SocketPaths { first: "/run/agentd.sock".into(), others, is_named: false };
        let hidden = hidden(&paths, &sockets, Some("/home/p".into()));
        for path in ["/c", "/d", "/run/agentd.sock", "/tmp/agentd-1/a.sock", "/home/p/.ssh", "/home/p/.gnupg"] {
            assert!(hidden.contains(&path.into()), "{path}");
        }
    }
}
