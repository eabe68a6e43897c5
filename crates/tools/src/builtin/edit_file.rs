//! `edit_file`: replaces an exact piece of a file and leaves every other byte alone.

use agentd_core::tool::{FileChange, FileChangeKind, ToolOutput};
use agentd_workspace::{
    backend::Backend as _,
    diff,
    encoding::{Document, Edit, RevisedText},
    failure::Failure,
    jail::Aim,
    job::{Job, UNQUOTED},
    path::ToolPath,
    target::Target,
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, PathsOf, Tool};

/// Replaces old_string with new_string in a file. old_string must match the file exactly, with its indentation, and must
/// occur once; add surrounding lines until it does, or set replace_all. Read the file first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, such as outputs/report.md.
    path: String,
    /// The exact text to replace.
    old_string: String,
    /// The text to put in its place; empty to remove it.
    new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    replace_all: bool,
}

/// An edit that will succeed unless the file changes first.
struct PlannedEdit {
    path: ToolPath,
    target: Target,
    before: Document,
    after: RevisedText,
    /// The lines at which something is replaced.
    lines: Vec<usize>,
}

impl Tool for Args {
    const NAME: &'static str = "edit_file";
    const PATHS: Option<PathsOf<Self>> = Some(|jail, args| Ok(vec![jail.meant(&args.path, Aim::Write)?]));

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.write(self, run).await
    }

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        call.work(self, preview).await.map(Some)
    }
}

fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let planned = plan(job, &args)?;
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

fn preview(job: &Job, args: Args) -> Result<String, Failure> {
    let planned = plan(job, &args)?;
    Ok(diff::of_texts(&planned.path.to_string(), Some(planned.before.text()), &planned.after.text))
}

fn plan(job: &Job, args: &Args) -> Result<PlannedEdit, Failure> {
    job.check()?;
    if args.old_string.is_empty() {
        return Err(Failure::arguments(
            "`old_string` of edit_file is empty; give the text to replace, or use write_file to write a whole file",
        ));
    }
    if args.old_string == args.new_string {
        return Err(Failure::arguments("`old_string` and `new_string` are the same, so nothing would change"));
    }
    let path = job.files.meant_to_write(&args.path)?;
    let target = job.files.target(&path, job.limits.write_bytes)?;
    let before = target.document(job.limits.write_bytes)?;
    let (old, new) = (before.normal(&args.old_string), before.normal(&args.new_string));
    if old == new {
        return Err(Failure::arguments(format!(
            "`old_string` and `new_string` differ only in line ends, and edits keep those that {path} has; change them \
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
                "old_string occurs more than once in {path}; {UNQUOTED}. Give more of the lines around it, or set \
                 replace_all to true"
            )));
        }
        (many @ 2.., true) if !args.replace_all => {
            return Err(Failure::tool(format!(
                "old_string occurs {many} times in {path} ({}); add the lines around the one you mean, or set \
                 replace_all to true",
                line_list(&lines)
            )));
        }
        _ => {}
    }
    let too_large = || {
        let most = text::size(job.limits.write_bytes);
        Failure::tool(format!("{path} would grow beyond {most}; replace less at once"))
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

/// The line of each start, counted from 1. The starts are in order, so one pass is enough.
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

fn line_list(lines: &[usize]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = lines.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if lines.len() > SHOWN { ", …" } else { "" };
    format!("{} {}{more}", if lines.len() == 1 { "line" } else { "lines" }, shown.join(", "))
}

/// First characters in which two lines differ, where one of them is ASCII and the other is not: typographic quotes, dashes,
/// accents. People and models do not see the difference.
fn lookalike(written: &str, stored: &str) -> Option<(char, char)> {
    let differing = written.chars().zip(stored.chars()).find(|(written, stored)| written != stored);
    differing.filter(|(written, stored)| written.is_ascii() != stored.is_ascii())
}

/// Shows the place that was most likely meant, so that the next attempt can quote it.
fn not_found(path: &ToolPath, before: &str, old: &str) -> Failure {
    const MAX_LINES: usize = 20_000;
    const MAX_COMPARED: usize = 200;
    const MAX_SHOWN: usize = 8;
    let wanted: Vec<&str> = old.lines().collect();
    let Some((skipped, first)) = wanted.iter().enumerate().find(|(_, line)| !line.trim().is_empty()) else {
        return Failure::tool(format!("old_string is only white space that {path} does not have; read the file again"));
    };
    let shorten = |line: &str| text::first_chars(line.trim(), MAX_COMPARED).0.to_owned();
    let first = shorten(first);
    let lines: Vec<&str> = before.lines().take(MAX_LINES).collect();
    let nearest = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| (strsim::sorensen_dice(&first, &shorten(line)), number))
        .max_by(|left, right| left.0.total_cmp(&right.0).then_with(|| right.1.cmp(&left.1)));
    match nearest {
        Some((score, number)) if score >= 0.5 => {
            let start = number.saturating_sub(skipped);
            let shown: Vec<String> = lines[start..]
                .iter()
                .take(wanted.len().min(MAX_SHOWN))
                .map(|line| text::first_chars(line, MAX_COMPARED).0.to_owned())
                .collect();
            let cause = match lookalike(&first, &shorten(lines[number])) {
                Some((written, stored)) => format!(
                    "the file has {stored:?} (U+{:04X}) where old_string has {written:?} (U+{:04X}); ",
                    u32::from(stored),
                    u32::from(written)
                ),
                None if score == 1.0 => "the white space or a later line differs; ".to_owned(),
                None => String::new(),
            };
            Failure::tool(format!(
                "old_string is not in {path}; {cause}the nearest place is line {}:\n{}",
                start + 1,
                shown.join("\n")
            ))
        }
        _ => Failure::tool(format!("old_string is not in {path}, nor anything like it; read the file again")),
    }
}
