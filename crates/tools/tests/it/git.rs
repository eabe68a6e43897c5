//! Git does not run programs that a folder's configuration names, even if a command changes git's environment.

use super::{sandbox::locked, *};

/// Commands that run git without the environment that agentd configured.
const INVOCATIONS: [&str; 7] = [
    "git",
    "env -i PATH=/usr/bin:/bin git",
    "env -u GIT_CONFIG_COUNT git",
    "GIT_CONFIG_COUNT=0 git",
    "unset GIT_CONFIG_COUNT GIT_OPTIONAL_LOCKS; git",
    "exec -c /usr/bin/git",
    "env -i $(git --exec-path)/git",
];

/// Creates a project whose configuration names a program in every setting that agentd disables.
fn configure_programs(bench: &Bench) {
    let project = bench.real("/project");
    let (program, mark) = (project.join("evil"), bench.real("temp/ran"));
    fs::write(&program, format!("#!/bin/sh\necho evil ran >&2\necho ran > '{}'\nexit 1\n", mark.display())).unwrap();
    chmod(&program, 0o755);
    git(&project, &["init", "-q"]);
    git(&project, &["add", "evil"]);
    git(&project, &["commit", "-qm", "first"]);
    let hooks = project.join(".git/hooks/post-index-change");
    fs::create_dir_all(hooks.parent().unwrap()).unwrap();
    fs::copy(&program, &hooks).unwrap();
    let named = program.display().to_string();
    for (key, value) in [("core.fsmonitor", named.as_str()), ("gpg.program", &named), ("log.showSignature", "true")] {
        git(&project, &["config", key, value]);
    }
    // Ordinary files that look like a bare repository.
    let bare = project.join("bare");
    git(&project, &["init", "-q", "--bare", "bare"]);
    git(&bare, &["config", "core.fsmonitor", &named]);
    git(&bare, &["config", "core.bare", "false"]);
    git(&bare, &["config", "core.worktree", &project.display().to_string()]);
}

#[tokio::test]
async fn git_runs_no_program_from_the_repository() {
    if !Path::new("/usr/bin/git").exists() {
        return;
    }
    for confinement in [Confinement::Usual, Confinement::ReadOnly] {
        let mut bench = locked(Project::Writable, |_| {}).await;
        configure_programs(&bench);
        bench.context.confinement = confinement;
        for invocation in INVOCATIONS {
            for (folder, command) in [("", "status"), ("", "diff --stat"), ("", "log -1"), ("/bare", "status")] {
                // `git diff` refreshes a writable index, which may run hooks.
                if command.starts_with("diff") && confinement == Confinement::Usual {
                    continue;
                }
                let text =
                    bench.sh(&format!("cd \"$PROJECT{folder}\" && touch evil; {invocation} {command}")).await.text;
                let ran = bench.real("temp/ran").exists() || text.contains("evil ran");
                assert!(!ran, "{invocation} {command} in {folder}: {text}");
                if folder.is_empty() {
                    assert!(text.starts_with("exit code 0"), "{invocation} {command}: {text}");
                }
            }
        }
        let text =
            bench.allowed("git --version; git-upload-pack -h 2>&1 | head -n 3; git config --get-all a.b || true").await;
        assert!(text.contains("git version") && text.contains("upload-pack"), "{text}");
    }
}
