//! `run_bash_command`: a command in the workspace.

use std::{collections::BTreeMap, os::fd::OwnedFd, sync::Arc, time::Duration};

use agentd_core::{
    ports::ToolContext,
    tool::{ToolData, ToolErrorCode, ToolOutput},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::Failure,
    job::Job,
    process::{self, Binary, Captured, Ended, Finished, RunError, Script},
    sandbox::{self, Sandbox},
    skills::SkillShelf,
    text,
    workspace::path::ToolPath,
};

/// The kernel takes no argument above 128 KiB.
const MAX_COMMAND: usize = 100 * 1024;

pub(crate) fn description(default_seconds: u64) -> String {
    format!(
        "Runs a bash command in the workspace and returns its exit code, standard output and standard error. It has no \
         standard input and no terminal, is ended after timeout_s seconds (default {default_seconds}), and everything \
         it left running is ended with it. It starts in the workspace root, which holds uploads/, outputs/ and temp/; \
         give directory to start elsewhere. Inside commands the user's project folder is $PROJECT, and /memories is \
         $MEMORIES, which they can only read. To read, write or \
         search files use the other tools."
    )
}

pub(crate) fn parameters((_, longest): (u64, u64)) -> Value {
    super::object(
        json!({
            "command": {"type": "string", "description": "The command, as for `bash -c`."},
            "timeout_s": {
                "type": "integer", "minimum": 1, "maximum": longest,
                "description": "After how many seconds it is ended."
            },
            "directory": {"type": "string", "description": "The folder to start in, such as /project or outputs/app."}
        }),
        &["command"],
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    command: String,
    timeout_s: Option<u64>,
    directory: Option<String>,
}

/// What the configuration says of commands.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) standing: BTreeMap<String, String>,
    pub(crate) output_bytes: usize,
    /// What commands are locked into.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// The skills whose programs commands find.
    pub(crate) skills: Option<SkillShelf>,
}

impl Args {
    fn timeout(&self, settings: &Settings) -> Duration {
        self.timeout_s.map_or(settings.timeout, Duration::from_secs)
    }
}

/// Where a command would start, if it can be started at all. It opens files, so it may block.
pub(crate) fn prepare(job: &Job, args: Args) -> Result<(Args, ToolPath, OwnedFd), Failure> {
    if args.command.trim().is_empty() {
        return Err(Failure::arguments("`command` of run_bash_command is empty; give the command to run"));
    }
    if args.command.contains('\0') {
        return Err(Failure::arguments("`command` contains a NUL character; write it without"));
    }
    if args.command.len() > MAX_COMMAND {
        return Err(Failure::arguments(format!(
            "`command` has {}; write it to temp/script.sh and run `bash temp/script.sh`",
            text::size(args.command.len() as u64)
        )));
    }
    let directory = job.files.follow(&job.files.locate(args.directory.as_deref().unwrap_or("."))?)?;
    let folder = job.files.jail.open_folder(&directory)?;
    Ok((args, directory, folder.into_std_file().into()))
}

/// The command line and where it runs.
pub(crate) fn preview(job: &Job, args: Args, settings: &Settings) -> Result<String, Failure> {
    let (args, directory, _) = prepare(job, args)?;
    let seconds = args.timeout(settings).as_secs();
    let place = if directory.is_root() && directory.to_string() == "." {
        "the workspace".to_owned()
    } else {
        directory.to_string()
    };
    Ok(format!("$ {}\n(in {place}, at most {seconds} s)", args.command))
}

