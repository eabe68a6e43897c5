//! `AGENTS.md` files and skills as they lie on the disk, some of them put there by others.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agentd_core::{
    guide::{GuideLimits, GuideOrigin, Guides},
    ports::{Workspace, Workspaces as _},
    session::Mount,
};
use agentd_tools::WorkspaceFolders;
use futures_util::FutureExt as _;
use tempfile::TempDir;

struct Home {
    folder: TempDir,
    workspaces: WorkspaceFolders,
}

impl Home {
    fn new() -> Self {
        // On a disk: a file system in memory does not remember what is not there, so that it cannot tell it at once.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = folder.path().join(".config/agentd");
        let workspaces = WorkspaceFolders::new(folder.path().join("data")).guided_by(&config, Some(folder.path()));
        Self { folder, workspaces }
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(path), content).unwrap();
    }

    async fn look_with(&self, limits: GuideLimits) -> Guides {
        let project = self.path("work/app/x").parent().map(Path::to_path_buf);
        let project = project.map(|path| Mount { path, writable: false });
        let memories = Some(self.path("memories"));
        self.workspaces
            .guides(
                &Workspace { root: self.path("root"), project, folders: Vec::new(), memories, worktree: None },
                limits,
            )
            .await
    }

    async fn look(&self) -> Guides {
        self.look_with(GuideLimits::default()).await
    }

    async fn texts(&self) -> Vec<(String, String)> {
        self.look().await.files.into_iter().map(|file| (file.name, file.text)).collect()
    }
}

#[tokio::test]
async fn files_come_from_the_persons_own_to_the_projects() {
    let home = Home::new();
    assert_eq!(home.look().await, Guides::default());
    home.write(".config/agentd/AGENTS.md", "own");
    home.write("AGENTS.md", "home");
    home.write("work/AGENTS.md", " \n");
    home.write("work/app/AGENTS.md", "project");
    home.write("memories/people.md", "p");
    home.write("memories/places/a.md", "p");
    home.write("memories/.hidden", "p");
    let found = home.look().await;
    let files: Vec<(&str, GuideOrigin, &str)> =
        found.files.iter().map(|file| (file.name.as_str(), file.origin, file.text.as_str())).collect();
    assert_eq!(
        files,
        [
            ("~/.config/agentd/AGENTS.md", GuideOrigin::Person, "own"),
            ("~/AGENTS.md", GuideOrigin::Above, "home"),
            ("/project/AGENTS.md", GuideOrigin::Project, "project"),
        ]
    );
    assert_eq!(found.memories, ["people.md", "places/"]);
    // Nothing has changed, then one has, to the same size; another is gone.
    assert_eq!(home.look().await, found);
    home.write("AGENTS.md", "h0me");
    fs::remove_file(home.path("work/app/AGENTS.md")).unwrap();
    let now = home.look().await;
    assert_eq!((now.files.len(), now.files[1].text.as_str()), (2, "h0me"));
    assert_ne!(now.files[1].digest, found.files[1].digest);
}

