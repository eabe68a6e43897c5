//! Inputs that do not fit into the window. Such an input is stored in a session file, and the model is shown its
//! beginning, size and path. Users are shown how much of their input the model sees, so that they need not guess from
//! an answer.
//!
//! Only [`spill`] writes files.

use agentd_context::{
    ToolSet,
    text::{self, Excerpt, ResultLimits, at_once, grouped, lines_at_once, offset_after, run_blocking_if_long, sizes},
    tokens::estimate,
};
use agentd_core::{
    error::WorkspaceError, event::EventKind, files::StoredInput, ids::SessionId, item::ItemBody, ports::Workspaces,
};

/// Minimum number of tokens for an input, even if the window is full.
const MIN_TOKENS: u64 = 256;
/// Percentage of the window for an input that remains after a compaction, slightly less than the part that a compaction
/// leaves unchanged.
const COMPACTED_PERCENT: u64 = 35;
/// Percentage up to which an input may fill the window. Above this percentage, the model is asked to be brief.
const MAX_FILL_PERCENT: u64 = 75;
/// Maximum tokens of an input for the built-in model, and the shown part of a longer one.
const EMBEDDED_LIMITS: (u64, u64) = (1200, 1000);
/// File name for piped input after typed text, and for any other input.
const FILE_NAMES: (&str, &str) = ("stdin.txt", "input.txt");

/// The input of a turn, or an addition to it, as shown to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserInput {
    pub(crate) text: String,
    /// Length of the typed beginning in bytes; `None` if the whole input was typed.
    pub(crate) typed_bytes: Option<u64>,
    /// File with the full input, if `text` is only its beginning.
    pub(crate) stored: Option<StoredInput>,
}

impl UserInput {
    /// Creates an input that is shown in full.
    pub(crate) fn whole(text: String, typed_bytes: Option<u64>) -> Self {
        Self { text, typed_bytes, stored: None }
    }

    /// Converts the input into an item.
    pub(crate) fn body(self, steered: bool) -> ItemBody {
        let Self { text, typed_bytes, stored } = self;
        ItemBody::UserMessage { text, steered, typed_bytes, stored }
    }

    /// Returns the warning for users if the input is not shown in full.
    pub(crate) fn warning(&self, model: &str, window: u64) -> Option<EventKind> {
        let message = stored_sentence(self.stored.as_ref()?, model, window);
        Some(EventKind::Warning { code: "input_stored".to_owned(), message, retry_in_ms: None })
    }
}

/// Returns the sentence for users about an input that was stored in a file.
fn stored_sentence(stored: &StoredInput, model: &str, window: u64) -> String {
    let StoredInput { path, bytes, lines, shown_bytes, shown_lines } = stored;
    let view = match shown_lines {
        0 => format!("the first {} bytes are in view", grouped(shown_bytes)),
        shown => format!("the first {} of {} lines are in view", grouped(shown), grouped(lines)),
    };
    format!(
        "{} of input do not fit into the window of {model} ({} tokens): stored as {path}; {view}",
        format_size(*bytes),
        grouped(window)
    )
}

/// Formats a size for users.
fn format_size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{} bytes", grouped(bytes)),
        10_000..10_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// Occupied space of a window, in estimated tokens except for `window` and `used`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowUsage {
    /// Size of the window, in tokens as counted by the server.
    pub(crate) window: u64,
    /// Tokens of the next request without the input, as the server would count them.
    pub(crate) used: u64,
    /// Tokens of the request's instructions and tools.
    pub(crate) fixed: u64,
    /// Tokens of the notices before the input.
    pub(crate) notices: u64,
    /// Number of tokens that the server counts for a thousand estimated tokens.
    pub(crate) tokens_per_thousand: u64,
    /// True for the built-in model.
    pub(crate) embedded: bool,
}

/// Space for an input, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputBudget {
    /// Maximum size of an input that is shown in full.
    pub(crate) whole: u64,
    /// Size of the shown part of a longer input.
    pub(crate) shown: u64,
    /// Maximum size of a tool result, which also limits the part of the file that can be read at once.
    pub(crate) read: u64,
}

impl InputBudget {
    /// Computes the available space. The history may be compacted to fit an input, and the input remains after the
    /// compaction.
    pub(crate) fn of(usage: &WindowUsage, large_result: u64) -> Self {
        let WindowUsage { window, used, fixed, notices, tokens_per_thousand, embedded } = *usage;
        let estimated = |tokens: u64| tokens.saturating_mul(1000) / tokens_per_thousand.max(1);
        let free_tokens = estimated((window / 100 * MAX_FILL_PERCENT).saturating_sub(used)).saturating_sub(notices);
        let after_compaction =
            (estimated(window).saturating_sub(fixed) / 100 * COMPACTED_PERCENT).saturating_sub(notices).max(MIN_TOKENS);
        let whole = free_tokens.max(after_compaction);
        let shown = (whole / 2).clamp(MIN_TOKENS, after_compaction);
        let read = ResultLimits::of(large_result, None, window).large;
        if embedded {
            return Self { whole: whole.min(EMBEDDED_LIMITS.0), shown: shown.min(EMBEDDED_LIMITS.1), read };
        }
        Self { whole, shown, read }
    }
}

