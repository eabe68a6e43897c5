//! Source code, found by meaning, name and structure. A separate process reads it and has no other access.

use super::*;

const CART: &str = "\
/// The cart of a person.
pub struct ShoppingCart {
    items: Vec<Item>,
}

impl Basket for ShoppingCart {
    /// Adds an item, once its price is known.
    fn add(&mut self, item: Item) {
        self.items.push(item);
    }
}

pub fn empty_cart() -> ShoppingCart {
    ShoppingCart { items: Vec::new() }
}
";

async fn shop() -> World {
    let world = World::start().await;
    world.write("shop/src/cart.rs", CART);
    world.write("shop/src/main.rs", "fn main() {\n    let cart = empty_cart();\n    pay(cart);\n}\n");
    world.write(
        "shop/src/pay.py",
        "def settle_invoice(invoice):\n    \"\"\"Pays a bill with a card.\"\"\"\n    return invoice\n",
    );
    world.write("shop/.env", "PAY_TOKEN=hunter2_settle_invoice\n");
    world.write("shop/deploy/secrets.yaml", "settle_invoice: hunter3\n");
    world.write("shop/.gitignore", "/made\n");
    world.write("shop/made/out.rs", "pub fn settle_invoice_made() {}\n");
    world
}

impl World {
    fn shop(&self) -> String {
        self.daemon.path().join("shop").display().to_string()
    }

    /// Runs these calls in the project `shop`, and returns their results.
    async fn call_in_shop(&self, calls: Vec<(&'static str, Value)>) -> Vec<String> {
        let (results, output) = self.call_all(calls, &["-C", &self.shop()]).await;
        output.exits(0);
        results
    }

    fn configure(&self, name: &str, text: &str) {
        fs::create_dir_all(self.daemon.config()).unwrap();
        fs::write(self.daemon.config().join(name), text).unwrap();
    }

    /// Returns the IDs of the daemon's processes that read code.
    fn readers(&self) -> Vec<u32> {
        let parent = self.daemon.pid();
        let children = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).ok()?;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let is_ours = status.contains(&format!("PPid:\t{parent}\n"));
            (is_ours && String::from_utf8_lossy(&line).contains("code-worker")).then_some(pid)
        });
        children.collect()
    }
}

fn search(query: &str) -> (&'static str, Value) {
    ("search_code", json!({ "query": query }))
}

