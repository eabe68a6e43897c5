//! `find_files`: finds files by a glob on their paths, newest first. `list_workspace_files`: lists files with their
//! sizes. Also contains the implementation of globs, and the note about files that a search skipped.

use std::{collections::BTreeMap, ops::ControlFlow, time::SystemTime};

use agentd_core::tool::ToolOutput;
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    job::Job,
    path::{PathPlace, ToolPath},
    text,
    walk::{Kind, UnreadEntries, Walk, WalkEntry},
};
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{Call, Tool};

/// Finds files by name, newest first. A pattern without a slash matches names in all folders (*.pdf, *report*,
/// *.{md,txt}); one with a slash matches paths (src/**/*.rs). Hidden files are skipped. To search inside files use grep.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FindFiles {
    /// The glob, such as *.pdf or **/*.{py,rs}.
    pattern: String,
    /// Folder to search. Omit for the whole workspace.
    path: Option<String>,
    /// Also find files that .gitignore excludes.
    #[serde(default)]
    include_ignored: bool,
}

impl Tool for FindFiles {
    const NAME: &'static str = "find_files";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.work(move |job| find(job, self)).await
    }
}

/// Glob that file tools match against paths.
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    names_only: bool,
}

impl PathGlob {
    pub(crate) fn new(field: &str, pattern: &str) -> Result<Self, Failure> {
        const MAX_PATTERN: usize = 1000;
        if pattern.trim().is_empty() || pattern.len() > MAX_PATTERN {
            return Err(Failure::arguments(format!(
                "`{field}` must be a glob of at most {MAX_PATTERN} bytes, such as *.pdf or src/**/*.rs"
            )));
        }
        let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
        let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
        let glob = glob.map_err(|error| {
            Failure::arguments(format!(
                "`{field}` is not a valid glob: {}; examples: *.pdf, **/*.{{md,txt}}, report-[0-9].txt",
                error.kind()
            ))
        })?;
        Ok(Self { matcher: glob.compile_matcher(), names_only: !pattern.contains('/') })
    }

    /// Returns true if the glob matches the name, or the path relative to the workspace, to the path's root or to
    /// `start`.
    pub(crate) fn matches(&self, path: &ToolPath, start: &ToolPath) -> bool {
        if self.names_only {
            return self.matcher.is_match(path.name());
        }
        let from_start = path.rest().strip_prefix(start.rest()).map(|below| below.trim_start_matches('/'));
        self.matcher.is_match(path.flat())
            || self.matcher.is_match(path.rest())
            || from_start.is_some_and(|below| self.matcher.is_match(below))
    }
}