/// Byte offsets at which an input is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SplitOffsets {
    /// End of the typed text, which is shown in full; 0 if the input is a single text.
    typed: usize,
    /// Start of the part that is stored in the file. The part extends to the end of the text.
    file_start: usize,
    /// End of the shown beginning.
    head: usize,
    /// Start of the shown end; the length of the text if no end is shown.
    tail: usize,
    /// Number of lines that can be read at once.
    at_once: Option<u64>,
}

/// Splits an input that is too long.
fn split_input(text: &str, typed_bytes: Option<u64>, budget: InputBudget) -> SplitOffsets {
    let typed = typed_bytes.and_then(|bytes| text.get(..usize::try_from(bytes).ok()?)).unwrap_or_default();
    let typed_tokens = estimate(typed);
    if !typed.trim().is_empty() && typed.len() < text.len() && typed_tokens <= budget.shown / 2 {
        let rest = &text[typed.len()..];
        let file_start = typed.len() + (rest.len() - rest.trim_start_matches(['\r', '\n']).len());
        let head = file_start + text::head(&text[file_start..], budget.shown - typed_tokens).len();
        let at_once = lines_at_once(&text[file_start..], budget.read);
        return SplitOffsets { typed: typed.len(), file_start, head, tail: text.len(), at_once };
    }
    // The question may be before or after pasted text.
    let Excerpt { head, between, .. } = Excerpt::of(text, budget.shown);
    let at_once = lines_at_once(text, budget.read);
    SplitOffsets { typed: 0, file_start: 0, head: head.len(), tail: head.len() + between.len(), at_once }
}

/// Returns the input as shown to the model: unchanged if it fits, or shortened and stored on disk.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) async fn spill(
    workspaces: &dyn Workspaces,
    session: SessionId,
    tools: &ToolSet,
    input: UserInput,
    budget: InputBudget,
) -> Result<UserInput, WorkspaceError> {
    let UserInput { text, typed_bytes, stored: None } = input else { return Ok(input) };
    // Every token has at least one byte.
    if text.len() as u64 <= budget.whole {
        return Ok(UserInput::whole(text, typed_bytes));
    }
    let split_long = move |text: &str| (estimate(text) > budget.whole).then(|| split_input(text, typed_bytes, budget));
    let (text, split) = run_blocking_if_long(text, split_long).await;
    let Some(split) = split else { return Ok(UserInput::whole(text, typed_bytes)) };
    let name = if split.typed > 0 { FILE_NAMES.0 } else { FILE_NAMES.1 };
    let content = text.as_bytes()[split.file_start..].to_vec();
    let path = workspaces.store_input(session, name.to_owned(), content).await?;
    Ok(shown(&text, typed_bytes, split, path, tools))
}

/// Returns the reason why an input cannot be accepted in full; `None` if it can be accepted.
pub(crate) async fn refusal(text: String, budget: InputBudget, model: &str, window: u64) -> Option<String> {
    let (_, refusal) =
        run_blocking_if_long(text, move |text| (estimate(text) > budget.whole).then(|| sizes(text))).await;
    let (free_tokens, window) = (grouped(budget.whole), grouped(window));
    refusal.map(|sizes| {
        format!(
            "the input does not fit into the window of {model}: it has {sizes}, and there is room for about {free_tokens} of \
             {window} tokens"
        )
    })
}

/// Returns the beginning of an input that could not be stored, for the record.
pub(crate) fn truncate(text: &str, typed_bytes: Option<u64>, tokens: u64) -> UserInput {
    let Excerpt { head, between, .. } = Excerpt::of(text, tokens);
    if between.is_empty() {
        return UserInput::whole(text.to_owned(), typed_bytes);
    }
    let typed_bytes = typed_bytes.map(|bytes| bytes.min(head.len() as u64));
    UserInput::whole(format!("{head}\n[… {} were not stored …]", sizes(&text[head.len()..])), typed_bytes)
}

/// Builds the shortened input as shown to the model, with its file.
fn shown(text: &str, typed_bytes: Option<u64>, split: SplitOffsets, path: String, tools: &ToolSet) -> UserInput {
    let SplitOffsets { typed, file_start, head, tail, at_once } = split;
    let (typed, all, head, tail) = (&text[..typed], &text[file_start..], &text[file_start..head], &text[tail..]);
    let shown_lines = head.matches('\n').count() as u64;
    let stored = StoredInput {
        path,
        bytes: all.len() as u64,
        lines: text::lines(all) as u64,
        shown_bytes: (head.len() + tail.len()) as u64,
        shown_lines,
    };
    let mut shown = String::with_capacity(typed.len() + head.len() + tail.len() + 600);
    if !typed.is_empty() {
        shown.push_str(typed.trim_end());
        shown.push_str("\n\n");
    }
    shown.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        shown.push('\n');
    }
    if !tail.is_empty() {
        let between = &text[file_start + head.len()..text.len() - tail.len()];
        shown.push_str(&format!("[… {} left out …]\n{}\n\n", sizes(between), tail.trim_end_matches('\n')));
    }
    shown.push_str(&note(&stored, &sizes(all), head, !tail.is_empty(), at_once, tools));
    let typed_bytes =
        typed_bytes.map(|bytes| bytes.min(if typed.is_empty() { head.len() } else { typed.trim_end().len() } as u64));
    UserInput { text: shown, typed_bytes, stored: Some(stored) }
}

