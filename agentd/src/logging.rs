//! The operator's log, which is written to a file or to standard error, in journald's format if journald is connected
//! to it. Secrets are redacted in the last step.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{
        FmtContext, FormatEvent, FormatFields, MakeWriter,
        format::{Format, Writer},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt,
};

use crate::{
    config::{LogFormat, ServiceSettings, yaml::log_filter},
    failure::Failure,
    redact::Redactor,
};

/// Size in bytes above which the log file is rotated. One rotated file is preserved.
const MAX_FILE_BYTES: u64 = 10 << 20;

/// Changes the log filter while the daemon runs.
#[derive(Clone)]
pub struct LogHandle {
    filter: reload::Handle<Targets, Registry>,
    redactor: Redactor,
}

/// Starts logging to a file or to standard error. For journald, each line is prefixed with its priority and has no
/// timestamp, because journald adds one. Must be called once, before any thread is started.
///
/// # Errors
/// Fails if the log file cannot be written, or logging has already been started.
pub fn start(
    log_file: Option<&Path>,
    is_journald: bool,
    settings: &ServiceSettings,
    redactor: Redactor,
) -> Result<LogHandle, Failure> {
    let (filter, handle) =
        reload::Layer::new(log_filter(&settings.log_level).or_else(|| log_filter("info")).unwrap_or_default());
    let plain = Format::default().compact().with_ansi(false);
    let open = |path: &Path| {
        LogFile::open(path).map_err(|error| {
            Failure::broken(format!("could not write the log file {}: {error}", path.display()))
                .with_hint("set another file with --log-file, or omit it to log to standard error")
        })
    };
    let file = log_file.map(open).transpose()?.map(Mutex::new);
    let is_journald = is_journald && file.is_none();
    let layer = tracing_subscriber::fmt::layer().with_writer(RedactingWriter { file, redactor: redactor.clone() });
    let out: Box<dyn Layer<Registry> + Send + Sync> = match settings.log_format {
        _ if is_journald => {
            layer.event_format(JournalFormat(plain.without_time().with_level(false))).with_ansi(false).boxed()
        }
        LogFormat::Text => layer.event_format(plain).with_ansi(false).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(out.with_filter(filter))
        .try_init()
        .map_err(|error| Failure::broken("could not start the log").with_source(error))?;
    log_panics();
    Ok(LogHandle { filter: handle, redactor })
}

impl LogHandle {
    /// Returns the redactor of this log, for other output. It includes secrets that are added to the log later.
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Applies a changed filter and adds new secrets.
    pub fn apply<'a>(&self, filter: &str, secrets: impl IntoIterator<Item = &'a str>) {
        self.redactor.learn(secrets);
        if let Some(filter) = log_filter(filter) {
            // Only fails if the subscriber was dropped, so that nothing is logged.
            let _ = self.filter.reload(filter);
        }
    }
}

/// Logs panics. A panic ends one turn but not the daemon, so its cause would otherwise be lost.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(thread = thread.name().unwrap_or("unnamed"), place, "panic: {message}");
    }));
}

/// Prefixes each line with its priority (`<3>` and so on), which journald expects on standard error.
struct JournalFormat<F>(F);

impl<S, N, F> FormatEvent<S, N> for JournalFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(out, "<{priority}>")?;
        self.0.format_event(context, out, event)
    }
}

/// Writer that redacts secrets. Redacting whole events is possible, because the subscriber writes one event per call.
struct RedactingWriter {
    /// Log file, or `None` for standard error.
    file: Option<Mutex<LogFile>>,
    redactor: Redactor,
}

impl<'a> MakeWriter<'a> for RedactingWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &RedactingWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let clean = self.redactor.clean(&String::from_utf8_lossy(line));
        match &self.file {
            None => io::stderr().write_all(clean.as_bytes())?,
            Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write(&clean)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Private log file (mode 0600) of bounded size.
struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, size })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.size > MAX_FILE_BYTES {
            let mut rotated = self.path.clone().into_os_string();
            rotated.push(".1");
            std::fs::rename(&self.path, rotated)?;
            *self = Self::open(&self.path)?;
        }
        self.file.write_all(line.as_bytes())?;
        self.size += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_log_file_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agentd.log");
        let mut log = LogFile::open(&path).unwrap();
        log.write("old\n").unwrap();
        log.size = MAX_FILE_BYTES + 1;
        log.write("new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("agentd.log.1")).unwrap(), "old\n");
    }
}
