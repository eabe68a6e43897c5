//! `ask_human`: the model asks the person.

use agentd_core::{
    interrupt::{Answer, Ask},
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
    turn::{Denial, OnInterrupt},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::turn::{
    TurnExit,
    hooks::{Hook, Invocation, Link, Next, Preview},
};

const NAME: &str = "ask_human";

pub(crate) struct Questions;

/// Asks the person a question and waits for the answer. Use it when you need something that only the person knows; never to
/// ask for permission to use a tool: that is asked automatically.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The question, one sentence.
    question: String,
    #[schemars(description = "What the person needs to know to answer.")]
    context: Option<String>,
    /// The answer to take if none is given.
    default: Option<String>,
    #[serde(default = "required_unless_said")]
    #[schemars(description = "Whether an empty answer is refused. Default true.")]
    required: bool,
    /// Answers to choose from, where there are some: 2 to 9, a few words each. The person may give another one.
    #[serde(default)]
    choices: Vec<String>,
}

/// The number of choices, where there are any. One key chooses each.
const CHOICES: std::ops::RangeInclusive<usize> = 2..=9;
/// The characters of a choice at the most.
const LONGEST_CHOICE: usize = 120;

fn required_unless_said() -> bool {
    true
}

impl Link for Questions {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Arguments>(NAME, Effect::State)]
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        (call.call.name == NAME).then(|| std::future::ready(arguments(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name == NAME { answer(call).boxed() } else { next.run(call) }
    }
}

async fn answer(call: &Invocation<'_>) -> Result<ToolOutput, TurnExit> {
    let arguments = match arguments(call) {
        Ok(arguments) => arguments,
        Err(output) => return Ok(output),
    };
    match call.context.rules.answering.now() {
        OnInterrupt::Wait => ask(call, arguments).await,
        OnInterrupt::Approve | OnInterrupt::Deny => Ok(match arguments.default {
            Some(default) => ToolOutput::ok(default),
            None => ToolOutput::error(
                ToolErrorCode::Denied,
                "this run cannot ask anybody; continue with what you know and state your assumptions",
            ),
        }),
        OnInterrupt::Fail => Err(TurnExit::Denied(Denial {
            call_id: call.call.call_id.clone(),
            tool: NAME.to_owned(),
            reason: format!("a question needs an answer: {}", arguments.question),
        })),
    }
}

fn arguments(call: &Invocation<'_>) -> Result<Arguments, ToolOutput> {
    let refused = |text: String| ToolOutput::error(ToolErrorCode::InvalidArgs, text);
    let mut arguments: Arguments = serde_json::from_str(&call.call.arguments)
        .map_err(|error| refused(format!("{NAME} needs {{\"question\": \"…\"}}: {error}")))?;
    for choice in &mut arguments.choices {
        *choice = choice.trim().to_owned();
    }
    match misfit(&arguments.choices) {
        Some(why) => Err(refused(why)),
        None => Ok(arguments),
    }
}

/// Why these are no choices, in a sentence that says how to do it right.
fn misfit(choices: &[String]) -> Option<String> {
    if choices.is_empty() {
        return None;
    }
    if !CHOICES.contains(&choices.len()) {
        let (least, most) = CHOICES.into_inner();
        return Some(format!("choices has {} entries; give {least} to {most}, or leave it out", choices.len()));
    }
    let is_fit = |choice: &String| {
        !choice.is_empty() && choice.chars().count() <= LONGEST_CHOICE && !choice.chars().any(char::is_control)
    };
    if let Some(at) = choices.iter().position(|choice| !is_fit(choice)) {
        let number = at + 1;
        return Some(format!(
            "choice {number} must be one line of 1 to {LONGEST_CHOICE} characters; explain in context"
        ));
    }
    let is_repeated = |(at, choice): &(usize, &String)| {
        choices[..*at].iter().any(|earlier| earlier.to_lowercase() == choice.to_lowercase())
    };
    let (at, _) = choices.iter().enumerate().find(is_repeated)?;
    Some(format!("choice {} repeats an earlier one; each must be different", at + 1))
}

async fn ask(call: &Invocation<'_>, arguments: Arguments) -> Result<ToolOutput, TurnExit> {
    let Arguments { question, context, default, required, choices } = arguments;
    let ask = Ask::Question { secret: false, question, context, default: default.clone(), required, choices };
    let answered = call.ask(ask).await?;
    call.record.entries().effects.said = answered.words_of_person();
    Ok(match answered.answer {
        Answer::Text { text } if text.trim().is_empty() => {
            ToolOutput::ok(default.unwrap_or_else(|| "The person left the answer empty.".to_owned()))
        }
        Answer::Text { text } => ToolOutput::ok(text),
        Answer::Reject { reason } => ToolOutput::error(
            ToolErrorCode::Denied,
            format!("the person declined to answer: {}", reason.as_deref().unwrap_or("no reason given")),
        ),
        // The session refuses an answer that does not fit.
        Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } | Answer::Edit { .. } => {
            ToolOutput::error(ToolErrorCode::Tool, "the answer was no text; ask again")
        }
    })
}
