use std::path::PathBuf;

use agentd_core::{input::LineRange, session::Mount};

use super::{
    target::{MAX_FILES, MentionTarget},
    *,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(names: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("mentions").tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        Self(folder)
    }

    /// Replaces `@` in the text with the folder.
    fn text(&self, text: &str) -> String {
        text.replace('@', &self.0.path().display().to_string())
    }

    fn below(&self, path: &Path) -> String {
        path.strip_prefix(self.0.path()).unwrap().display().to_string()
    }

    fn found(&self, text: &str) -> Vec<String> {
        let shown = |mention: Mention| match mention.target {
            MentionTarget::File(path) => self.below(&path),
            MentionTarget::Hidden(path) => format!("hidden {}", self.below(&path)),
            MentionTarget::Folder(path) => format!("folder {}", self.below(&path)),
            MentionTarget::Lines { path, lines } => format!("{} {}-{}", self.below(&path), lines.first, lines.last),
            MentionTarget::Pattern(matched) => {
                let files: Vec<String> = matched.files.iter().map(|file| self.below(file)).collect();
                format!("[{}]", files.join(" "))
            }
        };
        find(&self.text(text), Path::new("")).into_iter().map(shown).collect()
    }

    fn bundle(&self, text: &str, source: MentionSource) -> Bundle {
        let mentions = find(&self.text(text), Path::new(""));
        let mount = |name: &str| Mount { path: self.0.path().join(name), writable: false };
        let project = Mounts::from(Some(mount("app")));
        let folders = project.with(vec![mount("lib")]).unwrap();
        Bundle::collect(mentions, &Mounts { folders, ..project }, source)
    }
}

#[test]
fn mentioned_files_are_found_in_any_context() {
    let folder = Folder::with(&["a.txt", "my plan.md", "deep/er/b c.pdf", "报告.pdf", "odd?.txt", "a"]);
    let check = |text: &str, expected: &[&str]| assert_eq!(folder.found(text), expected, "{text}");
    check("Read #@/a.txt.", &["a.txt"]);
    check("#@/a.txt, #@/my plan.md and more", &["a.txt", "my plan.md"]);
    check("what is in #@/deep/er/b c.pdf?", &["deep/er/b c.pdf"]);
    check("请看#@/报告.pdf。", &["报告.pdf"]);
    check("请看 #@/报告.pdf。谢谢", &["报告.pdf"]);
    check("#\"@/odd?.txt\" and (#@/a.txt)", &["odd?.txt", "a.txt"]);
    check("#@/a.txt #@/a.txt", &["a.txt"]);
    check("two\nlines with #@/a.txt", &["a.txt"]);
    // A `#` that names no file is plain text.
    check("# @/a.txt", &[]);
    check("issue #12, C#@/a.txt, #deep", &[]);
    check("`#@/a.txt`", &[]);
    check("```\n#@/a.txt\n```", &[]);
}

#[test]
fn missing_mentioned_files_are_reported() {
    let folder = Folder::with(&["a.txt"]);
    let check = |text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|path| folder.text(path)).collect();
        assert_eq!(missing(&folder.text(text), Path::new("")), expected, "{text}");
    };
    check("Fix #nope.txt, and (#src/none.rs).", &["nope.txt", "src/none.rs"]);
    check("#@/a.txt and #@/b.txt", &["@/b.txt"]);
    check("#~/none.txt #../none #none.d/", &["~/none.txt", "../none", "none.d/"]);
    check("#nope.txt #nope.txt", &["nope.txt"]);
    check("issue #12, #3.5, C#, # a.b, #todo, #![allow(x.y)], `#nope.txt`", &[]);
    check("```\n#nope.txt\n```", &[]);
}

#[test]
fn mentioned_project_file_has_its_tool_path() {
    let folder = Folder::with(&["app/src/x.rs", "other.rs"]);
    let root = folder.0.path();
    std::os::unix::fs::symlink(root.join("other.rs"), root.join("app/out.rs")).unwrap();
    let project = Mount { path: root.join("app"), writable: false };
    let named = |path: &str| of_tools(&root.join(path), &Mounts::from(Some(project.clone())));
    assert_eq!(named("app/src/x.rs").as_deref(), Some("/project/src/x.rs"));
    assert_eq!(named("app/../app/src/x.rs").as_deref(), Some("/project/src/x.rs"));
    assert_eq!((named("other.rs"), named("app/out.rs"), named("app/none")), (None, None, None));
}

#[test]
fn hidden_files_are_not_attached_by_mention() {
    let folder = Folder::with(&[".env", ".ssh/key", "plain"]);
    std::os::unix::fs::symlink(".env", folder.0.path().join("link")).unwrap();
    assert_eq!(folder.found("#@/.env #@/.ssh/key #@/plain"), ["hidden .env", "hidden .ssh/key", "plain"]);
    assert_eq!(folder.found("#@/link"), ["hidden link"]);
}

