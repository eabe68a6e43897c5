//! `run_bash_command`: runs a command in the project, or in the workspace.

use std::{
    borrow::Cow,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    guide::skills_named,
    policy::Confinement,
    ports::{ToolContext, Workspace},
    tool::{PrintedText, StartFolder, ToolData, ToolDetails, ToolErrorCode, ToolOutput, ToolSpec},
    tool_table::ToolRow,
};
use agentd_extensions::skills::Programs;
use agentd_sandbox::{
    config::Name,
    environment,
    hints::{CommandRights, hint, misnamed, repository_hint},
    host::Sandbox,
    process::{self, Binary, CapturedOutput, CommandEnd, FinishedCommand, OutputForm, RunError, Script},
};
use agentd_workspace::{
    backend::Backend as _,
    failure::Failure,
    hard_links::{self, HardLinks},
    job::Job,
    path::{PathPlace, ToolPath},
    text,
};
use futures_util::future::OptionFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::call::{Call, Tool, ToolLimit, ToolboxConfig};

/// Maximum length of a command in bytes. The kernel rejects arguments above 128 KiB.
const MAX_COMMAND: usize = 100 * 1024;

/// Name of the tool.
pub(crate) const NAME: &str = "run_bash_command";

/// Maximum time that a command may request, in seconds.
static MAX_SECONDS: ToolLimit = ToolLimit { name: "max_seconds", range: 1..=86_400, default: 600 };

/// Returns the maximum time of a command, which is at least the default command timeout.
pub(crate) fn longest(config: &ToolboxConfig) -> Duration {
    Duration::from_secs(MAX_SECONDS.of(NAME, config)).max(config.command_timeout)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The command, as for `bash -c`.
    command: String,
    #[schemars(range(min = 1))]
    timeout_s: Option<u64>,
    /// The folder to start in, such as /project/app or /outputs.
    directory: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = NAME;
    const LIMIT: Option<&'static ToolLimit> = Some(&MAX_SECONDS);

    fn spec(row: &ToolRow, config: &ToolboxConfig) -> ToolSpec {
        let (usual, longest) = (config.command_timeout.as_secs(), longest(config).as_secs());
        let mut spec = ToolSpec::of::<Args>(row.name, row.effect);
        spec.description = format!(
            "Runs a bash command and returns its exit code, standard output and standard error. It starts in the user's \
             project folder /project, or the subfolder of it that the user works in, if one is mounted, else in the \
             workspace; set directory to start elsewhere. \
             Folders have the same names as in other tools, with a leading slash: /project, /uploads, /outputs, /temp, \
             /skills, and /memories, which is read-only for commands; not /state. It has no standard input and no \
             terminal, and is killed after timeout_s seconds (default {usual}, at most {longest}). Processes left running \
             are killed when it ends. To read, write or search files use the other tools."
        );
        let description = format!("Timeout in seconds, at most {longest}.");
        spec.parameters["properties"]["timeout_s"]["description"] = description.into();
        spec
    }

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let prepared = call.work(move |job| prepare(job, self)).await?;
        run(call.context, prepared, &call.services.config).await
    }

    /// Returns the command line and its folder.
    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        let (args, directory, _) = call.work(move |job| prepare(job, self)).await?;
        let seconds = args.timeout(&call.services.config).as_secs();
        let location = if directory.is_root() && directory.to_string() == "." {
            "the workspace".to_owned()
        } else {
            directory.to_string()
        };
        Ok(Some(format!("$ {}\n(in {location}, at most {seconds} s)", args.command)))
    }
}

impl Args {
    fn timeout(&self, config: &ToolboxConfig) -> Duration {
        self.timeout_s.map_or(config.command_timeout, Duration::from_secs).min(longest(config))
    }

    /// Returns a note if the requested time limit exceeds the maximum.
    fn time_limit_note(&self, config: &ToolboxConfig) -> Option<String> {
        let longest = longest(config).as_secs();
        let asked = self.timeout_s.filter(|asked| *asked > longest)?;
        Some(format!("[timeout_s {asked} exceeds the maximum; {longest} s was used]"))
    }
}

