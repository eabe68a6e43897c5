//! Parsers for unified diffs and for patches between `*** Begin Patch` and `*** End Patch`. Line counts and line
//! numbers in a diff may be wrong, because models often miscount.

use agentd_workspace::{failure::Failure, text};

use crate::patch::{self, Change, FilePatch, Header, Hunk, LineKind, Lines};

/// Maximum number of files in a patch. A user could not review a larger patch.
const MAX_FILES: usize = 500;

/// Parses a patch in either format.
///
/// # Errors
/// Returns `E_INVALID_ARGS`, with the line number and the problem.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch>, Failure> {
    let mut lines = Lines::of(patch);
    lines.trim();
    let Some(first) = lines.peek() else {
        return Err(Failure::arguments(
            "`patch` of apply_patch is empty; give a unified diff, or a patch that starts with `*** Begin Patch`",
        ));
    };
    let files = if first.trim_end() == BEGIN { parse_envelope(lines)? } else { parse_unified(lines)? };
    if files.is_empty() {
        return Err(Failure::arguments(
            "the patch names no file; start with `--- a/PATH` and `+++ b/PATH`, or with `*** Begin Patch` and \
             `*** Update File: PATH`",
        ));
    }
    if files.len() > MAX_FILES {
        return Err(Failure::arguments(format!("the patch has {} files; the limit is {MAX_FILES}", files.len())));
    }
    for file in &files {
        if let Change::Update { hunks, moved_to: None } = &file.change
            && !hunks.iter().any(Hunk::changes)
        {
            return Err(Failure::arguments(format!(
                "the patch changes nothing in {}; mark lines to remove with `-` and lines to add with `+`",
                file.path
            )));
        }
    }
    Ok(files)
}

/// Header lines of a file, before its hunks.
#[derive(Debug, Default)]
struct Head {
    /// True if the header begins with `diff --git`.
    is_git: bool,
    /// Names after `---` and `+++`.
    old: Option<String>,
    new: Option<String>,
    /// Names after `rename from` and `rename to`.
    renamed: (Option<String>, Option<String>),
    /// Name in the `diff --git` line, if it is unambiguous.
    git_name: Option<String>,
    is_new: bool,
    is_deleted: bool,
    mode_changes: bool,
}

fn parse_unified(mut lines: Lines<'_>) -> Result<Vec<FilePatch>, Failure> {
    let mut files = Vec::new();
    loop {
        // Text before a file's header is for people: a commit message, `Index:`, `===`.
        while let Some(line) = lines.peek() {
            if is_head(&lines) {
                break;
            }
            if line.starts_with("@@") {
                lines.next();
                return Err(lines.wrong(
                    "is a hunk, but no file was named; put `--- a/PATH` and `+++ b/PATH` before the first hunk",
                ));
            }
            lines.next();
        }
        if lines.peek().is_none() {
            return Ok(files);
        }
        let head = head(&mut lines)?;
        let hunks = hunks(&mut lines)?;
        files.push(file(head, hunks, &lines)?);
    }
}

/// Returns true if a file's header begins at the next line.
fn is_head(lines: &Lines<'_>) -> bool {
    lines.peek().is_some_and(|line| line.starts_with("diff --git ")) || is_names(lines)
}

/// Returns true if the next two lines are the `---` and `+++` lines of a file.
fn is_names(lines: &Lines<'_>) -> bool {
    let begins = |by: usize, with: &str| lines.ahead(by).is_some_and(|line| line.starts_with(with));
    begins(0, "--- ") && begins(1, "+++ ")
}

fn head(lines: &mut Lines<'_>) -> Result<Head, Failure> {
    let mut head = Head::default();
    if let Some(names) = lines.peek().and_then(|line| line.strip_prefix("diff --git ")) {
        lines.next();
        head.is_git = true;
        head.git_name = git_name(names);
        while let Some(line) = lines.peek() {
            if is_head(lines) || line.starts_with("@@") {
                break;
            }
            lines.next();
            parse_extended_header(&mut head, line, lines)?;
        }
    }
    if is_names(lines) {
        let mut named = |mark: &str| lines.next().and_then(|line| line.strip_prefix(mark)).map(patch::name).transpose();
        head.old = named("--- ")?;
        head.new = named("+++ ")?;
    }
    Ok(head)
}

