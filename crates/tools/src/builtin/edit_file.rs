//! `edit_file`: replaces an exact piece of a file and leaves every other byte alone.

use agentd_core::tool::{FileChange, FileChangeKind, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    diff,
    failure::Failure,
    job::Job,
    text,
    workspace::{path::ToolPath, target::Target},
};

pub(crate) const DESCRIPTION: &str = "Replaces old_string by new_string in a file. old_string must be exactly what the \
    file has, with its indentation, and must occur once; add lines around it until it does, or set replace_all. Read \
    the file first.";

pub(crate) fn parameters() -> Value {
    super::object(
        json!({
            "path": {"type": "string", "description": "The file, such as outputs/report.md."},
            "old_string": {"type": "string", "description": "The exact text to replace."},
            "new_string": {"type": "string", "description": "The text to put in its place; empty to remove it."},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence instead of exactly one."}
        }),
        &["path", "old_string", "new_string"],
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// An edit that will succeed unless the file changes first.
struct Edit {
    path: ToolPath,
    target: Target,
    before: String,
    after: String,
    /// The lines at which something is replaced.
    lines: Vec<usize>,
}

pub(crate) fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let edit = plan(job, &args)?;
    edit.target.replace(edit.after.as_bytes())?;
    let path = edit.path.to_string();
    let count = text::count(edit.lines.len(), "replacement");
    let mut output = ToolOutput::ok(format!("Edited {path}: {count} at {}.", line_list(&edit.lines)));
    output.files.push(FileChange::new(path, FileChangeKind::Modified));
    Ok(output)
}

pub(crate) fn preview(job: &Job, args: Args) -> Result<String, Failure> {
    let edit = plan(job, &args)?;
    Ok(diff::unified(&edit.path.to_string(), Some(edit.before.as_bytes()), edit.after.as_bytes()))
}

fn plan(job: &Job, args: &Args) -> Result<Edit, Failure> {
    job.check()?;
    if args.old_string.is_empty() {
        return Err(Failure::arguments(
            "`old_string` of edit_file is empty; give the text to replace, or use write_file to write a whole file",
        ));
    }
    if args.old_string == args.new_string {
        return Err(Failure::arguments("`old_string` and `new_string` are the same, so nothing would change"));
    }
    let path = job.jail.locate(&args.path)?;
    let target = Target::open(&job.jail, &path, job.limits.write_bytes)?;
    let before = content(job, &path, &target)?;
    let (old, new) = with_line_ends_of(&before, &args.old_string, &args.new_string);
    let starts: Vec<usize> = before.match_indices(&old).map(|(start, _)| start).collect();
    let lines = line_numbers(&before, &starts);
    match starts.len() {
        0 => return Err(not_found(&path, &before, &args.old_string)),
        1 => {}
        many if !args.replace_all => {
            return Err(Failure::tool(format!(
                "old_string occurs {many} times in {path} ({}); add the lines around the one you mean, or set \
                 replace_all to true",
                line_list(&lines)
            )));
        }
        _ => {}
    }
    let growth = starts.len().saturating_mul(new.len().saturating_sub(old.len()));
    if (before.len().saturating_add(growth)) as u64 > job.limits.write_bytes {
        return Err(Failure::tool(format!(
            "{path} would grow beyond {}; replace less at once",
            text::size(job.limits.write_bytes)
        )));
    }
    let after = before.replace(&old, &new);
    Ok(Edit { path, target, before, after, lines })
}

fn content(job: &Job, path: &ToolPath, target: &Target) -> Result<String, Failure> {
    let Some(existing) = &target.existing else {
        // The jail knows what could have been meant.
        return Err(job
            .jail
            .open_file(path)
            .err()
            .unwrap_or_else(|| Failure::path(format!("{path} is not there; write_file makes new files"))));
    };
    let Some(bytes) = &existing.content else {
        return Err(Failure::tool(format!(
            "{path} has {}; edit_file takes files up to {}, so change it with run_bash_command",
            text::size(existing.size),
            text::size(job.limits.write_bytes)
        )));
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Failure::tool(format!(
            "{path} is not UTF-8, and an edit would damage it; convert it first (`iconv`), or change it with \
             run_bash_command"
        ))),
    }
}

/// The strings with the line ends of the file: models see and write `\n` where a file has `\r\n`.
fn with_line_ends_of(before: &str, old: &str, new: &str) -> (String, String) {
    let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let all_crlf = before.contains("\r\n") && before.matches('\n').count() == before.matches("\r\n").count();
    if all_crlf {
        return (crlf(old), crlf(new));
    }
    if !before.contains(old) && before.contains(&crlf(old)) {
        return (crlf(old), crlf(new));
    }
    (old.to_owned(), new.to_owned())
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
            let cause = if score == 1.0 { "the white space or a later line differs; " } else { "" };
            Failure::tool(format!(
                "old_string is not in {path}; {cause}the nearest place is line {}:\n{}",
                start + 1,
                shown.join("\n")
            ))
        }
        _ => Failure::tool(format!("old_string is not in {path}, nor anything like it; read the file again")),
    }
}
