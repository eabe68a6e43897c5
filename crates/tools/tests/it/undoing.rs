//! File changes by calls are recorded and can be undone, byte for byte.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use agentd_core::{
    guarded::GuardedNames,
    ids::{CallId, SessionId},
    policy::Confinement,
    ports::{Changes, ReadRules, Snapshots as _, ToolContext, Workspaces as _},
    tool::{FileChange, FileChangeKind},
    undo::{FilesReverted, UndoOutcome, folded},
};
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use proptest::prelude::*;
use serde_json::json;

use crate::bench::{Bench, Project, chmod, eventually, mkfifo, mode};

/// Bench that records snapshots of files.
struct Recorder {
    bench: Bench,
    snapshots: FileSnapshots,
}

impl Recorder {
    async fn new(project: Project) -> Self {
        Self::with(project, SnapshotConfig::default()).await
    }

    async fn with(project: Project, config: SnapshotConfig) -> Self {
        let bench = Bench::with_project(project).await;
        let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), config);
        Self { bench, snapshots }
    }

    /// Creates a bench whose calls are checked for guarded files.
    async fn guarded(config: SnapshotConfig) -> Self {
        let mut recorder = Self::with(Project::Writable, config).await;
        recorder.bench.context.confinement = Confinement::Guarded;
        recorder
    }

    /// Reopens the snapshots as a new daemon would, with only the data on disk.
    fn restart(&mut self) {
        self.snapshots = FileSnapshots::new(self.bench.outside.path().join("undo"), SnapshotConfig::default());
    }

    /// Waits until changes of these files are provably older than the next crash.
    fn wait_for_heartbeat_after(&self, paths: &[&str]) {
        let changed = |path: &Path| fs::metadata(path).map(|metadata| (metadata.ctime(), metadata.ctime_nsec())).ok();
        let alive =
            self.bench.outside.path().join("undo").join(self.bench.context.session_id.to_string()).join("alive");
        let last = paths.iter().map(|path| changed(&self.bench.real(path))).max().unwrap();
        while changed(&alive) <= last {
            std::thread::yield_now();
        }
    }

    fn call(&self) -> ToolContext {
        ToolContext { call_id: CallId::generate(), ..self.bench.context.clone() }
    }

    /// Records the changes of a command.
    async fn record(&self, change: impl FnOnce(&Bench)) -> Changes {
        self.of(&self.call(), change).await
    }

    /// Records the changes of a tool that can only change these paths.
    async fn record_paths(&self, paths: &[&str], change: impl FnOnce(&Bench)) -> Changes {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let before = self.snapshots.before(&self.call(), Some(&paths)).await.unwrap();
        change(&self.bench);
        before.after.await.unwrap()
    }

    /// Returns the changes of a call that was killed.
    async fn unfinished(&self, call: &ToolContext) -> Changes {
        self.snapshots.unfinished(call.session_id, &call.workspace, &call.call_id).await.unwrap()
    }

    async fn undo(&self, changes: &[FileChange]) -> FilesReverted {
        self.try_undo(changes, false).await
    }

    async fn try_undo(&self, changes: &[FileChange], preview: bool) -> FilesReverted {
        self.undo_of(&self.bench.context, changes, preview).await
    }

    async fn undo_of(&self, call: &ToolContext, changes: &[FileChange], preview: bool) -> FilesReverted {
        self.snapshots.undo(call.session_id, &call.workspace, folded(changes), preview).await.unwrap()
    }

    /// Creates a project file with a hard link outside the project. Returns both paths.
    fn linked(&self) -> (PathBuf, PathBuf) {
        let (file, outside) = (self.bench.put("/project/a", "old"), self.bench.outside.path().join("cache"));
        fs::hard_link(&file, &outside).unwrap();
        (file, outside)
    }

    fn tree(&self) -> BTreeMap<PathBuf, PathState> {
        let mut states = BTreeMap::new();
        look(&self.bench.workspace().root, &mut states);
        if let Some(project) = &self.bench.workspace().project {
            look(&project.path, &mut states);
        }
        states
    }
}

/// Content at a path, used to compare two scans.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathState {
    File(u32, Vec<u8>),
    Link(PathBuf),
    Folder(u32),
}

fn look(folder: &Path, states: &mut BTreeMap<PathBuf, PathState>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_dir() {
            look(&path, states);
            states.insert(path, PathState::Folder(mode));
        } else if metadata.is_symlink() {
            states.insert(path.clone(), PathState::Link(fs::read_link(&path).unwrap()));
        } else if metadata.is_file() {
            states.insert(path.clone(), PathState::File(mode, fs::read(&path).unwrap()));
        }
    }
}

#[track_caller]
fn outcomes(undone: &FilesReverted) -> Vec<(&str, UndoOutcome)> {
    undone.files.iter().map(|file| (file.path.as_str(), file.outcome)).collect()
}

#[track_caller]
fn all_done(undone: &FilesReverted) {
    assert!(undone.files.iter().all(|file| file.outcome == UndoOutcome::Done), "{:#?}", undone.files);
}

fn kinds(changes: &Changes) -> Vec<(&str, FileChangeKind)> {
    changes.files.iter().map(|file| (file.path.as_str(), file.change)).collect()
}

fn paths(changes: &[FileChange]) -> Vec<&str> {
    changes.iter().map(|file| file.path.as_str()).collect()
}

#[tokio::test]
async fn undo_keeps_files_changed_later_as_conflicts() {
    let recorder = Recorder::new(Project::None).await;
    let bench = &recorder.bench;
    bench.put("outputs/mine.txt", "old\n");
    bench.put("outputs/other.txt", "old\n");
    bench.put("outputs/removed.txt", "old\n");
    bench.put("outputs/mode.txt", "old\n");
    let changes = recorder
        .record(|bench| {
            for name in ["mine", "other", "removed", "mode"] {
                bench.put(&format!("outputs/{name}.txt"), "new\n");
            }
            bench.put("outputs/made/a.txt", "made");
            fs::remove_file(bench.real("outputs/removed.txt")).unwrap();
        })
        .await;
    bench.put("outputs/other.txt", "new\nand the user's\n");
    bench.put("outputs/removed.txt", "another program's");
    chmod(&bench.real("outputs/mode.txt"), 0o600);
    bench.put("outputs/made/b.txt", "the user's");
    for preview in [true, false] {
        let undone = recorder.try_undo(&changes.files, preview).await;
        assert_eq!(
            outcomes(&undone),
            [
                ("outputs/made/a.txt", UndoOutcome::Done),
                ("outputs/mine.txt", UndoOutcome::Done),
                ("outputs/mode.txt", UndoOutcome::Conflict),
                ("outputs/other.txt", UndoOutcome::Conflict),
                ("outputs/removed.txt", UndoOutcome::Conflict),
            ],
            "a folder in use stays and is not reported"
        );
        let other = &undone.files[3];
        assert_eq!(other.reason.as_deref(), Some("it has been changed since"));
        assert!(other.diff.as_deref().unwrap().contains("+and the user's"), "{other:?}");
        assert_eq!(undone.files[2].reason.as_deref(), Some("its permissions have been changed since"));
        assert_eq!(undone.files[4].reason.as_deref(), Some("another file or folder exists there now"));
    }
    assert_eq!(bench.content("outputs/mine.txt"), b"old\n");
    assert_eq!(bench.content("outputs/other.txt"), b"new\nand the user's\n");
    assert_eq!(bench.content("outputs/removed.txt"), b"another program's");
    assert_eq!(bench.content("outputs/made/b.txt"), b"the user's");
    assert!(!bench.real("outputs/made/a.txt").exists());
}

