//! Sources of API keys that are read again while the daemon runs: files, and commands that print a key.
//!
//! A command runs outside of the sandbox, because it needs the user's credentials, in a session without a terminal. Its
//! output is never logged, and its errors are discarded, because both may contain the key.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    policy::Confinement,
    ports::{CallProgress, Workspace},
};
use agentd_models::RenewableKey;
use agentd_sandbox::process::{self, CommandEnd, OutputForm, Script};
use futures_util::FutureExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

/// Maximum length of a key in bytes. Signed tokens take a few thousand.
const MAX_KEY: usize = 16 * 1024;

type Variables = BTreeMap<OsString, OsString>;
type ReadKey = Result<SecretString, String>;

/// Reads a key file. An empty file is an empty key, which is not sent.
///
/// # Errors
/// Fails if the file cannot be read or contains something else than a key. The message names the file and the cause.
pub(crate) fn read_key_file(path: &Path) -> ReadKey {
    let refuse = |reason: &str| format!("could not read the key from {}: {reason}", path.display());
    let found = fs::metadata(path).map_err(|error| refuse(&error.to_string()))?;
    if !found.is_file() || found.len() > MAX_KEY as u64 {
        return Err(refuse("not a regular file of at most 16 KiB"));
    }
    let content = fs::read(path).map_err(|error| refuse(&error.to_string()))?;
    if content.trim_ascii().is_empty() {
        return Ok(SecretString::default());
    }
    key_in(&content).map_err(|found| refuse(&format!("it contains {found}")))
}

/// Creates a key from a file that was read before.
pub(crate) fn key_file(path: PathBuf, current: SecretString) -> Arc<RenewableKey> {
    RenewableKey::new(Some(current), move |_| {
        let path = path.clone();
        let reading = tokio::task::spawn_blocking(move || read_key_file(&path));
        reading.map(|read| read.unwrap_or_else(|error| Err(error.to_string()))).boxed()
    })
}

/// Creates a key from a shell command, which runs in `folder`, with the daemon's environment.
pub(crate) fn key_command(command: SecretString, folder: PathBuf, environment: Variables) -> Arc<RenewableKey> {
    RenewableKey::new(None, move |limit| run(command.clone(), folder.clone(), environment.clone(), limit).boxed())
}

async fn run(command: SecretString, folder: PathBuf, environment: Variables, timeout: Duration) -> ReadKey {
    let failed = |problem: String| format!("`api_key_command` {problem}");
    let folder = fs::File::open(folder).map_err(|error| failed(format!("has no folder to run in: {error}")))?;
    let script = Script {
        command: ["/bin/sh", "-c", command.expose_secret()].map(OsString::from).into(),
        folder: folder.into(),
        environment,
        timeout,
        // Half of the captured bytes are the head, which is longer than a key if the output is.
        output_cap: 2 * (MAX_KEY + 1),
        output: OutputForm::Bytes,
        confinement: Confinement::Usual,
        closed: Arc::default(),
        progress: CallProgress::default(),
    };
    let finished = process::run(script, &Workspace::default(), None, &CancellationToken::new()).await;
    let finished = finished.map_err(|error| failed(error.to_string()))?;
    let problem = match (finished.ended, key_in(&finished.stdout.bytes)) {
        (CommandEnd::Code(0), Ok(key)) => return Ok(key),
        (CommandEnd::Code(0), Err(found)) => format!("printed {found}"),
        (CommandEnd::Code(code), _) => format!("ended with exit code {code}"),
        (CommandEnd::TimedOut, _) => format!("did not end within {timeout:?}"),
        _ => "was killed".to_owned(),
    };
    Err(failed(format!("{problem}; run it by hand to see why: here it has no terminal, and its output is not shown")))
}

