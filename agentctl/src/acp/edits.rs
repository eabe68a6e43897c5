//! Edits as editors show them: for each place that changes, its text before and after. What cannot be told so is left to the
//! words of the call, and so are texts with hidden characters, which editors show raw.

use std::path::Path;

use agent_client_protocol_schema::v1::Diff;
use agentd_core::visible;
use serde_json::Value;

use super::tool_call::Places;

/// Bytes of a text that is shown as an edit.
const LONGEST: usize = 256 * 1024;
/// Places of one patch that are shown.
const MOST: usize = 50;

/// Files before a call, as far as they may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// The call has not run: what is on the disk is what it changes.
    OnDisk,
    /// The same, but the editor may have text that is not saved.
    InEditor,
    /// The call ran long ago.
    Unknown,
}

/// The edits of a call; none where it makes none, or they are too long.
pub(super) fn of_call(tool: &str, args: &Value, places: &Places, before: Before) -> Vec<Diff> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let place = || places.real(text("path")?);
    let edits = match tool {
        "edit_file" => {
            let edit = || {
                let (old, new) = (text("old_string")?, text("new_string")?);
                let (old, new) = as_lines(old, new);
                Some(Diff::new(place()?, new).old_text(old))
            };
            edit().into_iter().collect()
        }
        // The daemon shows what it replaces, with its question and its result.
        "write_file" if before == Before::InEditor => Vec::new(),
        "write_file" => {
            let edit = || {
                let path = place()?;
                let old = (before == Before::OnDisk).then(|| read(&path)).flatten();
                Some(Diff::new(path, text("content")?).old_text(old))
            };
            edit().into_iter().collect()
        }
        "apply_patch" => of_patch(text("patch").unwrap_or_default(), places),
        _ => Vec::new(),
    };
    shown(edits, LONGEST)
}

/// Pieces of lines as lines: some editors put what does not end with a line end beside what comes next.
fn as_lines(old: &str, new: &str) -> (String, String) {
    let ends = |text: &str| text.is_empty() || text.ends_with('\n');
    let end = if ends(old) || ends(new) { "" } else { "\n" };
    (format!("{old}{end}"), format!("{new}{end}"))
}

/// The edits, if their texts have at most `longest` bytes and hide nothing.
pub(super) fn shown(edits: Vec<Diff>, longest: usize) -> Vec<Diff> {
    let length = |edit: &Diff| edit.new_text.len() + edit.old_text.as_ref().map_or(0, String::len);
    let is_plain = |edit: &Diff| {
        let path = edit.path.to_str().is_some_and(|path| visible::line(path) == path);
        path && visible::is_plain(&edit.new_text) && edit.old_text.as_deref().is_none_or(visible::is_plain)
    };
    let fits = edits.iter().map(length).sum::<usize>() <= longest && edits.iter().all(is_plain);
    if fits { edits } else { Vec::new() }
}

/// The files that a patch names, in its order.
pub(super) fn files_of_patch(patch: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for place in parse(patch) {
        if !files.contains(&place.file) {
            files.push(place.file);
        }
    }
    files
}

/// The text of a file, where it is one that can be shown.
fn read(path: &Path) -> Option<String> {
    // Asked before it is opened: opening a pipe would wait for its other end.
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= LONGEST as u64);
    metadata.and_then(|_| std::fs::read_to_string(path).ok())
}

/// The edits of a patch.
pub(super) fn of_patch(patch: &str, places: &Places) -> Vec<Diff> {
    let shown = parse(patch).into_iter().filter(|place| place.is_deleted || place.old != place.new).take(MOST);
    let edits = shown.filter_map(|place| {
        let path = places.real(&place.file)?;
        // A patch of the form with `***` does not say what it deletes.
        let old = if place.is_deleted && place.old.is_empty() { Some(read(&path)?) } else { Some(place.old) };
        Some(Diff::new(path, place.new).old_text(old.filter(|_| !place.is_new)))
    });
    edits.collect()
}

/// A place that a patch changes.
#[derive(Debug, Default, PartialEq, Eq)]
struct PatchPlace {
    file: String,
    is_new: bool,
    is_deleted: bool,
    old: String,
    new: String,
}

/// Reads a patch of either form, as far as it makes sense. What is wrong with it is for the tool to say.
fn parse(patch: &str) -> Vec<PatchPlace> {
    const ENVELOPE: [(&str, bool); 3] =
        [("*** Add File:", true), ("*** Update File:", false), ("*** Delete File:", false)];
    let mut places: Vec<PatchPlace> = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let header = ENVELOPE.iter().find_map(|(header, is_new)| Some((line.strip_prefix(header)?, *is_new)));
        if let Some((file, is_new)) = header {
            let is_deleted = line.starts_with("*** Delete");
            places.push(PatchPlace { file: file.trim().to_owned(), is_new, is_deleted, ..PatchPlace::default() });
        } else if let (Some(before), Some(after)) =
            (line.strip_prefix("--- "), lines.peek().and_then(|next| next.strip_prefix("+++ ")))
        {
            let is_new = name(before) == "/dev/null";
            let file = if name(after) == "/dev/null" { name(before) } else { name(after) };
            places.push(PatchPlace { file: file.to_owned(), is_new, ..PatchPlace::default() });
            lines.next();
        } else if line.starts_with("*** ") || line.starts_with("diff --git ") {
            // For the tool alone.
        } else if line.starts_with("@@") {
            if let Some(last) = places.last().filter(|last| !last.old.is_empty() || !last.new.is_empty()) {
                let (file, is_new) = (last.file.clone(), last.is_new);
                places.push(PatchPlace { file, is_new, ..PatchPlace::default() });
            }
        } else if let Some(place) = places.last_mut() {
            place.take(line);
        }
    }
    places
}