/// Parses a line between `diff --git` and `---`.
fn parse_extended_header(head: &mut Head, line: &str, lines: &Lines<'_>) -> Result<(), Failure> {
    let after = |mark: &str| line.strip_prefix(mark);
    let mode = after("new file mode ").or_else(|| after("new mode ")).or_else(|| after("deleted file mode "));
    if mode.is_some_and(|mode| mode.starts_with("120") || mode.starts_with("160")) {
        return Err(lines.wrong("changes a link or a submodule; apply_patch supports regular files only"));
    }
    if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
        return Err(lines.wrong("changes a binary file; apply_patch supports text only"));
    }
    if line.starts_with("copy from ") || line.starts_with("copy to ") {
        return Err(lines.wrong("copies a file; add it as a new file instead"));
    }
    head.is_new |= line.starts_with("new file mode ");
    head.is_deleted |= line.starts_with("deleted file mode ");
    head.mode_changes |= line.starts_with("new mode ");
    if let Some(from) = after("rename from ") {
        head.renamed.0 = Some(patch::name(from)?);
    }
    if let Some(to) = after("rename to ") {
        head.renamed.1 = Some(patch::name(to)?);
    }
    Ok(())
}

/// Returns the name in `a/NAME b/NAME`, which is only used if no other line contains the name.
fn git_name(names: &str) -> Option<String> {
    if names.starts_with('"') {
        let old = patch::name(names).ok()?;
        return Some(old.strip_prefix("a/")?.to_owned());
    }
    let name = names.get(2..names.len().checked_sub(1)? / 2)?;
    (names == format!("a/{name} b/{name}")).then(|| name.to_owned())
}

fn hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, Failure> {
    let mut hunks = Vec::new();
    while let Some(line) = lines.peek() {
        let Some(header) = patch::header(line) else {
            if line.trim().is_empty() || line.starts_with('\\') {
                lines.next();
                continue;
            }
            break;
        };
        lines.next();
        hunks.push(hunk(line, &header, lines)?);
    }
    // Other text after the hunks would otherwise be ignored silently.
    if let Some(line) = lines.peek()
        && !hunks.is_empty()
        && !is_head(lines)
        && !["diff ", "Index: ", "===", "-- ", "From ", "index ", "Only in "].iter().any(|mark| line.starts_with(mark))
    {
        lines.next();
        return Err(no_hunk_line(lines, line));
    }
    Ok(hunks)
}

fn no_hunk_line(lines: &Lines<'_>, line: &str) -> Failure {
    lines.wrong(format!("is {}, but lines of a hunk start with a space, `-` or `+`", text::quoted(line)))
}

fn hunk(line: &str, header: &Header, lines: &mut Lines<'_>) -> Result<Hunk, Failure> {
    let mut hunk = Hunk { header: line.to_owned(), start: header.start(), ..Hunk::default() };
    let [mut old_left, mut new_left] = header.ranges.map_or([0, 0], |ranges| ranges.map(|(_, count)| count));
    let mut blank_tail = 0;
    while let Some(line) = lines.peek() {
        if is_names(lines) && ends_before_names(lines, old_left, new_left) {
            break;
        }
        // A signature as written by `git format-patch`.
        if line == "-- " && old_left == 0 {
            break;
        }
        if line.starts_with('\\') {
            lines.next();
            mark_open_end(&mut hunk);
            continue;
        }
        let Some(parsed) = patch::hunk_line(line) else { break };
        lines.next();
        let counted = old_left > 0 && new_left > 0;
        blank_tail = if line.is_empty() && !counted { blank_tail + 1 } else { 0 };
        if parsed.kind != LineKind::Added {
            old_left = old_left.saturating_sub(1);
        }
        if parsed.kind != LineKind::Removed {
            new_left = new_left.saturating_sub(1);
        }
        hunk.lines.push(parsed);
    }
    patch::drop_blank_tail(&mut hunk, blank_tail);
    if header.ranges.is_some_and(|[(_, old), _]| old > 0) && hunk.old().next().is_none() {
        // The line counts in the header include context lines that the hunk omits, so its line number is not reliable
        // either.
        hunk.start = None;
    }
    if hunk.lines.is_empty() {
        return Err(lines.wrong(format!("ends the hunk {}, which has no lines", text::quoted(line))));
    }
    Ok(hunk)
}

