//! Finds the processes that were started in a home, even if they have changed their environment since.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A process, as listed in `/proc`.
struct Process {
    parent: u32,
    /// The process group and the session of the process.
    groups: [u32; 2],
}

/// Returns the IDs of all processes that were started with this home, including descendants and members of their groups
/// and sessions. Processes whose command line contains the home are included with their descendants.
pub(crate) fn of_home(home: &Path) -> Vec<u32> {
    let live_processes = live_processes();
    // The test shares groups and sessions with its children. They also contain unrelated processes.
    let ours = live_processes.get(&std::process::id()).map(|us| us.groups).unwrap_or_default();
    let with = |is_known: &dyn Fn(u32) -> bool| live_processes.keys().copied().filter(|pid| is_known(*pid)).collect();
    let given = family(&live_processes, with(&|pid| has_home(pid, home)), |group| group > 1 && !ours.contains(&group));
    // A user may inspect the test's files from another terminal. Other processes in that terminal must not be killed.
    let named = family(&live_processes, with(&|pid| names(pid, home)), |_| false);
    given.union(&named).copied().collect()
}

/// Returns these processes with their descendants and the members of their groups and sessions. Groups and sessions for
/// which `is_followed` returns false are not followed.
fn family(
    live_processes: &BTreeMap<u32, Process>,
    mut found: BTreeSet<u32>,
    is_followed: impl Fn(u32) -> bool,
) -> BTreeSet<u32> {
    loop {
        let members = || found.iter().filter_map(|pid| live_processes.get(pid));
        let groups: BTreeSet<u32> = members().flat_map(|one| one.groups).filter(|group| is_followed(*group)).collect();
        let is_related =
            |one: &Process| found.contains(&one.parent) || one.groups.iter().any(|group| groups.contains(group));
        let new: Vec<u32> = live_processes
            .iter()
            .filter(|(pid, one)| !found.contains(pid) && is_related(one))
            .map(|(pid, _)| *pid)
            .collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

/// Returns true if `HOME` in the environment of the process is this folder.
fn has_home(pid: u32, home: &Path) -> bool {
    let given = [b"HOME=", home.as_os_str().as_encoded_bytes()].concat();
    read(pid, "environ").split(|byte| *byte == 0).any(|variable| variable == given)
}

/// Returns true if the command line of the process contains the path of this home.
fn names(pid: u32, home: &Path) -> bool {
    let home = home.as_os_str().as_encoded_bytes();
    read(pid, "cmdline").windows(home.len()).any(|part| part == home)
}

fn read(pid: u32, file: &str) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Returns all processes except zombies.
fn live_processes() -> BTreeMap<u32, Process> {
    let Ok(processes) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

fn process(stat: &str) -> Option<Process> {
    // The process name can contain anything, even a parenthesis.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let mut next = || fields.next()?.parse().ok();
    let process = Process { parent: next()?, groups: [next()?, next()?] };
    (!is_dead).then_some(process)
}

#[cfg(test)]
mod tests {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use crate::daemon::{Running, TempHome, until};

    #[tokio::test]
    async fn descendants_are_found_without_their_environment() {
        for (label, script) in [
            ("a child", "env -i sleep 1000 & read x"),
            ("an orphan in a session of the test", "setsid sh -c '(env -i sleep 1000 &); read x; sleep 1000' & read x"),
            ("an orphan that names the home", "(env -i setsid sh -c 'sleep 1000; :' \"$HOME\" &); read x"),
        ] {
            let home = TempHome::new();
            let mut command = home.command("sh");
            command.args(["-c", script]);
            let running = Running::spawn(command);
            let sleeps = |pid: &u32| {
                let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                read("cmdline").starts_with(b"sleep") && !read("environ").windows(5).any(|part| part == b"HOME=")
            };
            until(label, || async { home.processes().iter().any(sleeps).then_some(()) }).await;
            let all = home.processes();
            let is_fit = all.contains(&running.pid()) && !all.contains(&std::process::id());
            // `all` is collected before the kill, because the killed process is the only link between the others and
            // the test.
            for pid in all.iter().filter(|pid| is_fit && sleeps(pid)) {
                kill(Pid::from_raw(i32::try_from(*pid).unwrap()), Signal::SIGKILL).unwrap();
            }
            assert!(is_fit, "{label}: {all:?}");
        }
    }
}
