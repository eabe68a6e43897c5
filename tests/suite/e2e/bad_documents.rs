//! Documents and their index under adverse conditions: full disks, deleted folders, replaced files, invalid names. Each
//! condition results in a clear message, and the next search works.

use std::os::unix::ffi::OsStrExt as _;

use super::{
    documents::{docx, fixture, searches_and_cites},
    *,
};

/// Text in one of the fixtures, and its citation.
const FIND: (&str, &str) = ("QUARTZ-3", "It says QUARTZ-3 (latin.pdf p. 3).");

/// Creates a document with this many paragraphs, all different.
fn long(paragraphs: u32) -> Vec<u8> {
    let line =
        |number: u32| (0..40).map(move |word| format!("w{:x}", (number * 40 + word).wrapping_mul(2_654_435_761)));
    let text: Vec<String> = (0..paragraphs)
        .map(|number| format!("zircon{number} {}", line(number).collect::<Vec<_>>().join(" ")))
        .collect();
    docx(&text)
}

/// Adds, searches and cites a small document.
async fn finds(world: &World) {
    searches_and_cites(world, "uploads/latin.pdf", FIND.0);
    assert_eq!(world.ok(["run", "--file", &fixture("latin.pdf"), "Where?"]).await.stdout.trim(), FIND.1);
}

/// Returns the most recently used session and its upload folder.
async fn uploads(world: &World) -> (String, PathBuf) {
    let id = world.last_session().await;
    let folder = world.data().join("workspace").join(&id).join("uploads");
    (id, folder)
}

#[tokio::test]
async fn full_disk_fails_only_the_document_being_indexed() {
    let Some(world) = World::on_disk("data/index", "700k").await else { return };
    let large = world.write("large.docx", long(6000));
    finds(&world).await;
    let call = [("search_file", json!({"path": "uploads/large.docx", "query": "zircon5999"}))];
    let (results, output) = world.call_all(call.into(), &["--file", large.to_str().unwrap()]).await;
    output.exits(0);
    assert!(results[0].contains("the disk is full") && results[0].contains("free some disk space"), "{}", results[0]);
    let output = world.agentctl(["docs", "search", "zircon5999"]).await.exits(1);
    output.says(&["the disk is full", "hint: free some disk space"]);
    finds(&world).await;
}

#[tokio::test]
async fn index_deleted_during_indexing_is_recreated() {
    let world = World::start().await;
    let large = world.write("large.docx", long(6000));
    let adding = world.spawn_agentctl(["docs", "add", large.to_str().unwrap(), "--json"]);
    // The index thread exists before the index files do.
    let index = world.data().join("index");
    let is_begun =
        || fs::read_dir(&index).is_ok_and(|found| found.flatten().any(|one| one.path().join("meta.json").exists()));
    until_true("the index exists", is_begun).await;
    // The index is renamed first, because the daemon creates and removes files during a recursive removal.
    fs::rename(&index, world.path().join("gone")).unwrap();
    let output = adding.output(Vec::new()).await;
    match output.code {
        // The index was recreated before the search, or was still empty when it was renamed.
        Some(0) => assert!(output.stdout.contains("large.docx"), "{output:?}"),
        _ => drop(output.says(&["its files were deleted", "hint: retry"])),
    }
    world.ok(["docs", "search", "zircon5999"]).await.shows(&["uploads/large.docx"]);
    finds(&world).await;
}

#[tokio::test]
async fn repeatedly_replaced_file_gives_consistent_results_or_errors() {
    let world = World::start().await;
    finds(&world).await;
    let (id, folder) = uploads(&world).await;
    let path = folder.join("latin.pdf");
    let (latin, columns) = (fs::read(fixture("latin.pdf")).unwrap(), fs::read(fixture("columns.pdf")).unwrap());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = {
        let (path, contents) = (path.clone(), [columns, latin]);
        // The file is replaced alternately in place and by a new file, so that a reader may read half of each.
        std::thread::spawn(move || {
            for number in 0_usize.. {
                let content = &contents[number % 2];
                if number % 4 < 2 {
                    fs::write(&path, content).unwrap();
                } else {
                    let new = path.with_extension("new");
                    fs::write(&new, content).unwrap();
                    fs::rename(&new, &path).unwrap();
                }
                if number % 2 == 1 && stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    return;
                }
            }
        })
    };
    let calls: Vec<(&str, Value)> = (0..30)
        .map(|number| {
            let query = if number % 2 == 0 { FIND.0 } else { "\"Left line 12\"" };
            ("search_file", json!({"path": "uploads/latin.pdf", "query": query}))
        })
        .collect();
    let (results, output) = world.call_all(calls, &["--session", &id]).await;
    drop(stop);
    writer.join().unwrap();
    output.exits(0);
    for result in results {
        let is_right = (result.contains("**QUARTZ-3**") && result.contains("1. uploads/latin.pdf p. 3"))
            || (result.contains("Left line 12") && result.contains("1. uploads/latin.pdf p. 1"));
        let is_clear = [
            "No match for",
            "cannot be searched: it is",
            "changed while",
            "could not",
            "not a PDF",
            "damaged",
            "no lines",
            "No line",
            "empty",
        ];
        assert!(is_right || is_clear.iter().any(|text| result.contains(text)), "{result}");
    }
    let output = world.agentctl(["run", "--session", &id, "Where is it now?"]);
    searches_and_cites(&world, "uploads/latin.pdf", FIND.0);
    assert_eq!(output.await.exits(0).stdout.trim(), FIND.1);
}

