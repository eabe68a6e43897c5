//! After an unreviewed command, a planted file remains if and only if no other program runs or obeys the file,
//! regardless of its name, its depth, and links to it.

use agentd_core::{
    folder::Mounts,
    guarded::GuardedNames,
    ids::CallId,
    ports::{Changes, FilesBefore},
    undo::UndoOutcome,
};
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{races::exchange, sandbox::in_folder, *};

/// Prefixes of written files, each with its real prefix. The prefixes from [`FIRST_TARGET`] on are targets of guarded
/// links.
const PLACES: [(&str, &str); 8] = [
    ("/project/", "/project/"),
    ("/project/ignored/", "/project/ignored/"),
    ("/project/ordinary/", "/project/linked/"),
    ("/folders/lib/", "/folders/lib/"),
    ("/project/.zed/", "/project/t0/"),
    ("/project/t0/", "/project/t0/"),
    ("/project/.helix/", "/folders/lib/t1/"),
    ("/folders/lib/t2/", "/folders/lib/t2/"),
];
const FIRST_TARGET: usize = 4;

/// Ignored folders: one that the check searches, and caches.
const IGNORED: &str = "ignored/\nnode_modules/\ntarget/\n.venv/\n";

/// Files that other programs run or obey. `Tiltfile` is a name that the user configured.
const GUARDED: &[&str] = &[
    "AGENTS.md",
    "agents.MD",
    "x.code-workspace",
    "opencode.json",
    "mise.toml",
    "Jenkinsfile",
    "lefthook.yml",
    "Tiltfile",
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/info/attributes",
    ".git/modules/a/hooks/pre-push",
    ".GIT/hooks/post-merge",
    "GIT~1/config",
    ".hg/hgrc",
    ".yarn/releases/yarn.cjs",
    ".claude/skills/target/SKILL.md",
];

/// Files that no program runs or obeys on its own initiative: harmless names, data of git, sample hooks, and caches.
const UNGUARDED: &[&str] = &[
    ".editorconfig",
    ".gitattributes",
    ".nvmrc",
    ".env.example",
    "Makefile",
    "package.json",
    ".git/objects/aa",
    ".git/refs/heads/main",
    ".git/hooks/pre-commit.sample",
    ".hg/dirstate",
    ".yarn/state",
    "node_modules/x/.npmrc",
    "target/.unheard-of",
    ".venv/lib/x.pth",
];

/// File or dangling link that a script creates.
#[derive(Debug, Clone)]
struct Planted {
    place: usize,
    below: String,
    is_link: bool,
    is_guarded: bool,
}

impl Planted {
    fn new(place: usize, parents: &[String], name: &str, is_link: bool, is_guarded: bool) -> Self {
        let below = parents.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/");
        Self { place, below, is_link, is_guarded }
    }

    /// Returns the path as used in the script.
    fn written(&self) -> String {
        format!("{}{}", PLACES[self.place].0, self.below)
    }

    /// Returns the path as reported by the check.
    fn reported(&self) -> String {
        format!("{}{}", PLACES[self.place].1, self.below)
    }

    fn line(&self) -> String {
        let path = self.written();
        let (folder, _) = path.rsplit_once('/').unwrap();
        let write = if self.is_link { "ln -s nowhere" } else { "printf planted >" };
        format!("mkdir -p '{folder}'; {write} '{path}'\n")
    }
}

/// Generates names that the table does not list, with true for guarded names. The table has no names that begin with
/// `.q` or `.u`.
fn unlisted_name() -> impl Strategy<Value = (String, bool)> {
    prop_oneof![
        2 => r"\.q[a-zA-Z0-9_-]{1,10}".prop_map(|name| (name, true)),
        1 => (r"\.u[a-z0-9]{1,8}", "p[a-z0-9]{0,6}").prop_map(|(folder, name)| (format!("{folder}/{name}"), true)),
        2 => r"p[a-zA-Z0-9_-]{0,8}(\.(rs|md|json|txt))?".prop_map(|name| (name, false)),
    ]
}

fn any_name() -> impl Strategy<Value = (String, bool)> {
    prop_oneof![
        3 => unlisted_name(),
        2 => select(GUARDED).prop_map(|name| (name.to_owned(), true)),
        2 => select(UNGUARDED).prop_map(|name| (name.to_owned(), false)),
    ]
}

fn planted() -> impl Strategy<Value = Planted> {
    let parents = || prop_oneof![5 => vec("d[a-z0-9]{0,5}", 0..5), 1 => vec("d[a-z0-9]{0,5}", 20..60)];
    let is_link = || proptest::bool::weighted(0.2);
    let by_name = (0..FIRST_TARGET, parents(), any_name(), is_link());
    let by_place = (FIRST_TARGET..PLACES.len(), parents(), unlisted_name(), is_link());
    prop_oneof![
        3 => by_name.prop_map(|(place, parents, (name, is_guarded), is_link)| {
            Planted::new(place, &parents, &name, is_link, is_guarded)
        }),
        1 => by_place.prop_map(|(place, parents, (name, _), is_link)| Planted::new(place, &parents, &name, is_link, true)),
    ]
}