/// Returns the key in a source's content, without blanks around it. The error describes the content without quoting it.
fn key_in(content: &[u8]) -> Result<SecretString, &'static str> {
    match std::str::from_utf8(content.trim_ascii()) {
        Ok("") => Err("nothing"),
        Ok(key) if key.len() > MAX_KEY => Err("more than 16 KiB"),
        Ok(key) if key.contains('\n') => Err("more than one line"),
        Ok(key) if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(key.into()),
        _ => Err("blanks or characters that no key has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_single_words() {
        let check = |content: &[u8], expected: Result<&str, &str>| {
            let found = key_in(content);
            assert_eq!(found.as_ref().map(|key| key.expose_secret()).map_err(|found| *found), expected);
        };
        check(b"sk-1", Ok("sk-1"));
        check(b"\xef\xbb\xbfsk-1", Err("blanks or characters that no key has"));
        check(b"  eyJhbGciOi.eyJz_-=+/\r\n\n", Ok("eyJhbGciOi.eyJz_-=+/"));
        check(b" \n ", Err("nothing"));
        check(&[b'k'; MAX_KEY], Ok(&"k".repeat(MAX_KEY)));
        check(&[b'k'; MAX_KEY + 1], Err("more than 16 KiB"));
        check(b"one\ntwo\n", Err("more than one line"));
        check(b"{\"accessToken\": \"x\"}", Err("blanks or characters that no key has"));
        check("schlüssel".as_bytes(), Err("blanks or characters that no key has"));
        check(b"a\0b", Err("blanks or characters that no key has"));
    }

    #[test]
    fn key_files_are_small_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let refused = |path: &Path| read_key_file(path).unwrap_err();
        assert!(refused(&path).contains("No such file"));
        assert!(refused(folder.path()).contains("regular file"));
        assert!(refused(Path::new("/dev/zero")).contains("regular file"));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(refused(&path).contains("regular file"), "opening a pipe would wait for a writer");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x".repeat(MAX_KEY + 1)).unwrap();
        assert!(refused(&path).contains("16 KiB"));
        fs::write(&path, "top\nsecret").unwrap();
        let reason = refused(&path);
        assert!(reason.contains("more than one line") && !reason.contains("top"), "{reason}");
    }

    async fn printed(command: &str, limit: Duration) -> Result<String, String> {
        let environment: Variables = [("NAME".into(), "from-env".into())].into();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("here"), "from-folder").unwrap();
        let read = run(command.into(), folder.path().to_path_buf(), environment, limit).await;
        read.map(|key| key.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn commands_are_bounded_and_their_output_is_not_in_errors() {
        let check = async |command: &str, expected: Result<&str, &str>| {
            let hangs = expected.is_err_and(|part| part.contains("500ms"));
            let limit = if hangs { Duration::from_millis(500) } else { Duration::from_secs(60) };
            match (printed(command, limit).await, expected) {
                (Ok(key), Ok(expected)) => assert_eq!(key, expected, "{command}"),
                (Err(reason), Err(part)) => {
                    assert!(reason.contains(part) && !reason.contains("hunter2"), "{command}: {reason}");
                }
                (found, _) => panic!("{command}: {found:?}"),
            }
        };
        check("echo hunter1", Ok("hunter1")).await;
        check("printf %s \"$NAME\"", Ok("from-env")).await;
        check("/bin/cat here", Ok("from-folder")).await;
        check("echo hunter2 >&2; echo hunter1", Ok("hunter1")).await;
        check("echo hunter2; exit 3", Err("exit code 3")).await;
        check("true", Err("printed nothing")).await;
        check("echo; echo; echo hunter1", Ok("hunter1")).await;
        check("echo hunter2; echo x", Err("more than one line")).await;
        check("while :; do echo hunter2hunter2; done", Err("did not end within 500ms")).await;
        check("/usr/bin/yes hunter2 | /usr/bin/tr -d '\\n' | /usr/bin/head -c 20000", Err("more than 16 KiB")).await;
        check("/usr/bin/head -c 200000 /dev/zero | /usr/bin/tr '\\0' k", Err("more than 16 KiB")).await;
        check("/bin/sleep 1000", Err("did not end within 500ms")).await;
        check("read -r answer </dev/tty && echo hunter2", Err("exit code")).await;
        check("read -r answer; echo \"hunter1$answer\"", Ok("hunter1")).await;
        check("kill -9 $$", Err("was killed")).await;
        check("/no/such/hunter2", Err("exit code 127")).await;
    }

    #[tokio::test]
    async fn processes_of_a_command_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let command = SecretString::from("/bin/sleep 1000 & echo $! > pid; echo key");
        let read = run(command, folder.path().to_path_buf(), BTreeMap::new(), Duration::from_secs(30)).await;
        assert_eq!(read.unwrap().expose_secret(), "key");
        let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        assert!(state.is_err() || state.as_ref().unwrap().contains(" Z "), "{state:?}");
    }
}
