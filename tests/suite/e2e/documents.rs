//! Documents: read by the daemon's own binary, searched, and cited in answers.

use agentd_core::knowledge::{DocumentProgress, DocumentQuery};

use super::*;

pub(super) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/index/tests/fixtures").join(name);
    path.display().to_string()
}

/// Sets up a model that searches the file, and answers with the citation of the first result and its highlighted text.
pub(super) fn searches_and_cites(world: &World, path: &str, query: &str) {
    let call = json!({"path": path, "query": query});
    world.model.respond_with(move |request| {
        let Some(result) = last_result(request) else { return Reply::tool_call("search_file", call.clone()) };
        let citation = result.lines().find_map(|line| line.strip_prefix("1. uploads/")).unwrap_or("nowhere");
        let highlighted = result.split("**").nth(1).unwrap_or("nothing");
        Reply::text(format!("It says {highlighted} ({citation})."))
    });
}

/// Returns the last tool result in this turn if it is a search result.
fn last_result(request: &Recorded) -> Option<String> {
    let messages = request.messages();
    let is_said =
        |message: &Value| message["role"] == "user" && !message["content"].to_string().contains("system_reminder");
    let of_turn = messages.iter().rposition(is_said).map_or(0, |at| at + 1);
    let texts = messages[of_turn..].iter().filter(|message| message["role"] == "tool");
    let last = texts.filter_map(|message| message["content"].as_str()).next_back()?;
    last.contains("1. uploads/").then(|| last.to_owned())
}

/// Returns the names of the daemon's threads.
fn threads(world: &World) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", world.daemon.pid())).unwrap();
    tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
}

fn is_open(world: &World) -> bool {
    threads(world).iter().any(|name| name.trim() == "index-writer")
}

#[tokio::test]
async fn answers_cite_the_page_in_all_document_formats() {
    let world = World::start().await;
    world.still_serves().await;
    assert!(
        !is_open(&world) && !world.data().join("index").exists(),
        "the index is not opened before the first search"
    );
    for (name, query, answer) in [
        ("latin.pdf", "the committee met on day 2", "latin.pdf p. 2"),
        ("embedded.pdf", "会議は来週の月曜日", "embedded.pdf p. 2"),
        ("sales.xlsx", "苹果", "sales.xlsx '销售 2024'!C6:D6"),
        // Documents created by a browser, LaTeX and LibreOffice.
        ("programs/browser.pdf", "\"neighbouring municipality\"", "browser.pdf p. 1"),
        ("programs/browser.pdf", "什么时候提交排放报告", "browser.pdf p. 3"),
        ("programs/latex.pdf", "infrastructure of the harbour", "latex.pdf p. 1"),
        ("programs/latex-zh.pdf", "游客服务中心", "latex-zh.pdf p. 2"),
        ("programs/office.pdf", "delayed containers from Valparaíso", "office.pdf p. 2"),
        ("programs/office.docx", "灯塔的维护工作", "(office.docx)"),
        ("programs/office.ods", "dredging and fog", "office.ods cargo!A2:D4"),
        ("programs/office.pptx", "Speak slowly", "office.pptx slide 1"),
    ] {
        let file = name.rsplit('/').next().unwrap();
        searches_and_cites(&world, &format!("uploads/{file}"), query);
        let output = world.ok(["run", "--file", &fixture(name), "What does it say?"]).await;
        assert!(output.stdout.contains(answer) && !output.stdout.contains("nothing"), "{name}: {}", output.stdout);
    }
    assert!(is_open(&world));
    world.daemon.sigterm().await;
    assert!(!world.log().contains("the document index was not changed"), "{}", world.log());
}

/// Returns the folder with the models installed by `make recognition`.
fn recognition_models() -> PathBuf {
    let named = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let share = || named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")));
    let data = named("AGENTD_DATA_DIR").or_else(|| Some(share()?.join("agentd"))).unwrap_or_default();
    named("AGENTD_TEST_RECOGNITION").unwrap_or_else(|| data.join("models"))
}

