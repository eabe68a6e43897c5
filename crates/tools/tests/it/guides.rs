//! `AGENTS.md` files and skills on a real disk, including hostile ones.

use agentd_core::guide::{GuideLimits, GuideOrigin, Guides};
use agentd_extensions::skills::{SkillConfig, SkillStore};
use tempfile::TempDir;

use super::*;

struct Home {
    folder: TempDir,
    workspaces: WorkspaceFolders,
}

impl Home {
    fn new() -> Self {
        // Uses a folder on disk, because an in-memory file system does not cache missing names and cannot answer
        // without blocking.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = folder.path().join(".config/agentd");
        let skill_config = SkillConfig { person: config.join("skills"), ..SkillConfig::default() };
        let skills = SkillStore::new(skill_config, Default::default());
        let workspaces = WorkspaceFolders::new(folder.path().join("data"));
        let workspaces = workspaces.with_guides(&config, Some(folder.path()), skills, None);
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

    fn workspace(&self) -> Workspace {
        let project = self.path("work/app/x").parent().unwrap().to_owned();
        Workspace {
            root: self.path("root"),
            project: Some(Mount { path: project, writable: false }),
            folders: Vec::new(),
            memories: Some(self.path("memories")),
            worktree: None,
        }
    }

    async fn guides_with(&self, limits: GuideLimits) -> Guides {
        self.workspaces.guides(&self.workspace(), limits).await
    }

    async fn guides(&self) -> Guides {
        self.guides_with(GuideLimits::default()).await
    }

    async fn texts(&self) -> Vec<(String, String)> {
        self.guides().await.files.into_iter().map(|file| (file.name, file.text)).collect()
    }
}

#[tokio::test]
async fn guides_that_are_not_plain_files_are_skipped() {
    let home = Home::new();
    home.write("secret.txt", "hunter2");
    // A link in a project can point anywhere.
    home.path("work/app/x");
    symlink(home.path("secret.txt"), home.path("work/app/AGENTS.md")).unwrap();
    fs::create_dir_all(home.path("work/AGENTS.md")).unwrap();
    mkfifo(&home.path("AGENTS.md"));
    assert_eq!(home.texts().await, []);
    // The user's own file may be a link, because many users store their configuration elsewhere.
    home.path(".config/agentd/x");
    symlink(home.path("secret.txt"), home.path(".config/agentd/AGENTS.md")).unwrap();
    assert_eq!(home.texts().await, [("~/.config/agentd/AGENTS.md".to_owned(), "hunter2".to_owned())]);
    fs::remove_file(home.path(".config/agentd/AGENTS.md")).unwrap();
    home.write(".config/agentd/AGENTS.md", b"\x7fELF\0\0\0");
    assert_eq!(home.texts().await, []);
}

#[tokio::test]
async fn long_or_invalid_guides_are_truncated_and_cleaned() {
    let home = Home::new();
    home.write(".config/agentd/AGENTS.md", "é".repeat(100));
    home.write("work/app/AGENTS.md", b"caf\xe9 and \x1b[31mred\x1b[0m, for all who come here\n");
    let limits = GuideLimits { max_file_bytes: 51, ..GuideLimits::default() };
    let found = home.guides_with(limits).await;
    assert_eq!((found.files[0].text.as_str(), found.files[0].bytes), ("é".repeat(25).as_str(), 200));
    assert!(found.files[1].text.starts_with("café and [31mred[0m"), "{:?}", found.files[1].text);

    // Only texts that exceed the limit are truncated.
    let home = Home::new();
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("é\r\n".repeat(40).encode_utf16().flat_map(u16::to_le_bytes)).collect();
    home.write(".config/agentd/AGENTS.md", "one\r\ntwo\r\n\x1b[0m");
    home.write("work/app/AGENTS.md", &wide);
    for file in home.guides().await.files {
        assert_eq!(file.text.len() as u64, file.bytes, "{}", file.name);
    }
    for limit in [10, 100, wide.len() - 1] {
        let limits = GuideLimits { max_file_bytes: limit, ..GuideLimits::default() };
        let cut = home.guides_with(limits).await.files.pop().unwrap();
        assert!((cut.text.len() as u64) < cut.bytes, "{limit}: {cut:?}");
    }
}

#[tokio::test]
async fn claude_md_is_used_if_agents_md_is_missing() {
    let home = Home::new();
    for folder in [".config/agentd", "work", "work/app"] {
        home.write(&format!("{folder}/CLAUDE.md"), format!("claude of {folder}"));
    }
    let names = async || {
        let found = home.texts().await.into_iter();
        found.map(|(name, _)| name.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["CLAUDE.md", "CLAUDE.md", "CLAUDE.md"]);
    home.write("work/AGENTS.md", "agents");
    symlink(home.path("work/app/CLAUDE.md"), home.path("work/app/AGENTS.md")).unwrap();
    assert_eq!(names().await, ["CLAUDE.md", "AGENTS.md", "CLAUDE.md"]);
}

#[tokio::test]
async fn project_folder_guides_are_read_safely() {
    let home = Home::new();
    home.write("secret.txt", "hunter2");
    home.write("work/app/AGENTS.md", "root");
    home.write("work/app/a/AGENTS.md", "a");
    home.write("work/app/a/b/CLAUDE.md", "b");
    home.write("work/app/large/AGENTS.md", "x".repeat(100_000));
    home.write("work/app/binary/AGENTS.md", b"\x7fELF\0\0\0");
    home.write("outside/AGENTS.md", "outside");
    for folder in ["link", "pipe", "folder/AGENTS.md"] {
        fs::create_dir_all(home.path("work/app/x").with_file_name(folder)).unwrap();
    }
    symlink(home.path("secret.txt"), home.path("work/app/link/AGENTS.md")).unwrap();
    symlink(home.path("outside/x").parent().unwrap(), home.path("work/app/away")).unwrap();
    mkfifo(&home.path("work/app/pipe/AGENTS.md"));
    let paths =
        ["/project/a/b/none.rs", "large/x", "binary/x", "link/x", "pipe/x", "folder/x", "away/x", "../../outside/x"];
    let paths = paths.map(str::to_owned).to_vec();
    let found = home.workspaces.folder_guides(&home.workspace(), GuideLimits::default(), paths).await;
    let listed = found.iter().map(|file| (&*file.name, file.text.len(), file.bytes, file.origin));
    let expected = [
        ("/project/a/AGENTS.md", 1, 1, GuideOrigin::Project),
        ("/project/a/b/CLAUDE.md", 1, 1, GuideOrigin::Project),
        ("/project/large/AGENTS.md", 32 << 10, 100_000, GuideOrigin::Project),
    ];
    assert_eq!(listed.collect::<Vec<_>>(), expected);
}

/// Returns the guides that are available without blocking. Other guides are still looked up, and may be cached for the
/// next call.
fn cached_guides(home: &Home, workspace: &Workspace) -> Option<Guides> {
    home.workspaces.guides(workspace, GuideLimits::default()).now_or_never()
}

#[tokio::test]
async fn unchanged_guides_are_served_from_cache() {
    let home = Home::new();
    let workspace = home.workspace();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let age = |path: &str| fs::File::open(home.path(path)).unwrap().set_modified(long_ago).unwrap();
    let write = |text: &str| {
        home.write("work/app/AGENTS.md", text);
        age("work/app/AGENTS.md");
    };
    home.write(".config/agentd/skills/pdf/SKILL.md", "---\ndescription: Fill in forms\n---\n");
    home.write("memories/people.md", "p");
    write("one");
    for path in [".config/agentd/skills/pdf/SKILL.md", ".config/agentd/skills", "memories"] {
        age(path);
    }
    let guides = async || home.workspaces.guides(&workspace, GuideLimits::default()).await;
    // Other file system activity can prevent a single non-blocking lookup, but not all of them.
    let cached = async || {
        for _ in 0..1000 {
            guides().await;
            if let Some(guides) = cached_guides(&home, &workspace) {
                return guides;
            }
        }
        panic!("guides are never available without blocking");
    };

    let first = guides().await;
    assert_eq!((first.files.len(), first.skills.len(), first.memories.len()), (1, 1, 1), "{first:?}");
    assert_eq!(cached().await, first);

    // The new file has the same size and time.
    write("two");
    assert_ne!(cached_guides(&home, &workspace), Some(first));
    let second = guides().await;
    assert_eq!(second.files[0].text, "two");
    assert_eq!(cached().await, second);

    home.write("memories/places.md", "p");
    assert_ne!(cached_guides(&home, &workspace), Some(second));
    assert_eq!(guides().await.memories, ["people.md", "places.md"]);
    age("memories");
    assert_eq!(cached().await.memories, ["people.md", "places.md"]);

    fs::remove_file(home.path("work/app/AGENTS.md")).unwrap();
    assert_eq!(cached().await.files, []);
}