#[tokio::test]
async fn what_is_no_plain_file_here_is_left_out() {
    let home = Home::new();
    home.write("secret.txt", "hunter2");
    // A project's link leads wherever whoever wrote it likes.
    home.path("work/app/x");
    symlink(home.path("secret.txt"), home.path("work/app/AGENTS.md")).unwrap();
    fs::create_dir_all(home.path("work/AGENTS.md")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(home.path("AGENTS.md")).status().unwrap();
    assert!(pipe.success());
    assert_eq!(home.texts().await, []);
    // The person's own may be one: many keep their configuration elsewhere.
    home.path(".config/agentd/x");
    symlink(home.path("secret.txt"), home.path(".config/agentd/AGENTS.md")).unwrap();
    assert_eq!(home.texts().await, [("~/.config/agentd/AGENTS.md".to_owned(), "hunter2".to_owned())]);
    fs::remove_file(home.path(".config/agentd/AGENTS.md")).unwrap();
    home.write(".config/agentd/AGENTS.md", b"\x7fELF\0\0\0");
    assert_eq!(home.texts().await, []);
}

#[tokio::test]
async fn long_and_foreign_texts_are_read_as_far_as_they_go() {
    let home = Home::new();
    home.write(".config/agentd/AGENTS.md", "é".repeat(100));
    home.write("work/app/AGENTS.md", b"caf\xe9 and \x1b[31mred\x1b[0m, for all who come here\n");
    let limits = GuideLimits { max_file_bytes: 51, ..GuideLimits::default() };
    let found = home.look_with(limits).await;
    assert_eq!((found.files[0].text.as_str(), found.files[0].bytes), ("é".repeat(25).as_str(), 200));
    assert!(found.files[1].text.starts_with("café and [31mred[0m"), "{:?}", found.files[1].text);
}

#[tokio::test]
async fn skills_are_those_that_say_what_they_are_for() {
    let home = Home::new();
    home.write(".config/agentd/skills/tax/SKILL.md", "---\nname: tax\ndescription: Taxes of\n  the year\n---\nlong");
    home.write(".config/agentd/skills/pdf/SKILL.md", "---\ndescription: Forms\n---\n");
    home.write(".config/agentd/skills/broken/SKILL.md", "---\nname: [\n---\n");
    home.write(".config/agentd/skills/README.md", "no skill");
    let found = home.look().await;
    let skills: Vec<(&str, &str, &str)> =
        found.skills.iter().map(|skill| (&*skill.name, &*skill.description, &*skill.path)).collect();
    assert_eq!(
        skills,
        [
            ("pdf", "Forms", "~/.config/agentd/skills/pdf/SKILL.md"),
            ("tax", "Taxes of the year", "~/.config/agentd/skills/tax/SKILL.md"),
        ]
    );
    let without = home.look_with(GuideLimits { skills: false, memory: false, ..GuideLimits::default() }).await;
    assert_eq!(without, Guides::default());
}

/// Returns the guides available at once. Others are looked up nevertheless, and may be known the next time.
fn at_once(home: &Home, workspace: &Workspace) -> Option<Guides> {
    home.workspaces.guides(workspace, GuideLimits::default()).now_or_never()
}

#[tokio::test]
async fn what_is_as_it_was_is_told_without_waiting() {
    let home = Home::new();
    let project = home.path("work/app/x").parent().map(Path::to_path_buf);
    let project = project.map(|path| Mount { path, writable: false });
    let workspace = Workspace {
        root: home.path("root"),
        project,
        folders: Vec::new(),
        memories: Some(home.path("memories/x")),
        worktree: None,
    };
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let age = |path: &str| fs::File::open(home.path(path)).unwrap().set_modified(long_ago).unwrap();
    let write = |text: &str| {
        home.write("work/app/AGENTS.md", text);
        age("work/app/AGENTS.md");
    };
    home.write(".config/agentd/skills/pdf/SKILL.md", "---\ndescription: Fill in forms\n---\n");
    home.write("memories/x/people.md", "p");
    write("one");
    for path in [".config/agentd/skills/pdf/SKILL.md", ".config/agentd/skills", "memories/x"] {
        age(path);
    }
    let look = async || home.workspaces.guides(&workspace, GuideLimits::default()).await;
    // What else goes on in the file system may be in the way of a glance, but not of all of them.
    let glance = async || {
        for _ in 0..1000 {
            look().await;
            if let Some(guides) = at_once(&home, &workspace) {
                return guides;
            }
        }
        panic!("nothing is told without waiting");
    };

    let first = look().await;
    assert_eq!((first.files.len(), first.skills.len(), first.memories.len()), (1, 1, 1), "{first:?}");
    assert_eq!(glance().await, first);

    // To the same size, with the same time.
    write("two");
    assert_ne!(at_once(&home, &workspace), Some(first));
    let second = look().await;
    assert_eq!(second.files[0].text, "two");
    assert_eq!(glance().await, second);

    home.write("memories/x/places.md", "p");
    assert_ne!(at_once(&home, &workspace), Some(second));
    assert_eq!(look().await.memories, ["people.md", "places.md"]);
    age("memories/x");
    assert_eq!(glance().await.memories, ["people.md", "places.md"]);

    fs::remove_file(home.path("work/app/AGENTS.md")).unwrap();
    assert_eq!(glance().await.files, []);
}
