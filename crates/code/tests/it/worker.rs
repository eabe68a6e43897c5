//! Tests for the daemon side with a scripted worker.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_code::{CodePool, PoolConfig};
use agentd_core::{
    code::{CodeAnswer, CodeQuestion, CodeReply},
    error::CodeError,
    ports::CodeReader as _,
};
use tokio_util::sync::CancellationToken;

/// Script of a worker whose behaviour depends on the name of its folder.
const SCRIPT: &str = r#"import json, os, struct, sys, time
job = json.loads(sys.argv[2])
root = job["root"]
with open(os.path.join(root, "started"), "a") as log:
    log.write(json.dumps({"careful": job["is_careful"], "excluded": job["excluded"]}) + "\n")
def say(word):
    body = json.dumps(word).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(body)) + body)
    sys.stdout.buffer.flush()
def hear():
    length = sys.stdin.buffer.read(4)
    if len(length) < 4: sys.exit(0)
    return json.loads(sys.stdin.buffer.read(struct.unpack("<I", length)[0]))
def answer(request):
    index = {"files": 1, "skipped": 0, "is_truncated": False, "is_partial": False}
    say({"reply": [request["id"], {"answer": {"outline": []}, "index": index}]})
mode = os.path.basename(root)
while True:
    request = hear()
    if mode == "poison" and "bad.rs" not in job["excluded"]:
        if job["is_careful"]:
            say({"reading": "good.rs"}); say({"reading": "bad.rs"})
        os.abort()
    elif mode == "dies":
        sys.stderr.write("no memory\n"); sys.exit(7)
    elif mode == "hangs":
        time.sleep(600)
    elif mode == "nonsense":
        sys.stdout.buffer.write(b"\xff\xff\xff\xff all is well"); sys.stdout.buffer.flush(); time.sleep(600)
    elif mode == "slow":
        for done in range(3000): say({"progress": {"done": done, "total": 3000}})
        answer(request)
    elif mode == "other":
        say({"reply": [request["id"] + 1, {"answer": {"outline": []}, "index": {"files": 1, "skipped": 0, "is_truncated": False, "is_partial": False}}]})
    else:
        answer(request)
"#;

struct TestFolders {
    folder: tempfile::TempDir,
    config: PoolConfig,
}

impl TestFolders {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("worker.py");
        fs::write(&program, format!("#!{}\n{SCRIPT}", python().display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let config = PoolConfig { silence_timeout: Duration::from_secs(3), ..PoolConfig::new(program) };
        Self { folder, config }
    }

    fn root(&self, mode: &str) -> PathBuf {
        let root = self.folder.path().join(mode);
        fs::create_dir_all(&root).unwrap();
        root
    }
}

/// Returns the path of the interpreter, because workers have no `PATH`.
fn python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file()).unwrap()
}

fn worker_starts(root: &Path) -> Vec<serde_json::Value> {
    let log = fs::read_to_string(root.join("started")).unwrap_or_default();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn ask(pool: &CodePool, root: &Path) -> Result<CodeReply, CodeError> {
    let question = CodeQuestion::Outline { path: String::new() };
    pool.ask(root.to_owned(), question, Arc::new(|_| {}), CancellationToken::new()).await
}

#[tokio::test]
async fn file_that_crashes_workers_is_excluded() {
    let folders = TestFolders::new();
    let (pool, root) = (CodePool::new(folders.config.clone()), folders.root("poison"));
    assert_eq!(ask(&pool, &root).await.unwrap().answer, CodeAnswer::Outline(Vec::new()));
    let started = worker_starts(&root);
    let is_careful: Vec<bool> = started.iter().map(|start| start["careful"].as_bool().unwrap()).collect();
    assert_eq!(is_careful, [false, true, true]);
    assert_eq!(started[2]["excluded"], serde_json::json!(["bad.rs"]));
    ask(&pool, &root).await.unwrap();
    assert_eq!(worker_starts(&root).len(), 3, "the surviving worker is reused");
}

#[tokio::test]
async fn faulty_workers_affect_only_their_folder() {
    let folders = TestFolders::new();
    let pool = CodePool::new(folders.config.clone());
    let check = async |mode: &str, expected: &str| {
        let error = ask(&pool, &folders.root(mode)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{mode}: {error}");
        assert!(error.hint().unwrap().contains("grep"), "{mode}");
    };
    check("dies", "no memory").await;
    check("nonsense", "invalid data").await;
    check("other", "unexpected answer").await;
    ask(&pool, &folders.root("fine")).await.unwrap();
    // After six crashes the folder is disabled.
    let root = folders.root("dies");
    ask(&pool, &root).await.unwrap_err();
    assert!(ask(&pool, &root).await.unwrap_err().to_string().contains("paused"));
    assert_eq!(worker_starts(&root).len(), 6);
}

#[tokio::test]
async fn hanging_worker_is_killed_and_cancel_returns_at_once() {
    let folders = TestFolders::new();
    let config = PoolConfig { silence_timeout: Duration::from_millis(300), ..folders.config.clone() };
    let pool = CodePool::new(config);
    let error = ask(&pool, &folders.root("hangs")).await.unwrap_err();
    assert!(error.to_string().contains("sent nothing"), "{error}");
    let patient_pool =
        CodePool::new(PoolConfig { silence_timeout: Duration::from_secs(3600), ..folders.config.clone() });
    let cancel = CancellationToken::new();
    let question = CodeQuestion::Outline { path: String::new() };
    let pending = patient_pool.ask(folders.root("hangs"), question, Arc::new(|_| {}), cancel.clone());
    let (error, ()) = tokio::join!(pending, async { cancel.cancel() });
    assert!(error.is_err());
}

#[tokio::test]
async fn progress_is_reported_and_a_folder_shares_one_worker() {
    let folders = TestFolders::new();
    let (pool, root) = (CodePool::new(folders.config.clone()), folders.root("slow"));
    let reported: Arc<Mutex<Vec<usize>>> = Arc::default();
    let recorder = Arc::clone(&reported);
    let progress =
        Arc::new(move |progress: agentd_core::code::CodeProgress| recorder.lock().unwrap().push(progress.done));
    let question = CodeQuestion::Outline { path: String::new() };
    let pending = pool.ask(root.clone(), question, progress, CancellationToken::new());
    let (one, other, third) = tokio::join!(pending, ask(&pool, &root), ask(&pool, &root));
    assert!(one.is_ok() && other.is_ok() && third.is_ok());
    // Progress is reported immediately and then at intervals, no matter how often the worker sends it.
    let reported = reported.lock().unwrap();
    assert!(reported.first() == Some(&0) && reported.is_sorted() && reported.len() < 300, "{reported:?}");
    assert_eq!(worker_starts(&root).len(), 1);
}

#[tokio::test]
async fn idle_workers_end_and_make_room() {
    let folders = TestFolders::new();
    let config = PoolConfig { idle: Duration::from_millis(1), ..folders.config.clone() };
    let (pool, root) = (CodePool::new(config), folders.root("idle"));
    ask(&pool, &root).await.unwrap();
    // A question that coincides with the end of a worker is still answered. The loop ends when a second worker has
    // started.
    while worker_starts(&root).len() < 2 {
        ask(&pool, &root).await.unwrap();
        tokio::task::yield_now().await;
    }
    let pool = CodePool::new(PoolConfig { workers: 1, ..folders.config.clone() });
    let (one, other) = (folders.root("one"), folders.root("two"));
    for root in [&one, &other, &one] {
        ask(&pool, root).await.unwrap();
    }
    assert_eq!((worker_starts(&one).len(), worker_starts(&other).len()), (2, 1));
}
