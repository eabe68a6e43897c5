//! The command line: what all commands share, and the table of commands. The arguments of each command stand
//! beside its code in [`crate::cmd`].

use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::{cmd, complete, flags::Global};

/// Talks to agentd, the private agent runtime on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "agentctl",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  agentctl                                   chat about the current folder
  agentctl run 'What time is it?'            one question, one answer
  git diff | agentctl run 'Review this'      a pipe is appended to the prompt
  agentctl run 'Tidy up' --output json       for scripts
  agentctl doctor                            check the installation

Most commands start the daemon if it is not running."
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
    Run(Box<cmd::run::RunArgs>),
    /// Follow the live turn of a session
    Attach(cmd::attach::AttachArgs),
    /// Wait until nothing runs in a session, and print the answer
    Wait(cmd::wait::WaitArgs),
    /// List approvals and questions that wait for an answer
    Interrupts(cmd::interrupts::InterruptsArgs),
    /// Answer an approval or a question
    Answer(cmd::answer::AnswerArgs),
    /// List, add and revoke grants: rules for calls that run without asking
    Grants(cmd::grants::GrantsArgs),
    /// List, show, export, import and delete sessions
    Sessions(cmd::sessions::SessionsArgs),
    /// Play recordings as tests: no model, no network
    Test(cmd::test::TestArgs),
    /// List, read and write files of a session
    Files(cmd::files::FilesArgs),
    /// Add documents to a session; read and search them by page
    Docs(cmd::docs::DocsArgs),
    /// Show what fills the context window, and what would be cut next
    Context(cmd::context::ContextArgs),
    /// Summarize older history, or undo that
    Compact(cmd::compact::CompactArgs),
    /// Show a turn as a tree with times, tokens and money
    Trace(cmd::trace::TraceArgs),
    /// Undo a turn's changes to files
    Undo(cmd::undo::UndoArgs),
    /// Go back to before a turn: files, talk, or both
    Rewind(cmd::rewind::RewindArgs),
    /// Show the audit log
    Audit(cmd::audit::AuditArgs),
    /// Explain what the policy decides for a call; test a policy file
    Policy(cmd::policy::PolicyArgs),
    /// List the models and their roles (slots)
    Models(cmd::models::ModelsArgs),
    /// Show tokens and money, by model, session, day or slot
    Usage(cmd::usage::UsageArgs),
    /// List the tools that models can use
    Tools(cmd::tools::ToolsArgs),
    /// List and show agents: helpers that the main model can give work to
    Agents(cmd::agents::AgentsArgs),
    /// List, show, check and add skills
    Skills(cmd::skills::SkillsArgs),
    /// Show and trust what a project brings along in .agentd/
    Project(cmd::project::ProjectArgs),
    /// List, show, merge and remove git worktrees of sessions
    Worktree(cmd::worktree::WorktreeArgs),
    /// Add, list, show and remove plugins: skills, agents, commands and servers as one
    Plugin(cmd::plugin::PluginArgs),
    /// Manage MCP servers, or act as one
    Mcp(cmd::mcp::McpArgs),
    /// Serve an editor, over the Agent Client Protocol
    Acp(cmd::acp::AcpArgs),
    /// Count turns, tools, waits, tokens and money, by day
    Stats(cmd::stats::StatsArgs),
    /// Show disk usage of the data folder
    Storage(cmd::storage::StorageArgs),
    /// Remove data that has not been used for long
    Clean(cmd::storage::CleanArgs),
    /// Show the status of the daemon
    Status(cmd::daemon::StatusArgs),
    /// Start the daemon and wait until it is ready
    Start(cmd::daemon::StartArgs),
    /// Stop the daemon; interrupted turns can be resumed later
    Stop(cmd::daemon::StopArgs),
    /// Run the daemon as a service of systemd
    Service(cmd::service::ServiceArgs),
    /// Show the effective configuration and its sources
    Config(cmd::config::ConfigArgs),
    /// Reload the configuration
    Reload(cmd::reload::ReloadArgs),
    /// Check the installation, with a hint for each problem
    Doctor(cmd::doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Print or write the manual pages
    Man(cmd::man::ManArgs),
}

/// The commands that print no JSON, so that they refuse `--json`; `run` and `attach` have `--output` for it.
const WITHOUT_JSON: [&str; 10] =
    ["chat", "run", "attach", "answer", "stop", "completions", "man", "mcp serve", "acp", "service logs"];

/// The command line, with `--json` on every command that prints JSON, and with what shells offer for arguments.
pub(crate) fn command() -> clap::Command {
    equipped(Cli::command(), "")
}