/// The size and times of a file can be equal even if its content has changed.
#[tokio::test]
async fn change_within_a_clock_tick_is_detected() {
    let recorder = Recorder::new(Project::None).await;
    let file = recorder.bench.put("outputs/a.txt", "aaaa");
    for round in 0..50_u8 {
        let content = vec![b'a' + round % 20; 4];
        let old = fs::read(&file).unwrap();
        let changes = recorder
            .record(|_| {
                let times = file.metadata().unwrap();
                fs::write(&file, &content).unwrap();
                let set = fs::FileTimes::new().set_modified(times.modified().unwrap());
                fs::File::options().write(true).open(&file).unwrap().set_times(set).unwrap();
            })
            .await;
        assert_eq!(changes.files.is_empty(), old == content, "round {round}");
        recorder.undo(&changes.files).await;
        assert_eq!(fs::read(&file).unwrap(), old, "round {round}");
        fs::write(&file, &content).unwrap();
    }
}

#[tokio::test]
async fn diff_of_a_command_is_limited_and_leaves_out_files_that_may_not_be_read() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.bench.context.reading = ReadRules::new(|path| !path.ends_with(".pem"));
    for name in ["a.txt", "gone.txt", "key.pem"] {
        recorder.bench.put(&format!("/project/{name}"), "old\n");
    }
    let changes = recorder.record(|bench| {
        bench.put("/project/a.txt", "new\n");
        bench.put("/project/key.pem", "hunter2\n");
        bench.put("/project/logo.png", b"\0\x01");
        bench.put("/project/dir/large.txt", "x\n".repeat(200_000));
        fs::remove_file(bench.real("/project/gone.txt")).unwrap();
    });
    let expected = "--- a/project/a.txt\n+++ b/project/a.txt\n@@ -1 +1 @@\n-old\n+new\n--- a/project/gone.txt\n+++ /dev/null\n\
                    @@ -1 +0,0 @@\n-old\n--- /dev/null\n+++ b/project/logo.png\n(binary content: 2 bytes after)\n\
                    (… and 2 more files)\n";
    assert_eq!(changes.await.diff.as_deref(), Some(expected));
    let check = async |files: usize, lines: usize, shown: usize| {
        let changes = recorder.record(|bench| {
            for file in 0..files {
                bench.put(&format!("/project/{files}/{file:02}.txt"), "x\n".repeat(lines));
            }
        });
        let diff = changes.await.diff.unwrap();
        assert!(diff.ends_with(&format!("(… and {} more files)\n", files - shown)), "{files}: {diff}");
        assert_eq!(diff.matches("--- /dev/null\n").count(), shown, "{files}");
    };
    check(30, 1, 10).await;
    check(7, 5_000, 2).await;
    check(3, 50_000, 1).await;
    let only_secret = recorder.record(|bench| drop(bench.put("/project/key.pem", "hunter3\n"))).await;
    assert_eq!((only_secret.files.len(), only_secret.diff), (1, None));
    // A tool that names its files shows their changes itself.
    let named = recorder.record_paths(&["/project/a.txt"], |bench| drop(bench.put("/project/a.txt", "named\n"))).await;
    assert_eq!((named.files.len(), named.diff), (1, None));
}

#[tokio::test]
async fn changes_after_a_kill_are_kept() {
    use UndoOutcome::{Conflict, Done};
    let mut recorder = Recorder::new(Project::Writable).await;
    for name in ["a.txt", "b.txt", "c.txt", "dir/x.txt", "other/x.txt", "dir/y.txt"] {
        recorder.bench.put(&format!("/project/{name}"), "old");
    }
    let call = recorder.call();
    let before = recorder.snapshots.before(&call, None).await.unwrap();
    let put = ["a.txt", "b.txt", "new/by-call.txt"].map(|name| format!("/project/{name}"));
    for path in &put {
        recorder.bench.put(path, "by the call");
    }
    fs::remove_file(recorder.bench.real("/project/c.txt")).unwrap();
    recorder.wait_for_heartbeat_after(&put.each_ref().map(String::as_str));
    drop(before);
    recorder.restart();
    // A user edits and creates files, and swaps whole folders, which preserves the times of their files.
    recorder.bench.put("/project/b.txt", "by the user");
    recorder.bench.put("/project/mine.txt", "by the user");
    let path = |name: &str| recorder.bench.real(&format!("/project/{name}"));
    fs::rename(path("dir"), path("aside")).unwrap();
    fs::rename(path("other"), path("dir")).unwrap();
    let changes = recorder.unfinished(&call).await;
    for name in ["/project/b.txt", "/project/mine.txt", "/project/aside/x.txt", "/project/aside/y.txt"] {
        assert!(changes.files.iter().any(|file| file.late && file.path == name), "{name} is not late: {changes:?}");
    }
    let stored: Vec<FileChange> = serde_json::from_str(&serde_json::to_string(&changes.files).unwrap()).unwrap();
    let undone = recorder.undo(&stored).await;
    let outcome = |name: &str| undone.files.iter().find(|file| file.path == name).map(|file| file.outcome);
    for (name, expected, content) in [
        ("a.txt", Some(Done), "old"),
        ("c.txt", Some(Done), "old"),
        ("b.txt", Some(Conflict), "by the user"),
        ("mine.txt", Some(Conflict), "by the user"),
    ] {
        let path = format!("/project/{name}");
        assert_eq!((outcome(&path), recorder.bench.content(&path)), (expected, content.into()), "{name}");
    }
    assert_eq!(outcome("/project/new/by-call.txt"), Some(Done));
    assert_eq!(recorder.bench.content("/project/aside/y.txt"), b"old");
}

