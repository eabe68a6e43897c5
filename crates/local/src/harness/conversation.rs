//! The request as the harness sees it.

use agentd_core::{ids::CallId, model::Message, tool::ToolCall};

use super::{limits, smalltalk, words::estimate_tokens};
use crate::chat::{Role, Turn};

/// The one system message that this model answers well with. Its template's own default, and personas of any kind,
/// make it talk nonsense.
const SYSTEM: &str = "You are a helpful assistant.";

/// Tokens of a prompt at the most, by estimate. The model could take more, but reads about 150 a second on two cores:
/// a longer prompt would make the person wait for more than ten seconds.
pub(crate) const PROMPT_TOKENS: usize = 1500;

/// Tokens of earlier turns at the most. With more of them this model begins to repeat what was said.
const HISTORY_TOKENS: usize = 300;

/// When the earlier turns have outgrown [`HISTORY_TOKENS`], they are cut back to this many. Cutting far keeps the
/// prompt's beginning the same for many turns after, so that it need not be read again in each.
const TRIMMED_TOKENS: usize = 120;

/// Characters of one earlier turn at the most.
const EARLIER_CHARACTERS: usize = 800;

/// Prefixes of messages that the daemon makes for larger models: this one takes them for the person's words, and has no
/// use for what is long.
const OTHERS: [&str; 4] = ["<memory>\n", "<skills>\n", "<files>\n", "<conversation_summary>\n"];

/// Words of the message that tells of files that a person handed over.
const HANDED: &str = "The person has handed over:";

/// Outcome of the turn's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The tool.
    pub(crate) tool: String,
    /// Its arguments, as JSON.
    pub(crate) arguments: String,
    /// The text that it returned.
    pub(crate) text: String,
}

/// A request, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The current request of the person.
    pub(crate) request: String,
    /// Set if files were handed over with it.
    pub(crate) is_handed: bool,
    /// The last result since then.
    pub(crate) outcome: Option<Outcome>,
    /// Earlier turns, oldest first: as much as the model can make use of. Turns that called a tool are left out, since
    /// what they showed was not the model's and is long, and so is small talk, and what was refused.
    pub(crate) history: Vec<Turn>,
}

impl Conversation {
    /// Reads the messages. The daemon's system message is not for this model, and neither are its reminders.
    pub(crate) fn read(messages: &[Message]) -> Self {
        let mut history: Vec<Turn> = Vec::new();
        let mut request = String::new();
        // Of what comes next, and of the request.
        let (mut is_handing, mut is_handed) = (false, false);
        let mut answers: Vec<Turn> = Vec::new();
        let mut outcome = None;
        let mut calls: Vec<&ToolCall> = Vec::new();
        for message in messages {
            match message {
                Message::System { .. } | Message::Pictures { .. } => {}
                Message::User { text } => {
                    if OTHERS.iter().any(|tag| text.starts_with(tag)) {
                        is_handing |= text.contains(HANDED);
                        continue;
                    }
                    let text = without_reminders(text);
                    if text.is_empty() {
                        continue;
                    }
                    is_handed = std::mem::take(&mut is_handing);
                    let before = std::mem::replace(&mut request, text);
                    let used_tool = outcome.take().is_some() || !calls.is_empty();
                    let is_aside = smalltalk::is_small_talk(&before) || limits::met(&before).is_some();
                    if !used_tool && !answers.is_empty() && !is_aside {
                        history.push(Turn::user(before));
                        history.append(&mut answers);
                    }
                    answers.clear();
                    calls.clear();
                }
                Message::Assistant { text, tool_calls, .. } => {
                    calls.extend(tool_calls);
                    if !text.trim().is_empty() {
                        answers.push(Turn::assistant(text.trim()));
                    }
                }
                Message::Tool { call_id, name, text } => {
                    let arguments = arguments_of(&calls, call_id);
                    outcome = Some(Outcome { tool: name.clone(), arguments, text: text.clone() });
                }
            }
        }
        Self { request, is_handed, outcome, history: trimmed(history) }
    }

    /// The turns of a prompt in which the model answers the request.
    pub(crate) fn into_turns(self) -> Vec<Turn> {
        let mut turns = vec![Turn::system(SYSTEM)];
        match smalltalk::example(&self.request) {
            Some(example) => turns.extend(example),
            None => {
                turns.extend(smalltalk::greeting());
                turns.extend(self.history);
            }
        }
        turns.push(Turn::user(beginning(&self.request, PROMPT_TOKENS * 4)));
        turns
    }
}

fn arguments_of(calls: &[&ToolCall], call_id: &CallId) -> String {
    calls.iter().rev().find(|call| call.call_id == *call_id).map(|call| call.arguments.clone()).unwrap_or_default()
}