pub(crate) async fn run(
    context: &ToolContext,
    prepared: (Args, ToolPath, OwnedFd),
    settings: &Settings,
    cancel: &CancellationToken,
) -> Result<ToolOutput, Failure> {
    let (args, directory, folder) = prepared;
    let timeout = args.timeout(settings);
    let mut environment = process::environment::clean(
        &context.workspace,
        &settings.standing,
        &settings.environment,
        &context.environment,
    );
    if let Some(skills) = &settings.skills {
        let about = format!("{directory}/ {}", args.command);
        process::environment::find_first(&mut environment, &skills.programs(&context.workspace, &about));
        if let Some(folder) = skills.plain_python(&about) {
            process::environment::find_last(&mut environment, &folder);
        }
    }
    let script = Script {
        command: process::bash(args.command),
        folder,
        environment,
        timeout,
        output_cap: settings.output_bytes,
    };
    let sandbox = settings.sandbox.as_deref().filter(|sandbox| sandbox.is_on());
    let finished = process::run(script, &context.workspace, sandbox, cancel).await.map_err(refused)?;
    let failed = matches!(finished.ended, Ended::Code(1..));
    // The code is that of the last command only: what went wrong before it is told where that is certain.
    let misnamed = process::misnamed(&finished.stderr.text, &context.workspace);
    let forbidden = sandbox.filter(|_| failed);
    let forbidden = || forbidden.and_then(|sandbox| sandbox::hint(&finished.stderr.text, sandbox.allows_network()));
    let hint = misnamed.or_else(forbidden);
    let mut output = report(finished, timeout);
    if let Some(hint) = hint {
        output.text.push('\n');
        output.text.push_str(hint);
    }
    Ok(output)
}

fn refused(error: RunError) -> Failure {
    match error {
        RunError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::tool("bash is not installed where the daemon looks for programs")
        }
        RunError::Io(_) => Failure::tool(error.to_string()),
        RunError::Refused(_) => Failure::tool(format!(
            "{error}; it never ran. No command can change this: tell the person to look at `agentctl doctor`"
        )),
    }
}

fn report(finished: Finished, timeout: Duration) -> ToolOutput {
    let seconds = finished.duration.as_secs_f64();
    let (first, code) = match finished.ended {
        Ended::Code(code) => (format!("exit code {code} after {seconds:.1} s"), None),
        Ended::Signal(signal) => (format!("ended by signal {signal} after {seconds:.1} s"), None),
        Ended::TimedOut => (
            format!(
                "ended at its limit of {} s, with all its children; give a larger timeout_s, or do less at once",
                timeout.as_secs()
            ),
            Some(ToolErrorCode::Timeout),
        ),
        Ended::Cancelled => {
            (format!("ended after {seconds:.1} s, because the turn was cancelled"), Some(ToolErrorCode::Cancelled))
        }
    };
    let exit_code = match finished.ended {
        Ended::Code(code) => Some(code),
        Ended::Signal(_) | Ended::TimedOut | Ended::Cancelled => None,
    };
    let mut output = ToolOutput { text: first, error: code, exit_code, ..ToolOutput::default() };
    if finished.strays > 0 && code.is_none() {
        let noun = if finished.strays == 1 { "process" } else { "processes" };
        output.text.push_str(&format!("\n[{} background {noun} ended with the command]", finished.strays));
    }
    let is_silent = finished.stdout.total == 0 && finished.stderr.total == 0;
    stream(&mut output, "stdout", finished.stdout);
    stream(&mut output, "stderr", finished.stderr);
    if is_silent {
        output.text.push_str("\n[no output]");
    }
    output
}

fn stream(output: &mut ToolOutput, name: &str, captured: Captured) {
    match captured.binary {
        None if captured.total == 0 => {}
        None => output.text.push_str(&format!("\n{name}:\n{}", captured.text.trim_end_matches('\n'))),
        Some(Binary { what, ending, content: Some(content) }) => output.data.push(ToolData {
            name: name.to_owned(),
            kind: what.to_owned(),
            ending: ending.to_owned(),
            content,
        }),
        Some(Binary { what, content: None, .. }) => output.text.push_str(&format!(
            "\n[{name}, {what} of {}, is lost: that is more than is kept of what a command prints; have it written to a file, \
             such as outputs/NAME]",
            text::size(captured.total)
        )),
    }
}