fn kill(pid: u32) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_found_by_meaning_name_and_structure() {
    let world = shop().await;
    let results = world
        .call_in_shop(vec![
            search("how is an item added to the cart"),
            ("search_semantic", json!({"query": "pay a bill", "max_results": 1})),
            ("find_symbol", json!({"name": "ShoppingCart"})),
            ("find_symbol", json!({"name": "empty_cart", "path": "src"})),
            ("outline", json!({"path": "src/cart.rs"})),
            // Earlier versions had a `focus` argument.
            ("repo_map", json!({"focus": "src/main.rs", "budget": 300})),
            ("search_code", json!({"query": "cart", "path": "/project/src/main.rs"})),
            ("outline", json!({"path": "/project/nowhere.rs"})),
            ("search_code", json!({"query": " "})),
            ("outline", json!({"path": "/uploads"})),
            ("find_symbol", json!({"name": "NoSuchThing"})),
            ("find_symbol", json!({"name": "Basket"})),
            ("find_symbol", json!({"name": "Basket", "path": "src/pay.py"})),
            ("search_code", json!({"query": "settle", "path": "made/"})),
            ("repo_map", json!({"path": "src"})),
        ])
        .await;
    let check = |at: usize, parts: &[&str]| has_all(&results[at], parts);
    check(0, &["1. /project/src/cart.rs:", "Adds an item, once its price is known."]);
    check(1, &["1. /project/src/pay.py:1-3 function settle_invoice", "[the best 1 hit in "]);
    check(2, &["Defined (1):\n/project/src/cart.rs:2-4 struct: pub struct ShoppingCart {"]);
    check(2, &["Used (3):\n/project/src/cart.rs:6"]);
    check(3, &["/project/src/main.rs:2 in main: let cart = empty_cart();"]);
    check(4, &["/project/src/cart.rs:\n", "2-4  pub struct ShoppingCart {", "8-10    fn add(&mut self, item: Item) {"]);
    check(5, &["/project/src/cart.rs:\n", "pub fn empty_cart() -> ShoppingCart {"]);
    check(6, &["1. /project/src/main.rs:"]);
    assert!(!results[6].contains("cart.rs"), "{}", results[6]);
    check(7, &["nowhere.rs"]);
    check(8, &["`query` must be 1 to"]);
    check(9, &["code search covers the project and added folders only"]);
    check(10, &["Not found: \"NoSuchThing\"", "search_code"]);
    check(11, &["No definition found.", "Implemented or extended (1):\n/project/src/cart.rs:6", "impl Basket for"]);
    check(12, &["Not found: \"Basket\" in the 1 file of /project/src/pay.py"]);
    check(13, &["/project/made, which is not indexed"]);
    check(14, &["use outline for /project/src"]);
    // A single process did all the work, and did not store anything on the disk.
    assert_eq!(world.readers().len(), 1);
    assert!(!world.data().join("code").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_may_not_be_read_is_not_found() {
    let world = shop().await;
    world.write("shop/private/plans.rs", "pub fn settle_invoice_in_secret() {}\n");
    let rules = "tools: {read_file: {patterns: {critical: ['/project/private/']}, actions: {critical: deny}}}";
    world.configure("hitl_rules.yaml", rules);
    world.ok(["reload"]).await;
    let results = world
        .call_in_shop(vec![
            search("settle_invoice hunter"),
            ("find_symbol", json!({"name": "settle_invoice_in_secret"})),
            ("outline", json!({"path": "/project"})),
            ("repo_map", json!({})),
        ])
        .await;
    for text in &results {
        has_none(text, &["hunter", "private/", "made/", "in_secret()"]);
    }
    assert!(results[0].contains("/project/src/pay.py"), "{}", results[0]);
    // The results do not reveal whether secret files contain the search term.
    assert!(results[1].contains("Not found: ") && !results[1].contains("skipped"), "{}", results[1]);
    // Using the path of a secret file requires approval, just like reading the file.
    let (_, output) = world.call_all(vec![("outline", json!({"path": "/project/.env"}))], &["-C", &world.shop()]).await;
    assert!(output.exits(5).stderr.contains("looks like a secrets file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_tools_and_other_programs_are_found_at_once() {
    let world = shop().await;
    let edit = json!({"path": "/project/src/cart.rs", "old_string": "empty_cart", "new_string": "fresh_basket", "replace_all": true});
    let make = "mkdir -p /project/src/deep/er && echo 'pub fn brand_new_thing() {}' > /project/src/deep/er/new.rs";
    let calls = [
        ("find_symbol", json!({"name": "empty_cart"})),
        ("edit_file", edit),
        ("find_symbol", json!({"name": "fresh_basket"})),
        ("run_bash_command", json!({"command": make})),
        ("find_symbol", json!({"name": "brand_new_thing"})),
        ("run_bash_command", json!({"command": "mv /project/src/deep /project/src/deeper && rm /project/src/pay.py"})),
        ("find_symbol", json!({"name": "brand_new_thing"})),
        ("find_symbol", json!({"name": "settle_invoice"})),
    ];
    let mut results = Vec::new();
    for call in calls {
        let project = format!("{}:rw", world.shop());
        let (mut result, output) = world.call_all(vec![call], &["-C", &project, "--on-interrupt", "approve"]).await;
        output.exits(0);
        results.append(&mut result);
    }
    assert!(results[0].contains("Defined (1):\n/project/src/cart.rs"), "{}", results[0]);
    assert!(results[2].contains("Defined (1):\n/project/src/cart.rs"), "{}", results[2]);
    assert!(results[4].contains("Defined (1):\n/project/src/deep/er/new.rs:1"), "{}", results[4]);
    assert!(results[6].contains("Defined (1):\n/project/src/deeper/er/new.rs:1"), "{}", results[6]);
    assert!(results[7].contains("Not found: "), "{}", results[7]);
    // The file changes while no process of the daemon is watching.
    world.write("shop/src/later.rs", "pub fn written_elsewhere() {}\n");
    let results = world.call_in_shop(vec![("find_symbol", json!({"name": "written_elsewhere"}))]).await;
    assert!(results[0].contains("/project/src/later.rs:1"), "{}", results[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_reader_is_replaced_and_stops_with_the_daemon() {
    let mut world = shop().await;
    world.call_in_shop(vec![search("cart")]).await;
    let first = world.readers();
    kill(first[0]);
    until_true("the reader has exited", || world.readers().is_empty()).await;
    let results = world.call_in_shop(vec![search("cart")]).await;
    assert!(results[0].contains("/project/src/cart.rs"), "{}", results[0]);
    let second = world.readers();
    assert_ne!(first, second);
    world.daemon.kill9().await;
    let path = PathBuf::from(format!("/proc/{}", second[0]));
    until_true("the reader exits with the daemon", || !path.exists()).await;
    world.daemon.restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_map_is_sent_once_without_withheld_files() {
    let world = World::start().await;
    for number in 0..30 {
        let text = format!("pub fn step_{number}(engine: &TravelEngine) {{ engine.travel_onwards(); }}\n");
        world.write(&format!("shop/steps/step{number}.rs"), text);
    }
    world.write(
        "shop/engine.rs",
        "pub struct TravelEngine;\nimpl TravelEngine {\n    pub fn travel_onwards(&self) {}\n}\n",
    );
    world.write("shop/private/plan.rs", "pub struct PrivateTravelPlan;\n");
    for number in 0..10 {
        world.write(&format!("shop/plans/p{number}.rs"), "fn plan(plan: PrivateTravelPlan) {}\n");
    }
    let rules = "tools: {read_file: {patterns: {critical: ['/project/private/']}, actions: {critical: deny}}}";
    world.configure("hitl_rules.yaml", rules);
    world.ok(["reload"]).await;
    // A turn may stop waiting for the index, but this call waits until it is complete.
    world.call_in_shop(vec![("repo_map", json!({}))]).await;
    world.model.reply(Reply::text("Hello."));
    let session = world.ok(["run", "-C", &world.shop(), "--output", "json", "Hi"]).await.session();
    world.model.reply(Reply::text("Again."));
    world.ok(["run", "--session", &session, "And?"]).await;
    let requests = world.model.requests();
    let [.., first, second] = &requests[..] else { panic!("expected two requests") };
    for request in [first, second] {
        let body = request.body.to_string();
        assert_eq!(body.matches("A map of the code at").count(), 1, "{body}");
        assert!(body.contains(r"\nengine.rs:\n    1  pub struct TravelEngine;\n"), "{body}");
        assert!(!body.contains("pub struct PrivateTravelPlan"), "{body}");
    }
    world.configure("agentd.yaml", "turns: {map_tokens: 0}\n");
    world.ok(["reload"]).await;
    world.model.reply(Reply::text("Hello."));
    world.ok(["run", "-C", &world.shop(), "Hi"]).await;
    assert!(!world.model.requests().pop().unwrap().body.to_string().contains("A map of the code at"));
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_folder_is_indexed_again() {
    let world = shop().await;
    let symbol = |name: &str| ("find_symbol", json!({ "name": name }));
    world.call_in_shop(vec![symbol("empty_cart")]).await;
    let (at, aside) = (world.path().join("shop"), world.path().join("old"));
    fs::rename(&at, &aside).unwrap();
    world.write("shop/other.rs", "pub fn wholly_different() {}\n");
    let results = world.call_in_shop(vec![symbol("wholly_different"), symbol("empty_cart")]).await;
    assert!(results[0].contains("/project/other.rs:1"), "{}", results[0]);
    assert!(results[1].contains("Not found: "), "{}", results[1]);
    // A replaced subfolder is detected as well.
    world.write("shop/src/one.rs", "pub fn first_of_it() {}\n");
    world.call_in_shop(vec![symbol("first_of_it")]).await;
    fs::rename(at.join("src"), world.path().join("src-aside")).unwrap();
    world.write("shop/src/two.rs", "pub fn second_of_it() {}\n");
    let results = world.call_in_shop(vec![symbol("second_of_it"), symbol("first_of_it")]).await;
    assert!(results[0].contains("/project/src/two.rs:1") && results[1].contains("Not found: "), "{results:?}");
    world.write("shop/src/three.rs", "pub fn third_of_it() {}\n");
    let results = world.call_in_shop(vec![symbol("third_of_it")]).await;
    assert!(results[0].contains("/project/src/three.rs:1"), "{}", results[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn subfolder_project_follows_the_repository_gitignore() {
    let world = World::start().await;
    world.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    world.write("repo/.git/info/exclude", "scratch/\n");
    world.write("repo/.gitignore", "dist/\n*.gen.rs\n");
    world.write("repo/shop/src/a.rs", "pub fn kept_by_git() {}\n");
    for ignored in ["dist/a.rs", "src/b.gen.rs", "scratch/c.rs"] {
        world.write(&format!("repo/shop/{ignored}"), "pub fn ignored_by_git() {}\n");
    }
    let project = world.path().join("repo/shop").display().to_string();
    let calls = ["kept_by_git", "ignored_by_git"].map(|name| ("find_symbol", json!({ "name": name })));
    let (results, output) = world.call_all(calls.to_vec(), &["-C", &project]).await;
    output.exits(0);
    assert!(
        results[0].contains("/project/src/a.rs:1") && !results[0].contains("could not be listed"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("Not found: \"ignored_by_git\" in 1 file"), "{}", results[1]);
}
