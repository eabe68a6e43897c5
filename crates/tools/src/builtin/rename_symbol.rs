//! `rename_symbol`: gives a symbol another name wherever it is used, all or nothing.

use agentd_core::{
    language::{LinePlace, SourceEdit, SourcePosition, SourceRewrite},
    ports::{Languages, ToolContext},
    tool::{FileChange, FileChangeKind, ToolDetails, ToolOutput},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    apply_patch::{Step, carry_out},
    source_places,
};
use crate::{
    diff,
    encoding::{Document, Edit},
    failure::Failure,
    job::Job,
    text,
    workspace::backend::Backend as _,
};

/// Characters of a name.
const MAX_NAME: usize = 200;

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

/// Rename of a symbol.
pub(crate) struct Rename {
    at: SourcePosition,
    name: String,
}

pub(crate) fn prepare(
    job: &Job,
    args: Args,
    context: &ToolContext,
    languages: &dyn Languages,
) -> Result<Rename, Failure> {
    let Args { path, line, symbol, new_name: name } = args;
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME;
    if !is_name || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(Failure::arguments("`new_name` must be a name: without blanks, and of 1 to 200 characters"));
    }
    let file = source_places::file(context, &job.files.meant_to_write(&path)?, languages)?;
    Ok(Rename { at: SourcePosition { file, line, at: LinePlace::Symbol(symbol) }, name })
}

pub(crate) async fn ask(languages: &dyn Languages, rename: Rename) -> Result<Vec<SourceRewrite>, Failure> {
    let rewrites = languages.rename(rename.at, rename.name).await?;
    if rewrites.is_empty() {
        return Err(Failure::tool("the language server would change nothing: that is no symbol which can be renamed"));
    }
    Ok(rewrites)
}

pub(crate) fn run(job: &Job, rewrites: Vec<SourceRewrite>) -> Result<ToolOutput, Failure> {
    let steps = plan(job, &rewrites)?;
    job.check()?;
    carry_out(job, &steps)?;
    let told: Vec<&str> = steps.iter().map(|step| step.told.as_str()).collect();
    let mut output = ToolOutput::ok(format!("Renamed: {}.", told.join("; ")));
    output.files = steps.iter().map(|step| FileChange::new(step.path.to_string(), FileChangeKind::Modified)).collect();
    let shown: String = steps.iter().map(|step| step.shown.as_str()).collect();
    output.details = Some(Box::new(ToolDetails::of_diff(&shown)));
    Ok(output)
}

pub(crate) fn preview(job: &Job, rewrites: Vec<SourceRewrite>) -> Result<String, Failure> {
    Ok(plan(job, &rewrites)?.iter().map(|step| step.shown.as_str()).collect())
}

fn plan(job: &Job, rewrites: &[SourceRewrite]) -> Result<Vec<Step>, Failure> {
    rewrites.iter().map(|rewrite| step(job, rewrite)).collect()
}

fn step(job: &Job, rewrite: &SourceRewrite) -> Result<Step, Failure> {
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
    let placed = placed(&document, edits).ok_or_else(|| {
        Failure::tool(format!("{path} has changed while the rename was made; nothing was changed, so call it again"))
    })?;
    let spliced: Vec<Edit<'_>> = placed.iter().map(|(range, new)| Edit { range: range.clone(), new }).collect();
    let revised = document.revise(&spliced).map_err(|unwritable| unwritable.failure(&path))?;
    if revised.bytes.len() as u64 > most {
        return Err(Failure::tool(format!("{path} would have more than {}; nothing was changed", text::size(most))));
    }
    Ok(Step {
        shown: diff::of_texts(&path.to_string(), Some(document.text()), &revised.text),
        told: format!("{path} ({})", text::count(edits.len(), "place")),
        path,
        target,
        content: Some(revised.bytes),
    })
}

/// Edits with their bytes; none where the text has no such places.
fn placed(document: &Document, edits: &[SourceEdit]) -> Option<Vec<(std::ops::Range<usize>, String)>> {
    let text = document.text();
    let place = |edit: &SourceEdit| {
        let (start, end) = (edit.start.offset(text)?, edit.end.offset(text)?);
        (start <= end).then(|| (start..end, document.normal(&edit.text)))
    };
    edits.iter().map(place).collect()
}
