//! The measured processes and their temporary folders. Each process ends when its owner is dropped.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentd_proto::client::Client;
use anyhow::{Context as _, bail};
use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process as async_process,
};

/// Time limit for starting or ending a process.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval between attempts to reach a starting daemon. Measured start times may be too long by this interval.
const RETRY_INTERVAL: Duration = Duration::from_micros(500);

/// Time without work after which a daemon counts as idle. The daemon returns memory to the system five to six seconds
/// after its last turn.
const IDLE_DELAY: Duration = Duration::from_secs(7);

/// Sampling interval for the memory of a daemon that becomes idle.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of samples before the memory is considered stable.
const MAX_SAMPLES: usize = 30;

/// Maximum difference between two samples that count as equal, in bytes.
const STABLE_BYTES: u64 = 128 << 10;

/// Length of a kernel clock tick in milliseconds. It is the same on every current Linux.
const TICK_MS: u64 = 10;

/// Raises the soft limit on open files of this process to the hard limit.
pub(crate) fn allow_many_files() {
    if let Ok((_, max)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If this fails, connections fail later.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, max, max);
    }
}

/// Returns the path of the binary with that name that was built along with this one.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if !path.exists() {
        bail!("no such file: {}; run `cargo build --release -p agentd -p agentctl` first", path.display());
    }
    Ok(path)
}

/// Creates a temporary folder on the disk that contains the build, since the system's temporary folder may be in
/// memory.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let built = std::env::current_exe()?;
    let build_folder = built.parent().unwrap_or(Path::new("."));
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(build_folder)?)
}

/// A model server in a separate process.
pub(crate) struct ModelProcess {
    /// Base URL for chat completions.
    pub(crate) base_url: String,
    _process: async_process::Child,
}

impl ModelProcess {
    /// Starts the server in one of its modes, see `agentd_testkit::model_server::command::USAGE`.
    pub(crate) async fn start(mode: &[&str]) -> anyhow::Result<Self> {
        let mut process = async_process::Command::new(std::env::current_exe()?)
            .arg(crate::MODEL_SERVER)
            // Parsing requests would distort the measurement, but scripted replies depend on it.
            .arg(if mode.contains(&"script") { "--lenient" } else { "--unread" })
            .args(mode)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = process.stdout.take().context("the model server has no stdout")?;
        let address = BufReader::new(out).lines().next_line().await?;
        Ok(Self { base_url: address.context("the model server did not start")?, _process: process })
    }
}

/// Folders of one daemon.
pub(crate) struct Home {
    /// Data folder on a disk.
    data: TempDir,
    /// Folder for the socket, whose path must be short.
    run: TempDir,
    /// Additional environment variables of the daemon.
    variables: Vec<(String, String)>,
}

impl Home {
    /// Creates a home whose daemon uses this model.
    pub(crate) fn new(model: &ModelProcess) -> anyhow::Result<Self> {
        Self::at(&model.base_url)
    }

    /// Creates a home whose daemon uses the model at this URL.
    pub(crate) fn at(base_url: &str) -> anyhow::Result<Self> {
        Ok(Self::empty()?.with_model("BASIC", base_url))
    }

    /// Creates a home whose daemon only has the built-in model.
    pub(crate) fn empty() -> anyhow::Result<Self> {
        let run = tempfile::Builder::new().prefix("agentd-").tempdir_in("/tmp")?;
        Ok(Self { data: folder()?, run, variables: Vec::new() })
    }

    /// Makes the built-in model's file available to the daemon.
    pub(crate) fn install_model(&self, weights: &Path) -> anyhow::Result<()> {
        let models = self.data.path().join("data/models");
        fs::create_dir_all(&models)?;
        let name = weights.file_name().context("the built-in model's file has no name")?;
        std::os::unix::fs::symlink(weights, models.join(name))?;
        Ok(())
    }