/// Unchanged entries are not read again, but the smallest change is still detected.
#[tokio::test]
async fn change_after_unchanged_scans_is_detected() {
    let mut recorder = Recorder::new(Project::Writable).await;
    for name in ["a.txt", "dir/b.txt", "dir/c.txt"] {
        recorder.bench.put(&format!("/project/{name}"), "old");
    }
    let before = recorder.tree();
    // Entries younger than a clock tick are always read again, which another test checks.
    let tick_is_over = std::time::Instant::now() + std::time::Duration::from_millis(40);
    while std::time::Instant::now() < tick_is_over {
        std::thread::yield_now();
    }
    for _ in 0..3 {
        assert_eq!(recorder.record(|_| {}).await, Changes::default());
    }
    let mut all = Vec::new();
    let mut step = async |change: &dyn Fn(&Bench), expected: &str| {
        let changes = recorder.record(change).await;
        assert_eq!(paths(&changes.files), [expected]);
        all.extend(changes.files);
        assert_eq!(recorder.record(|_| {}).await, Changes::default());
    };
    step(&|bench| drop(bench.put("/project/a.txt", "new")), "/project/a.txt").await;
    step(&|bench| fs::remove_file(bench.real("/project/dir/b.txt")).unwrap(), "/project/dir/b.txt").await;
    step(&|bench| chmod(&bench.real("/project/dir/c.txt"), 0o600), "/project/dir/c.txt").await;
    recorder.restart();
    recorder.undo(&all).await;
    assert_eq!(recorder.tree(), before);
}

/// Several threads scan a large tree with the same result as one thread.
#[tokio::test]
async fn large_tree_is_scanned_completely() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.bench.put("/project/top.txt", "old");
    recorder.bench.put("/project/.gitignore", "ignored/\n");
    for number in 0..2100 {
        recorder.bench.put(&format!("/project/d{}/e{}/{number}.txt", number % 7, number % 5), "old");
    }
    recorder.bench.put("/project/d3/.gitignore", "left-out/\n");
    assert_eq!(recorder.record(|_| {}).await, Changes::default());
    let before = recorder.tree();
    let changes = recorder
        .record(|bench| {
            bench.put("/project/top.txt", "new");
            bench.put("/project/d0/e0/0.txt", "new");
            bench.put("/project/d6/new/deep/x.txt", "new");
            bench.put("/project/ignored/x", "new");
            bench.put("/project/d3/left-out/x", "new");
            bench.put("/project/d4/left-out/x", "new");
            fs::remove_dir_all(bench.real("/project/d5")).unwrap();
        })
        .await;
    let mut paths = paths(&changes.files);
    let all = paths.len();
    paths.retain(|path| !path.starts_with("/project/d5/e"));
    assert!(all - paths.len() >= 300);
    for path in ["/project/d0/e0/0.txt", "/project/d4/left-out/x", "/project/d6/new/deep/x.txt", "/project/top.txt"] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    assert!(!paths.iter().any(|path| path.contains("ignored/x") || path.contains("d3/left-out")), "{paths:?}");
    assert_eq!(recorder.record(|_| {}).await, Changes::default());
    recorder.restart();
    recorder.undo(&changes.files).await;
    fs::remove_dir_all(recorder.bench.real("/project/ignored")).unwrap();
    fs::remove_dir_all(recorder.bench.real("/project/d3/left-out")).unwrap();
    assert_eq!(recorder.tree(), before);
}

#[tokio::test]
async fn tool_with_known_paths_scans_only_these_paths() {
    use FileChangeKind::{Created, Modified};
    let recorder = Recorder::new(Project::Writable).await;
    let bench = &recorder.bench;
    bench.put("/project/.gitignore", "target/\n");
    bench.put("/project/target/x", "built");
    bench.put("outputs/real.txt", "real");
    symlink("real.txt", bench.real("outputs/link.txt")).unwrap();
    let changes = recorder
        .record_paths(&["/project/target/x", "/project/target/new/y"], |bench| {
            bench.put("/project/target/x", "written");
            bench.put("/project/target/new/y", "y");
            bench.put("outputs/unseen.txt", "by another program");
        })
        .await;
    // An ignored folder is recorded if a tool's arguments name it.
    let expected =
        [("/project/target/new/", Created), ("/project/target/new/y", Created), ("/project/target/x", Modified)];
    assert_eq!(kinds(&changes), expected);
    recorder.undo(&changes.files).await;
    assert_eq!(bench.content("/project/target/x"), b"built");
    assert!(!bench.real("/project/target/new").exists());
    // A write through a link changes another file.
    let changes =
        recorder.record_paths(&["outputs/link.txt"], |bench| drop(bench.put("outputs/link.txt", "new"))).await;
    assert_eq!(kinds(&changes), [("outputs/real.txt", Modified)]);
}

#[tokio::test]
async fn unrecordable_files_are_reported() {
    let config = SnapshotConfig { max_file_bytes: 1 << 20, ..SnapshotConfig::default() };
    let recorder = Recorder::with(Project::Writable, config).await;
    let bench = &recorder.bench;
    bench.put("outputs/big.bin", vec![7; 64 << 20]);
    bench.put("/project/node_modules/x/index.js", "x");
    bench.put("/project/.gitignore", "node_modules/\n.env\n");
    bench.put("/project/.env", "KEY=1");
    bench.put("/project/.git/HEAD", "ref");
    mkfifo(&bench.real("temp/pipe"));
    let changes = recorder
        .record(|bench| {
            bench.put("outputs/big.bin", vec![8; 64 << 20]);
            bench.put("outputs/grown.bin", vec![8; 2 << 20]);
            bench.put("/project/node_modules/x/index.js", "y");
            bench.put("/project/.git/HEAD", "other");
            bench.put("/project/.env", "");
            fs::remove_file(bench.real("temp/pipe")).unwrap();
        })
        .await;
    assert_eq!(changes.notes, ["outputs/big.bin, outputs/grown.bin (larger than 1.0 MB)"]);
    let undone = recorder.undo(&changes.files).await;
    assert_eq!(
        outcomes(&undone),
        [
            ("outputs/big.bin", UndoOutcome::Failed),
            ("outputs/grown.bin", UndoOutcome::Failed),
            ("/project/.env", UndoOutcome::Done)
        ]
    );
    assert_eq!(bench.content("/project/.env"), b"KEY=1");
}

