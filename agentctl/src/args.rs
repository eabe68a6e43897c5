//! The command line: shared handling and the table of commands. The arguments of each command are defined next to its
//! code in [`crate::cmd`]. For an invalid command line, clap's message is printed; if a program requested JSON, a JSON
//! result is printed as well.

use std::ffi::OsString;

use agentd_core::error::ErrorKind;
use clap::{
    Arg, ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, builder::Resettable, error::Error,
};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use futures_util::future::BoxFuture;

use crate::{acp, cmd, daemon, exit::Exit, failure::Failure, flags::Global, report, terminal::is_attended};

/// Client of agentd, the private agent runtime on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "agentctl",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    override_usage = "agentctl [OPTIONS] [MESSAGE]\n       agentctl [OPTIONS] <COMMAND>",
    after_help = "Examples:
  agentctl                                   chat about the current folder
  agentctl 'Why is the build red?'           the same, with a first message
  agentctl -c                                resume the last chat about this folder
  agentctl run 'What time is it?'            one question, one answer
  git diff | agentctl run 'Review this'      a pipe is appended to the prompt
  agentctl run 'Tidy up' --output json       for scripts
  agentctl --host ssh://me@server            chat with the daemon of another machine
  agentctl doctor                            check the installation

Without a command, agentctl opens the chat, with the options of `agentctl chat`. A message of one word goes after `--`. \
Most commands start the daemon if it is not running."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Generates the command enum and its dispatch from a table of help text, arguments and handler. Handlers of commands
/// marked `daemon` get a connection to the daemon, which is started if none runs.
macro_rules! commands {
    (@local $handle:path, $global:expr, $args:expr) => { $handle(&$global, $args) };
    (@daemon $handle:path, $global:expr, $args:expr) => {
        $handle(daemon::connect(&$global).await?, $global.json, $args)
    };
    ($($(#[$help:meta])+ $name:ident($args:ty) => $kind:ident $handle:path,)*) => {
        /// The commands.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$help])+ $name(Box<$args>),)*
        }

        impl Cli {
            /// Runs the command.
            ///
            /// # Errors
            /// Returns a [`crate::failure::Failure`] with the exit code, or an [`std::io::Error`] from standard output.
            pub(crate) async fn handle(self) -> anyhow::Result<Exit> {
                match self.command {
                    $(Command::$name(args) => commands!(@$kind $handle, self.global, *args).await,)*
                }
            }
        }
    };
}

commands! {
    /// Chat with the model in the terminal
    Chat(cmd::attach::ChatArgs) => local chat,
    /// Run one turn and print the answer
    Run(cmd::run::RunArgs) => local cmd::run::handle,
    /// Review a change in a git repository and print findings
    Review(cmd::review::ReviewArgs) => local cmd::review::handle,
    /// Follow the running turn of a session
    Attach(cmd::attach::AttachArgs) => daemon cmd::attach::handle,
    /// Wait until a session is idle, and print the answer
    Wait(cmd::attach::WaitArgs) => daemon cmd::attach::handle_wait,
    /// List pending approvals and questions
    Interrupts(cmd::interrupts::InterruptsArgs) => daemon cmd::interrupts::handle,
    /// Answer an approval or a question
    Answer(cmd::interrupts::AnswerArgs) => daemon cmd::interrupts::handle_answer,
    /// List, add and revoke grants: rules for calls that run without asking
    #[command(subcommand, after_help = cmd::interrupts::GRANTS_HELP)]
    Grants(cmd::interrupts::GrantsCommand) => daemon cmd::interrupts::handle_grants,
    /// List, show, export, import and delete sessions
    #[command(subcommand, after_help = cmd::sessions::SESSIONS_HELP)]
    Sessions(cmd::sessions::SessionsCommand) => daemon cmd::sessions::handle,
    /// Run recordings as tests, without model or network
    Test(cmd::replay::TestArgs) => local cmd::replay::handle,
    /// List, read and write files of a session
    #[command(subcommand, after_help = cmd::files::FILES_HELP)]
    Files(cmd::files::FilesCommand) => daemon cmd::files::handle,
    /// Add documents to a session; read and search them by page
    #[command(subcommand, after_help = cmd::docs::DOCS_HELP)]
    Docs(cmd::docs::DocsCommand) => daemon cmd::docs::handle,
    /// Show what fills the context window, and what would be cut next
    Context(cmd::context::ContextArgs) => daemon cmd::context::handle,
    /// Summarize older history, or restore it
    Compact(cmd::context::CompactArgs) => daemon cmd::context::handle_compact,
    /// Show a turn as a tree with times, tokens and cost
    Trace(cmd::trace::TraceArgs) => daemon cmd::trace::handle,
    /// Undo a turn's changes to files
    Undo(cmd::context::UndoArgs) => daemon cmd::context::handle_undo,
    /// Go back to before a turn: files, conversation, or both
    Rewind(cmd::context::RewindArgs) => daemon cmd::context::handle_rewind,
    /// Show the audit log
    Audit(cmd::audit::AuditArgs) => daemon cmd::audit::handle,
    /// Explain what the policy decides for a call; test a policy file
    #[command(subcommand, after_help = cmd::policy::POLICY_HELP)]
    Policy(cmd::policy::PolicyCommand) => local cmd::policy::handle,
    /// List the models and their roles (slots)
    Models(cmd::models::ModelsArgs) => local cmd::models::handle,
    /// Show tokens and cost, by model, session, day or slot
    Usage(cmd::usage::UsageArgs) => daemon cmd::usage::handle,
    /// List the tools available to models
    Tools(cmd::agents::ToolsArgs) => daemon cmd::agents::handle_tools,
    /// List and show agents, to which the main agent can delegate work
    #[command(subcommand, after_help = cmd::agents::AGENTS_HELP)]
    Agents(cmd::agents::AgentsCommand) => daemon cmd::agents::handle,
    /// List, show, check and add skills
    #[command(subcommand, after_help = cmd::agents::SKILLS_HELP)]
    Skills(cmd::agents::SkillsCommand) => daemon cmd::agents::handle_skills,
    /// Show and trust the configuration of a project in .agentd/
    #[command(subcommand, after_help = cmd::project::PROJECT_HELP)]
    Project(cmd::project::ProjectCommand) => daemon cmd::project::handle,
    /// List, show, merge and remove git worktrees of sessions
    #[command(subcommand, after_help = cmd::project::WORKTREE_HELP)]
    Worktree(cmd::project::WorktreeCommand) => daemon cmd::project::handle_worktree,
    /// Add, list, show and remove plugins: bundles of skills, agents, commands and servers
    #[command(subcommand, after_help = cmd::plugin::PLUGIN_HELP)]
    Plugin(cmd::plugin::PluginCommand) => daemon cmd::plugin::handle,
    /// Manage MCP servers, or run as one
    #[command(subcommand, after_help = cmd::mcp::MCP_HELP)]
    Mcp(cmd::mcp::McpCommand) => local cmd::mcp::handle,
    /// Serve an editor over the Agent Client Protocol
    Acp(acp::AcpArgs) => local acp::handle,
    /// Count turns, tools, waits, tokens and cost, by day
    Stats(cmd::usage::StatsArgs) => daemon cmd::usage::handle_stats,
    /// Show disk usage of the data folder
    Storage(cmd::daemon::StorageArgs) => daemon cmd::daemon::storage,
    /// Remove data that has not been used for a long time
    Clean(cmd::daemon::CleanArgs) => daemon cmd::daemon::clean,
    /// Show the status of the daemon
    Status(cmd::daemon::StatusArgs) => local cmd::daemon::status,
    /// Start the daemon and wait until it is ready
    Start(cmd::daemon::StartArgs) => daemon cmd::daemon::start,
    /// Stop the daemon; interrupted turns can be resumed later
    Stop(cmd::daemon::StopArgs) => local cmd::daemon::stop,
    /// Run the daemon as a systemd service
    #[command(subcommand, after_help = cmd::service::SERVICE_HELP)]
    Service(cmd::service::ServiceCommand) => local cmd::service::handle,
    /// Show the effective configuration and its sources
    #[command(subcommand, after_help = cmd::daemon::CONFIG_HELP)]
    Config(cmd::daemon::ConfigCommand) => daemon cmd::daemon::config,
    /// Reload the daemon's configuration
    Reload(cmd::daemon::ReloadArgs) => local cmd::daemon::reload,
    /// Check the installation, with a hint for each problem
    Doctor(cmd::doctor::DoctorArgs) => local cmd::doctor::handle,
    /// Connect standard input and output to the daemon, for clients of other machines
    #[command(hide = true)]
    DialStdio(cmd::dial::DialArgs) => local cmd::dial::handle,
    /// Print a completion script for a shell
    Completions(cmd::man::CompletionsArgs) => local completions,
    /// Print or write the manual pages
    Man(cmd::man::ManArgs) => local man,
}

async fn chat(global: &Global, args: cmd::attach::ChatArgs) -> anyhow::Result<Exit> {
    cmd::attach::handle_chat(global, args, command_line).await
}

async fn completions(_: &Global, args: cmd::man::CompletionsArgs) -> anyhow::Result<Exit> {
    cmd::man::completions(args, command())
}

async fn man(_: &Global, args: cmd::man::ManArgs) -> anyhow::Result<Exit> {
    cmd::man::handle(args, command())
}

/// Runs a command line that was typed into a chat.
fn command_line(global: Global, args: Vec<String>) -> BoxFuture<'static, anyhow::Result<Exit>> {
    Box::pin(async move {
        let cli = Cli::read(std::iter::once("agentctl".to_owned()).chain(args).map(Into::into))?;
        Cli { global: Global { json: cli.global.json, ..global }, ..cli }.handle().await
    })
}

