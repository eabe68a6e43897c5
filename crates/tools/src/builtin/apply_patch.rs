//! `apply_patch`: changes several files at once, or none if a change fails.
//!
//! Before the first write, all files are read, and all changes are positioned, encoded and checked. If a write fails
//! nevertheless, the earlier writes are reverted.

use std::ops::Range;

use agentd_core::tool::{FileChange, FileChangeKind, ToolDetails, ToolOutput};
use agentd_workspace::{
    backend::Backend as _,
    diff,
    encoding::{Document, Edit, RevisedText},
    failure::Failure,
    jail::{Jail, OpenPurpose},
    job::{Job, UNQUOTED},
    path::ToolPath,
    target::Target,
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, PathsOf, Tool};
use crate::patch::{self, Change, FilePatch, Hunk};

/// Changes, adds, moves and deletes text files: the whole patch is applied, or nothing. Accepts a unified diff
/// (--- a/PATH, +++ b/PATH, @@ hunks; /dev/null for created or deleted files) or the format *** Begin Patch,
/// *** Update File: PATH (or Add File, Delete File; *** Move to: PATH), @@ LINE ABOVE, lines prefixed with a space, - or
/// +, *** End Patch. Include about three unchanged lines around each change, exactly as in the file; line numbers may be
/// off. Read the files first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The whole patch.
    patch: String,
}

/// Change to one file.
pub(super) struct Step {
    pub(super) path: ToolPath,
    pub(super) target: Target,
    /// New content, or `None` if the file is deleted.
    pub(super) content: Option<Vec<u8>>,
    /// Diff for the user.
    pub(super) shown: String,
    /// Summary for the model.
    pub(super) summary: String,
}

impl Tool for Args {
    const NAME: &'static str = "apply_patch";
    const PATHS: Option<PathsOf<Self>> = Some(paths);

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.write(self, |job, args| apply_steps(job, &plan(job, &args)?, "Applied the patch")).await
    }

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        call.work(move |job| plan(job, &self).map(|steps| combined_diff(&steps))).await.map(Some)
    }
}

/// Returns the files named in a patch.
fn paths(jail: &Jail, args: &Args) -> Result<Vec<ToolPath>, Failure> {
    let mut paths = Vec::new();
    for file in patch::parse(&args.patch)? {
        paths.push(jail.resolve_path(&file.path, OpenPurpose::Write)?);
        if let Change::Update { moved_to: Some(to), .. } = &file.change {
            paths.push(jail.resolve_path(to, OpenPurpose::Write)?);
        }
    }
    Ok(paths)
}

/// Combines the diffs of all changes, for the user.
pub(super) fn combined_diff(steps: &[Step]) -> String {
    steps.iter().map(|step| step.shown.as_str()).collect()
}

impl Step {
    fn change(&self) -> FileChangeKind {
        match (&self.content, &self.target.existing) {
            (None, _) => FileChangeKind::Deleted,
            (Some(_), Some(_)) => FileChangeKind::Modified,
            (Some(_), None) => FileChangeKind::Created,
        }
    }
}

// --- Planning ---

fn plan(job: &Job, args: &Args) -> Result<Vec<Step>, Failure> {
    let limit = job.limits.write_bytes;
    if args.patch.len() as u64 > limit {
        return Err(Failure::arguments(format!("the patch exceeds {}; split it", text::size(limit))));
    }
    let mut plan = Plan { job, steps: Vec::new(), misfits: Vec::new() };
    for file in patch::parse(&args.patch)? {
        job.check()?;
        plan.file(&file)?;
    }
    if plan.misfits.is_empty() { Ok(plan.steps) } else { Err(plan.failure()) }
}

struct Plan<'j> {
    job: &'j Job,
    steps: Vec<Step>,
    /// Descriptions of hunks that do not fit.
    misfits: Vec<String>,
}

