//! Project configuration on a real disk, with concurrent writers.

use agentd_core::{
    guide::{GuideLimits, GuideOrigin},
    ports::{Projects as _, Skills as _},
    project::{ProjectProblem, ProjectReport, ProjectTrust},
};
use agentd_extensions::{
    project::ProjectStore,
    skills::{SkillConfig, SkillStore},
};
use tempfile::TempDir;

use super::*;

const SKILL: &str = "---\nname: deploy\ndescription: Ours\n---\n";

struct Home {
    folder: TempDir,
    projects: ProjectStore,
    workspaces: WorkspaceFolders,
    skills: SkillStore,
}

impl Home {
    fn new() -> Self {
        Self::in_folder(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn in_folder(folder: TempDir) -> Self {
        let config = folder.path().join("config");
        let projects = ProjectStore::new(folder.path().join("projects"), None);
        let skill_config = SkillConfig {
            person: config.join("skills"),
            environments: folder.path().join("environments"),
            projects: Some(projects.clone()),
            ..SkillConfig::default()
        };
        let skills = SkillStore::new(skill_config, Default::default());
        let workspaces = WorkspaceFolders::new(folder.path().join("data"));
        let workspaces = workspaces.with_guides(&config, None, skills.clone(), Some(projects.clone()));
        Self { folder, projects, workspaces, skills }
    }

    /// Opens the same folders as a new daemon would.
    fn restart(self) -> Self {
        Self::in_folder(self.folder)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("app")
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    async fn workspace(&self) -> Workspace {
        let mount = Mount { path: self.project(), writable: false };
        self.workspaces.open("0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap(), Some(mount).into()).await.unwrap()
    }

    async fn show(&self) -> ProjectReport {
        self.projects.show(self.project()).await.unwrap()
    }

    async fn trust(&self) -> ProjectReport {
        let hash = self.show().await.hash;
        self.projects.trust(self.project(), hash, "a test".to_owned()).await.unwrap()
    }

    /// Returns the project's instructions for models.
    async fn instructions(&self) -> Option<String> {
        let guides = self.workspaces.guides(&self.workspace().await, GuideLimits::default()).await;
        guides.files.into_iter().find(|file| file.origin == GuideOrigin::Trusted).map(|file| file.text)
    }
}

/// Makes a file old enough for its content to be cached.
fn age(path: &Path) {
    let before = SystemTime::now() - Duration::from_secs(60);
    fs::File::open(path).unwrap().set_modified(before).unwrap();
}

#[tokio::test]
async fn trust_survives_restart_until_content_changes() {
    let home = Home::new();
    let file = home.write(".agentd/instructions.md", "Be kind.\u{1b}[31m\n");
    home.write(".agentd/agents/cook.md", "---\ndescription: Cooks\n---\nYou cook.");
    let workspace = home.workspace().await;
    assert_eq!(home.instructions().await, None);
    home.trust().await;
    assert_eq!(home.instructions().await.as_deref(), Some("Be kind.[31m\n"));
    let agents = home.workspaces.project(&workspace).await.agents.unwrap();
    assert_eq!(agents.get("cook").unwrap().prompt, "You cook.");

    let home = home.restart();
    assert!(home.instructions().await.is_some());
    // The agents are a single shared value while the configuration is unchanged.
    let agents = home.workspaces.project(&workspace).await.agents.unwrap();
    assert!(Arc::ptr_eq(&agents, &home.workspaces.project(&workspace).await.agents.unwrap()));
    // The daemon's own copy may be lost, and is then recreated.
    fs::remove_dir_all(home.folder.path().join("projects").join(home.show().await.hash)).unwrap();
    let home = home.restart();
    assert!(home.instructions().await.is_some());

    // The new file has the same length and modification time.
    fs::write(&file, "Be cold.\u{1b}[31m\n").unwrap();
    age(&file);
    assert_eq!(home.instructions().await, None);
    assert_eq!(home.workspaces.project(&workspace).await.trust, ProjectTrust::Changed);
    let report = home.show().await;
    assert_eq!((report.trust, report.changes[0].path.as_str()), (ProjectTrust::Changed, "instructions.md"));
    home.trust().await;
    assert_eq!(home.instructions().await.as_deref(), Some("Be cold.[31m\n"));
    fs::remove_dir_all(home.project().join(".agentd")).unwrap();
    assert_eq!(home.instructions().await, None);
    assert_eq!(home.workspaces.project(&workspace).await.trust, ProjectTrust::Empty);
    home.projects.distrust(home.project()).await.unwrap();
    let error = home.projects.distrust(home.project()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn unchanged_project_is_not_reread() {
    let home = Home::new();
    home.write(".agentd/instructions.md", "Be kind.");
    home.write(".agentd/skills/deploy/SKILL.md", SKILL);
    home.trust().await;
    let workspace = home.workspace().await;
    for entry in ["", "/instructions.md", "/skills", "/skills/deploy", "/skills/deploy/SKILL.md"] {
        age(&home.project().join(format!(".agentd{entry}")));
    }
    home.workspaces.project(&workspace).await;
    let at_once = || home.workspaces.project(&workspace).now_or_never().map(|standing| standing.trust);
    assert_eq!(at_once(), Some(ProjectTrust::Trusted));
    // Adds another file in a nested folder.
    home.write(".agentd/skills/deploy/scripts/run.py", "print(1)");
    assert_ne!(at_once(), Some(ProjectTrust::Trusted));
    assert_eq!(home.workspaces.project(&workspace).await.trust, ProjectTrust::Changed);
}

#[tokio::test]
async fn oversized_project_is_truncated_deterministically() {
    let home = Home::new();
    home.write(".agentd/instructions.md", "Be kind.");
    for number in 0..90 {
        home.write(&format!(".agentd/commands/c{number:03}.md"), "x".repeat(60_000));
    }
    for number in 0..2100 {
        home.write(&format!(".agentd/agents/a{number}.md"), "");
    }
    for skill in ["a", "b", "c"] {
        home.write(&format!(".agentd/skills/{skill}/SKILL.md"), SKILL);
        for number in 0..1900 {
            home.write(&format!(".agentd/skills/{skill}/{number}"), "");
        }
    }
    let long = format!(".agentd/skills/long/{}/{}", "d".repeat(200), "f".repeat(100));
    home.write(&long, "");
    home.write(".agentd/skills/long/SKILL.md", SKILL);
    let report = home.show().await;
    assert!(report.instructions && report.agents.is_empty(), "{:?}", report.problems);
    assert_eq!((report.skills.as_slice(), report.commands.len()), (["a".to_owned(), "b".to_owned()].as_slice(), 69));
    for (file, expected) in [
        ("agents", "more than 2000 entries"),
        ("commands/c069.md", "it is skipped"),
        ("skills/c", "4000 files"),
        ("skills/long", "longer than 300 bytes"),
    ] {
        let is_reported = |problem: &ProjectProblem| problem.file == file && problem.message.contains(expected);
        assert!(report.problems.iter().any(is_reported), "{file}: {expected} is not in {:?}", report.problems);
    }
    assert_eq!(home.show().await, report);
}

/// Another thread changes the project continuously.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approved_content_cannot_be_swapped_before_use() {
    const EVIL: &str = "---\nname: deploy\ndescription: Evil\n---\n";
    let home = Home::new();
    let (file, skill) =
        (home.write(".agentd/instructions.md", "Be kind."), home.write(".agentd/skills/deploy/SKILL.md", SKILL));
    home.trust().await;
    let workspace = home.workspace().await;
    let swap = move || {
        for (path, text) in [(&file, "Be evil."), (&skill, EVIL), (&file, "Be kind."), (&skill, SKILL)] {
            let draft = path.with_extension("draft");
            fs::write(&draft, text).unwrap();
            fs::rename(&draft, path).unwrap();
        }
    };
    let linked = workspace.root.join("skills/deploy/SKILL.md");
    while_swapping(swap, async {
        for _ in 0..150 {
            let instructions = home.instructions().await;
            assert!(instructions.is_none() || instructions.as_deref() == Some("Be kind."), "{instructions:?}");
            let skills = home.skills.usable(Some(&workspace)).await;
            assert!(skills.iter().all(|skill| skill.description == "Ours"), "{skills:?}");
            if home.skills.link(&workspace, "deploy").await.unwrap() {
                assert_eq!(fs::read_to_string(&linked).unwrap(), SKILL);
            }
        }
    })
    .await;
    assert_eq!(home.instructions().await.as_deref(), Some("Be kind."));
    assert!(home.skills.link(&workspace, "deploy").await.unwrap() && linked.is_file());
}
