//! Git worktrees of sessions: several agents work in one repository, and their changes are merged without loss.

use agentd_proto::client::ClientError;

use super::*;

/// Runs git as a user would.
#[track_caller]
pub(super) fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates a repository with two commits.
fn repository(home: &TempHome) {
    let project = home.path().join("project");
    home.write("project/a.txt", "one\ntwo\nthree\n");
    home.write("project/b.txt", "alpha\nbeta\n");
    home.write("project/sub/c.txt", "deep\n");
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "--message=first"]);
}

async fn in_repository() -> World {
    let world = World::start().await;
    repository(&world.daemon);
    world
}

impl World {
    fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    fn main_file(&self, name: &str) -> String {
        fs::read_to_string(self.project().join(name)).unwrap_or_default()
    }

    fn worktree_file(&self, name: &str) -> String {
        fs::read_to_string(self.daemon.data().join("worktrees").join(name)).unwrap_or_default()
    }

    /// Runs a turn with these calls in a session with the worktree `name`, and approves everything. Returns the results
    /// and the session.
    async fn works_in(&self, name: &str, calls: Vec<(&'static str, Value)>) -> (Vec<String>, String) {
        let (project, worktree) = (self.project().display().to_string(), format!("--worktree={name}"));
        let args = ["-C", &project, &worktree, "--on-interrupt", "approve", "--output", "json"];
        let (results, output) = self.call_all(calls, &args).await;
        let session = output.exits(0).session();
        (results, session)
    }

    async fn worktree(&self, args: &[&str]) -> Output {
        self.daemon.agentctl(["worktree"].iter().chain(args)).await
    }

    /// Kills and restarts the daemon `pause` milliseconds after the record of the worktree has reached `stage`, or
    /// after `work` has ended.
    async fn killed_during(
        &mut self,
        (name, stage, pause): (&str, &str, u64),
        work: impl Future<Output = Result<(), ClientError>> + Send + 'static,
    ) {
        let record = self.daemon.data().join(format!("worktrees/.records/{name}.json"));
        let working = tokio::spawn(work);
        while !working.is_finished() && !fs::read_to_string(&record).is_ok_and(|text| text.contains(stage)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Interrupts the operation at a different point each time.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        self.daemon.kill9().await;
        working.abort();
        self.daemon.restart().await;
    }

    async fn worktrees(&self) -> Vec<Value> {
        self.worktree(&["list", "--json"]).await.exits(0).json().as_array().unwrap().clone()
    }
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({ "path": path, "content": content }))
}

fn command(command: &str) -> (&'static str, Value) {
    ("run_bash_command", json!({ "command": command }))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_edit_one_repository_and_both_are_merged() {
    let mut world = in_repository().await;
    world.write("project/b.txt", "alpha\nbeta\nmine\n");
    world.write("project/new-of-mine.txt", "x\n");
    let (_, one) = world
        .works_in("one", vec![write("/project/a.txt", "ONE\ntwo\nthree\n"), write("/project/new.txt", "n\n")])
        .await;
    let args = ["-C", &world.project().display().to_string(), "--worktree=two", "--on-interrupt", "approve"];
    let (results, output) = world
        .call_all(
            vec![command("cat b.txt && sed -i s/three/THREE/ a.txt && pwd"), command("git status --short")],
            &args,
        )
        .await;
    output.exits(0).says(&["worktree two (branch agentd/two)", "2 files with uncommitted changes"]);
    assert!(
        results[0].contains("beta") && !results[0].contains("mine") && results[0].contains("/project"),
        "{results:?}"
    );
    assert!(results[1].contains(" M a.txt"), "{results:?}");
    assert_eq!(world.main_file("a.txt"), "one\ntwo\nthree\n", "the main worktree is unchanged");
    world.daemon.crash().await;

    let listed = world.worktrees().await;
    let shown: Vec<_> =
        listed.iter().map(|one| (one["name"].as_str().unwrap(), one["changed"].as_u64().unwrap())).collect();
    assert_eq!(shown, [("one", 2), ("two", 1)], "{listed:#?}");
    assert_eq!((listed[0]["session"].as_str(), listed[0]["is_merged"].as_bool()), (Some(one.as_str()), Some(false)));
    world.worktree(&["diff", "one"]).await.exits(0).shows(&["+ONE", "new.txt"]);

    let applied = world.worktree(&["apply", &one, "--json"]).await.exits(0).json();
    holds(&applied, json!({"files": ["a.txt", "new.txt"], "onto": "main"}));
    world.worktree(&["apply", "two"]).await.exits(0).says(&["merged two into main", "1 file changed"]);
    assert_eq!(world.main_file("a.txt"), "ONE\ntwo\nTHREE\n");
    assert_eq!((world.main_file("new.txt"), world.main_file("b.txt")), ("n\n".into(), "alpha\nbeta\nmine\n".into()));
    let project = world.project();
    has_all(
        &git(&project, &["log", "--format=%s%n%b"]),
        &["Merge worktree two", &format!("by the agentd session {one}")],
    );
    let left = git(&project, &["status", "--porcelain"]);
    assert_eq!(left.lines().map(str::trim).collect::<Vec<_>>(), ["M b.txt", "?? new-of-mine.txt"]);
    assert!(world.worktrees().await.iter().all(|one| one["is_merged"] == true));
    // The second time, there is nothing left to apply.
    world.worktree(&["apply", "two"]).await.exits(0).says(&["already has all changes of worktree two"]);

    for name in ["one", "two"] {
        world.worktree(&["remove", name]).await.exits(0);
    }
    assert!(world.worktrees().await.is_empty());
    assert_eq!(git(&project, &["branch", "--list", "agentd/*"]), "");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    world.agentctl(["run", "Go on.", "--session", &one]).await.fails().says(&["its worktree was removed", "-C"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn merge_conflict_is_reported_and_changes_nothing() {
    let world = in_repository().await;
    world.works_in("one", vec![write("/project/a.txt", "from one\n")]).await;
    world.works_in("two", vec![write("/project/a.txt", "from two\n"), write("/project/b.txt", "two\n")]).await;
    world.worktree(&["apply", "one"]).await.exits(0);
    let project = world.project();
    let before = git(&project, &["rev-parse", "HEAD"]);
    world.worktree(&["apply", "two"]).await.fails().says(&[
        "a.txt",
        "nothing was changed",
        "hint:",
        "git merge agentd/two",
    ]);
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert_eq!((world.main_file("a.txt"), world.main_file("b.txt")), ("from one\n".into(), "alpha\nbeta\n".into()));
    assert_eq!(world.worktree_file("two/a.txt"), "from two\n", "the worktree is unchanged");
    // A file with uncommitted changes in the main worktree is not overwritten. Changes to other files have no effect.
    world.write("project/b.txt", "not committed\n");
    world.works_in("three", vec![write("/project/b.txt", "three\n")]).await;
    world.worktree(&["apply", "three"]).await.fails().says(&["b.txt", "uncommitted", "hint:"]);
    assert_eq!(world.main_file("b.txt"), "not committed\n");
    git(&project, &["checkout", "--", "b.txt"]);
    // An untracked file that also exists in the branch is not overwritten either.
    world.works_in("four", vec![write("/project/extra.txt", "four\n")]).await;
    world.write("project/extra.txt", "mine\n");
    world.worktree(&["apply", "four"]).await.fails().says(&["extra.txt", "hint:"]);
    assert_eq!(world.main_file("extra.txt"), "mine\n");
    world.worktree(&["apply", "three"]).await.exits(0);
    // The user merges manually, as the hint suggests.
    git(&project, &["merge", "--quiet", "-X", "theirs", "agentd/two"]);
    world.worktree(&["remove", "two"]).await.exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxed_git_reaches_only_its_own_worktree() {
    let world = in_repository().await;
    let common = world.project().join(".git").display().to_string();
    let commit = "git -c user.name=x -c user.email=x@example.org commit -q -m inner && git log --format=%s | head -1";
    let calls = vec![
        write("/project/a.txt", "changed\n"),
        command(&format!("git add -A && {commit} && git status --short && git branch --show-current")),
        command(&format!("echo '[core]' >> {common}/config; echo x > {common}/hooks/pre-commit; ls {common}/hooks")),
        command("git branch evil; git update-ref refs/heads/main HEAD; git config user.name evil"),
        command(&format!("rm -rf {common}/objects/pack {common}/HEAD; ls {common}/HEAD")),
        command(&format!("echo 'gitdir: /tmp' > .git; echo /tmp > {common}/worktrees/one/commondir; cat .git")),
    ];
    let config = fs::read_to_string(world.project().join(".git/config")).unwrap();
    let (results, _) = world.works_in("one", calls).await;
    assert!(results[1].contains("inner") && results[1].contains("agentd/one"), "{results:#?}");
    assert!(!results[2].contains("pre-commit\n") && results[2].contains("Read-only"), "{results:#?}");
    assert!(results[5].contains("worktrees/one"), "{results:#?}");
    let project = world.project();
    assert_eq!(fs::read_to_string(project.join(".git/config")).unwrap(), config);
    assert!(!project.join(".git/hooks/pre-commit").exists());
    assert_eq!(git(&project, &["branch", "--list", "evil"]), "");
    assert_eq!(git(&project, &["log", "--format=%s"]), "first");
    let listed = world.worktrees().await;
    holds(&listed[0], json!({"ahead": 1, "changed": 1}));
    world.worktree(&["apply", "one"]).await.exits(0);
    assert_eq!(
        (world.main_file("a.txt").as_str(), git(&project, &["log", "--format=%s", "-1"]).as_str()),
        ("changed\n", "inner")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_runs_no_program_of_the_repository() {
    let world = in_repository().await;
    let project = world.project();
    // The repository's programs would create this file. Git can write to its path during a merge and while it creates a
    // worktree.
    let mark = project.join(".git/ran");
    let touch = format!("touch {}; cat", mark.display());
    for key in ["filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "diff.evil.textconv", "diff.external"] {
        git(&project, &["config", key, &touch]);
    }
    git(&project, &["config", "merge.evil.driver", &format!("touch {}; false", mark.display())]);
    world.write("project/.git/info/attributes", "* filter=evil diff=evil merge=evil\n");
    for hook in
        ["post-checkout", "pre-commit", "post-commit", "post-merge", "reference-transaction", "post-index-change"]
    {
        let path = world.write(&format!("project/.git/hooks/{hook}"), format!("#!/bin/sh\n{touch}\n"));
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for round in 0..2 {
        // The number of settings is even in one round and odd in the other.
        git(&project, &["config", "filler.x", &round.to_string()]);
        git(&project, &["config", &format!("filler.{}", "y".repeat(round + 1)), "1"]);
        let (one, two) = (format!("one{round}"), format!("two{round}"));
        world.works_in(&one, vec![write("/project/a.txt", &format!("ONE{round}\ntwo\nthree\n"))]).await;
        world.works_in(&two, vec![write("/project/b.txt", &format!("alpha\nBETA{round}\n"))]).await;
        world.worktree(&["diff", &one]).await.exits(0);
        world.worktree(&["apply", &one]).await.exits(0);
        world.worktree(&["apply", &two]).await.exits(0);
        world.worktree(&["remove", &one]).await.exits(0);
        assert!(!mark.exists(), "{}", world.log());
        let files = (world.main_file("a.txt"), world.main_file("b.txt"));
        assert_eq!(files, (format!("ONE{round}\ntwo\nthree\n"), format!("alpha\nBETA{round}\n")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_worktree_is_removed_only_by_force() {
    let world = in_repository().await;
    let (_, one) = world.works_in("one", vec![write("/project/a.txt", "kept\n")]).await;
    let (_, idle) = world.works_in("idle", vec![command("ls")]).await;
    let hidden = "git update-index --assume-unchanged a.txt; echo hidden > a.txt; git status --short";
    world.works_in("hidden", vec![command(hidden)]).await;
    for name in ["one", "hidden"] {
        world.worktree(&["remove", name]).await.fails().says(&["unmerged changes", "hint:", "--force"]);
    }
    world.ok(["sessions", "delete", &idle, "--yes"]).await;
    world.ok(["sessions", "delete", &one, "--yes"]).await;
    let listed = world.worktrees().await;
    let names: Vec<_> = listed.iter().map(|one| (one["name"].as_str().unwrap(), one["is_orphan"] == true)).collect();
    assert_eq!(names, [("hidden", false), ("one", true)], "{listed:#?}");
    assert!(!world.data().join("worktrees/idle").exists());
    assert_eq!(git(&world.project(), &["branch", "--list", "agentd/idle"]), "");
    assert!(world.worktree(&["diff", &one]).await.exits(0).stdout.contains("+kept"));
    world.worktree(&["apply", "one"]).await.exits(0);
    world.worktree(&["remove", "one"]).await.exits(0);
    world.worktree(&["remove", "hidden", "--force"]).await.exits(0);
    assert_eq!(git(&world.project(), &["branch", "--list", "agentd/*"]), "");
    assert_eq!(world.main_file("a.txt"), "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_during_worktree_operations_loses_no_change() {
    let mut world = in_repository().await;
    for number in 0..200 {
        world.write(&format!("project/many/{number}.txt"), format!("{number}\n").repeat(200));
    }
    let project = world.project();
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "--message=many"]);
    world.works_in("other", vec![write("/project/b.txt", "other\n")]).await;
    let edit = "for f in many/*; do sed -i 's/^/x/' $f; done; rm many/7.txt; echo new > many/new.txt";
    world.works_in("one", vec![command(edit)]).await;
    let expected = |world: &World| world.worktree_file("one/many/3.txt");
    let wanted = expected(&world);
    assert!(wanted.starts_with("x3\n"));
    // The daemon is killed during a merge.
    let before = git(&project, &["rev-parse", "HEAD"]);
    for (stage, pause) in
        [("committing", 0), ("committing", 10), ("applying", 0), ("applying", 10), ("applying", 25), ("applying", 60)]
    {
        git(&project, &["reset", "--quiet", "--hard", &before]);
        let client = world.client().await;
        world.killed_during(("one", stage, pause), async move { client.apply_worktree("one").await.map(drop) }).await;
        let listed = world.worktrees().await;
        assert_eq!(listed.len(), 2, "{listed:#?}");
        assert!(listed.iter().all(|one| one["problem"].is_null()), "{listed:#?}");
        assert_eq!(git(&project, &["status", "--porcelain"]), "", "{stage} {pause}");
        let is_there = git(&project, &["rev-parse", "HEAD"]) != before;
        assert_eq!(world.main_file("many/3.txt") == wanted, is_there, "{stage} {pause}: a partial result was left");
        assert_eq!(expected(&world), wanted);
    }
    world.worktree(&["apply", "one"]).await.exits(0);
    world.worktree(&["apply", "other"]).await.exits(0);
    assert_eq!((world.main_file("many/3.txt"), world.main_file("b.txt")), (wanted, "other\n".into()));
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert!(!project.join("many/7.txt").exists() && project.join("many/new.txt").exists());
    // The daemon is killed while a worktree is created and removed.
    for (number, pause) in [0, 10, 30, 60, 120].into_iter().enumerate() {
        let name = format!("made{number}");
        let client = world.client().await;
        let new = NewSession {
            project: Some(Mount { path: project.clone(), writable: true }),
            worktree: Some(name.clone()),
            ..NewSession::default()
        };
        let creation = async move { client.create_session(&new).await.map(drop) };
        world.killed_during((&name, "making", pause), creation).await;
        for one in world.worktrees().await {
            assert!(one["problem"].is_null(), "{one:#}");
        }
        let client = world.client().await;
        let removed = name.clone();
        let removal = async move { client.remove_worktree(&removed, false).await.map(drop) };
        world.killed_during((&name, "removing", pause), removal).await;
    }
    until("worktrees without a stored session are removed", || async {
        world.worktrees().await.iter().all(|one| one["is_orphan"] == false).then_some(())
    })
    .await;
    for one in world.worktrees().await {
        world.worktree(&["remove", one["name"].as_str().unwrap()]).await.exits(0);
    }
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&project, &["branch", "--list", "agentd/*"]), "");
    let left: Vec<_> = fs::read_dir(world.data().join("worktrees")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name().to_string_lossy().starts_with('.')), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_merge_is_finished_after_a_restart() {
    let mut world = in_repository().await;
    world
        .works_in(
            "one",
            vec![write("/project/a.txt", "A\n"), write("/project/b.txt", "B\n"), write("/project/n.txt", "N\n")],
        )
        .await;
    world.worktree(&["apply", "one"]).await.exits(0);
    let project = world.project();
    let (from, to) = (git(&project, &["rev-parse", "HEAD~1"]), git(&project, &["rev-parse", "HEAD"]));
    world.daemon.kill9().await;
    // The state after an interruption: one file written, one partially written, one not written, and a stale git lock.
    git(&project, &["reset", "--quiet", "--hard", &from]);
    world.write("project/a.txt", "A\n");
    world.write("project/n.txt", "");
    world.write("project/.git/index.lock", "");
    let record = world.data().join("worktrees/.records/one.json");
    let mut record_json: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    record_json["stage"] = json!({ "applying": { "from": from, "to": to, "at": now } });
    fs::write(&record, record_json.to_string()).unwrap();
    world.daemon.restart().await;
    world.worktrees().await;
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), to, "{}", world.log());
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert_eq!(
        (world.main_file("a.txt"), world.main_file("b.txt"), world.main_file("n.txt")),
        ("A\n".into(), "B\n".into(), "N\n".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_worktree_is_refused_with_a_hint() {
    let world = in_repository().await;
    world.model.default_reply(Reply::text("Good."));
    let at = |name: &str| world.path().join(name).display().to_string();
    fs::create_dir_all(world.path().join("plain")).unwrap();
    fs::create_dir_all(world.path().join("empty")).unwrap();
    git(&world.daemon.path().join("empty"), &["init", "--quiet"]);
    git(world.path(), &["clone", "--quiet", "--bare", "project", "bare.git"]);
    world.write("pretends/.git", format!("gitdir: {}\n", at("project/.git")));
    world.ok(["run", "Go.", "-C", &at("project"), "--worktree=taken"]).await;
    git(&world.project(), &["branch", "agentd/branch"]);
    let project = at("project");
    let cases: [(&str, &str, &[&str]); 10] = [
        ("none", "x", &["requires a project", "-C"]),
        (&at("plain"), "x", &["not in a git repository", "git init"]),
        (&at("empty"), "x", &["no commit", "commit something first"]),
        (&at("bare.git"), "x", &["bare repository", "clone it"]),
        (&at("pretends"), "x", &["not a main repository"]),
        (&project, "a/b", &["invalid worktree name"]),
        (&project, "-x", &["invalid worktree name"]),
        (&project, "..", &["invalid worktree name"]),
        (&project, "taken", &["is taken", "a worktree of"]),
        (&project, "branch", &["is taken", "there is a branch agentd/branch"]),
    ];
    let request_count = world.model.requests().len();
    for (folder, name, parts) in cases {
        let output =
            world.agentctl(["run", "Go.", "-C", folder, &format!("--worktree={name}")]).await.fails().says(parts);
        assert!(output.stderr.contains("hint:"), "{folder} {name}: {}", output.stderr);
    }
    assert_eq!(world.model.requests().len(), request_count);
    assert_eq!(world.worktrees().await.len(), 1, "a worktree is left");
    assert_eq!(world.json(["sessions", "list"]).await.as_array().unwrap().len(), 1);
    for args in [["diff", "nowhere"], ["apply", "nowhere"], ["remove", "nowhere"]] {
        world.worktree(&args).await.fails().says(&["no such worktree", "hint:"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_git_is_reported() {
    let world = World::prepared(|home| {
        repository(home);
        home.set("PATH", home.path().join("no-programs").display().to_string());
    })
    .await;
    let output = world.agentctl(["run", "Go.", "-C", &world.project().display().to_string(), "--worktree"]).await;
    output.fails().says(&["git, which is not installed", "hint: install git"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worktree_survives_restart_and_serves_forks_and_undo() {
    let mut world = in_repository().await;
    world.model.default_reply(Reply::text("Good."));
    let sub = world.project().join("sub").display().to_string();
    let calls = vec![write("/project/c.txt", "changed\n"), command("ls")];
    let args = ["-C", &sub, "--worktree", "--on-interrupt", "approve", "--output", "json"];
    let (results, output) = world.call_all(calls, &args).await;
    let session = output.exits(0).session();
    assert!(results[1].contains("c.txt") && !results[1].contains("a.txt"), "{results:?}");
    let listed = world.worktrees().await;
    let name = listed[0]["name"].as_str().unwrap().to_owned();
    assert!(session.replace('-', "").ends_with(&name), "{name} belongs to {session}");
    let file = format!("{name}/sub/c.txt");
    assert_eq!(world.worktree_file(&file), "changed\n");
    world.daemon.crash().await;
    world
        .ok(["sessions", "show", &session])
        .await
        .shows(&[&format!("worktree  {name} (branch agentd/{name}) of {sub}")]);
    world.ok(["sessions", "list"]).await.shows(&[&format!("[worktree {name}]")]);
    // A turn continues in the worktree, and so does a fork.
    let fork = world.ok(["sessions", "fork", &session]).await.stdout.trim().to_owned();
    let args = ["--session", &fork, "--on-interrupt", "approve"];
    let (results, _) = world.call_all(vec![("read_file", json!({"path": "/project/c.txt"}))], &args).await;
    assert!(results[0].contains("changed"), "{results:?}");
    world.ok(["undo", &session]).await;
    assert_eq!(world.worktree_file(&file), "deep\n");
    // After the session has been deleted, the fork owns the worktree.
    world.ok(["sessions", "delete", &session, "--yes"]).await;
    let listed = world.worktrees().await;
    assert_eq!((listed[0]["session"].as_str(), listed[0]["is_orphan"].as_bool()), (Some(fork.as_str()), Some(false)));
    world.ok(["sessions", "delete", &fork, "--yes"]).await;
    assert!(world.worktrees().await.is_empty());
    assert!(world.project().join("sub/c.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn subagent_can_work_in_its_own_worktree() {
    let world = in_repository().await;
    world.model.respond_with(|request| {
        let system = request.messages()[0]["content"].as_str().unwrap_or_default().to_owned();
        let result = tool_texts(request);
        let is_sub = system.contains("You are a subagent");
        match (is_sub, result.is_empty()) {
            (true, true) => {
                Reply::tool_call("write_file", json!({"path": "/project/a.txt", "content": "by the subagent\n"}))
            }
            (true, false) => Reply::text("I wrote a.txt anew, with one line, as was wanted. ".repeat(6)),
            (false, true) => Reply::tool_call("delegate_task", json!({"task": "Write a.txt", "worktree": true})),
            (false, false) => Reply::text(result),
        }
    });
    let project = format!("{}:rw", world.project().display());
    world.ok(["run", "Do it.", "-C", &project, "--on-interrupt", "approve"]).await.shows(&["agentctl worktree apply"]);
    assert_eq!(world.main_file("a.txt"), "one\ntwo\nthree\n");
    let listed = world.worktrees().await;
    assert_eq!((listed.len(), &listed[0]["changed"]), (1, &json!(1)), "{listed:#?}");
    world.worktree(&["apply", listed[0]["name"].as_str().unwrap()]).await.exits(0);
    assert_eq!(world.main_file("a.txt"), "by the subagent\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_subagent_worktree_is_removed_and_read_only_refused() {
    let world = in_repository().await;
    world.model.respond_with(|request| {
        let system = request.messages()[0]["content"].as_str().unwrap_or_default().to_owned();
        let result = tool_texts(request);
        match (system.contains("You are a subagent"), result.is_empty()) {
            (true, _) => Reply::text("I looked at all of it, and there is nothing to be changed. ".repeat(6)),
            (false, true) => Reply::tool_call("delegate_task", json!({"task": "Look at a.txt", "worktree": true})),
            (false, false) => Reply::text(result),
        }
    });
    let project = world.project().display().to_string();
    let (writable, read_only) = (format!("{project}:rw"), format!("{project}:ro"));
    let output = world.ok(["run", "Do it.", "-C", &writable, "--on-interrupt", "approve"]).await;
    assert!(output.stdout.contains("nothing to be changed") && output.stdout.contains("its worktree was removed"));
    assert!(world.worktrees().await.is_empty());
    world.agentctl(["run", "Do it.", "-C", &read_only, "--on-interrupt", "approve"]).await.shows(&["is read-only"]);
    world.agentctl(["run", "Do it.", "-C", &writable, "--mode", "plan"]).await.shows(&["in plan mode"]);
    assert!(world.worktrees().await.is_empty());
    assert_eq!(git(&world.project(), &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn worktree_is_locked_while_any_turn_runs_in_it() {
    let world = in_repository().await;
    world.works_in("one", vec![write("/project/a.txt", "one\n")]).await;
    let request_count = world.model.requests().len();
    world.model.respond_with(|_| Reply::never());
    let folder = format!("{}:rw", world.data().join("worktrees/one").display());
    let detached = world.ok(["run", "Go on.", "-C", &folder, "--detach", "--output", "json"]).await;
    until_true("the model is called", || world.model.requests().len() > request_count).await;
    for args in [&["apply", "one"][..], &["remove", "one", "--force"]] {
        world.worktree(args).await.fails().says(&["a turn is running in session", "hint:"]);
    }
    let session = detached.session();
    world.client().await.cancel_turn(&session, None).await.unwrap();
    until("the turn has ended", || async { (world.worktree(&["apply", "one"]).await.code == Some(0)).then_some(()) })
        .await;
    assert_eq!(world.main_file("a.txt"), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn project_grants_apply_in_its_worktrees() {
    let world = in_repository().await;
    let project = world.project().display().to_string();
    let rule = format!("run_bash_command: [at {project}] sed -i s/one/ONE/ a.txt");
    world.ok(["grants", "add", &rule]).await;
    let args = ["-C", &project, "--worktree=one", "--on-interrupt", "deny"];
    let (results, output) = world.call_all(vec![command("sed -i s/one/ONE/ a.txt")], &args).await;
    output.exits(0);
    assert!(!results[0].contains("E_DENIED"), "{results:?}");
    assert!(world.worktree_file("one/a.txt").starts_with("ONE"));
}
