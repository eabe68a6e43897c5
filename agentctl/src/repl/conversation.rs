//! The loop of a conversation: reads a line, and runs a turn or a command, until there are no more lines.

use futures_util::future::BoxFuture;

use super::slash::{self, Slash};
use crate::{
    exit::Exit,
    failure::{self, Failure},
};

/// Input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A complete input, which may have several lines.
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// End of the input.
    End,
}

/// Source of inputs.
pub(crate) trait Lines: Send {
    /// Returns the next input.
    fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>>;

    /// Returns true if [`Lines::next`] may be dropped early: the next call continues the input that was begun.
    fn can_pause(&self) -> bool {
        false
    }

    /// Drops the input that was begun, on Ctrl-C. Returns false if there was none.
    fn interrupt(&mut self) -> bool {
        false
    }
}

/// Reason to leave the prompt without an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The client received a signal to end.
    End(Exit),
    /// Another client's turn runs, after the event with this number.
    Turn { after: u64 },
    /// Ctrl-C, if the prompt does not read it as a key.
    Interrupt,
}

/// Actions of a conversation.
pub(crate) trait ChatBackend: Send {
    /// Runs a turn.
    fn say(&mut self, text: String) -> BoxFuture<'_, anyhow::Result<Exit>>;

    /// Runs a turn with the prompt of an own command of the user, a plugin or the project. Returns `None` if the line
    /// is not such a command.
    fn own_command(&mut self, _line: &str) -> BoxFuture<'_, Option<anyhow::Result<Exit>>> {
        Box::pin(std::future::ready(None))
    }

    /// Runs a command other than `/quit`.
    fn command(&mut self, command: Slash) -> BoxFuture<'_, anyhow::Result<Exit>>;

    /// Waits for a reason to leave the prompt. Turns of other clients and Ctrl-C only count if the prompt can pause.
    fn wake(&mut self, is_pausable: bool) -> BoxFuture<'_, Wake>;

    /// Follows another client's turn, after the event with this number.
    fn join(&mut self, after: u64) -> BoxFuture<'_, anyhow::Result<Exit>>;

    /// Shows a message about the client.
    fn note(&mut self, text: &str);

    /// Shows a failure.
    fn fail(&mut self, failure: &Failure);
}

/// Runs a conversation. With a user present, it continues after failures and ends with success. In a script, it ends
/// with the code of the worst turn, and stops if the daemon is lost or Ctrl-C was pressed.
///
/// # Errors
/// Fails if standard output is closed, or the user left while a turn was running.
pub(crate) async fn hold(lines: &mut dyn Lines, desk: &mut dyn ChatBackend, present: bool) -> anyhow::Result<Exit> {
    let mut worst = Exit::Done;
    let mut pressed = false;
    loop {
        let outcome = match next(lines, desk).await? {
            Next::Wake(Wake::End(exit)) => return Ok(exit),
            Next::Wake(Wake::Interrupt) => continue,
            Next::Wake(Wake::Turn { after }) => desk.join(after).await,
            Next::Input(Input::End) => break,
            Next::Input(Input::Interrupted) if pressed => break,
            Next::Input(Input::Interrupted) => {
                pressed = true;
                desk.note("Ctrl-C again leaves");
                continue;
            }
            Next::Input(Input::Text(text)) => {
                pressed = false;
                if text.trim().is_empty() {
                    continue;
                }
                let parsed = if present { slash::parse_at_prompt(&text) } else { slash::parse(&text) };
                match parsed {
                    Some(Ok(Slash::Quit)) => break,
                    Some(Ok(command)) => desk.command(command).await,
                    other => match (desk.own_command(&text).await, other) {
                        (Some(outcome), _) => outcome,
                        (None, Some(Err(refusal))) => Err(Failure::usage(refusal).into()),
                        (None, _) => desk.say(text).await,
                    },
                }
            }
        };
        let exit = match outcome {
            Ok(exit) => exit,
            Err(error) if failure::is_broken_pipe(&error) => return Err(error),
            Err(error) => {
                let failure = Failure::from_any(&error);
                if present && matches!(failure.exit, Exit::Cancelled | Exit::HungUp | Exit::Terminated) {
                    return Err(error);
                }
                desk.fail(&failure);
                failure.exit
            }
        };
        worst = worse(worst, exit);
        if !present && matches!(exit, Exit::Cancelled | Exit::HungUp | Exit::Terminated | Exit::Unreachable) {
            break;
        }
    }
    Ok(if present { Exit::Done } else { worst })
}

/// Next event of a conversation.
enum Next {
    Input(Input),
    Wake(Wake),
}