#[tokio::test]
async fn newly_ignored_files_are_still_undone() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.bench.put("/project/src/deep/main.c", "int main;");
    // One command ignores the sources, and another command changes the sources, possibly after a restart.
    let first = recorder.record(|bench| drop(bench.put("/project/.gitignore", "src/\ndeep/\n"))).await;
    recorder.restart();
    let second = recorder
        .record(|bench| {
            fs::remove_dir_all(bench.real("/project/src/deep")).unwrap();
            bench.put("/project/build/new", "made");
        })
        .await;
    assert_eq!(second.notes, [""; 0]);
    recorder.undo(&second.files).await;
    recorder.undo(&first.files).await;
    assert_eq!(recorder.bench.content("/project/src/deep/main.c"), b"int main;");
    assert!(!recorder.bench.real("/project/.gitignore").exists() && !recorder.bench.real("/project/build").exists());
}

/// Files ignored by git are not recorded. Files that are no longer ignored do not count as new, because an undo would
/// then delete them permanently.
#[tokio::test]
async fn formerly_ignored_files_are_not_new() {
    for is_killed in [false, true] {
        let mut recorder = Recorder::new(Project::Writable).await;
        recorder.bench.put("/project/.gitignore", "data/\nbuild/\n");
        for old in ["/project/data/old.csv", "/project/data/deep/old.bin", "/project/build/a/old.o"] {
            recorder.bench.put(old, "old");
        }
        let call = recorder.call();
        let recording = recorder.snapshots.before(&call, None).await.unwrap();
        recorder.bench.put("/project/.gitignore", "");
        recorder.bench.put("/project/data/new.csv", "new");
        recorder.bench.put("/project/data/made/new.csv", "new");
        let changes = if is_killed {
            recorder.wait_for_heartbeat_after(&["/project/data/made/new.csv"]);
            drop(recording);
            recorder.restart();
            recorder.unfinished(&call).await
        } else {
            recording.after.await.unwrap()
        };
        // After a kill, the earlier content of the folder is unknown.
        let new = ["/project/.gitignore", "/project/data/made/", "/project/data/made/new.csv", "/project/data/new.csv"];
        let expected = if is_killed { &new[..1] } else { &new[..] };
        assert_eq!(paths(&changes.files), expected);
        recorder.undo(&changes.files).await;
        for old in ["/project/data/old.csv", "/project/data/deep/old.bin", "/project/build/a/old.o"] {
            assert_eq!(recorder.bench.content(old), b"old", "{old}, killed: {is_killed}");
        }
        assert_eq!(recorder.bench.content("/project/.gitignore"), b"data/\nbuild/\n");
        assert_eq!(recorder.bench.real("/project/data/made").exists(), is_killed);
    }
}

/// A link with a guarded name that points to a user's folder is removed, but no file in that folder.
#[tokio::test]
async fn planted_link_is_removed_without_its_target() {
    let recorder = Recorder::guarded(SnapshotConfig { max_file_bytes: 10, ..SnapshotConfig::default() }).await;
    recorder.bench.put("/project/.gitignore", "data/\ntarget/\n");
    recorder.bench.put("/project/data/old.csv", "old");
    recorder.bench.put("/project/data/large.csv", "larger than the size limit");
    recorder.bench.put("/project/src/main.rs", "fn main() {}");
    recorder.bench.put("/project/target/app", "built");
    let changes = recorder
        .record(|bench| {
            symlink("data", bench.real("/project/.data")).unwrap();
            bench.put("/project/.data/planted", "planted");
        })
        .await;
    assert!(changes.set_aside.files.iter().any(|file| file.path == "/project/.data"), "{changes:?}");
    assert!(!recorder.bench.real("/project/.data").exists());
    assert_eq!(recorder.bench.content("/project/data/old.csv"), b"old");
    assert_eq!(recorder.bench.content("/project/data/large.csv"), b"larger than the size limit");

    // A link with an ordinary name points to a cache, which the check does not scan.
    let changes = recorder
        .record(|bench| {
            fs::rename(bench.real("/project/src"), bench.real("/project/target/src")).unwrap();
            bench.put("/project/target/src/.git/config", "[core]\n\tfsmonitor = ./w.sh\n");
            symlink("target/src", bench.real("/project/src")).unwrap();
            symlink("target/app", bench.real("/project/app")).unwrap();
        })
        .await;
    assert_eq!(outcomes(&changes.set_aside).iter().map(|(path, _)| *path).collect::<Vec<_>>(), ["/project/src"]);
    assert!(!recorder.bench.real("/project/src").is_symlink());
    assert!(recorder.bench.real("/project/app").is_symlink(), "a link to a build output stays");

    // The file is in a cache inside a folder whose files are all guarded.
    let rule = "/project/.claude/rules/a/target/x.md";
    let changes = recorder.record(|bench| drop(bench.put(rule, "planted"))).await;
    assert!(changes.set_aside.files.iter().any(|file| file.path == rule), "{changes:?}");
    assert!(!recorder.bench.real(rule).exists());
}

#[tokio::test]
async fn oldest_snapshots_are_dropped_over_the_limit() {
    let config = SnapshotConfig { max_total_bytes: 100_000, ..SnapshotConfig::default() };
    let recorder = Recorder::with(Project::None, config).await;
    let write = |round: u8| move |bench: &Bench| drop(bench.put("outputs/a", vec![round; 30_000]));
    let mut all = Vec::new();
    for round in 0..8 {
        let changes = recorder.record(write(round)).await;
        assert!(changes.files.iter().all(FileChange::is_recorded), "{changes:?}");
        all.push(changes.files);
    }
    let undone = recorder.undo(&all[7]).await;
    assert_eq!(outcomes(&undone), [("outputs/a", UndoOutcome::Done)]);
    assert_eq!(recorder.bench.content("outputs/a"), vec![6; 30_000]);
    // Old contents were evicted, which is reported for each affected file.
    recorder.bench.put("outputs/a", vec![1; 30_000]);
    let undone = recorder.undo(&all[1]).await;
    assert_eq!(outcomes(&undone), [("outputs/a", UndoOutcome::Failed)]);
    assert_eq!(undone.files[0].reason.as_deref(), Some("its earlier content is no longer stored"));
}

