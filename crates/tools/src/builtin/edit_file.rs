//! `edit_file`: replaces an exact part of a file without changing any other byte. `write_file`: writes a whole file. A
//! replaced file keeps its encoding, byte order mark and line ends, since the model wrote plain text and did not see
//! these properties.

use std::borrow::Cow;

use agentd_core::tool::{FileChange, FileChangeKind, ToolOutput};
use agentd_workspace::{
    backend::Backend as _,
    diff,
    encoding::{self, Charset, Document, Edit, RevisedText},
    failure::Failure,
    jail::OpenPurpose,
    job::{Job, UNQUOTED},
    path::ToolPath,
    target::Target,
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, PathsOf, Tool};
use crate::patch::{line_list, most_alike, start_of};

/// Replaces old_string with new_string in a file. old_string must match the file exactly, including indentation, and
/// occur once; add surrounding lines to make it unique, or set replace_all. Read the file first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EditFile {
    /// The file, such as outputs/report.md.
    path: String,
    /// The exact text to replace.
    old_string: String,
    /// Replacement text; empty to delete it.
    new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    replace_all: bool,
}

/// Edit that succeeds unless the file changes before it is applied.
struct PlannedEdit {
    path: ToolPath,
    target: Target,
    before: Document,
    after: RevisedText,
    /// Line numbers of the replacements.
    lines: Vec<usize>,
}

impl Tool for EditFile {
    const NAME: &'static str = "edit_file";
    const PATHS: Option<PathsOf<Self>> =
        Some(|jail, args| Ok(vec![jail.resolve_path(&args.path, OpenPurpose::Write)?]));

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.write(self, edit).await
    }

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        let shown = |PlannedEdit { path, before, after, .. }: PlannedEdit| {
            diff::of_texts(&path.to_string(), Some(before.text()), &after.text)
        };
        call.work(move |job| plan_edit(job, &self).map(shown)).await.map(Some)
    }
}

fn edit(job: &Job, args: EditFile) -> Result<ToolOutput, Failure> {
    let planned = plan_edit(job, &args)?;
    planned.target.replace(&planned.after.bytes)?;
    let path = planned.path.to_string();
    let count = text::count(planned.lines.len(), "replacement");
    let at = if job.may_quote(&planned.path) { format!(" at {}", line_list(&planned.lines)) } else { String::new() };
    let mut output = ToolOutput::ok(format!("Edited {path}: {count}{at}."));
    let before = planned.before.text();
    output.details = diff::of_change(Some(before.as_bytes()), &planned.after.text, |_| {
        diff::of_texts(&path, Some(before), &planned.after.text)
    });
    output.files.push(FileChange::new(path, FileChangeKind::Modified));
    Ok(output)
}

fn plan_edit(job: &Job, args: &EditFile) -> Result<PlannedEdit, Failure> {
    job.check()?;
    if args.old_string.is_empty() {
        return Err(Failure::arguments(
            "`old_string` of edit_file is empty; give the text to replace, or use write_file to write a whole file",
        ));
    }
    if args.old_string == args.new_string {
        return Err(Failure::arguments("`old_string` and `new_string` are the same, so nothing would change"));
    }
    let path = job.files.resolve_for_write(&args.path)?;
    let target = job.files.target(&path, job.limits.write_bytes)?;
    let before = target.document(job.limits.write_bytes)?;
    let (old, new) = (before.normal(&args.old_string), before.normal(&args.new_string));
    if old == new {
        return Err(Failure::arguments(format!(
            "`old_string` and `new_string` differ only in line endings, and edits keep those of {path}; change them \
             with run_bash_command"
        )));
    }
    let starts: Vec<usize> = before.text().match_indices(&old).map(|(start, _)| start).collect();
    let lines = line_numbers(before.text(), &starts);
    match (starts.len(), job.may_quote(&path)) {
        (0, false) => return Err(Failure::tool(format!("old_string is not in {path}; {UNQUOTED}"))),
        (0, true) => return Err(not_found(&path, before.text(), &old)),
        (2.., false) if !args.replace_all => {
            return Err(Failure::tool(format!(
                "old_string occurs more than once in {path}; {UNQUOTED}. Add surrounding lines, or set replace_all to \
                 true"
            )));
        }
        (many @ 2.., true) if !args.replace_all => {
            return Err(Failure::tool(format!(
                "old_string occurs {many} times in {path} ({}); add surrounding lines, or set replace_all to true",
                line_list(&lines)
            )));
        }
        _ => {}
    }
    let too_large = || {
        let limit = text::size(job.limits.write_bytes);
        Failure::tool(format!("{path} would exceed {limit}; replace less at once"))
    };
    let growth = starts.len().saturating_mul(new.len().saturating_sub(old.len()));
    if (before.text().len().saturating_add(growth)) as u64 > job.limits.write_bytes.saturating_mul(3) {
        return Err(too_large());
    }
    let edits: Vec<Edit<'_>> =
        starts.iter().map(|start| Edit { range: *start..start + old.len(), new: &new }).collect();
    let after = before.revise(&edits).map_err(|unwritable| unwritable.failure(&path))?;
    if after.bytes.len() as u64 > job.limits.write_bytes {
        return Err(too_large());
    }
    Ok(PlannedEdit { path, target, before, after, lines })
}

