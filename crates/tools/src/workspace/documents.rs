//! Which files of a session are documents, and those open.

use std::ops::ControlFlow;

use agentd_core::{Timestamp, error::WorkspaceError, files::SessionTree, knowledge::OpenDocument};
use tokio_util::sync::CancellationToken;

use super::{
    backend::{Backend as _, Files},
    browse,
    jail::Root,
    path::ToolPath,
    walk::{Kind, Left, Walk},
};
use crate::{failure::Failure, job::Job, toolbox::Limits};

/// Documents that are open at once at the most.
pub(crate) const MAX_OPEN: usize = 300;

/// Whether a name is worth a look into the file: a project may have a hundred thousand others.
pub(crate) fn has_document_name(name: &str) -> bool {
    const ENDINGS: [&str; 12] =
        ["pdf", "docx", "docm", "dotx", "xlsx", "xlsm", "xltx", "xls", "ods", "pptx", "pptm", "ppsx"];
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// The file of that path, or the documents in that folder and below it, by their names.
pub(super) fn open(
    tree: &SessionTree,
    path: &str,
    cancel: CancellationToken,
) -> Result<Vec<OpenDocument>, WorkspaceError> {
    let files = browse::open(tree, Timestamp::UNIX_EPOCH);
    opened(&files, if path.is_empty() { "." } else { path }, cancel).map_err(browse::refused)
}

fn opened(files: &Files, path: &str, cancel: CancellationToken) -> Result<Vec<OpenDocument>, Failure> {
    let start = browse::located(files, path)?;
    if !files.is_folder(&start)? {
        return Ok(vec![document(files, &start)?]);
    }
    let job = Job::new(files.clone(), Limits::default(), cancel);
    let mut documents: Vec<OpenDocument> = Vec::new();
    let mut count = 0;
    for place in files.places(&start) {
        if count >= MAX_OPEN {
            break;
        }
        let mut found: Vec<ToolPath> = Vec::new();
        Walk::whole(false).run(&job, &place, &mut Left::default(), &mut |entry| {
            if entry.kind == Kind::File && has_document_name(&entry.path.to_string()) {
                found.push(entry.path.clone());
            }
            let is_enough = count + found.len() >= MAX_OPEN;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        job.check()?;
        count += found.len();
        // What is kept in the state is text, and no document.
        let Ok(root) = Root::open(&files.jail, place.place()) else { continue };
        let opened =
            |path: &ToolPath| Some(OpenDocument { name: path.to_string(), file: root.open_regular(path).ok()? });
        // One that went away or may not be read is no reason to show none.
        documents.extend(found.iter().filter_map(opened));
    }
    documents.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(documents)
}

fn document(files: &Files, path: &ToolPath) -> Result<OpenDocument, Failure> {
    let file = files.open_file(path)?.content.into_file();
    let file = file.ok_or_else(|| Failure::tool(format!("{path} is kept as text and cannot be read as a document")))?;
    Ok(OpenDocument { name: path.to_string(), file })
}
