//! Variables that `mcp_servers.yaml` names and only clients have, and entries that make no sense: the other servers live.

use agentd_testkit::{
    daemon::{Output, Running, TempDaemon, TempHome},
    model_server::{ModelServer, Reply},
};
use serde_json::json;

use super::{
    super::{ALL_OF_IT, World, told_of_each, tool_texts},
    behaving, world,
};

/// One turn of a client that has these variables, in which the fake server is called once.
async fn act(world: &World, variables: &[(&str, &str)], args: &[&str]) -> (String, Output) {
    let call = json!({"text": "now"});
    world.model.respond_with(move |request| {
        if told_of_each(request).is_empty() {
            return Reply::tool_call("mcp_fake_act", call.clone());
        }
        Reply::text("over")
    });
    let mut command = world.daemon.agentctl_command(["run", ALL_OF_IT, "--on-interrupt", "approve"].iter().chain(args));
    command.envs(variables.iter().copied());
    let output = Running::spawn(command).output(Vec::new()).await;
    let told = told_of_each(world.model.requests().last().unwrap());
    (told.concat(), output)
}

#[tokio::test]
async fn clients_lend_what_only_they_have_and_others_are_not_given_it() {
    let mut fake = behaving("environment");
    fake["env"] = json!({"KEY": "${GITHUB_TOKEN}"});
    let world = world(json!({"fake": fake})).await;

    let (told, _) = act(&world, &[], &[]).await;
    assert!(told.contains("GITHUB_TOKEN") && told.contains("The call did not run"), "{told}");
    let (told, _) = act(&world, &[("GITHUB_TOKEN", "of-the-first")], &[]).await;
    assert!(told.contains("of-the-first"), "{told}");
    let (told, _) = act(&world, &[("GITHUB_TOKEN", "of-the-second"), ("SOMETHING_SECRET", "kept")], &[]).await;
    assert!(told.contains("of-the-second") && !told.contains("of-the-first") && !told.contains("kept"), "{told}");
    let listed = world.daemon.agentctl(["mcp", "list", "--json"]).await.exits(0).json();
    assert_eq!(listed[0]["connections"], 2, "{listed:#}");
    world.all_are_gone().await;
}

#[tokio::test]
async fn what_is_lent_is_written_down_nowhere() {
    let secret = "ghp_NobodyMayReadThis0123456789";
    let mut fake = behaving("talks");
    fake["env"] = json!({"KEY": "${GITHUB_TOKEN}"});
    let world = world(json!({"fake": fake})).await;
    let (told, _) = act(&world, &[("GITHUB_TOKEN", secret)], &[]).await;
    assert!(told.contains("the key is") && !told.contains(secret), "{told}");
    let logs = world.daemon.agentctl(["mcp", "logs", "fake"]).await.exits(0).stdout;
    assert!(logs.contains("the key is") && !logs.contains(secret), "{logs}");
    world.all_are_gone().await;
    let mut grep = world.daemon.command("grep");
    let found = grep.args(["-rlaF", secret, "."]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[tokio::test]
async fn one_bad_server_stops_nothing() {
    let mut fake = behaving("environment");
    fake["env"] = json!({"COLOUR": "blue"});
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    let file = format!(
        "servers:\n  fake: {fake}\n  bad: {{}}\n  worse:\n    url: ftp://x\n  xodd:\n    comand: cat\n    args: [a]\n"
    );
    home.write("config/mcp_servers.yaml", file);
    let world = World { model, daemon: TempDaemon::start_in(home).await };
    let (told, output) = act(&world, &[], &[]).await;
    output.exits(0);
    assert!(told.contains("blue"), "{told}");
    let listed = world.daemon.agentctl(["mcp", "list", "--json"]).await.exits(0).json();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("bad"), &json!("down")), "{listed:#}");
    assert!(listed[0]["reason"].as_str().unwrap().contains("has no command"), "{listed:#}");
    assert!(listed[2]["reason"].as_str().unwrap().contains("begins with http"), "{listed:#}");
    let odd = listed[3]["reason"].as_str().unwrap();
    assert!(odd.contains("mcp_servers.yaml:7:5") && odd.contains("did you mean `command`?"), "{odd}");
    let doctor = world.daemon.agentctl(["doctor"]).await;
    assert!(doctor.stdout.contains("warn config") && doctor.stdout.contains("has no command"), "{}", doctor.stdout);
    world.daemon.agentctl(["mcp", "test", "bad"]).await.says(&["has no command"]);
    // What is written anew is looked at as strictly as before.
    let added = world.daemon.agentctl(["mcp", "add", "third", "--url", "ftp://x"]).await;
    assert_eq!(added.code, Some(2), "{}", added.stderr);
    world.daemon.agentctl(["mcp", "add", "third", "--url", "https://example.org/mcp"]).await.exits(0);
    world.all_are_gone().await;
}

#[tokio::test]
async fn a_server_runs_where_its_session_works() {
    let mut here = behaving("tells_folder");
    (here["cwd"], here["env"]) = (json!("${PROJECT}"), json!({"CLIENT": "${PWD}"}));
    let world = world(json!({"fake": here})).await;
    world.daemon.write("shop/web/x", "");
    world.daemon.write("house/x", "");
    let told = async |folder: &str, project: &str| {
        world.model.respond_with(|request| match tool_texts(request).is_empty() {
            true => Reply::tool_call("mcp_fake_act", json!({})),
            false => Reply::text("over"),
        });
        let mut command = world.daemon.agentctl_command(["run", "Go", "-C", project, "--on-interrupt", "approve"]);
        command.current_dir(world.daemon.path().join(folder));
        Running::spawn(command).output(Vec::new()).await.exits(0);
        tool_texts(world.model.requests().last().unwrap())
    };
    let (shop, house) = (world.daemon.path().join("shop"), world.daemon.path().join("house"));
    let first = told("shop/web", "..").await;
    assert!(first.contains(&format!("in {} for {}/web", shop.display(), shop.display())), "{first}");
    let second = told("house", ".").await;
    assert!(second.contains(&format!("in {} for {}", house.display(), house.display())), "{second}");
    // No client is asked for them, and no path is taken for a secret.
    let named = world.client().await.hello().variables.clone();
    assert!(named.is_empty(), "{named:?}");
    world.all_are_gone().await;
}