impl Plan<'_> {
    fn file(&mut self, file: &FilePatch) -> Result<(), Failure> {
        let path = self.job.files.resolve_for_write(&file.path)?;
        let target = self.open(&path)?;
        match &file.change {
            Change::Add { content } => self.add(path, target, content),
            Change::Delete { hunks } => self.delete(path, target, hunks.as_deref()),
            Change::Update { hunks, moved_to: None } => self.update(path, target, hunks),
            Change::Update { hunks, moved_to: Some(to) } => {
                let to = self.job.files.resolve_for_write(to)?;
                self.move_to(path, target, hunks, to)
            }
        }
    }

    fn open(&self, path: &ToolPath) -> Result<Target, Failure> {
        let target = self.job.files.target(path, self.job.limits.write_bytes)?;
        match self.steps.iter().find(|step| step.target.is_file_of(&target)) {
            Some(other) if other.path == *path => Err(Failure::arguments(format!(
                "the patch lists {path} twice; nothing was changed: put all changes of a file under one header"
            ))),
            Some(other) => Err(Failure::arguments(format!(
                "the patch lists one file as {} and as {path}; nothing was changed: use one path",
                other.path
            ))),
            None => Ok(target),
        }
    }

    fn add(&mut self, path: ToolPath, target: Target, content: &str) -> Result<(), Failure> {
        if target.existing.is_some() {
            return Err(Failure::tool(format!(
                "the patch adds {path}, which already exists; nothing was changed: update it with hunks, or replace \
                 it with write_file"
            )));
        }
        check_size(self.job, &path, content.len())?;
        self.steps.push(Step {
            shown: diff::of_texts(&path.to_string(), None, content),
            summary: format!("created {path} ({})", text::count(content.lines().count(), "line")),
            path,
            target,
            content: Some(content.as_bytes().to_vec()),
        });
        Ok(())
    }

    fn delete(&mut self, path: ToolPath, target: Target, hunks: Option<&[Hunk]>) -> Result<(), Failure> {
        let before = self.content(&path, &target)?.to_vec();
        if let Some(hunks) = hunks {
            let document = target.document(self.job.limits.write_bytes)?;
            let Some(edits) = self.edits(&path, &document, hunks) else { return Ok(()) };
            let lines = document.text().lines().count();
            if edits.removed < lines || edits.added > 0 {
                let problem = if self.job.may_quote(&path) {
                    let (named, all) = (edits.removed, text::count(lines, "line"));
                    format!("lists {named} of its {all}; nothing was changed: read it again, or delete")
                } else {
                    format!("does not list all of its lines; nothing was changed: {UNQUOTED}. Delete")
                };
                let text =
                    format!("the patch deletes {path} but {problem} it regardless with `*** Delete File: {path}`");
                return Err(Failure::tool(text));
            }
        }
        self.steps.push(Step {
            shown: diff::removed(&path.to_string(), &before),
            summary: format!("deleted {path}"),
            path,
            target,
            content: None,
        });
        Ok(())
    }

    fn update(&mut self, path: ToolPath, target: Target, hunks: &[Hunk]) -> Result<(), Failure> {
        let Some((content, shown, summary)) = self.changed(&path, &target, hunks, &path)? else { return Ok(()) };
        if Some(&*content) == target.existing.as_ref().and_then(|existing| existing.content.as_deref()) {
            return Err(Failure::tool(format!(
                "the patch changes only white space in {path} that is preserved (such as line endings); \
                 nothing was changed"
            )));
        }
        self.steps.push(Step {
            summary: format!("modified {path} {summary}"),
            path,
            target,
            content: Some(content),
            shown,
        });
        Ok(())
    }

    fn move_to(&mut self, path: ToolPath, target: Target, hunks: &[Hunk], to: ToolPath) -> Result<(), Failure> {
        if path == to {
            return Err(Failure::arguments(format!("the patch moves {path} to itself; nothing was changed")));
        }
        let new = self.open(&to)?;
        if new.existing.is_some() {
            return Err(Failure::tool(format!(
                "the patch moves {path} to {to}, which already exists; nothing was changed: delete it first, or \
                 choose another name"
            )));
        }
        let new = new.with_mode_of(&target);
        let mut shown = format!("rename from {path}\nrename to {to}\n");
        let (content, summary) = if hunks.is_empty() {
            (self.content(&path, &target)?.to_vec(), String::new())
        } else {
            let Some((content, diff, summary)) = self.changed(&path, &target, hunks, &to)? else { return Ok(()) };
            shown.push_str(&diff);
            (content, format!(" {summary}"))
        };
        let summary = format!("moved {path} to {to}{summary}");
        self.steps.push(Step { path: to, target: new, content: Some(content), shown, summary });
        self.steps.push(Step { path, target, content: None, shown: String::new(), summary: String::new() });
        Ok(())
    }

    /// Applies hunks to a file. Returns the new content, the diff under the new `name`, and a summary. Returns `None`
    /// if the hunks do not fit, and describes the problem in `misfits`.
    fn changed(
        &mut self,
        path: &ToolPath,
        target: &Target,
        hunks: &[Hunk],
        name: &ToolPath,
    ) -> Result<Option<(Vec<u8>, String, String)>, Failure> {
        let document = target.document(self.job.limits.write_bytes)?;
        let Some(edits) = self.edits(path, &document, hunks) else { return Ok(None) };
        let normal = edits.edits.into_iter().map(|(range, new)| (range, document.normal(&new))).collect();
        let revised = revised(self.job, path, &document, normal)?;
        let note = if edits.inexact { ", ignoring white space differences" } else { "" };
        let shown = diff::of_texts(&name.to_string(), Some(document.text()), &revised.text);
        Ok(Some((revised.bytes, shown, format!("(+{} -{}{note})", edits.added, edits.removed))))
    }

    fn content<'t>(&self, path: &ToolPath, target: &'t Target) -> Result<&'t [u8], Failure> {
        let Some(existing) = &target.existing else {
            let missing = self.job.files.open_file(path).err();
            return Err(missing.unwrap_or_else(|| Failure::path(format!("{path} does not exist"))));
        };
        existing.content.as_deref().ok_or_else(|| {
            Failure::tool(format!(
                "{path} is {} large; apply_patch supports files up to {}, so use run_bash_command",
                text::size(existing.size),
                text::size(self.job.limits.write_bytes)
            ))
        })
    }

    /// Converts hunks to edits. Describes hunks that do not fit, and quotes the file only if the rules allow reading
    /// it.
    fn edits(&mut self, path: &ToolPath, document: &Document, hunks: &[Hunk]) -> Option<patch::Edits> {
        match patch::apply(document.text(), hunks) {
            Ok(edits) => return Some(edits),
            Err(misfits) if self.job.may_quote(path) => {
                self.misfits.extend(misfits.into_iter().map(|summary| format!("{path}: {summary}")));
            }
            Err(_) => self.misfits.push(format!("{path}: some hunks do not match; {UNQUOTED}")),
        }
        None
    }

    fn failure(self) -> Failure {
        const SHOWN: usize = 5;
        let more = self.misfits.len().saturating_sub(SHOWN);
        let mut summary = self.misfits[..self.misfits.len() - more].join("\n");
        if more > 0 {
            summary.push_str(&format!("\n(and {} more)", text::count(more, "hunk")));
        }
        Failure::tool(format!("the patch does not apply; nothing was changed.\n{summary}"))
    }
}

