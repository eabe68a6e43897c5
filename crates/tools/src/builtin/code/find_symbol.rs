//! `find_symbol`: where a name is defined, what implements it and what uses it.

use agentd_core::{
    code::{CodeAnswer, CodeQuestion, OutlineEntry, SymbolUse},
    tool::ToolOutput,
};
use agentd_workspace::{failure::Failure, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CodeScope, ShownPaths, among, check_words, notes, odd_answer, one_line};
use crate::builtin::call::{Call, Tool};

/// Definitions that are shown.
const MOST_DEFINITIONS: usize = 20;
/// Uses that are shown.
const MOST_USES: usize = 60;

/// Finds where a function, type or other name is defined in the project, what implements or extends it, and where it is
/// used, with the function around each use (its callers). By name, so names that several things have are all listed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The name, such as parse_config, Router or Router::route.
    name: String,
    /// A folder or file to look in. Leave it out for the whole project.
    path: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "find_symbol";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let Self { name, path } = self;
        check_words("name", &name)?;
        let scope = CodeScope::of(call, path).await?;
        let question = CodeQuestion::Symbol { name: name.clone(), below: scope.below.clone() };
        let (CodeAnswer::Symbol(found), index) = scope.ask(call, question).await? else {
            return Err(odd_answer());
        };
        let mut paths = ShownPaths::new(&scope, call.context);
        let definitions: Vec<String> = found
            .definitions
            .iter()
            .filter_map(|entry| Some(definition(&paths.show(&entry.at.path)?, entry)))
            .collect();
        let word = name.rsplit(|letter: char| letter != '_' && !letter.is_alphanumeric()).find(|part| !part.is_empty());
        let word = word.unwrap_or(&name);
        let (kin, uses): (Vec<&SymbolUse>, Vec<&SymbolUse>) =
            found.references.iter().partition(|found| is_implementation(&found.at.text, word));
        let mut list = |uses: Vec<&SymbolUse>| -> Vec<String> {
            uses.into_iter().filter_map(|found| Some(usage(&paths.show(&found.at.path)?, found))).collect()
        };
        let (kin, uses) = (list(kin), list(uses));
        let mut shown = String::new();
        let files = among(&scope, &index);
        if definitions.is_empty() && kin.is_empty() && uses.is_empty() {
            shown.push_str(&format!(
                "There is no {} in {files}; search_code finds names like it, grep finds any text.\n",
                text::quoted(&name)
            ));
        } else if definitions.is_empty() {
            shown.push_str("It is defined nowhere here.\n");
        }
        section(&mut shown, "Defined", &definitions, MOST_DEFINITIONS);
        section(&mut shown, "Implemented or extended", &kin, MOST_USES);
        section(&mut shown, "Used", &uses, MOST_USES);
        shown.truncate(shown.trim_end().len());
        if found.is_truncated {
            shown.push_str("\n[there are more; name a folder with path]");
        }
        shown.push_str(&notes(&index));
        Ok(ToolOutput::ok(shown))
    }
}

fn section(shown: &mut String, title: &str, lines: &[String], most: usize) {
    if lines.is_empty() {
        return;
    }
    shown.push_str(&format!("{title} ({}):\n", lines.len()));
    lines.iter().take(most).for_each(|line| shown.push_str(&format!("{line}\n")));
    if lines.len() > most {
        shown.push_str(&format!("[{} more; name a folder with path]\n", lines.len() - most));
    }
}

fn definition(path: &str, entry: &OutlineEntry) -> String {
    let OutlineEntry { kind, at, last_line, .. } = entry;
    format!("{path}:{}-{last_line} {}: {}", at.line, kind.name(), one_line(&at.text))
}

fn usage(path: &str, SymbolUse { at, within }: &SymbolUse) -> String {
    let within = within.as_ref().map(|name| format!(" in {}", one_line(name))).unwrap_or_default();
    format!("{path}:{}{within}: {}", at.line, one_line(&at.text))
}

/// Returns whether a line that has a name makes something of that kind, as far as its words tell: `impl Name for X`,
/// `class X(Name)`, `class X extends Name`, `class X : public Name`.
fn is_implementation(line: &str, name: &str) -> bool {
    let Some((before, after)) = line.split_once(name) else { return false };
    let begins = |words: &[&str]| words.iter().any(|word| before.trim_start().starts_with(word));
    let is_rust = begins(&["impl"]) && after.contains(" for ");
    let is_class = before.contains("class ") || before.contains("interface ") || before.contains("struct ");
    let is_base = [" extends ", " implements ", "(", ": ", "public ", ", "].iter().any(|word| before.contains(word));
    is_rust || is_class && is_base && !before.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_implement_are_told_from_those_that_use() {
        for line in [
            "impl Shape for Circle {",
            "impl<T> Shape for Vec<T> {",
            "class Circle(Shape):",
            "export class Circle extends Shape {",
            "class Circle implements Area, Shape {",
            "class Circle : public Shape {",
        ] {
            assert!(is_implementation(line, "Shape"), "{line}");
        }
        for line in
            ["impl Shape {", "let shape = Shape::new();", "fn draw(shape: &Shape) {", "class Shape:", "x = f(Shape)"]
        {
            assert!(!is_implementation(line, "Shape"), "{line}");
        }
    }
}