#[tokio::test]
async fn scans_are_cited_once_recognition_models_are_installed() {
    let world = World::start().await;
    let scan = fixture("scan.pdf");
    world.agentctl(["docs", "add", &scan]).await;
    world.agentctl(["docs", "show", "uploads/scan.pdf"]).await.says(&["make recognition"]);
    world.agentctl(["doctor"]).await.shows(&["no text recognition for scanned pages"]);

    let models = world.data().join("models");
    fs::create_dir_all(&models).unwrap();
    for name in agentd_core::knowledge::RECOGNITION_MODELS {
        symlink(recognition_models().join(name), models.join(name)).unwrap();
    }
    let shown = world.ok(["docs", "show", "uploads/scan.pdf"]).await.shows(&["page 1 (recognised)"]);
    assert!(shown.stdout.contains("lighthouse at the northern pier"), "{}", shown.stdout);
    searches_and_cites(&world, "uploads/scan.pdf", "mooring fees");
    world.ok(["run", "--file", &scan, "What does it say?"]).await.shows(&["scan.pdf p. 1 (recognised)"]);
    world.agentctl(["doctor"]).await.shows(&["text recognition for scanned pages: the models are in"]);
}

#[tokio::test]
async fn documents_are_read_by_page_and_searched_together() {
    let world = World::start().await;
    let files = ["latin.pdf", "deck.pptx", "password.pdf"].map(fixture);
    let args: Vec<&str> = files.iter().flat_map(|file| ["--file", file]).collect();
    let (results, output) = world
        .call_all(
            vec![
                ("read_file", json!({"path": "uploads/latin.pdf", "offset": 2, "limit": 1})),
                ("read_file", json!({"path": "uploads/latin.pdf", "offset": 7})),
                ("read_file", json!({"path": "uploads/password.pdf"})),
                ("search_documents", json!({"query": "plan"})),
                ("search_documents", json!({"query": "QUARTZ-\\d", "regex": true})),
                ("search_file", json!({"path": "uploads/latin.pdf", "query": "zebra"})),
            ],
            &args,
        )
        .await;
    output.exits(0);
    assert!(
        results[0].contains("PDF, \"Annual report\"; page 2 of 3") && results[0].contains("QUARTZ-2"),
        "{}",
        results[0]
    );
    assert!(!results[0].contains("QUARTZ-1") && results[0].contains("offset=3"), "{}", results[0]);
    assert!(results[1].contains("3 pages") && results[1].contains("past the end"), "{}", results[1]);
    assert!(results[2].contains("password") && results[2].contains("save a copy without a password"), "{}", results[2]);
    has_all(
        &results[3],
        &["uploads/latin.pdf p. 1", "uploads/deck.pptx slide 1", "password.pdf could not be searched"],
    );
    assert!(results[4].contains("**QUARTZ-3**") && results[4].contains("by pattern"), "{}", results[4]);
    assert!(results[5].contains("No match for \"zebra\" in 1 document"), "{}", results[5]);
    // Documents of one session are not found in another session.
    let (results, _) = world.call_all(vec![("search_documents", json!({"query": "plan"}))], &[]).await;
    assert!(results[0].contains("No documents here"), "{}", results[0]);
}

#[tokio::test]
async fn kill_during_indexing_keeps_uploads_and_a_valid_index() {
    let mut world = World::start().await;
    let pages: Vec<String> = (1..=3000).map(|page| format!("Page {page} of the book, with zircon{page}. ")).collect();
    let long = world.write("long.docx", docx(&pages));
    let before = fs::read(&long).unwrap();
    searches_and_cites(&world, "uploads/long.docx", "zircon2999");
    let running =
        world.spawn_agentctl(["run", "--file", long.to_str().unwrap(), "Where is the zircon?", "--output", "json"]);
    // The index is created once its writer has received a part of the document.
    until_true("the index exists", || is_open(&world)).await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    let id = world.last_session().await;
    let copy = world.path().join("copy.docx");
    world.ok(["files", "get", &id, "uploads/long.docx", "-o", copy.to_str().unwrap()]).await;
    assert!(fs::read(&copy).unwrap() == before, "the content is unchanged");
    let output = world.ok(["run", "--session", &id, "Where is the zircon?"]).await;
    assert!(output.stdout.starts_with("It says zircon2999 (long.docx section "), "{}", output.stdout);
}

