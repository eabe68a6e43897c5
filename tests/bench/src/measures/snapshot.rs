//! The cost of recording a command's changes: two scans of an unchanged tree of 20,000 files.

use std::{io, os::unix::fs::MetadataExt as _};

use agentd_core::{
    ids::CallId,
    ports::{Snapshots as _, ToolContext, Workspaces as _},
    session::Mount,
};
use agentd_testkit::scripted::tool_context;
use agentd_tools::WorkspaceFolders;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};

use super::*;

const FOLDERS: usize = 400;
const FILES: usize = 50;
const WARM_UP: usize = 3;
const RUNS: usize = 30;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let home = world::folder()?;
    let project = home.path().join("project");
    let tree = project.clone();
    tokio::task::spawn_blocking(move || make_tree(&tree)).await??;
    let snapshots = FileSnapshots::new(home.path().join("undo"), SnapshotConfig::default());
    let mut call = call(home.path(), &project).await?;

    let started = Instant::now();
    around(&snapshots, &mut call).await?;
    let first = started.elapsed();
    let mut other = self::call(home.path(), &project).await?;
    let started = Instant::now();
    around(&snapshots, &mut other).await?;
    let second = started.elapsed();
    // Files changed within the current clock tick would be read again.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let mut samples = Samples::default();
    for number in 0..WARM_UP + RUNS {
        let started = Instant::now();
        around(&snapshots, &mut call).await?;
        if number >= WARM_UP {
            samples.add(started.elapsed());
        }
    }
    let floor = tokio::task::spawn_blocking(move || bare(&project)).await??;
    let figures =
        vec![Figure::millis("median", samples.median()).at_most(100.0), Figure::millis("p99", samples.percentile(99))];
    Ok(vec![
        Row::new("a snapshot around a command", figures)
            .over(Figure::millis("reading metadata of each file twice", floor.median()))
            .with_note(format!("{} files, none changed", FOLDERS * FILES)),
        Row::new(
            "the first snapshot of a project",
            vec![
                Figure::millis("one session", millis(first)).at_most(1000.0),
                Figure::millis("the next", millis(second)),
            ],
        )
        .with_note(format!("{} files, copied once for all sessions", FOLDERS * FILES)),
    ])
}

async fn around(snapshots: &FileSnapshots, call: &mut ToolContext) -> anyhow::Result<()> {
    call.call_id = CallId::generate();
    let before = snapshots.before(call, None).await?;
    let changes = before.after.await?;
    ensure!(changes.files.is_empty() && changes.notes.is_empty(), "unexpected changes: {changes:?}");
    Ok(())
}

async fn call(home: &Path, project: &Path) -> anyhow::Result<ToolContext> {
    let session_id = SessionId::generate();
    let mount = Mount { path: project.to_owned(), writable: true };
    let workspace = WorkspaceFolders::new(home.join("workspace")).open(session_id, Some(mount).into()).await?;
    Ok(tool_context(session_id, workspace))
}

pub(super) fn make_tree(project: &Path) -> io::Result<()> {
    for folder in 0..FOLDERS {
        let folder = project.join(format!("part{}", folder % 20)).join(format!("module{folder}"));
        fs::create_dir_all(&folder)?;
        for file in 0..FILES {
            fs::write(folder.join(format!("source{file}.rs")), format!("// {} {file}\n", folder.display()).repeat(40))?;
        }
    }
    Ok(())
}

/// Measures the minimum cost of two scans: listing every folder and querying every file, twice.
fn bare(project: &Path) -> io::Result<Samples> {
    let mut samples = Samples::default();
    for number in 0..WARM_UP + RUNS {
        let started = Instant::now();
        let mut inodes = visit(project)?;
        inodes ^= visit(project)?;
        if number >= WARM_UP {
            samples.add(started.elapsed());
        }
        if inodes != 0 {
            return Err(io::Error::other("the tree changed during the measurement"));
        }
    }
    Ok(samples)
}

fn visit(folder: &Path) -> io::Result<u64> {
    let mut inodes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        inodes ^= metadata.ino();
        if metadata.is_dir() {
            inodes ^= visit(&entry.path())?;
        }
    }
    Ok(inodes)
}
