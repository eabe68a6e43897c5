//! `agentctl acp`: an agent for editors.

use std::io::IsTerminal as _;

use clap::Args;

use crate::{acp, exit::Exit, flags::Global};

/// The arguments of `acp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl acp                    serve an editor, which starts this command itself

For Zed, in settings.json:
  {\"agent_servers\": {\"agentd\": {\"type\": \"custom\", \"command\": \"agentctl\", \"args\": [\"acp\"]}}}

Speaks the Agent Client Protocol (version 1) on standard input and output. The first session starts the daemon. Sessions see \
the editor's folder as /project; files change and commands run after you approve it in the editor. When the editor closes, \
running turns continue: `agentctl attach` follows them, `agentctl interrupts` shows what they wait for. docs/editors.md has \
the settings of other editors.")]
pub(crate) struct AcpArgs {}

/// Serves until standard input ends or a signal comes.
pub(crate) async fn handle(global: &Global, _: AcpArgs) -> anyhow::Result<Exit> {
    if std::io::stdin().is_terminal() {
        crate::terminal::note(
            "waiting for an editor on standard input; Ctrl-C ends it (for a chat use `agentctl chat`)",
        );
    }
    acp::serve(global).await
}