/// Commands without JSON output, which reject `--json`; `run` and `attach` have `--output` instead.
const WITHOUT_JSON: [&str; 11] =
    ["chat", "run", "attach", "answer", "stop", "dial-stdio", "completions", "man", "mcp serve", "acp", "service logs"];

/// Builds the clap command, with `--json` on every command that prints JSON and with completions for arguments.
pub(crate) fn command() -> clap::Command {
    with_json_flag(with_chat_options(Cli::command()), "")
}

/// Lists the options of `chat` for a command line without a command, too, which is read as one of `chat`.
fn with_chat_options(command: clap::Command) -> clap::Command {
    let chat = command.find_subcommand("chat");
    let options: Vec<Arg> = chat.into_iter().flat_map(clap::Command::get_arguments).cloned().collect();
    // Conflicts are found when the command line is read as one of `chat`.
    let listed = |arg: Arg| arg.conflicts_with(Resettable::<clap::Id>::Reset).help_heading("Options of the chat");
    command.args(options.into_iter().filter(|arg| !arg.is_positional()).map(listed))
}

/// Returns true if the arguments contain no command, but something for the chat: its options, or a message, which
/// contains a blank or follows `--`, so that no misspelled command reaches a model.
fn begins_chat(command: &clap::Command, args: &[OsString]) -> bool {
    let is_option = |arg: &str| {
        let long = arg.strip_prefix("--").and_then(|rest| rest.split('=').next());
        let short = arg.strip_prefix('-').and_then(|rest| rest.chars().next());
        let is_named = |option: &Arg| option.get_long().is_some_and(|name| Some(name) == long);
        command.get_arguments().any(|option| is_named(option) || option.get_short().is_some_and(|c| Some(c) == short))
    };
    let mut rest = args.iter().skip(1).map(|arg| arg.to_string_lossy());
    while let Some(arg) = rest.next() {
        if arg == "--socket" || arg == "--host" {
            rest.next();
        } else if !arg.starts_with("--socket=") && !arg.starts_with("--host=") {
            return arg == "--" || is_option(&arg) || arg.contains(char::is_whitespace);
        }
    }
    is_attended()
}