#[tokio::test]
async fn undo_fails_only_for_files_with_lost_content() {
    let recorder = Recorder::new(Project::None).await;
    recorder.bench.put("outputs/a", "first");
    recorder.bench.put("outputs/b", "second");
    let changes = recorder
        .record(|bench| {
            bench.put("outputs/a", "changed");
            bench.put("outputs/b", "changed");
        })
        .await;
    let hash = &changes.files[0].before.as_ref().unwrap().hash;
    let blob = recorder.bench.outside.path().join("undo/contents").join(hash);
    assert_eq!(mode(&blob), 0o600);
    fs::write(&blob, "damaged").unwrap();
    let undone = recorder.undo(&changes.files).await;
    assert_eq!(outcomes(&undone), [("outputs/a", UndoOutcome::Failed), ("outputs/b", UndoOutcome::Done)]);
    assert_eq!(recorder.bench.content("outputs/a"), b"changed");
    assert_eq!(recorder.bench.content("outputs/b"), b"second");
}

/// A link in place of a folder must not redirect an undo to a path outside the workspace.
#[tokio::test]
async fn undo_follows_no_links() {
    let recorder = Recorder::new(Project::None).await;
    let bench = &recorder.bench;
    let outside = bench.outside.path().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    bench.put("outputs/folder/a.txt", "old");
    let changes = recorder.record(|bench| fs::remove_file(bench.real("outputs/folder/a.txt")).unwrap()).await;
    fs::remove_dir(bench.real("outputs/folder")).unwrap();
    symlink(&outside, bench.real("outputs/folder")).unwrap();
    let undone = recorder.undo(&changes.files).await;
    assert_eq!(outcomes(&undone), [("outputs/folder/a.txt", UndoOutcome::Failed)], "{undone:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // Forged paths must not redirect an undo either.
    for path in ["../elsewhere/x", "/etc/x", "outputs/../../elsewhere/x"] {
        let forged = FileChange { path: path.to_owned(), ..changes.files[0].clone() };
        assert_eq!(outcomes(&recorder.undo(&[forged]).await), [(path, UndoOutcome::Failed)]);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn undo_does_not_touch_another_project() {
    let recorder = Recorder::new(Project::Writable).await;
    let bench = &recorder.bench;
    bench.put("/project/a.txt", "old");
    let changes = recorder.record(|bench| fs::remove_file(bench.real("/project/a.txt")).unwrap()).await;
    let other = bench.outside.path().join("other");
    fs::create_dir(&other).unwrap();
    let mount = agentd_core::session::Mount { path: other.clone(), writable: true };
    let (session, files) = (bench.context.session_id, changes.files);
    for (mount, reason) in [
        (Some(mount), "it is in another project folder"),
        (None, "its project folder is no longer mounted"),
        (
            bench.workspace().project.clone().map(|mount| agentd_core::session::Mount { writable: false, ..mount }),
            "the project is mounted read-only",
        ),
    ] {
        let workspace = bench.folders.open(session, mount.into()).await.unwrap();
        let undone = recorder.snapshots.undo(session, &workspace, files.clone(), false).await.unwrap();
        assert_eq!(undone.files[0].outcome, UndoOutcome::Failed);
        assert!(undone.files[0].reason.as_deref().unwrap().starts_with(reason), "{:?}", undone.files[0]);
    }
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    assert_eq!(outcomes(&recorder.undo(&files).await), [("/project/a.txt", UndoOutcome::Done)]);
}

#[tokio::test]
async fn hard_linked_file_is_restored_in_place_with_its_mode() {
    let recorder = Recorder::new(Project::Writable).await;
    let (first, outside) = recorder.linked();
    fs::hard_link(&first, recorder.bench.real("/project/b")).unwrap();
    let changes = recorder.record(|bench| fs::write(bench.real("/project/a"), "longer than before").unwrap()).await;
    assert_eq!(changes.files.len(), 2, "both names have changed");
    let undone = recorder.undo(&changes.files).await;
    assert_eq!(outcomes(&undone), [("/project/a", UndoOutcome::Done), ("/project/b", UndoOutcome::Done)]);
    assert!(undone.files.iter().all(|file| file.reason.is_none()));
    for path in [&first, &recorder.bench.real("/project/b"), &outside] {
        assert_eq!(fs::read(path).unwrap(), b"old", "{}", path.display());
        assert_eq!(fs::metadata(path).unwrap().nlink(), 3);
    }
    // An undo can itself be undone.
    let redone = recorder.undo(&undone.changes).await;
    assert!(redone.files.iter().all(|file| file.outcome == UndoOutcome::Done), "{redone:?}");
    assert_eq!(fs::read(&outside).unwrap(), b"longer than before");

    // A read-only file is restored with its mode.
    let recorder = Recorder::new(Project::Writable).await;
    let (first, outside) = recorder.linked();
    chmod(&first, 0o640);
    let change = |bench: &Bench| {
        fs::write(bench.real("/project/a"), "new").unwrap();
        chmod(&bench.real("/project/a"), 0o444);
    };
    let changes = recorder.record(change).await;
    assert_eq!(outcomes(&recorder.undo(&changes.files).await), [("/project/a", UndoOutcome::Done)]);
    assert_eq!((fs::read(&outside).unwrap(), mode(&outside)), (b"old".to_vec(), 0o640));
}

#[tokio::test]
async fn undo_does_not_write_into_replaced_or_foreign_files() {
    let recorder = Recorder::new(Project::Writable).await;
    let (first, outside) = recorder.linked();
    let changes = recorder.record(|bench| fs::write(bench.real("/project/a"), "new").unwrap()).await;
    // An editor writes a new file with the same content. The other link to the file keeps its content.
    fs::remove_file(&first).unwrap();
    recorder.bench.put("/project/a", "new");
    let undone = recorder.undo(&changes.files).await;
    assert_eq!(outcomes(&undone), [("/project/a", UndoOutcome::Done)]);
    assert!(undone.files[0].reason.as_deref().is_some_and(|reason| reason.contains("keep the change")), "{undone:?}");
    assert_eq!((recorder.bench.content("/project/a"), fs::read(&outside).unwrap()), (b"old".to_vec(), b"new".to_vec()));

    // A hard link created by a command must not redirect an undo to another file.
    let recorder = Recorder::new(Project::Writable).await;
    recorder.bench.put("/project/a", "mine");
    let other = recorder.bench.outside.path().join("other");
    fs::write(&other, "a foreign file").unwrap();
    let change = |bench: &Bench| {
        fs::remove_file(bench.real("/project/a")).unwrap();
        fs::hard_link(bench.outside.path().join("other"), bench.real("/project/a")).unwrap();
    };
    let changes = recorder.record(change).await;
    recorder.undo(&changes.files).await;
    assert_eq!(
        (recorder.bench.content("/project/a"), fs::read(&other).unwrap()),
        (b"mine".to_vec(), b"a foreign file".to_vec())
    );
}

#[tokio::test]
async fn hard_link_writes_are_undone_and_stay_inside() {
    let recorder = Recorder::new(Project::Writable).await;
    let (_, outside) = recorder.linked();
    for (command, changed) in [("true", 0), ("printf new > a; mv a b; cp b a; rm b", 1)] {
        let call = recorder.call();
        let before = recorder.snapshots.before(&call, None).await.unwrap();
        let output = recorder.bench.call("run_bash_command", json!({ "command": command })).await;
        assert_eq!(output.exit_code, Some(0), "{}", output.text);
        let changes = before.after.await.unwrap();
        assert_eq!(changes.files.len(), changed, "{command}");
        assert_eq!(fs::read(&outside).unwrap(), b"old");
        let undone = recorder.undo(&changes.files).await;
        assert!(undone.files.iter().all(|file| file.outcome == UndoOutcome::Done && file.reason.is_none()));
        assert_eq!((recorder.bench.content("/project/a"), fs::read(&outside).unwrap()), (b"old".into(), b"old".into()));
    }
}

/// Returns all files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

impl Recorder {
    /// Returns the context of another session with the same project.
    async fn second(&self) -> ToolContext {
        let session_id = SessionId::generate();
        let project = self.bench.workspace().project.clone();
        let workspace = self.bench.folders.open(session_id, project.into()).await.unwrap();
        ToolContext { session_id, workspace: workspace.into(), ..self.call() }
    }

    /// Records the changes of a command in the session of `call`.
    async fn of(&self, call: &ToolContext, change: impl FnOnce(&Bench)) -> Changes {
        let before = self.snapshots.before(call, None).await.unwrap();
        change(&self.bench);
        before.after.await.unwrap()
    }

    fn fill(&self, files: usize) {
        for number in 0..files {
            self.bench.put(&format!("/project/d{}/f{number}", number % 20), vec![number as u8; 4096 + number]);
        }
    }

    fn packs(&self) -> BTreeMap<PathBuf, u64> {
        self.contents().into_iter().filter(|(path, _)| path.extension().is_some()).collect()
    }

    /// Returns the names and sizes of packs and separate contents. Files that are collected concurrently are omitted.
    fn contents(&self) -> BTreeMap<PathBuf, u64> {
        let folder = self.bench.outside.path().join("undo/contents");
        let size = |path: PathBuf| fs::metadata(&path).ok().map(|metadata| (path, metadata.len()));
        files_below(&folder).into_iter().filter_map(size).collect()
    }
}

#[tokio::test]
async fn project_content_is_shared_and_a_full_store_evicts() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.fill(300);
    recorder.record(|_| {}).await;
    let contents = recorder.contents();
    assert!(contents.len() < 10, "small files share a pack: {contents:?}");
    let packs = recorder.packs();
    let bytes = recorder.snapshots.bytes_on_disk().await.unwrap();
    assert!(bytes > 300 * 4096, "{bytes}");
    for restarted in [false, true] {
        if restarted {
            recorder.restart();
        }
        let second = recorder.second().await;
        assert_eq!(recorder.of(&second, |_| {}).await.files, []);
        assert_eq!(recorder.packs(), packs, "the second session copies nothing");
        let own = recorder.bench.outside.path().join("undo").join(second.session_id.to_string());
        let own: u64 = files_below(&own).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(own < 4096, "the second session stores {own} bytes");
    }
    // Changes made by the second session are undone with contents that the first session stored.
    let second = recorder.second().await;
    let changes = recorder.of(&second, |bench| drop(bench.put("/project/d1/f1", "changed"))).await;
    let undone = recorder.undo_of(&second, &changes.files, false).await;
    assert_eq!(outcomes(&undone), [("/project/d1/f1", UndoOutcome::Done)]);
    assert_eq!(recorder.bench.content("/project/d1/f1"), vec![1; 4097]);

    // A full store evicts old contents and continues to record.
    let config = SnapshotConfig { max_total_bytes: 1_000_000, ..SnapshotConfig::default() };
    let recorder = Recorder::with(Project::Writable, config).await;
    recorder.fill(100);
    let mut all = Vec::new();
    for round in 0..12_u8 {
        let call = recorder.second().await;
        let write = |bench: &Bench| drop(bench.put("/project/d1/f1", vec![round; 100_000]));
        let changes = recorder.of(&call, write).await;
        assert!(changes.files.iter().all(FileChange::is_recorded), "{round}: {changes:?}");
        all.push((call, changes));
    }
    assert!(recorder.snapshots.bytes_on_disk().await.unwrap() <= 1_000_000);
    let (call, changes) = &all[11];
    let undone = recorder.undo_of(call, &changes.files, false).await;
    assert_eq!(outcomes(&undone), [("/project/d1/f1", UndoOutcome::Done)]);
    assert_eq!(recorder.bench.content("/project/d1/f1"), vec![10; 100_000]);
}

#[tokio::test]
async fn shared_content_survives_a_removed_session() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.fill(100);
    let first = recorder.record(|bench| drop(bench.put("/project/d1/f1", "by the first"))).await;
    let second = recorder.second().await;
    let changes = recorder.of(&second, |bench| drop(bench.put("/project/d2/f2", "by the second"))).await;
    recorder.snapshots.remove(recorder.bench.context.session_id).await.unwrap();
    recorder.snapshots.collect().await.unwrap();
    recorder.restart();
    recorder.snapshots.collect().await.unwrap();
    // Contents that only the first session needed belong to the shared scan while a session with that project exists.
    for (changes, path, content) in
        [(changes, "/project/d2/f2", vec![2; 4098]), (first, "/project/d1/f1", vec![1; 4097])]
    {
        let undone = recorder.undo_of(&second, &changes.files, false).await;
        assert_eq!(outcomes(&undone), [(path, UndoOutcome::Done)]);
        assert_eq!(recorder.bench.content(path), content);
    }
    recorder.snapshots.remove(second.session_id).await.unwrap();
    let undo = recorder.bench.outside.path().join("undo");
    eventually("nothing is left", || files_below(&undo).is_empty()).await;
    recorder.snapshots.remove(second.session_id).await.unwrap();
    // Removing a session counts its files at the end, and the next collection waits for this count.
    recorder.snapshots.collect().await.unwrap();
    assert_eq!(recorder.snapshots.bytes_on_disk().await.unwrap(), 0);
}

#[tokio::test]
async fn guarded_and_kept_files_are_known_after_a_kill() {
    let mut recorder = Recorder::new(Project::Writable).await;
    recorder.bench.put("/project/.gitignore", "build/\n");
    recorder.bench.put("/project/build/Tiltfile", "old");
    recorder.bench.context.guarded = GuardedNames::with(&["Tiltfile".to_owned()]).unwrap();
    let call = recorder.call();
    let recording = recorder.snapshots.before(&call, None).await.unwrap();
    recorder.bench.put("/project/a.txt", "new");
    drop(recording);
    recorder.restart();
    assert_eq!(paths(&recorder.unfinished(&call).await.files), ["/project/a.txt"]);

    // A checked call that was killed before its last step, in which the call's scans are renamed.
    recorder.bench.context.confinement = Confinement::Guarded;
    let call = recorder.call();
    let recording = recorder.snapshots.before(&call, None).await.unwrap();
    recorder.bench.put("/project/build/Tiltfile", "new");
    let changes = recording.after.await.unwrap();
    assert_eq!(recorder.bench.content("/project/build/Tiltfile"), b"old");
    recorder.undo(&changes.set_aside.changes).await;
    let calls = recorder.bench.outside.path().join("undo").join(call.session_id.to_string()).join("calls");
    for file in fs::read_dir(calls).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        let open = name.replace(".ended-project", ".project").replace(".ended", ".look");
        fs::rename(file.path(), file.path().with_file_name(open)).unwrap();
    }
    recorder.restart();
    recorder.unfinished(&call).await;
    assert_eq!(recorder.bench.content("/project/build/Tiltfile"), b"new", "the user kept the change");
}

