//! From items to messages.

use std::sync::Arc;

use agentd_core::{
    item::{Item, ItemBody},
    model::Message,
    tool::{ToolCall, ToolResult},
};

/// The last items that make at most `limit` messages, starting where a person spoke. The running turn is always
/// whole: its calls and results belong together.
pub(crate) fn window(items: &[Arc<Item>], limit: usize) -> &[Arc<Item>] {
    let mut start = items.len();
    let mut messages = 0;
    for (index, item) in items.iter().enumerate().rev() {
        messages += usize::from(counts(item));
        let speaks = matches!(item.body, ItemBody::UserMessage { steered: false, .. } | ItemBody::Compaction { .. });
        if messages > limit && start < items.len() {
            break;
        }
        if speaks {
            start = index;
        }
    }
    // A history in which nobody spoke has no place to start at; it is kept whole.
    if start == items.len() { items } else { &items[start..] }
}

fn counts(item: &Item) -> bool {
    !matches!(item.body, ItemBody::Reasoning { .. })
}

/// The messages that the items make. Words, thoughts and calls of one answer are one message.
pub(crate) fn messages(items: &[Arc<Item>]) -> Vec<Message> {
    let mut messages = Vec::with_capacity(items.len());
    let mut answer = Answer::default();
    for item in items {
        match &item.body {
            ItemBody::Reasoning { text } => answer.think(&mut messages, text),
            ItemBody::AgentMessage { text } => answer.speak(&mut messages, text),
            ItemBody::ToolCall(call) => answer.calls.push(call.clone()),
            ItemBody::ToolResult(result) => {
                answer.finish(&mut messages);
                messages.push(tool_message(result));
            }
            ItemBody::UserMessage { text, .. } => {
                answer.finish(&mut messages);
                messages.push(Message::User { text: text.clone() });
            }
            ItemBody::Compaction { summary: text } | ItemBody::Notice { text } => {
                answer.finish(&mut messages);
                messages.push(Message::User { text: format!("<system_reminder>\n{text}\n</system_reminder>") });
            }
        }
    }
    answer.finish(&mut messages);
    messages
}

fn tool_message(result: &ToolResult) -> Message {
    let text = match result.error {
        Some(code) => format!("{}: {}", code.as_str(), result.text),
        None => result.text.clone(),
    };
    Message::Tool { call_id: result.call_id.clone(), name: result.name.clone(), text }
}

/// One answer of the model, as far as it was read.
#[derive(Default)]
struct Answer {
    reasoning: Option<String>,
    text: String,
    calls: Vec<ToolCall>,
}

impl Answer {
    fn think(&mut self, messages: &mut Vec<Message>, text: &str) {
        if !self.calls.is_empty() {
            self.finish(messages);
        }
        self.reasoning.get_or_insert_default().push_str(text);
    }

    fn speak(&mut self, messages: &mut Vec<Message>, text: &str) {
        // Words after calls, or after words, without a result between: another answer.
        if !self.calls.is_empty() || !self.text.is_empty() {
            self.finish(messages);
        }
        self.text.push_str(text);
    }

    fn finish(&mut self, messages: &mut Vec<Message>) {
        let Self { reasoning, text, calls: tool_calls } = std::mem::take(self);
        if reasoning.is_some() || !text.is_empty() || !tool_calls.is_empty() {
            messages.push(Message::Assistant { text, reasoning, tool_calls });
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::{CallId, ItemId, TurnId};
    use proptest::prelude::*;

    use super::*;

    fn item(body: ItemBody) -> Arc<Item> {
        Arc::new(Item { id: ItemId::generate(), turn_id: TurnId::generate(), body })
    }

    fn user(text: &str) -> Arc<Item> {
        item(ItemBody::UserMessage { text: text.to_owned(), steered: false })
    }

    fn says(text: &str) -> Arc<Item> {
        item(ItemBody::AgentMessage { text: text.to_owned() })
    }

    fn call_and_result(n: u32) -> [Arc<Item>; 2] {
        let call =
            ToolCall { call_id: CallId::from(format!("c{n}")), name: "now".to_owned(), arguments: "{}".to_owned() };
        let result = ToolResult {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            text: "12:00".to_owned(),
            error: None,
            files: Vec::new(),
            duration_ms: 1,
        };
        [item(ItemBody::ToolCall(call)), item(ItemBody::ToolResult(result))]
    }

    #[test]
    fn words_thoughts_and_calls_of_one_answer_are_one_message() {
        let mut items = vec![user("time?"), item(ItemBody::Reasoning { text: "hm".to_owned() }), says("I look.")];
        items.extend(call_and_result(1));
        items.push(says("Noon."));
        let messages = messages(&items);
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert!(matches!(&messages[1], Message::Assistant { text, reasoning: Some(r), tool_calls }
            if text == "I look." && r == "hm" && tool_calls.len() == 1));
        assert!(matches!(&messages[3], Message::Assistant { text, .. } if text == "Noon."));
    }

    #[test]
    fn the_window_starts_where_a_person_spoke() {
        let items = [user("a"), says("1"), user("b"), says("2"), user("c"), says("3")];
        assert_eq!(window(&items, 4).len(), 4);
        assert_eq!(window(&items, 5).len(), 4);
        assert_eq!(window(&items, 100).len(), 6);
    }

    #[test]
    fn the_running_turn_is_whole_even_beyond_the_limit() {
        let mut items = vec![user("old"), says("x"), user("work")];
        for n in 0..50 {
            items.extend(call_and_result(n));
        }
        assert_eq!(window(&items, 10).len(), 101);
    }

    proptest! {
        #[test]
        fn the_window_is_a_suffix_within_its_limit(turns in proptest::collection::vec(0u32..4, 1..30), limit in 10usize..100) {
            let mut items = Vec::new();
            let mut last_turn = 0;
            for (turn, calls) in turns.iter().enumerate() {
                last_turn = items.len();
                items.push(user(&turn.to_string()));
                for n in 0..*calls {
                    items.extend(call_and_result(n));
                }
                items.push(says("done"));
            }
            let window = window(&items, limit);
            let start = items.len() - window.len();
            prop_assert!(window.len() <= limit || start == last_turn);
            let starts_with_a_person = matches!(window[0].body, ItemBody::UserMessage { .. });
            prop_assert!(starts_with_a_person);
        }
    }
}