fn with_json_flag(mut command: clap::Command, path: &str) -> clap::Command {
    // A command with subcommands prints nothing itself, and some commands define `json` with a help text of their own.
    let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
    if !command.is_subcommand_required_set() && !has_json && !WITHOUT_JSON.contains(&path) {
        command = command.arg(Arg::new("json").long("json").help("Print JSON").action(ArgAction::SetTrue));
    }
    command.mut_args(with_completions).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_json_flag(below, path.trim_start())
    })
}

/// Adds shell completions to an argument.
fn with_completions(arg: Arg) -> Arg {
    let offers = match arg.get_id().as_str() {
        "session" | "choose" => cmd::man::sessions,
        "id" => cmd::man::interrupts,
        "agent" => cmd::man::agents,
        "server" => cmd::man::mcp_servers,
        "plugin" => cmd::man::plugins,
        "model" => cmd::man::models,
        "slot" => cmd::man::slots,
        "project" | "folder" | "folders" => return arg.add(ArgValueCompleter::new(cmd::man::folders)),
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(offers))
}

impl Cli {
    /// Parses a command line. The first item is the program's name.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, or request help.
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let (mut command, mut args) = (command(), args.into_iter().collect::<Vec<_>>());
        let is_bare = begins_chat(&command, &args);
        if is_bare {
            args.insert(args.len().min(1), "chat".into());
        }
        let matches = command.try_get_matches_from_mut(&args)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Command::Chat(chat) = &cli.command
            && let Some(word) = chat.single_word()
            && is_bare
            && !args.iter().any(|arg| arg == "--")
        {
            let problem = format!("unrecognized {word:?}: a command comes first, a message of one word after `--`");
            return Err(command.error(clap::error::ErrorKind::InvalidSubcommand, problem));
        }
        let last = std::iter::successors(Some(&matches), |last| Some(last.subcommand()?.1)).last().unwrap_or(&matches);
        cli.global.json = matches!(last.try_get_one("json"), Ok(Some(true)));
        Ok(cli)
    }
}