/// Returns the line number of each start, counted from 1. The starts must be sorted, so that one pass is sufficient.
fn line_numbers(text: &str, starts: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    starts
        .iter()
        .map(|start| {
            line += text[from..*start].matches('\n').count();
            from = *start;
            line
        })
        .collect()
}

/// Returns the first pair of differing characters, if exactly one of them is ASCII: typographic quotes, dashes,
/// accents. Users and models do not notice the difference.
fn lookalike(written: &str, stored: &str) -> Option<(char, char)> {
    let differing = written.chars().zip(stored.chars()).find(|(written, stored)| written != stored);
    differing.filter(|(written, stored)| written.is_ascii() != stored.is_ascii())
}

/// Returns an error that quotes the most similar text, so that the next attempt can match it.
fn not_found(path: &ToolPath, before: &str, old: &str) -> Failure {
    const MAX_LINES: usize = 20_000;
    const MAX_WIDTH: usize = 200;
    const MAX_SHOWN: usize = 8;
    let wanted: Vec<&str> = old.lines().collect();
    let Some((skipped, first)) = wanted.iter().enumerate().find(|(_, line)| !line.trim().is_empty()) else {
        return Failure::tool(format!("old_string is only white space and not in {path}; read the file again"));
    };
    let lines: Vec<&str> = before.lines().take(MAX_LINES).collect();
    match most_alike(first, lines.iter().copied().enumerate()) {
        Some((score, number)) => {
            let start = number.saturating_sub(skipped);
            let shown: Vec<String> = lines[start..]
                .iter()
                .take(wanted.len().min(MAX_SHOWN))
                .map(|line| text::first_chars(line, MAX_WIDTH).0.to_owned())
                .collect();
            let cause = match lookalike(start_of(first), start_of(lines[number])) {
                Some((written, stored)) => format!(
                    "the file has {stored:?} (U+{:04X}) where old_string has {written:?} (U+{:04X}); ",
                    u32::from(stored),
                    u32::from(written)
                ),
                None if score == 1.0 => "the white space or a later line differs; ".to_owned(),
                None => String::new(),
            };
            Failure::tool(format!(
                "old_string is not in {path}; {cause}the closest match is at line {}:\n{}",
                start + 1,
                shown.join("\n")
            ))
        }
        None => Failure::tool(format!("old_string is not in {path}, nor any similar text; read the file again")),
    }
}

/// Writes a whole text file. Creates missing folders and replaces existing content. Only uploads/, outputs/, temp/,
/// /memories, /state and a writable /project or /folders/NAME can be written; any other relative path is in the project,
/// if one is mounted. Put results for the user in outputs/, your own notes in /state, facts for later sessions in
/// /memories. To change part of a file use edit_file.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct WriteFile {
    /// The file, such as outputs/report.md.
    path: String,
    /// The whole content.
    content: String,
}

/// Write that succeeds unless the file changes before it is applied.
struct PlannedWrite {
    path: ToolPath,
    target: Target,
    content: Vec<u8>,
    /// Properties of the replaced file that are preserved and that a new file would not have.
    preserved: Vec<&'static str>,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const PATHS: Option<PathsOf<Self>> =
        Some(|jail, args| Ok(vec![jail.resolve_path(&args.path, OpenPurpose::Write)?]));

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.write(self, write).await
    }

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        call.work(move |job| preview_write(job, self)).await.map(Some)
    }
}