/// Checks the command and opens its start folder. Blocks on file access.
fn prepare(job: &Job, args: Args) -> Result<(Args, ToolPath, OwnedFd), Failure> {
    if args.command.trim().is_empty() {
        return Err(Failure::arguments("`command` of run_bash_command is empty; give the command to run"));
    }
    if args.command.contains('\0') {
        return Err(Failure::arguments("`command` contains a NUL character; remove it"));
    }
    if args.command.len() > MAX_COMMAND {
        return Err(Failure::arguments(format!(
            "`command` is {} long; write it to temp/script.sh and run `bash temp/script.sh`",
            text::size(args.command.len() as u64)
        )));
    }
    let directory = start_of(job, &args)?;
    let folder = job.files.jail.open_folder(&directory)?;
    Ok((args, directory, folder.into_std_file().into()))
}

/// Resolves the start folder of a command, for the rules.
pub(crate) async fn start(call: Call<'_>, args: Args) -> Result<Option<StartFolder>, Failure> {
    let start = call.work(move |job| start_of(job, &args)).await?;
    let names = names(&call.context.workspace, call.services.config.sandbox.as_deref()).await;
    Ok(start_folder(&call.context.workspace, &start, &names))
}

/// Returns additional names of folders in the command sandbox.
async fn names(workspace: &Workspace, sandbox: Option<&Sandbox>) -> Vec<Name> {
    OptionFuture::from(sandbox.map(|sandbox| sandbox.names(workspace))).await.unwrap_or_default()
}

/// Returns the start folder of a command, with links resolved.
fn start_of(job: &Job, args: &Args) -> Result<ToolPath, Failure> {
    let start = match args.directory.as_deref() {
        Some(directory) => job.files.resolve_path(directory)?,
        None => default_start(job, &args.command),
    };
    job.files.follow(&start)
}

/// Returns the start folder under all names valid in the command, or `None` if the folder is not on disk, so that no
/// command can start there.
fn start_folder(workspace: &Workspace, start: &ToolPath, names: &[Name]) -> Option<StartFolder> {
    let root = match start.place() {
        PathPlace::Own => &workspace.root,
        PathPlace::Project => &workspace.project.as_ref()?.path,
        PathPlace::Folder(name) => &workspace.folder(name.as_str())?.path,
        PathPlace::Memories => workspace.memories.as_ref()?,
        PathPlace::State => return None,
    };
    let real = root.join(start.rest());
    let named = names.iter().filter_map(|name| Some(name.name.join(real.strip_prefix(&name.path).ok()?)));
    let paths = std::iter::once(real.clone()).chain(named).collect();
    // A single dot would mean the project, if there is one.
    let is_workspace = start.place() == PathPlace::Own && start.is_root();
    let name = if is_workspace { "/".to_owned() } else { start.written() };
    let worktree = workspace.worktree.as_ref().filter(|_| start.place() == PathPlace::Project);
    let main = worktree.map(|worktree| worktree.project.join(start.rest()));
    Some(StartFolder { name, paths, main })
}

/// Returns the start folder of a command that names none: the client's folder if it is in the project, otherwise the
/// project, or the workspace if there is no project. Skill instructions name their scripts relative to the workspace,
/// so a command that uses such a script starts in the workspace.
fn default_start(job: &Job, command: &str) -> ToolPath {
    let project = ToolPath::root(PathPlace::Project);
    let is_existing_folder = |path: &ToolPath| job.files.is_folder(path).is_ok_and(|is_folder| is_folder);
    let is_own = |name: &str| {
        let skill = |root: &ToolPath| is_existing_folder(&root.entry("skills").entry(name));
        skill(&ToolPath::root(PathPlace::Own)) && !skill(&project)
    };
    let from_workspace = |(at, _): (usize, &str)| !command[..at].ends_with('/') || command[..at].ends_with("./");
    let is_mounted = job.files.jail.project().is_ok();
    if is_mounted
        && command.match_indices("skills/").any(from_workspace)
        && skills_named(command).into_iter().any(is_own)
    {
        return ToolPath::root(PathPlace::Own);
    }
    match &job.client_folder {
        _ if !is_mounted => ToolPath::root(PathPlace::Own),
        Some(client_folder) if is_existing_folder(client_folder) => client_folder.clone(),
        _ => project,
    }
}

