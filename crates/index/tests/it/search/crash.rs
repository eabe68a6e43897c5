//! The process ends in the middle, or the disk is full.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use agentd_index::{IndexHandle, Visible};

use super::support::{START, Shelf, cited, config, put};
use crate::codes::Code as _;

const FOLDER: &str = "INDEX_TEST_FOLDER";

fn long_pages(seed: usize) -> Vec<(Option<&'static str>, String)> {
    let page = |number: usize| {
        (None, format!("document{seed} page{number} common 中文内容 {}", "filler words to write ".repeat(20)))
    };
    (0..40).map(page).collect()
}

fn name(seed: usize) -> String {
    format!("{seed}.pdf")
}

/// A copy of this program that runs one test which only makes sense as a process of its own.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    command
}

#[tokio::test]
#[ignore = "it is the process that another test kills"]
async fn indexes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let index = IndexHandle::open(config(Path::new(&folder), &Arc::new(START.into()))).await.unwrap();
    for seed in 0..100_000 {
        put(&index, &name(seed), None, long_pages(seed)).await.unwrap();
        println!("\ndone {seed}");
    }
}

#[tokio::test]
async fn what_was_done_before_a_kill_is_there_and_the_rest_can_be_done_again() {
    let shelf = Shelf::new().await;
    shelf.index.close().await.unwrap();
    let mut done = 0;
    for round in 1..=3 {
        let mut process = child("search::crash::indexes_until_it_is_killed", shelf.folder.path());
        let mut process = process.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            if let Some(seed) = line.strip_prefix("done ") {
                done = seed.parse::<usize>().unwrap();
                if done >= round * 4 {
                    break;
                }
            }
        }
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(done >= round * 4, "the process ended by itself");

        let index = IndexHandle::open(config(shelf.folder.path(), &shelf.clock)).await.unwrap();
        let stats = index.stats().await.unwrap();
        assert!(stats.documents > done as u64 && stats.chunks == stats.documents * 40, "{stats:?} after {done}");
        let mut documents = Vec::new();
        // The one it was at, and the next ones.
        for seed in 0..done + 4 {
            documents.push(put(&index, &name(seed), None, long_pages(seed)).await.unwrap());
        }
        let again = Shelf { index, folder: tempfile::tempdir().unwrap(), clock: Arc::default() };
        for seed in [0, done, done + 3] {
            let cited_by = again.search(&documents, &format!("document{seed} page39")).await;
            assert_eq!(cited(&cited_by).first().copied(), Some(format!("{} p. 40", name(seed)).as_str()));
        }
        again.index.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "it is the process whose files another test limits"]
async fn indexes_more_than_fits() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let index = IndexHandle::open(config(Path::new(&folder), &Arc::new(START.into()))).await.unwrap();
    let small = put(&index, "small.pdf", None, vec![(None, "a small text".to_owned())]).await.unwrap();
    let large = (0..3000).map(|number| (None, format!("{number:x} {}", noise(number)))).collect();
    let error = put(&index, "large.pdf", None, large).await.unwrap_err();
    println!("\nfailed {} {}", error.code(), error.hint());
    // The next request is answered, and the next document is taken.
    let next = put(&index, "next.pdf", None, vec![(None, "the next text".to_owned())]).await.unwrap();
    let shelf = Shelf { index, folder: tempfile::tempdir().unwrap(), clock: Arc::default() };
    let documents: Vec<Visible> = vec![small, next];
    println!("\nfound {:?}", cited(&shelf.search(&documents, "text").await));
    println!("\ndocuments {}", shelf.index.stats().await.unwrap().documents);
}

/// Letters that do not repeat, so that they take up what they take up.
fn noise(seed: u32) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        format!("{state:x} ")
    };
    (0..60).map(|_| word()).collect()
}

#[tokio::test]
async fn a_full_disk_fails_one_document_and_nothing_else() {
    let shelf = Shelf::new().await;
    shelf.index.close().await.unwrap();
    // The shell limits the size of files, and ignores the signal that would end whoever goes beyond.
    let mut limited = child("search::crash::indexes_more_than_fits", shelf.folder.path());
    let program = limited.get_program().to_owned();
    let arguments: Vec<_> = limited.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$@\"", "sh"]).arg(program).args(arguments);
    limited = shell;
    let output = limited.env(FOLDER, shelf.folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("failed disk_full free some disk space"), "{said}\n{errors}");
    assert!(
        said.contains("found [") && said.contains("small.pdf p. 1") && said.contains("next.pdf p. 1"),
        "{said}\n{errors}"
    );
    assert!(said.contains("documents 2"), "{said}");
}
