//! `search_code`: pieces of code that fit words, names or a question.

use agentd_core::{
    code::{CodeAnswer, CodeHit, CodeQuestion},
    tool::ToolOutput,
};
use agentd_workspace::{failure::Failure, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CodeScope, ShownPaths, among, check_words, notes, odd_answer, one_line};
use crate::builtin::call::{Call, Tool};

/// Hits where no number is given.
const USUAL: usize = 8;
const MOST: usize = 30;
/// Hits that are looked at, of which some may not be shown.
const CANDIDATES: usize = 60;
/// Lines of a hit that are shown.
const MOST_LINES: usize = 24;

/// Finds code in the project by meaning: a question in plain words (where are sessions restored after a crash), names or
/// keywords. Returns the best pieces with path, lines and symbol. Prefer it to grep where you do not know the exact text.
/// Files that you may not read without asking are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// Words, names or a question.
    query: String,
    /// A folder or file to look in. Leave it out for the whole project.
    path: Option<String>,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MOST))]
    max_results: Option<usize>,
}

impl Tool for Args {
    const NAME: &'static str = "search_code";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let Self { query, path, max_results } = self;
        check_words("query", &query)?;
        let most = max_results.unwrap_or(USUAL).clamp(1, MOST);
        let scope = CodeScope::of(call, path).await?;
        let question = CodeQuestion::Search { query: query.clone(), below: scope.below.clone(), limit: CANDIDATES };
        let (CodeAnswer::Hits(hits), index) = scope.ask(call, question).await? else { return Err(odd_answer()) };
        let mut paths = ShownPaths::new(&scope, call.context);
        let mut shown = String::new();
        let mut count = 0;
        for hit in &hits {
            if count == most {
                break;
            }
            let Some(path) = paths.show(&hit.path) else { continue };
            count += 1;
            shown.push_str(&show(count, &path, hit));
        }
        let files = among(&scope, &index);
        if count == 0 {
            shown.push_str(&format!(
                "Nothing fits {} in {files}; try other words, or grep for an exact text.\n",
                text::quoted(&query)
            ));
        } else {
            shown.push_str(&format!("[the best {} in {files}]\n", text::count(count, "hit")));
        }
        shown.truncate(shown.trim_end().len());
        shown.push_str(&notes(&index));
        Ok(ToolOutput::ok(shown))
    }
}

fn show(number: usize, path: &str, hit: &CodeHit) -> String {
    let symbol = hit.symbol.as_ref();
    let symbol = symbol.map(|symbol| format!(" {} {}", symbol.kind.name(), one_line(&symbol.name))).unwrap_or_default();
    let stale = if hit.is_stale { " (changed just now; its lines may have moved)" } else { "" };
    let mut shown = format!("{number}. {path}:{}-{}{symbol}{stale}\n", hit.first_line, hit.last_line);
    let lines: Vec<&str> = hit.text.lines().collect();
    for (line, row) in (hit.first_line..).zip(lines.iter().take(MOST_LINES)) {
        shown.push_str(&format!("{line:>6}  {}\n", one_line(row)));
    }
    let all = (hit.last_line.saturating_sub(hit.first_line) as usize).saturating_add(1);
    let more = all.saturating_sub(lines.len().min(MOST_LINES));
    if more > 0 {
        shown.push_str(&format!("        [{} more]\n", text::count(more, "line")));
    }
    shown
}
