//! Git in the user's worktrees and submodules, whose repository is outside the session's folders.

use agentd_core::folder::Mounts;

use super::{
    sandbox::{NAMESPACE_SETTINGS, locked},
    *,
};

/// Creates a repository with one commit.
fn repository(at: &Path, message: &str) {
    fs::create_dir_all(at).unwrap();
    git(at, &["init", "-q"]);
    fs::write(at.join("file.txt"), "one\n").unwrap();
    git(at, &["add", "."]);
    git(at, &["commit", "-qm", message]);
}

/// Ways in which the repository can be in another folder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Worktree,
    RelativeWorktree,
    WorktreeInBare,
    Submodule,
    NestedSubmodule,
}

const KINDS: [Kind; 5] =
    [Kind::Worktree, Kind::RelativeWorktree, Kind::WorktreeInBare, Kind::Submodule, Kind::NestedSubmodule];

/// Creates a tree of this kind, and returns the path of the tree and the path of its repository.
fn tree(at: &Path, kind: Kind) -> [std::path::PathBuf; 2] {
    let main = at.join("main");
    repository(&main, "first of main");
    match kind {
        Kind::Worktree => {
            git(&main, &["worktree", "add", "-q", "../tree"]);
            [at.join("tree"), main.join(".git")]
        }
        Kind::RelativeWorktree => {
            git(&main, &["worktree", "add", "-q", "../tree"]);
            fs::write(at.join("tree/.git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
            fs::write(main.join(".git/worktrees/tree/gitdir"), "../../../../tree/.git\n").unwrap();
            [at.join("tree"), main.join(".git")]
        }
        Kind::WorktreeInBare => {
            git(at, &["clone", "-q", "--bare", "main", "bare.git"]);
            git(&at.join("bare.git"), &["worktree", "add", "-q", "tree"]);
            [at.join("bare.git/tree"), at.join("bare.git")]
        }
        Kind::Submodule | Kind::NestedSubmodule => {
            let (middle, top) = (at.join("middle"), at.join("top"));
            repository(&middle, "first of middle");
            git(&middle, &["submodule", "--quiet", "add", "../main", "inner"]);
            git(&middle, &["commit", "-qm", "with inner"]);
            repository(&top, "first of top");
            git(&top, &["submodule", "--quiet", "add", "../middle", "sub"]);
            git(&top, &["submodule", "--quiet", "update", "--init", "--recursive"]);
            if kind == Kind::Submodule {
                [top.join("sub"), top.join(".git/modules/sub")]
            } else {
                [top.join("sub/inner"), top.join(".git/modules/sub/modules/inner")]
            }
        }
    }
}

/// Opens a session with this project and these additional folders.
async fn open(bench: &mut Bench, project: &Path, added: &[&Path]) {
    let writable = |path: &Path| Mount { path: path.to_owned(), writable: true };
    let mounts = Mounts::from(Some(writable(project)));
    let added = added.iter().map(|path| writable(path)).collect();
    let folders = bench.folders.add_folders(mounts.clone(), added).await.unwrap();
    let mounts = Mounts { folders, ..mounts };
    bench.context.workspace = Arc::new(bench.folders.open(bench.context.session_id, mounts).await.unwrap());
}

#[tokio::test]
async fn git_works_in_worktrees_and_submodules() {
    for (kind, namespaces) in KINDS.into_iter().flat_map(|kind| NAMESPACE_SETTINGS.map(|namespaces| (kind, namespaces)))
    {
        let at = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = at.path().canonicalize().unwrap();
        let [tree, repository] = tree(&at, kind);
        let mut bench = locked(Project::None, |config| {
            config.namespaces = namespaces;
            config.home = Some(at.join("home"));
        })
        .await;
        open(&mut bench, &tree, &[]).await;
        fs::write(tree.join("file.txt"), "two\n").unwrap();
        let look = "cd \"$PROJECT\" && git log --format=%s && git status --short && git diff && mkdir -p new && cd new \
                    && git status -s ..";
        let output = bench.allowed(look).await;
        for part in ["first of m", " M file.txt", "+two"] {
            assert!(output.contains(part), "{kind:?}: {output}");
        }
        if kind == Kind::Submodule {
            assert!(bench.allowed("git -C \"$PROJECT/inner\" log --format=%s").await.contains("first of main"));
        }
        let commit =
            "cd \"$PROJECT\" && git -c user.name=a -c user.email=a@b.example commit -qam second && git log --format=%s";
        let output = bench.denied(commit).await;
        let named = format!("--add-dir {}:rw", repository.display());
        assert!(output.contains(&named), "{kind:?}: {output}");
        for file in ["hooks/pre-commit", "config", "HEAD", "objects/new"] {
            bench.denied(&format!("echo x >> {}/{file}", repository.display())).await;
        }
        if kind == Kind::WorktreeInBare {
            continue;
        }
        open(&mut bench, &tree, &[&repository]).await;
        assert!(bench.allowed(commit).await.contains("second"), "{kind:?}");
        git(&tree, &["diff", "--exit-code", "HEAD"]);
    }
}

#[tokio::test]
async fn forged_gitdir_file_mounts_nothing() {
    for namespaces in NAMESPACE_SETTINGS {
        let at = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = at.path().canonicalize().unwrap();
        let [_, _] = tree(&at, Kind::Worktree);
        let project = at.join("project");
        let secret = at.join("docs");
        // All paths that an archive could create in the user's folders: parts of a repository around existing files.
        for folder in ["", "docs", "docs/.git", "docs/worktrees/x", "project/fake"] {
            let folder = at.join(folder);
            fs::create_dir_all(folder.join("objects")).unwrap();
            fs::create_dir_all(folder.join("refs")).unwrap();
            fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(folder.join("config"), format!("[core]\n\tworktree = {}\n", project.display())).unwrap();
        }
        fs::write(secret.join("diary"), SECRET).unwrap();
        fs::write(at.join("diary"), SECRET).unwrap();
        fs::write(secret.join("worktrees/x/gitdir"), project.join(".git").display().to_string()).unwrap();
        fs::write(secret.join("worktrees/x/commondir"), "../..").unwrap();
        fs::write(project.join("fake/gitdir"), project.join(".git").display().to_string()).unwrap();
        fs::write(project.join("fake/commondir"), secret.display().to_string()).unwrap();
        symlink(&secret, project.join("link")).unwrap();
        mkfifo(&project.join("pipe"));
        let mut bench = locked(Project::None, |config| {
            config.namespaces = namespaces;
            config.home = Some(at.join("home"));
        })
        .await;
        open(&mut bench, &project, &[]).await;
        let mut refused = 0;
        for named in [
            secret.as_path(),
            &secret.join("worktrees/x"),
            Path::new("../docs"),
            Path::new(".."),
            Path::new("fake"),
            Path::new("link"),
            Path::new("link/worktrees/x"),
            Path::new("pipe"),
            &at.join("main/.git"),
            &at.join("main/.git/worktrees/tree"),
            Path::new("/"),
        ] {
            let named = named.display();
            fs::write(project.join(".git"), format!("gitdir: {named}\n")).unwrap();
            for path in [&secret, &at] {
                bench.denied(&format!("cat {}/diary", path.display())).await;
            }
            bench.denied(&format!("cat {}/main/.git/config", at.display())).await;
            let output = bench.denied("cd \"$PROJECT\" && git log").await;
            let is_refused = output.contains("not a git repository");
            assert!(
                !is_refused || output.contains("/project/.git leads to a folder that is not mounted"),
                "{named}: {output}"
            );
            refused += usize::from(is_refused);
        }
        assert!(refused > 5, "{refused}");
    }
}