/// Returns the next input, or a reason to leave the prompt.
async fn next(lines: &mut dyn Lines, desk: &mut dyn ChatBackend) -> Result<Next, Failure> {
    let is_pausable = lines.can_pause();
    let wake = tokio::select! {
        biased;
        wake = desk.wake(is_pausable) => wake,
        input = lines.next() => return input.map(Next::Input),
    };
    Ok(match wake {
        Wake::Interrupt if lines.interrupt() => Next::Input(Input::Text(String::new())),
        Wake::Interrupt => Next::Input(Input::Interrupted),
        wake => Next::Wake(wake),
    })
}

/// Returns the worse of two exit codes.
fn worse(a: Exit, b: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Done => 0,
        Exit::Postponed | Exit::StillRunning => 1,
        Exit::Limit => 2,
        Exit::Approval => 3,
        Exit::NoAnswer | Exit::Findings => 4,
        Exit::Failed => 5,
        Exit::Usage => 6,
        Exit::Auth => 7,
        Exit::Unreachable => 8,
        Exit::Cancelled | Exit::HungUp | Exit::Terminated => 9,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Script(VecDeque<Input>);

    impl Script {
        fn of(inputs: &[&str]) -> Self {
            Self(inputs.iter().map(|text| Input::Text((*text).to_owned())).collect())
        }
    }

    impl Lines for Script {
        fn next(&mut self) -> BoxFuture<'_, Result<Input, Failure>> {
            let next = self.0.pop_front().unwrap_or(Input::End);
            Box::pin(std::future::ready(Ok(next)))
        }
    }

    /// Ends each turn as its text says, and writes down what happened.
    #[derive(Default)]
    struct FakeDesk(Vec<String>);

    impl ChatBackend for FakeDesk {
        fn say(&mut self, text: String) -> BoxFuture<'_, anyhow::Result<Exit>> {
            self.0.push(format!("say {text}"));
            Box::pin(std::future::ready(match text.as_str() {
                "fails" => Ok(Exit::Failed),
                "limit" => Ok(Exit::Limit),
                "cancelled" => Ok(Exit::Cancelled),
                "lost" => Err(Failure::unreachable("gone").into()),
                "left" => Err(Failure { exit: Exit::Cancelled, ..Failure::usage("left") }.into()),
                "pipe" => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
                _ => Ok(Exit::Done),
            }))
        }

        fn command(&mut self, command: Slash) -> BoxFuture<'_, anyhow::Result<Exit>> {
            unreachable!("{command:?}")
        }

        fn wake(&mut self, _: bool) -> BoxFuture<'_, Wake> {
            Box::pin(std::future::pending())
        }

        fn join(&mut self, after: u64) -> BoxFuture<'_, anyhow::Result<Exit>> {
            unreachable!("{after}")
        }

        fn note(&mut self, text: &str) {
            self.0.push(format!("note {text}"));
        }

        fn fail(&mut self, failure: &Failure) {
            self.0.push(format!("fail {failure}"));
        }
    }

    async fn held(mut lines: Script, present: bool) -> (anyhow::Result<Exit>, Vec<String>) {
        let mut desk = FakeDesk::default();
        let exit = hold(&mut lines, &mut desk, present).await;
        (exit, desk.0)
    }

    #[tokio::test]
    async fn script_exits_with_its_worst_turn_code() {
        #[track_caller]
        fn check((exit, log): (anyhow::Result<Exit>, Vec<String>), expected: Exit, turns: usize) {
            assert_eq!(exit.unwrap(), expected);
            assert_eq!(log.iter().filter(|line| line.starts_with("say")).count(), turns);
        }
        check(held(Script::of(&["fails", "limit", "fine"]), false).await, Exit::Failed, 3);
        check(held(Script::of(&["lost", "fine"]), false).await, Exit::Unreachable, 1);
        check(held(Script::of(&["cancelled", "fine"]), false).await, Exit::Cancelled, 1);
        check(held(Script::of(&["/nonsense", "fine"]), false).await, Exit::Usage, 1);
        check(held(Script::of(&["fails", "lost", "cancelled", "fine"]), true).await, Exit::Done, 4);
    }

    #[tokio::test]
    async fn second_ctrl_c_leaves_the_conversation() {
        let text = |text: &str| Input::Text(text.into());
        let inputs = [Input::Interrupted, text("one"), Input::Interrupted, Input::Interrupted, text("two")];
        let (exit, log) = held(Script(inputs.into()), true).await;
        assert_eq!(exit.unwrap(), Exit::Done);
        assert_eq!(log, ["note Ctrl-C again leaves", "say one", "note Ctrl-C again leaves"]);
        assert!(held(Script::of(&["left", "one"]), true).await.0.is_err());
        assert!(held(Script::of(&["pipe", "one"]), true).await.0.is_err());
    }
}