/// The name of a file in a header of `diff -u`: without the folder that `git` puts before it, and without the time.
fn name(header: &str) -> &str {
    let name = header.split('\t').next().unwrap_or(header).trim();
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

impl PatchPlace {
    fn take(&mut self, line: &str) {
        let mut add = |old: bool, new: bool, text: &str| {
            for side in [old.then_some(&mut self.old), new.then_some(&mut self.new)].into_iter().flatten() {
                side.push_str(text);
                side.push('\n');
            }
        };
        match line.chars().next() {
            Some('+') => add(false, true, &line[1..]),
            Some('-') => add(true, false, &line[1..]),
            Some(' ') => add(true, true, &line[1..]),
            // Models forget the blank of an empty line.
            None => add(true, true, ""),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(project: &Path) -> Places {
        Places { project: Some(project.to_owned()), workspace: "/data/s".into(), ..Places::default() }
    }

    #[test]
    fn edits_have_their_text_before_and_after() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "old\n").unwrap();
        let places = places(folder.path());
        let check = |tool: &str, args: Value, before: Before, expected: &[(&str, Option<&str>, &str)]| {
            let edits = of_call(tool, &args, &places, before);
            let told: Vec<_> = edits
                .iter()
                .map(|edit| {
                    (
                        edit.path.strip_prefix(folder.path()).unwrap().to_str().unwrap(),
                        edit.old_text.as_deref(),
                        edit.new_text.as_str(),
                    )
                })
                .collect();
            assert_eq!(told, expected, "{args}");
        };
        let edit = json!({"path": "/project/a.txt", "old_string": "old", "new_string": "new"});
        check("edit_file", edit, Before::OnDisk, &[("a.txt", Some("old\n"), "new\n")]);
        let write = json!({"path": "a.txt", "content": "new\n"});
        check("write_file", write.clone(), Before::OnDisk, &[("a.txt", Some("old\n"), "new\n")]);
        check("write_file", write, Before::Unknown, &[("a.txt", None, "new\n")]);
        check("write_file", json!({"path": "b.txt", "content": "x"}), Before::OnDisk, &[("b.txt", None, "x")]);
        let long = json!({"path": "b.txt", "content": "x".repeat(LONGEST + 1)});
        check("write_file", long, Before::OnDisk, &[]);
        let delete =
            json!({"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** Delete File: none\n*** End Patch\n"});
        let hidden = json!({"path": "b.txt", "content": "x\u{202e}y"});
        check("write_file", hidden, Before::OnDisk, &[]);
        let path = json!({"path": "b\u{200b}.txt", "old_string": "old", "new_string": "new"});
        check("edit_file", path, Before::OnDisk, &[]);
        check("apply_patch", delete, Before::OnDisk, &[("a.txt", Some("old\n"), "")]);
        check("read_file", json!({"path": "a.txt"}), Before::OnDisk, &[]);
        check("write_file", json!("no object"), Before::OnDisk, &[]);
    }

    #[test]
    fn patches_of_both_forms_are_read() {
        let envelope = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n\n@@ fn x\n-three\n+3\n*** Add File: b.txt\n\
                        +new\n*** Delete File: c.txt\n*** End Patch\n";
        let unified = "diff --git a/a.txt b/a.txt\n--- a/a.txt\t2026-01-01\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n--- /dev/null\n\
                       +++ b/b.txt\n@@ -0,0 +1 @@\n+new\n";
        let places = places(Path::new("/p"));
        let told = |patch: &str| -> Vec<(String, Option<String>, String)> {
            let edits = of_call("apply_patch", &json!({"patch": patch}), &places, Before::OnDisk);
            edits.into_iter().map(|edit| (edit.path.display().to_string(), edit.old_text, edit.new_text)).collect()
        };
        let edit = |path: &str, old: Option<&str>, new: &str| (path.to_owned(), old.map(str::to_owned), new.to_owned());
        assert_eq!(
            told(envelope),
            [
                edit("/p/a.txt", Some("one\ntwo\n\n"), "one\n2\n\n"),
                edit("/p/a.txt", Some("three\n"), "3\n"),
                edit("/p/b.txt", None, "new\n"),
            ]
        );
        assert_eq!(told(unified), [edit("/p/a.txt", Some("one\ntwo\n"), "one\n2\n"), edit("/p/b.txt", None, "new\n")]);
        assert_eq!(files_of_patch(envelope), ["a.txt", "b.txt", "c.txt"]);
        assert_eq!(told("nonsense"), []);
    }
}
