//! Calls with `save_to`: a sheet of a workbook is saved as CSV, a document as text, where commands can use it. The rules
//! judge such a call like a call to `write_file`.

use agentd_core::{
    knowledge::{DocumentExport, OpenDocument},
    ports::Knowledge,
    tool::{FileChange, FileChangeKind, ToolOutput},
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    target::Target,
    text,
};

use super::Args;
use crate::builtin::{call::Call, documents};

/// Describes the new file to the user. Fails if the call would fail, as far as that is known without reading.
pub(super) async fn preview(args: Args, call: Call<'_>) -> Result<String, Failure> {
    let knowledge = call.services.config.knowledge.clone();
    call.work(move |job| {
        let (document, path) = open(job, &args, knowledge.as_deref())?;
        let size = text::size(document.file.metadata().map_or(0, |metadata| metadata.len()));
        Ok(format!("saves {} ({size}) as text to the new file {path}", document.name))
    })
    .await
}

pub(super) async fn run(args: Args, call: Call<'_>) -> Result<ToolOutput, Failure> {
    let (knowledge, request) = (call.services.config.knowledge.clone(), args.clone());
    let (document, _) = call.work(move |job| open(job, &request, knowledge.as_deref())).await?;
    let (knowledge, context, name) = (call.knowledge()?, call.context, document.name.clone());
    let sheet = args.offset.map_or(1, |sheet| u32::try_from(sheet).unwrap_or(u32::MAX));
    let export = |document: OpenDocument| {
        let progress = documents::progress_reporter(&context.progress, "saving");
        knowledge.export(document, sheet, progress, context.cancel.clone())
    };
    let (passwords, doing) = (&call.services.passwords, format!("save {name}"));
    let export = documents::unlock(context, passwords, document, &doing, export).await?;
    call.work(move |job| store(job, &args, &name, &export)).await
}

/// Opens the document, and checks the place of the new file.
fn open(job: &Job, args: &Args, knowledge: Option<&dyn Knowledge>) -> Result<(OpenDocument, ToolPath), Failure> {
    if args.limit.is_some() || args.row.is_some() || args.column.is_some() {
        return Err(Failure::arguments("save_to saves a whole document or sheet; omit limit, row and column"));
    }
    let (target, _) = free_target(job, args)?;
    let (path, inner) = documents::locate(job, &args.path)?;
    let opened = job.files.open_file(&path)?;
    match knowledge.map(|knowledge| documents::document(knowledge, &path, opened)).transpose()? {
        Some(Ok(document)) => Ok((documents::with_inner(document, inner), target)),
        _ => Err(Failure::tool(format!("{path} is not a document; commands open {} as it is", path.written()))),
    }
}

/// Opens the place of the new file. Nothing is replaced, because the model has not seen what it would replace.
fn free_target(job: &Job, args: &Args) -> Result<(ToolPath, Target), Failure> {
    let path = job.files.resolve_for_write(args.save_to.as_deref().unwrap_or_default())?;
    if path.place() == PathPlace::State {
        return Err(Failure::path(format!("{path} cannot be saved to: commands do not see /state; use temp/")));
    }
    let target = job.files.target(&path, 0)?;
    match &target.existing {
        Some(_) => Err(Failure::path(format!("{path} already exists; save to another name"))),
        None => Ok((path, target)),
    }
}

fn store(job: &Job, args: &Args, source: &str, export: &DocumentExport) -> Result<ToolOutput, Failure> {
    job.check()?;
    let (path, target) = free_target(job, args)?;
    target.replace(export.text.as_bytes())?;
    let DocumentExport { content, text, rows, columns, broken } = export;
    let form = match columns {
        0 => text::count(*rows, "line"),
        columns => format!("CSV, {}, {}", text::count(*rows, "row"), text::count(*columns, "column")),
    };
    let bytes = text::count(text.len(), "byte");
    let broken = broken.as_ref().map(|reason| format!("\n[incomplete: {reason}]")).unwrap_or_default();
    let open = path.written();
    let shown = format!("Saved {content} of {source} to {path}: {form}, {bytes}. Commands open {open}.{broken}");
    let files = vec![FileChange::new(path.to_string(), FileChangeKind::Created)];
    Ok(ToolOutput { files, ..ToolOutput::ok(shown) })
}
