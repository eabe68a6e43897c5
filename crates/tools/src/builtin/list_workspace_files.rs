//! `list_workspace_files`: what is there, with sizes.

use std::ops::ControlFlow;

use agentd_core::tool::ToolOutput;
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    text,
    walk::{Kind, UnreadEntries, Walk, WalkEntry},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, Tool};

const DEFAULT_DEPTH: usize = 3;

/// Lists the files and folders of the workspace with their sizes. uploads/ holds the user's files, outputs/ results, temp/
/// scratch files, skills/ instructions; /project is the user's folder where one is mounted, and any other path without a
/// slash in front is in it then, /memories what is remembered in all sessions, /state your own notes in this one. Hidden
/// files are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The folder to list. Leave it out for the whole workspace.
    path: Option<String>,
    /// Levels of folders to show. Default 3.
    #[schemars(range(min = 1, max = 20))]
    depth: Option<usize>,
}

impl Tool for Args {
    const NAME: &'static str = "list_workspace_files";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.work(self, run).await
    }
}

fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let start = job.files.start(args.path.as_deref())?;
    if !job.files.is_folder(&start)? {
        let opened = job.files.open_file(&start)?;
        return Ok(ToolOutput::ok(format!("{start} ({})", text::size(opened.size))));
    }
    let mut left = UnreadEntries::default();
    let mut listing = Listing { lines: Vec::new(), max: job.limits.list_entries, full: false };
    let beside = if start == ToolPath::root(PathPlace::Own) { job.files.beside() } else { Vec::new() };
    for place in job.files.places(&start).into_iter().chain(beside) {
        // Of a project that nobody asked for in particular, the first level tells enough.
        let aside = place != start;
        let max_depth = args.depth.unwrap_or(if aside { 1 } else { DEFAULT_DEPTH });
        if aside || place.place() != PathPlace::Own && place.is_root() {
            listing.lines.push(format!("{place}/"));
        }
        let walk = Walk { max_depth, include_ignored: false, include_kept: true };
        walk.run(job, &place, &mut left, &mut |found| Ok(listing.entry(found)))?;
    }
    Ok(ToolOutput::ok(listing.render(&start, &left)))
}

struct Listing {
    lines: Vec<String>,
    max: usize,
    full: bool,
}

impl Listing {
    fn entry(&mut self, found: &WalkEntry) -> ControlFlow<()> {
        let path = &found.path;
        match found.kind {
            Kind::Folder => self.add(format!("{path}/")),
            Kind::File => self.add(format!("{path} ({})", text::size(found.size))),
            Kind::Link => self.add(format!("{path} (link)")),
            Kind::Other => self.add(format!("{path} (no regular file)")),
        }
    }

    fn add(&mut self, line: String) -> ControlFlow<()> {
        if self.lines.len() == self.max {
            self.full = true;
            return ControlFlow::Break(());
        }
        self.lines.push(line);
        ControlFlow::Continue(())
    }

    fn render(self, start: &ToolPath, left: &UnreadEntries) -> String {
        let mut shown = self.lines;
        if shown.is_empty() {
            shown.push(format!("[{start} is empty]"));
        }
        if self.full {
            shown.push(format!("[only the first {} entries are shown; list a folder of them]", self.max));
        }
        if let Some(cut) = left.cut {
            shown.push(format!("[the list is not complete: {cut}; list a folder of it]"));
        }
        if left.ignored > 0 {
            shown.push(format!("[{} left out, as .gitignore says]", text::count(left.ignored, "entry")));
        }
        if left.unreadable > 0 {
            shown.push(format!("[{} left out: unreadable, or with names that are not text]", left.unreadable));
        }
        shown.join("\n")
    }
}
