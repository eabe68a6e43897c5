//! Shows long texts in the user's pager: `$PAGER`, else `less`.

use std::{
    ffi::OsStr,
    io::{self, Seek as _, Write as _},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::terminal::look::is_plain;

/// Interval at which a program and `is_dropped` are checked.
const GLANCE: Duration = Duration::from_millis(20);

/// Shows the text until the user leaves the pager, or `is_dropped` returns true. Returns false if there is no pager, or
/// it failed.
///
/// # Errors
/// Fails if the text cannot be passed to the pager.
pub(crate) fn show(text: &str, is_dropped: impl Fn() -> bool) -> io::Result<bool> {
    let pager = std::env::var_os("PAGER").filter(|pager| !pager.is_empty());
    if pager.is_none() && is_plain() {
        // The default pager moves the cursor.
        return Ok(false);
    }
    run(pager.as_deref(), text, is_dropped)
}

fn run(pager: Option<&OsStr>, text: &str, is_dropped: impl Fn() -> bool) -> io::Result<bool> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    let mut command = Command::new(if pager.is_some() { "/bin/sh" } else { "less" });
    match pager {
        Some(pager) => command.args(["-c", r#"eval "$AGENTCTL_PAGER""#]).env("AGENTCTL_PAGER", pager),
        None => command.arg("-R"),
    };
    // The pager reads keys from the terminal itself. Standard output may be a pipe; questions are on standard error.
    let child = match command.stdin(Stdio::from(file)).stdout(io::stderr()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(wait(child, is_dropped)?.is_none_or(|status| status.success()))
}

/// Waits for a program. Ends it and returns `None` once `is_dropped` returns true.
///
/// # Errors
/// Fails if the program cannot be waited for or ended.
pub(crate) fn wait(mut child: Child, is_dropped: impl Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() {
            return Ok(ended);
        }
        if is_dropped() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(GLANCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_pager_is_reported_and_hanging_one_ended() {
        assert!(!run(Some(OsStr::new("exit 1")), "text", || false).unwrap());
        assert!(run(Some(OsStr::new("exec sleep 600")), "text", || true).unwrap());
    }
}