/// Files removed by the check of one call stay removed when a concurrent call ends.
#[tokio::test]
async fn removed_planted_files_are_not_restored_by_other_calls() {
    for (is_killed, is_checked) in [(false, true), (false, false), (true, true)] {
        let mut recorder = Recorder::guarded(SnapshotConfig::default()).await;
        let first = recorder.call();
        let mut second = recorder.second().await;
        if !is_checked {
            second.confinement = Confinement::Usual;
        }
        let planted = ["/project/AGENTS.md", "/project/sub/.vscode/tasks.json"];
        let before_first = recorder.snapshots.before(&first, None).await.unwrap();
        planted.iter().for_each(|path| drop(recorder.bench.put(path, "planted")));
        let before_second = recorder.snapshots.before(&second, None).await.unwrap();
        recorder.bench.put("/project/ok.txt", "of the second");
        if is_killed {
            recorder.wait_for_heartbeat_after(&["/project/ok.txt"]);
            drop((before_first, before_second));
            recorder.restart();
            recorder.unfinished(&first).await;
            recorder.unfinished(&second).await;
        } else {
            assert_eq!(before_first.after.await.unwrap().set_aside.files.len(), 3, "two files and a folder");
            let changes = before_second.after.await.unwrap();
            assert_eq!(changes.set_aside, FilesReverted::default());
            recorder.undo_of(&second, &changes.files, false).await;
        }
        for path in planted {
            assert!(!recorder.bench.real(path).exists(), "{path}, killed: {is_killed}, checked: {is_checked}");
        }
    }
}

