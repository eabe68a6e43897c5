//! Documents that are changed, moved, deleted and added again: a search finds the current state. A document that
//! several searches wait for is read only once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{documents::docx, *};

/// Returns the names of the documents in which a search in a session finds something.
async fn found_in(world: &World, session: &str, query: &str) -> Vec<String> {
    let found = world.agentctl(["docs", "search", query, "--session", session, "--json"]).await;
    let found = found.json();
    assert_eq!(found["complete"], true, "{found}");
    let hits = found["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["document"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Adds a document to a session, by default to the most recent one.
async fn add(world: &World, path: &Path, session: Option<&str>) -> String {
    let mut args = vec!["docs", "add", path.to_str().unwrap(), "--json"];
    args.extend(session.into_iter().flat_map(|session| ["--session", session]));
    let added: Value = world.ok(args).await.json();
    added["session_id"].as_str().unwrap().to_owned()
}

fn uploads(world: &World, session: &str) -> PathBuf {
    world.data().join("workspace").join(session).join("uploads")
}

#[tokio::test]
async fn search_reflects_changed_moved_and_deleted_documents() {
    let world = World::start().await;
    let text = |word: &str| docx(&[format!("The keeper of the {word} wrote this.")]);
    // Both texts have the same length, even when compressed: only the bytes differ.
    let (old, new) = (text("lantern"), text("lectern"));
    assert_eq!(old.len(), new.len());
    let session = add(&world, &world.daemon.write("late.docx", &old), None).await;
    let folder = uploads(&world, &session);
    let late = folder.join("late.docx");
    assert_eq!(found_in(&world, &session, "lantern").await, ["uploads/late.docx"]);

    let modified = fs::metadata(&late).unwrap().modified().unwrap();
    fs::write(&late, &new).unwrap();
    fs::File::options().write(true).open(&late).unwrap().set_modified(modified).unwrap();
    assert_eq!(found_in(&world, &session, "lectern").await, ["uploads/late.docx"]);
    assert!(found_in(&world, &session, "lantern").await.is_empty());

    fs::create_dir(folder.join("moved")).unwrap();
    fs::rename(&late, folder.join("moved/early.docx")).unwrap();
    assert_eq!(found_in(&world, &session, "lectern").await, ["uploads/moved/early.docx"]);

    fs::remove_file(folder.join("moved/early.docx")).unwrap();
    assert!(found_in(&world, &session, "lectern").await.is_empty());

    // Two files with the same name are both stored, each with its own text.
    for content in [&old, &new] {
        assert_eq!(add(&world, &world.daemon.write("late.docx", content), Some(&session)).await, session);
    }
    assert_eq!(found_in(&world, &session, "lantern").await, ["uploads/late.docx"]);
    assert_eq!(found_in(&world, &session, "lectern").await, ["uploads/late-2.docx"]);
}

/// Returns the IDs of the document readers started by a process.
fn readers_of(daemon: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let is_reader = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("extract-worker")
    };
    ids.filter(|id| parent(id) == Some(daemon) && is_reader(id)).collect()
}

/// Stops a watching thread on drop, even if a test fails earlier.
struct WatchEnd(Arc<AtomicBool>);

impl Drop for WatchEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[tokio::test]
async fn concurrent_searches_read_a_document_once() {
    let mut world = World::start().await;
    let pages: Vec<String> = (1..=20_000).map(|page| format!("Page {page} of the book, with zircon{page}. ")).collect();
    let book = world.write("book.docx", docx(&pages));
    let mut sessions = Vec::new();
    for _ in 0..2 {
        world.model.reply(Reply::text("Hello."));
        let begun = world.ok(["run", "Hello", "--output", "json"]).await.json();
        sessions.push(add(&world, &book, begun["session_id"].as_str()).await);
    }
    assert_ne!(sessions[0], sessions[1]);
    // The index is lost, so the book has to be read again.
    world.daemon.kill9().await;
    fs::remove_dir_all(world.data().join("index")).unwrap();
    world.daemon.restart().await;

    let (daemon, is_over) = (world.daemon.pid(), Arc::new(AtomicBool::new(false)));
    let end = WatchEnd(Arc::clone(&is_over));
    let watch = thread::spawn(move || {
        let mut seen = BTreeSet::new();
        while !is_over.load(Ordering::Acquire) {
            seen.extend(readers_of(daemon));
            thread::yield_now();
        }
        seen
    });
    let searching: Vec<_> = (0..4)
        .map(|number| {
            let query = format!("zircon{}", 19_990 + number);
            world.spawn_agentctl(["docs", "search", &query, "--session", &sessions[number % 2]])
        })
        .collect();
    for asking in searching {
        asking.output(Vec::new()).await.exits(0).shows(&["uploads/book.docx"]);
    }
    drop(end);
    let readers = watch.join().unwrap();
    assert_eq!(readers.len(), 1, "{readers:?}");
}
