//! `write_file`: a whole new file, or a whole new content.

use agentd_core::tool::{FileChange, FileChangeKind, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{diff, failure::Failure, job::Job, text, workspace::target::Target};

pub(crate) const DESCRIPTION: &str = "Writes a whole text file, making it and its folders where they are missing and \
    replacing what is there. Only uploads/, outputs/, temp/ and a writable /project can be written; results for the \
    user belong in outputs/. To change a part of a file use edit_file.";

pub(crate) fn parameters() -> Value {
    super::object(
        json!({
            "path": {"type": "string", "description": "The file, such as outputs/report.md."},
            "content": {"type": "string", "description": "The whole content."}
        }),
        &["path", "content"],
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    path: String,
    content: String,
}

pub(crate) fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let (path, target) = open(job, &args)?;
    let size = text::size(args.content.len() as u64);
    let change = match &target.existing {
        Some(existing) if existing.content.as_deref() == Some(args.content.as_bytes()) => {
            return Ok(ToolOutput::ok(format!("{path} already had this content ({size}); nothing was changed")));
        }
        Some(_) => FileChangeKind::Modified,
        None => FileChangeKind::Created,
    };
    target.replace(args.content.as_bytes())?;
    let done = if change == FileChangeKind::Created { "Created" } else { "Replaced" };
    let lines = text::count(args.content.lines().count(), "line");
    let mut output = ToolOutput::ok(format!("{done} {path} ({size}, {lines})."));
    output.files.push(FileChange::new(path, change));
    Ok(output)
}

pub(crate) fn preview(job: &Job, args: Args) -> Result<String, Failure> {
    let (path, target) = open(job, &args)?;
    match &target.existing {
        Some(existing) => Ok(match &existing.content {
            Some(before) => diff::unified(&path, Some(before), args.content.as_bytes()),
            None => {
                let sizes = (text::size(existing.size), text::size(args.content.len() as u64));
                format!("{path}: {} are replaced by {}", sizes.0, sizes.1)
            }
        }),
        None => Ok(diff::unified(&path, None, args.content.as_bytes())),
    }
}

fn open(job: &Job, args: &Args) -> Result<(String, Target), Failure> {
    job.check()?;
    if args.content.len() as u64 > job.limits.write_bytes {
        return Err(Failure::arguments(format!(
            "the content has {}; write_file takes at most {}",
            text::size(args.content.len() as u64),
            text::size(job.limits.write_bytes)
        )));
    }
    let path = job.jail.locate(&args.path)?;
    let target = Target::open(&job.jail, &path, job.limits.write_bytes)?;
    Ok((path.to_string(), target))
}
