//! How full the window is, what was done to make room, and how far the todo list is, in a line each.

use agentd_core::{
    context::{CompactionReport, TokenLevel},
    item::{NoticeSource, NoticeTopic},
    session::{Todo, TodoStatus},
};

use crate::terminal::{
    look::TerminalStyle,
    paint::{QUIET, STRONG, clip, paint},
    sanitize::clean_line,
};

/// Line about a new level; nothing where there is room.
pub(crate) fn level_line(level: TokenLevel, tokens: u64, window: u64) -> Option<String> {
    let percent = percent(tokens, window);
    match level {
        TokenLevel::Info => None,
        TokenLevel::Warning => Some(format!("the context window is {percent} % full")),
        TokenLevel::Critical => {
            Some(format!("the context window is {percent} % full: the history is compacted before the next call"))
        }
    }
}

/// Line about a compaction.
pub(crate) fn compaction_line(report: &CompactionReport) -> String {
    let CompactionReport { messages_before, messages_after, tokens_before, tokens_after, .. } = report;
    let mut line = format!(
        "the history was compacted: {messages_before} to {messages_after} messages, about {} to {} tokens",
        short(*tokens_before),
        short(*tokens_after)
    );
    if let Some(problem) = &report.problem {
        line.push_str(&format!(" ({})", clean_line(problem)));
    }
    line
}

/// Line about a notice; of files that the model reads, only their names.
pub(crate) fn notice_line(text: &str, topic: NoticeTopic, sources: &[NoticeSource]) -> String {
    let (what, names) = match topic {
        NoticeTopic::General => return text.to_owned(),
        NoticeTopic::Memory => ("memory", sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>()),
        NoticeTopic::Skills => ("skills", sources.iter().map(|source| skill_name(&source.name)).collect()),
        NoticeTopic::Files => ("attached", sources.iter().map(|source| source.name.as_str()).collect()),
    };
    match names.as_slice() {
        [] if topic == NoticeTopic::Memory && text.contains("/memories") => format!("{what}: names in /memories"),
        [] => format!("{what}: none any more"),
        names => format!("{what}: {}", names.join(", ")),
    }
}

/// The folder of a skill's file.
fn skill_name(path: &str) -> &str {
    path.rsplit('/').nth(1).unwrap_or(path)
}

/// A part of a whole, in percent.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// A number as people say it: 950, 1.2k, 15k, 1.3M.
pub(crate) fn short(number: u64) -> String {
    let in_tenths = |unit: u64, sign: &str| match (number * 10).div_ceil(unit) {
        tenths if tenths < 100 => format!("{}.{}{sign}", tenths / 10, tenths % 10),
        tenths => format!("{}{sign}", tenths / 10),
    };
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => in_tenths(1000, "k"),
        _ => in_tenths(1_000_000, "M"),
    }
}

/// Progress of the todo list, and its current entry.
fn todo_line(todos: &[Todo]) -> String {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let next = todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
    let next = next.or_else(|| todos.iter().find(|todo| todo.status == TodoStatus::Pending));
    let next = next.map(|todo| format!(" · {}", clean_line(&todo.content))).unwrap_or_default();
    format!("☐ {done} of {} done{next}", todos.len())
}

/// The todo list: its progress, and for a person who watches its entries.
pub(crate) fn todo_rows(todos: &[Todo], look: TerminalStyle) -> Vec<String> {
    let columns = look.columns().saturating_sub(1);
    let first = paint(look.err_color, QUIET, &clip(&todo_line(todos), columns));
    if !look.err_terminal || todos.is_empty() {
        return vec![first];
    }
    let row = |todo: &Todo| {
        let (mark, style) = match todo.status {
            TodoStatus::Completed => ('✓', QUIET),
            TodoStatus::InProgress => ('▸', STRONG),
            TodoStatus::Pending => ('☐', QUIET),
        };
        paint(look.err_color, style, &clip(&format!("  {mark} {}", clean_line(&todo.content)), columns))
    };
    std::iter::once(first).chain(todos.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |number, text: &str| assert_eq!(short(number), text);
        check(0, "0");
        check(999, "999");
        check(1000, "1.0k");
        check(1234, "1.3k");
        check(15_200, "15k");
        check(1_300_000, "1.3M");
    }
}
