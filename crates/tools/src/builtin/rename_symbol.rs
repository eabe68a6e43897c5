//! `rename_symbol`: gives a symbol another name wherever it is used, all or nothing.

use agentd_core::{
    language::{LinePlace, SourceEdit, SourcePosition, SourceRewrite},
    ports::Languages,
    tool::ToolOutput,
};
use agentd_workspace::{backend::Backend as _, diff, encoding::Document, failure::Failure, job::Job, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    apply_patch::{Step, carry_out, revised, shown},
    call::{Call, Tool},
    renames::{Names, PlannedRename},
    source_places,
};

/// Characters of a name.
const MAX_NAME: usize = 200;
/// Bytes that stand around a name in one edit: where a symbol stands for its own name, as in `name: symbol`.
const MAX_AROUND: usize = 24;

/// Gives a symbol of the project's source code another name, in all files that use it, as a compiler knows them: all of it or
/// nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// A file in which the symbol stands, such as /project/src/main.rs.
    path: String,
    /// The line in which it stands, from 1.
    #[schemars(range(min = 1))]
    line: u32,
    /// The symbol, as it stands in that line.
    symbol: String,
    /// Its new name.
    new_name: String,
}

impl Tool for Args {
    const NAME: &'static str = "rename_symbol";

    /// Renames a symbol: as it was shown, where it was.
    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let planned = match call.services.renames.take(call.context, call.call) {
            Some(shown) => shown,
            None => self.planned(call).await?,
        };
        call.write(planned, |job, planned| carry_out(job, &plan(job, &planned)?, "Renamed")).await
    }

    /// Shows a rename, and keeps it until it runs.
    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        let planned = self.planned(call).await?;
        let shown = call.work(planned.clone(), |job, planned| plan(job, &planned).map(|steps| shown(&steps))).await?;
        call.services.renames.keep(call.context, call.call, planned);
        Ok(Some(shown))
    }
}

impl Args {
    async fn planned(self, call: Call<'_>) -> Result<PlannedRename, Failure> {
        let (at, names) = source_places::prepare_for(call, self, prepare).await?;
        let rewrites = call.languages()?.rename(at, names.new.clone()).await?;
        if rewrites.is_empty() {
            let none = "the language server would change nothing: that is no symbol which can be renamed";
            return Err(Failure::tool(none));
        }
        Ok(PlannedRename { names, rewrites })
    }
}

fn prepare(job: &Job, args: Args, languages: &dyn Languages) -> Result<(SourcePosition, Names), Failure> {
    let Args { path, line, symbol, new_name: name } = args;
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME;
    if !is_name || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(Failure::arguments("`new_name` must be a name: without blanks, and of 1 to 200 characters"));
    }
    let file = source_places::file(job, &job.files.meant_to_write(&path)?, languages)?;
    let names = Names { old: symbol.clone(), new: name };
    Ok((SourcePosition { file, line, at: LinePlace::Symbol(symbol) }, names))
}

fn plan(job: &Job, planned: &PlannedRename) -> Result<Vec<Step>, Failure> {
    planned.rewrites.iter().map(|rewrite| step(job, &planned.names, rewrite)).collect()
}

fn step(job: &Job, names: &Names, rewrite: &SourceRewrite) -> Result<Step, Failure> {
    job.check()?;
    let SourceRewrite { file, edits } = rewrite;
    // The call names one file, and these are the others: the rules have a say in each.
    if !job.reading.allow_change(file) {
        return Err(Failure::path(format!(
            "the rename would change {file}, which the rules do not let you change so; nothing was changed"
        )));
    }
    let path = job.files.locate(file)?;
    let most = job.limits.write_bytes;
    let target = job.files.target(&path, most)?;
    let document = target.document(most)?;
    let placed = placed(&document, names, edits).ok_or_else(|| {
        Failure::tool(format!(
            "in {path} the rename would change something else than `{}`, or the file has changed since it was made; nothing was \
             changed, so call it again, or edit the files yourself",
            names.old
        ))
    })?;
    let revised = revised(job, &path, &document, placed)?;
    Ok(Step {
        shown: diff::of_texts(&path.to_string(), Some(document.text()), &revised.text),
        told: format!("{path} ({})", text::count(edits.len(), "place")),
        path,
        target,
        content: Some(revised.bytes),
    })
}

/// Edits with their bytes; none where the text has no such places, or others than those of the symbol.
fn placed(document: &Document, names: &Names, edits: &[SourceEdit]) -> Option<Vec<(std::ops::Range<usize>, String)>> {
    let text = document.text();
    let place = |edit: &SourceEdit| {
        let (start, end) = (edit.start.offset(text)?, edit.end.offset(text)?);
        let replaced = text.get(start..end)?;
        names.are_all_of(replaced, &edit.text).then(|| (start..end, document.normal(&edit.text)))
    };
    edits.iter().map(place).collect()
}

impl Names {
    /// Returns whether an edit gives the symbol its new name, and does nothing besides: what a server says is not trusted.
    fn are_all_of(&self, replaced: &str, text: &str) -> bool {
        let Self { old, new } = self;
        let is_short = |text: &str, name: &str| text.len() <= name.len() + MAX_AROUND && !text.contains(['\n', '\r']);
        // Where `name: symbol` becomes `name`, or the other way round, a part is taken away or put in.
        let is_of_symbol = replaced.is_empty() || replaced.contains(old.as_str()) || replaced.contains(new.as_str());
        let is_named = text.contains(new.as_str()) || (text.is_empty() && !replaced.is_empty() && replaced != old);
        is_of_symbol && is_named && is_short(replaced, old) && is_short(text, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_gives_a_symbol_its_new_name_and_nothing_else() {
        let names = Names { old: "count".to_owned(), new: "total".to_owned() };
        let check = |replaced: &str, text: &str, expected: bool| {
            assert_eq!(names.are_all_of(replaced, text), expected, "{replaced:?} {text:?}");
        };
        check("count", "total", true);
        check("r#count", "total", true);
        check("", "total: ", true);
        check("count", "count: total", true);
        check("total: ", "", true);
        check("other", "total", false);
        check("count", "other", false);
        check("count", "", false);
        check("", "", false);
        check("count", "total; run(\"something that nobody has asked for\")", false);
        check("count\nfoo", "total", false);
        check("count", "total\nfoo", false);
        check(&format!("count{}", " ".repeat(MAX_AROUND + 1)), "total", false);
    }
}
