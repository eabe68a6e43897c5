//! Documents as data: sheets and documents that `read_file` saves where commands use them.

use std::io::{Cursor, Read as _};

use super::*;

/// Builds a workbook with this many orders, whose amounts are formulas with computed values.
fn orders(count: u32) -> Vec<u8> {
    const SHEET: &str = "xl/worksheets/sheet1.xml";
    let text = |cell: &str, text: &str| format!("<c r=\"{cell}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let header = [text("A1", "item"), text("B1", "price"), text("C1", "amount")].concat();
    let row = |row: u32| {
        let (item, price, amount) = (text(&format!("A{row}"), "a, b"), row - 1, (row - 1) * 2);
        format!(
            "<row r=\"{row}\">{item}<c r=\"B{row}\"><v>{price}</v></c><c r=\"C{row}\"><f>B{row}*2</f><v>{amount}</v></c></row>"
        )
    };
    let rows: String = (2..count + 2).map(row).collect();
    let sheet = format!(
        "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData><row r=\"1\">{header}</row>\
         {rows}</sheetData></worksheet>"
    );
    let book = fs::read(documents::fixture("cached.xlsx")).unwrap();
    let mut old = zip::ZipArchive::new(Cursor::new(book)).unwrap();
    let mut new = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let mut file = old.by_index(index).unwrap();
        let (name, mut content) = (file.name().unwrap().to_string(), Vec::new());
        file.read_to_end(&mut content).unwrap();
        let content = if name == SHEET { sheet.as_bytes().to_vec() } else { content };
        new.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        new.write_all(&content).unwrap();
    }
    new.finish().unwrap().into_inner()
}

fn save(to: &str) -> Reply {
    Reply::tool_call("read_file", json!({"path": "uploads/orders.xlsx", "save_to": to}))
}

/// Starts a world with the workbook, and returns the arguments that upload it.
async fn world() -> (World, [String; 2]) {
    let world = World::start().await;
    let book = world.write("orders.xlsx", orders(6000));
    (world, ["--file".to_owned(), book.display().to_string()])
}

#[tokio::test]
async fn sum_over_6000_rows_is_one_call_and_one_command() {
    let (world, file) = world().await;
    let sum = "awk -F, 'NR > 1 { sum += $NF } END { print \"sum\", sum }' \"$WORKSPACE/temp/orders.csv\"";
    let calls = vec![
        ("read_file", json!({"path": "uploads/orders.xlsx", "save_to": "temp/orders.csv"})),
        ("run_bash_command", json!({"command": sum})),
    ];
    let (results, output) = world.call_all(calls, &[&file[0], &file[1], "--on-interrupt", "approve"]).await;
    output.exits(0);
    has_all(&results[0], &["sheet Totals of uploads/orders.xlsx", "CSV, 6001 rows, 3 columns", "/temp/orders.csv"]);
    assert!(results[0].len() < 300, "{}", results[0]);
    has_all(&results[1], &["sum 36006000"]);
}

#[tokio::test]
async fn saving_asks_like_a_write_and_is_undone() {
    let (world, file) = world().await;
    world.model.reply(save("outputs/orders.csv")).reply(says("Saved."));
    let (running, interrupt) = world.run_until_question(&["Do it", &file[0], &file[1]]).await;
    assert_eq!(
        (&interrupt["tool"], &interrupt["grants"]),
        (&json!("read_file"), &json!(["write_file"])),
        "{interrupt:#}"
    );
    let preview = interrupt["preview"].as_str().unwrap();
    has_all(preview, &["uploads/orders.xlsx", "to the new file outputs/orders.csv"]);
    world.ok(["answer", interrupt["id"].as_str().unwrap(), "approve"]).await;
    running.output(Vec::new()).await.exits(0);
    let session = interrupt["session_id"].as_str().unwrap();
    let saved = world.ok(["files", "get", session, "outputs/orders.csv"]).await.stdout;
    assert_eq!(saved.lines().count(), 6001);
    let audit = world.ok(["audit"]).await.stdout;
    assert!(audit.contains("read_file"), "{audit}");

    // The model takes it back with its own tool, and a user takes back what the model saves again.
    world.model.reply(Reply::tool_call("undo_patch", json!({}))).reply(says("Taken back."));
    world.ok(["run", "Undo", "--session", session, "--on-interrupt", "approve"]).await;
    world.agentctl(["files", "get", session, "outputs/orders.csv"]).await.says(&["outputs/orders.csv"]);
    world.model.reply(save("outputs/orders.csv")).reply(says("Saved."));
    world.ok(["run", "Again", "--session", session, "--mode", "accept-edits"]).await;
    world.ok(["undo", session]).await;
    world.agentctl(["files", "get", session, "outputs/orders.csv"]).await.says(&["outputs/orders.csv"]);
}

#[tokio::test]
async fn saving_is_denied_where_writing_is() {
    let (world, file) = world().await;
    for (target, args) in [
        ("temp/a.csv", &["--mode", "plan"][..]),
        ("temp/a.csv", &["--on-interrupt", "deny"]),
        ("/memories/a.csv", &["--mode", "accept-edits", "--on-interrupt", "deny"]),
    ] {
        world.model.reply(save(target)).reply(says("I only looked."));
        let args: Vec<&str> = [&["run", "Do it", &file[0], &file[1]][..], args].concat();
        world.agentctl(args).await.exits(5);
    }
    // A guarded file of a project is asked about in every mode.
    world.model.reply(save("/project/.envrc")).reply(says("I only looked."));
    world.write("project/a.txt", "a");
    let project = world.mount();
    let args = ["run", "Do it", &file[0], &file[1], "-C", &project, "--mode", "auto", "--on-interrupt", "deny"];
    world.agentctl(args).await.exits(5);
}

#[tokio::test]
async fn agent_without_write_file_cannot_save() {
    const AGENTS: &str = "agents:\n  clerk: {description: Reads., prompt: You read., tools: [read_file]}\n";
    let world = World::with_files(&[("config/agents.yaml", AGENTS)]).await;
    let book = world.write("orders.xlsx", orders(3)).display().to_string();
    let calls = vec![("read_file", json!({"path": "uploads/orders.xlsx", "save_to": "temp/a.csv"}))];
    let (results, _) = world.call_all(calls, &["--file", &book, "--agent", "clerk", "--on-interrupt", "approve"]).await;
    has_all(&results[0], &["save_to requires write_file"]);
}