/// Returns the real path of a file in the project or the added folder.
fn real(bench: &Bench, path: &str) -> PathBuf {
    match path.strip_prefix("/folders/lib/") {
        Some(below) => bench.workspace().folder("lib").unwrap().path.join(below),
        None => bench.real(path),
    }
}

/// Creates a bench whose commands are not reviewed, with a project, an added folder and the links to the targets.
async fn unreviewed() -> (Bench, FileSnapshots) {
    // An added folder below a hidden folder would be guarded as a whole.
    let outside = tempfile::Builder::new().prefix("planting-").tempdir_in("/var/tmp").unwrap();
    let mut bench = in_folder(outside, Project::Writable, |_| {}).await;
    let lib = bench.outside.path().join("lib");
    fs::create_dir(&lib).unwrap();
    let mounts = bench.workspace().mounts();
    let added = vec![Mount { path: lib, writable: true }];
    let folders = bench.folders.add_folders(mounts.clone(), added).await.unwrap();
    let workspace = bench.folders.open(bench.context.session_id, Mounts { folders, ..mounts }).await.unwrap();
    bench.context.workspace = Arc::new(workspace);
    bench.context.confinement = Confinement::Guarded;
    bench.context.guarded = GuardedNames::with(&["Tiltfile".to_owned()]).unwrap();
    for folder in ["/project", "/folders/lib"] {
        fs::write(real(&bench, &format!("{folder}/.gitignore")), IGNORED).unwrap();
    }
    bench.put("/project/ignored/old.txt", "old");
    bench.put("/project/linked/old.txt", "old");
    symlink("linked", bench.real("/project/ordinary")).unwrap();
    symlink("t0", bench.real("/project/.zed")).unwrap();
    symlink(real(&bench, "/folders/lib/t1"), bench.real("/project/.helix")).unwrap();
    symlink("t2", real(&bench, "/folders/lib/.vscode")).unwrap();
    let snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
    (bench, snapshots)
}

fn next_call(bench: &Bench) -> ToolContext {
    ToolContext { call_id: CallId::generate(), ..bench.context.clone() }
}

async fn call_of_new_session(bench: &Bench) -> ToolContext {
    let session_id = SessionId::generate();
    let workspace = bench.folders.open(session_id, bench.workspace().mounts()).await.unwrap();
    ToolContext { session_id, workspace: Arc::new(workspace), ..next_call(bench) }
}

/// Runs `script` as a script in the project, as a turn would. Returns the paths of reverted files, and the output.
async fn run_script(bench: &mut Bench, snapshots: &FileSnapshots, script: &str) -> (Vec<String>, String) {
    bench.put("/project/run.sh", format!("{script}printf over > /project/over.txt\n"));
    let before = snapshots.before(&next_call(bench), None).await.unwrap();
    let FilesBefore { closed, unchecked, after, .. } = before;
    assert_eq!(unchecked, None);
    bench.context.closed = closed.into();
    let output = bench.call("run_bash_command", json!({"command": "sh /project/run.sh"})).await.text;
    let reverted = after.await.unwrap().set_aside.files;
    assert_eq!(fs::read_to_string(bench.real("/project/over.txt")).unwrap_or_default(), "over", "{output}");
    let reverted = reverted.into_iter().filter(|file| file.outcome == UndoOutcome::Done);
    (reverted.map(|file| file.path).collect(), output)
}

/// Runs one script that writes all files. With `targets_exist`, the targets of the guarded links exist before the
/// command and are therefore read-only.
async fn check_planted(files: &[Planted], targets_exist: bool) -> Result<(), TestCaseError> {
    let (mut bench, snapshots) = unreviewed().await;
    let targets = ["/project/t0", "/folders/lib/t1", "/folders/lib/t2"];
    if targets_exist {
        targets.iter().for_each(|target| fs::create_dir(real(&bench, target)).unwrap());
    }
    let lines: String = files.iter().map(Planted::line).collect();
    let script = format!("mkdir -p {}\n{lines}", targets.join(" "));
    let (reverted, output) = run_script(&mut bench, &snapshots, &script).await;
    for file in files {
        let exists = real(&bench, &file.written()).symlink_metadata().is_ok();
        prop_assert_eq!(exists, !file.is_guarded, "{:?}\n{}", file, output);
        let is_reverted = reverted.contains(&file.reported());
        let was_closed = targets_exist && file.place >= FIRST_TARGET;
        prop_assert_eq!(is_reverted, file.is_guarded && !was_closed, "{:?}: {:?}\n{}", file, reverted, output);
    }
    Ok(())
}

