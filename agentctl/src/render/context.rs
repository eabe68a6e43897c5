//! Lines about the level of the window, compactions, notices, reasoning and the todo list.

use agentd_core::{
    context::{CompactionCause, CompactionReport, CompactionStrategy, TokenLevel},
    item::{NoticeSource, NoticeTopic},
    session::{Todo, TodoStatus},
};

use crate::{
    report::bytes,
    terminal::{
        look::TerminalStyle,
        paint::{QUIET, STRONG, clip, paint, width},
        sanitize::clean_line,
    },
};

/// Returns the line about a new level; `None` if there is enough room.
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

/// Returns the line about a compaction, with its reason and its effect.
pub(crate) fn compaction_line(report: &CompactionReport) -> String {
    let CompactionReport { messages_before, messages_after, tokens_before, tokens_after, percent_before, .. } = report;
    let reason = match report.cause {
        CompactionCause::Critical if *percent_before > 0 => format!("the window was {percent_before} % full"),
        CompactionCause::Critical => "the window was nearly full".to_owned(),
        CompactionCause::Overflow => "the request did not fit into the window".to_owned(),
        CompactionCause::Limit => "it had more messages than turns.max_message_history allows".to_owned(),
        CompactionCause::Model => "the model asked for it".to_owned(),
        CompactionCause::Person => "you asked for it".to_owned(),
    };
    let what = match report.strategy {
        CompactionStrategy::Offload => format!("{} old tool results moved to files: {reason}", report.offloaded),
        _ => format!("history summarized: {reason}; {messages_before} to {messages_after} messages"),
    };
    let mut line = format!("{what}, about {} to {} tokens", short(*tokens_before), short(*tokens_after));
    if let Some(problem) = &report.problem {
        line.push_str(&format!(" ({})", clean_line(problem)));
    }
    line
}

/// Returns the line about a notice. Files that the model reads are only named.
pub(crate) fn notice_line(text: &str, topic: NoticeTopic, sources: &[NoticeSource]) -> String {
    let (what, name): (_, fn(&NoticeSource) -> String) = match topic {
        NoticeTopic::General => return text.to_owned(),
        NoticeTopic::Memory | NoticeTopic::FolderMemory if sources.is_empty() && text.contains("/memories") => {
            return "memory: names in /memories".to_owned();
        }
        NoticeTopic::Memory | NoticeTopic::FolderMemory => ("memory", memory_name),
        // The folder of a skill's file has its name.
        NoticeTopic::Skills => ("skills", |source| source.name.rsplit('/').nth(1).unwrap_or(&source.name).to_owned()),
        NoticeTopic::Files => ("attached", |source| source.name.clone()),
        NoticeTopic::ReadAgain => ("read again", |source| source.name.clone()),
        NoticeTopic::Recall => ("recalled", |source| source.name.clone()),
        NoticeTopic::CodeMap => return "map of the code".to_owned(),
        _ => return format!("reminder: {text}"),
    };
    let names: Vec<String> = sources.iter().map(name).collect();
    format!("{what}: {}", if names.is_empty() { "none any more".to_owned() } else { names.join(", ") })
}

/// Returns the name of a memory file, with the size of the part that the model sees if the file was cut.
fn memory_name(source: &NoticeSource) -> String {
    match source.bytes {
        _ if !source.is_cut() => source.name.clone(),
        0 => format!("{} (left out)", source.name),
        part => format!("{} ({} of {})", source.name, bytes(part), bytes(source.of_bytes)),
    }
}

/// Returns a reasoning in one line of at most `columns`: its first line, and if it was shortened, the number of lines
/// and the hint `shows`. `None` for an empty reasoning.
pub(crate) fn thought_line(text: &str, columns: usize, shows: &str) -> Option<String> {
    let mut lines = text.lines().map(clean_line).filter(|line| !line.is_empty());
    let first = format!("∴ {}", lines.next()?);
    let more = match lines.count() {
        0 if width(&first) <= columns => return Some(first),
        0 => shows.to_owned(),
        more => format!(" · {} lines{shows}", more + 1),
    };
    Some(format!("{}{more}", clip(&first, columns.saturating_sub(width(&more)))))
}

