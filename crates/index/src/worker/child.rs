//! The worker's side: gives up its rights, reads one document, tells what it found, and ends.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd as _, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    thread,
};

use agentd_confine::{Access, ProcessLimits};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::dup2_stdout,
};

use crate::{
    extract,
    failure::Failure,
    frame::{self, Frame, Job, PRIVATE_BYTES, Private},
    kind::Kind,
    limits::Limits,
};

/// Documents may nest; what reads them recurses. A stack that is used up ends the worker and nothing else.
pub(super) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Reads the document on standard input as the arguments say, and tells of it on standard output. This is all that a process
/// does whose first argument is [`WORKER_ARGUMENT`](super::WORKER_ARGUMENT); `arguments` are those after it.
pub fn run_worker(arguments: &[OsString]) -> ExitCode {
    match work(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agentd {}: {error}", super::WORKER_ARGUMENT);
            ExitCode::FAILURE
        }
    }
}

fn work(arguments: &[OsString]) -> io::Result<()> {
    let [job] = arguments else {
        return Err(io::Error::other("this is started by the daemon, to read a document"));
    };
    let mut job: Job = serde_json::from_slice(job.as_encoded_bytes())?;
    // The models are the daemon's own files. Once the rights are gone, none can be opened.
    let recognition = std::mem::take(&mut job.recognition);
    let threads = recognition.budget().map_or(1, |budget| u32::try_from(budget.threads).unwrap_or(1));
    let scanner = extract::Scanner::new(recognition);
    // The time is that of a clock on the wall; several threads use up that of the processor sooner.
    let (file, mut out) = enter(&Limits { time: job.limits.time.saturating_mul(threads), ..job.limits })?;
    thread::Builder::new()
        .name("extract".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || tell(&mut out, file, &job, scanner))?
        .join()
        .map_err(|_| io::Error::other("the reader gave up"))?
}

/// Gives up all rights and returns what is left: the stream to read and the one to tell by. Nothing was read before.
pub(super) fn enter(limits: &Limits) -> io::Result<(File, File)> {
    let out = take_stdout()?;
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let leash = OwnedFd::from(out.try_clone()?);
    agentd_confine::limit(&ProcessLimits { memory: limits.memory, time: Some(limits.time), open_files: OPEN_FILES })?;
    agentd_confine::give_up_rights(&Access::Nothing)?;
    hold_leash(leash)?;
    // A panic is an answer as well, and nobody is there to read about it.
    std::panic::set_hook(Box::new(|_| {}));
    Ok((file, out))
}

/// The stream of the frames. What a library prints goes nowhere, so that it cannot get between them.
fn take_stdout() -> io::Result<File> {
    let frames = io::stdout().as_fd().try_clone_to_owned()?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    dup2_stdout(nowhere)?;
    Ok(File::from(frames))
}

/// Ends this process as soon as nobody reads its frames: the daemon is gone, or no longer wants them. The signal that
/// follows a parent's death would come when the daemon's thread ends that started this, which may be long before.
fn hold_leash(out: OwnedFd) -> io::Result<()> {
    thread::Builder::new().name("leash".to_owned()).stack_size(64 * 1024).spawn(move || {
        // No event is asked for: that the other end was closed is told always.
        while poll(&mut [PollFd::new(out.as_fd(), PollFlags::empty())], PollTimeout::NONE) == Err(Errno::EINTR) {}
        std::process::exit(1);
    })?;
    Ok(())
}

/// Reads the preface of the document.
fn private(file: &mut File) -> io::Result<Private> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > PRIVATE_BYTES {
        return Err(io::Error::other("too much comes before the document"));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn tell(out: &mut File, mut file: File, job: &Job, scanner: extract::Scanner) -> io::Result<()> {
    let Private { password, inner } = if job.private { private(&mut file)? } else { Private::default() };
    let recognised = read_all(file, &job.limits).and_then(|bytes| {
        let (bytes, named) = match &inner {
            Some(path) => (extract::entry(bytes, path, password.as_deref(), &job.limits)?, Kind::of_name(path)),
            None => (bytes, job.named),
        };
        let bytes = extract::unlocked(bytes, named, password.as_deref())?;
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
    let mut teller = extract::Teller::new(kind, &job.limits, &mut listener);
    (teller.first, teller.last_page, teller.window) = (job.first.max(1), job.last, job.window);
    (teller.lists_only, teller.is_inner) = (job.listing, inner.is_some());
    (teller.password, teller.scanner) = (password, scanner);
    let outcome = catch_unwind(AssertUnwindSafe(|| extract::extract(bytes, kind, &mut teller)));
    let read = teller.parts;
    match (broken_pipe, outcome.unwrap_or_else(|panic| Err(gave_up(kind, panic.as_ref())))) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(failure)) => frame::write(out, &Frame::Failed(failure.after(read))),
    }
}

pub(super) fn read_all(mut file: File, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let no_memory = || Failure::OutOfMemory { limit: limits.memory, parts: 0 };
    let most = limits.bytes_in.saturating_add(1);
    let size = file.metadata().map_or(0, |metadata| metadata.len()).min(most);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).map_err(|_| no_memory())?;
    // It may grow while it is read, so what it said of its size does not count.
    (&mut file).take(most).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => no_memory(),
        _ => Failure::Worker(format!("its bytes could not be read: {error}")),
    })?;
    if bytes.len() as u64 > limits.bytes_in {
        return Err(extract::too_large("its size", limits.bytes_in));
    }
    Ok(bytes)
}

fn gave_up(kind: Kind, panic: &(dyn std::any::Any + Send)) -> Failure {
    let why = panic.downcast_ref::<&str>().map(|why| (*why).to_owned());
    let why = why.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Failure::Broken { kind, parts: 0, why: extract::clean::line(&format!("its reader gave up: {why}"), 200) }
}

/// Descriptors that a worker needs: its three streams, and a copy of one.
const OPEN_FILES: u64 = 16;
