//! What may happen to documents and to their index while somebody searches: full disks, deleted folders, files that are
//! replaced, names that are no names. Each ends in a clear word, and the next search is answered.

use std::{fs, io::Write as _, os::unix::ffi::OsStrExt as _, path::PathBuf};

use agentd_testkit::{
    daemon::{TempDaemon, TempHome, until},
    model_server::{ModelServer, Reply},
};
use serde_json::{Value, json};

use super::{
    World,
    documents::{docx, fixture, searches_and_cites},
    on_small_disk, told_of_each,
};

/// What there is to find in one of the fixtures, and by what it is cited.
const FIND: (&str, &str) = ("QUARTZ-3", "It says QUARTZ-3 (latin.pdf p. 3).");

/// A document of so many paragraphs, of which none is like another.
fn long(paragraphs: u32) -> Vec<u8> {
    let words =
        |number: u32| (0..40).map(move |word| format!("w{:x}", (number * 40 + word).wrapping_mul(2_654_435_761)));
    let text: Vec<String> = (0..paragraphs)
        .map(|number| format!("zircon{number} {}", words(number).collect::<Vec<_>>().join(" ")))
        .collect();
    docx(&text)
}

/// A small document is given, searched and cited.
async fn finds(world: &World) {
    searches_and_cites(world, "uploads/latin.pdf", FIND.0);
    let output = world.daemon.agentctl(["run", "--file", &fixture("latin.pdf"), "Where?"]).await.exits(0);
    assert_eq!(output.stdout.trim(), FIND.1);
}

/// The folder of what was handed over in the session that was used last.
async fn uploads(world: &World) -> (String, PathBuf) {
    let sessions = world.daemon.agentctl(["sessions", "list", "--json"]).await.exits(0).json();
    let id = sessions[0]["session_id"].as_str().or(sessions[0]["id"].as_str()).unwrap().to_owned();
    let folder = world.daemon.data().join("workspace").join(&id).join("uploads");
    (id, folder)
}

#[tokio::test]
async fn a_disk_that_fills_while_a_document_comes_in_fails_that_document_alone() {
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    let Some(command) = on_small_disk(&home, "data/index", "700k") else { return };
    let world = World { daemon: TempDaemon::start_with(home, command).await, model };
    let large = world.daemon.write("large.docx", long(6000));
    finds(&world).await;
    let call = [("search_file", json!({"path": "uploads/large.docx", "query": "zircon5999"}))];
    let (told, output) = world.call_all(call.into(), &["--file", large.to_str().unwrap()]).await;
    output.exits(0);
    assert!(told[0].contains("the disk is full") && told[0].contains("make room on the disk"), "{}", told[0]);
    world
        .daemon
        .agentctl(["docs", "search", "zircon5999"])
        .await
        .exits(1)
        .says(&["the disk is full", "hint: make room"]);
    finds(&world).await;
}

#[tokio::test]
async fn an_index_that_is_deleted_while_a_document_comes_in_is_made_anew() {
    let world = World::start().await;
    let large = world.daemon.write("large.docx", long(6000));
    let adding = world.daemon.spawn_agentctl(["docs", "add", large.to_str().unwrap(), "--json"]);
    // Its thread is there before its files are.
    let index = world.daemon.data().join("index");
    let is_begun =
        || fs::read_dir(&index).is_ok_and(|found| found.flatten().any(|one| one.path().join("meta.json").exists()));
    until("the index to be begun", || async { is_begun().then_some(()) }).await;
    // At once: the daemon writes and removes files there meanwhile, in the way of whoever removes them one by one.
    fs::rename(&index, world.daemon.path().join("gone")).unwrap();
    let output = adding.output(Vec::new()).await;
    match output.code {
        // It was begun anew in time, or nothing of it was there yet.
        Some(0) => assert!(output.stdout.contains("large.docx"), "{output:?}"),
        _ => drop(output.says(&["its files were deleted", "hint: ask again"])),
    }
    let found = world.daemon.agentctl(["docs", "search", "zircon5999"]).await.exits(0);
    assert!(found.stdout.contains("uploads/large.docx"), "{}", found.stdout);
    finds(&world).await;
}