    /// Adds a model in a slot, named as in the environment variables.
    pub(crate) fn with_model(mut self, slot: &str, base_url: &str) -> Self {
        let values = [("BASE_URL", base_url), ("ID", agentd_testkit::model_server::MODEL_ID)];
        self.variables.extend(values.map(|(key, value)| (format!("MODEL_{slot}_{key}"), value.to_owned())));
        self
    }

    /// Sets the wire of the model in that slot.
    pub(crate) fn with_wire(mut self, slot: &str, wire: &str) -> Self {
        self.variables.push((format!("MODEL_{slot}_WIRE"), wire.to_owned()));
        self
    }

    /// Writes a configuration file.
    pub(crate) fn configure(&self, file: &str, content: &str) -> io::Result<()> {
        let folder = self.data.path().join("config");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(file), content)
    }

    /// Returns the daemon's data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.path().join("data")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.data().join("agentd.db")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run.path().join("agentd.sock")
    }

    /// Returns a command for one of agentd's binaries in this home, without the environment of this process.
    pub(crate) fn command(&self, name: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(program(name)?);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.data.path())
            .env("AGENTD_SOCKET", self.socket())
            .env("AGENTD_CONFIG_DIR", self.data.path().join("config"))
            .env("AGENTD_DATA_DIR", self.data.path().join("data"))
            .env("XDG_CONFIG_DIRS", self.data.path().join("system"))
            .envs(self.variables.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Starts a daemon and waits until it has answered the handshake.
    pub(crate) async fn start(&self) -> anyhow::Result<Daemon> {
        let log_path = self.data.path().join("log");
        let log = fs::File::create(&log_path)?;
        let begun = Instant::now();
        let mut child = self.command("agentd")?.stdout(Stdio::null()).stderr(log).spawn()?;
        let client = loop {
            match Client::connect(&self.socket()).await {
                Ok(client) => break client,
                Err(error) if begun.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    bail!("the daemon does not answer: {error}");
                }
                Err(_) => {}
            }
            if let Some(status) = child.try_wait()? {
                bail!("the daemon exited with {status}: {}", fs::read_to_string(log_path).unwrap_or_default());
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        };
        Ok(Daemon { child, client, ready_after: begun.elapsed() })
    }
}

/// A running daemon with a connected client.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) client: Client,
    /// Time from the spawn to the first response.
    pub(crate) ready_after: Duration,
}

impl Daemon {
    /// Returns the daemon's process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the current and peak memory.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        memory_of(self.child.id())
    }

    /// Samples the memory of the idle daemon in bytes, after some time without work, until two samples agree.
    pub(crate) async fn memory_at_rest(&self) -> io::Result<u64> {
        tokio::time::sleep(IDLE_DELAY).await;
        let mut before = self.memory()?.resident;
        for _ in 0..MAX_SAMPLES {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            let now = self.memory()?.resident;
            if now.abs_diff(before) <= STABLE_BYTES {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw);
        let signalled = pid.is_ok_and(|pid| kill(pid, Signal::SIGTERM).is_ok());
        let begun = Instant::now();
        while signalled && begun.elapsed() < PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

/// Returns the memory of a process by its ID.
pub(crate) fn memory_of(process: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim_start_matches(':').trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
    };
    Ok(Memory { resident: bytes("VmRSS"), peak: bytes("VmHWM") })
}

/// Returns the processor time of a process by its ID, with the resolution of a kernel clock tick.
pub(crate) fn cpu_time_of(process: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name is in parentheses, and can contain anything.
    let (_, fields) = stat.rsplit_once(')').context("invalid /proc/PID/stat: no name")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |at: usize| {
        fields.get(at).and_then(|field| field.parse::<u64>().ok()).context("invalid /proc/PID/stat: no times")
    };
    // User and system time, see proc_pid_stat(5).
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * TICK_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_measured() {
        let memory = memory_of(std::process::id()).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident, "{memory:?}");
        assert!(memory_of(u32::MAX).is_err());
    }
}