/// Creates a minimal Word document with these paragraphs.
pub(super) fn docx(paragraphs: &[String]) -> Vec<u8> {
    const TYPES: &str = r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"#;
    const RELATIONS: &str = r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>"#;
    let text: String = paragraphs.iter().map(|text| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")).collect();
    let body = format!(
        r#"<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{text}</w:body></w:document>"#
    );
    let parts = [("[Content_Types].xml", TYPES), ("_rels/.rels", RELATIONS), ("word/document.xml", &body)];
    zipped(&parts.map(|(name, content)| (name, content.as_bytes().to_vec())))
}

#[tokio::test]
async fn docs_commands_add_list_show_and_search() {
    let world = World::start().await;
    let files = ["latin.pdf", "cjk.pdf", "password.pdf"].map(fixture);
    // There is no session yet, so the command creates one.
    let added = world.docs(&["add", &files[0], &files[1], &files[2], "--json"]).await.exits(1).json();
    assert_eq!(keys(&added), ["complete", "documents", "notes", "session_id"]);
    let states: Vec<(&str, u64, bool)> = added["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|state| (state["name"].as_str().unwrap(), state["parts"].as_u64().unwrap(), state["chunks"].is_u64()))
        .collect();
    let expected = [("uploads/latin.pdf", 3, true), ("uploads/cjk.pdf", 3, true), ("uploads/password.pdf", 0, false)];
    assert_eq!(states, expected);
    let listed = world.docs(&["list"]).await.exits(0).says(&["uploads/password.pdf", "requires a password"]);
    has_all(&listed.stdout, &["uploads/latin.pdf", "PDF", "Annual report", "not indexed"]);

    let found = world.docs(&["search", "met", "on", "day", "2"]).await.exits(0);
    assert!(found.stdout.starts_with("uploads/latin.pdf  p. 2\n    "), "{}", found.stdout);
    let found =
        world.docs(&["search", "提交报表", "--in", "uploads/cjk.pdf", "--limit", "1", "--json"]).await.exits(0).json();
    let expected = ["broken", "by", "complete", "hits", "locked", "not_searched", "notes", "searched"];
    assert_eq!(keys(&found), expected);
    assert_eq!(keys(&found["hits"][0]), ["citation", "document", "marks", "place", "score", "snippet"]);
    assert_eq!((found["hits"][0]["citation"].as_str(), found["searched"].as_u64()), (Some("cjk.pdf p. 1"), Some(1)));
    world.docs(&["search", "zebra"]).await.exits(0).says(&[
        "no matches in 2 documents",
        "uploads/password.pdf needs a password and was not searched; `agentctl docs show FILE` asks for it",
    ]);
    let found = world.docs(&["search", "zebra", "--json"]).await.exits(0).json();
    holds(&found, json!({"locked": ["uploads/password.pdf"], "complete": false}));
    assert!(found["notes"][0].as_str().unwrap().contains("agentctl docs show FILE"), "{found}");
    world.docs(&["search", "QUARTZ-\\d", "--regex", "--in", "uploads"]).await.exits(0).shows(&["p. 3"]);

    let shown = world
        .docs(&["show", "uploads/latin.pdf", "--page", "2", "-n", "1"])
        .await
        .exits(0)
        .shows(&["page 2\n", "QUARTZ-2"]);
    assert!(!shown.stdout.contains("QUARTZ-3") && shown.stderr.contains("--page 3"), "{}", shown.stderr);
    world.docs(&["show", "uploads/password.pdf"]).await.says(&["password", "hint:"]);
    // The exit code is 0 if at least one document can be indexed, and 1 otherwise.
    world.docs(&["add", &files[0]]).await.exits(0);
    world.docs(&["add", &files[2]]).await.exits(1);
    world.docs(&["show", "uploads/none.pdf"]).await.exits(2).says(&["none.pdf", "hint:"]);
    world.docs(&["add", "/none.pdf"]).await.exits(2).says(&["/none.pdf", "hint:"]);

    world.docs(&["reindex", "uploads/latin.pdf"]).await.exits(0).shows(&["uploads/latin.pdf"]);
    let stats = world.docs(&["stats", "--json"]).await.exits(0).json();
    assert_eq!((stats["documents"].as_u64(), keys(&stats).len()), (Some(2), 5));
    world.docs(&["stats"]).await.exits(0).shows(&["documents  2"]);
    // Another session has no documents.
    world.model.reply(Reply::text("Hello."));
    let other = &world.ok(["run", "Hello", "--output", "json"]).await.session();
    let none = world.docs(&["list", "--session", other]).await.exits(0);
    assert!(format!("{}{}", none.stdout, none.stderr).contains("no documents; agentctl files ls"), "{}", none.stdout);
    world.docs(&["search", "plan", "--session", other]).await.exits(0).says(&["no matches in 0 documents"]);
}

#[tokio::test]
async fn text_file_is_indexed_and_cited_by_lines() {
    let world = World::start().await;
    let text = world.path().join("n.txt");
    fs::write(&text, "About the barn.\n\nIts colour is vermilion.\n").unwrap();
    let added = world.docs(&["add", text.to_str().unwrap()]).await.exits(0);
    assert!(!added.stdout.contains("not indexed") && added.stdout.contains("text file"), "{}", added.stdout);
    world.docs(&["list"]).await.exits(0).shows(&["uploads/n.txt"]);
    for args in [&["search", "vermilion"][..], &["search", "vermilion", "--in", "uploads/n.txt"]] {
        let found = world.docs(args).await.exits(0);
        assert!(
            found.stdout.starts_with("uploads/n.txt:1-3\n") && found.stdout.contains("vermilion"),
            "{}",
            found.stdout
        );
    }
    world.docs(&["search", "azure"]).await.exits(0).says(&["no matches in 1 document;", "only if named by --in"]);
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        if result.is_empty() {
            return Reply::tool_call("search_documents", json!({"query": "vermilion"}));
        }
        assert!(result.contains("1. uploads/n.txt:1-3\n"), "{result}");
        Reply::text("There.")
    });
    assert_eq!(world.ok(["run", "Which colour?", "--continue"]).await.stdout.trim(), "There.");
}

