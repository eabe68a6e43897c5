//! `write_file`: a whole new file, or a whole new content.
//!
//! A file that is replaced keeps its encoding, its byte order mark and its line ends, since the model wrote text and
//! saw none of them.

use std::borrow::Cow;

use agentd_core::tool::{FileChange, FileChangeKind, ToolOutput};
use agentd_workspace::{
    backend::Backend as _,
    diff,
    encoding::{self, Charset, Document},
    failure::Failure,
    jail::Aim,
    job::Job,
    path::ToolPath,
    target::Target,
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, PathsOf, Tool};

/// Writes a whole text file. Creates it and its folders if they are missing, and replaces existing content. Only uploads/,
/// outputs/, temp/, /memories, /state and a writable /project or /folders/NAME can be written; a path without one of these names in front
/// means the project, where one is mounted. Results for the user belong in outputs/, notes for yourself in /state, what
/// later sessions should know in /memories. To change part of a file use edit_file.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, such as outputs/report.md.
    path: String,
    /// The whole content.
    content: String,
}

/// A write that happens unless the file changes first.
struct PlannedWrite {
    path: ToolPath,
    target: Target,
    content: Vec<u8>,
    /// Properties that are kept of the replaced file and that a new file would not have.
    kept: Vec<&'static str>,
}

impl Tool for Args {
    const NAME: &'static str = "write_file";
    const PATHS: Option<PathsOf<Self>> = Some(|jail, args| Ok(vec![jail.meant(&args.path, Aim::Write)?]));

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.write(self, run).await
    }

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        call.work(self, preview).await.map(Some)
    }
}

fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let PlannedWrite { path, target, content, kept } = plan(job, &args)?;
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
    // Of a file that was not read nothing is compared.
    let shown = (before != Some(None)).then(|| {
        diff::of_change(before.flatten(), &args.content, |before| diff::written(&name, before, &args.content))
    });
    target.replace(&content)?;
    let done = if change == FileChangeKind::Created { "Created" } else { "Replaced" };
    let lines = text::count(args.content.lines().count(), "line");
    let kept = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
    let mut output = ToolOutput::ok(format!("{done} {path} ({size}, {lines}{kept})."));
    output.files.push(FileChange::new(name, change));
    output.details = shown.flatten();
    Ok(output)
}

fn preview(job: &Job, args: Args) -> Result<String, Failure> {
    let PlannedWrite { path, target, content, .. } = plan(job, &args)?;
    let path = path.to_string();
    let Some(existing) = &target.existing else { return Ok(diff::written(&path, None, &args.content)) };
    Ok(match &existing.content {
        Some(before) if *before == content => format!("{path} already has this content"),
        Some(before) => diff::written(&path, Some(before), &args.content),
        None => {
            // It is not read, so this is what tells its versions apart.
            let changed = existing.changed.map(|at| format!(" (last changed {at})")).unwrap_or_default();
            let what = format!("{}{changed} are replaced", text::size(existing.size));
            diff::replaced(&path, &what, &args.content)
        }
    })
}

fn plan(job: &Job, args: &Args) -> Result<PlannedWrite, Failure> {
    job.check()?;
    let too_large = |size: usize| {
        Failure::arguments(format!(
            "the content has {}; write_file takes at most {}",
            text::size(size as u64),
            text::size(job.limits.write_bytes)
        ))
    };
    if args.content.len() as u64 > job.limits.write_bytes {
        return Err(too_large(args.content.len()));
    }
    let path = job.files.meant_to_write(&args.path)?;
    let target = job.files.target(&path, job.limits.write_bytes)?;
    let (content, kept) = as_before(&path, &target, &args.content)?;
    // The same text can have more bytes in the encoding of the file.
    if content.len() as u64 > job.limits.write_bytes {
        return Err(too_large(content.len()));
    }
    Ok(PlannedWrite { path, target, content, kept })
}

/// The content as the file would have it that is there.
fn as_before(path: &ToolPath, target: &Target, written: &str) -> Result<(Vec<u8>, Vec<&'static str>), Failure> {
    let plain = || Ok((written.as_bytes().to_vec(), Vec::new()));
    let Some(before) = target.existing.as_ref().and_then(|existing| existing.content.as_deref()) else {
        return plain();
    };
    let Ok(document) = Document::read(before.to_vec()) else { return plain() };
    let mut kept = Vec::new();
    let mut charset = document.charset();
    if !charset.sure && !written.is_ascii() {
        // A guess is no reason to write anything but what every reader knows.
        charset = Charset::UTF_8;
    }
    kept.extend(charset.name().filter(|_| charset.is_utf16() || !written.is_ascii()));
    let mark = &before[..charset.bom];
    if !mark.is_empty() {
        kept.push("the byte order mark");
    }
    let text = match document.line_end() {
        // Who writes `\r` at all means the line ends as they are written.
        Some(end @ ("\r\n" | "\r")) if !written.contains('\r') && written.contains('\n') => {
            kept.push(if end == "\r" { "CR line ends" } else { "CRLF line ends" });
            Cow::Owned(written.replace('\n', end))
        }
        _ => Cow::Borrowed(written),
    };
    let text = if mark.is_empty() { &*text } else { text.strip_prefix('\u{feff}').unwrap_or(&text) };
    let encoded = encoding::encode(text, charset).map_err(|unwritable| {
        let Failure { code, text } = unwritable.failure(path);
        Failure::new(code, format!("{text}; or remove the file before you write it in UTF-8"))
    })?;
    Ok(([mark, &encoded].concat(), kept))
}
