//! Guarded files, which other programs run or obey: an unreviewed command cannot leave a new or changed one behind,
//! regardless of the file's name and how it is written.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    process::Command,
};

use agentd_testkit::{
    daemon::{Output, Running, until},
    model_server::Reply,
};
use serde_json::{Value, json};

use super::{World, script_steps};

pub(super) const HOOK: &str = "#!/bin/sh\ntouch ran\n";

/// A repository with a submodule whose configuration refers to hooks in its working tree.
pub(super) const SUBMODULE: &str = "git init -q .; mkdir -p sub/gh; echo true > sub/gh/pre-commit; git init -q sub; mkdir .git/modules; \
                         mv sub/.git .git/modules/sub; echo 'gitdir: ../.git/modules/sub' > sub/.git; \
                         git -C sub config core.worktree ../../../sub; git -C sub config core.hooksPath gh";
/// A repository whose configuration names a program in the repository.
pub(super) const PROGRAM: &str = "git init -q app; git -C app config filter.x.clean 'sh tools/clean.sh %f'; mkdir app/tools; \
                       echo true > app/tools/clean.sh";

/// Runs this script in the project, as the user.
pub(super) fn prepare(world: &World, script: &str) {
    let folder = world.daemon.path().join("project");
    fs::create_dir_all(&folder).unwrap();
    let ran = Command::new("sh").args(["-ec", script]).current_dir(folder).env("HOME", world.daemon.path()).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Returns a call that runs this text as a script in the project. The call's arguments do not show the script's
/// commands.
pub(super) fn script(world: &World, text: &str) -> Value {
    world.daemon.write("project/run.sh", format!("{text}\n"));
    json!({ "command": "cd \"$PROJECT\"; sh run.sh" })
}

pub(super) fn content(world: &World, name: &str) -> Option<String> {
    fs::read_to_string(world.daemon.path().join(name)).ok()
}

/// Returns the writable project as a command-line argument.
pub(super) fn project_argument(world: &World) -> String {
    format!("{}:rw", world.daemon.path().join("project").display())
}

/// Runs one turn without a user in the mode `auto`, in which the model runs this script.
pub(super) async fn run_unattended(world: &World, text: &str, args: &[&str]) -> (String, Output) {
    let project = project_argument(world);
    let usual = ["-C", &project, "--mode", "auto", "--on-interrupt", "deny", "--output", "json"];
    let (results, output) =
        world.call_all(vec![("run_bash_command", script(world, text))], &[&usual[..], args].concat()).await;
    (results.into_iter().next().unwrap(), output)
}

/// Like [`run_unattended`], but with a client that can answer. Returns the client and the question.
pub(super) async fn asked(world: &World, text: &str) -> (Running, Value) {
    let call = Reply::tool_call("run_bash_command", script(world, text));
    script_steps(&world.model, vec![(&["command also wrote"], call)], Reply::text("Over."));
    world.run_until_question(&["Go.", "-C", &project_argument(world), "--mode", "auto"]).await
}

pub(super) async fn answer(world: &World, interrupt: &Value, args: &[&str]) -> Output {
    world.daemon.agentctl(["answer", interrupt["id"].as_str().unwrap()].iter().chain(args)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unreviewed_command_cannot_plant_a_guarded_file() {
    // Each case has the user's setup, the command, and the file that must be unchanged and reported.
    let cases = [
        (
            "git init -q app",
            "mkdir -p app/new/.git/hooks; printf x > app/new/.git/hooks/pre-commit",
            "app/new/.git/hooks/pre-commit",
        ),
        (
            "true",
            "mkdir -p a/b/c/d/.git/hooks; printf x > a/b/c/d/.git/hooks/pre-commit",
            "a/b/c/d/.git/hooks/pre-commit",
        ),
        ("true", "mkdir -p src/.git; printf '[core]\\n\\tfsmonitor = ./x\\n' > src/.git/config", "src/.git/config"),
        ("ln -s later .zed", "mkdir later; printf x > later/tasks.json", "later/tasks.json"),
        ("ln -s one .zed; ln -s two one", "mkdir two; printf x > two/tasks.json", "two/tasks.json"),
        (
            "mkdir app; echo 'gitdir: ../store' > app/.git",
            "mkdir -p store/hooks; printf x > store/hooks/pre-commit",
            "store/hooks/pre-commit",
        ),
        ("echo build > .gitignore", "mkdir -p build/x; printf x > build/x/.envrc", "build/x/.envrc"),
        ("true", "mkdir -p b/objects b/refs; echo 'ref: refs/heads/main' > b/HEAD; printf x > b/config", "b/config"),
        ("true", "mkdir -p deep/er; printf x > deep/er/.unheard-of", "deep/er/.unheard-of"),
        ("true", "ln -s elsewhere CLAUDE.md", "CLAUDE.md"),
        ("true", "printf x > x.code-workspace", "x.code-workspace"),
        ("true", "mkdir .zed; printf x > .zed/tasks.json; chmod 000 .zed/tasks.json .zed", ".zed/tasks.json"),
        ("true", "mkdir -p .claude/skills/target; printf x > .claude/skills/target/S.md", ".claude/skills/target/S.md"),
        ("true", "head -c 11000000 /dev/zero > .envrc", ".envrc"),
        ("true", "for i in $(seq 1 120); do echo $i > f$i; done; printf x > AGENTS.md", "AGENTS.md"),
        ("mkdir -p b/refs; echo x > b/config", "echo 'ref: refs/heads/main' > b/HEAD; mkdir b/objects", "b/HEAD"),
        ("mkdir -p b/refs b/objects; echo x > b/config", "ln -s refs/heads/main b/HEAD", "b/HEAD"),
        ("mkdir -p refs objects; echo x > config", "echo 'ref: refs/heads/main' > HEAD", "HEAD"),
        (
            "git config --global core.hooksPath gh",
            "mkdir -p x/gh; echo true > x/gh/pre-commit; git init -q x",
            "x/gh/pre-commit",
        ),
        (
            "git config --global init.templateDir tpl",
            "mkdir -p x/tpl/hooks; printf x > x/tpl/hooks/pre-commit",
            "x/tpl/hooks/pre-commit",
        ),
        // The configuration is created by the command as well.
        (
            "true",
            "mkdir -p new/.git tpl/hooks; printf '[init]\\n\\ttemplateDir = ../tpl\\n' > new/.git/config; \
             printf x > tpl/hooks/pre-commit",
            "tpl/hooks/pre-commit",
        ),
        (
            "git init -q .; git config core.hooksPath tools/hooks; mkdir -p evil/hooks; echo true > evil/hooks/pre-commit",
            "ln -s evil tools",
            "tools",
        ),
        (
            "git init -q --template= t",
            "for i in $(seq 250); do mkdir -p r/$i; cp -r t/.git r/$i; echo 'hooksPath = h'$i >> r/$i/.git/config; done",
            "r/1/.git/config",
        ),
    ];
    for (before, text, planted) in cases {
        let world = World::start().await;
        prepare(&world, before);
        let (tool_result, output) = run_unattended(&world, &format!("{text}; echo over > done.txt"), &[]).await;
        let result = output.exits(5).json();
        let denials = result["denials"].to_string();
        assert!(denials.contains(planted), "{planted}: {denials}\n{tool_result}");
        assert!(tool_result.contains("was reverted"), "{planted}: {tool_result}");
        let path = world.daemon.path().join("project").join(planted);
        assert!(path.symlink_metadata().is_err(), "{planted} still exists");
        assert_eq!(
            content(&world, "project/done.txt").as_deref(),
            Some("over\n"),
            "{planted}: other changes are not reverted"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreviewed_command_cannot_change_an_existing_guarded_file() {
    let cases = [
        ("git init -q app", "echo '[core]' >> app/.git/config", "app/.git/config"),
        ("mkdir -p a/b/.vscode; echo {} > a/b/.vscode/tasks.json", "rm -rf a/b/.vscode", "a/b/.vscode/tasks.json"),
        ("mkdir vsc; echo {} > vsc/tasks.json; ln -s vsc .vscode", "echo x > vsc/tasks.json", "vsc/tasks.json"),
        ("echo be kind > AGENTS.md; ln AGENTS.md notes.txt", "echo x > notes.txt", "AGENTS.md"),
        (
            "git init -q app; git -C app config core.hooksPath gh; mkdir app/gh; echo true > app/gh/pre-commit",
            "echo x > app/gh/pre-commit",
            "app/gh/pre-commit",
        ),
        ("git init -q --separate-git-dir=store app", "echo x >> store/config", "store/config"),
        (
            "mkdir -p a/.zed; echo {} > a/.zed/tasks.json",
            "mv a b; mkdir a; echo x > b/.zed/tasks.json",
            "a/.zed/tasks.json",
        ),
        (
            "git init -q app; mkdir h; echo true > h/pre-commit; rm -r app/.git/hooks; ln -s ../../h app/.git/hooks",
            "echo x > h/pre-commit",
            "h/pre-commit",
        ),
        (
            "git config --global core.hooksPath gh; git init -q app; mkdir app/gh; echo true > app/gh/pre-commit",
            "echo x > app/gh/pre-commit",
            "app/gh/pre-commit",
        ),
        (SUBMODULE, "echo x > sub/gh/pre-commit", "sub/gh/pre-commit"),
        (
            "git init -q app; cd app; git config core.hooksPath gh; mkdir real evil; ln -s real gh; \
             echo true > real/pre-commit; echo x > evil/pre-commit",
            "cd app; rm gh; ln -s evil gh",
            "app/gh/pre-commit",
        ),
        (
            "git init -q app; cd app; git config core.hooksPath tools/hooks; mkdir -p tools/hooks evil/hooks; \
             echo true > tools/hooks/pre-commit; echo x > evil/hooks/pre-commit",
            "cd app; mv tools old; ln -s evil tools",
            "app/tools/hooks/pre-commit",
        ),
        (PROGRAM, "echo x > app/tools/clean.sh", "app/tools/clean.sh"),
        (
            "git init -q app; git -C app config init.templateDir ../tpl; mkdir -p tpl/hooks; echo true > tpl/hooks/pre-commit",
            "echo x > tpl/hooks/pre-commit",
            "tpl/hooks/pre-commit",
        ),
    ];
    for (before, text, guarded) in cases {
        let world = World::start().await;
        prepare(&world, before);
        let name = format!("project/{guarded}");
        let was = content(&world, &name);
        assert!(was.is_some(), "{guarded}");
        run_unattended(&world, text, &[]).await;
        assert_eq!(content(&world, &name), was, "{guarded}: {text}");
    }
    // Files in an added folder are guarded as well.
    let world = World::start().await;
    prepare(&world, "mkdir ../lib; git init -q ../lib");
    let lib = format!("{}:rw", world.daemon.path().join("lib").display());
    let text =
        "echo x > /folders/lib/.git/hooks/pre-commit; mkdir /folders/lib/.zed; echo x > /folders/lib/.zed/tasks.json";
    let (result, output) = run_unattended(&world, text, &["--add-dir", &lib]).await;
    output.exits(5);
    assert!(result.contains("/folders/lib/.zed/tasks.json"), "{result}");
    assert!(content(&world, "lib/.git/hooks/pre-commit").is_none() && content(&world, "lib/.zed/tasks.json").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn user_can_keep_a_planted_file_and_undo_it() {
    let world = World::start().await;
    prepare(&world, "git init -q app; rm -r app/.git/hooks; chmod 755 .");
    world.daemon.write("project/w.py", format!("import os\nos.makedirs('b/.git/hooks')\nopen('b/.git/hooks/pre-commit', 'w').write({HOOK:?})\nos.chmod('b/.git/hooks/pre-commit', 0o755)\n"));
    for keeps in [false, true] {
        let (running, question) = asked(&world, "python3 w.py; echo ran").await;
        let hook = world.daemon.path().join("project/b/.git/hooks/pre-commit");
        assert!(!hook.exists(), "the hook exists before the answer");
        assert_eq!((&question["kind"], &question["tool"]), (&json!("approval"), &json!("keep_files")));
        let preview = question["preview"].as_str().unwrap();
        for text in ["/project/b/.git/hooks/pre-commit (mode 0755)", "+#!/bin/sh", "+touch ran"] {
            assert!(preview.contains(text), "{text:?} is missing in {preview}");
        }
        answer(&world, &question, &[if keeps { "approve" } else { "reject" }]).await.exits(0);
        running.output(Vec::new()).await;
        assert_eq!(hook.exists(), keeps);
        let log = world.daemon.agentctl(["audit", "--json"]).await.exits(0).json();
        let logged: Vec<String> = log.as_array().unwrap().iter().map(Value::to_string).collect();
        let answers: Vec<&String> = logged.iter().filter(|entry| entry.contains("\"keep_files\"")).collect();
        let allowed = |entry: &&&String| entry.contains("\"allowed\":true");
        assert_eq!(
            (answers.len(), answers.iter().filter(allowed).count()),
            (1 + usize::from(keeps), usize::from(keeps))
        );
        if keeps {
            assert_eq!(fs::read_to_string(&hook).unwrap(), HOOK);
            assert_eq!(hook.metadata().unwrap().permissions().mode() & 0o777, 0o755);
            let undone = world.daemon.agentctl(["undo", "--json"]).await.exits(0).json().to_string();
            assert!(undone.contains("/project/b/.git/hooks/pre-commit"), "{undone}");
            assert!(!hook.exists());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prefix_rule_covers_no_hook_but_common_git_commands_run() {
    let world = World::start().await;
    prepare(
        &world,
        "git init -q -b main; git config user.email a@b.c; git config user.name a
         printf '#!/bin/sh\\necho hook-ran\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit
         echo a > a.txt; echo be kind > AGENTS.md; git add .; git commit -qm first; git branch other
         git clone -q . ../far; git remote add far ../far",
    );
    let project = project_argument(&world);
    world.model.reply(Reply::text("Hello."));
    let hello = ["run", "Hi", "-C", &project, "--output", "json"];
    let session = world.daemon.agentctl(hello).await.exits(0).json()["session_id"].as_str().unwrap().to_owned();
    for rule in ["git add *", "git commit *", "git checkout *", "git switch *", "git stash *", "git merge *", "make *"]
    {
        let rule = format!("run_bash_command: {rule}");
        world.daemon.agentctl(["grants", "add", &rule, "--session", &session]).await.exits(0);
    }
    let run = |text: &str| ("run_bash_command", json!({ "command": text, }));
    let args = ["--session", &session, "--on-interrupt", "deny", "--output", "json"];
    let day = vec![
        run("git add a.txt"),
        run("git commit --allow-empty -m work"),
        run("git checkout -b topic"),
        run("git checkout -b tracked --track other"),
        run("git switch other"),
        run("git merge main"),
        run("git stash list"),
    ];
    let (results, output) = world.call_all(day, &args).await;
    assert_eq!(output.exits(0).json()["denials"], json!([]), "{results:#?}");
    assert!(results.iter().all(|result| !result.contains("reverted")), "{results:#?}");
    assert!(results[1].contains("hook-ran"), "{results:#?}");

    // A hook of the user that runs under the rule for git writes another hook. A build that runs under another rule
    // writes a guarded file.
    prepare(
        &world,
        "printf '#!/bin/sh\\necho x > .git/hooks/post-commit\\necho y > .envrc\\n' > .git/hooks/pre-commit
         printf 'all:\\n\\tmkdir -p sub/.zed; echo x > sub/.zed/tasks.json\\n' > Makefile",
    );
    let (results, output) = world.call_all(vec![run("git commit --allow-empty -m x"), run("make all")], &args).await;
    let denials = output.exits(5).json()["denials"].to_string();
    for planted in [".git/hooks/post-commit", "sub/.zed/tasks.json"] {
        assert!(denials.contains(planted), "{denials}\n{results:#?}");
        assert!(content(&world, &format!("project/{planted}")).is_none());
    }
}

/// A repository that a user added so that git can commit in its worktree is guarded like one in the project.
#[tokio::test(flavor = "multi_thread")]
async fn no_hook_is_planted_in_the_repository_of_a_worktree() {
    let world = World::start().await;
    prepare(
        &world,
        "git init -q -b main ../main; cd ../main; git config user.email a@b.c; git config user.name a
         git commit -q --allow-empty -m first; git worktree add -q ../project
         printf \"#!/bin/sh\\necho x > $PWD/.git/hooks/post-commit\\n\" > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit",
    );
    let (project, main) = (project_argument(&world), world.daemon.path().join("main"));
    let commit = || vec![("run_bash_command", json!({ "command": "git commit --allow-empty -m second" }))];
    let args = ["-C", &project, "--on-interrupt", "approve", "--output", "json"];
    let (results, _) = world.call_all(commit(), &args).await;
    let folder = format!("{}:rw", main.join(".git").display());
    assert!(results[0].contains(&format!("--add-dir {folder}")), "{results:#?}");

    world.model.reply(Reply::text("Hello."));
    let hello = ["run", "Hi", "-C", &project, "--add-dir", &folder, "--output", "json"];
    let session = world.daemon.agentctl(hello).await.exits(0).json()["session_id"].as_str().unwrap().to_owned();
    world.daemon.agentctl(["grants", "add", "run_bash_command: git commit *", "--session", &session]).await.exits(0);
    let args = ["--session", &session, "--on-interrupt", "deny", "--output", "json"];
    let (results, output) = world.call_all(commit(), &args).await;
    let denials = output.exits(5).json()["denials"].to_string();
    assert!(denials.contains("hooks/post-commit"), "{denials}\n{results:#?}");
    assert!(!main.join(".git/hooks/post-commit").exists());
    let log = Command::new("git").args(["log", "--format=%s", "HEAD"]).current_dir(main.join("../project")).output();
    assert_eq!(String::from_utf8(log.unwrap().stdout).unwrap(), "second\nfirst\n");
    // Neither git's own data nor the user's later commits are reverted.
    prepare(
        &world,
        "rm ../main/.git/hooks/*; echo x > x.txt; git add x.txt; git commit -qm third; cd ../main; git commit -q --allow-empty -m mine",
    );
    world.daemon.agentctl(["undo", &session]).await;
    prepare(
        &world,
        "git fsck --strict; test \"$(git log --format=%s | head -2 | tr '\\n' ' ')\" = 'third second '; cd ../main; test \"$(git log -1 --format=%s)\" = mine",
    );
}

/// Worktrees next to a bare repository, which is a common layout.
#[tokio::test(flavor = "multi_thread")]
async fn undo_keeps_the_data_of_a_bare_repository_in_the_project() {
    let world = World::start().await;
    prepare(
        &world,
        "git init -q --bare -b main repo.git; git --git-dir repo.git config user.email a@b.c
         git --git-dir repo.git config user.name a; git --git-dir repo.git worktree add -q --orphan main
         cd main; echo a > a.txt; git add a.txt; git commit -qm first",
    );
    let project = project_argument(&world);
    let calls = vec![(
        "run_bash_command",
        json!({"command": "cd main && echo x > x.txt && git add . && git commit -qm second; rm ../repo.git/HEAD"}),
    )];
    let args = ["-C", &project, "--on-interrupt", "approve", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    let session = output.exits(0).json()["session_id"].as_str().unwrap().to_owned();
    assert!(results[0].contains("exit code 0"), "{results:#?}");
    prepare(&world, "echo 'ref: refs/heads/main' > repo.git/HEAD; cd main; git commit -q --allow-empty -m mine");
    let undone = world.daemon.agentctl(["undo", &session]).await;
    assert!(content(&world, "project/main/x.txt").is_none(), "{undone:?}");
    prepare(
        &world,
        "cd main; git fsck --strict; test \"$(git log --format=%s | tr '\\n' ' ')\" = 'mine second first '",
    );
}

/// The check after an unreviewed command does not revert files that were approved in another session.
#[tokio::test(flavor = "multi_thread")]
async fn cleanup_leaves_files_approved_in_another_session() {
    let world = World::start().await;
    prepare(&world, "true");
    world.daemon.write(
        "project/waits.sh",
        "touch begun.txt; until [ -e go.txt ]; do sleep 0.1; done; mkdir .zed; echo x > .zed/tasks.json\n",
    );
    let waits = Reply::tool_call("run_bash_command", json!({ "command": "cd \"$PROJECT\"; sh waits.sh" }));
    script_steps(&world.model, vec![(&["command also wrote"], waits)], Reply::text("Over."));
    let project = project_argument(&world);
    let first = world.daemon.spawn_agentctl(["run", "Go.", "-C", &project, "--mode", "auto", "--on-interrupt", "deny"]);
    until("the command is running", || async { content(&world, "project/begun.txt").map(drop) }).await;
    let (second, question) = asked(&world, "echo export A=1 > .envrc").await;
    answer(&world, &question, &["approve"]).await.exits(0);
    second.output(Vec::new()).await.exits(0);
    assert_eq!(content(&world, "project/.envrc").as_deref(), Some("export A=1\n"));
    world.daemon.write("project/go.txt", "");
    first.output(Vec::new()).await.exits(5);
    assert!(content(&world, "project/.zed/tasks.json").is_none());
    assert_eq!(content(&world, "project/.envrc").as_deref(), Some("export A=1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_after_a_kill_removes_planted_files() {
    let mut world = World::start().await;
    prepare(&world, "true");
    let text = "mkdir -p app/.git/hooks; echo x > app/.git/hooks/pre-commit; echo over > done.txt; sleep 60";
    script_steps(
        &world.model,
        vec![(&["never"], Reply::tool_call("run_bash_command", script(&world, text)))],
        Reply::text("?"),
    );
    let project = project_argument(&world);
    let running =
        world.daemon.spawn_agentctl(["run", "Go.", "-C", &project, "--mode", "auto", "--on-interrupt", "deny"]);
    until("the command has written the file", || async { content(&world, "project/done.txt").map(drop) }).await;
    let written = world.daemon.path().join("project/done.txt").metadata().unwrap().ctime();
    until("the clock shows a later second", || async {
        let undo_files = fs::read_dir(world.daemon.data().join("undo")).into_iter().flatten().flatten();
        let alive = undo_files
            .filter_map(|session| session.path().join("alive").metadata().ok())
            .any(|sign| sign.ctime() > written);
        alive.then_some(())
    })
    .await;
    world.daemon.kill9().await;
    drop(running);
    assert!(content(&world, "project/app/.git/hooks/pre-commit").is_some());
    world.daemon.restart().await;
    until("the hook is removed", || async {
        content(&world, "project/app/.git/hooks/pre-commit").is_none().then_some(())
    })
    .await;
    assert!(content(&world, "project/done.txt").is_some(), "other changes remain for undo");
    world.model.reply(Reply::text("I know.").when("And now?"));
    world.daemon.agentctl(["run", "--continue", "And now?", "-C", &project]).await.exits(0);
    let request = format!("{:?}", world.model.requests().last().unwrap().messages());
    assert!(request.contains("/project/app/.git/hooks/pre-commit"), "{request}");
}