/// Applies edits to a document, unless the result is too large.
pub(super) fn revised(
    job: &Job,
    path: &ToolPath,
    document: &Document,
    edits: Vec<(Range<usize>, String)>,
) -> Result<RevisedText, Failure> {
    let edits: Vec<Edit<'_>> = edits.iter().map(|(range, new)| Edit { range: range.clone(), new }).collect();
    let revised = document.revise(&edits).map_err(|unwritable| unwritable.failure(path))?;
    check_size(job, path, revised.bytes.len())?;
    Ok(revised)
}

fn check_size(job: &Job, path: &ToolPath, size: usize) -> Result<(), Failure> {
    let limit = job.limits.write_bytes;
    if size as u64 <= limit {
        return Ok(());
    }
    Err(Failure::tool(format!("{path} would exceed {}; nothing was changed", text::size(limit))))
}

// --- Applying ---

/// Applies the steps: writes first and removals last, so that a moved file never disappears. The result starts with
/// `heading`.
pub(super) fn apply_steps(job: &Job, steps: &[Step], heading: &str) -> Result<ToolOutput, Failure> {
    job.check()?;
    let (writes, removals): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.content.is_some());
    let mut done = Vec::new();
    for step in writes.into_iter().chain(removals) {
        let created = step.target.missing_folders();
        let result = match &step.content {
            Some(content) => step.target.replace(content),
            None => step.target.remove(),
        };
        if let Err(failure) = result {
            step.target.remove_empty_folders(&created);
            return Err(roll_back_all(job, &done, failure));
        }
        done.push((step, created));
    }
    let summary: Vec<&str> =
        steps.iter().map(|step| step.summary.as_str()).filter(|summary| !summary.is_empty()).collect();
    let mut output = ToolOutput::ok(format!("{heading}: {}.", summary.join("; ")));
    output.files = steps.iter().map(|step| FileChange::new(step.path.to_string(), step.change())).collect();
    output.details = Some(Box::new(ToolDetails::of_diff(&combined_diff(steps))));
    Ok(output)
}

/// Reverts the completed steps in reverse order, and adds the outcome to the failure message.
fn roll_back_all(job: &Job, done: &[(&Step, Vec<std::path::PathBuf>)], failure: Failure) -> Failure {
    let mut stuck = Vec::new();
    for (step, created) in done.iter().rev() {
        match roll_back(job, step) {
            Ok(()) => step.target.remove_empty_folders(created),
            Err(error) => stuck.push(format!("{} ({error})", step.path)),
        }
    }
    let outcome = match (done.is_empty(), stuck.is_empty()) {
        (true, _) => "nothing was changed".to_owned(),
        (false, true) => format!("{} rolled back, so nothing was changed", text::count(done.len(), "file")),
        (false, false) => format!("these files remain changed: {}", stuck.join("; ")),
    };
    Failure::new(failure.code, format!("{}; {outcome}", failure.text))
}

fn roll_back(job: &Job, step: &Step) -> Result<(), Failure> {
    let now = job.files.target(&step.path, job.limits.write_bytes)?;
    let content = now.existing.as_ref().and_then(|existing| existing.content.as_deref());
    if content != step.content.as_deref() {
        return Err(Failure::tool("it has been changed since"));
    }
    match step.target.existing.as_ref().and_then(|existing| existing.content.as_deref()) {
        Some(before) => now.with_mode_of(&step.target).replace(before),
        None => now.remove(),
    }
}
