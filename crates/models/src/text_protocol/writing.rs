//! The conversation with tools, calls and results as plain words.

use agentd_core::{
    model::Message,
    tool::{ToolCall, ToolSpec},
};
use serde_json::{Value, json};

/// How a result begins. Models that go on by inventing a result are stopped there.
const RESULT: &str = "Tool result of ";

/// What ends an answer in which the model begins to invent a result.
pub(crate) const STOP: &str = "\nTool result of ";

/// Writes the conversation. Roles alternate, and the first message is the system message, if there is one.
pub(crate) fn conversation(messages: &[Message], tools: &[ToolSpec]) -> Vec<Message> {
    let mut plain: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        match message {
            Message::System { text } if plain.is_empty() => plain.push(Message::System { text: text.clone() }),
            Message::System { text } | Message::User { text } => add_user(&mut plain, text),
            Message::Pictures { .. } => plain.push(message.clone()),
            Message::Tool { name, text, .. } => add_user(&mut plain, &format!("{RESULT}{name}:\n{text}")),
            Message::Assistant { text, tool_calls, .. } => add_assistant(&mut plain, &with_calls(text, tool_calls)),
        }
    }
    if !tools.is_empty() {
        let instructions = instructions(tools);
        match plain.first_mut() {
            Some(Message::System { text }) => *text = format!("{text}\n\n{instructions}"),
            _ => plain.insert(0, Message::System { text: instructions }),
        }
    }
    plain
}

fn instructions(tools: &[ToolSpec]) -> String {
    let mut text = String::from(
        "# Tools\n\
         You can use the tools below. To use one, answer with one JSON object and nothing else:\n\
         {\"tool\": \"NAME\", \"args\": {ARGUMENTS}}\n\
         Use one tool at a time and write nothing after the object: the next message brings you the result. \
         Never write a result yourself. When you need no tool, answer in plain words, without such an object.\n",
    );
    for tool in tools {
        text.push_str(&format!("\n## {}\n{}\nArguments: {}\n", tool.name, tool.description, tool.parameters));
    }
    text
}

fn with_calls(text: &str, calls: &[ToolCall]) -> String {
    let mut plain = text.to_owned();
    for call in calls {
        if !plain.is_empty() {
            plain.push('\n');
        }
        // Arguments that are JSON keep their bytes, so that the prefix of the conversation stays as it was.
        let name = Value::from(call.name.as_str());
        let whole = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
        let quoted = json!(call.arguments).to_string();
        let arguments = if whole { call.arguments.trim() } else { &quoted };
        plain.push_str(&format!("{{\"tool\": {name}, \"args\": {arguments}}}"));
    }
    plain
}

fn add_user(plain: &mut Vec<Message>, words: &str) {
    match plain.last_mut() {
        Some(Message::User { text }) => join(text, words),
        _ => plain.push(Message::User { text: words.to_owned() }),
    }
}

fn add_assistant(plain: &mut Vec<Message>, words: &str) {
    if words.is_empty() {
        return;
    }
    match plain.last_mut() {
        Some(Message::Assistant { text, .. }) => join(text, words),
        _ => plain.push(Message::Assistant { text: words.to_owned(), reasoning: None, tool_calls: Vec::new() }),
    }
}

fn join(text: &mut String, words: &str) {
    if !text.is_empty() && !words.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(words);
}

#[cfg(test)]
mod tests {
    use agentd_core::{ids::CallId, tool::Effect};

    use super::*;

    #[test]
    fn tools_calls_and_results_become_words() {
        let call = |name: &str, arguments: &str| ToolCall {
            call_id: CallId::from(name.to_owned()),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let result = |name: &str, text: &str| Message::Tool {
            call_id: CallId::from(name.to_owned()),
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let messages = [
            Message::System { text: "Be kind.".to_owned() },
            Message::User { text: "Look.".to_owned() },
            Message::Assistant {
                text: "Yes.".to_owned(),
                reasoning: Some("hm".to_owned()),
                tool_calls: vec![call("a", "{ \"p\":1}"), call("b", "{")],
            },
            result("a", "one"),
            result("b", "two"),
        ];
        let tools = [ToolSpec {
            name: "a".to_owned(),
            description: "Does a.".to_owned(),
            parameters: json!({"type": "object"}),
            effect: Effect::Read,
        }];
        let plain = conversation(&messages, &tools);
        let Message::System { text } = &plain[0] else { panic!("{plain:?}") };
        assert!(text.starts_with("Be kind.\n\n# Tools\n") && text.contains("## a\nDoes a.\nArguments: {\"type\""));
        assert_eq!(plain[1], messages[1]);
        let Message::Assistant { text, reasoning: None, tool_calls } = &plain[2] else { panic!("{plain:?}") };
        assert_eq!(text, "Yes.\n{\"tool\": \"a\", \"args\": { \"p\":1}}\n{\"tool\": \"b\", \"args\": \"{\"}");
        assert!(tool_calls.is_empty());
        let Message::User { text } = &plain[3] else { panic!("{plain:?}") };
        assert_eq!(text, "Tool result of a:\none\n\nTool result of b:\ntwo");
        assert_eq!(plain.len(), 4);
    }
}