fn find(job: &Job, args: FindFiles) -> Result<ToolOutput, Failure> {
    let glob = PathGlob::new("pattern", &args.pattern)?;
    let start = job.files.start(args.path.as_deref())?;
    if !job.files.is_folder(&start)? {
        return Err(Failure::path(format!("{start} is a file, not a folder; name the folder to search")));
    }
    let mut newest = NewestFiles { files: Vec::new(), total: 0, max: job.limits.found_files };
    let mut left = UnreadEntries::default();
    for place in job.files.places(&start) {
        Walk::whole(args.include_ignored).run(job, &place, &mut left, &mut |found| {
            if found.kind == Kind::File && glob.matches(&found.path, &start) {
                let modified = found.modified.unwrap_or(SystemTime::UNIX_EPOCH);
                newest.add(modified, found.path.to_string(), found.size);
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(ToolOutput::ok(newest.render(&args.pattern, &start, &left)))
}

/// Collection of the newest files.
struct NewestFiles {
    files: Vec<(SystemTime, String, u64)>,
    total: usize,
    max: usize,
}

impl NewestFiles {
    fn add(&mut self, modified: SystemTime, path: String, size: u64) {
        self.total += 1;
        self.files.push((modified, path, size));
        if self.files.len() >= self.max * 4 {
            self.keep_newest();
        }
    }

    fn keep_newest(&mut self) {
        self.files.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
        self.files.truncate(self.max);
    }

    fn render(mut self, pattern: &str, start: &ToolPath, left: &UnreadEntries) -> String {
        self.keep_newest();
        let mut lines: Vec<String> =
            self.files.iter().map(|(_, path, size)| format!("{path} ({})", text::size(*size))).collect();
        if lines.is_empty() {
            let within = if start.is_root() { "the workspace".to_owned() } else { start.to_string() };
            lines.push(format!("No file matches {} in {within}.", text::quoted(pattern)));
            if left.ignored > 0 {
                lines.push("[files that .gitignore excludes were skipped; set include_ignored]".to_owned());
            }
        }
        if self.total > self.files.len() {
            lines.push(format!("[{} match; the newest {} are shown]", self.total, self.files.len()));
        }
        if let Some(cut) = left.cut {
            lines.push(format!("[the search is not complete: {cut}; search a smaller folder]"));
        }
        lines.join("\n")
    }
}

/// Numbers of files that were not searched, or not completely, by reason.
#[derive(Debug, Default)]
pub(super) struct UnsearchedFiles(BTreeMap<&'static str, usize>);

impl UnsearchedFiles {
    pub(super) fn add(&mut self, reason: &'static str) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// Returns the note without a line end, or `None` if all files were searched.
    pub(super) fn line(mut self, left: &UnreadEntries) -> Option<String> {
        if left.unreadable > 0 {
            *self.0.entry("unreadable").or_default() += left.unreadable;
        }
        let mut parts: Vec<String> =
            self.0.iter().map(|(reason, count)| format!("{} ({reason})", text::count(*count, "file"))).collect();
        if left.hidden > 0 {
            let more = left.hidden - left.hidden_names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            parts.push(format!("hidden {}{more} (to search one, set path to it)", left.hidden_names.join(", ")));
        }
        (!parts.is_empty()).then(|| format!("[not fully searched: {}]", parts.join(", ")))
    }
}

const DEFAULT_DEPTH: usize = 3;

/// Lists the files and folders of the workspace with their sizes. uploads/ contains the user's files, outputs/ results,
/// temp/ scratch files, skills/ instructions, /memories what all sessions remember, /state your own notes in this
/// session. /project is the user's folder, if mounted; any other relative path is then in it. Hidden files are skipped.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListFiles {
    /// Folder to list. Omit for the whole workspace.
    path: Option<String>,
    /// Folder levels to show. Default 3.
    #[schemars(range(min = 1, max = 20))]
    depth: Option<usize>,
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_workspace_files";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        call.work(move |job| list(job, self)).await
    }
}

fn list(job: &Job, args: ListFiles) -> Result<ToolOutput, Failure> {
    let start = job.files.start(args.path.as_deref())?;
    if !job.files.is_folder(&start)? {
        let opened = job.files.open_file(&start)?;
        return Ok(ToolOutput::ok(format!("{start} ({})", text::size(opened.size))));
    }
    let mut left = UnreadEntries::default();
    let mut listing = Listing { lines: Vec::new(), max: job.limits.list_entries, full: false };
    let beside = if start == ToolPath::root(PathPlace::Own) { job.files.beside() } else { Vec::new() };
    for place in job.files.places(&start).into_iter().chain(beside) {
        // If the call did not name the project, only its first level is listed.
        let is_other_place = place != start;
        let max_depth = args.depth.unwrap_or(if is_other_place { 1 } else { DEFAULT_DEPTH });
        if is_other_place || place.place() != PathPlace::Own && place.is_root() {
            listing.lines.push(format!("{place}/"));
        }
        let walk = Walk { max_depth, include_ignored: false, include_daemon_areas: true };
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
            Kind::Other => self.add(format!("{path} (not a regular file)")),
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
            shown.push(format!("[only the first {} entries are shown; list a subfolder]", self.max));
        }
        if let Some(cut) = left.cut {
            shown.push(format!("[the list is not complete: {cut}; list a subfolder]"));
        }
        if left.ignored > 0 {
            shown.push(format!("[{} skipped: excluded by .gitignore]", text::count(left.ignored, "entry")));
        }
        if left.unreadable > 0 {
            shown.push(format!("[{} skipped: unreadable, or not named in UTF-8]", left.unreadable));
        }
        shown.join("\n")
    }
}
