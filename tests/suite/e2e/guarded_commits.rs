//! Commits by a user after an unreviewed command: git does not run a hook that the command planted.

use super::{
    World,
    guarded::{HOOK, answer, asked, content, prepare, run_unattended},
};

/// Returns a script that plants a hook, and creates the repository first if it is missing.
fn plants(repository: &str, hooks: &str) -> String {
    format!(
        "test -e {repository}/.git || git init -q {repository}; mkdir -p {hooks}; printf '%s' '{HOOK}' > {hooks}/pre-commit; \
         chmod 755 {hooks}/pre-commit; echo over > done.txt"
    )
}

/// Commits as the user. Returns true if the planted hook ran.
fn commit_runs_hook(world: &World, repository: &str) -> bool {
    prepare(
        world,
        &format!("git -C {repository} -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m 'by the user'"),
    );
    content(world, &format!("project/{repository}/ran")).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_after_a_denied_question_runs_no_planted_hook() {
    // Each case has the user's setup, the repository, and the folder of the hook. An existing folder `hooks` is
    // read-only.
    let cases = [
        ("git init -q .", ".", ".git/hooks"),
        ("git init -q .; git config core.hooksPath tools/gh", ".", "tools/gh"),
        ("git init -q app; git -C app config core.hooksPath ../gh", "app", "gh"),
        ("git init -q app; rm -rf app/.git/hooks; ln -s ../../later app/.git/hooks", "app", "later"),
        ("git config --global core.hooksPath gh; git init -q app", "app", "app/gh"),
        ("true", "new", "new/.git/hooks"),
        ("true", "a/b/c/new", "a/b/c/new/.git/hooks"),
    ];
    for (before, repository, hooks) in cases {
        let world = World::start().await;
        prepare(&world, before);
        let (tool_result, _) = run_unattended(&world, &plants(repository, hooks), &[]).await;
        assert_eq!(content(&world, "project/done.txt").as_deref(), Some("over\n"), "{hooks}: {tool_result}");
        assert!(!commit_runs_hook(&world, repository), "{hooks}: {tool_result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_runs_a_planted_hook_only_while_the_user_keeps_it() {
    let world = World::start().await;
    prepare(&world, "git init -q .; git config core.hooksPath gh");
    for keeps in [false, true] {
        let (running, question) = asked(&world, &plants(".", "gh")).await;
        assert!(!commit_runs_hook(&world, "."), "before the answer");
        answer(&world, &question, &[if keeps { "approve" } else { "reject" }]).await.exits(0);
        running.output(Vec::new()).await;
        assert_eq!(commit_runs_hook(&world, "."), keeps);
    }
    prepare(&world, "rm ran");
    world.agentctl(["undo"]).await.exits(0);
    assert!(!commit_runs_hook(&world, "."), "after undo");
}