#[test]
fn line_ranges_folders_and_globs_are_mentions() {
    let folder = Folder::with(&[
        "a.rs",
        "b.rs",
        "c.txt",
        "x:1",
        "deep/d.rs",
        "deep/er/e.rs",
        "deep/.git/f.rs",
        "ignored.rs",
        ".gitignore",
    ]);
    fs::write(folder.0.path().join(".gitignore"), "ignored.rs").unwrap();
    let check = |text: &str, expected: &[&str]| assert_eq!(folder.found(text), expected, "{text}");
    check("see #@/a.rs:3, and #@/b.rs:10-40.", &["a.rs 3-3", "b.rs 10-40"]);
    check("#\"@/a.rs:3-4\"", &["a.rs 3-4"]);
    // A file with exactly this name takes precedence, and an invalid line number is part of the name.
    check("#@/x:1", &["x:1"]);
    check("#@/a.rs:0 #@/a.rs:4-3 #@/a.rs:x", &["a.rs"]);
    check("#@/a.rs:99999999999", &["a.rs"]);
    check("in #@/deep/, please", &["folder deep"]);
    check("#@/*.rs", &["[a.rs b.rs]"]);
    check("all of #@/**/*.rs.", &["[a.rs b.rs deep/d.rs deep/er/e.rs]"]);
    check("#@/deep/*/e.rs", &["[deep/er/e.rs]"]);
    check("#@/*.none #@/deep/*.none", &[]);
    assert_eq!(missing(&folder.text("#@/*.none"), Path::new("")), [folder.text("@/*.none")]);
    let relative = find("#a.rs:2 #deep/er/e.rs #er/e.rs", folder.0.path());
    assert_eq!(relative.len(), 2, "relative paths begin at the base: {relative:?}");
}

#[test]
fn project_files_are_named_and_other_files_copied() {
    let folder =
        Folder::with(&["app/src/a.rs", "app/src/b.rs", "app/.env", "other.txt", "more/x", "more/y", ".secret"]);
    let root = folder.0.path();
    fs::write(root.join("app/src/a.rs"), "one\r\ntwo\nthree\n").unwrap();
    let bundle = |text: &str| folder.bundle(text, MentionSource::Chat);
    let name = |text: &str| vec![folder.text(text)];

    assert_eq!(bundle("#@/app/src/a.rs").named, name("#@/app/src/a.rs is /project/src/a.rs"));
    assert_eq!(bundle("#@/app/src/").named, name("#@/app/src/ is the folder /project/src"));
    assert_eq!(bundle("#@/app/.env").named, name("#@/app/.env is /project/.env"));
    let both = "#@/app/src/*.rs is /project/src/a.rs, /project/src/b.rs";
    assert_eq!(bundle("#@/app/src/*.rs").named, name(both));
    let quoted = bundle("#@/app/src/a.rs:2-9").selections;
    let lines = Some(LineRange { first: 2, last: 3 });
    let text = "two\nthree\n".to_owned();
    assert_eq!(quoted, [agentd_core::input::Selection { uri: "/project/src/a.rs".to_owned(), lines, text }]);
    // If the lines are beyond the end, the whole file is mentioned.
    let beyond = bundle("#@/app/src/a.rs:7");
    assert_eq!((beyond.named.len(), beyond.selections.len(), beyond.notes.len()), (1, 0, 1));

    assert_eq!(bundle("#@/other.txt").copies, [root.join("other.txt")]);
    assert_eq!(bundle("#@/more/").copies, [root.join("more/x"), root.join("more/y")]);
    assert_eq!(bundle("#@/.secret").copies, Vec::<PathBuf>::new());
    // Text from a program must not reference files outside of the project.
    let from_program = folder.bundle("#@/other.txt #@/more/ #@/other.txt:1 #@/app/src/b.rs", MentionSource::Program);
    assert_eq!((from_program.copies.len(), from_program.selections.len(), from_program.named.len()), (0, 0, 1));
    assert_eq!(from_program.notes.len(), 3);
}

#[test]
fn too_many_files_are_not_copied_and_long_lines_are_truncated() {
    let folder = Folder::with(&["long", "app/x"]);
    let root = folder.0.path();
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..=MAX_FILES {
        fs::write(root.join(format!("many/{number}")), "x").unwrap();
    }
    fs::write(root.join("long"), "ä".repeat(80 << 10)).unwrap();
    let many = folder.bundle("#@/many/", MentionSource::Chat);
    assert_eq!((many.copies.len(), many.notes.len()), (0, 1));
    let long = folder.bundle("#@/long:1-2", MentionSource::Chat);
    let limit = agentd_core::input::MAX_SELECTION_BYTES;
    assert!(long.selections[0].text.len() <= limit && long.selections[0].text.len() > limit - 4);
    assert_eq!(long.notes.len(), 1);
}
