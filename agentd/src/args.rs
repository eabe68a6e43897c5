//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// The agentd daemon.
///
/// It runs in the foreground, answers on a local socket and keeps every session in its data folder. `agentctl` starts
/// it when none is running; systemd can start it as a user service.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "agentd", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Read the configuration, say what is wrong with it, and end
    #[arg(long)]
    pub check_config: bool,

    /// Print the manual page, and end
    #[arg(long, hide = true)]
    pub man: bool,

    /// The folder with agentd.yaml, models.yaml, tools.yaml and prompts/ [default: $AGENTD_CONFIG_DIR, or
    /// agentd in the XDG configuration folder]
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,

    /// The folder with the journal and the workspaces [default: $AGENTD_DATA_DIR, or agentd in the XDG data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The socket to answer on [default: $AGENTD_SOCKET, or agentd/agentd.sock in the XDG runtime folder]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Log to this file instead of standard error
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// Log level: error, warn, info, debug, trace, or a list such as info,agentd_models=debug
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  agentd                                  run with the built-in model, or with the models of models.yaml
  MODEL_BASIC_BASE_URL=http://127.0.0.1:8080/v1 agentd
                                          run with a server on this machine
  agentd --check-config                   after an edit: is everything right?
  agentd --data-dir /tmp/a --socket /tmp/a/agentd.sock
                                          a second daemon beside the first
  kill -HUP $(cat ~/.local/share/agentd/agentd.lock)
                                          read the configuration again

Exit codes: 0 stopped as asked, 1 could not start or run, 2 usage or configuration.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        super::Args::command().debug_assert();
    }
}
