//! `agentctl chat`: the conversation at a terminal, which is [`crate::repl`].

use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    flags::{CommandLine, Global},
    repl,
    session::{SessionChoice, SessionTarget, TurnChoice},
    terminal::look,
};

/// The arguments of `chat`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl chat                        new session, like `agentctl` alone
  agentctl chat 'Why is the build red?'
  agentctl chat --continue             resume the last session of this folder
  agentctl chat --resume               choose a session to resume
  agentctl chat -C ~/src/app:rw        with a folder that tools may change
  agentctl chat --mode plan            look and plan, without changing anything
  agentctl chat --model gpt-5          with a model that the server lists
  printf 'Hello!\\n' | agentctl chat    each line is a turn

/help lists the commands of the chat. Ctrl-C cancels the turn, twice quits; Ctrl-D leaves.")]
pub(crate) struct ChatArgs {
    /// First message
    #[arg(value_name = "WORDS", num_args = 0..)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionChoice,
    /// Choose a session to resume
    #[arg(long = "resume", conflicts_with_all = ["session", "resume", "words"])]
    choose: bool,
    /// Write words and newlines only, and read whole lines: for screen readers; TERM=dumb does the same
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    turn: TurnChoice,
}

/// Hands over to the conversation.
pub(crate) async fn handle(global: &Global, args: ChatArgs, command_line: CommandLine) -> anyhow::Result<Exit> {
    if args.plain && !look::is_plain() {
        return Err(Failure::usage(format!("cannot start again for --plain: {}", look::become_plain()))
            .hint("use TERM=dumb agentctl chat")
            .into());
    }
    let daemon = daemon::connect(global).await?;
    let place = SessionTarget::find(&daemon, &args.session, &args.turn).await?;
    let place = place.in_mode(&daemon, args.turn.mode).await?;
    let place = place.with_model(&daemon, args.turn.model.as_ref()).await?;
    let words = if args.choose { "/resume".to_owned() } else { args.words.join(" ") };
    let first = Some(words).filter(|words| !words.trim().is_empty());
    repl::run(daemon, place, first, command_line).await
}