#[tokio::test]
async fn long_sheet_can_be_read_to_its_last_row() {
    let world = World::start().await;
    let rows: Vec<String> = (1..=3000).map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>{row}</v></c><c r=\"B{row}\" t=\"inlineStr\"><is><t>berth {row}</t></is></c></row>")).collect();
    let book = world.write("long.xlsx", xlsx(&rows.concat()));
    let call = |row: u64| ("read_file", json!({"path": "uploads/long.xlsx", "row": row}));
    let (results, output) = world.call_all(vec![call(1), call(2999)], &["--file", book.to_str().unwrap()]).await;
    output.exits(0);
    let line = results[0].lines().find(|line| line.starts_with("[rows 1-")).unwrap_or_else(|| panic!("{}", results[0]));
    let last: u64 = line["[rows 1-".len()..].split(' ').next().unwrap().parse().unwrap();
    assert!(line.contains("of 3000 of this sheet; continue with offset=1 and row="), "{line}");
    assert!(line.contains(&format!("row={}", last + 1)) && results[0].contains(&format!("| berth {last} |")), "{line}");
    has_all(&results[1], &["[rows 2999-3000 of 3000 of this sheet]", "berth 3000"]);
    let shown = world.docs(&["show", "uploads/long.xlsx"]).await.exits(0);
    let next = shown.stderr.lines().find(|line| line.contains("--row")).unwrap_or_else(|| panic!("{}", shown.stderr));
    let row = next.rsplit(' ').next().unwrap();
    let shown = world.docs(&["show", "uploads/long.xlsx", "--row", row, "--json"]).await.exits(0).json();
    holds(&shown["parts"][0]["shown"], json!({"first": row.parse::<u64>().unwrap(), "total": 3000}));
    assert!(shown["parts"][0]["next"]["row"].as_u64() > row.parse().ok(), "{shown}");
}

