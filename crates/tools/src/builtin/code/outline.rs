//! `outline`: the definitions of a file, or of the files of a folder.

use agentd_core::{
    code::{CodeAnswer, CodeQuestion},
    tool::ToolOutput,
};
use agentd_workspace::{failure::Failure, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CodeScope, ShownPaths, notes, odd_answer, one_line};
use crate::builtin::call::{Call, Tool};

/// Characters of an outline. It is to be read at once.
const MOST_CHARS: usize = 20_000;

/// Lists the functions, types and other definitions of a file, or of all files of a folder, with their lines. Much shorter
/// than the files: look at it before you read a long one.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file or folder, such as src/server.rs.
    path: String,
}

impl Tool for Args {
    const NAME: &'static str = "outline";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let path = self.path;
        let scope = CodeScope::of(call, Some(path.clone())).await?;
        let question = CodeQuestion::Outline { path: scope.below.clone() };
        let (CodeAnswer::Outline(entries), index) = scope.ask(call, question).await? else {
            return Err(odd_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let (mut shown, mut file, mut left) = (String::new(), None, 0_usize);
        for entry in &entries {
            let Some(path) = paths.show(&entry.at.path) else { continue };
            if shown.len() >= MOST_CHARS {
                left += 1;
                continue;
            }
            if file.as_ref() != Some(&path) {
                shown.push_str(&format!("{path}:\n"));
                file = Some(path);
            }
            let indent = "  ".repeat(entry.depth.min(8) as usize);
            let lines = format!("{}-{}", entry.at.line, entry.last_line);
            let text = if entry.at.text.is_empty() { &entry.name } else { &entry.at.text };
            shown.push_str(&format!("{lines:>11}  {indent}{}\n", one_line(text)));
        }
        if shown.is_empty() {
            shown.push_str(&format!(
                "No definitions are known in {}; read_file shows what is there.\n",
                text::quoted(&path)
            ));
        }
        if left > 0 {
            let left = text::count(left, "definition");
            shown.push_str(&format!("[{left} more; name a smaller folder, or a file]\n"));
        }
        shown.truncate(shown.trim_end().len());
        shown.push_str(&notes(&index));
        Ok(ToolOutput::ok(shown))
    }
}
