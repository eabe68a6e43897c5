//! A part of the history as Markdown: for the file that keeps what was replaced, and for the model that sums it up.
//! Pure.

use std::{fmt::Write as _, sync::Arc};

use agentd_core::{
    Timestamp,
    item::{Item, ItemBody, NoticeTopic},
};

/// The items as Markdown, whole.
pub(crate) fn whole(items: &[Arc<Item>]) -> String {
    write(items, usize::MAX)
}

/// The items as Markdown in about so many bytes: long results lose their middle first, then the oldest items go.
pub(crate) fn within(items: &[Arc<Item>], bytes: usize) -> String {
    for most in [8000, 2000, 500, 150] {
        let text = write(items, most);
        if text.len() <= bytes {
            return text;
        }
    }
    let text = write(items, 150);
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("[the beginning is left out]\n{}", &text[from..])
}

fn write(items: &[Arc<Item>], most: usize) -> String {
    let mut text = String::new();
    for item in items {
        let Some((head, body, fenced)) = parts(item) else { continue };
        let time = born(item).map(|at| format!(" · {}", at.strftime("%Y-%m-%d %H:%M:%S"))).unwrap_or_default();
        let body = shortened(body.trim_end(), most);
        let _ = if fenced {
            let fence = "`".repeat(longest_run(&body).max(2) + 1);
            writeln!(text, "### {head}{time}\n\n{fence}\n{body}\n{fence}\n")
        } else {
            writeln!(text, "### {head}{time}\n\n{body}\n")
        };
    }
    text
}

/// Who or what it is, the words, and whether they are no prose.
fn parts(item: &Item) -> Option<(String, &str, bool)> {
    Some(match &item.body {
        ItemBody::UserMessage { text, .. } => ("Person".to_owned(), text, false),
        ItemBody::AgentMessage { text } => ("Assistant".to_owned(), text, false),
        ItemBody::ToolCall(call) => (format!("Call of {}", call.name), &call.arguments, true),
        ItemBody::ToolResult(result) => {
            let error = result.error.map(|code| format!(", {}", code.as_str())).unwrap_or_default();
            (format!("Result of {}{error}", result.name), &result.text, true)
        }
        ItemBody::Compaction(compaction) if compaction.summary.is_empty() => return None,
        ItemBody::Compaction(compaction) => ("Summary of what came before".to_owned(), &compaction.summary, false),
        ItemBody::Notice { text, topic: NoticeTopic::General, .. } => ("Notice".to_owned(), text, false),
        // What files say is told anew, from the files.
        ItemBody::Notice { .. } | ItemBody::Reasoning { .. } => return None,
    })
}

/// When an item began: its id is a UUID of the kind that begins with the time.
fn born(item: &Item) -> Option<Timestamp> {
    let (seconds, nanoseconds) = item.id.as_uuid().get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
}

/// The text without its middle, where it is longer than so many bytes.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut head = most / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - most / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::samples::{call, result, says, user};

    #[test]
    fn everything_that_was_said_and_done_is_there() {
        let items = [user("Look!"), call("1", "grep"), result("1", "grep", "a ```` b"), says("Found.")];
        let text = whole(&items);
        for part in
            ["### Person", "Look!", "### Call of grep", "### Result of grep", "`````\na ```` b\n`````", "Found."]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_no_longer_than_asked_for(texts in proptest::collection::vec(".{0,400}", 0..30), bytes in 200usize..3000) {
            let items: Vec<_> = texts.iter().map(|text| user(text)).collect();
            prop_assert!(within(&items, bytes).len() <= bytes + 40);
        }
    }
}