/// Creates a minimal workbook with one sheet that contains these rows.
fn xlsx(rows: &str) -> Vec<u8> {
    const TYPES: &str = r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"#;
    const RELATIONS: &str = r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
    const BOOK: &str = r#"<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="Berths" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
    const SHEETS: &str = r#"<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;
    let sheet = format!(
        r#"<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#
    );
    let parts = [
        ("[Content_Types].xml", TYPES),
        ("_rels/.rels", RELATIONS),
        ("xl/workbook.xml", BOOK),
        ("xl/_rels/workbook.xml.rels", SHEETS),
        ("xl/worksheets/sheet1.xml", &sheet),
    ];
    zipped(&parts.map(|(name, content)| (name, content.as_bytes().to_vec())))
}

fn zipped(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn more_than_300_documents_are_listed_and_searched() {
    const MANY: usize = 304;
    let world = World::start().await;
    let project = world.path().join("many");
    fs::create_dir_all(&project).unwrap();
    for number in 0..MANY {
        fs::write(project.join(format!("{number:04}.docx")), docx(&[format!("The word is zircon{number}.")])).unwrap();
    }
    world.model.reply(Reply::text("Hello."));
    let mount = project.to_str().unwrap();
    world.ok(["run", "Hello", "-C", mount]).await;
    let listed = world.docs(&["list", "--json"]).await.exits(0).json();
    assert_eq!((listed["documents"].as_array().unwrap().len(), &listed["complete"]), (MANY, &json!(true)));
    let found = world.docs(&["search", "zircon303", "--json"]).await.exits(0).json();
    assert_eq!(found["hits"][0]["document"], "/project/0303.docx", "{found}");
    assert_eq!((found["searched"].as_u64(), &found["complete"]), (Some(MANY as u64), &json!(true)));
    // The tool searches all documents in one call.
    world.model.respond_with(|request| {
        let result = tool_texts(request);
        if result.is_empty() {
            return Reply::tool_call("search_documents", json!({"query": "zircon303"}));
        }
        assert!(result.contains("**zircon303**") && result.contains("in 304 documents"), "{result}");
        assert!(!result.contains("not searched"), "{result}");
        Reply::text("There.")
    });
    assert_eq!(world.ok(["run", "Where is zircon303?", "--continue", "-C", mount]).await.stdout.trim(), "There.");
}

#[tokio::test]
async fn search_reports_indexing_progress() {
    let world = World::start().await;
    let client = world.client().await;
    let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    let content = fs::read(fixture("latin.pdf")).unwrap();
    client.upload(&id, "latin.pdf", &content[..]).await.unwrap();
    let text = "QUARTZ-2".to_owned();
    let query = DocumentQuery { text, regex: false, limit: 5, neighbours: false, begin_by: None };
    let search = async || {
        let mut steps = Vec::new();
        let show = |step: DocumentProgress| steps.push((step.document, step.parts, step.total));
        let finds = client.search_documents(&id, &[], &query, show).await.unwrap();
        assert!(!finds.hits.is_empty(), "{finds:?}");
        steps
    };
    let steps = search().await;
    assert_eq!(steps.last(), Some(&("uploads/latin.pdf".to_owned(), 3, Some(3))), "{steps:?}");
    // The document is already indexed, so it is not read again.
    assert_eq!(search().await, []);
}
