//! Finds and opens the documents among a session's files, and lists the files to which a model's arguments may be
//! restricted.

use std::{cmp::Reverse, ops::ControlFlow, time::SystemTime};

use agentd_core::{
    Timestamp,
    error::WorkspaceError,
    files::SessionTree,
    knowledge::{DocumentPage, OpenDocument, has_archive_name, has_document_name, split_archive_path},
};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{Backend as _, Files},
    browse,
    failure::Failure,
    job::Job,
    limits::Limits,
    path::{PathPlace, ToolPath},
    walk::{Kind, UnreadEntries, Walk},
};

/// Maximum number of documents open at once.
pub const MAX_OPEN: usize = 300;

/// Returns true if a file was uploaded, or is in one of the user's folders.
pub fn is_attached(path: &str) -> bool {
    ["uploads/", "project/", "folders/"].iter().any(|area| path.trim_start_matches('/').starts_with(area))
}

/// Returns the reason why a search over all documents skips a file of this name, or `None` if the file is searched.
/// Images require slow text recognition, and there are too many code files. Image and code files in folders are only
/// searched if a call names them.
pub fn left_out(path: &str) -> Option<&'static str> {
    const TEXTS: [&str; 12] =
        ["adoc", "csv", "htm", "html", "log", "markdown", "md", "org", "rst", "tex", "tsv", "txt"];
    const CODE: [&str; 27] = [
        "c", "cc", "cfg", "cpp", "cs", "css", "go", "h", "hpp", "ini", "java", "js", "json", "jsonl", "lua", "php",
        "py", "rb", "rs", "sh", "sql", "toml", "ts", "tsx", "xml", "yaml", "yml",
    ];
    const PICTURES: [&str; 8] = ["png", "jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp"];
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let is_upload = path.trim_start_matches('/').starts_with("uploads/");
    match &*ending {
        _ if has_document_name(path) => None,
        _ if has_archive_name(path) && is_attached(path) => None,
        text if TEXTS.contains(&text) && is_attached(path) => None,
        picture if PICTURES.contains(&picture) => (!is_upload).then_some("pictures; use search_file on each"),
        code if CODE.contains(&code) => (!is_upload).then_some("code and data; use grep"),
        _ => Some("other kinds"),
    }
}

/// Range of documents in a folder.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Number of documents skipped at the beginning.
    pub skip: usize,
    /// Maximum number of opened documents.
    pub limit: usize,
}

/// Opens the file at `path`, or the documents in and below that folder, sorted by name.
pub fn open(
    tree: &SessionTree,
    path: &str,
    range: Range,
    cancel: CancellationToken,
) -> Result<DocumentPage, WorkspaceError> {
    let files = &browse::open(tree, Timestamp::UNIX_EPOCH);
    let path = if path.is_empty() { "." } else { path };
    let Range { skip, limit } = Range { limit: range.limit.min(MAX_OPEN), ..range };
    let single = |path: &ToolPath| -> Result<DocumentPage, WorkspaceError> {
        let documents = if skip == 0 && limit > 0 { vec![document(files, path)?] } else { Vec::new() };
        Ok(DocumentPage { documents, found: 1_usize.saturating_sub(skip), cut: None })
    };
    if let Some((archive, inner)) = split_archive_path(path)
        && !browse::locate(files, path).is_ok_and(|whole| files.open_file(&whole).is_ok())
    {
        let mut page = single(&browse::locate(files, archive)?)?;
        for document in &mut page.documents {
            document.name = format!("{}!/{inner}", document.name);
            document.inner = Some(inner.to_owned());
        }
        return Ok(page);
    }
    let start = browse::locate(files, path)?;
    if !files.is_folder(&start)? {
        return single(&start);
    }
    let job = Job::new(files.clone(), Limits::default(), cancel);
    let mut page = DocumentPage::default();
    let mut seen = 0;
    for place in files.places(&start) {
        let mut wanted: Vec<ToolPath> = Vec::new();
        let mut left = UnreadEntries::default();
        Walk::whole(false).run(&job, &place, &mut left, &mut |entry| {
            let name = entry.path.to_string();
            if entry.kind == Kind::File && left_out(&name).is_none() {
                seen += 1;
                if seen > skip {
                    page.found += 1;
                    if page.found <= limit {
                        wanted.push(entry.path.clone());
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        job.check()?;
        page.cut = page.cut.or_else(|| left.cut.map(str::to_owned));
        // State files are plain text and never documents.
        let opened = |path: &ToolPath| Some(OpenDocument::new(path.to_string(), files.jail.open_regular(path).ok()?.0));
        // Files that have disappeared or cannot be read are skipped.
        page.documents.extend(wanted.iter().filter_map(opened));
    }
    page.documents.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(page)
}

fn document(files: &Files, path: &ToolPath) -> Result<OpenDocument, Failure> {
    let file = files.open_file(path)?.content.into_file();
    let file =
        file.ok_or_else(|| Failure::tool(format!("{path} is stored as text and cannot be read as a document")))?;
    Ok(OpenDocument::new(path.to_string(), file))
}

/// Lists at most `limit` files: the session's own, newest first, then the project's, from the top of its tree to the
/// bottom. Users mostly refer to recent uploads, and to files at the top of a folder. `has_own` is false for a session
/// without a folder, which may still have a project.
pub fn paths(job: &Job, has_own: bool, limit: usize) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    let mut left = UnreadEntries::default();
    let mut places = job.files.places(&ToolPath::root(PathPlace::Own));
    places.retain(|place| has_own || place.place() != PathPlace::Own);
    for place in places {
        let is_own = place.place() == PathPlace::Own;
        let walked = Walk::whole(false).run(job, &place, &mut left, &mut |found| {
            if found.kind == Kind::File {
                let depth = if is_own { 0 } else { found.depth };
                let modified = found.modified.unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((depth, Reverse(modified), found.path.to_string()));
            }
            Ok(ControlFlow::Continue(()))
        });
        // An unreadable project is reported by the tool that uses it.
        if is_own {
            walked?;
        }
    }
    files.sort();
    Ok(files.into_iter().take(limit).map(|(_, _, path)| path).collect())
}