/// Hooks in the project that a configuration elsewhere names, incomplete repositories, and files nested too deeply for
/// a scan.
#[tokio::test]
async fn hooks_and_repositories_are_found_wherever_git_looks() {
    let config = "[core]\n\thooksPath = tools/hooks ; of all\n";
    for (at, hook) in [(".git/config", "tools/hooks/pre-commit"), ("../.git/config", "hooks/pre-commit")] {
        let recorder = Recorder::guarded(SnapshotConfig::default()).await;
        let project = recorder.bench.workspace().project.as_ref().unwrap().path.clone();
        let outside = at.starts_with("..");
        let config = if outside {
            config.replace("tools", project.file_name().unwrap().to_str().unwrap())
        } else {
            config.into()
        };
        fs::create_dir_all(project.join(at).parent().unwrap()).unwrap();
        fs::write(project.join(at), config).unwrap();
        recorder.bench.put(&format!("/project/{hook}"), "old");
        let plants = async || {
            let changes = recorder.record(|bench| drop(bench.put(&format!("/project/{hook}"), "planted"))).await;
            assert_eq!(changes.set_aside.files.len(), 1, "{at}: {changes:?}");
            assert_eq!(recorder.bench.content(&format!("/project/{hook}")), b"old", "{at}");
        };
        plants().await;
        // The same applies to an included file. A named pipe in place of another included file does not block the scan.
        let included = project.join(at).with_file_name("hooks.inc");
        fs::rename(project.join(at), included).unwrap();
        fs::write(project.join(at), "[include]\n\tpath = hooks.inc\n").unwrap();
        mkfifo(&project.join(at).with_file_name("config.worktree"));
        plants().await;
    }

    let recorder = Recorder::guarded(SnapshotConfig::default()).await;
    recorder
        .record(|bench| {
            bench.put("/project/src/HEAD", "ref: refs/heads/main");
            bench.put("/project/src/commondir", "../other");
            bench.put("/project/other/config", "[core]\n");
        })
        .await;
    assert!(!recorder.bench.real("/project/src/commondir").exists());

    // A link may point to the session's own files.
    let recorder = Recorder::new(Project::Writable).await;
    let own = recorder.bench.real("outputs/conf");
    symlink(&own, recorder.bench.real("/project/.vscode")).unwrap();
    let call = ToolContext { confinement: Confinement::Guarded, ..recorder.call() };
    for (path, is_free) in [("outputs/conf/tasks.json", false), ("outputs/other.json", true)] {
        let recording = recorder.snapshots.before(&call, Some(&[path.to_owned()])).await.unwrap();
        assert_eq!(recording.unchecked.is_none(), is_free, "{path}: {:?}", recording.unchecked);
    }
    let recording = recorder.snapshots.before(&call, None).await.unwrap();
    recorder.bench.put("outputs/conf/tasks.json", "planted");
    recording.after.await.unwrap();
    assert!(!own.join("tasks.json").exists());

    let recorder = Recorder::guarded(SnapshotConfig::default()).await;
    let deep = format!("{}/.vscode/tasks.json", vec!["d"; 110].join("/"));
    let call = recorder.call();
    let recording = recorder.snapshots.before(&call, None).await.unwrap();
    recorder.bench.put(&format!("/project/{deep}"), "planted");
    let error = recording.after.await.unwrap_err();
    assert!(error.to_string().contains("too many files to check"), "{error}");
}

