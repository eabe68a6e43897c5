//! The command line: what all commands share, and the table of commands. The arguments of each command stand
//! beside its code in [`crate::cmd`].

use clap::{Parser, Subcommand};

use crate::{cmd, flags::Global};

/// Talks to agentd, the private agent runtime on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "agentctl",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  agentctl chat                                   talk to the model
  agentctl run 'What time is it?'                 one question, one answer
  git diff | agentctl run 'Review this' -C .      with a pipe and a folder in view
  agentctl run 'Tidy up' --output json            for scripts
  agentctl doctor                                 find out what is wrong

The daemon is started when none runs."
)]
pub(crate) struct Cli {
    /// Flags that all commands share.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk to the model in the terminal
    Chat(cmd::chat::ChatArgs),
    /// Run one turn and print the answer
    Run(cmd::run::RunArgs),
    /// Follow the live turn of a session
    Attach(cmd::attach::AttachArgs),
    /// List what waits for an answer
    Interrupts(cmd::interrupts::InterruptsArgs),
    /// Answer what a turn waits for
    Answer(cmd::answer::AnswerArgs),
    /// List, keep and take back rules about what nobody needs to be asked
    Grants(cmd::grants::GrantsArgs),
    /// List, show, rename, reset and delete sessions
    Sessions(cmd::sessions::SessionsArgs),
    /// List, read and write files of a session
    Files(cmd::files::FilesArgs),
    /// Give documents to a session, and read and search them by the page
    Docs(cmd::docs::DocsArgs),
    /// Show what fills the model's window, and what would be cut next
    Context(cmd::context::ContextArgs),
    /// Replace the older part of a history by a summary, or take that back
    Compact(cmd::compact::CompactArgs),
    /// Take back what a turn did to files
    Undo(cmd::undo::UndoArgs),
    /// Show who asked for what, what was decided and what came of it
    Audit(cmd::audit::AuditArgs),
    /// Say what the rules make of a call, and what a file of rules would change
    Policy(cmd::policy::PolicyArgs),
    /// List the models and the slots that they stand in
    Models(cmd::models::ModelsArgs),
    /// List the tools that models can use
    Tools(cmd::tools::ToolsArgs),
    /// List and show the agents that can work besides the main one
    Agents(cmd::agents::AgentsArgs),
    /// List, show, check and add skills
    Skills(cmd::skills::SkillsArgs),
    /// List, try and add MCP servers, and be one
    Mcp(cmd::mcp::McpArgs),
    /// Show what takes how much room in the data folder
    Storage(cmd::storage::StorageArgs),
    /// Remove what nobody has used for long
    Clean(cmd::storage::CleanArgs),
    /// Show whether the daemon runs and what it is doing
    Status(cmd::daemon::StatusArgs),
    /// Start the daemon and wait until it is ready
    Start(cmd::daemon::StartArgs),
    /// Stop the daemon; turns that run can be continued later
    Stop(cmd::daemon::StopArgs),
    /// Show where the configuration comes from, and the chain around a turn
    Config(cmd::config::ConfigArgs),
    /// Make the daemon read its configuration again
    Reload(cmd::reload::ReloadArgs),
    /// Check the installation and say what to do about what is wrong
    Doctor(cmd::doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "`{}` shows no examples", command.get_name());
        }
        let cli = Cli::command();
        check(&cli);
        cli.get_subcommands().for_each(check);
    }

    #[test]
    fn the_socket_can_be_named_anywhere() {
        for line in [["agentctl", "--socket", "/tmp/s", "status"], ["agentctl", "status", "--socket", "/tmp/s"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert_eq!(cli.global.socket, Some(std::path::PathBuf::from("/tmp/s")));
        }
    }
}