/// Prints clap's message, an error or the requested help, and exits the process.
pub(crate) fn end(error: &Error) -> ! {
    if error.use_stderr() && wants_result(std::env::args_os().skip(1)) {
        let failure = Failure::new(ErrorKind::InvalidInput, first_line(error)).hint("agentctl run --help");
        // If standard output is closed, the exit code still reports the failure.
        let _ = report::json_line(&report::no_result(None, None, &failure, 0));
    }
    error.exit()
}

/// Returns true if a program runs a turn and expects a JSON result. Checks each argument on its own, because parsing
/// the whole command line has failed.
fn wants_result(arguments: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let is_json = |value: &str| matches!(value, "json" | "stream-json");
    let is_separate = args.windows(2).any(|pair| pair[0] == "--output" && is_json(&pair[1]));
    let joined = args.iter().any(|word| word.strip_prefix("--output=").is_some_and(is_json));
    args.iter().any(|word| word == "run") && (is_separate || joined)
}

/// Returns the first line of the error, without the usage.
fn first_line(error: &Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn every_command_help_has_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "`{}` shows no examples", command.get_name());
        }
        let cli = Cli::command();
        check(&cli);
        cli.get_subcommands().for_each(check);
    }

    /// Example lines may be long, because they are copied as commands.
    #[test]
    fn help_paragraphs_wrap_to_the_terminal() {
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
                // Help is wrapped by clap, not by hand, so a short line must be the last of its paragraph.
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
    fn json_flag_is_accepted_only_where_supported() {
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
        for path in WITHOUT_JSON {
            let cli = Cli::command();
            let found = path.split(' ').try_fold(&cli, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
    }

    #[test]
    fn command_lines_without_a_command_are_read_as_chat() {
        let read = |args: &[&str]| Cli::read(["agentctl"].iter().chain(args).map(OsString::from));
        let lines: [&[&str]; 10] = [
            &["-c"],
            &["--resume"],
            &["--resume", "0193"],
            &["-C", "none"],
            &["--mode=plan", "-cC", "none"],
            &["--socket", "/x", "--continue"],
            &["--host", "ssh://x", "--continue"],
            &["fix the test"],
            &["--model", "code", "fix the test"],
            &["-c", "--", "status"],
        ];
        for line in lines {
            let cli = read(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert!(matches!(cli.command, Command::Chat(_)), "{line:?}");
        }
        let refused: [(&[&str], &str); 7] = [
            (&["stauts"], "'status'"),
            (&["fix", "the", "test"], "unrecognized subcommand 'fix'"),
            (&["-c", "status"], "\"status\": a command comes first"),
            (&["fix the test", "now"], "\"now\""),
            (&["--continu"], "'--continue'"),
            (&["--continue", "--resume"], "cannot be used with"),
            (&["--json"], "'--json'"),
        ];
        for (line, problem) in refused {
            let error = read(line).unwrap_err();
            assert!(error.use_stderr() && error.to_string().contains(problem), "{line:?}: {error}");
        }
        assert!(matches!(read(&["--socket=/x", "--host=y", "status"]).unwrap().command, Command::Status(_)));
        assert!(!read(&["--help"]).unwrap_err().use_stderr());
    }

    #[test]
    fn completions_cover_values_known_to_the_daemon() {
        let mut pending = vec![command()];
        let mut offered = std::collections::BTreeSet::new();
        while let Some(command) = pending.pop() {
            let args = command.get_arguments().filter(|arg| arg.get::<ArgValueCandidates>().is_some());
            offered.extend(args.map(|arg| format!("{} {}", command.get_name(), arg.get_id())));
            pending.extend(command.get_subcommands().cloned());
        }
        for arg in [
            "show session",
            "search session",
            "chat choose",
            "agentctl choose",
            "answer id",
            "interrupts id",
            "show agent",
            "run agent",
            "test server",
            "run model",
            "show slot",
        ] {
            assert!(offered.contains(arg), "{arg} of {offered:?}");
        }
        assert!(!offered.contains("add name"), "{offered:?}");
    }
}