async fn run(
    context: &ToolContext,
    (args, directory, folder): (Args, ToolPath, OwnedFd),
    settings: &ToolboxConfig,
) -> Result<ToolOutput, Failure> {
    let (timeout, time_limit_note, cancel) = (args.timeout(settings), args.time_limit_note(settings), &context.cancel);
    let sandbox = settings.sandbox.as_deref().filter(|sandbox| sandbox.is_on());
    let names = names(&context.workspace, sandbox).await;
    let mut environment =
        environment::build(&context.workspace, &names, &settings.standing, &settings.environment, &context.environment);
    if let Some(skills) = &settings.skills {
        let about = format!("{directory}/ {}", args.command);
        let programs = skills.programs(&context.workspace, &about);
        if let Some(first) = programs.first() {
            environment.insert("VIRTUAL_ENV".into(), first.environment.clone().into());
        }
        let first: Vec<&Path> = programs.iter().map(|programs| programs.first.as_path()).collect();
        environment::prepend_to_path(&mut environment, &first);
        for Programs { last, .. } in &programs {
            environment::append_to_path(&mut environment, last);
        }
        if let Some(folder) = skills.plain_python(&about) {
            environment::append_to_path(&mut environment, &folder);
        }
    }
    let read_only = context.confinement == Confinement::ReadOnly;
    if read_only {
        // The session's own `temp/` is read-only here. With namespaces, `/tmp` is private to the command.
        environment.insert("TMPDIR".into(), "/tmp".into());
    }
    let script = Script {
        command: process::bash(args.command),
        folder,
        environment,
        timeout,
        output_cap: settings.limits.output_bytes,
        output: OutputForm::Text,
        confinement: context.confinement,
        closed: Arc::clone(&context.closed),
        progress: context.progress.clone(),
    };
    if !read_only {
        isolate_hard_links(&context.workspace, settings.hard_links, cancel).await?;
    }
    let finished = process::run(script, &context.workspace, sandbox, cancel).await.map_err(run_failure)?;
    let failed = matches!(finished.ended, CommandEnd::Code(1..));
    // The exit code belongs to the last command only. Earlier errors are mentioned if they are certain.
    let misnamed = misnamed(&finished.stderr.text, &context.workspace, &names);
    let forbidden = sandbox.filter(|_| failed);
    let allowed = |sandbox: &Sandbox| CommandRights { network: sandbox.allows_network() && !read_only, read_only };
    let forbidden = || forbidden.and_then(|sandbox| hint(&finished.stderr.text, allowed(sandbox)));
    let linked = || failed.then(|| repository_hint(&finished.stderr.text, &context.workspace)).flatten();
    let hint = misnamed.or_else(|| linked().map(Cow::Owned)).or_else(|| forbidden().map(Cow::Borrowed));
    let mut output = report(finished, timeout);
    for note in hint.map(Cow::into_owned).into_iter().chain(time_limit_note) {
        output.text.push('\n');
        output.text.push_str(&note);
    }
    Ok(output)
}