proptest! {
    // Each case writes many files, because starting a command takes longer than writing its files.
    #![proptest_config(ProptestConfig {
        cases: 10,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn planted_file_remains_only_if_unguarded(
        files in vec(planted(), 20..60),
        targets_exist in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_planted(&files, targets_exist))?;
    }
}

/// Folders that are nested too deeply for the check are reported before the call, wherever they are. Caches are only
/// checked if a guarded link points to them.
#[tokio::test]
async fn too_deep_folders_are_reported_before_the_call() {
    for (folder, link, levels, is_checked) in [
        ("src", None, 101, false),
        ("ignored/src", None, 101, false),
        ("node_modules/conf", None, 101, true),
        ("node_modules/conf", Some(".linked"), 90, true),
        ("node_modules/conf", Some(".linked"), 101, false),
    ] {
        let (bench, snapshots) = unreviewed().await;
        let deep = bench.real(&format!("/project/{folder}"));
        fs::create_dir_all(&deep).unwrap();
        deep_tree(&deep, levels);
        if let Some(link) = link {
            symlink(folder, bench.real(&format!("/project/{link}"))).unwrap();
        }
        let before = snapshots.before(&next_call(&bench), None).await.unwrap();
        assert_eq!(before.unchecked.is_none(), is_checked, "{folder}, {link:?}, {levels}: {:?}", before.unchecked);
    }
}

/// Creates `/project/folder` and `/project/link`, which points to a folder outside the project. Returns the folder
/// outside. It contains the same file that a script plants; a check that follows the link would remove this file.
fn away_beside_folder(bench: &Bench) -> PathBuf {
    let away = bench.outside.path().join("away");
    fs::create_dir_all(away.join(".zed")).unwrap();
    fs::write(away.join(".zed/tasks.json"), "planted").unwrap();
    fs::create_dir(bench.real("/project/folder")).unwrap();
    symlink(&away, bench.real("/project/link")).unwrap();
    away
}

/// A process of the command swaps the folder and the link until the command has ended.
#[tokio::test]
async fn swap_by_the_command_leaves_no_planted_file() {
    let (mut bench, snapshots) = unreviewed().await;
    let away = away_beside_folder(&bench);
    let before = tree(&away);
    // The current folder stays the same, regardless of its name.
    let script = "cd /project/folder; mkdir .zed
        (cd /project; while :; do
            mv -T folder spare; mv -T link folder; mv -T folder link; mv -T spare folder; touch swapped.txt
        done) > /dev/null 2>&1 &
        until [ -e /project/swapped.txt ]; do sleep 0.01; done
        printf planted > .zed/tasks.json; printf planted > /project/folder/.zed/tasks.json; ln -s nowhere CLAUDE.md\n";
    let (reverted, output) = run_script(&mut bench, &snapshots, script).await;
    for planted in [".zed/tasks.json", "CLAUDE.md"] {
        assert!(reverted.iter().any(|path| Path::new(path).ends_with(planted)), "{planted}: {reverted:?}\n{output}");
        let left = tree(&bench.real("/project"));
        assert!(!left.iter().any(|(path, _)| path.ends_with(planted)), "{planted}: {left:?}");
    }
    assert_eq!(tree(&away), before);
}