#[tokio::test]
async fn names_with_newlines_and_escapes_forge_no_lines() {
    let world = World::start().await;
    let odd = world.path().join("re\nport\u{1b}[31m p. 9.pdf");
    fs::copy(fixture("latin.pdf"), &odd).unwrap();
    let added = world.ok(["docs", "add", odd.to_str().unwrap()]).await;
    let (id, folder) = uploads(&world).await;
    // This includes files that were not uploaded, but created directly in the folder.
    for name in [&b"a\nb.pdf"[..], b"c\x1b]0;d\x07.pdf", b"e\xff.pdf"] {
        fs::copy(fixture("columns.pdf"), folder.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    let listed = world.ok(["docs", "list"]).await;
    let found = world.ok(["docs", "search", FIND.0]).await;
    for output in [&added, &listed, &found] {
        let shown = format!("{}{}", output.stdout, output.stderr);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
        assert!(shown.contains("report[31m p. 9.pdf"), "{shown:?}");
    }
    world.agentctl(["docs", "show", "uploads/a\nb.pdf"]).await.exits(2).says(&["control character", "hint:"]);
    let calls = vec![
        ("search_documents", json!({"query": FIND.0})),
        ("search_file", json!({"path": "uploads/a\nb.pdf", "query": FIND.0})),
    ];
    let (results, _) = world.call_all(calls, &["--session", &id]).await;
    assert!(
        results[0].contains("1. uploads/report[31m p. 9.pdf p. 3\n") && !results[0].contains('\u{1b}'),
        "{}",
        results[0]
    );
    assert!(results[1].contains("control character"), "{}", results[1]);
}

/// Copies an archive and replaces the content of one part.
fn with_part(archive: &str, part: &str, content: &[u8]) -> Vec<u8> {
    let mut old = zip::ZipArchive::new(fs::File::open(fixture(archive)).unwrap()).unwrap();
    let mut new = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let file = old.by_index_raw(index).unwrap();
        if file.name().unwrap() != part {
            new.raw_copy_file(file).unwrap();
        }
    }
    new.start_file(part, zip::write::SimpleFileOptions::default()).unwrap();
    new.write_all(content).unwrap();
    new.finish().unwrap().into_inner()
}

#[tokio::test]
async fn harmful_files_fail_individually_with_a_clear_problem() {
    let world = World::start().await;
    let latin = fs::read(fixture("latin.pdf")).unwrap();
    let spaces = vec![b' '; 300 << 20];
    let harmful: Vec<(&str, Vec<u8>)> = vec![
        ("bomb.docx", with_part("handbook.docx", "word/document.xml", &spaces)),
        ("bomb.xlsx", with_part("cached.xlsx", "xl/sharedStrings.xml", &spaces)),
        ("half.pdf", latin[..latin.len() / 2].to_vec()),
        ("noise.pptx", (0..4000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()),
        ("empty.pdf", Vec::new()),
        ("password.pdf", fs::read(fixture("password.pdf")).unwrap()),
        ("password.xlsx", fs::read(fixture("password.xlsx")).unwrap()),
        ("scanned.pdf", fs::read(fixture("scanned.pdf")).unwrap()),
    ];
    drop(spaces);
    // The type of a document is detected from its content.
    let harmless = [("other.xlsx", latin)];
    let all = harmful.iter().chain(&harmless);
    let paths: Vec<PathBuf> = all.map(|(name, content)| world.write(name, content)).collect();
    let names = paths.iter().map(|path| path.to_str().unwrap());
    let args: Vec<&str> = ["docs", "add", "--json"].into_iter().chain(names).collect();
    let report = world.agentctl(args).await.exits(1).json();
    let states = report["documents"].as_array().unwrap();
    assert_eq!(states.len(), harmful.len() + harmless.len(), "{report}");
    for state in states {
        let (name, problem) = (state["name"].as_str().unwrap(), state["problem"].as_str());
        if harmless.iter().any(|(harmless, _)| name.ends_with(harmless)) {
            assert_eq!((problem, state["chunks"].is_u64()), (None, true), "{state}");
            continue;
        }
        let problem = problem.unwrap_or_else(|| panic!("{name} was accepted: {state}"));
        assert!(problem.starts_with("could not read ") && problem.contains("; "), "{name}: {problem}");
        assert!(!problem.contains(char::is_control) && !problem.contains("its reader"), "{name}: {problem}");
    }
    finds(&world).await;
}

#[tokio::test]
async fn waiting_tool_streams_indexing_progress() {
    let world = World::start().await;
    world.model.respond_with(|request| match results_since_input(request).is_empty() {
        true => Reply::tool_call("search_file", json!({"path": "uploads/latin.pdf", "query": FIND.0})),
        false => Reply::text("over"),
    });
    let args = ["run", "--file", &fixture("latin.pdf"), CALL_ALL_INPUT, "--output", "stream-json"];
    let events = world.ok(args).await.json_lines();
    let deltas: Vec<&Value> = events.iter().filter(|event| event["type"] == "item_delta").collect();
    let of_tools: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "item_completed" && event["item"]["kind"] == "tool_result")
        .collect();
    let progress: Vec<&Value> =
        deltas.iter().copied().filter(|delta| delta["item_id"] == of_tools[0]["item"]["id"]).collect();
    assert_eq!(
        (progress[0]["text"].as_str(), progress[0]["offset"].as_u64()),
        (Some("indexing uploads/latin.pdf: 0 of 3\n"), Some(0))
    );
    let result = of_tools[0]["item"]["text"].as_str().unwrap();
    assert!(result.starts_with("1. uploads/latin.pdf p. 3") && !result.contains("indexing"), "{result}");
}

#[tokio::test]
async fn scanned_pages_are_reported_as_left_out_everywhere() {
    const WHY: &str = "2 of its 3 pages are pictures, probably scanned";
    let world = World::start().await;
    world.docs(&["add", &fixture("partly.pdf")]).await.exits(0).says(&["uploads/partly.pdf", WHY, "make recognition"]);
    world.docs(&["list"]).await.exits(0).says(&["uploads/partly.pdf", WHY, "make recognition"]);
    let listed = world.docs(&["list", "--json"]).await.exits(0).json();
    assert!(listed["documents"][0]["problem"].as_str().unwrap().contains(WHY), "{listed}");
    world.docs(&["show", "uploads/partly.pdf"]).await.exits(0).says(&[WHY, "make recognition"]);
    for query in ["vermilion", "zebra"] {
        world
            .docs(&["search", query])
            .await
            .exits(0)
            .says(&["uploads/partly.pdf could not be searched completely", WHY]);
        let found = world.docs(&["search", query, "--json"]).await.exits(0).json();
        holds(&found, json!({"complete": false, "searched": 1}));
        assert!(found["broken"][0]["why"].as_str().unwrap().contains(WHY), "{found}");
    }
    let (id, _) = uploads(&world).await;
    let calls = vec![
        ("read_file", json!({"path": "uploads/partly.pdf"})),
        ("search_file", json!({"path": "uploads/partly.pdf", "query": "vermilion"})),
        ("search_file", json!({"path": "uploads/partly.pdf", "query": "zebra"})),
        ("search_documents", json!({"query": "zebra"})),
    ];
    let (results, _) = world.call_all(calls, &["--session", &id]).await;
    assert!(results.iter().all(|result| result.contains(WHY)), "{results:#?}");
    assert!(results[0].contains("vermilion barn") && results[1].contains("**vermilion**"), "{results:#?}");
    // The files that contain text were searched, so an empty result is not an error.
    assert!(results[2].contains("No match for \"zebra\" in 1 document"), "{}", results[2]);
}

/// Creates an archive that contains one file.
fn archive(name: &str, content: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file(name, stored).unwrap();
    archive.write_all(content.as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn unsupported_file_is_refused_with_its_type() {
    let world = World::start().await;
    let mut doc = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    doc.resize(1024, 0);
    doc.extend("WordDocument\0".encode_utf16().flat_map(u16::to_le_bytes));
    doc.resize(16 << 10, 0);
    let jpg = [&b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"[..], &[0x5a; 3000]].concat();
    let mp3 = [&b"ID3\x03\0\0\0\0\0\x0aTIT2\0\0\0\x06\0\0\0barn!"[..], &b"\xff\xfb\x90\0".repeat(700)].concat();
    // An MP3 without a tag and without a zero byte.
    let bare = b"\xff\xfb\x92\x44\xaa\xbb\xcc\xdd".repeat(700);
    let kinds: [(&str, Vec<u8>, &str); 7] = [
        ("letter.doc", doc, "Word document"),
        ("letter.odt", archive("mimetype", "application/vnd.oasis.opendocument.text"), "OpenDocument text"),
        ("photo.jpg", jpg, "the picture"),
        ("all.jar", archive("barn.txt", "vermilion"), "ZIP archive"),
        ("none.jar", [&b"PK\x05\x06"[..], &[0; 18]].concat(), "ZIP archive"),
        ("song.mp3", mp3, "recording (audio/mpeg)"),
        ("bare.mp3", bare, "recording (audio/mpeg)"),
    ];
    let project = world.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let mut calls = Vec::new();
    for (name, content, _) in &kinds {
        fs::write(project.join(name), content).unwrap();
        for query in ["vermilion", "zebra"] {
            calls.push(("search_file", json!({"path": format!("/project/{name}"), "query": query})));
        }
        calls.push(("read_file", json!({"path": format!("/project/{name}")})));
    }
    let results = world.call_all_in_project(calls).await;
    for ((name, _, label), results) in kinds.iter().zip(results.chunks(3)) {
        for result in results {
            has_none(result, &["No line matches", "No match for", "No results for", "match in", "**", "\\pard"]);
        }
        for result in &results[..2] {
            // The first two files have a supported type, but are damaged.
            let hint = match *name {
                "letter.doc" | "letter.odt" => "save it again",
                "photo.jpg" => "make recognition",
                _ => "save or export it as PDF",
            };
            assert!(result.contains(label) && result.contains(hint), "{name}: {result}");
        }
        assert!(results[2].contains("cannot be read") || results[2].contains("could not"), "{name}: {}", results[2]);
    }
}

#[tokio::test]
async fn rtf_is_read_as_a_document_regardless_of_its_name() {
    const RTF: &str = "{\\rtf1\\ansi{\\fonttbl\\f0 Helvetica;}\\f0\\pard The {\\b vermilion} barn.\\par}\n";
    let world = World::start().await;
    let project = world.path().join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("letter.txt"), RTF).unwrap();
    let calls = vec![
        ("read_file", json!({"path": "/project/letter.txt"})),
        ("search_file", json!({"path": "/project/letter.txt", "query": "vermilion"})),
    ];
    let results = world.call_all_in_project(calls).await;
    assert!(results[0].contains("RTF document") && results[0].contains("The vermilion barn."), "{}", results[0]);
    assert!(results[1].contains("**vermilion** barn"), "{}", results[1]);
    // An uploaded file of this type is mentioned by name, but its content is not included.
    let letter = project.join("letter.rtf");
    fs::write(&letter, RTF).unwrap();
    let call = [("read_file", json!({"path": "uploads/letter.rtf"}))];
    let (results, _) = world.call_all(call.into(), &["--file", letter.to_str().unwrap()]).await;
    assert!(results[0].contains("The vermilion barn.") && !results[0].contains("pard"), "{}", results[0]);
    let last = world.model.requests().last().unwrap().messages().to_vec();
    let message_text = Value::from(last).to_string();
    assert!(message_text.contains("uploads/letter.rtf") && !message_text.contains("rtf1"), "{message_text}");
}

/// Creates a sparse file that starts with these bytes and has no other data on the disk.
fn sparse(path: &Path, begin: &[u8], size: u64) {
    fs::write(path, begin).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_len(size).unwrap();
}

/// Returns the number of bytes that the daemon has read since its start, from any source.
fn read_so_far(world: &World) -> u64 {
    let counters = fs::read_to_string(format!("/proc/{}/io", world.daemon.pid())).unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Creates a session with access to a folder that contains these files, each of the given size.
async fn session_with_sparse(world: &World, files: &[(String, Vec<u8>)], size: u64) -> (String, PathBuf) {
    let project = world.path().join("project");
    fs::create_dir_all(&project).unwrap();
    for (name, begin) in files {
        sparse(&project.join(name), begin, size);
    }
    world.model.reply(Reply::text("Hello."));
    let mount = project.to_str().unwrap();
    (world.ok(["run", "Hello", "-C", mount, "--output", "json"]).await.session(), project)
}

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn huge_file_is_refused_without_being_read() {
    const SIZE: &str = "its size exceeds 100 MiB";
    let world = World::start().await;
    let files = [
        ("large.pdf", b"%PDF-1.7\n".to_vec()),
        ("large.docx", b"PK\x03\x04".to_vec()),
        ("large.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec()),
        ("large.zip", b"PK\x03\x04".to_vec()),
        ("zeros.pdf", Vec::new()),
        ("large.txt", "a line of it\n".repeat(2000).into_bytes()),
    ];
    let files = files.map(|(name, begin)| (name.to_owned(), begin));
    let (id, project) = session_with_sparse(&world, &files, 200 << 30).await;
    finds(&world).await;
    let before = read_so_far(&world);
    let search = |name: &str| ("search_file", json!({"path": format!("/project/{name}"), "query": "zebra"}));
    let mut calls: Vec<(&str, Value)> = files.iter().map(|(name, _)| search(name)).collect();
    calls.push(("search_documents", json!({"query": "zebra"})));
    calls.push(("read_file", json!({"path": "/project/large.pdf"})));
    let (results, _) = world.call_all(calls, &["--session", &id]).await;
    let [pdf, docx, xls, zip, zeros, text, all, read] = &results[..] else { panic!("{results:#?}") };
    for result in [pdf, docx, xls, zip, all, read] {
        assert!(result.contains(SIZE), "{result}");
    }
    assert!(zeros.contains("could not be searched") || zeros.contains("cannot be searched"), "{zeros}");
    assert!(text.contains("binary after initial text"), "{text}");
    assert!(all.contains("large.txt could not be searched") && all.contains("1 more document"), "{all}");

    world.docs(&["search", "zebra", "--session", &id]).await.exits(0).says(&["large.pdf could not be searched", SIZE]);
    for (name, _) in &files {
        let found = world.docs(&["search", "a", "--session", &id, "--in", &format!("/project/{name}"), "--json"]).await;
        let found = found.exits(0).json();
        holds(&found, json!({"complete": false, "searched": 0}));
        assert!(found["broken"][0]["why"].as_str().unwrap().contains(SIZE), "{found}");
    }
    world.docs(&["list", "--session", &id]).await.exits(0).says(&["large.pdf", SIZE]);
    world.docs(&["reindex", "--session", &id]).await.exits(0).says(&["large.pdf", SIZE]);
    for name in ["large.pdf", "large.txt"] {
        let path = project.join(name).display().to_string();
        world
            .docs(&["add", &path, "--session", &id])
            .await
            .exits(2)
            .says(&["exceeds the upload limit of 64 MiB", "hint:"]);
    }
    // Reads of the journal, the index and the sockets are much smaller than a file.
    let read = read_so_far(&world) - before;
    assert!(read < 40 * MIB, "the daemon read {} MiB", read / MIB);
}

#[tokio::test]
async fn reading_stops_when_no_client_waits() {
    const FILES: u64 = 100;
    const EACH: u64 = 99 * MIB;
    let world = World::start().await;
    // Each file is below the size limit, all files differ, and reading all of them takes long.
    let files: Vec<(String, Vec<u8>)> =
        (0..FILES).map(|number| (format!("{number}.pdf"), format!("%PDF-1.7\n%{number}\n").into_bytes())).collect();
    let (id, _) = session_with_sparse(&world, &files, EACH).await;
    world.model.respond_with(|request| match request.last_user().contains("zebra") {
        true => Reply::tool_call("search_documents", json!({"query": "zebra"})),
        false => Reply::text("still here"),
    });
    for args in [&["docs", "search", "zebra", "--session", &id][..], &["run", "Where is a zebra?", "--session", &id]] {
        let before = read_so_far(&world);
        let asking = world.spawn_agentctl(args);
        until_true("the files are being read", || read_so_far(&world) > before + 64 * MIB).await;
        // The client of a search is killed. The client of a turn cancels the turn.
        let signal = if args[0] == "run" { Signal::SIGINT } else { Signal::SIGKILL };
        asking.signal(signal);
        asking.output(Vec::new()).await;
        until("reading has ended", || async {
            let now = read_so_far(&world);
            world.still_serves().await;
            (read_so_far(&world) < now + 4 * MIB).then_some(())
        })
        .await;
        let read = read_so_far(&world) - before;
        assert!(read < FILES * EACH / 2, "{args:?}: {} MiB were read", read / MIB);
    }
}