#[tokio::test]
async fn a_file_that_is_replaced_again_and_again_is_told_as_what_it_was() {
    let world = World::start().await;
    finds(&world).await;
    let (id, folder) = uploads(&world).await;
    let path = folder.join("latin.pdf");
    let (latin, columns) = (fs::read(fixture("latin.pdf")).unwrap(), fs::read(fixture("columns.pdf")).unwrap());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = {
        let (path, contents) = (path.clone(), [columns, latin]);
        // In place and by a new file in turn: what is read may be half of one and half of the other.
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
    let (told, output) = world.call_all(calls, &["--session", &id]).await;
    drop(stop);
    writer.join().unwrap();
    output.exits(0);
    for told in told {
        let is_right = (told.contains("**QUARTZ-3**") && told.contains("1. uploads/latin.pdf p. 3"))
            || (told.contains("Left line 12") && told.contains("1. uploads/latin.pdf p. 1"));
        let is_clear =
            ["Nothing fits", "changed while", "could not", "not a PDF", "damaged", "no lines", "No line", "empty"];
        assert!(is_right || is_clear.iter().any(|words| told.contains(words)), "{told}");
    }
    let output = world.daemon.agentctl(["run", "--session", &id, "Where is it now?"]);
    searches_and_cites(&world, "uploads/latin.pdf", FIND.0);
    assert_eq!(output.await.exits(0).stdout.trim(), FIND.1);
}

#[tokio::test]
async fn names_with_newlines_and_escapes_forge_no_lines() {
    let world = World::start().await;
    let odd = world.daemon.path().join("re\nport\u{1b}[31m p. 9.pdf");
    fs::copy(fixture("latin.pdf"), &odd).unwrap();
    let added = world.daemon.agentctl(["docs", "add", odd.to_str().unwrap()]).await.exits(0);
    let (id, folder) = uploads(&world).await;
    // And some that nobody handed over: they came into the folder by themselves.
    for name in [&b"a\nb.pdf"[..], b"c\x1b]0;d\x07.pdf", b"e\xff.pdf"] {
        fs::copy(fixture("latin.pdf"), folder.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    let listed = world.daemon.agentctl(["docs", "list"]).await.exits(0);
    let found = world.daemon.agentctl(["docs", "search", FIND.0]).await.exits(0);
    for output in [&added, &listed, &found] {
        let shown = format!("{}{}", output.stdout, output.stderr);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
        assert!(shown.contains("report[31m p. 9.pdf"), "{shown:?}");
    }
    world.daemon.agentctl(["docs", "show", "uploads/a\nb.pdf"]).await.exits(2).says(&["control character", "hint:"]);
    let calls = vec![
        ("search_documents", json!({"query": FIND.0})),
        ("search_file", json!({"path": "uploads/a\nb.pdf", "query": FIND.0})),
    ];
    let (told, _) = world.call_all(calls, &["--session", &id]).await;
    assert!(told[0].contains("1. uploads/report[31m p. 9.pdf p. 3\n") && !told[0].contains('\u{1b}'), "{}", told[0]);
    assert!(told[1].contains("control character"), "{}", told[1]);
}

/// The same archive with other content of one part.
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

/// A text of the older Word format's markup, with entities that multiply by ten thirty times.
fn laughs() -> Vec<u8> {
    let levels: String =
        (1..30).map(|level| format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10))).collect();
    format!(
        "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY e0 \"ha\">{levels}]>\
         <w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body><w:p><w:r>\
         <w:t>&e29;</w:t></w:r></w:p></w:body></w:document>"
    )
    .into_bytes()
}

const CLAIMS: &str = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">\
    <dimension ref=\"A1:XFD1048576\"/><sheetData>\
    <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>first</t></is></c></row>\
    <row r=\"1048576\"><c r=\"XFD1048576\"><v>7</v></c></row></sheetData></worksheet>";

#[tokio::test]
async fn files_made_to_do_harm_are_told_one_by_one_and_the_daemon_answers_on() {
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
    // What these have is little, whatever they say; and a document is what its bytes are.
    let harmless = [
        ("claims.xlsx", with_part("cached.xlsx", "xl/worksheets/sheet1.xml", CLAIMS.as_bytes())),
        ("laughs.docx", with_part("handbook.docx", "word/document.xml", &laughs())),
        ("other.xlsx", latin),
    ];
    let all = harmful.iter().chain(&harmless);
    let paths: Vec<PathBuf> = all.map(|(name, content)| world.daemon.write(name, content)).collect();
    let names = paths.iter().map(|path| path.to_str().unwrap());
    let args: Vec<&str> = ["docs", "add", "--json"].into_iter().chain(names).collect();
    let told = world.daemon.agentctl(args).await.exits(0).json();
    let states = told["documents"].as_array().unwrap();
    assert_eq!(states.len(), harmful.len() + harmless.len(), "{told}");
    for state in states {
        let (name, problem) = (state["name"].as_str().unwrap(), state["problem"].as_str());
        if harmless.iter().any(|(harmless, _)| name.ends_with(harmless)) {
            assert_eq!((problem, state["chunks"].is_u64()), (None, true), "{state}");
            continue;
        }
        let problem = problem.unwrap_or_else(|| panic!("{name} was taken: {state}"));
        assert!(problem.starts_with("could not read ") && problem.contains("; "), "{name}: {problem}");
        assert!(!problem.contains(char::is_control) && !problem.contains("its reader"), "{name}: {problem}");
    }
    finds(&world).await;
}

#[tokio::test]
async fn a_turn_that_waits_for_a_document_tells_how_far_it_is() {
    let world = World::start().await;
    world.model.respond_with(|request| match told_of_each(request).is_empty() {
        true => Reply::tool_call("search_file", json!({"path": "uploads/latin.pdf", "query": FIND.0})),
        false => Reply::text("over"),
    });
    let args = ["run", "--file", &fixture("latin.pdf"), super::ALL_OF_IT, "--output", "stream-json"];
    let events = world.daemon.agentctl(args).await.exits(0).json_lines();
    let deltas: Vec<&Value> = events.iter().filter(|event| event["type"] == "item_delta").collect();
    let of_tools: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "item_completed" && event["item"]["kind"] == "tool_result")
        .collect();
    let told: Vec<&Value> =
        deltas.iter().copied().filter(|delta| delta["item_id"] == of_tools[0]["item"]["id"]).collect();
    assert_eq!(
        (told[0]["text"].as_str(), told[0]["offset"].as_u64()),
        (Some("indexing uploads/latin.pdf: 0 of 3\n"), Some(0))
    );
    let result = of_tools[0]["item"]["text"].as_str().unwrap();
    assert!(result.starts_with("1. uploads/latin.pdf p. 3") && !result.contains("indexing"), "{result}");
}