/// Returns a part of a whole in percent.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Abbreviates a number, such as 950, 1.2k, 15k or 1.3M.
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

/// Returns the progress of the todo list, and its current entry.
fn todo_line(todos: &[Todo]) -> String {
    let next = todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
    let next = next.or_else(|| todos.iter().find(|todo| todo.status == TodoStatus::Pending));
    let next = next.map(|todo| format!(" · {}", clean_line(&todo.content))).unwrap_or_default();
    format!("☐ {}{next}", todo_count(todos))
}

/// Returns the progress of the todo list, and on a terminal all its entries.
pub(crate) fn todo_rows(todos: &[Todo], look: TerminalStyle) -> Vec<String> {
    let columns = look.columns().saturating_sub(1);
    let first = paint(look.err_color, QUIET, &clip(&todo_line(todos), columns));
    if !look.err_terminal || todos.is_empty() {
        return vec![first];
    }
    let row = |todo: &Todo| {
        let style = if todo.status == TodoStatus::InProgress { STRONG } else { QUIET };
        paint(look.err_color, style, &clip(&format!("  {}", todo_row(todo)), columns))
    };
    std::iter::once(first).chain(todos.iter().map(row)).collect()
}

/// Returns an entry of the todo list with the mark of its status.
pub(crate) fn todo_row(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Completed => '✓',
        TodoStatus::InProgress => '▸',
        TodoStatus::Pending => '☐',
    };
    format!("{mark} {}", clean_line(&todo.content))
}

/// Returns the number of completed entries and of all entries.
pub(crate) fn todo_count(todos: &[Todo]) -> String {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    format!("{done} of {} done", todos.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_notice_states_its_cause() {
        let report = CompactionReport {
            messages_before: 41,
            messages_after: 12,
            tokens_before: 28_200,
            tokens_after: 1_200,
            percent_before: 86,
            ..CompactionReport::default()
        };
        let check = |report: &CompactionReport, line: &str| assert_eq!(compaction_line(report), line);
        check(&report, "history summarized: the window was 86 % full; 41 to 12 messages, about 28k to 1.2k tokens");
        let limit = CompactionReport {
            cause: CompactionCause::Limit,
            problem: Some("no file\u{1b}[2J".to_owned()),
            ..report.clone()
        };
        check(
            &limit,
            "history summarized: it had more messages than turns.max_message_history allows; 41 to 12 messages, about \
             28k to 1.2k tokens (no file)",
        );
        let older = CompactionReport { percent_before: 0, ..report };
        assert!(compaction_line(&older).starts_with("history summarized: the window was nearly full; 41"));
    }

    #[test]
    fn reasoning_shows_its_first_line_and_line_count() {
        let check = |text: &str, line: Option<&str>| assert_eq!(thought_line(text, 30, " · /show").as_deref(), line);
        check(" \n\n", None);
        check("One thought.\n", Some("∴ One thought."));
        check("First\u{1b}[2J one.\n\nThen that.\nAnd so on.", Some("∴ First one. · 3 lines · /show"));
        check("First this and then that and so on", Some("∴ First this and then… · /show"));
        check("First this and then that and\nso on", Some("∴ First thi… · 2 lines · /show"));
        assert_eq!(thought_line("One.\nTwo.", 30, "").as_deref(), Some("∴ One. · 2 lines"));
    }

    #[test]
    fn numbers_are_abbreviated() {
        let check = |number, text: &str| assert_eq!(short(number), text);
        check(0, "0");
        check(999, "999");
        check(1000, "1.0k");
        check(1234, "1.3k");
        check(15_200, "15k");
        check(1_300_000, "1.3M");
    }
}
