//! Worker side: drops its privileges, indexes one folder, and answers questions until its input ends.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use agentd_confine::{Access, ProcessLimits};
use agentd_core::code::CodeProgress;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{
    frame::{self, Job, Request, Response},
    watch::{Changes, FolderWatch},
};
use crate::{
    folder::{CodeFolder, FolderConfig},
    walk::RefreshStep,
};

/// Maximum number of open descriptors: the streams, folders during traversal, and one file per thread.
const OPEN_FILES: u64 = 256;
/// Process priority, lower than that of interactive work.
const NICENESS: i32 = 10;
/// Time in milliseconds without new changes after which pending changes are applied.
const QUIET_MILLIS: u16 = 100;
/// Number of changed files above which the whole folder is scanned, because a scan is then faster than single checks.
const FULL_SCAN_CHANGES: usize = 30;
/// Minimum interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of scans if folders keep changing during a scan.
const MAX_SCANS: usize = 3;

/// Entry point of the code worker: indexes the folder in its job and answers the questions on standard input.
/// `arguments` are the arguments after [`WORKER_ARGUMENT`](super::WORKER_ARGUMENT). `may_read` returns true for
/// relative paths that may be read. The process must do nothing else.
pub fn run_worker(arguments: &[OsString], may_read: fn(&str) -> bool) -> ExitCode {
    agentd_confine::run(super::WORKER_ARGUMENT, "read the code of a folder", arguments, |job| {
        let job: Job = serde_json::from_slice(job)?;
        // Optional: a failure does not affect the index, but the worker may slow down other processes.
        let _ = rustix::process::nice(NICENESS);
        let limits = ProcessLimits { memory: job.memory, time: None, open_files: OPEN_FILES };
        let (mut input, out) = agentd_confine::enter(&limits, &Access::Read(&job.root))?;
        let mut server = Server::new(job, out, may_read);
        while let Some(request) = server.next(&mut input)? {
            server.serve(&request)?;
        }
        Ok(())
    })
}

struct Server {
    code: CodeFolder,
    out: File,
    is_careful: bool,
    /// Watch on the folder. `None` if changes cannot be watched.
    watch: Option<FolderWatch>,
    changes: Changes,
    /// Device and inode of the folder. The access rights apply to this inode, even if another folder is moved to the
    /// path later.
    root: Option<(u64, u64)>,
    /// True once the whole folder has been scanned.
    is_indexed: bool,
}

impl Server {
    fn new(job: Job, out: File, may_read: fn(&str) -> bool) -> Self {
        let Job { root, excluded, is_careful, outer, .. } = job;
        let threads = if is_careful { 1 } else { 2 };
        let is_readable = move |path: &str| may_read(path) && !excluded.iter().any(|file| file == path);
        let config = FolderConfig { threads, outer, ..FolderConfig::new(is_readable) };
        let code = CodeFolder::new(&root, config);
        Self {
            root: identity(code.root()),
            code,
            out,
            is_careful,
            watch: FolderWatch::new().ok(),
            changes: Changes::default(),
            is_indexed: false,
        }
    }

    /// Returns the next question, or `None` at the end of the input. Applies changes while waiting.
    fn next(&mut self, input: &mut File) -> io::Result<Option<Request>> {
        loop {
            let timeout = if self.changes.is_empty() { PollTimeout::NONE } else { PollTimeout::from(QUIET_MILLIS) };
            let (is_asked, has_changes) = match self.wait(input, timeout) {
                Err(Errno::EINTR) => continue,
                ready => ready?,
            };
            if is_asked {
                return frame::read(input);
            }
            match &mut self.watch {
                Some(watch) if has_changes => watch.collect(&mut self.changes),
                // The quiet period has passed.
                _ => self.apply_changes()?,
            }
        }
    }

