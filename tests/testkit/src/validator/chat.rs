//! OpenAI's rules for a conversation, and the rules of chat templates in compatible servers.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Checked, MAX_ID, MAX_NAME, broken, check_name, check_not_blank, parts, refuse_if, tools, unknown_field};

/// Allowed fields of a message, by role.
const FIELDS: [(&str, &[&str]); 4] = [
    ("system", &["content"]),
    ("user", &["content", "name"]),
    ("assistant", &["content", "tool_calls", "reasoning_content", "refusal"]),
    ("tool", &["content", "tool_call_id"]),
];

pub(super) fn check(body: &Value) -> Checked {
    check_not_blank("model", &body["model"])?;
    check_settings(body)?;
    if !body["tools"].is_null() {
        tools::check(&body["tools"])?;
        tools::check_choice(&body["tool_choice"])?;
    } else if !body["tool_choice"].is_null() {
        return broken("tool_choice", "it requires tools");
    }
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => Conversation::default().check(messages),
        _ => broken("messages", "it must be an array with at least one message"),
    }
}

fn check_settings(body: &Value) -> Checked {
    let absent_or = |key: &str, fine: &dyn Fn(&Value) -> bool, rule: &str| match &body[key] {
        Value::Null => Ok(()),
        value if fine(value) => Ok(()),
        value => broken(key, format!("{value} is not {rule}")),
    };
    let positive = |value: &Value| value.as_u64().is_some_and(|tokens| tokens > 0);
    absent_or("max_tokens", &positive, "a positive number")?;
    absent_or("max_completion_tokens", &positive, "a positive number")?;
    let warm = |value: &Value| value.as_f64().is_some_and(|degrees| (0.0..=2.0).contains(&degrees));
    absent_or("temperature", &warm, "between 0 and 2")?;
    let stops = |value: &Value| value.as_array().is_some_and(|stops| (1..=4).contains(&stops.len()));
    absent_or("stop", &stops, "an array of 1 to 4 texts")?;
    if !body["stream_options"].is_null() && body["stream"] != Value::Bool(true) {
        return broken("stream_options", "it requires `stream` to be true");
    }
    Ok(())
}

/// State after the messages that have been checked so far.
#[derive(Default)]
struct Conversation<'a> {
    last_role: &'a str,
    /// IDs of all calls checked so far.
    ids: HashSet<&'a str>,
    /// Calls without a result, and the index of their message.
    waiting: Vec<&'a str>,
    called_at: usize,
}

impl<'a> Conversation<'a> {
    fn check(mut self, messages: &'a [Value]) -> Checked {
        for (at, message) in messages.iter().enumerate() {
            self.add(at, message)?;
        }
        self.check_answered()?;
        if !messages.iter().any(|message| message["role"] == "user") {
            return broken("messages", "no user message");
        }
        if self.last_role == "assistant" {
            let last = messages.len() - 1;
            return broken(format!("messages[{last}].role"), "the last message must be a user or tool message");
        }
        Ok(())
    }

    fn add(&mut self, at: usize, message: &'a Value) -> Checked {
        let location = |field: &str| format!("messages[{at}].{field}");
        let role = message["role"].as_str().unwrap_or_default();
        let Some((_, fields)) = FIELDS.iter().find(|(name, _)| *name == role) else {
            return broken(location("role"), format!("{} is not a known role", message["role"]));
        };
        if let Some(field) = unknown_field(message, &[&["role"], *fields].concat()) {
            return broken(location(field), format!("unknown field in a {role} message"));
        }
        refuse_if(at == 0 && role != "system", location("role"), "the first message must be a system message")?;
        if role != "tool" {
            self.check_answered()?;
            self.check_turn(&location("role"), role)?;
        }
        match role {
            "assistant" => self.add_answer(at, message)?,
            "tool" => self.add_result(at, message)?,
            "user" => parts::check(&location("content"), &message["content"])?,
            _ => check_not_blank(&location("content"), &message["content"])?,
        }
        self.last_role = role;
        Ok(())
    }

    /// Checks that user and assistant messages alternate, as chat templates require.
    fn check_turn(&self, location: &str, role: &str) -> Checked {
        match (self.last_role, role) {
            ("", _) => Ok(()),
            (_, "system") => broken(location, "only the first message may be a system message"),
            ("system", "assistant") => broken(location, "the message after the system message must be a user message"),
            (last, role) if last == role => broken(location, format!("two consecutive {role} messages")),
            _ => Ok(()),
        }
    }

    fn check_answered(&self) -> Checked {
        match self.waiting.first() {
            Some(id) => {
                let location = format!("messages[{}].tool_calls", self.called_at);
                broken(location, format!("no result for call {id:?} before the next message"))
            }
            None => Ok(()),
        }
    }

    fn add_answer(&mut self, at: usize, message: &'a Value) -> Checked {
        let location = format!("messages[{at}]");
        if !message["reasoning_content"].is_null() && !message["reasoning_content"].is_string() {
            return broken(format!("{location}.reasoning_content"), "it must be a string");
        }
        let calls = match &message["tool_calls"] {
            Value::Null => return check_not_blank(&format!("{location}.content"), &message["content"]),
            Value::Array(calls) if !calls.is_empty() => calls,
            _ => return broken(format!("{location}.tool_calls"), "it must be an array with at least one call"),
        };
        if !message["content"].is_null() {
            check_not_blank(&format!("{location}.content"), &message["content"])?;
        }
        for (number, call) in calls.iter().enumerate() {
            let location = format!("{location}.tool_calls[{number}]");
            check_call(&location, call)?;
            let id = call["id"].as_str().unwrap_or_default();
            refuse_if(!self.ids.insert(id), format!("{location}.id"), format!("{id:?} is a duplicate"))?;
            self.waiting.push(id);
        }
        self.called_at = at;
        Ok(())
    }

    fn add_result(&mut self, at: usize, message: &'a Value) -> Checked {
        check_not_blank(&format!("messages[{at}].content"), &message["content"])?;
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        match self.waiting.iter().position(|waiting| *waiting == id) {
            Some(found) => {
                self.waiting.remove(found);
                Ok(())
            }
            None => broken(
                format!("messages[{at}].tool_call_id"),
                format!("{id:?} is not the ID of a call without a result"),
            ),
        }
    }
}

fn check_call(location: &str, call: &Value) -> Checked {
    if let Some(field) = unknown_field(call, &["id", "type", "function"]) {
        return broken(format!("{location}.{field}"), "unknown field in a call");
    }
    check_name(&format!("{location}.id"), &call["id"], MAX_ID)?;
    refuse_if(call["type"] != "function", format!("{location}.type"), "it must be \"function\"")?;
    check_name(&format!("{location}.function.name"), &call["function"]["name"], MAX_NAME)?;
    let location = format!("{location}.function.arguments");
    let Some(arguments) = call["function"]["arguments"].as_str() else {
        return broken(location, "it must be a string that contains JSON");
    };
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => Ok(()),
        Err(error) => broken(location, format!("not a JSON object that all parsers accept: {error}")),
    }
}
