//! `repo_map`: the definitions that the rest of a project leans on.

use agentd_core::{
    code::{CodeAnswer, CodeQuestion, MapFile},
    tool::ToolOutput,
};
use agentd_workspace::failure::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CodeScope, ShownPaths, notes, odd_answer, one_line};
use crate::builtin::call::{Call, Tool};

/// Tokens of a map where no number is given.
const USUAL: usize = 2000;
const LEAST: usize = 200;
const MOST: usize = 10_000;

/// Draws a map of the project: its most important files with the definitions that most other code uses, within a number of
/// tokens.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// Maximum size of the map in tokens.
    #[schemars(range(min = LEAST, max = MOST))]
    budget: Option<usize>,
    /// An added folder, such as /folders/lib. Leave it out for the project.
    path: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "repo_map";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let scope = CodeScope::of(call, self.path).await?;
        if !scope.below.is_empty() {
            return Err(Failure::arguments(format!(
                "`path` of repo_map is an added folder as a whole; use outline of {}",
                scope.shown()
            )));
        }
        let max_tokens = self.budget.unwrap_or(USUAL).clamp(LEAST, MOST);
        let (CodeAnswer::Map(files), index) = scope.ask(call, CodeQuestion::Map { max_tokens }).await? else {
            return Err(odd_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let files = files.into_iter().filter_map(|file| {
            let lines = file.lines.iter().map(|(line, row)| (*line, one_line(row))).collect();
            Some(MapFile { path: paths.show(&file.path)?, lines })
        });
        let files: Vec<MapFile> = files.collect();
        let mut shown = MapFile::render(&files);
        if shown.is_empty() {
            shown.push_str(
                "There is no code here that a map could be drawn of; list_workspace_files shows what is there.",
            );
        }
        shown.truncate(shown.trim_end().len());
        shown.push_str(&notes(&index));
        Ok(ToolOutput::ok(shown))
    }
}