/// Returns the note for the model about the rest of the input.
fn note(stored: &StoredInput, sizes: &str, head: &str, with_tail: bool, lines: Option<u64>, tools: &ToolSet) -> String {
    let part = match (stored.shown_lines, with_tail) {
        (0, false) => "its beginning is".to_owned(),
        (0, true) => "its beginning and its end are".to_owned(),
        (shown, false) => format!("its first {} lines are", grouped(shown)),
        (shown, true) => format!("its first {} lines and its end are", grouped(shown)),
    };
    let mut options = Vec::new();
    if tools.get("read_file").is_some() {
        options.push(format!("continue there with read_file and {}, {}", offset_after(head, lines), at_once(lines)));
    }
    if tools.get("grep").is_some() {
        options.push("search it with grep".to_owned());
    }
    let advice = if options.is_empty() { String::new() } else { format!(": {}", options.join(", or ")) };
    format!(
        "[This text is too long to show in full: it has {sizes}; {part} shown. All of it is in {}{advice}.]",
        stored.path
    )
}

/// Returns true if an input of this size always fits into the window, so that its tokens need not be counted.
pub(crate) fn always_fits(bytes: usize, window: u64, embedded: bool) -> bool {
    let bytes = bytes as u64;
    let limit = if embedded { EMBEDDED_LIMITS.0 } else { window / 8 };
    bytes <= MIN_TOKENS.max(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn occupied(window: u64, used: u64, fixed: u64) -> WindowUsage {
        WindowUsage { window, used, fixed, notices: 0, tokens_per_thousand: 1000, embedded: false }
    }

    #[test]
    fn input_budget_counts_free_and_compactable_tokens() {
        let check = |occupied: WindowUsage, whole: u64, shown: u64| {
            let budget = InputBudget::of(&occupied, 20_000);
            assert_eq!((budget.whole, budget.shown), (whole, shown), "{occupied:?}");
        };
        // In a new session, three quarters of the window are available, minus the occupied part. A longer input is
        // shown up to half of that.
        check(occupied(100_000, 5_000, 5_000), 70_000, 33_250);
        check(occupied(100_000, 45_000, 5_000), 33_250, 16_625);
        // A full window is compacted.
        check(occupied(100_000, 99_000, 5_000), 33_250, 16_625);
        // A server that counts twice as many tokens has space for half as many.
        check(WindowUsage { tokens_per_thousand: 2000, ..occupied(100_000, 10_000, 5_000) }, 32_500, 15_750);
        check(WindowUsage { notices: 10_000, ..occupied(100_000, 5_000, 5_000) }, 60_000, 23_250);
        check(WindowUsage { embedded: true, ..occupied(8_192, 0, 0) }, EMBEDDED_LIMITS.0, EMBEDDED_LIMITS.1);
        // A part is shown even if the tools fill the window.
        check(occupied(2_048, 4_000, 4_000), MIN_TOKENS, MIN_TOKENS);
    }

    proptest! {
        #[test]
        fn shown_part_is_the_beginning_and_fits(
            prefix in "[a-z ]{0,60}",
            given in "([a-z火é ]{0,60}\n?){40,120}",
            typed in proptest::bool::ANY,
            shown in 256u64..600,
        ) {
            let text = format!("{prefix}\n\n{given}");
            let typed_bytes = typed.then_some(prefix.len() as u64);
            let budget = InputBudget { whole: shown, shown, read: 1000 };
            prop_assume!(estimate(&text) > shown);
            let split = split_input(&text, typed_bytes, budget);
            let input = self::shown(&text, typed_bytes, split, "uploads/x.txt".to_owned(), &ToolSet::none());
            let stored = input.stored.clone().unwrap();
            prop_assert!(estimate(&input.text) <= shown + 120, "{} of {shown}", estimate(&input.text));
            prop_assert!(input.text.contains("All of it is in uploads/x.txt"));
            prop_assert!(text.ends_with(&text[split.file_start..]) && stored.bytes as usize == text.len() - split.file_start);
            prop_assert!(input.text.contains(&text[split.file_start..split.head]));
            if typed && !prefix.trim().is_empty() {
                prop_assert!(input.text.starts_with(prefix.trim_end()), "the typed text should stay complete");
            }
            prop_assert!(input.typed_bytes.is_none_or(|bytes| input.text.get(..bytes as usize).is_some()));
        }
    }
}