/// Calls of three sessions overlap. The first one has changed guarded files before the others start, and changes them back
/// meanwhile, or hides the link that leads to one. No check takes the files that it saw for files of the user, in any
/// order of the checks, after a crash, and if the project of the second call is a folder of the others.
#[tokio::test]
async fn files_planted_by_an_earlier_call_are_not_restored_by_the_checks_of_later_calls() {
    for (order, crash, nested) in [
        ([0, 1, 2], false, false),
        ([1, 0, 2], false, false),
        ([2, 1, 0], false, true),
        ([0, 2, 1], false, true),
        ([0, 1, 2], true, true),
        ([1, 0, 2], true, false),
        ([2, 1, 0], true, false),
    ] {
        let (bench, mut snapshots) = unreviewed().await;
        let path = |name: &str| bench.real(&format!("/project/sub/{name}.code-workspace"));
        fs::create_dir(bench.real("/project/sub")).unwrap();
        let (own, changed, planted, left) = (path("own"), path("changed"), path("planted"), path("left"));
        fs::write(&own, "of the user").unwrap();
        fs::write(&changed, "of the user").unwrap();
        let (link, target) = (bench.real("/project/sub/.envrc"), bench.real("/project/sub/target"));
        symlink("target", &link).unwrap();
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(call_of_new_session(&bench).await);
        }
        if nested {
            let project = Some(Mount { path: bench.real("/project/sub"), writable: true });
            let mounts = Mounts { project, ..Mounts::default() };
            let workspace = bench.folders.open(calls[1].session_id, mounts).await.unwrap();
            calls[1].workspace = Arc::new(workspace);
        }
        let mut checks = vec![Some(snapshots.before(&calls[0], None).await.unwrap().after)];
        fs::write(&planted, "planted").unwrap();
        fs::write(&left, "planted").unwrap();
        fs::write(&changed, "planted").unwrap();
        fs::remove_file(&own).unwrap();
        fs::remove_file(&link).unwrap();
        fs::write(&target, "planted").unwrap();
        for call in &calls[1..] {
            checks.push(Some(snapshots.before(call, None).await.unwrap().after));
        }
        fs::remove_file(&planted).unwrap();
        fs::write(&changed, "of the user").unwrap();
        fs::write(&own, "of the user").unwrap();
        fs::remove_file(&target).unwrap();
        symlink("target", &link).unwrap();
        if crash {
            checks.clear();
            snapshots = FileSnapshots::new(bench.outside.path().join("undo"), SnapshotConfig::default());
        }
        for (round, index) in order.into_iter().enumerate() {
            match checks.get_mut(index).and_then(Option::take) {
                Some(check) => check.await.unwrap(),
                None => {
                    let call = &calls[index];
                    snapshots.unfinished(call.session_id, &call.workspace, &call.call_id).await.unwrap()
                }
            };
            // A call that still runs writes what the check has removed.
            if round == 0 {
                fs::write(&left, "planted").unwrap();
            }
        }
        let planted = [planted, left, target].iter().filter(|path| path.exists()).count();
        assert_eq!(planted, 0, "{order:?}, {crash}, {nested}");
        assert!(link.is_symlink(), "{order:?}, {crash}, {nested}");
        for path in [&own, &changed] {
            assert_eq!(fs::read_to_string(path).unwrap_or_default(), "of the user", "{order:?}, {crash}, {nested}");
        }
    }
}

/// The check of a later call leaves a planted file to the check of the planting call, which may need the file until then.
#[tokio::test]
async fn file_planted_by_a_running_call_is_removed_by_its_own_check() {
    let (bench, snapshots) = unreviewed().await;
    let planting = snapshots.before(&call_of_new_session(&bench).await, None).await.unwrap();
    let planted = bench.real("/project/planted.code-workspace");
    fs::write(&planted, "planted").unwrap();
    let later = snapshots.before(&call_of_new_session(&bench).await, None).await.unwrap();
    fs::write(bench.real("/project/own.txt"), "own").unwrap();
    let Changes { files, set_aside, .. } = later.after.await.unwrap();
    let paths: Vec<_> = files.iter().map(|change| change.path.as_str()).collect();
    assert_eq!((paths.as_slice(), set_aside.files.len()), (["/project/own.txt"].as_slice(), 0));
    assert!(planted.exists());
    let set_aside = planting.after.await.unwrap().set_aside;
    assert_eq!(set_aside.files.len(), 1);
    assert!(!planted.exists());
}

/// Another program swaps the folder and the link while the calls of one session are checked. The check of a concurrent
/// call finds the files that these checks missed.
#[tokio::test]
async fn swap_during_checks_leaves_no_planted_file() {
    let (bench, snapshots) = unreviewed().await;
    let away = away_beside_folder(&bench);
    let before = tree(&away);
    let of_other = snapshots.before(&call_of_new_session(&bench).await, None).await.unwrap();
    let (path, link) = (bench.real("/project/folder"), bench.real("/project/link"));
    let folder = cap_std::fs::Dir::open_ambient_dir(&path, cap_std::ambient_authority()).unwrap();
    let plant = || {
        folder.create_dir_all(".zed").unwrap();
        folder.write(".zed/tasks.json", "planted").unwrap();
    };
    // Swaps twice, so that the folder has its original name at the end.
    let swap = move || {
        exchange(&path, &link);
        exchange(&path, &link);
    };
    while_swapping(swap, async {
        for _ in 0..30 {
            // A scan may fail while names change. In that case, the call requires approval, or its result contains a
            // warning.
            let Ok(of_call) = snapshots.before(&next_call(&bench), None).await else { continue };
            plant();
            let _ = of_call.after.await;
        }
    })
    .await;
    plant();
    let reverted = of_other.after.await.unwrap().set_aside.files;
    let is_planted = |path: &str| path == "/project/folder/.zed/tasks.json";
    assert!(reverted.iter().any(|file| is_planted(&file.path) && file.outcome == UndoOutcome::Done), "{reverted:?}");
    assert!(!folder.exists(".zed/tasks.json"));
    assert_eq!(tree(&away), before);
}