fn equipped(mut command: clap::Command, path: &str) -> clap::Command {
    // A command that only holds others prints nothing, and one may say more of its flag than others do.
    let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
    if !command.is_subcommand_required_set() && !has_json && !WITHOUT_JSON.contains(&path) {
        command = command.arg(Arg::new("json").long("json").help("Print JSON").action(ArgAction::SetTrue));
    }
    command.mut_args(offering).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        equipped(below, path.trim_start())
    })
}

/// The argument, with what shells offer for it.
fn offering(arg: Arg) -> Arg {
    let offers = match arg.get_id().as_str() {
        "session" => complete::sessions,
        "id" => complete::interrupts,
        "agent" => complete::agents,
        "server" => complete::mcp_servers,
        "plugin" => complete::plugins,
        "model" => complete::slots,
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(offers))
}

impl Cli {
    /// Reads the words of a command line, the first of which is the program's name.
    ///
    /// # Errors
    /// When they make no sense, or ask for help.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(words)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        let mut last = &matches;
        while let Some((_, below)) = last.subcommand() {
            last = below;
        }
        cli.global.json = matches!(last.try_get_one("json"), Ok(Some(true)));
        Ok(cli)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
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

    /// Examples are commands, which are copied whole.
    #[test]
    fn paragraphs_of_help_are_as_wide_as_the_terminal() {
        fn check(command: clap::Command, columns: usize) {
            let mut command = command.term_width(columns);
            let help = command.render_long_help().to_string();
            let is_example =
                |line: &str| line.starts_with("  ") && line.contains("agentctl") || line.starts_with("Usage");
            for line in help.lines().filter(|line| !is_example(line)) {
                assert!(
                    line.chars().count() <= columns || !line.trim().contains(' '),
                    "{}: {line}",
                    command.get_name()
                );
            }
            let rest: Vec<&str> = help.lines().collect();
            for pair in rest.windows(2) {
                // A line that ends early is the last of its paragraph: clap has wrapped it, and nobody by hand.
                let is_text = |line: &str| line.starts_with(char::is_alphabetic) && line.contains(' ');
                if is_text(pair[0]) && is_text(pair[1]) && !pair[0].ends_with(':') {
                    let next = pair[1].split(' ').next().unwrap_or_default().chars().count();
                    let is_full = pair[0].chars().count() + 1 + next > columns;
                    assert!(is_full, "{}: {:?} is wrapped by hand", command.get_name(), pair[0]);
                }
            }
            command.get_subcommands().cloned().for_each(|command| check(command, columns));
        }
        for columns in [60, 80, 100] {
            check(command(), columns);
        }
    }

    #[test]
    fn the_socket_can_be_named_anywhere() {
        for line in [["agentctl", "--socket", "/tmp/s", "status"], ["agentctl", "status", "--socket", "/tmp/s"]] {
            let cli = Cli::read(line.map(OsString::from)).unwrap();
            assert_eq!(cli.global.socket, Some(std::path::PathBuf::from("/tmp/s")));
        }
    }

    #[test]
    fn json_is_asked_of_commands_that_print_it_and_refused_by_the_others() {
        let read = |line: &str| Cli::read(format!("agentctl {line}").split(' ').map(OsString::from));
        for line in ["status", "audit", "audit verify", "sessions show x", "config show", "mcp stop x", "files ls x"] {
            assert!(!read(line).unwrap().global.json, "{line}");
            assert!(read(&format!("{line} --json")).unwrap().global.json, "{line}");
        }
        for line in
            ["chat", "run x", "attach x", "answer x y", "stop", "completions bash", "mcp serve", "acp", "sessions"]
        {
            let error = read(&format!("{line} --json")).unwrap_err();
            assert!(error.use_stderr() && error.exit_code() == 2, "{line}");
        }
        assert!(read("files get x y --json").is_err());
        assert!(read("files get x y --output z --json").unwrap().global.json);
    }

    #[test]
    fn shells_are_offered_what_the_daemon_knows() {
        let mut words = vec![command()];
        let mut offered = std::collections::BTreeSet::new();
        while let Some(command) = words.pop() {
            let args = command.get_arguments().filter(|arg| arg.get::<ArgValueCandidates>().is_some());
            offered.extend(args.map(|arg| format!("{} {}", command.get_name(), arg.get_id())));
            words.extend(command.get_subcommands().cloned());
        }
        for arg in
            ["show session", "search session", "answer id", "interrupts id", "show agent", "test server", "run model"]
        {
            assert!(offered.contains(arg), "{arg} of {offered:?}");
        }
        assert!(!offered.contains("add name"), "{offered:?}");
    }

    #[test]
    fn every_command_that_is_told_to_print_no_json_is_there() {
        for path in WITHOUT_JSON {
            let cli = Cli::command();
            let found = path.split(' ').try_fold(&cli, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
    }
}