#[tokio::test]
async fn content_of_a_running_call_is_not_collected() {
    let recorder = Recorder::new(Project::Writable).await;
    recorder.fill(100);
    let call = recorder.call();
    let before = recorder.snapshots.before(&call, None).await.unwrap();
    recorder.bench.put("/project/d3/f3", "changed");
    // In the meantime, other sessions begin and end, and the shared scan is updated.
    for number in 0..40 {
        let other = recorder.second().await;
        recorder.of(&other, |_| {}).await;
        if number % 8 == 0 {
            recorder.snapshots.remove(other.session_id).await.unwrap();
        }
    }
    recorder.snapshots.collect().await.unwrap();
    fs::remove_file(recorder.bench.real("/project/d4/f4")).unwrap();
    let changes = before.after.await.unwrap();
    assert_eq!(
        kinds(&changes),
        [("/project/d3/f3", FileChangeKind::Modified), ("/project/d4/f4", FileChangeKind::Deleted)]
    );
    all_done(&recorder.undo(&changes.files).await);
    assert_eq!(recorder.bench.content("/project/d3/f3"), vec![3; 4099]);
    assert_eq!(recorder.bench.content("/project/d4/f4"), vec![4; 4100]);
}

/// Action of a command on a tree. The generated names often collide.
#[derive(Debug, Clone)]
enum Action {
    Write(usize, Vec<u8>),
    Remove(usize),
    Folder(usize),
    Link(usize, usize),
    Mode(usize, u32),
    Rename(usize, usize),
}

fn actions(max: usize) -> impl Strategy<Value = Vec<Action>> {
    let path = 0..PATHS.len();
    let content = proptest::collection::vec(any::<u8>(), 0..6);
    let action = prop_oneof![
        4 => (path.clone(), content).prop_map(|(path, content)| Action::Write(path, content)),
        2 => path.clone().prop_map(Action::Remove),
        1 => path.clone().prop_map(Action::Folder),
        1 => (path.clone(), path.clone()).prop_map(|(path, to)| Action::Link(path, to)),
        1 => (path.clone(), prop_oneof![Just(0o600), Just(0o755), Just(0o500), Just(0o2770), Just(0)])
            .prop_map(|(path, mode)| Action::Mode(path, mode)),
        1 => (path.clone(), path).prop_map(|(path, to)| Action::Rename(path, to)),
    ];
    proptest::collection::vec(action, 0..max)
}

const PATHS: [&[u8]; 10] = [b"a", b"b", b"d", b"d/a", b"d/b", b"d/e", b"d/e/a", b"d/e/\xff\n\x1b[2J", b"f\\", b"f\\/a"];

/// Performs all actions that are possible and ignores errors.
fn act(folder: &Path, actions: &[Action]) {
    let at = |path: usize| folder.join(OsString::from_vec(PATHS[path].to_vec()));
    for action in actions {
        let _ = match action {
            Action::Write(path, content) => fs::write(at(*path), content),
            Action::Remove(path) => fs::remove_file(at(*path)).or_else(|_| fs::remove_dir_all(at(*path))),
            Action::Folder(path) => fs::create_dir(at(*path)),
            Action::Link(path, to) => symlink(OsStr::from_bytes(PATHS[*to]), at(*path)),
            // `set_permissions` on a link would change the permissions of the target.
            Action::Mode(path, mode) if !at(*path).is_symlink() => {
                fs::set_permissions(at(*path), fs::Permissions::from_mode(*mode))
            }
            Action::Mode(..) => Ok(()),
            Action::Rename(path, to) => fs::rename(at(*path), at(*to)),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_turn_can_be_undone(start in actions(20), first in actions(8), second in actions(8), restart in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut recorder = Recorder::new(Project::None).await;
            act(&recorder.bench.real("outputs"), &start);
            let before = recorder.tree();
            let mut changes = recorder.record(|bench| act(&bench.real("outputs"), &first)).await.files;
            changes.extend(recorder.record(|bench| act(&bench.real("outputs"), &second)).await.files);
            prop_assert!(changes.iter().all(|file| !file.path.chars().any(char::is_control)), "{:?}", changes);
            let changed = recorder.tree();
            if restart {
                recorder.restart();
            }
            let undone = recorder.undo(&changes).await;
            all_done(&undone);
            prop_assert_eq!(recorder.tree(), before);
            recorder.undo(&undone.changes).await;
            prop_assert_eq!(recorder.tree(), changed);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn concurrent_changes_are_attributed_and_undone() {
    use UndoOutcome::{Conflict, Done};
    let recorder = Recorder::new(Project::None).await;
    let before = recorder.tree();
    let [first, other] = [recorder.call(), ToolContext { session_id: SessionId::generate(), ..recorder.call() }];
    let before_first = recorder.snapshots.before(&first, None).await.unwrap();
    let before_other = recorder.snapshots.before(&other, None).await.unwrap();
    recorder.bench.put("outputs/first.txt", "by the first");
    recorder.bench.put("outputs/both.txt", "by one of them");
    let of_first = before_first.after.await.unwrap().files;
    recorder.bench.put("outputs/other.txt", "by the other");
    recorder.bench.put("outputs/both.txt", "by the other");
    let of_other = before_other.after.await.unwrap().files;
    let summary = |changes: &[FileChange]| -> Vec<(String, FileChangeKind, bool)> {
        changes.iter().map(|change| (change.path.clone(), change.change, change.late)).collect()
    };
    let change = |name: &str, kind, late| (format!("outputs/{name}.txt"), kind, late);
    use FileChangeKind::{Created, Modified};
    assert_eq!(summary(&of_first), [change("both", Created, true), change("first", Created, true)]);
    assert_eq!(summary(&of_other), [change("both", Modified, false), change("other", Created, false)]);

    // Neither session undoes the work of the other session.
    let undone = recorder.try_undo(&of_first, true).await;
    let first = undone.files.iter().find(|file| file.path == "outputs/first.txt").unwrap();
    assert_eq!(first.outcome, Conflict, "{undone:#?}");
    let context = &recorder.bench.context;
    let undone = recorder.undo_of(&other, &of_other, true).await;
    assert!(undone.files.iter().all(|file| file.outcome == Done), "{undone:#?}");

    // The parent session of both sessions undoes all changes.
    let parent = SessionId::generate();
    let mut all = Vec::new();
    for (session, changes) in [(context.session_id, of_first), (other.session_id, of_other)] {
        all.extend(recorder.snapshots.adopt(session, parent, changes).await.unwrap());
    }
    let all: Vec<FileChange> = all.into_iter().map(|change| FileChange { late: false, ..change }).collect();
    let undone = recorder.snapshots.undo(parent, &context.workspace, folded(&all), false).await.unwrap();
    assert!(undone.files.iter().all(|file| file.outcome == Done), "{undone:#?}");
    assert_eq!(recorder.tree(), before);
}
