//! Worker side: drops its privileges, reads one document, sends the content, and exits.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    thread,
};

use crate::{
    extract,
    failure::{Failure, Limits, fail_if},
    frame::{self, Frame, Job, PRIVATE_BYTES, PrivateData},
    kind::Kind,
};
use agentd_confine::{Access, ProcessLimits};
use agentd_core::knowledge::Password;

/// Stack size of the reader thread. Nested documents make the parsers recurse. A stack overflow only ends the worker.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Runs the document worker: reads a document from standard input and writes frames to standard output. `arguments`
/// are the arguments after [`WORKER_ARGUMENT`](super::WORKER_ARGUMENT). The process does nothing else.
pub fn run_worker(arguments: &[OsString]) -> ExitCode {
    agentd_confine::run(super::WORKER_ARGUMENT, "read a document", arguments, |job| {
        let mut job: Job = serde_json::from_slice(job)?;
        // Open the model files, which belong to the daemon, while the worker can still open files.
        let recognition = std::mem::take(&mut job.recognition);
        let threads = recognition.budget().map_or(1, |budget| u32::try_from(budget.threads).unwrap_or(1));
        let scanner = extract::Scanner::new(recognition);
        // The job limits wall-clock time, but the process limit applies to processor time, which several threads
        // consume faster.
        let limits = Limits { time: job.limits.time.saturating_mul(threads), ..job.limits };
        run_confined(&limits, move |mut out, file| emit(&mut out, file, job, scanner))
    })
}

/// Drops all privileges and runs `emit` in a thread with a stack large enough for nested documents.
pub(crate) fn run_confined(
    limits: &Limits,
    emit: impl FnOnce(File, File) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let limits = ProcessLimits { memory: limits.memory, time: Some(limits.time), open_files: OPEN_FILES };
    let (file, out) = agentd_confine::enter(&limits, &Access::Nothing)?;
    // Panics are reported as a failure; no process reads a panic message.
    std::panic::set_hook(Box::new(|_| {}));
    let reader = thread::Builder::new().name("extract".to_owned()).stack_size(STACK_BYTES);
    reader.spawn(move || emit(out, file))?.join().map_err(|_| io::Error::other("the reader panicked"))?
}

fn emit(out: &mut File, mut file: File, job: Job, scanner: extract::Scanner) -> io::Result<()> {
    let Job { mut wanted, limits, private, .. } = job;
    if private && let Some(private_frame) = agentd_confine::read_frame(&mut file, PRIVATE_BYTES)? {
        let PrivateData { password, inner } = serde_json::from_slice(&private_frame)?;
        (wanted.inner, wanted.password) = (inner, password.map(Password::new));
    }
    let password = wanted.password.as_ref().map(Password::reveal);
    let recognised = read_all(file, &limits).and_then(|bytes| {
        let (bytes, named) = match &wanted.inner {
            Some(path) => (extract::entry(bytes, path, password, &limits)?, Kind::of_inner_name(path)),
            None => (bytes, wanted.named),
        };
        let bytes = extract::decrypt_office(bytes, named, password)?;
        let kind = extract::recognise(&bytes, named)?;
        Ok((kind, bytes))
    });
    let (kind, bytes) = match recognised {
        Ok(recognised) => recognised,
        Err(failure) => return frame::write(out, &Frame::Failed(failure)),
    };
    frame::write(out, &Frame::Recognised(kind))?;
    let mut broken_pipe = None;
    let mut listener = |piece| {
        frame::write(out, &Frame::Piece(piece)).map_err(|error| {
            broken_pipe = Some(error);
            Failure::Cancelled
        })
    };
    let mut emitter = extract::Emitter::new(kind, &limits, &mut listener);
    (emitter.wanted, emitter.scanner) = (wanted, scanner);
    let outcome = catch_unwind(AssertUnwindSafe(|| extract::extract(bytes, kind, &mut emitter)));
    let read = emitter.tally.parts;
    let panic_failure = |panic: Box<dyn std::any::Any + Send>| {
        let reason = panic.downcast_ref::<&str>().map(|reason| (*reason).to_owned());
        let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        extract::broken(kind, &format!("its reader panicked: {reason}"))
    };
    match (broken_pipe, outcome.unwrap_or_else(|panic| Err(panic_failure(panic)))) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(failure)) => frame::write(out, &Frame::Failed(failure.after(read))),
    }
}

pub(crate) fn read_all(mut file: File, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let no_memory = || Failure::OutOfMemory { limit: limits.memory, parts: 0 };
    let most = limits.bytes_in.saturating_add(1);
    let size = file.metadata().map_or(0, |metadata| metadata.len()).min(most);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).map_err(|_| no_memory())?;
    // The file may grow during the read, so its reported size is only a hint.
    (&mut file).take(most).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => no_memory(),
        _ => Failure::Worker(format!("its content could not be read: {error}")),
    })?;
    fail_if(bytes.len() as u64 > limits.bytes_in, || Failure::too_large("its size", limits.bytes_in))?;
    Ok(bytes)
}

/// Maximum number of open descriptors: the three standard streams and a copy of one, with a margin.
const OPEN_FILES: u64 = 16;