/// Returns true if the next lines are file names, and not the removed line `-- x` and the added line `++ y`. The
/// decision is based on the line counts, or on the line after both.
fn ends_before_names(lines: &Lines<'_>, old_left: usize, new_left: usize) -> bool {
    match (old_left, new_left) {
        (0, 0) => true,
        (1, 1) => false,
        _ => lines.ahead(2).is_some_and(|line| line.starts_with("@@")),
    }
}

fn file(head: Head, hunks: Vec<Hunk>, lines: &Lines<'_>) -> Result<FilePatch, Failure> {
    const NOTHING: &str = "/dev/null";
    let (mut old, mut new) = (head.old, head.new);
    let is_dev_null = |name: &Option<String>| name.as_deref() == Some(NOTHING);
    let (is_new, is_deleted) = (head.is_new || is_dev_null(&old), head.is_deleted || is_dev_null(&new));
    let prefixed = |name: &Option<String>, mark: &str| {
        name.as_deref().is_none_or(|name| name == NOTHING || name.starts_with(mark))
    };
    let has_prefixes = prefixed(&old, "a/") && prefixed(&new, "b/");
    if has_prefixes {
        for (name, mark) in [(&mut old, "a/"), (&mut new, "b/")] {
            *name = name.take().map(|name| name.strip_prefix(mark).map(str::to_owned).unwrap_or(name));
        }
    }
    let old = head.renamed.0.clone().or(old.filter(|name| name != NOTHING)).or_else(|| head.git_name.clone());
    let new = head.renamed.1.clone().or(new.filter(|name| name != NOTHING)).or(head.git_name);
    let unnamed = || lines.wrong("ends an unnamed file; put `--- a/PATH` and `+++ b/PATH` before its hunks");
    if is_new && is_deleted {
        return Err(lines.wrong("ends a file that is both created and deleted"));
    }
    if is_new {
        let path = new.ok_or_else(unnamed)?;
        let content = new_content(&path, &hunks)?;
        return Ok(FilePatch { path, change: Change::Add { content } });
    }
    if is_deleted {
        let path = old.ok_or_else(unnamed)?;
        return Ok(FilePatch { path, change: Change::Delete { hunks: Some(hunks) } });
    }
    let (old, new) = (old.ok_or_else(unnamed)?, new.ok_or_else(unnamed)?);
    let moves = old != new;
    if moves && !has_prefixes && head.renamed.1.is_none() {
        return Err(Failure::arguments(format!(
            "the patch names {old} before and {new} after; to move the file write `rename from {old}` and `rename to \
             {new}` after `diff --git`, otherwise use one name"
        )));
    }
    if !moves && hunks.is_empty() {
        let what = if head.mode_changes { "only changes permissions, which apply_patch keeps" } else { "has no hunks" };
        return Err(Failure::arguments(format!("the patch for {old} {what}; nothing was changed")));
    }
    Ok(FilePatch { path: old, change: Change::Update { hunks, moved_to: moves.then_some(new) } })
}

fn new_content(path: &str, hunks: &[Hunk]) -> Result<String, Failure> {
    let mut content = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            if line.kind != LineKind::Added {
                return Err(Failure::arguments(format!(
                    "the patch creates {path}, so all its lines must start with `+`, but {} does not",
                    text::quoted(&line.text)
                )));
            }
            content.push_str(&line.text);
            content.push('\n');
        }
    }
    if hunks.last().is_some_and(|hunk| hunk.open_end.1) {
        content.pop();
    }
    Ok(content)
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