    /// Waits for a question or a change event. The two values are true if a question and a change event, respectively,
    /// are ready.
    fn wait(&self, input: &File, timeout: PollTimeout) -> Result<(bool, bool), Errno> {
        let mut streams = vec![PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        streams.extend(self.watch.as_ref().map(|watch| PollFd::new(watch.stream(), PollFlags::POLLIN)));
        poll(&mut streams, timeout)?;
        let is_ready = |at: usize| streams.get(at).and_then(PollFd::revents).is_some_and(|events| !events.is_empty());
        Ok((is_ready(0), is_ready(1)))
    }

    fn serve(&mut self, request: &Request) -> io::Result<()> {
        let root = identity(self.code.root());
        if root.is_some() && root != self.root {
            return frame::write(&mut self.out, &Response::Replaced(request.id));
        }
        self.apply_changes()?;
        if root.is_none() {
            let reason = "the folder no longer exists or cannot be read".to_owned();
            return frame::write(&mut self.out, &Response::Failed(request.id, reason));
        }
        let response = Response::Reply(request.id, self.code.reply(&request.question));
        match frame::encode(&response) {
            Ok(bytes) => io::Write::write_all(&mut self.out, &bytes),
            Err(error) => frame::write(&mut self.out, &Response::Failed(request.id, error.to_string())),
        }
    }

    /// Applies the pending changes to the index.
    fn apply_changes(&mut self) -> io::Result<()> {
        // Without change events, the folder must be scanned, because an outdated answer is worse than a slow one.
        let Some(watch) = &mut self.watch else { return self.scan() };
        watch.collect(&mut self.changes);
        let changes = std::mem::take(&mut self.changes);
        if !self.is_indexed || changes.all || changes.files.len() > FULL_SCAN_CHANGES {
            return self.scan();
        }
        let files: Vec<&str> = changes.files.iter().map(String::as_str).collect();
        if self.is_careful {
            for file in &files {
                frame::write(&mut self.out, &Response::Reading((*file).to_owned()))?;
                self.code.update(&[file]);
            }
        } else {
            self.code.update(&files);
        }
        Ok(())
    }

    /// Scans the whole folder and watches its subfolders. Scans again if new folders are watched, because their content
    /// may have changed before the watch was added.
    fn scan(&mut self) -> io::Result<()> {
        for _ in 0..MAX_SCANS {
            self.refresh()?;
            let Some(watch) = &mut self.watch else { break };
            match watch.follow(self.code.root(), self.code.folders()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => self.watch = None,
            }
        }
        self.is_indexed = true;
        Ok(())
    }

    fn refresh(&mut self) -> io::Result<()> {
        let (out, is_careful) = (&mut self.out, self.is_careful);
        let mut reported = Instant::now();
        let mut outcome = Ok(());
        self.code.refresh_with_progress(&mut |step| {
            let word = match step {
                RefreshStep::Reading(path) if is_careful => Response::Reading(path.to_owned()),
                RefreshStep::Done { done, total } if reported.elapsed() >= PROGRESS_INTERVAL => {
                    reported = Instant::now();
                    Response::Progress(CodeProgress { done, total })
                }
                _ => return,
            };
            if outcome.is_ok() {
                outcome = frame::write(out, &word);
            }
        });
        outcome
    }
}

/// Returns the device and inode of a folder, or `None` if it does not exist.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    let metadata = folder.metadata().ok().filter(std::fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwatchable_folder_is_rescanned_before_each_answer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let job = Job { root: root.clone(), memory: 0, excluded: Vec::new(), outer: Vec::new(), is_careful: false };
        let out = File::options().write(true).open("/dev/null").unwrap();
        let mut server = Server::new(job, out, |_| true);
        server.watch = None;
        for name in ["first", "second", "third"] {
            std::fs::write(root.join("a.rs"), format!("fn {name}() {{}}\n")).unwrap();
            server.apply_changes().unwrap();
            let found = server.code.search(name, "", 1);
            assert!(found.first().is_some_and(|hit| hit.text.contains(name)), "{name}: {found:?}");
        }
    }
}