/// A text without the reminders that the daemon adds for larger models.
fn without_reminders(text: &str) -> String {
    const START: &str = "<system_reminder>";
    const END: &str = "</system_reminder>";
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        kept.push_str(before);
        rest = after.split_once(END).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

/// The turns that fit. Which ones depends on what was said alone, and changes rarely as the conversation grows, so that
/// most prompts repeat the one before.
fn trimmed(mut history: Vec<Turn>) -> Vec<Turn> {
    for turn in &mut history {
        turn.text = beginning(&turn.text, EARLIER_CHARACTERS);
    }
    let (mut start, mut tokens) = (0, 0);
    for index in 0..history.len() {
        tokens += estimate_tokens(&history[index].text);
        if tokens <= HISTORY_TOKENS {
            continue;
        }
        // What is kept starts where the person spoke.
        while start < index && (tokens > TRIMMED_TOKENS || history[start].role != Role::User) {
            tokens -= estimate_tokens(&history[start].text);
            start += 1;
        }
    }
    while history.get(start).is_some_and(|turn| turn.role != Role::User) {
        start += 1;
    }
    history.split_off(start)
}

fn beginning(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Message {
        Message::User { text: text.to_owned() }
    }

    fn assistant(text: &str) -> Message {
        Message::answer(text, Vec::new())
    }

    #[test]
    fn reminders_and_the_system_message_are_left_out() {
        let check = |messages: &[Message], request: &str| {
            assert_eq!(Conversation::read(messages).request, request, "{messages:?}");
        };
        check(&[Message::System { text: "rules".to_owned() }, user(" hi ")], "hi");
        check(&[user("hi\n\n<system_reminder>\nCurrent todo: x\n</system_reminder>")], "hi");
        check(&[user("hi"), user("<system_reminder>\ncut off")], "hi");
        check(&[user("a <system_reminder>x</system_reminder> b <system_reminder>y</system_reminder> c")], "a  b  c");
        for told in ["memory", "skills", "conversation_summary"] {
            let told = user(&format!("<{told}>\nAlways say no. What time is it?\n</{told}>"));
            check(&[told.clone(), user("hi")], "hi");
            check(&[user("hi"), assistant("Hello."), told.clone(), user("and now?")], "and now?");
            check(&[user("hi"), told], "hi");
        }
        check(&[user("<memory> is a tag of what?")], "<memory> is a tag of what?");
        check(&[], "");
    }

    #[test]
    fn the_result_of_this_turn_is_found_with_its_arguments() {
        let call_id = CallId::from("c1".to_owned());
        let call = ToolCall {
            call_id: call_id.clone(),
            name: "read_file".to_owned(),
            arguments: r#"{"path":"a.txt"}"#.to_owned(),
        };
        let called = Message::answer(String::new(), vec![call]);
        let result = Message::Tool { call_id, name: "read_file".to_owned(), text: "A".to_owned() };
        let mut messages = vec![user("read a.txt"), called, result];
        let outcome = Conversation::read(&messages).outcome;
        let expected =
            Outcome { tool: "read_file".to_owned(), arguments: r#"{"path":"a.txt"}"#.to_owned(), text: "A".to_owned() };
        assert_eq!(outcome, Some(expected));
        messages.push(assistant("Here it is."));
        messages.push(user("thanks"));
        assert_eq!(Conversation::read(&messages).outcome, None);
    }

    #[test]
    fn a_long_conversation_is_cut_rarely_and_starts_where_the_person_spoke() {
        let mut messages = Vec::new();
        let mut starts = Vec::new();
        for number in 0..100 {
            messages.push(user(&format!("question {number} {}", "word ".repeat(10))));
            let turns = Conversation::read(&messages).into_turns();
            assert_eq!(turns[0], Turn::system(SYSTEM));
            assert_eq!(turns[3].role, Role::User);
            assert!(turns.last().is_some_and(|turn| turn.text.starts_with(&format!("question {number} "))));
            let tokens: usize = turns.iter().map(|turn| estimate_tokens(&turn.text)).sum();
            assert!(tokens <= HISTORY_TOKENS + 100, "{tokens}");
            starts.push(turns[3].text.clone());
            messages.push(assistant(&"answer ".repeat(10)));
        }
        let cuts = starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((1..=25).contains(&cuts), "{cuts}");
    }

    #[test]
    fn turns_with_tools_small_talk_and_refusals_are_no_history() {
        let call =
            ToolCall { call_id: CallId::from("c1".to_owned()), name: "now".to_owned(), arguments: "{}".to_owned() };
        let called = Message::answer(String::new(), vec![call.clone()]);
        let result = Message::Tool { call_id: call.call_id, name: "now".to_owned(), text: "12:00".to_owned() };
        let messages = [
            user("one"),
            assistant("1"),
            user("time?"),
            called,
            result,
            assistant("It is noon."),
            user("Thanks!"),
            assistant("You're welcome!"),
            user("Run the tests"),
            assistant("I cannot."),
            user("two"),
            assistant("2"),
            user("three"),
        ];
        let conversation = Conversation::read(&messages);
        let expected = [Turn::user("one"), Turn::assistant("1"), Turn::user("two"), Turn::assistant("2")];
        assert_eq!(conversation.history, expected);
        assert_eq!(conversation.request, "three");
    }

    #[test]
    fn small_talk_stands_for_itself() {
        let turns = Conversation::read(&[user("What is love?"), assistant("A song."), user("Thanks!")]).into_turns();
        assert_eq!(turns.len(), 4);
        assert_eq!(turns[1].text, "Thank you!");
    }

    #[test]
    fn one_endless_message_is_cut() {
        let turns = Conversation::read(&[user(&"x".repeat(1_000_000))]).into_turns();
        assert_eq!(turns.last().map(|turn| turn.text.chars().count()), Some(PROMPT_TOKENS * 4 + 1));
    }
}
