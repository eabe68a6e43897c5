//! Common code of the tools that look at source code: the folder that a call means, and answers as a model reads them.
//!
//! Answers come from a process that has parsed foreign text. Each path in them is read as a call would write it, and the
//! rules decide on it, before anything of its file is shown.

pub(crate) mod find_symbol;
pub(crate) mod outline;
pub(crate) mod repo_map;
pub(crate) mod search_code;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agentd_core::{
    code::{CodeAnswer, CodeIndexState, CodeProgress, CodeQuestion},
    error::ErrorKind,
    ports::{CallProgress, OnCodeProgress, ReadRules, ToolContext, Workspace},
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    text,
};

use super::call::Call;

/// Longest query or name, in bytes.
const MAX_WORDS: usize = 2000;

/// Folder of the person that a call looks at.
#[derive(Debug, Clone)]
struct CodeScope {
    /// Its real path.
    folder: PathBuf,
    /// The path that tools use for it.
    root: ToolPath,
    /// File or folder within, below which the call looks; empty for all.
    below: String,
}

impl CodeScope {
    /// The folder of a path: the project's where none is named.
    async fn of(call: Call<'_>, written: Option<String>) -> Result<Self, Failure> {
        call.code()?;
        call.work(written, Self::prepare).await
    }

    fn prepare(job: &Job, written: Option<String>) -> Result<Self, Failure> {
        let path = match written.as_deref() {
            None | Some("" | "." | "/") => ToolPath::root(PathPlace::Project),
            Some(written) => job.files.meant(written)?,
        };
        let folder =
            mounted(job.files.jail.workspace(), &path).ok_or_else(|| no_code(job.files.jail.workspace(), &path))?;
        // Says what is wrong with it where it is neither.
        if !job.files.is_folder(&path)? {
            job.files.open_file(&path)?;
        }
        Ok(Self { folder, root: ToolPath::root(path.place()), below: path.rest().to_owned() })
    }

    /// The file or folder as tools write it.
    fn shown(&self) -> String {
        self.path(&self.below).unwrap_or_else(|| self.root.clone()).to_string()
    }

    /// The path of an answer as tools write it; none for one that no tool could name.
    fn path(&self, below: &str) -> Option<ToolPath> {
        let path = below.split('/').fold(self.root.clone(), |path, name| path.entry(name));
        ToolPath::parse(&path.written()).ok().filter(|again| *again == path)
    }

    /// Asks about the folder.
    async fn ask(&self, call: Call<'_>, question: CodeQuestion) -> Result<(CodeAnswer, CodeIndexState), Failure> {
        let context = call.context;
        let asked =
            call.code()?.ask(self.folder.clone(), question, telling(&context.progress), context.cancel.clone()).await;
        let reply = asked.map_err(|error| {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            match error.kind() {
                _ if context.cancel.is_cancelled() => Failure::cancelled(),
                ErrorKind::Busy => Failure::tool(format!("{error}; try again")),
                _ => Failure::tool(format!("{error}{hint}")),
            }
        })?;
        Ok((reply.answer, reply.index))
    }
}

/// Real path of the folder of the person that a path is in.
fn mounted(workspace: &Workspace, path: &ToolPath) -> Option<PathBuf> {
    match path.place() {
        PathPlace::Project => workspace.project.as_ref().map(|mount| mount.path.clone()),
        PathPlace::Folder(name) => workspace.folder(name.as_str()).map(|folder| folder.path.clone()),
        PathPlace::Own | PathPlace::Memories | PathPlace::State => None,
    }
}

fn no_code(workspace: &Workspace, path: &ToolPath) -> Failure {
    let folders: Vec<&str> = workspace.folders.iter().map(|folder| folder.at.as_str()).collect();
    let hint = match (&workspace.project, folders.as_slice()) {
        (None, []) => "no project is mounted in this session; use grep and find_files".to_owned(),
        (None, folders) => format!("name an added folder as path: {}", folders.join(", ")),
        (Some(_), _) => format!("{path} is not part of the project; leave out path, or use grep"),
    };
    Failure::path(format!("code is looked up in the project and in added folders: {hint}"))
}

/// Paths of answers, as far as the rules let them be shown.
struct ShownPaths<'a> {
    scope: &'a CodeScope,
    reading: &'a ReadRules,
    known: HashMap<String, Option<String>>,
}

impl<'a> ShownPaths<'a> {
    fn new(scope: &'a CodeScope, context: &'a ToolContext) -> Self {
        Self { scope, reading: &context.reading, known: HashMap::new() }
    }

    /// The path of a file as it is shown; none where it may not be.
    fn show(&mut self, below: &str) -> Option<String> {
        if let Some(known) = self.known.get(below) {
            return known.clone();
        }
        let path = self.scope.path(below).map(|path| path.to_string());
        let shown = path.filter(|path| self.reading.allow(path));
        self.known.insert(below.to_owned(), shown.clone());
        shown
    }
}

/// Words about what an answer leaves out. Not what the rules withhold: that something was would tell that it is there.
fn notes(index: &CodeIndexState) -> String {
    let mut notes = String::new();
    if index.is_truncated {
        notes.push_str("\n[the folder has more files than are indexed; grep searches all of them]");
    }
    if index.is_partial {
        notes.push_str("\n[a part of the folder could not be listed]");
    }
    if !index.unread.is_empty() {
        let unread =
            index.unread.iter().map(|(why, count)| format!("{} ({})", text::count(*count, "file"), why.name()));
        notes.push_str(&format!("\n[not indexed: {}; grep searches texts]", unread.collect::<Vec<_>>().join(", ")));
    }
    notes
}

/// The files among which there was nothing.
fn among(scope: &CodeScope, index: &CodeIndexState) -> String {
    let files = text::count(index.within, "file");
    match (scope.below.is_empty(), index.within) {
        (true, _) => files,
        (false, 0) => {
            format!("{}, of which nothing is indexed: it is ignored by git, hidden, or no text", scope.shown())
        }
        (false, _) => format!("the {files} of {}", scope.shown()),
    }
}

/// A line of a file that ends no line of the answer.
fn one_line(line: &str) -> String {
    const LONGEST: usize = 200;
    let plain: String =
        line.chars().map(|letter| if letter.is_control() && letter != '\t' { ' ' } else { letter }).collect();
    let (start, more) = text::first_chars(&plain, LONGEST);
    format!("{start}{}", if more { "…" } else { "" })
}

/// Refuses what is no query or name.
fn check_words(field: &str, words: &str) -> Result<(), Failure> {
    if words.trim().is_empty() || words.len() > MAX_WORDS {
        return Err(Failure::arguments(format!("`{field}` must have from 1 to {MAX_WORDS} bytes")));
    }
    Ok(())
}

/// An answer to another question: the reader is broken.
fn odd_answer() -> Failure {
    Failure::tool("the reader of code answered another question; use grep")
}

fn telling(progress: &CallProgress) -> OnCodeProgress {
    let progress = progress.clone();
    Arc::new(move |CodeProgress { done, total }| progress.tell(&format!("indexing code: {done} of {total} files")))
}
