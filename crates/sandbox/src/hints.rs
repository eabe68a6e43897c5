//! Hints for the model after a command failed at something that the sandbox forbids. They are guessed from words.

use std::path::Path;

use agentd_core::ports::Workspace;

use super::names::linked;

/// Bytes of the end of standard error that are looked at.
const LOOKED_AT: usize = 8 * 1024;

const NETWORK: &[&str] = &[
    "network is unreachable",
    "could not resolve",
    "couldn't resolve",
    "name resolution",
    "name or service not known",
    "getaddrinfo",
    "eai_again",
    "socket: operation not permitted",
    "dial tcp",
    "failed to lookup address",
    "couldn't connect",
    "could not connect",
    "unable to connect",
    "failed to connect",
    "create socket",
    "socket(",
];

const FILES: &[&str] =
    &["permission denied", "operation not permitted", "read-only file system", "eacces", "eperm", "erofs"];

const LIMITS: &[&str] = &[
    "cannot allocate memory",
    "memory exhausted",
    "file size limit exceeded",
    "file too large",
    "too many open files",
    "fork: resource temporarily unavailable",
    "fork: retry: resource temporarily unavailable",
];

/// Rights of a command.
#[derive(Debug, Clone, Copy)]
pub struct CommandRights {
    /// It could use the network.
    pub network: bool,
    /// It could change nothing, because no approval was given for it.
    pub read_only: bool,
}

/// One sentence for the model, if the words of a failed command look as if the sandbox had been in its way.
pub fn hint(stderr: &str, CommandRights { network, read_only }: CommandRights) -> Option<&'static str> {
    let mut start = stderr.len().saturating_sub(LOOKED_AT);
    while !stderr.is_char_boundary(start) {
        start += 1;
    }
    let said = stderr[start..].to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if read_only && (says(NETWORK) || says(FILES)) {
        return Some(
            "[this command ran without approval because it only reads: it can change nothing but a private /tmp, has no \
             network, and can read only the session's files and the system]",
        );
    }
    if !network && (says(NETWORK) || (said.contains("socket") && says(FILES))) {
        return Some(
            "[the sandbox forbids sockets: commands have no network. Work without it, or ask the person to set \
             sandbox.network in agentd.yaml]",
        );
    }
    if says(FILES) {
        return Some(
            "[the sandbox allows commands to change only /uploads, /outputs, /temp and a writable /project or /folders/NAME, and to read \
             these and the system. Work there, or ask the person to list the folder in sandbox.read or sandbox.write \
             in agentd.yaml]",
        );
    }
    says(LIMITS).then_some("[the sandbox limits memory, file sizes, open files and processes; do it in smaller pieces]")
}

/// One sentence for the model, if git failed because the repository of a folder lies outside of that.
pub fn repository_hint(stderr: &str, workspace: &Workspace) -> Option<String> {
    let is_writable = |path: &Path| workspace.writable_mounts().any(|mount| path.starts_with(mount));
    linked(workspace).into_iter().find_map(|(name, repository)| match repository {
        Some(repository) => {
            let shown = repository.to_str().filter(|shown| stderr.contains(*shown) && !is_writable(&repository))?;
            Some(format!(
                "[the repository of {name} is {shown}, outside of it, which commands can only read. Git can write there once \
                 the person adds that folder: --add-dir {shown}:rw]"
            ))
        }
        None => stderr.contains("not a git repository").then(|| {
            format!(
                "[{name}/.git leads to a folder that is not mounted, because it is no repository that names {name} in turn. \
                 The person can mend a worktree that was moved with `git worktree repair`, or add the folder of its \
                 repository with --add-dir]"
            )
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_refusals_are_known() {
        #[track_caller]
        fn check(stderr: &str, network: bool, expected: Option<&str>) {
            match (hint(stderr, CommandRights { network, read_only: false }), expected) {
                (Some(hint), Some(part)) => assert!(hint.contains(part), "{hint}"),
                (None, None) => {}
                (hint, _) => panic!("{stderr}: {hint:?}"),
            }
        }
        check("curl: (6) Could not resolve host: example.org", false, Some("no network"));
        check("PermissionError: [Errno 1] Operation not permitted: socket", false, Some("no network"));
        check("curl: (6) Could not resolve host: example.org", true, None);
        check("bash: /etc/x: Permission denied", false, Some("sandbox.write"));
        check("touch: cannot touch '/usr/x': Read-only file system", true, Some("/outputs"));
        check("bash: fork: Cannot allocate memory", false, Some("limits"));
        check("tail: memory exhausted", false, Some("limits"));
        check("bash: fork: retry: Resource temporarily unavailable", false, Some("processes"));
        check("error[E0308]: mismatched types", false, None);
        let unasked =
            hint("touch: cannot touch 'x': Read-only file system", CommandRights { network: false, read_only: true });
        assert!(unasked.unwrap().contains("ran without approval"), "{unasked:?}");
        check(&format!("ä{}", "x".repeat(LOOKED_AT - 1)), false, None);
    }
}
