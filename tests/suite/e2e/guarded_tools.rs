//! Guarded files, which other programs run or obey: in every mode and with any grant, a tool that writes such a file
//! requires approval, regardless of the file's name and of the links that lead to it.

use std::path::Path;

use serde_json::json;

use super::{
    World,
    guarded::{PROGRAM, SUBMODULE, content, prepare, project_argument},
};

#[tokio::test(flavor = "multi_thread")]
async fn guarded_file_is_written_only_after_approval() {
    let world = World::start().await;
    prepare(&world, "true");
    world.daemon.write("config/hitl_rules.yaml", "global: {guarded_names: [Tiltfile]}\n");
    world.daemon.agentctl(["reload"]).await.exits(0);
    let asks = [
        ".devcontainer.json",
        "x.code-workspace",
        ".zed/tasks.json",
        ".dir-locals.el",
        ".envrc.local",
        ".mise.toml",
        ".forgejo/workflows/ci.yml",
        ".codex/config.toml",
        ".opencode/plugin/x.js",
        "opencode.json",
        ".windsurf/rules/x.md",
        ".clinerules",
        ".kiro/hooks/x.json",
        ".aider.conf.yml",
        ".lsp.json",
        ".helix/languages.toml",
        ".sublime-x",
        "a/b/Agents.MD",
        ".never-heard-of",
        "x/.Never/y.txt",
        "sub/tiltfile",
        "mise.local.toml",
        ".GITIGNORE",
    ];
    let runs = [".gitignore", "a/.editorconfig", "src/main.rs", "Makefile"];
    let write = |path: &&str| ("write_file", json!({"path": format!("/project/{path}"), "content": "x"}));
    let calls: Vec<_> = asks.iter().chain(&runs).map(write).collect();
    let project = project_argument(&world);
    let args = ["-C", &project, "--mode", "accept-edits", "--on-interrupt", "deny", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    output.exits(5);
    for (path, result) in asks.iter().zip(&results) {
        assert!(result.starts_with("E_DENIED"), "{path}: {result}");
        assert!(!Path::new(&world.daemon.path().join("project").join(path)).exists());
    }
    for (path, result) in runs.iter().zip(&results[asks.len()..]) {
        assert!(!result.starts_with("E_DENIED"), "{path}: {result}");
    }
}

/// The file has an ordinary name, but a link, git or a surrounding repository refers to it.
#[tokio::test(flavor = "multi_thread")]
async fn target_of_a_guarded_name_is_written_only_after_approval() {
    for mode in ["auto", "accept-edits"] {
        let world = World::start().await;
        for script in [
            SUBMODULE,
            PROGRAM,
            "git config --global core.hooksPath ./everywhere; mv ../.gitconfig ../dot; ln -s dot ../.gitconfig",
            "git -C app config core.hooksPath scripts/hooks",
            "mkdir tpl; git -C app config init.templateDir ../tpl",
            "mkdir common docs ../lib; ln -s common .vscode; ln -s docs/rules.md CLAUDE.md; ln -s ../lib/conf .zed",
            "git init -q --bare vendor.git; git init -q --separate-git-dir=store stored",
            "mkdir -p half/objects half/refs; echo 'ref: refs/heads/main' > half/HEAD; mkdir -p part/hooks linked pages; \
             echo 'ref: refs/heads/main' > linked/HEAD",
            "mkdir -p app/real app/scripts/hooks; ln -s ../../real/merge.sh app/scripts/hooks/post-merge; git -C app config include.path ../../app.inc",
            "git init -q --separate-git-dir=../outside apart; git -C apart config core.hooksPath gh; ln -s project/conf ../.emacs.d; ln -s project/r.md ../CLAUDE.md",
            "git -C app config filter.y.clean 'sh clean.sh'; echo true > app/clean.sh; git -C app config core.fsmonitor new/fsm.sh",
            "git init -q dots; git -C dots config alias.x 'grep -n a src/main.rs'",
            "git -C dots config branch.main.description 'Fix src/main.rs'; mkdir dots/src; echo > dots/src/main.rs",
        ] {
            prepare(&world, script);
        }
        let asks = [
            "/project/app/scripts/hooks/pre-commit",
            "/project/app/everywhere/pre-commit",
            "/project/app/tools/clean.sh",
            "/project/tpl/hooks/pre-commit",
            "/project/sub/gh/pre-commit",
            "/project/sub/everywhere/post-checkout",
            "/project/common/tasks.json",
            "/project/docs/rules.md",
            "/folders/lib/conf/tasks.json",
            "/project/vendor.git/hooks/post-receive",
            "/project/store/hooks/pre-commit",
            "/project/half/config",
            "/project/part/HEAD",
        ];
        let runs =
            ["/project/app/scripts/build.sh", "/project/docs/other.md", "/folders/lib/tasks.json", "outputs/a.txt"];
        let write = |path: &&str| ("write_file", json!({"path": path, "content": "x"}));
        let mut calls: Vec<_> = asks.iter().chain(&runs).map(write).collect();
        // One patch that adds all parts of a repository.
        let parts =
            ["HEAD", "config", "objects/x", "refs/x"].map(|part| format!("*** Add File: /project/all/{part}\n+x\n"));
        calls.push(("apply_patch", json!({"patch": format!("*** Begin Patch\n{}*** End Patch\n", parts.concat())})));
        let (project, lib) = (project_argument(&world), format!("{}:rw", world.daemon.path().join("lib").display()));
        let args = ["-C", &project, "--add-dir", &lib, "--mode", mode, "--on-interrupt", "deny", "--output", "json"];
        let (results, output) = world.call_all(calls, &args).await;
        output.exits(5);
        let (asked_results, results) = results.split_at(asks.len());
        for (path, result) in asks.iter().zip(asked_results).chain([(&"/project/all", results.last().unwrap())]) {
            assert!(result.starts_with("E_DENIED"), "{mode}, {path}: {result}");
        }
        for (path, result) in runs.iter().zip(results) {
            assert!(!result.starts_with("E_"), "{mode}, {path}: {result}");
        }
    }
}

/// Approval is required even if the folder that refers to the file is read-only, and when an edit is undone.
#[tokio::test(flavor = "multi_thread")]
async fn read_only_link_and_undo_require_approval_for_a_guarded_file() {
    let world = World::start().await;
    prepare(&world, "mkdir -p ../lib/conf; ln -s ../lib/conf .zed");
    let (project, lib) =
        (world.daemon.path().join("project"), format!("{}:rw", world.daemon.path().join("lib").display()));
    let write = |path: &str, content: &str| ("write_file", json!({"path": path, "content": content}));
    let usual = ["--mode", "auto", "--on-interrupt", "deny", "--output", "json"];
    let args = ["-C", project.to_str().unwrap(), "--add-dir", &lib];
    let calls = vec![write("/folders/lib/conf/tasks.json", "x"), write("/folders/lib/main.c", "x")];
    let (results, _) = world.call_all(calls, &[&args[..], &usual].concat()).await;
    assert!(results[0].starts_with("E_DENIED") && !results[1].starts_with("E_"), "{results:?}");

    let hook = "/project/gh/pre-commit";
    let project = project_argument(&world);
    let (results, _) =
        world.call_all(vec![write(hook, "one"), write(hook, "two")], &[&["-C", &project][..], &usual].concat()).await;
    assert!(results.iter().all(|result| !result.starts_with("E_")), "{results:?}");
    prepare(&world, "git init -q .; git config core.hooksPath gh");
    let (results, _) =
        world.call_all(vec![("undo_patch", json!({}))], &[&["-C", &project, "--continue"][..], &usual].concat()).await;
    assert!(results.last().unwrap().starts_with("E_DENIED"), "{results:?}");
    assert_eq!(content(&world, "project/gh/pre-commit").as_deref(), Some("two"));
}
