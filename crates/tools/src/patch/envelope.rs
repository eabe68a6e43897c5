//! Patches between `*** Begin Patch` and `*** End Patch`.

use agentd_workspace::{failure::Failure, text};

use super::{
    Change, FilePatch, Hunk, LineKind,
    lines::{self, Lines},
};

pub(super) const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn parse(mut lines: Lines<'_>) -> Result<Vec<FilePatch>, Failure> {
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
            let content = added(&mut lines)?;
            files.push(FilePatch { path, change: Change::Add { content } });
        } else if let Some(path) = named("*** Delete File:") {
            files.push(FilePatch { path, change: Change::Delete { hunks: None } });
        } else if let Some(path) = named("*** Update File:") {
            let moved = lines.peek().and_then(|line| line.strip_prefix("*** Move to:"));
            let moved_to = moved.map(|path| path.trim().to_owned());
            if moved_to.is_some() {
                lines.next();
            }
            let hunks = hunks(&mut lines)?;
            files.push(FilePatch { path, change: Change::Update { hunks, moved_to } });
        } else if !line.is_empty() {
            return Err(lines.wrong(format!(
                "is {}, where `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or `{END}` \
                 belongs",
                text::quoted(line)
            )));
        }
    }
    Err(Failure::arguments(format!(
        "the patch has no `{END}`, so it may have been cut off; nothing was changed: send it whole"
    )))
}

/// The lines of a new file.
fn added(lines: &mut Lines<'_>) -> Result<String, Failure> {
    let mut content = String::new();
    while let Some(line) = lines.next() {
        if let Some(line) = line.strip_prefix('+') {
            content.push_str(line);
            content.push('\n');
        } else if line.starts_with("*** ") {
            lines.back(1);
            break;
        } else if !line.trim().is_empty() || lines.peek().is_some_and(|next| next.starts_with('+')) {
            return Err(lines.wrong("belongs to a new file, and there every line begins with `+`"));
        }
    }
    Ok(content)
}

fn hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, Failure> {
    let mut hunks = Vec::new();
    let mut hunk = Hunk::default();
    let mut lost = 0;
    let mut end = |hunk: &mut Hunk, lost: &mut usize| {
        lines::drop_blank_tail(hunk, std::mem::take(lost));
        if !hunk.lines.is_empty() {
            hunks.push(std::mem::take(hunk));
        }
    };
    while let Some(line) = lines.next() {
        if line.trim_end() == END_OF_FILE {
            lines::drop_blank_tail(&mut hunk, std::mem::take(&mut lost));
            hunk.at_end = true;
            continue;
        }
        if line.starts_with("*** ") {
            lines.back(1);
            break;
        }
        if let Some(header) = lines::header(line) {
            end(&mut hunk, &mut lost);
            if hunk.header.is_empty() {
                hunk.header = line.to_owned();
            }
            hunk.start = header.ranges.map(|(old, _)| old.start.saturating_sub(usize::from(old.count > 0)));
            hunk.anchors.extend(header.anchor);
            continue;
        }
        if line.starts_with('\\') {
            mark_open_end(&mut hunk);
            continue;
        }
        let Some(parsed) = lines::hunk_line(line) else {
            return Err(
                lines.wrong(format!("is {}, but lines of a hunk begin with a space, `-` or `+`", text::quoted(line)))
            );
        };
        lost = if line.is_empty() { lost + 1 } else { 0 };
        hunk.lines.push(parsed);
    }
    end(&mut hunk, &mut lost);
    Ok(hunks)
}

/// `\ No newline at end of file` speaks of the line before it.
pub(super) fn mark_open_end(hunk: &mut Hunk) {
    match hunk.lines.last().map(|line| line.kind) {
        Some(LineKind::Context) => hunk.open_end = (true, true),
        Some(LineKind::Removed) => hunk.open_end.0 = true,
        Some(LineKind::Added) => hunk.open_end.1 = true,
        None => {}
    }
}