fn parse_envelope(mut lines: Lines<'_>) -> Result<Vec<FilePatch>, Failure> {
    lines.next();
    let mut files = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line == END {
            return match lines.peek() {
                Some(more) if !more.trim().is_empty() => {
                    lines.next();
                    Err(lines.wrong("comes after `*** End Patch`; send one patch at a time"))
                }
                _ => Ok(files),
            };
        }
        let named = |what: &str| line.strip_prefix(what).map(|path| path.trim().to_owned());
        if let Some(path) = named("*** Add File:") {
            let content = parse_added_lines(&mut lines)?;
            files.push(FilePatch { path, change: Change::Add { content } });
        } else if let Some(path) = named("*** Delete File:") {
            files.push(FilePatch { path, change: Change::Delete { hunks: None } });
        } else if let Some(path) = named("*** Update File:") {
            let moved = lines.peek().and_then(|line| line.strip_prefix("*** Move to:"));
            let moved_to = moved.map(|path| path.trim().to_owned());
            if moved_to.is_some() {
                lines.next();
            }
            let hunks = envelope_hunks(&mut lines)?;
            files.push(FilePatch { path, change: Change::Update { hunks, moved_to } });
        } else if !line.is_empty() {
            return Err(lines.wrong(format!(
                "is {}; expected `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or `{END}`",
                text::quoted(line)
            )));
        }
    }
    Err(Failure::arguments(format!(
        "the patch has no `{END}` and may be truncated; nothing was changed: send it whole"
    )))
}

/// Parses the lines of a new file.
fn parse_added_lines(lines: &mut Lines<'_>) -> Result<String, Failure> {
    let mut content = String::new();
    while let Some(line) = lines.next() {
        if let Some(line) = line.strip_prefix('+') {
            content.push_str(line);
            content.push('\n');
        } else if line.starts_with("*** ") {
            lines.back();
            break;
        } else if !line.trim().is_empty() || lines.peek().is_some_and(|next| next.starts_with('+')) {
            return Err(lines.wrong("belongs to a new file, where every line must start with `+`"));
        }
    }
    Ok(content)
}

fn envelope_hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, Failure> {
    let mut hunks = Vec::new();
    let mut hunk = Hunk::default();
    let mut blank_tail = 0;
    let mut end = |hunk: &mut Hunk, blank_tail: &mut usize| {
        patch::drop_blank_tail(hunk, std::mem::take(blank_tail));
        if !hunk.lines.is_empty() {
            hunks.push(std::mem::take(hunk));
        }
    };
    while let Some(line) = lines.next() {
        if line.trim_end() == END_OF_FILE {
            patch::drop_blank_tail(&mut hunk, std::mem::take(&mut blank_tail));
            hunk.at_end = true;
            continue;
        }
        if line.starts_with("*** ") {
            lines.back();
            break;
        }
        if let Some(header) = patch::header(line) {
            end(&mut hunk, &mut blank_tail);
            if hunk.header.is_empty() {
                hunk.header = line.to_owned();
            }
            hunk.start = header.start();
            hunk.anchors.extend(header.anchor);
            continue;
        }
        if line.starts_with('\\') {
            mark_open_end(&mut hunk);
            continue;
        }
        let Some(parsed) = patch::hunk_line(line) else { return Err(no_hunk_line(lines, line)) };
        blank_tail = if line.is_empty() { blank_tail + 1 } else { 0 };
        hunk.lines.push(parsed);
    }
    end(&mut hunk, &mut blank_tail);
    Ok(hunks)
}

/// Applies `\ No newline at end of file` to the line before it.
pub(super) fn mark_open_end(hunk: &mut Hunk) {
    match hunk.lines.last().map(|line| line.kind) {
        Some(LineKind::Context) => hunk.open_end = (true, true),
        Some(LineKind::Removed) => hunk.open_end.0 = true,
        Some(LineKind::Added) => hunk.open_end.1 = true,
        None => {}
    }
}
