//! Projects in which some guarded files cannot be found because folders are nested too deeply: an unreviewed command
//! requires approval.

use agentd_testkit::{daemon::until_true, model_server::Reply};
use serde_json::json;

use super::{
    World,
    guarded::{answer, content, prepare, project_argument, run_unattended},
};

const REASON: &str = "its changes cannot be checked completely: the project has too many git-ignored folders";

/// Returns a path of folders nested to this depth.
fn nested(levels: usize) -> String {
    vec!["d"; levels].join("/")
}

#[tokio::test(flavor = "multi_thread")]
async fn command_requires_approval_in_a_too_deeply_nested_project() {
    for is_ignored in [false, true] {
        let world = World::start().await;
        prepare(&world, &format!("mkdir -p {}", nested(101)));
        if is_ignored {
            world.write("project/.gitignore", "d/\n");
        }
        let (tool_result, output) = run_unattended(&world, "echo over > done.txt", &[]).await;
        output.exits(5);
        assert!(tool_result.contains(REASON), "ignored: {is_ignored}: {tool_result}");
        assert!(content(&world, "project/done.txt").is_none(), "ignored: {is_ignored}: the command ran");

        // A user who sees the reason can approve the command.
        world.script_reply(Reply::tool_call("run_bash_command", json!({"command": "cd \"$PROJECT\"; sh run.sh"})));
        world.ok(["run", "Go.", "-C", &project_argument(&world), "--mode", "auto", "--detach"]).await;
        let question = world.first_question().await;
        for field in ["reason", "preview"] {
            assert!(question[field].as_str().unwrap().contains(REASON), "ignored: {is_ignored}: {question:#}");
        }
        assert!(
            content(&world, "project/done.txt").is_none(),
            "ignored: {is_ignored}: the command ran before the answer"
        );
        answer(&world, &question, &["approve"]).await.exits(0);
        until_true("the command has run", || content(&world, "project/done.txt").is_some()).await;

        // With one level less, everything is checked and no approval is required.
        prepare(&world, &format!("rm done.txt; rmdir {}", nested(101)));
        let (tool_result, output) = run_unattended(&world, "echo over > done.txt", &[]).await;
        output.exits(0);
        assert!(content(&world, "project/done.txt").is_some(), "ignored: {is_ignored}: {tool_result}");
    }
}
