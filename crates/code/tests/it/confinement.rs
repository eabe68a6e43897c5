//! Tests for the privileges that a worker retains.

use std::{fs, path::PathBuf, process::Command};

/// Returns the path of an example in this crate, which is built together with the tests.
fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

#[test]
fn worker_can_only_read_its_folder() {
    let folder_above = tempfile::tempdir().unwrap();
    let folder = folder_above.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("inside"), "code").unwrap();
    fs::write(folder_above.path().join("other"), "secret").unwrap();
    let output =
        Command::new(example("code_probe")).args([&folder, &folder_above.path().join("other")]).output().unwrap();
    assert!(output.status.success(), "this system does not support confinement: {output:?}");
    let report = String::from_utf8(output.stdout).unwrap();
    let allowed: Vec<&str> = report.lines().filter(|line| line.ends_with(": allowed")).collect();
    assert_eq!(allowed, ["read a file of the folder: allowed", "list the folder: allowed"], "{report}");
    assert_eq!(fs::read_to_string(folder.join("inside")).unwrap(), "code");
    assert_eq!(report.lines().count(), 18);
}