fn write(job: &Job, args: WriteFile) -> Result<ToolOutput, Failure> {
    let PlannedWrite { path, target, content, preserved } = plan_write(job, &args)?;
    let size = text::size(content.len() as u64);
    let change = match &target.existing {
        Some(existing) if existing.content.as_ref() == Some(&content) => {
            return Ok(ToolOutput::ok(format!("{path} already had this content ({size}); nothing was changed")));
        }
        Some(_) => FileChangeKind::Modified,
        None => FileChangeKind::Created,
    };
    let name = path.to_string();
    let before = target.existing.as_ref().map(|existing| existing.content.as_deref());
    // A file that was not read is not compared.
    let shown = (before != Some(None)).then(|| {
        diff::of_change(before.flatten(), &args.content, |before| diff::written(&name, before, &args.content))
    });
    target.replace(&content)?;
    let done = if change == FileChangeKind::Created { "Created" } else { "Replaced" };
    let lines = text::count(args.content.lines().count(), "line");
    let preserved = if preserved.is_empty() { String::new() } else { format!("; kept {}", preserved.join(", ")) };
    let mut output = ToolOutput::ok(format!("{done} {path} ({size}, {lines}{preserved})."));
    output.files.push(FileChange::new(name, change));
    output.details = shown.flatten();
    Ok(output)
}

fn preview_write(job: &Job, args: WriteFile) -> Result<String, Failure> {
    let PlannedWrite { path, target, content, .. } = plan_write(job, &args)?;
    let path = path.to_string();
    let Some(existing) = &target.existing else { return Ok(diff::written(&path, None, &args.content)) };
    Ok(match &existing.content {
        Some(before) if *before == content => format!("{path} already has this content"),
        Some(before) => diff::written(&path, Some(before), &args.content),
        None => {
            // The file was not read, so its version is identified by size and time.
            let changed = existing.changed.map(|at| format!(" (last changed {at})")).unwrap_or_default();
            let summary = format!("{}{changed} are replaced", text::size(existing.size));
            diff::replaced(&path, &summary, &args.content)
        }
    })
}

fn plan_write(job: &Job, args: &WriteFile) -> Result<PlannedWrite, Failure> {
    job.check()?;
    let too_large = |size: usize| {
        Failure::arguments(format!(
            "the content is {} long; write_file takes at most {}",
            text::size(size as u64),
            text::size(job.limits.write_bytes)
        ))
    };
    if args.content.len() as u64 > job.limits.write_bytes {
        return Err(too_large(args.content.len()));
    }
    let path = job.files.resolve_for_write(&args.path)?;
    let target = job.files.target(&path, job.limits.write_bytes)?;
    let (content, preserved) = in_existing_encoding(&path, &target, &args.content)?;
    // The text may need more bytes in the encoding of the file.
    if content.len() as u64 > job.limits.write_bytes {
        return Err(too_large(content.len()));
    }
    Ok(PlannedWrite { path, target, content, preserved })
}

/// Returns the content in the encoding and with the line ends of the existing file.
fn in_existing_encoding(
    path: &ToolPath,
    target: &Target,
    written: &str,
) -> Result<(Vec<u8>, Vec<&'static str>), Failure> {
    let plain = || Ok((written.as_bytes().to_vec(), Vec::new()));
    let Some(before) = target.existing.as_ref().and_then(|existing| existing.content.as_deref()) else {
        return plain();
    };
    let Ok(document) = Document::read(before.to_vec()) else { return plain() };
    let mut preserved = Vec::new();
    let mut charset = document.charset();
    if !charset.sure && !written.is_ascii() {
        // If the encoding is only a guess, UTF-8 is written, which every reader supports.
        charset = Charset::UTF_8;
    }
    preserved.extend(charset.name().filter(|_| charset.is_utf16() || !written.is_ascii()));
    let mark = &before[..charset.bom];
    if !mark.is_empty() {
        preserved.push("the byte order mark");
    }
    let text = match document.line_end() {
        // Text that contains `\r` is written with its own line ends.
        Some(end @ ("\r\n" | "\r")) if !written.contains('\r') && written.contains('\n') => {
            preserved.push(if end == "\r" { "CR line endings" } else { "CRLF line endings" });
            Cow::Owned(written.replace('\n', end))
        }
        _ => Cow::Borrowed(written),
    };
    let text = if mark.is_empty() { &*text } else { text.strip_prefix('\u{feff}').unwrap_or(&text) };
    let encoded = encoding::encode(text, charset).map_err(|unwritable| {
        let Failure { code, text } = unwritable.failure(path);
        Failure::new(code, format!("{text}; or delete the file first to write it in UTF-8"))
    })?;
    Ok(([mark, &encoded].concat(), preserved))
}