/// Ensures that a command's writes in the user's folders do not change files outside these folders.
async fn isolate_hard_links(
    workspace: &Workspace,
    treatment: HardLinks,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let writable: Vec<(String, PathBuf)> = workspace
        .mounts()
        .names()
        .filter(|(_, path)| workspace.writable_mounts().any(|writable| writable == *path))
        .map(|(name, path)| (name.to_owned(), path.to_owned()))
        .collect();
    if writable.is_empty() {
        return Ok(());
    }
    let session = workspace.root.clone();
    let checked = tokio::task::spawn_blocking(move || {
        writable.iter().try_for_each(|(name, path)| hard_links::isolate(path, name, &session, treatment))
    });
    tokio::select! {
        checked = checked => {
            let failure = "the command never ran: the check for hard links failed";
            checked.unwrap_or_else(|_| Err(Failure::tool(failure)))
        }
        () = cancel.cancelled() => Err(Failure::cancelled()),
    }
}

fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::tool("bash is not in the daemon's PATH")
        }
        RunError::Io(_) => Failure::tool(error.to_string()),
        RunError::Refused(_) => {
            Failure::tool(format!("{error}; it never ran. Do not retry: ask the user to run `agentctl doctor`"))
        }
    }
}

fn report(finished: FinishedCommand, timeout: Duration) -> ToolOutput {
    let seconds = finished.duration.as_secs_f64();
    let (first, error) = match finished.ended {
        CommandEnd::Code(code) => (format!("exit code {code} after {seconds:.1} s"), None),
        CommandEnd::Signal(signal) => (format!("ended by signal {signal} after {seconds:.1} s"), None),
        CommandEnd::TimedOut => (
            format!(
                "timed out after {} s and was killed with its children; set a larger timeout_s, or do less at once",
                timeout.as_secs()
            ),
            Some(ToolErrorCode::Timeout),
        ),
        CommandEnd::Cancelled => {
            (format!("ended after {seconds:.1} s, because the turn ended"), Some(ToolErrorCode::Cancelled))
        }
        CommandEnd::Lost => (
            format!(
                "ended after {seconds:.1} s: its sandbox was killed (the system may be out of memory), so the outcome is \
                 unknown; check before retrying"
            ),
            Some(ToolErrorCode::UnknownOutcome),
        ),
    };
    let exit_code = match finished.ended {
        CommandEnd::Code(code) => Some(code),
        // Exit code that a shell would report.
        CommandEnd::Signal(signal @ 1..) => Some(128 + signal),
        CommandEnd::Signal(_) | CommandEnd::TimedOut | CommandEnd::Cancelled | CommandEnd::Lost => None,
    };
    let mut output = ToolOutput { text: first, error, exit_code, ..ToolOutput::default() };
    if finished.strays > 0 && error.is_none() {
        let noun = if finished.strays == 1 { "process" } else { "processes" };
        output.text.push_str(&format!("\n[{} background {noun} ended with the command]", finished.strays));
    }
    let printed = |captured: &CapturedOutput| {
        let is_text = captured.binary.is_none() && captured.total > 0;
        is_text.then(|| PrintedText::of_stream(&captured.text, captured.total))
    };
    let details =
        ToolDetails { stdout: printed(&finished.stdout), stderr: printed(&finished.stderr), ..ToolDetails::default() };
    output.details = Some(details).filter(|details| !details.is_empty()).map(Box::new);
    let is_silent = finished.stdout.total == 0 && finished.stderr.total == 0;
    stream(&mut output, "stdout", finished.stdout);
    stream(&mut output, "stderr", finished.stderr);
    if is_silent {
        output.text.push_str("\n[no output]");
    }
    output
}

fn stream(output: &mut ToolOutput, name: &str, captured: CapturedOutput) {
    match captured.binary {
        None if captured.total == 0 => {}
        None => output.text.push_str(&format!("\n{name}:\n{}", captured.text.trim_end_matches('\n'))),
        Some(Binary { what, ending, content: Some(content) }) => output.data.push(ToolData {
            name: name.to_owned(),
            kind: what.to_owned(),
            ending: ending.to_owned(),
            content,
            ..ToolData::default()
        }),
        Some(Binary { what, content: None, .. }) => output.text.push_str(&format!(
            "\n[{name}, {what} of {}, was dropped: it exceeds the output limit; redirect it to a file, such as outputs/NAME]",
            text::size(captured.total)
        )),
    }
}
