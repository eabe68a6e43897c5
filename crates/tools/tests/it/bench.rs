//! Test bench: a session's workspace in a temporary folder, an optional project, and the toolbox.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use agentd_core::{
    ids::{CallId, SessionId},
    ports::{ToolContext, Toolbox, Workspace, Workspaces},
    session::Mount,
    tool::{FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput},
};
use agentd_tools::{BuiltinToolbox, ToolboxConfig, WorkspaceFolders};
use agentd_workspace::limits::Limits;
use jiff::tz::TimeZone;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestRunner},
};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) struct Bench {
    pub(crate) folders: WorkspaceFolders,
    pub(crate) toolbox: BuiltinToolbox,
    pub(crate) context: ToolContext,
    /// Parent folder of the workspace and the project. Its other contents are outside the session.
    pub(crate) outside: tempfile::TempDir,
}

/// Mode in which the project is mounted.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Project {
    None,
    ReadOnly,
    Writable,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Project::None, |_| {}).await
    }

    pub(crate) async fn with_project(project: Project) -> Self {
        Self::with(project, |_| {}).await
    }

    pub(crate) async fn with(project: Project, adapt: impl FnOnce(&mut ToolboxConfig)) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), project, adapt).await
    }

    pub(crate) async fn in_folder(
        outside: tempfile::TempDir,
        project: Project,
        adapt: impl FnOnce(&mut ToolboxConfig),
    ) -> Self {
        let folders =
            WorkspaceFolders::new(outside.path().join("workspaces")).with_memories(outside.path().join("memories"));
        let session_id = SessionId::generate();
        let mount = (project != Project::None).then(|| {
            let path = outside.path().join("code");
            fs::create_dir(&path).unwrap();
            Mount { path, writable: project == Project::Writable }
        });
        let workspace = folders.open(session_id, mount.into()).await.unwrap();
        let mut config = ToolboxConfig::new(|| TimeZone::UTC);
        adapt(&mut config);
        Self {
            folders,
            toolbox: BuiltinToolbox::new(config),
            context: ToolContext {
                now: "2026-11-21T08:31:05Z".parse().unwrap(),
                ..agentd_testkit::scripted::tool_context(session_id, workspace)
            },
            outside,
        }
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.context.workspace
    }

    /// Returns the real path of a workspace path.
    pub(crate) fn real(&self, path: &str) -> PathBuf {
        let (root, below) = if let Some(rest) = path.strip_prefix("/project") {
            (&self.workspace().project.as_ref().unwrap().path, rest.trim_start_matches('/'))
        } else if let Some(rest) = path.strip_prefix("/memories") {
            (self.workspace().memories.as_ref().unwrap(), rest.trim_start_matches('/'))
        } else {
            (&self.workspace().root, path)
        };
        root.components().as_path().join(below).components().collect()
    }

    /// Writes a file and creates its parent folders.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let real = self.real(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(&real, content).unwrap();
        real
    }

    pub(crate) fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.real(path)).unwrap()
    }

    /// Creates a file outside the workspace that no tool may reach.
    pub(crate) fn secret(&self) -> PathBuf {
        let path = self.outside.path().join("secret.txt");
        fs::write(&path, SECRET).unwrap();
        path
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        self.call_raw(tool, &arguments.to_string()).await
    }

    /// Calls a tool in the same way as a turn: links in the arguments are resolved first.
    pub(crate) async fn call_raw(&self, tool: &str, arguments: &str) -> ToolOutput {
        let call = written(tool, arguments);
        match self.toolbox.follow(&self.context, &call).await {
            Some(followed) => self.call_as_written(tool, &followed.arguments).await,
            None => self.call_as_written(tool, arguments).await,
        }
    }

    /// Calls a tool without resolving links, as if a link had been created after links were resolved.
    pub(crate) async fn call_as_written(&self, tool: &str, arguments: &str) -> ToolOutput {
        self.toolbox.call(&self.context, &written(tool, arguments)).await
    }

    pub(crate) async fn follow(&self, tool: &str, arguments: Value) -> Option<FollowedLink> {
        self.toolbox.follow(&self.context, &written(tool, &arguments.to_string())).await
    }

    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> Option<StartFolder> {
        self.toolbox.start(&self.context, &written(tool, &arguments.to_string())).await
    }

    pub(crate) async fn preview(&self, tool: &str, arguments: Value) -> Result<Option<String>, ToolOutput> {
        self.toolbox.preview(&self.context, &written(tool, &arguments.to_string())).await
    }

    /// Returns the output text of a call that must succeed.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert_eq!(output.error, None, "{}", output.text);
        output.text
    }

    /// Returns the output text of a call that must fail with this code.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value, code: ToolErrorCode) -> String {
        let output = self.call(tool, arguments).await;
        assert_eq!(output.error, Some(code), "{}", output.text);
        assert!(output.files.is_empty(), "a failed call must not claim changes");
        output.text
    }
}

pub(crate) const SECRET: &str = "the launch code is 0000";

pub(crate) fn limits(adapt: impl FnOnce(&mut Limits)) -> impl FnOnce(&mut ToolboxConfig) {
    move |config| adapt(&mut config.limits)
}

pub(crate) fn written(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { call_id: CallId::generate(), name: tool.to_owned(), arguments: arguments.to_owned() }
}

/// Returns true if a process is running. A zombie has ended, even if its exit code has not been collected.
pub(crate) fn runs(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// Polls until the condition is true. The time limit is long enough for a loaded machine.
pub(crate) async fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < limit, "timed out waiting until {description}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the permission bits and special bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs git as a user would. The arguments may have any encoding.
#[track_caller]
pub(crate) fn git<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> String {
    let settings =
        ["user.name=Ada", "user.email=ada@example.org", "init.defaultBranch=main", "protocol.file.allow=always"];
    let mut command = Command::new("git");
    command.current_dir(folder).args(settings.iter().flat_map(|setting| ["-c", setting])).args(arguments);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns all files with their content, and links with their targets.
pub(crate) fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            found.extend(tree(&path));
            found.push((path, Vec::new()));
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.push((path, target.into_os_string().into_encoded_bytes()));
        } else {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Runs `run` while another thread calls `swap` continuously.
pub(crate) async fn while_swapping<T>(swap: impl Fn() + Send + 'static, run: impl Future<Output = T>) -> T {
    let done = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                swap();
            }
        }
    });
    let ran = run.await;
    done.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    ran
}

/// Creates nested folders, deeper than any path can address.
pub(crate) fn deep_tree(at: &Path, levels: usize) {
    let mut folder = cap_std::fs::Dir::open_ambient_dir(at, cap_std::ambient_authority()).unwrap();
    for _ in 0..levels {
        folder.create_dir("d").unwrap();
        folder = folder.open_dir("d").unwrap();
    }
    folder.write("a", "needle").unwrap();
}

/// Runs a property test. All cases share the bench, because creating a bench is more expensive than a case.
pub(crate) fn check_property<S: Strategy>(
    cases: u32,
    strategy: &S,
    property: impl Fn(&Runtime, &Bench, S::Value) -> Result<(), TestCaseError>,
) {
    let runtime = Runtime::new().unwrap();
    let bench = runtime.block_on(Bench::new());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(strategy, |value| property(&runtime, &bench, value));
    if let Err(broken) = result {
        panic!("{broken}");
    }
}

pub(crate) fn mkfifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}
